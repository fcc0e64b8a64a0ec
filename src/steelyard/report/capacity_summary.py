"""Capacity, rates and goal for ``summary.json``: each only where there is one."""

from collections.abc import Sequence

import numpy as np

from steelyard.analysis.capacity import OpenLoops, RatePoint
from steelyard.analysis.goal_rates import GoalContrast, GoalRate
from steelyard.analysis.latency_results import Timed
from steelyard.model.capacity import Capacity
from steelyard.report.json_values import Json, interval, load_json, number, percent
from steelyard.stats.goal import Reached


def open_loops_json(found: OpenLoops | None) -> dict[str, Json]:
    """Return the keys ``capacity``, ``rates`` and ``goal``, as far as there are any."""
    if found is None:
        return {}
    told: dict[str, Json] = {}
    if found.capacities:
        told["capacity"] = [_capacity(capacity) for capacity in found.capacities]
    if found.points:
        told["rates"] = [_point(point) for point in found.points]
    if found.goal is not None and found.goals:
        told["goal"] = {
            "percentile": percent(found.goal.share),
            "limit_s": number(found.goal.limit_s),
            "rates": [_goal(goal) for goal in found.goals],
            "comparisons": _contrasts(found.contrasts),
        }
    return told


def _capacity(capacity: Capacity) -> dict[str, Json]:
    return {
        "workload": capacity.workload,
        "treatment": capacity.treatment,
        "clients": capacity.clients,
        "tps": interval(capacity.tps),
        "points": [
            {
                "clients": point.clients,
                "threads": point.threads,
                "tps": interval(point.tps),
                "slices_tps": [number(value) for value in point.slices],
            }
            for point in capacity.points
        ],
    }


def _point(point: RatePoint) -> dict[str, Json]:
    return {
        "workload": point.cell.workload,
        **load_json(point.cell.load),
        "treatment": point.treatment,
        "offered_per_s": number(point.offered_per_s),
        "achieved_per_s": interval(point.achieved),
        "logged_transactions": _logged(point),
        "latency_p50_s": _time(point, Timed.LATENCY, 0.5),
        "latency_p99_s": _time(point, Timed.LATENCY, 0.99),
        "schedule_lag_p99_s": _time(point, Timed.LAG, 0.99),
        "service_time_p99_s": _time(point, Timed.SERVICE, 0.99),
        "skipped_percent": percent(point.skipped),
        "late_percent": percent(point.late),
        "latency_limit_s": number(point.cell.load.latency_limit_s),
    }


def _logged(point: RatePoint) -> int | None:
    found = point.levels.get(Timed.LATENCY)
    return None if found is None else found.transactions


def _time(point: RatePoint, timed: Timed, share: float) -> Json:
    found = point.at(timed, share)
    return None if found is None else interval(found.value_s)


def _goal(goal: GoalRate) -> dict[str, Json]:
    reached = goal.reached
    return {
        "workload": goal.workload,
        "treatment": goal.treatment,
        "clients": goal.load.clients,
        "threads": goal.load.threads,
        "rate_per_s": None if reached is None else _reached(reached),
        "beyond": None if reached is None else _beyond(reached),
        "measured_per_s": [number(rate) for rate in goal.rates_per_s],
        "not_enough_transactions_per_s": [number(rate) for rate in goal.untold],
        "blocks": goal.blocks,
        "blocks_pooled": goal.pooled or None,
    }


def _reached(reached: Reached) -> dict[str, Json]:
    """Return the rate, null where it is censored: ``beyond`` says on which side."""
    return {
        "estimate": number(reached.value),
        "low": number(reached.low),
        "high": number(reached.high),
    }


def _beyond(reached: Reached) -> str | None:
    """Return ``above`` or ``below`` where the rate lies beyond what was measured.

    ``both`` where as many blocks lie above as below.
    """
    if reached.value is None:
        return "both"
    return {-1.0: "below", 0.0: None, 1.0: "above"}[reached.beyond]


def _contrasts(contrasts: Sequence[GoalContrast]) -> list[Json]:
    return [
        {
            "workload": contrast.workload,
            "baseline": contrast.baseline,
            "treatment": contrast.treatment,
            "clients": contrast.load.clients,
            "threads": contrast.load.threads,
            "effect_percent": _effect(contrast),
            "low_percent": _relative(contrast.ratio.low),
            "high_percent": _relative(contrast.ratio.high),
        }
        for contrast in contrasts
    ]


def _effect(contrast: GoalContrast) -> float | None:
    """Return the difference, null where a block's rate beyond the measured ones may move it."""
    bounds = (contrast.ratio.low, contrast.ratio.high)
    open_ended = any(bound is not None and not np.isfinite(bound) for bound in bounds)
    return None if contrast.censored or open_ended else _relative(contrast.ratio.value)


def _relative(bound: float | None) -> float | None:
    return None if bound is None or not np.isfinite(bound) else percent(float(np.expm1(bound)))
