"""A burst cliff for programs."""

from steelyard.analysis.long_runs import BurstCliff
from steelyard.report.json_values import Json, number


def cliff_json(cliff: BurstCliff) -> dict[str, Json]:
    """Return a cliff with the intervals of everything in it; rates in 1/s."""
    scan = cliff.scan
    return {
        "at_s": number(round(cliff.at_s, 3)),
        "at_low_s": number(round(cliff.at_low_s, 3)),
        "at_high_s": number(round(cliff.at_high_s, 3)),
        "drop": number(scan.drop),
        "burst_tps": number(scan.burst),
        **_bounds("burst_tps", scan.burst_bounds),
        "sustained_tps": number(scan.sustained),
        **_bounds("sustained_tps", scan.sustained_bounds),
        "least_capacity": number(scan.least_capacity),
        **_bounds("least_capacity", scan.capacity_bounds),
        "refill_s": number(scan.refill_s),
        **_bounds("refill_s", scan.refill_bounds_s),
        "slices_tps": number(cliff.slices_tps),
        "slices_were_burst": None if cliff.slices_tps is None else cliff.slices_were_burst,
    }


def _bounds(name: str, bounds: tuple[float, float]) -> dict[str, Json]:
    return {f"{name}_low": number(bounds[0]), f"{name}_high": number(bounds[1])}
