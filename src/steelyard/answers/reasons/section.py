"""What ``explain`` shows of a campaign: per comparison verdict, reason, waterfall and costs.

The form for programs is part of ``summary.json``, too.
"""

from dataclasses import dataclass

from steelyard.answers.budget.compute import BudgetChange, CellBudget, PartChange
from steelyard.answers.budget.section import budget_section, change_table, time_note, watching_lines
from steelyard.answers.costs import CellLedger, CostChange, LedgerChange, cost_note, cost_section
from steelyard.answers.costs import change_table as cost_table
from steelyard.answers.observations import Watching
from steelyard.answers.reasons.compute import Explanation, Reasons, campaign_reasons
from steelyard.answers.results import CampaignAnalysis, ending, place_name, verdict_sentence
from steelyard.answers.statements.section import (
    WAITS_TITLE,
    measured_apart,
    wait_blocks,
    waits_json,
    waits_of,
)
from steelyard.core.schedule import CellKey
from steelyard.report import document as doc


def reasons_json(analysis: CampaignAnalysis) -> dict[str, doc.Json]:
    """Return what the evidence says; times in seconds, costs in base units per transaction."""
    reasons = analysis.answer(campaign_reasons)
    if reasons is None:
        return {}
    return {
        "explanations": [_explanation(each) for each in reasons.explanations],
        "latency_budget": {
            "cells": [_cell_budget(each) for each in reasons.budget.cells],
            "comparisons": [budget_change(each) for each in reasons.budget.changes],
        },
        "ledger": {
            "cells": [_cell_ledger(each) for each in reasons.ledger.cells],
            "comparisons": [ledger_change(each) for each in reasons.ledger.changes],
        },
        "watching": watching_json(reasons.watching),
    }


def _explanation(explanation: Explanation) -> dict[str, doc.Json]:
    return {
        "baseline": explanation.baseline,
        "configuration": explanation.configuration,
        **doc.cell_json(explanation.cell),
        "sentence": explanation.sentence,
        "parts": [part.value for part in explanation.parts],
        "costs": [cost.value for cost in explanation.costs],
        "differing": list(explanation.differing),
    }


def _cell_budget(budget: CellBudget) -> dict[str, doc.Json]:
    return {
        "configuration": budget.configuration,
        **doc.cell_json(budget.cell),
        "blocks": budget.blocks,
        "latency_s": doc.interval(budget.latency),
        "latency_mean_s": doc.number(budget.measured_s),
        "parts_s": {part.value: doc.interval(seconds) for part, seconds in budget.parts.items()},
        "cpu_beyond_class_s": doc.number(budget.beyond_s),
        "missing": budget.missing or None,
    }


def budget_change(change: BudgetChange) -> dict[str, doc.Json]:
    """Return a waterfall."""
    return {
        "baseline": change.baseline,
        "configuration": change.configuration,
        **doc.cell_json(change.cell),
        "blocks": change.blocks,
        "baseline_s": doc.number(change.start_s),
        "configuration_s": doc.number(change.end_s),
        "change_s": doc.interval(change.change),
        "parts": [_part(part) for part in change.parts],
        "remainder_s": doc.number(change.remainder_s) if change.parts else None,
        "missing": change.missing or None,
    }


def _part(part: PartChange) -> dict[str, doc.Json]:
    return {
        **doc.attributes(part, "part", "baseline_s", "configuration_s"),
        "change_s": doc.interval(part.change),
        "clear": part.clear,
    }


def _cell_ledger(ledger: CellLedger) -> dict[str, doc.Json]:
    return {
        "configuration": ledger.configuration,
        **doc.cell_json(ledger.cell),
        "tps_variation": doc.number(ledger.tps_variation),
        "costs": {
            each.cost.value: {
                **(doc.interval(each.value) or {"estimate": None, "low": None, "high": None}),
                "variation": doc.number(each.variation),
                "blocks": each.blocks,
                "missing": each.missing or None,
            }
            for each in ledger.costs
        },
    }


def ledger_change(change: LedgerChange) -> dict[str, doc.Json]:
    """Return how the costs differ."""
    return {
        "baseline": change.baseline,
        "configuration": change.configuration,
        **doc.cell_json(change.cell),
        "costs": {each.cost.value: _cost(each) for each in change.costs},
    }


def _cost(change: CostChange) -> dict[str, doc.Json]:
    return {
        "baseline": doc.number(change.baseline),
        "configuration": doc.number(change.configuration),
        **(doc.effect_json(change.change, "change") if change.relative else _difference(change)),
        "clear": change.clear,
        "blocks": change.blocks,
        "missing": change.missing or None,
    }


def _difference(change: CostChange) -> dict[str, doc.Json]:
    low, high = doc.bounds(change.change) or (None, None)
    value = None if change.change is None else change.change.value
    return {"difference": doc.number(value), "low": doc.number(low), "high": doc.number(high)}


def watching_json(watched: Watching) -> dict[str, doc.Json]:
    """Return what was not visible, and what the watching cost."""
    return {
        **doc.attributes(watched, "runs", "sources", "own_cpu_s", "server_cpu_s"),
        "share_percent": doc.percent(watched.share),
        "absent": [
            {"subject": each.subject, "reason": each.reason, "runs": each.runs}
            for each in watched.unseen
        ],
    }


