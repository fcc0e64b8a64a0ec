"""The ceilings of a place, for people and for programs."""

import json
from dataclasses import replace

from fakes import analyses
from steelyard.answers.report import build_document, summary
from steelyard.answers.results import CampaignAnalysis
from steelyard.core.schedule import Ceiling, CeilingKind
from steelyard.report.document import MISSING, Table
from steelyard.report.html import render_html, render_markdown

TAKEN = (
    Ceiling(
        kind=CeilingKind.ROUND_TRIP,
        subject="PostgreSQL 18.6, socket",
        latency_s=17.4e-6,
        fastest_s=9.94e-6,
        p99_s=1234e-6,
        samples=500,
        how="SELECT 1 on one open connection",
        configurations=("default", "fitted"),
    ),
    Ceiling(kind=CeilingKind.PING_PONG, subject="two CPUs", unknown="only one CPU may be used"),
    Ceiling(
        kind=CeilingKind.SYNC,
        subject="fdatasync",
        latency_s=1 / 1634.037,
        rate_per_s=1634.037,
        how="pg_test_fsync",
        configurations=("default",),
    ),
)


def with_ceilings() -> CampaignAnalysis:
    """Return a campaign whose place was measured."""
    return replace(analyses.quick(), ceilings=TAKEN)


def table(analysis: CampaignAnalysis) -> Table | None:
    """Return the table of the facts part."""
    facts = next(s for s in build_document(analysis).sections if s.anchor == "facts")
    tables = [block for block in facts.blocks if isinstance(block, Table)]
    return tables[0] if tables else None


def test_the_facts_part_has_a_table() -> None:
    """A row each, with values in their unit, for whom it holds, and the source or the reason."""
    shown = table(with_ceilings())
    assert shown is not None
    assert shown.title == "Ceilings of this place"
    assert [row.cells for row in shown.rows] == [
        (
            *("round trip", "PostgreSQL 18.6, socket", MISSING, "17", "9.9", "1,234"),
            *("default and fitted", "SELECT 1 on one open connection"),
        ),
        ("ping-pong", "two CPUs", *[MISSING] * 5, "only one CPU may be used"),
        ("forced write", "fdatasync", "1,634", "612", MISSING, MISSING, "default", "pg_test_fsync"),
    ]
    headings = [column.heading for column in shown.columns]
    assert headings[2:4] == ["rate (1/s)", "latency (µs)"]


def test_every_long_report_shows_it() -> None:
    """Markdown and HTML have the table with its reasons."""
    document = build_document(with_ceilings())
    for text in (render_markdown(document), render_html(document)):
        assert "Ceilings of this place" in text
        assert "only one CPU may be used" in text


def test_programs_get_base_units_and_null_for_what_is_missing() -> None:
    """Seconds and rates with their names, null with the reason where there is none."""
    told = json.loads(json.dumps(summary(with_ceilings())))["ceilings"]
    assert [each["kind"] for each in told] == ["round trip", "ping-pong", "sync"]
    assert told[0]["latency_s"] == 17.4e-6
    assert told[0]["configurations"] == ["default", "fitted"]
    assert told[0]["unknown"] is None
    assert told[1]["latency_s"] is told[1]["rate_per_s"] is told[1]["how"] is None
    assert told[1]["unknown"] == "only one CPU may be used"
    assert told[2]["rate_per_s"] == 1634.037


def test_a_campaign_without_them_says_nothing() -> None:
    """Records from before, and those that did not want them, have neither table nor key."""
    assert table(analyses.quick()) is None
    assert "ceilings" not in summary(analyses.quick())
