"""What the report says of percentiles, and what nobody may miss."""

from dataclasses import replace

import pytest

from fakes import latencies
from steelyard.answers.latency.compute import (
    Basis,
    LatencyAnalysis,
    PercentileLevel,
    campaign_latency,
)
from steelyard.answers.latency.section import latency_section, level_text
from steelyard.answers.report import build_document
from steelyard.answers.results import CampaignAnalysis
from steelyard.core.findings import Estimate, Verdict
from steelyard.core.schedule import CellKey, Load
from steelyard.report.document import Figure, Paragraph, Section, Table, Tone, filled


@pytest.fixture(scope="module")
def tails() -> CampaignAnalysis:
    """Return writes that are faster with a longer tail."""
    return latencies.tails()


def latency_of(analysis: CampaignAnalysis) -> LatencyAnalysis:
    """Return the percentiles of an analysis that has some."""
    assert analysis.answer(campaign_latency) is not None
    return analysis.answer(campaign_latency)


def remarks(analysis: CampaignAnalysis) -> list[str]:
    """Return what stands below the verdicts as a warning."""
    blocks = build_document(analysis).sections[0].blocks
    return [b.text for b in blocks if isinstance(b, Paragraph) and b.tone is Tone.WARNING]


def section_of(analysis: CampaignAnalysis) -> Section:
    """Return the section on latency."""
    (section,) = latency_section(analysis)
    return filled(section, analysis.experiment.words)


def test_a_tail_that_goes_the_same_way_is_no_warning(tails: CampaignAnalysis) -> None:
    """Slower with a longer tail is what people expect; nor is one that is not clear told."""
    slower = tuple(replace(c, verdict=Verdict.SLOWER) for c in tails.comparisons)
    assert not remarks(replace(tails, comparisons=slower))
    unclear = tuple(replace(c, clear=False) for c in latency_of(tails).changes)
    latency = replace(latency_of(tails), changes=unclear)
    assert not remarks(tails.with_answer(campaign_latency, latency))


def test_slower_with_a_shorter_tail_is_told_too(tails: CampaignAnalysis) -> None:
    """The other way round, in its own words."""
    slower = tuple(replace(c, verdict=Verdict.SLOWER) for c in tails.comparisons)
    turned = tuple(
        c if c.change is None else replace(c, change=Estimate(value=-0.3, low=-0.4, high=-0.2))
        for c in latency_of(tails).changes
    )
    latency = replace(latency_of(tails), changes=turned)
    made = replace(tails, comparisons=slower).with_answer(campaign_latency, latency)
    told = remarks(made)
    assert "batched is slower than default, but its slowest transactions take shorter" in told[-1]


def test_a_result_that_is_undecided_warns_of_nothing(tails: CampaignAnalysis) -> None:
    """Where throughput is not known to differ, there is no other direction."""
    open_verdicts = tuple(
        replace(c, verdict=Verdict.NO_CLEAR_DIFFERENCE) for c in tails.comparisons
    )
    assert not remarks(replace(tails, comparisons=open_verdicts))


@pytest.mark.parametrize(
    ("basis", "value", "text"),
    [
        (Basis.BLOCKS, Estimate(value=0.0123, low=0.012, high=0.0126), "12.3 [12.0, 12.6]"),
        (Basis.BLOCKS, Estimate(value=0.0123), "12.3"),
        (Basis.TOGETHER, Estimate(value=0.0123), "12.3 [no interval]"),
        (Basis.TOO_FEW, None, "not enough [3,120 of 10,000]"),
        (Basis.LONGEST, Estimate(value=1.5), "1,500"),
    ],
)
def test_a_level_says_what_it_rests_on(basis: Basis, value: Estimate | None, text: str) -> None:
    """With an interval, without, or with how many transactions there are and how many it takes."""
    level = PercentileLevel(share=0.999, basis=basis, value_s=value, there=3120, needed=10_000)
    assert level_text(level) == text


def test_a_sampled_log_is_told(tails: CampaignAnalysis) -> None:
    """Who reads a maximum must know that the longest may be missing."""
    levels = tuple(replace(each, sampled=0.1) for each in latency_of(tails).levels)
    part = tails.with_answer(campaign_latency, replace(latency_of(tails), levels=levels))
    for analysis, name in ((tails, "transactions"), (part, "transactions logged")):
        assert name in [column.name for column in tables(analysis)[0].columns]
    lead = section_of(
        tails.with_answer(campaign_latency, replace(latency_of(tails), levels=levels))
    ).blocks[0]
    assert isinstance(lead, Paragraph)
    assert "10.0 % of the transactions" in lead.text


def tables(analysis: CampaignAnalysis) -> list[Table]:
    """Return the tables of the section."""
    return [block for block in section_of(analysis).blocks if isinstance(block, Table)]


def test_of_many_cells_the_largest_loads_are_drawn(tails: CampaignAnalysis) -> None:
    """More than six panels are not: then one per workload, and the caption says so."""
    latency = latency_of(tails)
    curves = tuple(
        replace(curve, cell=CellKey(workload=curve.cell.workload, load=Load(clients=n, threads=1)))
        for curve in latency.tails
        for n in (2, 4, 16, 32)
    )
    many = tails.with_answer(campaign_latency, replace(latency, tails=curves))
    figure = next(block for block in section_of(many).blocks if isinstance(block, Figure))
    assert {(row[0], row[1]) for row in figure.rows} == {
        ("orders", "32 clients"),
        ("writes", "32 clients"),
    }
    assert "Largest loads alone" in figure.caption
