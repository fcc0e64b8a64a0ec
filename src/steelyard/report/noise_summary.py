"""The noise floor for programs: the part of ``summary.json`` that only an A/A campaign has."""

from steelyard.analysis.noise_floor import (
    EFFECTS,
    MINUTES,
    DesignSight,
    NoiseFloor,
    Reach,
    Sight,
    WorkloadFloor,
)
from steelyard.model.verdicts import Estimate
from steelyard.report.json_values import Json, number, percent


def noise_json(floor: NoiseFloor) -> dict[str, Json]:
    """Return the noise floor as plain values; units are in the names."""
    return {
        "experiment": floor.name,
        "mode": floor.mode.value,
        "preparation_s": number(floor.preparation_s),
        "block_s": number(floor.block_s),
        "slice_s": number(floor.slice_s),
        "advised_slice_s": number(floor.advised_slice_s),
        "width_ratio": number(floor.narrower),
        **_advised(floor),
        "workloads": [_workload(workload) for workload in floor.workloads],
        **({"designs": [_design(each) for each in floor.designs]} if floor.designs else {}),
    }


def _advised(floor: NoiseFloor) -> dict[str, Json]:
    """Return what only turns have."""
    if floor.turns is None:
        return {}
    return {
        "reconnections": floor.turns.reconnections,
        "advised_reconnections": floor.advised_reconnections,
    }


def _design(each: DesignSight) -> dict[str, Json]:
    return {
        "workload": each.workload,
        "mode": each.mode.value,
        "measured": each.measured,
        "block_s": number(each.block_s),
        "contrast_sd_percent": percent(each.contrast_sd),
        "half_width_percent": {
            str(minutes): percent(half) for minutes, half in zip(MINUTES, each.halves, strict=True)
        },
        "needed_s": {
            f"{100 * effect:g} %": number(needed)
            for effect, needed in zip(EFFECTS, each.needed_s, strict=True)
        },
    }


def _workload(workload: WorkloadFloor) -> dict[str, Json]:
    return {
        "workload": workload.workload,
        "second_sd_percent": _percent(workload.second_sd),
        "autocorrelation": _estimate(workload.autocorrelation),
        "slice_sd_percent": _percent(workload.slice_sd),
        "visit_sd_percent": _percent(workload.visit_sd),
        **_of_turns(workload),
        "drift_sd_percent": _percent(workload.walk_sd),
        "trend_percent_per_h": _percent(workload.trend_per_h),
        "visit_share": number(workload.visit_share),
        "best_slice_s": number(workload.slice_s),
        "not_measured": [] if workload.noise is None else list(workload.noise.assumed),
        "reason": workload.missing or None,
        "comparisons": [_reach(reach) for reach in workload.reaches],
    }


def _of_turns(workload: WorkloadFloor) -> dict[str, Json]:
    if workload.start_sd is None:
        return {}
    return {
        "start_sd_percent": _percent(workload.start_sd),
        "connection_sd_percent": _percent(workload.connection_sd),
        "apart_sd_percent": _percent(workload.apart_sd),
        "start_share": number(workload.start_share),
    }


def _reach(reach: Reach) -> dict[str, Json]:
    load = reach.load
    return {
        "clients": "pooled" if load is None else load.clients,
        "threads": None if load is None else load.threads,
        "contrast_sd_percent": _percent(reach.contrast_sd),
        "half_width_here_percent": percent(reach.seen),
        "expected": [_sight(sight) for sight in reach.sights],
    }


def _sight(sight: Sight) -> dict[str, Json]:
    return {
        "minutes": sight.minutes,
        "blocks": sight.blocks,
        "half_width_percent": _percent(sight.half_width),
        "smallest_visible_percent": _percent(sight.visible),
    }


def _percent(estimate: Estimate | None) -> Json:
    return _scaled(estimate, 100.0)


def _estimate(estimate: Estimate | None) -> Json:
    return _scaled(estimate, 1.0)


def _scaled(estimate: Estimate | None, factor: float) -> Json:
    if estimate is None:
        return None
    return {
        "estimate": number(factor * estimate.value),
        "low": None if estimate.low is None else number(factor * estimate.low),
        "high": None if estimate.high is None else number(factor * estimate.high),
    }
