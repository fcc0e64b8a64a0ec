"""Latencies for programs: the part ``latency`` of ``summary.json``."""

from steelyard.analysis.latency_results import (
    LatencyAnalysis,
    LatencyChange,
    LatencyLevels,
    PercentileLevel,
    percentile_name,
)
from steelyard.report.formats import bounds
from steelyard.report.json_values import Json, interval, load_json, number, percent


def latency_json(found: LatencyAnalysis | None) -> dict[str, Json]:
    """Return levels and comparisons; nothing where no run has a log."""
    if found is None:
        return {}
    return {
        "latency": {
            "levels": [_levels(each) for each in found.levels],
            "comparisons": [_change(each) for each in found.changes],
        }
    }


def _levels(each: LatencyLevels) -> dict[str, Json]:
    return {
        "workload": each.cell.workload,
        **load_json(each.cell.load),
        "treatment": each.treatment,
        "of": each.timed.value,
        "script": each.script or None,
        "blocks": each.blocks,
        "logged_transactions": each.transactions,
        "log_sampling": number(each.sampled),
        "percentiles": {percentile_name(p.share): _percentile(p) for p in each.percentiles},
    }


def _percentile(each: PercentileLevel) -> dict[str, Json]:
    return {
        "seconds": interval(each.value_s),
        "basis": each.basis.value,
        "transactions": each.there,
        "needed": each.needed,
        "reason": each.reason or None,
    }


def _change(each: LatencyChange) -> dict[str, Json]:
    low, high = bounds(each.change) or (None, None)
    return {
        "baseline": each.baseline,
        "treatment": each.treatment,
        "workload": each.workload,
        **load_json(each.load),
        "percentile": percentile_name(each.share),
        "change_percent": None if each.change is None else percent(each.change.value),
        "low_percent": percent(low),
        "high_percent": percent(high),
        "called": each.called or None,
        "blocks": each.blocks,
        "reason": each.reason or None,
    }
