"""``summary.json`` keeps its promises to programs."""

import json
import math
from dataclasses import replace

from fakes import analyses
from steelyard.answers.report import summary
from steelyard.core.findings import Estimate


def test_what_is_missing_is_null() -> None:
    """NaN and infinity never reach the file, and half an interval is none."""
    analysis = analyses.quick()
    result, *rest = analysis.comparisons
    cell, *cells = analysis.cells
    odd = replace(
        analysis,
        comparisons=(replace(result, effect=Estimate(value=math.nan, low=0.1)), *rest),
        cells=(replace(cell, runs=0, latency_mean_s=None), *cells),
    )
    made = json.loads(json.dumps(summary(odd), allow_nan=False))
    assert made["comparisons"][0]["effect_percent"] is None
    assert made["comparisons"][0]["low_percent"] is None
    assert made["cells"][0]["tps"] == {"estimate": None, "low": None, "high": None}
    assert made["cells"][0]["latency_mean_s"] is None
