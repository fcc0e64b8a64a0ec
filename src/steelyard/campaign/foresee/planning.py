"""What an experiment can decide, how long that takes, and what would be cheaper; nothing runs.

Designs that decide what the budget of a file does not are computed, and not recommended by rote.

How many workers a load needs follows from a trial, which is any campaign of the same scripts: the
generator's CPU time per transaction depends on them, and neither on the server nor on the data.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

import numpy as np

from steelyard.answers.attribution import synergies
from steelyard.answers.observations import level, result_contrasts, whole_transactions
from steelyard.answers.outlook import compute
from steelyard.answers.outlook.compute import Forecast
from steelyard.campaign.design.noise_profiles import content_of, profile_for
from steelyard.campaign.design.schedule import GUESSED_SWITCH_S, mode_for, run_s
from steelyard.campaign.evidence.run_rules import SATURATED_SHARE
from steelyard.campaign.foresee.forecast import forecast, forecast_either
from steelyard.core.campaign import (
    LEAST_STARTS,
    CampaignRecord,
    NoiseOrigin,
    NoiseProfile,
    WorkloadNoise,
)
from steelyard.core.experiment import Attribution, AttributionKind, Design, Experiment, Workload
from steelyard.core.findings import Estimate
from steelyard.core.measurement import Quantity, Run
from steelyard.core.schedule import Load, Mode, sub_block_sizes
from steelyard.core.wording import InputError
from steelyard.stats import factorial, planning
from steelyard.targets.assembly import Assembly
from steelyard.targets.differences import choose_design, switch_cost

_WORTH_SAYING = 0.9  # of the time that the file's own design needs: a guess
_MOST_SAID = 3
_LOADS_NAMED = 4
PLANNED_SHARE: Final = 0.8  # of a CPU; a guess: clear of where a run becomes invalid


@dataclass(frozen=True, slots=True, kw_only=True)
class _Variant:
    """A changed experiment.

    Attributes:
        change: What was changed, in words.
        alike: Of variants that differ in one number only, the best stands for all.
    """

    change: str
    experiment: Experiment
    campaigns: int = 1
    alike: str = ""


def cheaper_designs(
    found: compute.CampaignOutlook, assembly: Assembly
) -> tuple[compute.CheaperDesign, ...]:
    """Return what decides ``stop.detect`` where the budget does not, cheapest first.

    The last of each scope is the file's own design with the budget that it needs.
    """
    if not found.workloads or (found.decides_results and found.decides_cells):
        return ()
    variants = list(_variants(found, assembly))
    designs: list[compute.CheaperDesign] = []
    if not found.decides_results:
        designs += _designs(found, variants, assembly, pooled=True)
    elif not found.decides_cells:
        designs += _instead_of_cells(found)
    if not found.decides_cells:
        designs += _designs(found, variants, assembly, pooled=False)
    return tuple(designs)


def _instead_of_cells(found: compute.CampaignOutlook) -> Iterator[compute.CheaperDesign]:
    decide = found.experiment.stop.detect
    needed = [each.pooled.at(decide).most_s for each in found.workloads]
    known = [seconds for seconds in needed if seconds is not None]
    if len(known) == len(needed):
        change = "the overall result only, not each load"
        yield compute.CheaperDesign(pooled=True, change=change, needed_s=max(known))


def _designs(
    found: compute.CampaignOutlook,
    variants: Sequence[_Variant],
    assembly: Assembly,
    *,
    pooled: bool,
) -> list[compute.CheaperDesign]:
    own = _Variant(change="", experiment=found.experiment)
    made: dict[str, list[compute.CheaperDesign]] = {}
    for variant in (own, *variants):
        seconds = _needed_s(found, variant.experiment, assembly, pooled=pooled)
        if seconds is not None:
            design = compute.CheaperDesign(
                pooled=pooled,
                change=variant.change or f"`--budget {math.ceil(seconds / 300.0) * 5}m` alone",
                needed_s=seconds,
                campaigns=variant.campaigns,
            )
            made.setdefault(variant.alike or variant.change, []).append(design)
    budget_s = found.experiment.stop.budget_s
    longer = made.pop(own.change, [])
    limit = longer[0].needed_s * _WORTH_SAYING if longer else math.inf
    best = []
    for alike in made.values():  # the first that fits into the budget gives up least
        fitting = [design for design in alike if design.needed_s <= budget_s]
        best.append(fitting[0] if fitting else min(alike, key=lambda design: design.needed_s))
    worth = [design for design in best if design.needed_s * design.campaigns < limit]
    worth.sort(key=lambda design: design.needed_s * design.campaigns)
    return [*worth[:_MOST_SAID], *longer]


def _needed_s(
    found: compute.CampaignOutlook, experiment: Experiment, assembly: Assembly, *, pooled: bool
) -> float | None:
    """Return the budget that decides every workload; None where no reachable one does."""
    expected = forecast(experiment, assembly, measured=found.noise)
    noise, length_s = found.noise.of, experiment.run_time_s
    alike = {
        (replace(noise(each.name), workload=""), length_s(each.name)): each.name
        for each in experiment.workloads
    }
    decide = experiment.stop.detect
    needed = [
        compute.needed_s(noise, outlook_terms(experiment, expected, name), decide, pooled=pooled)
        for (noise, _), name in alike.items()
    ]
    known = [seconds for seconds in needed if seconds is not None]
    return max(known) if len(known) == len(needed) else None


def _variants(found: compute.CampaignOutlook, assembly: Assembly) -> Iterator[_Variant]:
    experiment = found.experiment
    yield from _fewer_loads(experiment)
    if len(experiment.workloads) > 1:
        yield from _workload_each(found)
    if experiment.attribution is not None:
        yield from _fewer_factors(experiment, experiment.attribution)
    elif len(experiment.contenders) > 1:
        yield _contender_each(experiment)
    yield from _alternating(found, assembly)
    yield from _back_to_back(found, assembly)
    yield from _better_slice(found)


def _fewer_loads(experiment: Experiment) -> Iterator[_Variant]:
    """Yield the design with half of its closed loads, a quarter and so on, the largest first."""
    loads, open_loops = experiment.closed_loads, [x for x in experiment.loads if x.is_open]
    count = len(loads) // 2
    while count:
        # From the whole range; a single one is the middle.
        last, places = len(loads) - 1, [len(loads) // 2]
        if count > 1:
            places = [round(at * last / (count - 1)) for at in range(count)]
        kept = tuple(loads[place] for place in places)
        named = f" ({', '.join(load.label for load in kept)})" if count <= _LOADS_NAMED else ""
        noun = "load" if count == 1 else "loads"
        yield _Variant(
            change=f"{count} {noun} instead of {len(loads)}{named}",
            experiment=replace(experiment, loads=(*kept, *open_loops)),
            alike="fewer loads",
        )
        count //= 2


def _workload_each(found: compute.CampaignOutlook) -> Iterator[_Variant]:
    """Yield the noisiest workload alone: the others need no longer."""
    experiment = found.experiment
    noisiest = max(found.workloads, key=lambda each: each.pooled.contrast_sd).names[0]
    alone = replace(experiment, workloads=(experiment.workload(noisiest),))
    count = len(experiment.workloads)
    yield _Variant(
        change=f"{count} campaigns of one workload each, every one with its own error of 5 %",
        experiment=alone,
        campaigns=count,
    )


def _contender_each(experiment: Experiment) -> _Variant:
    pair = (experiment.baseline, experiment.contenders[0])
    alone = replace(
        experiment, configurations=tuple(t for t in experiment.configurations if t.name in pair)
    )
    count = len(experiment.contenders)
    return _Variant(
        change=f"{count} campaigns of one contender each, every one with its own error of 5 %",
        experiment=alone,
        campaigns=count,
    )


def _fewer_factors(experiment: Experiment, attribution: Attribution) -> Iterator[_Variant]:
    """Yield the design without its last factor, or as many as make it smaller."""
    factors = attribution.factors
    for kept in range(len(factors) - 1, 0, -1):
        smaller = _with_factors(attribution, kept)
        places = _places_in(attribution, smaller)
        if places is None or len(places) == len(attribution.combinations):
            continue
        configurations = tuple(experiment.configurations[place] for place in places)
        left_out = ", ".join(factor.name for factor in factors[kept:])
        noun = "factor" if kept == 1 else "factors"
        yield _Variant(
            change=f"{kept} {noun} instead of {len(factors)} (without {left_out})",
            experiment=replace(experiment, configurations=configurations, attribution=smaller),
            alike="fewer factors",
        )


def _with_factors(attribution: Attribution, kept: int) -> Attribution:
    match attribution.kind:
        case AttributionKind.FACTORS:
            design = factorial.factorial_design(kept)
            combinations, words, resolution = design.combinations, design.words, design.resolution
        case AttributionKind.LADDER:
            combinations, words, resolution = factorial.ladder(kept), (), None
        case AttributionKind.ABLATION:
            combinations, words, resolution = factorial.ablation(kept), (), None
    return replace(
        attribution,
        factors=attribution.factors[:kept],
        combinations=combinations,
        words=words,
        resolution=resolution,
    )


def _places_in(attribution: Attribution, smaller: Attribution) -> list[int] | None:
    """Return where the combinations of a smaller design are; None where one was never planned.

    What is left out stays at its first level; where factors are taken from all, at its second.
    """
    level = int(attribution.kind is AttributionKind.ABLATION)
    rest = (level,) * (len(attribution.factors) - len(smaller.factors))
    wanted = [(*combination, *rest) for combination in smaller.combinations]
    known = list(attribution.combinations)
    return [known.index(each) for each in wanted] if set(wanted) <= set(known) else None


def _alternating(found: compute.CampaignOutlook, assembly: Assembly) -> Iterator[_Variant]:
    """Yield the design in turns where the file asks for another and the noise was measured.

    The assumed noises of the two designs are those of two machines.
    """
    experiment = found.experiment
    measured = found.noise.origin is NoiseOrigin.MEASURED
    if experiment.design is not Design.ONE_BY_ONE or not measured:
        return
    turned = replace(experiment, design=Design.AUTO)
    if choose_design(turned, assembly.engine, assembly.room).alternates:
        yield _Variant(change="no `design: one-by-one` in the file: alternating", experiment=turned)


def _back_to_back(found: compute.CampaignOutlook, assembly: Assembly) -> Iterator[_Variant]:
    """Yield the design without the restarts that the file asks for and the differences do not."""
    experiment = found.experiment
    if experiment.measure.switch is None or found.expected.mode is not Mode.STARTS:
        return
    needed = replace(experiment, measure=replace(experiment.measure, switch=None))
    if mode_for(switch_cost(needed, assembly.engine)) is Mode.BACK_TO_BACK:
        yield _Variant(change="no `switch:` in the file: back to back", experiment=needed)


def _better_slice(found: compute.CampaignOutlook) -> Iterator[_Variant]:
    experiment = found.experiment
    own = any(each.run_time_s is not None for each in experiment.workloads)
    if own or not all(each.slices.advised for each in found.workloads):
        return
    run_time_s = max(each.slices.best_s for each in found.workloads)
    if run_time_s != experiment.measure.run_time_s:
        changed = replace(experiment, measure=replace(experiment.measure, run_time_s=run_time_s))
        what = "turns" if found.expected.mode is Mode.ALTERNATING else "slices"
        yield _Variant(change=f"{what} of {run_time_s:.0f} s", experiment=changed)


def plan_campaign(
    experiment: Experiment,
    assembly: Assembly,
    *,
    effects: Sequence[float] = (),
    trial: CampaignRecord | None = None,
) -> compute.CampaignOutlook:
    """Return what a campaign would take and could say.

    Asked about are ``effects``, or the usual ones, beside ``stop.detect``.

    Raises:
        InputError: The file asks for a switch that is too cheap, or a trial is of other work.
    """
    choice = choose_design(experiment, assembly.engine, assembly.room)
    noise = profile_for(experiment, in_turns=choice.alternates)
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
    return replace(found, cheaper=cheaper_designs(found, assembly))


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


def slice_outlook(
    noise: WorkloadNoise,
    experiment: Experiment,
    expected: Forecast,
    workload: str,
    *,
    advises: bool = True,
) -> compute.SliceOutlook:
    """Return the slice of the file beside the best one for this overhead and noise.

    The noise floor finds the same length by the same function.

    It ``advises`` where the noise is known well enough to change how turns are taken.
    """
    shape = outlook_terms(experiment, expected, workload).shape
    cells = len(experiment.workloads) * len(experiment.loads)
    starts = len(experiment.configurations) - 1 + max(len(shape.sub_blocks), 1)
    runs = starts * cells * shape.rounds
    overhead_s = expected.block_s / runs - experiment.mean_run_time_s
    if expected.mode is Mode.ALTERNATING:
        return _turn_outlook(noise, shape, overhead_s, advises=advises)
    here = planning.within_starts(noise, expected.mode)
    still = replace(here, drift_sd=0.0, trend_per_h=None)
    alone = replace(shape, cells=1)
    best_s = planning.optimal_run_time_s([here], shape, overhead_s=overhead_s)
    return compute.SliceOutlook(
        run_time_s=shape.run_time_s,
        overhead_s=overhead_s,
        single_s=planning.optimal_run_time_s([still], alone, overhead_s=overhead_s),
        best_s=best_s,
        cost=planning.width_ratio(here, shape, best_s, overhead_s) ** 2,
    )


def _turn_outlook(
    noise: WorkloadNoise, shape: planning.BlockShape, overhead_s: float, *, advises: bool
) -> compute.SliceOutlook:
    """Return the seconds of turns of the file, beside the best where that can be said."""
    best = planning.optimal_turns([noise], shape, overhead_s=overhead_s) if advises else shape
    alone = planning.optimal_turns([noise], replace(shape, cells=1), overhead_s=overhead_s)
    tells = planning.turn_noise(noise).connection_sd is not None
    return compute.SliceOutlook(
        run_time_s=shape.run_time_s,
        overhead_s=overhead_s,
        single_s=alone.run_time_s,
        best_s=best.run_time_s,
        cost=planning.turns_ratio(noise, shape, best, overhead_s) ** 2,
        advised=advises,
        reconnects=best.turns.reconnects if advises and tells else None,
    )


def advises_turns(noise: NoiseProfile) -> bool:
    """Return whether a profile is enough to change how turns are taken (METHOD 3.18)."""
    return noise.is_of_turns and noise.blocks >= LEAST_STARTS


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
        advises = advises_turns(noise)
        return compute.WorkloadOutlook(
            names=names,
            noise=part,
            pooled=compute.outlook(part, terms, effects, pooled=True),
            cells=compute.outlook(part, terms, effects, pooled=False) if several else None,
            synergies=compute.outlook(part, pairs, effects, pooled=True) if pairs else None,
            slices=slice_outlook(part, experiment, expected, names[0], advises=advises),
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
