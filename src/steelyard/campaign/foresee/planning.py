"""What an experiment can decide, how long that takes, and what other designs would; nothing runs.

Campaigns of each design are simulated (``stats.planning``).

How many workers a load needs follows from a trial, which is any campaign of the same scripts: the
generator's CPU time per transaction depends on them, and neither on the server nor on the data.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import Final

import numpy as np

from steelyard.answers.attribution import synergies
from steelyard.answers.observations import level, result_contrasts, whole_transactions
from steelyard.answers.outlook import compute
from steelyard.answers.outlook.compute import Forecast
from steelyard.campaign.design.noise_profiles import content_of, profile_for
from steelyard.campaign.design.schedule import GUESSED_SWITCH_S, run_s
from steelyard.campaign.evidence.run_rules import SATURATED_SHARE
from steelyard.campaign.foresee.forecast import forecast, forecast_either, known_turns
from steelyard.core.campaign import CampaignRecord, NoiseOrigin, NoiseProfile, WorkloadNoise
from steelyard.core.experiment import Design, Experiment, Workload
from steelyard.core.findings import Estimate
from steelyard.core.measurement import Quantity, Run
from steelyard.core.schedule import Load, Mode, sub_block_sizes
from steelyard.core.wording import InputError
from steelyard.stats import planning
from steelyard.targets.assembly import Assembly
from steelyard.targets.differences import DesignChoice, choose_design

PLANNED_SHARE: Final = 0.8  # of a CPU; a guess: clear of where a run becomes invalid


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A design that could be taken in place of the file's, which has no change."""

    change: str
    experiment: Experiment
    campaigns: int = 1


