"""Other programs on the machine: how long they worked, which side they met more, what they cost.

Foreign CPU time is that of other processes, and what the hypervisor gave to others.
"""

import math
from collections.abc import Iterator
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
from steelyard.stats.intervals import Interval
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
        blocks: That have a value.
        limit: From which on it is a reason for doubt.
    """

    result: Comparison
    share: Interval | None
    blocks: int
    limit: float

    @property
    def is_suspect(self) -> bool:
        """Return whether the interval lies wholly beyond the limit, on either side of zero."""
        return self.share is not None and (
            self.share.low > self.limit or self.share.high < -self.limit
        )


def foreign_differences(
    seen: obs.Observations, experiment: Experiment, results: tuple[Comparison, ...]
) -> Iterator[ForeignDifference]:
    """Yield the difference of each result whose verdict it may put in doubt.

    Had both sides met the same foreign load, one would have had so much more of its CPU time, and
    the other less. Where neighbours alone made a log ratio L, the share is tanh(L / 2) for servers
    that need as much CPU time per transaction, twice the limit of L / 4. Beside an effect it is
    small: with `synchronous_commit` on and off (+130 %) and a process that took whatever CPU time
    was free, it was 0.13, and the limit 0.17.
    """
    closed = seen.of_closed_loops()
    foreign = obs.by_block(closed, partial(_per_s, foreign=True))
    own = obs.by_block(closed, partial(_per_s, foreign=False))
    by_name = {(each.workload, each.baseline, each.configuration): each for each in results}
    for workload in experiment.workloads:
        columns = closed.columns_of(workload.name)
        for asked in obs.result_contrasts(experiment) if columns else ():
            result = by_name.get((workload.name, asked.baseline, asked.configuration))
            limit = None if result is None else _limit(result, experiment.stop.margin)
            if result is None or limit is None:
                continue
            theirs, mine = obs.side_means(foreign[:, :, columns].sum(axis=2), asked)
            used = sum(obs.side_means(own[:, :, columns].sum(axis=2), asked))
            shares = (mine - theirs) / used
            known = shares[np.isfinite(shares)]
            yield ForeignDifference(
                result=result, share=interval_of_changes(known), blocks=len(known), limit=limit
            )


def _limit(result: Comparison, margin: float) -> float | None:
    """Return the limit of a verdict's doubt, ln; None if it is not decided."""
    if result.verdict is Verdict.EQUIVALENT:
        return DOUBT_SHARE * math.log1p(margin)
    effect = result.effect
    if not result.verdict.decided or effect is None or effect.low is None or effect.high is None:
        return None
    return DOUBT_SHARE * min(abs(math.log1p(end)) for end in (effect.low, effect.high))


def _per_s(runs: obs.RunsOfBlock, *, foreign: bool) -> float | None:
    """Return CPU seconds per second: foreign ones, or those of server and load generator."""
    seen = [run.evidence for run in runs if run.evidence is not None]
    seconds = sum(each.seconds for each in seen)
    used = obs.sum_of([_foreign_s(each) if foreign else _own_s(each) for each in seen])
    return used / seconds if used is not None and len(seen) == len(runs) and seconds else None


def _foreign_s(seen: Evidence) -> float | None:
    used_s, stolen_s = seen.foreign_cpu_s, seen.total(Quantity.CPU_STEAL_S)
    return None if used_s is None else used_s + (stolen_s or 0.0)  # not every kernel tells of steal


def _own_s(seen: Evidence) -> float | None:
    own = Quantity.SERVER_CPU_S, Quantity.GENERATOR_CPU_S
    return obs.sum_of([seen.total(each) for each in own])


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
