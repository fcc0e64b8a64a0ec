"""A plan for programs, a public format with a version; missing values are null."""

from steelyard.analysis.campaign_outlook import CampaignOutlook, WorkloadOutlook
from steelyard.analysis.outlook import ScopeOutlook
from steelyard.model.noise import NoiseProfile, TurnNoise
from steelyard.report.summary import FORMAT, Json, number, percent
from steelyard.report.turns import plan_json


def outlook_json(found: CampaignOutlook) -> dict[str, Json]:
    """Return a plan for programs; units are in the names."""
    experiment = found.experiment
    return {
        "format": FORMAT,
        "kind": "plan",
        "name": experiment.name,
        "treatments": [treatment.name for treatment in experiment.treatments],
        "baseline": experiment.baseline,
        "mode": found.mode.value,
        "switch": found.switch.value,
        "design_reason": found.design_reason or None,
        **plan_json(found.mode, experiment, found.pausing, found.memory),
        "budget_s": number(experiment.stop.budget_s),
        "decide_percent": percent(experiment.stop.decide),
        "precision_percent": percent(experiment.stop.precision),
        "decides_headlines": found.decides_headlines if found.workloads else None,
        "cells_differ_alone": found.has_many_cells,
        "decides_cells": found.decides_cells if _has_cells(found) else None,
        "preparation_s": number(round(found.preparation_s, 1)),
        **({"capacity_s": number(round(found.capacity_s, 1))} if found.capacity_s else {}),
        "discard_s": number(found.discard_s),
        "block_s": number(round(found.block_s, 1)),
        "rounds": found.rounds,
        "max_blocks": found.max_blocks,
        "first_look_blocks": found.first_look,
        "first_look_s": number(round(found.first_look_s, 1)),
        "sustained_s": number(round(found.sustained_s, 1)),
        "sustained_most_s": number(round(found.sustained_most_s, 1)),
        "noise": _noise_json(found.noise),
        "workloads": [
            _workload_json(each, name) for each in found.workloads for name in each.names
        ],
        "cheaper": [
            {
                "scope": "pooled" if each.pooled else "cell",
                "change": each.change,
                "campaigns": each.campaigns,
                "needed_s": _seconds(each.needed_s),
            }
            for each in found.cheaper
        ],
        "disk": [
            {
                "directory": need.directory,
                "needed_bytes": need.needed_bytes,
                "free_bytes": need.free_bytes,
            }
            for need in found.disk
        ],
    }


def _has_cells(found: CampaignOutlook) -> bool:
    return any(each.cells is not None for each in found.workloads)


def _seconds(seconds: float | None) -> float | None:
    return None if seconds is None else number(round(seconds, 1))


def _noise_json(noise: NoiseProfile) -> dict[str, Json]:
    return {
        "origin": noise.origin.value,
        "campaign": noise.campaign_id or None,
        "blocks": noise.blocks,
        "measured_at": number(noise.measured_at),
        "place": noise.place or None,
        "mode": None if noise.mode is None else noise.mode.value,
        "block_s": number(noise.block_s),
    }


def _workload_json(each: WorkloadOutlook, name: str) -> dict[str, Json]:
    noise = each.noise
    return {
        "workload": name,
        "noise": {
            "second_sd": number(noise.second_sd),
            "autocorrelation": number(noise.autocorrelation),
            "slice_sd": number(noise.slice_sd),
            "visit_sd": number(noise.visit_sd),
            "drift_sd_per_sqrt_h": number(noise.drift_sd),
            "trend_per_h": number(noise.trend_per_h),
            "assumed": list(noise.assumed),
            **_turns_json(noise.turns),
        },
        "slice_s": number(each.slices.slice_s),
        "overhead_per_run_s": _seconds(each.slices.overhead_s),
        "best_slice_s": _seconds(each.slices.best_s),
        "best_slice_single_cell_s": _seconds(each.slices.single_s),
        "best_slice_cost": number(each.slices.cost),
        "best_slice_advised": each.slices.advised,
        "best_reconnections": each.slices.reconnections,
        "precision_reached_s": _seconds(each.precision_s),
        "pooled": _scope_json(each.pooled),
        "cell": None if each.cells is None else _scope_json(each.cells),
        "synergy": None if each.synergies is None else _scope_json(each.synergies),
    }


def _turns_json(turns: TurnNoise | None) -> dict[str, Json]:
    if turns is None:
        return {}
    return {
        "turns": {
            "start_sd": number(turns.start_sd),
            "connection_sd": number(turns.connection_sd),
            "second_sd": number(turns.second_sd),
        }
    }


def _scope_json(scope: ScopeOutlook) -> dict[str, Json]:
    return {
        "contrast_sd": number(scope.contrast_sd),
        "half_width_percent": percent(scope.half_width),
        "smallest_effect_percent": percent(scope.smallest),
        "effects": [
            {
                "effect_percent": percent(effect.effect),
                "half_decided_s": _seconds(effect.half_s),
                "most_decided_s": _seconds(effect.most_s),
                "decided_within_budget": number(round(effect.within_budget, 3)),
                "needed_s": _seconds(effect.needed_s),
            }
            for effect in scope.effects
        ],
    }