def _candidates(
    experiment: Experiment, assembly: Assembly, noise: NoiseProfile
) -> Iterator[_Candidate]:
    """Yield the design of the file, and others that cost less.

    In turns where the file asks for another design: only where the noise was measured, because the
    assumed noises of the two designs are those of two machines.
    """
    yield _Candidate(change="", experiment=experiment)
    turned = replace(experiment, design=Design.AUTO)
    if (
        experiment.design is Design.ONE_BY_ONE
        and noise.origin is NoiseOrigin.MEASURED
        and _choice(turned, assembly).alternates
    ):
        yield _Candidate(change="`design: auto`, in turns", experiment=turned)
    loads = experiment.closed_loads
    if len(loads) > 1:
        alone = replace(experiment, loads=(loads[len(loads) // 2],))
        yield _Candidate(change=f"one load: {alone.loads[0].label}", experiment=alone)
    if (count := len(experiment.workloads)) > 1:
        noisiest = max(experiment.workloads, key=lambda each: noise.of(each.name).restart_sd)
        change = f"{count} campaigns of one workload each"
        single = replace(experiment, workloads=(noisiest,))
        yield _Candidate(change=change, experiment=single, campaigns=count)


def _choice(experiment: Experiment, assembly: Assembly) -> DesignChoice:
    turns = known_turns(experiment, assembly.engine)
    return choose_design(experiment, assembly.engine, assembly.room, turns)


def _design(
    candidate: _Candidate, assembly: Assembly, noise: NoiseProfile
) -> compute.DesignOutlook:
    """Return how many campaigns of a design detect the effect asked for in every result."""
    experiment = candidate.experiment
    expected = forecast(experiment, assembly, measured=noise)
    decide = experiment.stop.detect
    alike = {
        (replace(noise.of(each.name), workload=""), experiment.run_time_s(each.name)): each.name
        for each in experiment.workloads
    }
    found = [
        compute.outlook(part, outlook_terms(experiment, expected, name), (decide,), pooled=True).at(
            decide
        )
        for (part, _), name in alike.items()
    ]
    needed = [each.needed_s for each in found if each.needed_s is not None]
    return compute.DesignOutlook(
        change=candidate.change,
        campaigns=candidate.campaigns,
        within_budget=min(each.within_budget for each in found),
        needed_s=max(needed) if len(needed) == len(found) else None,
    )


def plan_campaign(
    experiment: Experiment,
    assembly: Assembly,
    *,
    effects: Sequence[float] = (),
    trial: CampaignRecord | None = None,
) -> compute.CampaignOutlook:
    """Return what a campaign would take and could say.

    Asked about are ``effects``, or the usual ones and other designs, beside ``stop.detect``.

    Raises:
        InputError: The file asks for a switch that is too cheap, or a trial is of other work.
    """
    noise = profile_for(experiment, in_turns=_choice(experiment, assembly).alternates)
    expected = forecast_either(experiment, assembly, measured=noise)
    compared = experiment.compares_throughput and not experiment.is_single_pass
    asked = tuple(sorted({*(effects or compute.EFFECTS), experiment.stop.detect}))
    found = compute.CampaignOutlook(
        experiment=experiment,
        expected=expected,
        noise=noise,
        workloads=_workloads(experiment, expected, noise, asked) if compared else (),
        generators=None if trial is None else generator_needs(experiment, trial),
    )
    if not found.workloads:
        return found
    candidates = islice(_candidates(experiment, assembly, noise), None if effects == () else 1)
    return replace(found, designs=tuple(_design(each, assembly, noise) for each in candidates))


def outlook_terms(
    experiment: Experiment, expected: Forecast, workload: str
) -> compute.OutlookTerms:
    """Return the design of a workload as the arithmetic of its minutes needs it."""
    arms = len(experiment.configurations)
    starts = expected.mode is Mode.STARTS
    shape = planning.BlockShape(
        mode=expected.mode,
        configurations=arms,
        cells=max(len(experiment.closed_loads), 1),
        run_time_s=experiment.run_time_s(workload),
        step_s=expected.block_s / arms
        if starts
        else run_s(experiment, workload) + GUESSED_SWITCH_S,
        turns=experiment.measure.turns,
        rounds=expected.rounds.number,
        sub_blocks=sub_block_sizes(arms - 1, expected.at_once) if expected.at_once else (),
        base=[each.name for each in experiment.configurations].index(experiment.baseline),
    )
    return compute.OutlookTerms(
        shape=shape,
        results=expected.stopping.results,
        preparation_s=expected.preparation_s,
        block_s=expected.block_s,
        short=expected.short,
        budget_s=experiment.stop.budget_s,
        max_blocks=expected.max_blocks,
        first_look=expected.stopping.first_look,
        precision=experiment.stop.width,
        # All results of a design have the same sum of squares.
        weights=next((asked.weights for asked in result_contrasts(experiment)), planning.PAIR),
        is_fixed=experiment.stop.blocks is not None,
    )


def synergy_terms(
    experiment: Experiment, terms: compute.OutlookTerms
) -> compute.OutlookTerms | None:
    """Return the same for a synergy of two factors; None where the design tells none.

    The synergies of all workloads share an error of their own, as in the report.
    """
    told = synergies(experiment.attribution) if experiment.attribution else ()
    if not told:
        return None
    weights = tuple(float(weight) for weight in told[0][1])
    return replace(terms, weights=weights, results=len(told) * len(experiment.workloads))


def _workloads(
    experiment: Experiment,
    expected: Forecast,
    noise: NoiseProfile,
    effects: tuple[float, ...],
) -> tuple[compute.WorkloadOutlook, ...]:
    def kind(workload: Workload) -> tuple[WorkloadNoise, float]:
        return replace(noise.of(workload.name), workload=""), experiment.run_time_s(workload.name)

    def seen(part: WorkloadNoise, names: tuple[str, ...]) -> compute.WorkloadOutlook:
        terms = outlook_terms(experiment, expected, names[0])
        several = len(experiment.closed_loads) > 1
        pairs = synergy_terms(experiment, terms)
        return compute.WorkloadOutlook(
            names=names,
            noise=part,
            pooled=compute.outlook(part, terms, effects, pooled=True),
            cells=compute.outlook(part, terms, effects, pooled=False) if several else None,
            synergies=compute.outlook(part, pairs, effects, pooled=True) if pairs else None,
            precision_s=compute.precision_s(part, terms),
        )

    return tuple(
        seen(part, tuple(workload.name for workload in group))
        for (part, _), group in groupby(experiment.workloads, key=kind)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A configuration of a trial under one load.

    Attributes:
        machine_cpus: Of one of the machines that the load came from.
    """

    load: Load
    cpu_s: Estimate
    tps: float
    is_limit: bool
    machine_cpus: float


def generator_needs(
    experiment: Experiment, trial: CampaignRecord
) -> tuple[compute.GeneratorNeed, ...]:
    """Return what each load asks of its generator, for the workloads that a trial had, too.

    Raises:
        InputError: It had none of them, or did not measure the generator.
    """
    by_content: dict[str, list[_Seen]] = defaultdict(list)
    for workload in trial.experiment.workloads:
        by_content[_scripts_of(workload)] += _seen_in(trial, workload.name)
    needs = tuple(
        _need(workload.name, load, seen)
        for workload in experiment.workloads
        if (seen := by_content.get(_scripts_of(workload)))
        for load in experiment.loads
    )
    if not needs:
        raise InputError(
            f"the trial `{trial.experiment.name}` did not measure the CPU time of a load generator"
            " under any of these workloads",
            hint="Name a campaign with the same scripts, such as one of `steelyard run FILE"
            " --short`.",
        )
    return needs


def _scripts_of(workload: Workload) -> str:
    return content_of(replace(workload, scale=None, prepare=()))


def _seen_in(trial: CampaignRecord, workload: str) -> Iterator[_Seen]:
    """Yield what each configuration did under each load, also in runs that do not count."""
    groups: dict[tuple[str, Load], list[Run]] = defaultdict(list)
    for run in trial.runs:
        if run.cell.workload == workload:
            groups[run.configuration, run.cell.load].append(run)
    discard_s = trial.experiment.measure.discard_start_s
    for (_, load), runs in groups.items():
        if (seen := _seen_under(load, runs, discard_s)) is not None:
            yield seen


def _seen_under(load: Load, runs: Sequence[Run], discard_s: float) -> _Seen | None:
    costs, rates, shares, cpus = [], [], [], 0.0
    for run in runs:
        evidence, transactions = run.evidence, whole_transactions(run, discard_s)
        used_s = None if evidence is None else evidence.total(Quantity.GENERATOR_CPU_S)
        if evidence is None or run.measurement is None or not used_s or not transactions:
            continue
        own = evidence.level(Quantity.GENERATOR_CPUS)
        machine = own or evidence.level(Quantity.CPUS)
        if not machine or evidence.seconds <= 0.0:
            continue
        usable = min(float(max(load.threads, load.generators)), machine)
        costs.append(used_s / transactions)
        rates.append(run.measurement.tps)
        shares.append(used_s / (usable * evidence.seconds))
        workers = evidence.level(Quantity.WORKERS) or 1.0
        cpus = machine / workers if own else machine
    cost = level(np.array(costs))
    if cost is None:
        return None
    return _Seen(
        load=load,
        cpu_s=cost,
        tps=float(np.median(rates)),
        is_limit=float(np.median(shares)) >= SATURATED_SHARE,
        machine_cpus=cpus,
    )


def _need(workload: str, load: Load, seen: Sequence[_Seen]) -> compute.GeneratorNeed:
    """Return what a load needs, by the configuration that asks most of the generator."""
    same = [each for each in seen if _clients_of(each.load) == _clients_of(load)]
    at_most = [_in_proportion(each, load) for each in seen if not each.load.is_open]
    costliest = max(same or seen, key=lambda each: each.cpu_s.value)
    if load.rate_per_s is not None:
        tps, rate_from, limit = load.rate_per_s, compute.RateFrom.FILE, False
    elif same or not at_most:
        fastest = max(same or seen, key=lambda each: each.tps)
        tps, rate_from, limit = fastest.tps, compute.RateFrom.TRIAL, fastest.is_limit
    else:
        (tps, limit), rate_from = max(at_most), compute.RateFrom.CLIENTS
    cost_s = costliest.cpu_s.high or costliest.cpu_s.value
    planned = tps * cost_s / PLANNED_SHARE
    return compute.GeneratorNeed(
        workload=workload,
        load=load,
        cpu_s=costliest.cpu_s,
        tps=tps,
        rate_from=rate_from,
        is_limit=limit,
        cpus=tps * costliest.cpu_s.value,
        machine_cpus=costliest.machine_cpus,
        threads=max(math.ceil(planned), 1),
        workers=max(math.ceil(planned / costliest.machine_cpus), 1),
    )


def _clients_of(load: Load) -> Load:
    """Return what a load asks of the server, however many threads ask it."""
    return replace(load, threads=1, generators=1)


def _in_proportion(seen: _Seen, load: Load) -> tuple[float, bool]:
    """Return the most that other clients do: as much each as those of the trial did."""
    return seen.tps * max(load.clients / seen.load.clients, 1.0), seen.is_limit
