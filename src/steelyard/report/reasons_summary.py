"""The reasons for programs: parts of ``summary.json``, and what ``explain`` prints."""

from steelyard.analysis.budget import BudgetChange, CellBudget, PartChange
from steelyard.analysis.explanation import Explanation
from steelyard.analysis.ledger import CellLedger, CostChange, LedgerChange
from steelyard.analysis.reasons import Reasons
from steelyard.analysis.watching import Watching
from steelyard.model.schedule import CellKey
from steelyard.model.verdicts import Estimate
from steelyard.report.formats import bounds
from steelyard.report.json_values import Json, load_json, number, percent


def reasons_json(reasons: Reasons) -> dict[str, Json]:
    """Return what the evidence says; times in seconds, costs in base units per transaction."""
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


def cell_json(cell: CellKey) -> dict[str, Json]:
    """Return the keys by which a cell is told everywhere."""
    return {"workload": cell.workload, **load_json(cell.load)}


def _explanation(explanation: Explanation) -> dict[str, Json]:
    return {
        "baseline": explanation.baseline,
        "treatment": explanation.treatment,
        **cell_json(explanation.cell),
        "sentence": explanation.sentence,
        "parts": [part.value for part in explanation.parts],
        "costs": [cost.value for cost in explanation.costs],
        "differing": list(explanation.differing),
    }


def _estimate(estimate: Estimate | None) -> dict[str, Json] | None:
    if estimate is None:
        return None
    low, high = bounds(estimate) or (None, None)
    return {"estimate": number(estimate.value), "low": number(low), "high": number(high)}


def _cell_budget(budget: CellBudget) -> dict[str, Json]:
    return {
        "treatment": budget.treatment,
        **cell_json(budget.cell),
        "blocks": budget.blocks,
        "latency_s": _estimate(budget.latency),
        "latency_mean_s": number(budget.measured_s),
        "parts_s": {each.part.value: _estimate(each.seconds) for each in budget.parts},
        "cpu_beyond_class_s": number(budget.beyond_s),
        "missing": budget.missing or None,
    }


def budget_change(change: BudgetChange) -> dict[str, Json]:
    """Return a waterfall."""
    return {
        "baseline": change.baseline,
        "treatment": change.treatment,
        **cell_json(change.cell),
        "blocks": change.blocks,
        "baseline_s": number(change.start_s),
        "treatment_s": number(change.end_s),
        "change_s": _estimate(change.change),
        "parts": [_part(part) for part in change.parts],
        "remainder_s": number(change.remainder_s) if change.parts else None,
        "missing": change.missing or None,
    }


def _part(part: PartChange) -> dict[str, Json]:
    return {
        "part": part.part.value,
        "baseline_s": number(part.baseline_s),
        "treatment_s": number(part.treatment_s),
        "change_s": _estimate(part.change),
        "clear": part.clear,
    }


def _cell_ledger(ledger: CellLedger) -> dict[str, Json]:
    return {
        "treatment": ledger.treatment,
        **cell_json(ledger.cell),
        "tps_variation": number(ledger.tps_variation),
        "costs": {
            each.cost.value: {
                **(_estimate(each.value) or {"estimate": None, "low": None, "high": None}),
                "variation": number(each.variation),
                "blocks": each.blocks,
                "missing": each.missing or None,
            }
            for each in ledger.costs
        },
    }


def ledger_change(change: LedgerChange) -> dict[str, Json]:
    """Return how the costs differ."""
    return {
        "baseline": change.baseline,
        "treatment": change.treatment,
        **cell_json(change.cell),
        "costs": {each.cost.value: _cost(each) for each in change.costs},
    }


def _cost(change: CostChange) -> dict[str, Json]:
    low, high = bounds(change.change) or (None, None)
    value = None if change.change is None else change.change.value
    told: dict[str, Json] = {
        "baseline": number(change.baseline),
        "treatment": number(change.treatment),
    }
    if change.relative:
        told |= {"change_percent": percent(value)}
        told |= {"low_percent": percent(low), "high_percent": percent(high)}
    else:
        told |= {"difference": number(value), "low": number(low), "high": number(high)}
    return {
        **told,
        "clear": change.clear,
        "blocks": change.blocks,
        "missing": change.missing or None,
    }


def watching_json(watched: Watching) -> dict[str, Json]:
    """Return what was not visible, and what the watching cost."""
    return {
        "runs": watched.runs,
        "sources": list(watched.sources),
        "own_cpu_s": number(watched.own_cpu_s),
        "server_cpu_s": number(watched.server_cpu_s),
        "share_percent": percent(watched.share),
        "absent": [
            {"subject": each.subject, "reason": each.reason, "runs": each.runs}
            for each in watched.unseen
        ],
    }
