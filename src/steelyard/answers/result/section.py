"""The first section of a report: one card per workload and configuration."""

from collections.abc import Sequence

from steelyard.answers import findings
from steelyard.answers.capacity.section import rate_answers
from steelyard.answers.latency.section import tail_warnings
from steelyard.answers.result.levels import contradiction, level_lines
from steelyard.answers.result.ranking import rankings
from steelyard.answers.result.stopping import has_many_cells
from steelyard.answers.results import CampaignAnalysis, Comparison
from steelyard.answers.wording import (
    cells_together,
    contestants,
    decided_early,
    durability_clause,
    durability_word,
    extreme_cells,
    is_interim,
    looked_for,
    more_minutes,
    pending,
    tone_of,
    uncompared,
    verdict_sentence,
    verdict_word,
)
from steelyard.core.findings import Finding, Severity
from steelyard.core.plan import Status
from steelyard.report.document import (
    CONFIDENCE,
    Block,
    IntervalDrawing,
    Paragraph,
    Section,
    Tone,
    VerdictCard,
    VerdictCards,
    bounds,
    count,
    effect_range,
    effect_value,
    ended,
)

_DIVIDED = "depends on load"
_DRAWING_SLACK = 0.08  # of the line's length, free at each end


def result_section(analysis: CampaignAnalysis) -> Section:
    """Return the verdicts, or what there is instead when nothing was compared."""
    blocks: list[Block] = []
    why = uncompared(analysis.experiment)
    if analysis.results:
        cards = tuple(_card(analysis, c) for c in analysis.results)
        ranked = rankings(analysis)
        blocks.append(VerdictCards(cards=cards, rankings=ranked))
        why_otherwise = contradiction(analysis)
        if why_otherwise and not ranked:
            blocks.append(Paragraph(text=why_otherwise))
    elif analysis.blocks and why:
        blocks.append(Paragraph(text=f"{why} {_looked_for(analysis)}"))
    else:
        blocks.append(Paragraph(text=_nothing_compared(analysis), tone=Tone.ERROR))
    blocks.extend(rate_answers(analysis))
    blocks.extend(tail_warnings(analysis))
    blocks.extend(_remarks(analysis))
    return Section(anchor="verdicts", title="Verdicts", blocks=tuple(blocks), first=True)


def _looked_for(analysis: CampaignAnalysis) -> str:
    """Return what was looked for instead of a verdict, and why the campaign ended."""
    end = f"The campaign {_was(analysis.status)} after {count(analysis.blocks, 'block')}"
    if analysis.status is Status.BUDGET:
        end = (
            "With nothing to decide it ended at its budget, after"
            f" {count(analysis.blocks, 'block')}"
        )
    asked = looked_for(analysis.experiment)
    return f'Looked for was {asked}: see the section "Latency". {end}.'


def _nothing_compared(analysis: CampaignAnalysis) -> str:
    if analysis.blocks == 0:
        return f"No verdict: the campaign {_was(analysis.status)}, and no block is complete."
    return f"No verdict: nothing was compared in {count(analysis.blocks, 'block')}."


def _was(status: Status) -> str:
    return {
        Status.FAILED: "failed",
        Status.INTERRUPTED: "was interrupted",
        Status.RUNNING: "is not finished",
    }.get(status, "ended")


def _remarks(analysis: CampaignAnalysis) -> list[Paragraph]:
    remarks = []
    if analysis.results and is_interim(analysis):
        there = f"these are interim results after {count(analysis.blocks, 'block')}"
        text = f"The campaign {_was(analysis.status)}; {there}."
        remarks.append(Paragraph(text=text, tone=Tone.WARNING))
    grave = [f for f in findings.collected(analysis) if f.severity is not Severity.INFO]
    if grave and not analysis.blocks:
        remarks += [Paragraph(text=f"{ended(f.message)} {ended(f.remedy)}") for f in grave[:1]]
    elif grave:
        tone = Tone.ERROR if grave[0].severity is Severity.ERROR else Tone.WARNING
        link = findings.anchor(0)  # the list has the same order
        remarks.append(Paragraph(text=_gravest(grave), tone=tone, link=link))
    return remarks


