"""The section on what may be lost, in every rendering."""

import json
from dataclasses import replace

import pytest

from fakes import analyses, durable
from steelyard.answers.durability.compute import campaign_durability
from steelyard.answers.report import build_document, summary
from steelyard.answers.results import CampaignAnalysis
from steelyard.report.document import BulletList, Section, Table
from steelyard.report.html import render_html, render_markdown
from steelyard.report.terminal import render_terminal

TITLE = "What may be lost of acknowledged commits"


def section(analysis: CampaignAnalysis) -> Section:
    """Return the section of a report."""
    document = build_document(analysis)
    return next(each for each in document.sections if each.anchor == "durability")


def test_a_report_without_it_has_no_empty_section() -> None:
    """Local servers with safe settings: neither a section nor a key in the summary."""
    analysis = analyses.quick()
    assert TITLE not in render_markdown(build_document(analysis))
    assert "durability" not in summary(analysis)


def test_every_configuration_has_its_write_latency_beside_what_it_may_lose() -> None:
    """One row per configuration: latencies of writes, then failures, those alike together."""
    table = section(durable.high_availability()).blocks[0]
    assert isinstance(table, Table)
    assert [column.heading for column in table.columns] == [
        "configuration",
        "writes, 1 client (ms)",
        "tpcb-like, 1 client (ms)",
        "server killed",
        "power lost",
        "node or disk lost",
        "site lost",
    ]
    rows = {row.cells[0]: row.cells[3:] for row in table.rows}
    assert rows == {
        "local": ("nothing", "nothing", "everything", "everything"),
        "standby-required": ("nothing", "nothing", "nothing", "everything"),
        "standby-preferred": ("nothing", "nothing", "last commits", "everything"),
        "longhorn-2r": ("nothing", "nothing", "nothing", "everything"),
    }


def test_reasons_are_told_once_for_configurations_that_are_alike() -> None:
    """Two configurations of which the same is to be said share a list; no failure is left out."""
    analysis = durable.high_availability()
    local = analysis.answer(campaign_durability)[0]
    twice = analysis.with_answer(
        campaign_durability, (local, replace(local, configuration="again"))
    )
    lists = [each for each in section(twice).blocks if isinstance(each, BulletList)]
    assert [each.lead for each in lists] == ["local and again"]
    told = " ".join(lists[0].items)
    for loss in ("server killed", "power lost", "node lost", "disk lost", "site lost"):
        assert told.count(loss) == 1
    assert len([each for each in section(analysis).blocks if isinstance(each, BulletList)]) == 4


def test_without_a_workload_that_writes_there_is_no_word_on_latency() -> None:
    """Then the table holds failures alone."""
    analysis = durable.high_availability()
    reading = tuple(replace(each, latencies=()) for each in analysis.answer(campaign_durability))
    text = render_markdown(build_document(analysis.with_answer(campaign_durability, reading)))
    assert "| configuration | server killed |" in text
    assert "Latencies are" not in text


@pytest.mark.slow
def test_terminal_shows_the_table_and_the_files_the_reasons() -> None:
    """The short report stays short; Markdown and HTML hold every reason with its source."""
    document = build_document(durable.high_availability())
    reason = "while no standby is ready, commits are acknowledged without one"
    assert TITLE in render_terminal(document)
    assert reason not in render_terminal(document)
    assert reason in " ".join(render_terminal(document, 1000, whole=True).split())
    for text in (render_markdown(document), render_html(document)):
        assert TITLE in text
        assert reason in text
        assert "CloudNativePG documentation" in text


def test_the_summary_is_for_programs() -> None:
    """What, why, from where, and the latency in seconds; null where nothing was measured."""
    analysis = durable.high_availability()
    unmeasured = tuple(
        replace(each, latencies=tuple(replace(x, mean_s=None) for x in each.latencies))
        for each in analysis.answer(campaign_durability)
    )
    told = json.loads(json.dumps(summary(analysis)))["durability"]
    assert told[0]["configuration"] == "local"
    preferred = told[2]["may_lose"]["node lost"]
    assert preferred["what"] == "last commits"
    assert preferred["source"] == "CloudNativePG documentation, 'Replication'"
    assert told[0]["may_lose"]["site lost"]["source"] is None
    first = told[0]["write_latency"][0]
    assert (first["workload"], first["clients"]) == ("writes", 1)
    assert first["mean_s"] > 0
    empty = json.loads(json.dumps(summary(analysis.with_answer(campaign_durability, unmeasured))))
    assert empty["durability"][0]["write_latency"][0]["mean_s"] is None
