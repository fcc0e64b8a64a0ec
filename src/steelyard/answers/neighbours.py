"""Other programs on the machine: how long they worked, which side they met more, what they cost.

Foreign CPU time is that of other processes, and what the hypervisor gave to others.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from steelyard.answers import observations as obs
from steelyard.answers.noise.compute import step_s
from steelyard.answers.results import Comparison, Grounds
from steelyard.core.campaign import CampaignPlan
from steelyard.core.experiment import Experiment
from steelyard.core.findings import Verdict
from steelyard.core.measurement import Evidence, Quantity
from steelyard.core.schedule import sub_block_sizes
from steelyard.stats.intervals import FloatArray, Interval
from steelyard.stats.planning import BlockShape, Look, contrast_sd, look_half_width
from steelyard.stats.turns import interval_of_changes

DOUBT_SHARE: Final = 0.25  # of the end of an effect's interval that is nearer to zero
BUSY_SHARE: Final = 0.05  # of the CPUs


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignDifference:
    """By how much the foreign CPU time of the two sides of a result differs.

    Attributes:
        result: It concerns.
        share: Foreign CPU time beside the configuration minus that beside the baseline, over the
            CPU time that server and generator of both used: positive where the configuration met
            more. Mean over blocks with its interval at level 1 %; None with too few blocks.
        waited: By how much more the configuration's processes had to wait for a CPU than the
            baseline's: ln of the ratio of (CPU time + wait) / CPU time, mean over blocks, with time
            in run queues and what the hypervisor took as the wait. None: the kernel tells none.
        blocks: That have a share.
        limit: From which on either is a reason for doubt.
    """

    result: Comparison
    share: Interval | None
    waited: float | None
    blocks: int
    limit: float

    @property
    def is_suspect(self) -> bool:
        """Return whether the interval of the share lies wholly beyond the limit, on either side.

        Others slow down whoever waits for a CPU: where the side that met more of them did not, they
        took what it left.
        """
        share, limit = self.share, self.limit
        if share is None or (share.low <= limit and share.high >= -limit):
            return False
        return self.waited is None or self.waited * math.copysign(1.0, share.estimate) > limit


def foreign_differences(
    seen: obs.Observations, experiment: Experiment, results: tuple[Comparison, ...]
) -> Iterator[ForeignDifference]:
    """Yield the difference of each result whose verdict it may put in doubt.

    Had both sides met the same foreign load, one would have had so much more of its CPU time, and
    the other less. Where neighbours alone made a log ratio L, the share is tanh(L / 2) for servers
    that need as much CPU time per transaction, twice the limit of L / 4. Beside an effect it is
    small: with `synchronous_commit` on and off (+130 %) and a process that took whatever CPU time
    was free, it was 0.13, and the limit 0.17. Where such processes take all CPUs, or the effect is
    larger, the share alone cannot tell a side that waits for something else from one that they keep
    waiting; the time in run queues can.
    """
    closed = seen.of_closed_loops()
    foreign = obs.by_block(closed, partial(_per_s, of=_foreign_s))
    own = obs.by_block(closed, partial(_per_s, of=_own_s))
    waiting = obs.by_block(closed, partial(_per_s, of=_waited_s))
    by_name = {(each.workload, each.baseline, each.configuration): each for each in results}
    for workload in experiment.workloads:
        columns = closed.columns_of(workload.name)
        for asked in obs.result_contrasts(experiment) if columns else ():
            result = by_name.get((workload.name, asked.baseline, asked.configuration))
            limit = None if result is None else _limit(result, experiment.stop.margin)
            if result is None or limit is None:
                continue
            met, used, waited = (
                np.stack(obs.side_means(each[:, :, columns].sum(axis=2), asked))
                for each in (foreign, own, waiting)
            )
            known = _finite((met[1] - met[0]) / used.sum(axis=0))
            longer = _finite(np.diff(np.log1p(waited / used), axis=0)[0])
            yield ForeignDifference(
                result=result,
                share=interval_of_changes(known),
                waited=float(longer.mean()) if len(longer) else None,
                blocks=len(known),
                limit=limit,
            )


def _limit(result: Comparison, margin: float) -> float | None:
    """Return the limit of a verdict's doubt, ln; None if it is not decided."""
    if result.verdict is Verdict.EQUIVALENT:
        return DOUBT_SHARE * math.log1p(margin)
    effect = result.effect
    if not result.verdict.decided or effect is None or effect.low is None or effect.high is None:
        return None
    return DOUBT_SHARE * min(abs(math.log1p(end)) for end in (effect.low, effect.high))


def _finite(values: FloatArray) -> FloatArray:
    return values[np.isfinite(values)]