def _gravest(grave: Sequence[Finding]) -> str:
    """Return the first of the findings, which are in the order of their weight, and how many."""
    first, others = ended(grave[0].message), len(grave) - 1
    if not others:
        return f"1 finding to read before relying on this: {first}"
    more = f"{others} more {'is' if others == 1 else 'are'} under Findings."
    return f"{len(grave)} findings to read before relying on this. The most severe: {first} {more}"


def _card(analysis: CampaignAnalysis, comparison: Comparison) -> VerdictCard:
    margin = analysis.experiment.stop.equivalence
    ranged = bounds(comparison.effect) is not None
    divided = comparison.depends_on_load and ranged
    word = verdict_word(comparison, margin)
    if divided:
        word = f"{_DIVIDED}{durability_word(comparison)}"
    price = durability_clause(comparison) if ranged else ""
    return VerdictCard(
        workload=comparison.workload,
        contest=" against ".join(contestants(comparison)),
        word=f"interim: {word}" if ranged and is_interim(analysis) else word,
        tone=tone_of(comparison),
        main=_main(comparison),
        sentence=verdict_sentence(analysis, comparison),
        details=_details(analysis, comparison),
        drawing=None if divided else _drawing(analysis, comparison, margin),
        notes=(comparison.note,) if _adds(analysis, comparison) else (),
        price=price,
        marked=(_DIVIDED if divided else comparison.verdict.value, price) if ranged else (),
        levels=level_lines(analysis, comparison),
    )


def _adds(analysis: CampaignAnalysis, comparison: Comparison) -> bool:
    """Return whether the note says anything that the card does not say elsewhere."""
    told = bounds(comparison.effect) is None or decided_early(analysis, comparison)
    return bool(comparison.note) and not told


def _main(comparison: Comparison) -> str:
    pair = bounds(comparison.effect)
    if pair is None:
        return "no interval yet"
    if comparison.depends_on_load:
        return "read the cells"
    return effect_range(*pair)


def _details(analysis: CampaignAnalysis, comparison: Comparison) -> tuple[str, ...]:
    if bounds(comparison.effect) is None:
        return (pending(comparison),)
    if comparison.depends_on_load:
        return _details_by_load(analysis, comparison)
    details = [f"{CONFIDENCE} interval, estimate {effect_value(comparison.effect)}"]
    if comparison.no_practical_weight:
        details.append("of no practical weight")
    early = f", {comparison.note or 'stopped early'}" if decided_early(analysis, comparison) else ""
    details.append(count(comparison.blocks, "block") + early)
    if comparison.is_of_pair:
        details.append(f"this pair of instances: {comparison.instances} per side")
    more = more_minutes(comparison, analysis.experiment.stop.decide)
    return (*details, more) if more else tuple(details)


def _details_by_load(analysis: CampaignAnalysis, result: Comparison) -> tuple[str, ...]:
    extremes = extreme_cells(analysis, result)
    together = f"simultaneous {CONFIDENCE} intervals"
    if has_many_cells(len(analysis.experiment.closed_loads)):
        together = f"intervals at {cells_together(analysis.experiment)}"
    blocks = f"{together}, {count(result.blocks, 'block')}"
    if extremes is None:
        return (blocks,)
    return (f"least: {extremes[0]}", f"largest: {extremes[1]}", blocks)


def _drawing(
    analysis: CampaignAnalysis, comparison: Comparison, margin: float
) -> IntervalDrawing | None:
    """Return the interval in % on a line that holds zero and all intervals of its workload."""
    pair = bounds(comparison.effect)
    if pair is None or comparison.effect is None:
        return None
    low, high, wide = 100 * pair[0], 100 * pair[1], 100 * margin
    peers = (bounds(c.effect) for c in analysis.results if c.workload == comparison.workload)
    ends = [100 * end for peer in peers if peer is not None for end in peer]
    start, end = min(-wide, *ends), max(wide, *ends)
    slack = _DRAWING_SLACK * (end - start)
    return IntervalDrawing(
        low=low,
        value=100 * comparison.effect.value,
        high=high,
        margin=wide,
        start=start - slack,
        end=end + slack,
    )
