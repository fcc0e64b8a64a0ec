"""What factors do beside their headlines: together, alone, last, in all; and what stays unclear."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations as subsets

from steelyard.answers.observations import Observations, count
from steelyard.answers.result.compute import Pair, Terms, compare_headline
from steelyard.answers.results import AttributedEffect, AttributionAnalysis, EffectFamily
from steelyard.core.experiment import Attribution, AttributionKind, Effect, Experiment
from steelyard.core.plan import StoppingRule
from steelyard.stats import factorial
from steelyard.stats.student import FloatArray

_CLEAR_SYNERGIES = 5  # resolution from which no two pairs are aliased
_ABLATION_LIMIT = (
    "An ablation misses what a factor does on its own: its synergies are counted in every removal"
    " that they take part in, so that the removals do not add up to the whole."
)
_ROMAN = {4: "IV", 5: "V"}
_BLURRED = {4: "three factors", 5: "four factors"}
Weighted = tuple[Effect, FloatArray]


def analyse_attribution(
    experiment: Experiment, seen: Observations, terms: Terms
) -> AttributionAnalysis | None:
    """Return the effects beside the headlines; None without factors, or with open loops alone.

    The headlines are the main effects, steps or removals. Each further family shares the
    campaign's error of its own by Bonferroni, over its effects and the workloads, at the level of
    the same look.
    """
    attribution = experiment.attribution
    if attribution is None or not experiment.compares_throughput:
        return None
    effects: list[AttributedEffect] = []
    for family, members in _families(attribution):
        shared = replace(terms, rule=_shared(terms.rule, len(members) * len(experiment.workloads)))
        effects += [
            _estimated(attribution, seen, shared, family, workload.name, member)
            for workload in experiment.workloads
            for member in members
        ]
    return AttributionAnalysis(effects=tuple(effects), aliases=alias_sentences(attribution))


def alias_sentences(attribution: Attribution) -> tuple[str, ...]:
    """Return one sentence for each group of synergies that the design cannot tell apart."""
    groups = factorial.confounded_synergies(len(attribution.factors), attribution.words)
    return tuple(
        f"{attribution.named(first)} cannot be told from"
        f" {' or '.join(attribution.named(other) for other in others)}"
        for first, *others in groups
    )


def design_words(attribution: Attribution) -> str:
    """Return the design in words: ``huge-pages and buffers, full factorial (4 combinations)``."""
    *some, last = (factor.name for factor in attribution.factors)
    names = f"{', '.join(some)} and {last}" if some else last
    return (
        f"{names}, {_design(attribution)} ({count(len(attribution.combinations), 'combination')})"
    )


def _design(attribution: Attribution) -> str:
    if attribution.kind is AttributionKind.LADDER:
        return "one after another"
    if attribution.kind is AttributionKind.ABLATION:
        return "each removed from all"
    if attribution.resolution is None:
        return "full factorial"
    return f"fraction of resolution {_ROMAN[attribution.resolution]}"


def design_limits(attribution: Attribution) -> tuple[str, ...]:
    """Return what a design cannot tell apart, and what its synergies cost, in sentences."""
    match attribution.kind:
        case AttributionKind.LADDER:
            return (_ladder_limit(attribution),)
        case AttributionKind.ABLATION:
            return (_ABLATION_LIMIT,)
        case AttributionKind.FACTORS:
            return tuple(_factorial_limits(attribution))


def _ladder_limit(attribution: Attribution) -> str:
    order = ", then ".join(factor.name for factor in attribution.factors)
    return (
        f"Each step depends on the order chosen: {order}. A synergy is credited to the factor that"
        " comes later, and nothing tells it from that factor's own effect."
    )


def _factorial_limits(attribution: Attribution) -> Iterator[str]:
    if len(attribution.factors) == 1:
        yield "With one factor there are no synergies: this is an ordinary comparison."
        return
    if _tells_synergies(attribution):
        yield "The intervals of synergies are twice as wide as those of main effects."
    if attribution.resolution is None:
        return
    several = _BLURRED[attribution.resolution]
    yield (
        f"Only {len(attribution.combinations)} of {2 ** len(attribution.factors)} combinations are"
        f" measured: a main effect cannot be told from synergies of {several}, which are taken to"
        " be nothing."
    )
    if _tells_synergies(attribution):
        yield "A synergy of two cannot be told from synergies of three, taken to be nothing too."
        return
    groups = "; ".join(alias_sentences(attribution))
    yield f"Synergies are not estimated: {groups}."


def _shared(rule: StoppingRule, effects: int) -> StoppingRule:
    """Return the campaign's rule with its whole error shared by so many effects."""
    return replace(rule, alpha=rule.alpha * rule.headlines / effects, headlines=effects)


def _families(attribution: Attribution) -> Iterator[tuple[EffectFamily, tuple[Weighted, ...]]]:
    """Yield what the design can give beside the headlines; with one factor they say it all."""
    combinations, factors = attribution.combinations, range(len(attribution.factors))
    if len(factors) == 1:
        return
    if told := synergies(attribution):
        yield EffectFamily.SYNERGY, told
    if attribution.is_full:
        alone = tuple(((i,), factorial.added_alone(combinations, i)) for i in factors)
        last = tuple(((i,), factorial.removed_last(combinations, i)) for i in factors)
        yield EffectFamily.ADDED_ALONE, alone
        yield EffectFamily.REMOVED_LAST, last
    if attribution.is_full or attribution.kind is AttributionKind.LADDER:
        yield EffectFamily.TOTAL, ((tuple(factors), factorial.total(combinations)),)


def synergies(attribution: Attribution) -> tuple[Weighted, ...]:
    """Return every pair of factors whose synergy the design can tell, with its weights."""
    if not _tells_synergies(attribution):
        return ()
    pairs = subsets(range(len(attribution.factors)), 2)
    return tuple((pair, factorial.synergy(attribution.combinations, *pair)) for pair in pairs)


def _tells_synergies(attribution: Attribution) -> bool:
    if attribution.kind is not AttributionKind.FACTORS:
        return False
    return attribution.resolution is None or attribution.resolution >= _CLEAR_SYNERGIES


def _estimated(
    attribution: Attribution,
    seen: Observations,
    terms: Terms,
    family: EffectFamily,
    workload: str,
    weighted: Weighted,
) -> AttributedEffect:
    places, weights = weighted
    contrasts = seen.weighted(weights)[:, seen.columns_of(workload)]
    pair = Pair(baseline="", treatment=attribution.named(places), workload=workload)
    weighed = compare_headline(contrasts, pair, terms)
    return AttributedEffect(
        workload=workload,
        family=family,
        name=pair.treatment,
        factors=places,
        effect=weighed.effect,
        level=weighed.level,
        blocks=weighed.blocks,
    )
