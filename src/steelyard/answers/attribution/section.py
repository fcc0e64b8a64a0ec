"""What each factor buys: its effect with the others, alone and last, and what stays unclear."""

from collections.abc import Iterator

from steelyard.answers.attribution.compute import design_limits, design_words
from steelyard.answers.drawing import specification
from steelyard.answers.results import AttributedEffect, CampaignAnalysis, Comparison, EffectFamily
from steelyard.answers.wording import tone_of, verdict_word
from steelyard.core.experiment import RATE, Attribution, AttributionKind
from steelyard.core.findings import Estimate
from steelyard.report.document import (
    Align,
    Block,
    BulletList,
    ChartKind,
    Column,
    Figure,
    Paragraph,
    Row,
    Section,
    Table,
    Tone,
    Value,
)
from steelyard.report.formats import CONFIDENCE, bounds, effect_interval, effect_value

TITLE = "What each factor buys"
FIRST_LEVEL = "the first level"
_HEADLINE = {
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


def attribution_section(analysis: CampaignAnalysis) -> tuple[Section, ...]:
    """Return what each factor buys; nothing for a campaign without factors."""
    attribution, found = analysis.experiment.attribution, analysis.attribution
    if attribution is None or found is None or not analysis.blocks:
        return ()
    levels = "; ".join(f"{f.name}: {f.first} → {f.second}" for f in attribution.factors)
    lead = f"Measured: {design_words(attribution)}, each once in every block. {levels}."
    blocks: list[Block] = [Paragraph(text=lead), *_standing_out(analysis)]
    blocks += [Paragraph(text=text, tone=Tone.WARNING) for text in warnings(attribution)]
    blocks += [_figure(analysis, attribution), _table(analysis, attribution)]
    return (Section(anchor="attribution", title=TITLE, blocks=tuple(blocks)),)


def warnings(attribution: Attribution) -> tuple[str, ...]:
    """Return what the design cannot tell apart; nothing about what its table says anyway."""
    full = attribution.is_full and len(attribution.factors) > 1
    return () if full else design_limits(attribution)


def compared_names(analysis: CampaignAnalysis) -> tuple[str, ...]:
    """Return what comparisons are between, the reference first: the order of their colours."""
    experiment = analysis.experiment
    if experiment.attribution is None:
        return (experiment.baseline, *experiment.contenders)
    return (FIRST_LEVEL, *(factor.on for factor in experiment.attribution.factors))


def _standing_out(analysis: CampaignAnalysis) -> Iterator[BulletList]:
    """Yield the synergies that are there, in words: main effects alone would mislead then."""
    found = () if analysis.attribution is None else analysis.attribution.effects
    items = tuple(
        f"{effect.workload}: {effect.name} together do {effect_value(effect.effect)}"
        f" {effect_interval(effect.effect)} ({CONFIDENCE}) {_word(effect)}: read added alone and"
        " removed last, not the main effects"
        for effect in found
        if effect.family is EffectFamily.SYNERGY and _sign(effect.effect)
    )
    if items:
        yield BulletList(lead="Factors that change each other's effect", items=items)


def _table(analysis: CampaignAnalysis, attribution: Attribution) -> Table:
    columns = (
        Column(name="workload"),
        Column(name="effect"),
        Column(name="of"),
        Column(name=f"on {RATE}", align=Align.RIGHT),
        Column(name=f"{CONFIDENCE} interval", align=Align.RIGHT),
        Column(name="so"),
    )
    rows = [
        row
        for workload in analysis.experiment.workloads
        for row in _rows(analysis, attribution, workload.name)
    ]
    note = _note(analysis, attribution)
    return Table(title="Effects", columns=columns, rows=tuple(rows), tone_column=5, note=note)


def _rows(analysis: CampaignAnalysis, attribution: Attribution, workload: str) -> Iterator[Row]:
    margin = analysis.experiment.stop.equivalence
    headlines = _headlines(analysis, workload)
    for place, headline in enumerate(headlines):
        factor = attribution.factors[place]
        yield Row(
            cells=(
                *(workload, _HEADLINE[attribution.kind], factor.name),
                *(effect_value(headline.effect), effect_interval(headline.effect)),
                verdict_word(headline, margin),
            ),
            tone=tone_of(headline),
        )
    found = () if analysis.attribution is None else analysis.attribution.effects
    for effect in (effect for effect in found if effect.workload == workload):
        factors = [headlines[place] for place in effect.factors]
        yield _effect_row(effect, costs=any(each.is_less_durable for each in factors))


def _headlines(analysis: CampaignAnalysis, workload: str) -> tuple[Comparison, ...]:
    """Return a workload's headlines, one per factor in their order."""
    return tuple(c for c in analysis.headlines if c.workload == workload)


def _effect_row(effect: AttributedEffect, *, costs: bool) -> Row:
    """Return one row; ``costs``: a factor of it gives up durability, so no gain is a plain one."""
    sign = _sign(effect.effect)
    traded = (
        costs and bounds(effect.effect) is not None and effect.family is not EffectFamily.SYNERGY
    )
    word = f"{_word(effect)}, less durable" if traded else _word(effect)
    tone = {1: Tone.GOOD, -1: Tone.BAD, 0: Tone.OPEN}[sign]
    of = "all factors" if effect.family is EffectFamily.TOTAL else effect.name
    return Row(
        cells=(
            *(effect.workload, effect.family.value, of),
            *(effect_value(effect.effect), effect_interval(effect.effect), word),
        ),
        tone=Tone.WARNING if traded and sign >= 0 else tone,
    )


def _sign(estimate: Estimate | None) -> int:
    """Return 1 or -1 when the interval lies on one side of zero, else 0."""
    low, high = bounds(estimate) or (0.0, 0.0)
    return 1 if low > 0.0 else -1 if high < 0.0 else 0


def _word(effect: AttributedEffect) -> str:
    if bounds(effect.effect) is None:
        return "no interval yet"
    words = {1: "faster", -1: "slower", 0: "not distinguishable"}
    if effect.family is EffectFamily.SYNERGY:
        words = {1: "more than apart", -1: "less than apart", 0: "not distinguishable"}
    return words[_sign(effect.effect)]


def _note(analysis: CampaignAnalysis, attribution: Attribution) -> str:
    found = () if analysis.attribution is None else analysis.attribution.effects
    families = dict.fromkeys(effect.family for effect in found)
    told = [_MEANING[attribution.kind], *(_FAMILIES[f] for f in families if f in _FAMILIES)]
    if families:
        told.append(f"Each kind of effect keeps {CONFIDENCE} over all its rows, by Bonferroni.")
    return " ".join(told)


def _figure(analysis: CampaignAnalysis, attribution: Attribution) -> Figure:
    what = _HEADLINE[attribution.kind]
    synergies = any(_is_synergy(effect) for effect in _effects(analysis))
    dots = ", dots synergies" if synergies else ""
    rows = tuple(_figure_rows(analysis, attribution))
    told = "; ".join(f"{row[0]}, {row[3]}: {row[5]}" for row in rows)
    return Figure(
        specify=specification,
        identity="attribution",
        kind=ChartKind.EFFECTS,
        title="Effects of the factors",
        caption=f"Pooled over the loads of each workload: diamonds are {what}s{dots}, each with its"
        f" {CONFIDENCE} interval; the grey band is of no practical weight. Each workload has its"
        " own axis.",
        alt=f"Effects of factors on {RATE}. {told}.",
        columns=(
            *("workload", "treatment", "place", "row", "pooled", "text"),
            *("effect", "low", "high", "below", "margin"),
        ),
        rows=rows,
        treatments=(FIRST_LEVEL, what, EffectFamily.SYNERGY.value),
    )


def _effects(analysis: CampaignAnalysis) -> tuple[AttributedEffect, ...]:
    return () if analysis.attribution is None else analysis.attribution.effects


def _is_synergy(effect: AttributedEffect) -> bool:
    return effect.family is EffectFamily.SYNERGY


def _figure_rows(
    analysis: CampaignAnalysis, attribution: Attribution
) -> Iterator[tuple[Value, ...]]:
    """Yield main effects, then synergies, workload by workload."""
    margin = 100.0 * analysis.experiment.stop.equivalence
    what = _HEADLINE[attribution.kind]
    for workload in analysis.experiment.workloads:
        own = _headlines(analysis, workload.name)
        drawn = [
            (what, factor.name, headline.effect)
            for factor, headline in zip(attribution.factors, own, strict=False)
        ]
        drawn += [
            (effect.family.value, effect.name, effect.effect)
            for effect in _effects(analysis)
            if _is_synergy(effect) and effect.workload == workload.name
        ]
        for place, (kind, name, estimate) in enumerate(drawn):
            if estimate is None:
                continue
            low, high = bounds(estimate) or (None, None)
            interval = "no interval yet" if low is None else effect_interval(estimate)
            yield (
                *(workload.name, kind, place, name, kind == what),
                f"{effect_value(estimate)} {interval}",
                *(100.0 * estimate.value, _percent(low), _percent(high), -margin, margin),
            )


def _percent(fraction: float | None) -> float | None:
    return None if fraction is None else 100.0 * fraction
