"""``summary.json``: the analysis for programs, a public format with a version.

Missing values are null, never 0 or NaN; numbers are rounded to 12 significant digits, which is
far below any noise and keeps the file the same on every platform.
"""

from steelyard.answers import findings
from steelyard.answers.attribution import alias_sentences, design_limits
from steelyard.answers.capacity.section import open_loops_json
from steelyard.answers.ceilings import ceilings_json
from steelyard.answers.durability.section import durability_json, lags_json, trades_json
from steelyard.answers.latency.section import latency_json
from steelyard.answers.noise.section import noise_json
from steelyard.answers.published import PublishedFigures, requests_json
from steelyard.answers.reasons.json import reasons_json
from steelyard.answers.results import (
    AttributedEffect,
    CampaignAnalysis,
    CellSummary,
    Comparison,
    ScalabilityCurve,
    SettingDifference,
    StallTest,
)
from steelyard.answers.statements.section import statements_json
from steelyard.answers.sustained.section import cliff_json
from steelyard.answers.turns import turns_json
from steelyard.core.findings import Estimate, Finding
from steelyard.core.plan import CampaignPlan, RoundsFor
from steelyard.report.formats import Json, bounds, interval, load_json, number, percent, worded

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
        "treatments": [t.name for t in experiment.treatments],
        "baseline": experiment.baseline,
        "workloads": [w.name for w in experiment.workloads],
        "comparisons": [_comparison(c) for c in analysis.comparisons],
        "cells": [_cell(cell, in_turns=analysis.is_in_turns) for cell in analysis.cells],
        "stalls": [_stall(stall) for stall in analysis.stalls],
        "findings": [_finding(finding) for finding in findings.collected(analysis)],
        "settings": [_setting(analysis, difference) for difference in analysis.settings],
        "blocks": analysis.blocks,
        "blocks_redone": list(analysis.blocks_redone),
        "seed": experiment.seed,
        "design": None if plan is None else _design(analysis, plan),
        "looks": analysis.looks,
        "unit": analysis.unit or None,
        "measured_s": number(analysis.measured_s),
        "elapsed_s": number(analysis.elapsed_s),
        "started_at": number(analysis.started_at),
        "command": analysis.command or None,
        **_single_pass(analysis),
        **requests_json(analysis.published_requests),
        **_sustained(analysis),
        **_scalability(analysis),
        **statements_json(analysis.statements, analysis.waits),
        **_attribution(analysis),
        **({} if analysis.noise is None else {"noise": noise_json(analysis.noise)}),
        **_phases(analysis),
        **_instance_noise(analysis),
        **ceilings_json(analysis),
        **open_loops_json(analysis.open_loops),
        **({} if analysis.reasons is None else reasons_json(analysis.reasons)),
        **latency_json(analysis.latency),
        **durability_json(analysis.durability, analysis.experiment.engine),
        **lags_json(analysis),
    }


def _attribution(analysis: CampaignAnalysis) -> dict[str, Json]:
    """Return the factors and what they do beside their headlines, where there are some."""
    design, found = analysis.experiment.attribution, analysis.attribution
    if design is None:
        return {}
    names = [treatment.name for treatment in analysis.experiment.treatments]
    told: dict[str, Json] = {
        "kind": design.kind.value,
        "factors": [{"name": f.name, "first": f.first, "second": f.second} for f in design.factors],
        "combinations": {
            name: list(levels) for name, levels in zip(names, design.combinations, strict=True)
        },
        "resolution": design.resolution,
        "limits": list(design_limits(design)),
        "aliases": list(alias_sentences(design)),
        "effects": [] if found is None else [_attributed(effect) for effect in found.effects],
    }
    return {"attribution": told}


def _attributed(effect: AttributedEffect) -> dict[str, Json]:
    low, high = bounds(effect.effect) or (None, None)
    return {
        "workload": effect.workload,
        "effect": effect.family.value,
        "of": effect.name,
        "effect_percent": None if effect.effect is None else percent(effect.effect.value),
        "low_percent": percent(low),
        "high_percent": percent(high),
        "blocks": effect.blocks,
        "level": number(effect.level),
    }


def _phases(analysis: CampaignAnalysis) -> dict[str, Json]:
    """Return where in the checkpoint cycle the runs began, where that was recorded."""
    if not analysis.checkpoints:
        return {}
    return {
        "checkpoint_phase": [
            {
                "treatment": phase.treatment,
                "runs": phase.runs,
                "known": phase.known,
                "least_s": number(phase.least_s),
                "median_s": number(phase.median_s),
                "most_s": number(phase.most_s),
                "unknown": phase.unknown or None,
            }
            for phase in analysis.checkpoints
        ]
    }


def _instance_noise(analysis: CampaignAnalysis) -> dict[str, Json]:
    """Return the two levels of noise of newly made servers, where they are known."""
    if not analysis.instances:
        return {}
    return {
        "instance_noise": [
            {
                "treatment": noise.treatment,
                "workload": noise.workload,
                "instance_sd_percent": percent(noise.parts.instance_sd),
                "low_percent": percent(noise.parts.instance_low),
                "high_percent": percent(noise.parts.instance_high),
                "run_sd_percent": percent(noise.parts.run_sd),
                "instances_per_side": noise.parts.instances,
                "runs_per_instance": noise.parts.runs,
                "best_runs_per_instance": noise.best_rounds,
            }
            for noise in analysis.instances
        ]
    }


