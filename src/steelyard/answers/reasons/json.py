"""The reasons for programs and as charts, and in words whether statements wait or work.

The form for programs is part of ``summary.json``, and what ``explain`` prints.
"""

from collections.abc import Sequence

from steelyard.answers.budget.compute import BudgetChange, CellBudget, PartChange
from steelyard.answers.costs.compute import CellLedger, CostChange, LedgerChange
from steelyard.answers.observations import Watching
from steelyard.answers.reasons.compute import Explanation
from steelyard.answers.reasons.waits import WaitCause, WaitReasoning
from steelyard.answers.results import CampaignAnalysis
from steelyard.core.findings import Estimate
from steelyard.core.schedule import CellKey
from steelyard.core.units import format_share
from steelyard.report.document import (
    BulletList,
    Json,
    bounds,
    load_json,
    milliseconds,
    number,
    percent,
    signed_ms,
)

TITLE = "Wake-up or memory distance"
_LEAD = (
    f"{TITLE}. A CPU that waits for memory counts as busy: distance of memory shows as CPU time of"
    " server and load generator, as do the clock, the statement's work and the kernel's part of"
    " waking up another CPU. What is none is waiting:"
)
_SUSPECTS = (
    "What the record shows of the campaign's machine, as it was found at the start, that makes"
    " wake-ups slow. A configuration that changes one of them can be the cause:"
)
_WAITING = (
    "so it is waiting: being woken up (idle states, halted virtual CPUs, the hypervisor's"
    " scheduler) or the network, and not distance of memory"
)
_VERDICTS = {
    WaitCause.WAITING: _WAITING,
    WaitCause.CPU: "so it is mainly work of the CPU, of whatever kind",
    WaitCause.BOTH: "so part of it is waiting, and part work of the CPU, of whatever kind",
    WaitCause.UNDECIDED: "so these runs do not tell whether it is waiting or work of the CPU",
}
_ONE_NODE = (
    "; this machine shows one memory node, so none of it is distance of memory, unless a hypervisor"
    " below spreads that over several"
)


def wait_blocks(waits: Sequence[WaitReasoning]) -> tuple[BulletList, ...]:
    """Return a sentence for every comparison whose statements surely cost more or less.

    And what the record shows of wake-ups, unless all of them are work of the CPU.
    """
    if not waits:
        return ()
    told = BulletList(lead=_LEAD, items=tuple(_sentence(each) for each in waits))
    open_ones = (each for each in waits if each.cause is not WaitCause.CPU)
    suspects = tuple(dict.fromkeys(clause for each in open_ones for clause in each.suspects))
    return (told, BulletList(lead=_SUSPECTS, items=suspects)) if suspects else (told,)


def _sentence(each: WaitReasoning) -> str:
    change = signed_ms(each.per_statement_s, plus=True)
    begun = f"{each.configuration} against {each.baseline}: each statement {change} ms"
    shares = each.cpu_shares
    if shares is None:
        return f"{begun}; how much of it is CPU time is not known ({each.missing})."
    least, most = (format_share(share) for share in shares)
    told = f"at most {most}" if shares[0] <= 0.0 else f"{least} to {most}"
    node = _ONE_NODE if each.one_node else ""
    return f"{begun}, of which {told} is CPU time{_queue(each)}; {_VERDICTS[each.cause]}{node}."


def _queue(each: WaitReasoning) -> str:
    queued = each.run_queue_s
    if queued is None:
        return ""
    sign = "-" if queued < 0 else "+"
    return f", and {sign}{milliseconds(abs(queued))} ms is the queue for a CPU of this machine"


def reasons_json(analysis: CampaignAnalysis) -> dict[str, Json]:
    """Return what the evidence says; times in seconds, costs in base units per transaction."""
    reasons = analysis.reasons
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


def cell_json(cell: CellKey) -> dict[str, Json]:
    """Return the keys by which a cell is told everywhere."""
    return {"workload": cell.workload, **load_json(cell.load)}


def _explanation(explanation: Explanation) -> dict[str, Json]:
    return {
        "baseline": explanation.baseline,
        "configuration": explanation.configuration,
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
        "configuration": budget.configuration,
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
        "configuration": change.configuration,
        **cell_json(change.cell),
        "blocks": change.blocks,
        "baseline_s": number(change.start_s),
        "configuration_s": number(change.end_s),
        "change_s": _estimate(change.change),
        "parts": [_part(part) for part in change.parts],
        "remainder_s": number(change.remainder_s) if change.parts else None,
        "missing": change.missing or None,
    }


def _part(part: PartChange) -> dict[str, Json]:
    return {
        "part": part.part.value,
        "baseline_s": number(part.baseline_s),
        "configuration_s": number(part.configuration_s),
        "change_s": _estimate(part.change),
        "clear": part.clear,
    }


def _cell_ledger(ledger: CellLedger) -> dict[str, Json]:
    return {
        "configuration": ledger.configuration,
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
        "configuration": change.configuration,
        **cell_json(change.cell),
        "costs": {each.cost.value: _cost(each) for each in change.costs},
    }


def _cost(change: CostChange) -> dict[str, Json]:
    low, high = bounds(change.change) or (None, None)
    value = None if change.change is None else change.change.value
    told: dict[str, Json] = {
        "baseline": number(change.baseline),
        "configuration": number(change.configuration),
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
