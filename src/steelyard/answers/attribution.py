"""What each factor of an experiment buys: its effect with the others, alone, last; and limits."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import combinations as subsets
from itertools import product
from typing import Annotated, ClassVar, Final, NamedTuple

from steelyard.answers.observations import Observations
from steelyard.answers.result.compute import Pair, Terms, compare_result, terms_of
from steelyard.answers.results import (
    EFFECT,
    FIRST_LEVEL,
    CampaignAnalysis,
    Comparison,
    Grounds,
    cell_name,
    tone_of,
    verdict_word,
)
from steelyard.core.campaign import StoppingRule
from steelyard.core.experiment import RATE, Attribution, AttributionKind, Effect, Workload
from steelyard.core.findings import Estimate
from steelyard.core.quantities import INLINE, PERCENT, Computed, Named
from steelyard.core.schedule import Blocks, Load, WorkloadName
from steelyard.report import document as doc
from steelyard.report.keys import Declared, load_data
from steelyard.stats import factorial
from steelyard.stats.intervals import FloatArray

_CLEAR_SYNERGIES = 5  # resolution from which no two pairs are aliased
_ABLATION_LIMIT = (
    "An ablation misses what a factor does on its own: its synergies are counted in every removal"
    " that they take part in, so that the removals do not add up to the whole."
)
_ROMAN = {4: "IV", 5: "V"}
_BLURRED = {4: "three factors", 5: "four factors"}
Weighted = tuple[Effect, FloatArray]


class EffectFamily(StrEnum):
    """What factors do beside their main effects; each family shares an error of its own."""

    SYNERGY = "synergy"
    ADDED_ALONE = "added alone"
    REMOVED_LAST = "removed last"
    TOTAL = "total"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributedEffect:
    """What one factor, two together or all of them do, pooled over a workload's loads.

    Attributes:
        factors: Their places in the experiment.
        effect: With the repeated interval; for a synergy, what two factors do together beyond what
            each does without the other. None before any block.
    """

    workload: WorkloadName
    family: Annotated[EffectFamily, Named("effect"), "Kind of effect."]
    name: Annotated[str, Named("of"), "The factors: `huge-pages`, `huge-pages x buffers`."]
    factors: tuple[int, ...]
    effect: Annotated[Estimate | None, PERCENT, INLINE, EFFECT]
    blocks: Blocks
    level: Annotated[
        float | None,
        "Two-sided level of the interval; null before the first interim result.",
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorsAndEffects:
    """The factors of an experiment with their effects, as programs read them."""

    design: Annotated[Attribution, INLINE]
    combinations: Annotated[
        Mapping[str, tuple[int, ...]], "Levels of the factors by configuration, 0 or 1."
    ]
    limits: ClassVar = Computed(
        lambda factors: design_limits(factors.design),
        Annotated[tuple[str, ...], "Limits of the design."],
    )
    aliases: ClassVar = Computed(
        lambda factors: alias_sentences(factors.design),
        Annotated[tuple[str, ...], "Synergies that cannot be told apart."],
    )
    effects: Annotated[tuple[AttributedEffect, ...], "Further effects than the results."]


ATTRIBUTION: Final = Declared(FactorsAndEffects, "attribution", "Factors and their effects.")


def analyse_attribution(grounds: Grounds) -> tuple[AttributedEffect, ...] | None:
    """Return the effects beside the results, family by family, in each workload by workload.

    None without factors, or with open loops alone.

    The results are the main effects, steps or removals. Each further family shares the
    campaign's error of its own by Bonferroni, over its effects and the workloads, at the level of
    the same look.
    """
    experiment, plan = grounds.record.experiment, grounds.record.plan
    attribution = experiment.attribution
    if attribution is None or plan is None or not experiment.compares_throughput:
        return None
    seen = grounds.closed
    terms = terms_of(grounds.record, plan, seen.blocks)
    effects: list[AttributedEffect] = []
    for family, members in _families(attribution):
        shared = replace(terms, rule=_shared(terms.rule, len(members) * len(experiment.workloads)))
        effects += [
            _estimated(attribution, seen, shared, family, workload.name, member)
            for workload in experiment.workloads
            for member in members
        ]
    return tuple(effects)


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
        f"{names}, {_design(attribution)}"
        f" ({doc.count(len(attribution.combinations), 'combination')})"
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
    return replace(rule, alpha=rule.alpha * rule.results / effects, results=effects)


def _families(attribution: Attribution) -> Iterator[tuple[EffectFamily, tuple[Weighted, ...]]]:
    """Yield what the design can give beside the results; with one factor they say it all."""
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
    pair = Pair(baseline="", configuration=attribution.named(places), workload=workload)
    weighed = compare_result(contrasts, pair, terms)
    return AttributedEffect(
        workload=workload,
        family=family,
        name=pair.configuration,
        factors=places,
        effect=weighed.effect,
        level=weighed.level,
        blocks=weighed.blocks,
    )


TITLE = "What each factor buys"
_RESULT = {
    AttributionKind.FACTORS: "main effect",
    AttributionKind.LADDER: "step",
    AttributionKind.ABLATION: "removal",
}
_MEANING = {
    AttributionKind.FACTORS: "A main effect is that of a factor's second level, averaged over the"
    " levels of all others.",
    AttributionKind.LADDER: "A step adds a factor's second level to those of the factors before"
    " it.",
    AttributionKind.ABLATION: "A removal compares all second levels with the same but one: it is"
    " what the factor adds to all others.",
}
_FAMILIES = {
    EffectFamily.SYNERGY: "A synergy is what two factors do together beyond what each does without"
    " the other; its interval is twice as wide.",
    EffectFamily.ADDED_ALONE: "Added alone: the others stay at their first levels. Removed last:"
    " the others are at their second.",
    EffectFamily.TOTAL: "The total is that of all second levels against all first.",
}


def attribution_section(analysis: CampaignAnalysis) -> tuple[doc.Section, ...]:
    """Return what each factor buys; nothing for a campaign without factors."""
    attribution, found = analysis.experiment.attribution, analysis.answer(analyse_attribution)
    if attribution is None or found is None or not analysis.blocks:
        return ()
    levels = "; ".join(f"{f.name}: {f.first} → {f.second}" for f in attribution.factors)
    lead = f"Measured: {design_words(attribution)}, each once in every block. {levels}."
    blocks: list[doc.Block] = [doc.Paragraph(text=lead), *_standing_out(analysis)]
    blocks += [doc.Paragraph(text=text, tone=doc.Tone.WARNING) for text in warnings(attribution)]
    blocks += [_figure(analysis, attribution), _table(analysis, attribution)]
    blocks += _levels(analysis, attribution)
    return (doc.Section(anchor="attribution", title=TITLE, blocks=tuple(blocks)),)


def warnings(attribution: Attribution) -> tuple[str, ...]:
    """Return what the design cannot tell apart; nothing about what its table says anyway."""
    full = attribution.is_full and len(attribution.factors) > 1
    return () if full else design_limits(attribution)


def _standing_out(analysis: CampaignAnalysis) -> Iterator[doc.BulletList]:
    """Yield the synergies that are there, in words: main effects alone would mislead then."""
    found = _effects(analysis)
    is_told = any(effect.family is EffectFamily.ADDED_ALONE for effect in found)
    read = "read added alone and removed last, not the main effects"
    averages = "their main effects are averages, and a campaign of these two shows each alone"
    items = tuple(
        f"{effect.workload}: {effect.name} together do {doc.effect_value(effect.effect)}"
        f" {doc.effect_interval(effect.effect)} ({doc.CONFIDENCE}) {_word(effect)}:"
        f" {read if is_told else averages}"
        for effect in found
        if effect.family is EffectFamily.SYNERGY and _sign(effect.effect)
    )
    if items:
        yield doc.BulletList(lead="Factors that change each other's effect", items=items)


class _Line(NamedTuple):
    """A row of the table: the result of a factor, or a further effect."""

    workload: str
    kind: str
    of: str
    effect: Estimate | None
    word: str
    tone: doc.Tone


_EFFECT: Final = doc.Form(show=doc.effect_value, unit=PERCENT)
_PER_S: Final = doc.Form(show=doc.rate, heading="1/s")


def _table(analysis: CampaignAnalysis, attribution: Attribution) -> doc.Table:
    families = dict.fromkeys(effect.family for effect in _effects(analysis))
    notes = [_MEANING[attribution.kind], *(_FAMILIES[f] for f in families if f in _FAMILIES)]
    if families:
        notes.append(
            f"Each kind of effect keeps {doc.CONFIDENCE} over all its rows, by Bonferroni."
        )
    return doc.table_of(
        (
            line
            for workload in analysis.experiment.workloads
            for line in _lines(analysis, attribution, workload.name)
        ),
        doc.column("workload", lambda line: line.workload),
        doc.column("effect", lambda line: line.kind),
        doc.column("of", lambda line: line.of),
        doc.column(f"on {RATE}", lambda line: line.effect, _EFFECT, key="effect"),
        doc.numbers(f"{doc.CONFIDENCE} interval", lambda line: doc.effect_interval(line.effect)),
        doc.column("so", lambda line: line.word),
        title="Effects",
        tone=lambda line: line.tone,
        tone_column=5,
        note=" ".join(notes),
    )


def _levels(analysis: CampaignAnalysis, attribution: Attribution) -> Iterator[doc.Table]:
    """Yield the rates after each step of a journey; other designs have no order."""
    if attribution.kind is not AttributionKind.LADDER:
        return
    experiment = analysis.experiment
    rates = {
        (each.configuration, each.cell.workload, each.cell.load): each.tps.value
        for each in analysis.cells
    }
    steps = ("at the start", *(f"+ {factor.name}" for factor in attribution.factors))

    def rate(configuration: str, place: tuple[Workload, Load]) -> float | None:
        return rates.get((configuration, place[0].name, place[1]))

    yield doc.table_of(
        product(experiment.workloads, experiment.closed_loads),
        doc.column("workload", lambda place: place[0].name),
        doc.Cells(
            doc.Column(name="load"),
            lambda place: cell_name(experiment, place[1]),
            lambda place: load_data(place[1]),
        ),
        *(
            doc.column(step, partial(rate, each.name), _PER_S, key=f"tps_{each.name}")
            for step, each in zip(steps, experiment.configurations, strict=True)
        ),
        title="Levels, step by step",
        note="Medians over blocks; each step keeps those before it. They move with the machine:"
        " what a step does is its effect above, which is taken within blocks.",
    )


def _lines(analysis: CampaignAnalysis, attribution: Attribution, workload: str) -> Iterator[_Line]:
    margin = analysis.experiment.stop.margin
    results = _results(analysis, workload)
    kind = _RESULT[attribution.kind]
    for factor, result in zip(attribution.factors, results, strict=False):
        word = verdict_word(result, margin)
        yield _Line(workload, kind, factor.name, result.effect, word, tone_of(result))
    for effect in _effects(analysis):
        if effect.workload == workload:
            factors = [results[place] for place in effect.factors]
            yield _effect_line(effect, costs=any(each.is_less_durable for each in factors))


def _results(analysis: CampaignAnalysis, workload: str) -> tuple[Comparison, ...]:
    """Return a workload's results, one per factor in their order."""
    return tuple(c for c in analysis.results if c.workload == workload)


