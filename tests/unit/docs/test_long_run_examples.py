"""Long runs and limits that were really made: what was put in is found, and nothing else."""

import re

import pytest

from steelyard.answers.results import CampaignAnalysis
from steelyard.answers.sustained.compute import SustainedSummary, joined, long_runs
from steelyard.report.document import bounds
from steelyard.report.terminal import render_terminal
from support.examples import analysis_of, report_of

# Seconds from the start of the long run to the write that drew the throttle tighter.
CLOSED_S = {"cliff-cpu": 116.4, "cliff-block": 116.7}


def analysed(name: str) -> tuple[CampaignAnalysis, SustainedSummary]:
    """Return the analysis of an example, and its long run."""
    analysis = analysis_of(name)
    (long,) = analysis.answer(long_runs)
    return analysis, long


@pytest.mark.parametrize("name", CLOSED_S)
def test_a_bucket_that_closed_is_found_and_measured(name: str) -> None:
    """The closing lies in the interval, the capacity within 10 % of what the seconds count."""
    analysis, long = analysed(name)
    assert long.cliff is not None
    low_s, high_s = bounds(long.cliff.at) or (0.0, 0.0)
    assert low_s <= CLOSED_S[name] <= high_s
    series = joined(long.parts)
    before = series.rates[series.starts_s < CLOSED_S[name]]
    after = series.rates[series.starts_s >= CLOSED_S[name]]
    counted = float(before.sum() - after.mean() * len(before))
    assert long.cliff.least_capacity.value == pytest.approx(counted, rel=0.1)
    low, high = bounds(long.cliff.least_capacity) or (0.0, 0.0)
    assert low <= counted <= high
    assert long.cliff.runs_were_burst
    assert "burst-cliff" in {finding.code for finding in analysis.findings}


def test_what_lasts_is_on_the_first_screen() -> None:
    """A campaign that asks for the end of a burst answers in its first lines."""
    told = " ".join(render_terminal(report_of("cliff-cpu"), 200).split())
    assert re.search(
        r"reads, throttled: 12,\d{3} tps until 121 s \(111 to 131\), then 3,\d{3}", told
    )
    assert "a drop beside other processes" in render_terminal(report_of("no-cliff"), 200)
