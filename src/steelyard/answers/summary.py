"""``summary.json``: the analysis for programs, a public format with a version.

Missing values are null, never 0 or NaN; numbers are rounded to 12 significant digits, which is
far below any noise and keeps the file the same on every platform.
"""

from steelyard.answers import findings, report
from steelyard.answers.durability.section import trades_json
from steelyard.answers.findings import finding_json
from steelyard.answers.latency.results import percentile_name
from steelyard.answers.results import (
    CampaignAnalysis,
    CellSummary,
    Comparison,
    SettingDifference,
    StallTest,
)
from steelyard.answers.turns import turns_json
from steelyard.core.plan import CampaignPlan, RoundsFor
from steelyard.report.formats import Json, bounds, load_json, number, percent, worded

FORMAT = 1


def summary(analysis: CampaignAnalysis) -> dict[str, Json]:
    """Return what ``summary.json`` holds: plain values, ready for ``json.dumps``."""
    return worded(_summary(analysis), analysis.experiment.words)


def _summary(analysis: CampaignAnalysis) -> dict[str, Json]:
    experiment, plan = analysis.experiment, analysis.plan
    return {
        "format": FORMAT,
        "campaign": analysis.campaign_id,
        "name": experiment.name,
        "status": analysis.status.value,
        "configurations": [t.name for t in experiment.configurations],
        "baseline": experiment.baseline,
        "workloads": [w.name for w in experiment.workloads],
        "comparisons": [_comparison(c) for c in analysis.comparisons],
        "cells": [_cell(cell, in_turns=analysis.is_in_turns) for cell in analysis.cells],
        "stalls": [_stall(stall) for stall in analysis.stalls],
        "findings": [finding_json(finding) for finding in findings.collected(analysis)],
        "settings": [_setting(analysis, difference) for difference in analysis.settings],
        "blocks": analysis.blocks,
        "blocks_redone": list(analysis.blocks_redone),
        "seed": experiment.seed,
        "design": None if plan is None else _design(analysis, plan),
        "interim_results": analysis.looks,
        "unit": analysis.unit or None,
        "measured_s": number(analysis.measured_s),
        "elapsed_s": number(analysis.elapsed_s),
        "started_at": number(analysis.started_at),
        "command": analysis.command or None,
        **{key: value for answer in report.ANSWERS for key, value in answer.json(analysis).items()},
    }


_POOLED: dict[str, Json] = {"clients": "pooled", "threads": None, "rate_per_s": None}


def _comparison(comparison: Comparison) -> dict[str, Json]:
    load, effect = comparison.load, comparison.effect
    low, high = bounds(effect) or (None, None)
    return {
        "baseline": comparison.baseline,
        "configuration": comparison.configuration,
        "workload": comparison.workload,
        **(_POOLED if load is None else load_json(load)),
        "effect_percent": None if effect is None else percent(effect.value),
        "low_percent": percent(low),
        "high_percent": percent(high),
        "verdict": comparison.verdict.value,
        "blocks": comparison.blocks,
        "level": number(comparison.level),
        "no_practical_weight": comparison.no_practical_weight,
        "depends_on_load": comparison.depends_on_load,
        "minutes_to_decide": number(comparison.minutes_to_decide),
        "note": comparison.note or None,
        **_instances(comparison),
        **({"suspect_by_control": comparison.control} if comparison.is_suspect else {}),
        **trades_json(comparison.trades),
    }


def _instances(comparison: Comparison) -> dict[str, Json]:
    """Return how far a verdict carries, where the two sides live on different instances."""
    if comparison.instances is None:
        return {}
    return {
        "instances_per_side": comparison.instances,
        "claims_cause": not comparison.is_of_pair,
    }


def _cell(cell: CellSummary, *, in_turns: bool) -> dict[str, Json]:
    low, high = bounds(cell.tps) or (None, None)
    measured = cell.runs > 0
    return {
        "workload": cell.cell.workload,
        **load_json(cell.cell.load),
        "configuration": cell.configuration,
        "runs": cell.runs,
        "tps": {
            "estimate": number(cell.tps.value) if measured else None,
            "low": number(low) if measured else None,
            "high": number(high) if measured else None,
        },
        "latency_mean_s": number(cell.latency_mean_s),
        **({"printed_percentiles_s": _printed(cell)} if cell.percentiles else {}),
        **({"in_turns": True} if in_turns else {}),
        "validity": cell.validity.value,
        "stalled": cell.stalled,
        "findings": [finding_json(finding) for finding in cell.findings],
    }


def _printed(cell: CellSummary) -> dict[str, Json]:
    return {percentile_name(share): number(seconds) for share, seconds in cell.percentiles}


def _stall(stall: StallTest) -> dict[str, Json]:
    return {
        "baseline": stall.baseline,
        "configuration": stall.configuration,
        "workload": stall.workload,
        "baseline_stalled": stall.baseline_stalled,
        "baseline_runs": stall.baseline_runs,
        "configuration_stalled": stall.configuration_stalled,
        "configuration_runs": stall.configuration_runs,
        "p_value": number(stall.p_value),
    }


def _setting(analysis: CampaignAnalysis, difference: SettingDifference) -> dict[str, Json]:
    names = (t.name for t in analysis.experiment.configurations)
    return {
        "name": difference.name,
        "values": dict(zip(names, difference.values, strict=True)),
        "requested": difference.requested,
    }


def _has_rounds(plan: CampaignPlan) -> bool:
    """Return whether the number of rounds is more than the one that always was."""
    return plan.rounds_for is not RoundsFor.ONE


def _design(analysis: CampaignAnalysis, plan: CampaignPlan) -> dict[str, Json]:
    rule, warm_up = plan.stopping, plan.warm_up
    return {
        "mode": plan.mode.value,
        **({"reason": plan.design_reason} if plan.design_reason else {}),
        **turns_json(plan, analysis.experiment.measure.slice_s, analysis.warm_ups_s),
        "switch": plan.switch.value,
        "reset": plan.reset.value,
        "restore": plan.restore,
        **(
            {"rounds": plan.rounds, "rounds_reason": plan.rounds_reason}
            if _has_rounds(plan)
            else {}
        ),
        "stopping": {
            "max_blocks": rule.max_blocks,
            "alpha": number(rule.alpha),
            "results": rule.results,
            "first_look": rule.first_look,
            "cell_first_look": rule.cell_first_look,
            "spending_power": number(rule.spending_power),
            "precision": number(rule.precision),
        },
        "warm_up": {
            "warm_up_s": number(warm_up.warm_up_s),
            "how": warm_up.how,
            "risk": warm_up.risk,
            "measured_s": [number(value) for value in warm_up.measured_s],
            "restarts": warm_up.restarts,
        },
    }