def _effect_line(effect: AttributedEffect, *, costs: bool) -> _Line:
    """Return one row; ``costs``: a factor of it gives up durability, so no gain is a plain one."""
    sign = _sign(effect.effect)
    traded = (
        costs
        and doc.bounds(effect.effect) is not None
        and effect.family is not EffectFamily.SYNERGY
    )
    word = f"{_word(effect)}, less durable" if traded else _word(effect)
    tone = {1: doc.Tone.GOOD, -1: doc.Tone.BAD, 0: doc.Tone.OPEN}[sign]
    of = "all factors" if effect.family is EffectFamily.TOTAL else effect.name
    tone = doc.Tone.WARNING if traded and sign >= 0 else tone
    return _Line(effect.workload, effect.family.value, of, effect.effect, word, tone)


def _sign(estimate: Estimate | None) -> int:
    """Return 1 or -1 when the interval lies on one side of zero, else 0."""
    low, high = doc.bounds(estimate) or (0.0, 0.0)
    return 1 if low > 0.0 else -1 if high < 0.0 else 0


def _word(effect: AttributedEffect) -> str:
    if doc.bounds(effect.effect) is None:
        return "no interval yet"
    words = {1: "faster", -1: "slower", 0: "no clear difference"}
    if effect.family is EffectFamily.SYNERGY:
        words = {1: "more than apart", -1: "less than apart", 0: "no clear difference"}
    return words[_sign(effect.effect)]


