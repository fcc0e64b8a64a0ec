"""``summary.json`` keeps its promises to programs."""

import json
import math
from dataclasses import replace

from fakes import analyses
from steelyard.answers.report import summary
from steelyard.core.findings import Estimate


def test_the_promised_keys_are_there() -> None:
    """Format 1 has what the documentation says, whatever else it has."""
    made = summary(analyses.quick())
    assert made["format"] == 1
    assert {"campaign", "status", "configurations", "cells", "comparisons"} <= set(made)
    assert isinstance(made["cells"], list)
    assert isinstance(made["comparisons"], list)
    cell, comparison = made["cells"][0], made["comparisons"][0]
    assert isinstance(cell, dict)
    assert isinstance(comparison, dict)
    assert {"workload", "clients", "threads", "configuration", "runs", "tps"} <= set(cell)
    assert {"validity", "findings"} <= set(cell)
    assert isinstance(cell["tps"], dict)
    assert list(cell["tps"]) == ["estimate", "low", "high"]
    assert {"baseline", "configuration", "workload", "clients", "verdict", "blocks"} <= set(
        comparison
    )
    assert {"effect_percent", "low_percent", "high_percent"} <= set(comparison)
    assert comparison["clients"] == "pooled"


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


def test_a_campaign_without_plan_has_no_design() -> None:
    """What was never frozen is null."""
    assert summary(analyses.failed_early())["design"] is None