def _per_s(runs: obs.RunsOfBlock, of: Callable[[Evidence], float | None]) -> float | None:
    """Return the seconds of something per second of a block's runs."""
    seen = [run.evidence for run in runs if run.evidence is not None]
    seconds, used = sum(each.seconds for each in seen), obs.sum_of([of(each) for each in seen])
    return used / seconds if used is not None and len(seen) == len(runs) and seconds else None


def _foreign_s(seen: Evidence) -> float | None:
    used_s, stolen_s = seen.foreign_cpu_s, seen.total(Quantity.CPU_STEAL_S)
    return None if used_s is None else used_s + (stolen_s or 0.0)  # not every kernel tells of steal


def _own_s(seen: Evidence) -> float | None:
    own = Quantity.SERVER_CPU_S, Quantity.GENERATOR_CPU_S
    return obs.sum_of([seen.total(each) for each in own])


def _waited_s(seen: Evidence) -> float | None:
    queues = Quantity.SERVER_RUN_QUEUE_S, Quantity.GENERATOR_RUN_QUEUE_S
    queued_s = obs.sum_of([seen.total(each) for each in queues])
    return None if queued_s is None else queued_s + (seen.total(Quantity.CPU_STEAL_S) or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherPrograms:
    """How other programs disturbed a campaign.

    Attributes:
        busy: Share of the measured time in which other processes took more than 5 % of the CPUs;
            None where nobody saw them.
        wider: Of each result how many times as wide its interval is as the noise profile of this
            place says that was stored before the campaign; empty without one.
    """

    busy: float | None
    wider: tuple[tuple[Comparison, float], ...]


def other_programs(grounds: Grounds) -> OtherPrograms | None:
    """Return how other programs disturbed a campaign; None if that is not known."""
    spans = [span for run in grounds.analysis.runs if run.evidence for span in _spans(run.evidence)]
    whole_s = sum(seconds for seconds, _ in spans)
    busy_s = sum(seconds for seconds, share in spans if share > BUSY_SHARE)
    plan = grounds.analysis.plan
    wider = () if plan is None else tuple(_wider(grounds, plan))
    busy = busy_s / whole_s if whole_s else None
    return None if busy is None and not wider else OtherPrograms(busy=busy, wider=wider)


def _spans(seen: Evidence) -> Iterator[tuple[float, float]]:
    """Yield seconds of a run, and the share of the CPUs that others took: by rows of its timeline.

    What no process used, and the kernel's threads, are taken as spread evenly over the run.
    """
    cpus, foreign_s = seen.level(Quantity.CPUS), seen.foreign_cpu_s
    others_s = seen.total(Quantity.OTHERS_CPU_S)
    if not cpus or foreign_s is None or others_s is None or seen.seconds <= 0:
        return
    host, unnamed = seen.series_of("host"), (others_s - foreign_s) / seen.seconds
    if host is None or Quantity.OTHERS_CPU_S not in host.names:
        yield seen.seconds, foreign_s / (cpus * seen.seconds)
        return
    column = host.names.index(Quantity.OTHERS_CPU_S)
    for begun_s, ended_s, row in zip((0.0, *host.end_s), host.end_s, host.rows, strict=False):
        used_s, seconds = row[column], ended_s - begun_s
        if used_s is not None and seconds > 0:
            yield seconds, (used_s / seconds - unnamed) / cpus


def _wider(grounds: Grounds, plan: CampaignPlan) -> Iterator[tuple[Comparison, float]]:
    """Yield the results whose workload a stored profile knows, and the ratio of half-widths."""
    experiment = grounds.record.experiment
    weights = {
        (asked.baseline, asked.configuration): asked.weights
        for asked in obs.result_contrasts(experiment)
    }
    noises = {noise.workload: noise for noise in plan.noise}
    arms = len(experiment.configurations)
    for result in grounds.analysis.results:
        noise, effect = noises.get(result.workload), result.effect
        if noise is None or not result.level or effect is None:
            continue
        if effect.low is None or effect.high is None:
            continue
        shape = BlockShape(
            mode=plan.mode,
            configurations=arms,
            cells=len(experiment.closed_loads),
            run_time_s=experiment.run_time_s(result.workload),
            step_s=step_s(experiment, plan.mode, plan.block_s, arms),
            rounds=plan.rounds,
            turns=experiment.measure.turns,
            sub_blocks=sub_block_sizes(arms - 1, plan.at_once) if plan.at_once else (),
            base=grounds.seen.configurations.index(experiment.baseline),
        )
        own = weights[result.baseline, result.configuration]
        foretold = look_half_width(
            Look(blocks=result.blocks, level=result.level),
            contrast_sd(noise, shape, pooled=True, weights=own),
        )
        half = (math.log1p(effect.high) - math.log1p(effect.low)) / 2.0
        if foretold > 0.0:
            yield result, half / foretold
