"""A report of turns in which nobody timed a request: it says so, and shows all the rest."""

import pytest

from fakes import redis_campaigns
from steelyard.answers.report import build_document, summary
from steelyard.answers.results import CampaignAnalysis
from steelyard.report.html import render_markdown
from steelyard.report.terminal import render_terminal


@pytest.fixture(scope="module")
def analysis() -> CampaignAnalysis:
    """Return a campaign of Redis in turns."""
    return redis_campaigns.in_turns()


def test_the_reason_stands_where_percentiles_would(analysis: CampaignAnalysis) -> None:
    """With the way to have them; no percentile is made up of what the generator printed."""
    text = " ".join(render_markdown(build_document(analysis)).split())
    assert "No request was timed: redis-benchmark keeps no log" in text
    assert "one-by-one" in text
    assert "p50" not in text
    assert "latency" not in summary(analysis)


def test_throughput_is_told_without_latencies(analysis: CampaignAnalysis) -> None:
    """Results, cells and explanations do without them; an absent mean is no zero."""
    assert [result.effect is not None for result in analysis.results] == [True, True]
    assert all(cell.latency_mean_s is None for cell in analysis.cells)
    text = render_terminal(build_document(analysis), 100, files=())
    assert "aof-always" in text
    assert "0.000" not in text