def _sustained(analysis: CampaignAnalysis) -> dict[str, Json]:
    """Return the long runs, where there are some, apart from the cells, and what needs one."""
    within: list[Json] = [
        {"treatment": treatment, "workload": workload}
        for treatment, workload in sorted(analysis.burst_only)
    ]
    told: dict[str, Json] = {"burst_only": within} if within else {}
    if not analysis.sustained:
        return told
    return {
        **told,
        "sustained": [
            {
                "workload": each.run.cell.workload,
                "clients": each.run.cell.load.clients,
                "threads": each.run.cell.load.threads,
                "treatment": each.run.treatment,
                "seconds": number(each.seconds),
                "tps": number(each.tps),
                "variation_10s": number(each.variation),
                "worst_10s_tps": number(each.worst_tps),
                "validity": each.validity.value,
                "findings": [_finding(found) for part in each.parts for found in part.findings],
                "parts": len(each.parts),
                "length_s": number(round(each.length_s, 3)),
                "too_short_for_a_cliff": each.too_short,
                "ends_in_a_fall": each.unsettled,
                "burst_only": each.burst_only,
                "drop_beside_neighbours": None
                if each.drop_beside_neighbours is None
                else cliff_json(each.drop_beside_neighbours),
                "cliff": None if each.cliff is None else cliff_json(each.cliff),
            }
            for each in analysis.sustained
        ],
    }


def _scalability(analysis: CampaignAnalysis) -> dict[str, Json]:
    """Return the curves for programs, where there are some."""
    if not analysis.scalability:
        return {}
    return {"scalability": [_curve_json(curve) for curve in analysis.scalability]}


def _curve_json(curve: ScalabilityCurve) -> dict[str, Json]:
    falling = curve.falling
    return {
        "workload": curve.workload,
        "treatment": curve.treatment,
        "threads": curve.threads,
        "blocks": curve.blocks,
        "alpha": interval(curve.alpha),
        "beta": interval(curve.beta),
        "peak_clients": interval(curve.peak_clients),
        "peak_tps": interval(curve.peak_tps),
        "peak_in_range": curve.peak_in_range,
        "fits": curve.fits,
        "refuted": curve.refuted,
        "max_error_percent": percent(curve.max_error),
        "lack_of_fit_p": number(curve.lack_of_fit_p),
        "falls_from_clients": None if falling is None else falling.load.clients,
        "best_clients": None if falling is None else falling.best.clients,
        "fall_percent": None if falling is None else _percent_json(falling.change),
        "measured": [
            {"clients": number(point.clients), "tps": interval(point.tps)}
            for point in curve.measured
        ],
    }


def _percent_json(estimate: Estimate) -> dict[str, Json]:
    return {
        "estimate": percent(estimate.value),
        "low": percent(estimate.low),
        "high": percent(estimate.high),
    }


def _single_pass(analysis: CampaignAnalysis) -> dict[str, Json]:
    """Return what only a single pass has, so that nobody takes it for a comparison."""
    if not analysis.experiment.is_single_pass:
        return {}
    figures = analysis.published
    return {
        "single_pass": True,
        "published": None if figures is None else published_json(figures),
    }


def published_json(figures: PublishedFigures) -> list[Json]:
    """Return the same table for programs."""
    return [
        {
            "workload": row.workload,
            "builtin": row.builtin,
            "clients": row.clients,
            "own_tps": {str(threads): number(tps) for threads, tps in row.own_tps},
            "published_tps": {
                name: number(tps)
                for name, tps in zip(figures.environments, row.published_tps, strict=True)
            },
        }
        for row in figures.rows
    ]


_POOLED: dict[str, Json] = {"clients": "pooled", "threads": None, "rate_per_s": None}


def _comparison(comparison: Comparison) -> dict[str, Json]:
    load, effect = comparison.load, comparison.effect
    low, high = bounds(effect) or (None, None)
    return {
        "baseline": comparison.baseline,
        "treatment": comparison.treatment,
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
        "treatment": cell.treatment,
        "runs": cell.runs,
        "tps": {
            "estimate": number(cell.tps.value) if measured else None,
            "low": number(low) if measured else None,
            "high": number(high) if measured else None,
        },
        "latency_mean_s": number(cell.latency_mean_s),
        **({"in_turns": True} if in_turns else {}),
        "validity": cell.validity.value,
        "stalled": cell.stalled,
        "findings": [_finding(finding) for finding in cell.findings],
    }


def _stall(stall: StallTest) -> dict[str, Json]:
    return {
        "baseline": stall.baseline,
        "treatment": stall.treatment,
        "workload": stall.workload,
        "baseline_stalled": stall.baseline_stalled,
        "baseline_runs": stall.baseline_runs,
        "treatment_stalled": stall.treatment_stalled,
        "treatment_runs": stall.treatment_runs,
        "p_value": number(stall.p_value),
    }


def _finding(finding: Finding) -> dict[str, Json]:
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "subject": finding.subject,
        "message": finding.message,
        "remedy": finding.remedy,
        "source": finding.source,
    }


def _setting(analysis: CampaignAnalysis, difference: SettingDifference) -> dict[str, Json]:
    names = (t.name for t in analysis.experiment.treatments)
    return {
        "name": difference.name,
        "values": dict(zip(names, difference.values, strict=True)),
        "requested": difference.requested,
    }


def _has_rounds(plan: CampaignPlan) -> bool:
    """Return whether the number of rounds is more than the one that always was."""
    return plan.rounds_for is not RoundsFor.ONE


def _design(analysis: CampaignAnalysis, plan: CampaignPlan) -> dict[str, Json]:
    rule, discard = plan.stopping, plan.discard
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
            "headlines": rule.headlines,
            "first_look": rule.first_look,
            "cell_first_look": rule.cell_first_look,
            "spending_power": number(rule.spending_power),
            "precision": number(rule.precision),
        },
        "discard": {
            "discard_s": number(discard.discard_s),
            "how": discard.how,
            "risk": discard.risk,
            "measured_s": [number(value) for value in discard.measured_s],
            "restarts": discard.restarts,
        },
    }
