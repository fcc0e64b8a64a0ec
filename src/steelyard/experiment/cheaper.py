"""Designs that decide what the budget of a file does not, computed and not recommended by rote."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from steelyard.analysis.campaign_outlook import CampaignOutlook, CheaperDesign
from steelyard.analysis.outlook import OutlookTerms, needed_s
from steelyard.experiment.assembly import Assembly
from steelyard.experiment.design_choice import choose_design
from steelyard.experiment.differences import switch_cost
from steelyard.experiment.forecast import Forecast, forecast
from steelyard.experiment.schedule import mode_for
from steelyard.model.attribution import Attribution, AttributionKind
from steelyard.model.experiment import Design, Experiment
from steelyard.model.load import Load
from steelyard.model.noise import NoiseOrigin
from steelyard.model.schedule import Mode
from steelyard.stats import factorial

_WORTH_SAYING = 0.9  # of the time that the file's own design needs: a guess
_MOST_SAID = 3
_LOADS_NAMED = 4

Terms = Callable[[Experiment, Forecast], OutlookTerms]


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
    found: CampaignOutlook, assembly: Assembly, terms: Terms
) -> tuple[CheaperDesign, ...]:
    """Return what decides ``stop.decide`` where the budget does not, cheapest first.

    The last of each scope is the file's own design with the budget that it needs.
    """
    if not found.workloads or (found.decides_headlines and found.decides_cells):
        return ()
    variants = list(_variants(found, assembly))
    designs: list[CheaperDesign] = []
    if not found.decides_headlines:
        designs += _designs(found, variants, assembly, terms, pooled=True)
    elif not found.decides_cells:
        designs += _instead_of_cells(found)
    if not found.decides_cells:
        designs += _designs(found, variants, assembly, terms, pooled=False)
    return tuple(designs)


def _instead_of_cells(found: CampaignOutlook) -> Iterator[CheaperDesign]:
    """Yield the headline, which this budget decides."""
    decide = found.experiment.stop.decide
    needed = [each.pooled.at(decide).most_s for each in found.workloads]
    known = [seconds for seconds in needed if seconds is not None]
    if len(known) == len(needed):
        change = "this file, read by its pooled headlines and not by single cells"
        yield CheaperDesign(pooled=True, change=change, needed_s=max(known))


def _designs(
    found: CampaignOutlook,
    variants: Sequence[_Variant],
    assembly: Assembly,
    terms: Terms,
    *,
    pooled: bool,
) -> list[CheaperDesign]:
    own = _Variant(change="", experiment=found.experiment)
    made: dict[str, list[CheaperDesign]] = {}
    for variant in (own, *variants):
        seconds = _needed_s(found, variant.experiment, assembly, terms, pooled=pooled)
        if seconds is not None:
            design = CheaperDesign(
                pooled=pooled,
                change=variant.change or _longer_budget(seconds),
                needed_s=seconds,
                campaigns=variant.campaigns,
            )
            made.setdefault(variant.alike or variant.change, []).append(design)
    budget_s = found.experiment.stop.budget_s
    longer = made.pop(own.change, [])
    limit = longer[0].needed_s * _WORTH_SAYING if longer else math.inf
    best = [_best(alike, budget_s) for alike in made.values()]
    worth = [design for design in best if design.needed_s * design.campaigns < limit]
    worth.sort(key=lambda design: design.needed_s * design.campaigns)
    return [*worth[:_MOST_SAID], *longer]


def _longer_budget(seconds: float) -> str:
    minutes = math.ceil(seconds / 300.0) * 5
    return f"the file as it is with `--budget {minutes}m`"


def _best(alike: Sequence[CheaperDesign], budget_s: float) -> CheaperDesign:
    """Return the first that fits into the budget, else the shortest; the first gives up least."""
    fitting = [design for design in alike if design.needed_s <= budget_s]
    return fitting[0] if fitting else min(alike, key=lambda design: design.needed_s)


def _needed_s(
    found: CampaignOutlook,
    experiment: Experiment,
    assembly: Assembly,
    terms: Terms,
    *,
    pooled: bool,
) -> float | None:
    """Return the budget that decides every workload; None where no reachable one does."""
    expected = forecast(experiment, assembly, measured=found.noise)
    design = terms(experiment, expected)
    decide = experiment.stop.decide
    names = [workload.name for workload in experiment.workloads]
    noises = {replace(found.noise.of(name), workload="") for name in names}
    needed = [needed_s(noise, design, decide, pooled=pooled) for noise in noises]
    known = [seconds for seconds in needed if seconds is not None]
    return max(known) if len(known) == len(needed) else None


def _variants(found: CampaignOutlook, assembly: Assembly) -> Iterator[_Variant]:
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
        kept = _spread(loads, count)
        named = f" ({', '.join(load.label for load in kept)})" if count <= _LOADS_NAMED else ""
        noun = "load" if count == 1 else "loads"
        yield _Variant(
            change=f"{count} {noun} instead of {len(loads)}{named}",
            experiment=replace(experiment, loads=(*kept, *open_loops)),
            alike="fewer loads",
        )
        count //= 2


def _spread(loads: tuple[Load, ...], count: int) -> tuple[Load, ...]:
    """Return so many loads from the whole range; a single one is the middle."""
    if count == 1:
        return (loads[len(loads) // 2],)
    places = [round(place * (len(loads) - 1) / (count - 1)) for place in range(count)]
    return tuple(loads[place] for place in places)


def _workload_each(found: CampaignOutlook) -> Iterator[_Variant]:
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
        experiment, treatments=tuple(t for t in experiment.treatments if t.name in pair)
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
        treatments = tuple(experiment.treatments[place] for place in places)
        left_out = ", ".join(factor.name for factor in factors[kept:])
        noun = "factor" if kept == 1 else "factors"
        yield _Variant(
            change=f"{kept} {noun} instead of {len(factors)} (without {left_out})",
            experiment=replace(experiment, treatments=treatments, attribution=smaller),
            alike="fewer factors",
        )


def _with_factors(attribution: Attribution, kept: int) -> Attribution:
    """Return the design that a file with the first of the factors would have."""
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


def _alternating(found: CampaignOutlook, assembly: Assembly) -> Iterator[_Variant]:
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


def _back_to_back(found: CampaignOutlook, assembly: Assembly) -> Iterator[_Variant]:
    """Yield the design without the restarts that the file asks for and the differences do not."""
    experiment = found.experiment
    if experiment.measure.switch is None or found.mode is not Mode.VISITS:
        return
    needed = replace(experiment, measure=replace(experiment.measure, switch=None))
    if mode_for(switch_cost(needed, assembly.engine)) is Mode.BACK_TO_BACK:
        yield _Variant(change="no `switch:` in the file: back to back", experiment=needed)


def _better_slice(found: CampaignOutlook) -> Iterator[_Variant]:
    experiment = found.experiment
    if not all(each.slices.advised for each in found.workloads):
        return
    slice_s = max(each.slices.best_s for each in found.workloads)
    if slice_s != experiment.measure.slice_s:
        changed = replace(experiment, measure=replace(experiment.measure, slice_s=slice_s))
        what = "turns" if found.mode is Mode.ALTERNATING else "slices"
        yield _Variant(change=f"{what} of {slice_s:.0f} s", experiment=changed)