def _figure(analysis: CampaignAnalysis, attribution: Attribution) -> doc.Figure:
    what = _RESULT[attribution.kind]
    synergies = any(_is_synergy(effect) for effect in _effects(analysis))
    dots = ", dots synergies" if synergies else ""
    rows = tuple(_figure_rows(analysis, attribution))
    told = "; ".join(f"{row[0]}, {row[3]}: {row[5]}" for row in rows)
    return doc.Figure(
        identity="attribution",
        kind=doc.ChartKind.EFFECTS,
        title="Effects of the factors",
        caption=f"Pooled over the loads of each workload: diamonds are {what}s{dots}, each with its"
        f" {doc.CONFIDENCE} interval; the grey band is of no practical weight. Each workload has"
        " its"
        " own axis.",
        alt=f"Effects of factors on {RATE}. {told}.",
        columns=(
            *("workload", "configuration", "place", "row", "pooled", "text"),
            *("effect", "low", "high", "below", "margin"),
        ),
        rows=rows,
        configurations=(FIRST_LEVEL,),
    )


def _effects(analysis: CampaignAnalysis) -> tuple[AttributedEffect, ...]:
    return analysis.answer(analyse_attribution) or ()


def _is_synergy(effect: AttributedEffect) -> bool:
    return effect.family is EffectFamily.SYNERGY


