"""Long runs that were really made: two buckets of known closing time, and one without a bucket."""

from pathlib import Path

import pytest

from steelyard.answers.campaign import analyse
from steelyard.answers.results import CampaignAnalysis
from steelyard.answers.sustained.compute import SustainedSummary, joined, scan_of
from steelyard.record.directory import read_campaign

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
# Seconds from the start of the long run to the write that drew the throttle tighter.
CLOSED_S = {"cliff-cpu": 116.4, "cliff-block": 116.7}


def analysed(name: str) -> tuple[CampaignAnalysis, SustainedSummary]:
    """Return the analysis of an example, and its long run."""
    analysis = analyse(read_campaign(EXAMPLES / name))
    (long,) = analysis.sustained
    return analysis, long


@pytest.mark.parametrize("name", CLOSED_S)
def test_a_bucket_that_closed_is_found_and_measured(name: str) -> None:
    """The closing lies in the interval, the capacity within 10 % of what the seconds count."""
    analysis, long = analysed(name)
    assert long.cliff is not None
    assert long.cliff.at_low_s <= CLOSED_S[name] <= long.cliff.at_high_s
    series = joined(long.parts)
    before = series.rates[series.starts_s < CLOSED_S[name]]
    after = series.rates[series.starts_s >= CLOSED_S[name]]
    counted = float(before.sum() - after.mean() * len(before))
    assert long.cliff.scan.least_capacity == pytest.approx(counted, rel=0.1)
    low, high = long.cliff.scan.capacity_bounds
    assert low <= counted <= high
    assert long.cliff.slices_were_burst
    assert "burst-cliff" in {finding.code for finding in analysis.findings}


def test_a_long_run_without_a_bucket_raises_none() -> None:
    """15 minutes beside other jobs: the rate fell and stayed low, and the neighbours are named.

    The rates alone look like a cliff, so this rests on the record of who used the CPUs.
    """
    analysis, long = analysed("no-cliff")
    scan = scan_of(joined(long.parts))
    assert scan is not None
    assert scan.found
    assert long.cliff is None
    assert long.drop_beside_neighbours is not None
    codes = {finding.code for finding in analysis.findings}
    assert "burst-cliff" not in codes
    assert "drop-beside-neighbours" in codes