NOTHING = (
    "No reason can be told: no run of a complete block was watched. The record is of a version"
    " without probes, or no block is complete."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The cells to be explained; None stands for all.

    Attributes:
        clients: None for all loads of the workload.
    """

    workload: str | None = None
    clients: int | None = None

    def holds(self, cell: CellKey) -> bool:
        """Return whether a cell is chosen."""
        if self.workload is not None and cell.workload != self.workload:
            return False
        return self.clients is None or cell.load.clients == self.clients


def explain_document(analysis: CampaignAnalysis, choice: Choice) -> doc.Document:
    """Return the reasons of a campaign's comparisons."""
    reasons = analysis.answer(campaign_reasons)
    sections: tuple[doc.Section, ...]
    if reasons is None:
        text = doc.Paragraph(text=NOTHING, tone=doc.Tone.WARNING)
        sections = (doc.Section(anchor="nothing", title="No evidence", blocks=(text,)),)
    elif not reasons.explanations:
        sections = (*budget_section(analysis), *cost_section(analysis))
    else:
        chosen = [each for each in reasons.explanations if choice.holds(each.cell)]
        sections = (
            *(_comparison(analysis, reasons, each) for each in chosen),
            *(_waits(analysis) if choice == Choice() else ()),
            doc.Section(
                anchor="watching",
                title="How it was watched, and how to read it",
                blocks=(
                    *watching_lines(reasons),
                    doc.Paragraph(text=time_note(analysis)),
                    doc.Paragraph(text=cost_note(analysis)),
                ),
            ),
        )
    document = doc.Document(
        title=f"Why: {analysis.experiment.name}",
        subtitle=f"{analysis.campaign_id} · {ending(analysis)} · {doc.utc(analysis.started_at)}",
        sections=sections,
    )
    return doc.filled(document, analysis.experiment.words)


def _waits(analysis: CampaignAnalysis) -> tuple[doc.Section, ...]:
    """Return what changed statements are made of; nothing where no cost of one surely changed."""
    blocks = wait_blocks(analysis.answer(waits_of) or ())
    if not blocks:
        return ()
    blocks = (*blocks, *measured_apart(analysis.ceilings))
    return (doc.Section(anchor="waits", title=WAITS_TITLE, blocks=blocks),)


def _comparison(
    analysis: CampaignAnalysis, reasons: Reasons, explanation: Explanation
) -> doc.Section:
    who = f"{explanation.configuration} against {explanation.baseline}"
    place = place_name(analysis.experiment, explanation.cell)
    budget = _budget_of(reasons, explanation)
    costs = next(each for each in reasons.ledger.changes if _is_of(each, explanation))
    blocks: list[doc.Block] = [
        *(doc.Paragraph(text=text) for text in _verdicts(analysis, explanation)),
        doc.Paragraph(text=doc.ended(f"Evidence: {explanation.sentence}")),
    ]
    if budget.parts:
        blocks.append(change_table(analysis, budget, with_bars=True))
    table = cost_table(analysis, costs)
    blocks += [table] if table.rows else []
    title = f"{place}: {who}"
    return doc.Section(anchor="comparison", title=title, blocks=tuple(blocks))


def _is_of(change: BudgetChange | LedgerChange, explanation: Explanation) -> bool:
    wanted = explanation.baseline, explanation.configuration, explanation.cell
    return (change.baseline, change.configuration, change.cell) == wanted


def _budget_of(reasons: Reasons, explanation: Explanation) -> BudgetChange:
    return next(each for each in reasons.budget.changes if _is_of(each, explanation))


def _verdicts(analysis: CampaignAnalysis, explanation: Explanation) -> list[str]:
    return [
        doc.ended(verdict_sentence(analysis, comparison))
        for comparison in analysis.comparisons
        if (comparison.baseline, comparison.configuration)
        == (explanation.baseline, explanation.configuration)
        and (comparison.workload, comparison.load)
        == (explanation.cell.workload, explanation.cell.load)
    ]


def explain_json(analysis: CampaignAnalysis, choice: Choice) -> dict[str, doc.Json]:
    """Return the same for programs."""
    reasons = analysis.answer(campaign_reasons)
    head: dict[str, doc.Json] = {
        "format": doc.FORMAT,
        "campaign": analysis.campaign_id,
        "name": analysis.experiment.name,
    }
    if reasons is None:
        return {**head, "comparisons": [], "waits": [], "watching": None, "missing": NOTHING}
    chosen = [each for each in reasons.explanations if choice.holds(each.cell)]
    return {
        **head,
        "comparisons": [_comparison_json(analysis, reasons, each) for each in chosen],
        "waits": waits_json(analysis.answer(waits_of) or ()),
        "watching": watching_json(reasons.watching),
        "missing": None,
    }


def _comparison_json(
    analysis: CampaignAnalysis, reasons: Reasons, explanation: Explanation
) -> dict[str, doc.Json]:
    costs = next(each for each in reasons.ledger.changes if _is_of(each, explanation))
    return {
        "baseline": explanation.baseline,
        "configuration": explanation.configuration,
        **doc.cell_json(explanation.cell),
        "verdict": "; ".join(_verdicts(analysis, explanation)) or None,
        "explanation": explanation.sentence,
        "parts": [part.value for part in explanation.parts],
        "differing": list(explanation.differing),
        "waterfall": budget_change(_budget_of(reasons, explanation)),
        "ledger": ledger_change(costs),
    }