def _figure_rows(
    analysis: CampaignAnalysis, attribution: Attribution
) -> Iterator[tuple[doc.Value, ...]]:
    """Yield main effects, then synergies, workload by workload."""
    margin = 100.0 * analysis.experiment.stop.margin
    what = _RESULT[attribution.kind]
    for workload in analysis.experiment.workloads:
        own = _results(analysis, workload.name)
        drawn = [
            (what, factor.name, result.effect)
            for factor, result in zip(attribution.factors, own, strict=False)
        ]
        drawn += [
            (effect.family.value, effect.name, effect.effect)
            for effect in _effects(analysis)
            if _is_synergy(effect) and effect.workload == workload.name
        ]
        for place, (kind, name, estimate) in enumerate(drawn):
            if estimate is None:
                continue
            low, high = doc.bounds(estimate) or (None, None)
            interval = "no interval yet" if low is None else doc.effect_interval(estimate)
            yield (
                *(workload.name, kind, place, name, kind == what),
                f"{doc.effect_value(estimate)} {interval}",
                *(100.0 * estimate.value, _percent(low), _percent(high), -margin, margin),
            )


def _percent(fraction: float | None) -> float | None:
    return None if fraction is None else 100.0 * fraction


def attribution_json(analysis: CampaignAnalysis) -> dict[str, doc.Json]:
    """Return the factors and what they do beside their results, where there are some."""
    design = analysis.experiment.attribution
    if design is None:
        return {}
    names = [configuration.name for configuration in analysis.experiment.configurations]
    combinations = dict(zip(names, design.combinations, strict=True))
    return ATTRIBUTION(
        FactorsAndEffects(design=design, combinations=combinations, effects=_effects(analysis))
    )
