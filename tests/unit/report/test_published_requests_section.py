"""The table of Redis beside the published figures, and the same for programs."""

import json
from dataclasses import replace

from fakes.analyses import quick
from steelyard.answers.published import RequestFigures, published_requests
from steelyard.answers.report import build_document, summary
from steelyard.answers.results import CampaignAnalysis
from steelyard.report.html import render_markdown
from steelyard.report.terminal import render_terminal


def figures() -> tuple[RequestFigures, ...]:
    """Return one configuration of each side."""
    own = RequestFigures(
        command="SET",
        configuration="everysec",
        published=False,
        held_keys=37_501,
        per_s=1234.5,
        of_off=0.125,
        mean_s=0.0162,
        p99_s=None,
    )
    other = replace(
        own, configuration="longhorn-aof-on-data", published=True, p99_s=0.20186, of_off=0.0698
    )
    return own, other


def beside() -> CampaignAnalysis:
    """Return a campaign with published figures."""
    return replace(quick(), answers={published_requests: figures()})


def test_the_table_names_the_sides_and_says_that_it_is_no_comparison() -> None:
    """Whose figure each is, what is missing, and what may be laid beside the other."""
    document = build_document(beside())
    for text in (render_markdown(document), render_terminal(document, width=120)):
        assert "published, other machine" in text
        assert "Longhorn, AOF on, with data" in text
        assert "12.5 %" in text
        assert "202" in text
    assert "is no comparison" in " ".join(render_markdown(document).split())


def test_the_note_says_what_the_published_ratio_is_over() -> None:
    """The published one without an append-only file was empty; here it holds what the row does."""
    text = " ".join(render_markdown(build_document(beside())).split())
    assert "of the published rows with data, too, it is over the one without any" in text
    assert "here over one that held as many keys as the row" in text


def test_a_campaign_of_other_work_has_no_such_table() -> None:
    """Neither in the report nor in the summary."""
    assert "Beside the published" not in render_markdown(build_document(quick()))
    assert "published_requests" not in summary(quick())


def test_programs_get_the_same() -> None:
    """Missing values are null."""
    rows = json.loads(json.dumps(summary(beside())))["published_requests"]
    assert [row["latency_p99_s"] for row in rows] == [None, 0.20186]
    assert rows[0]["of_aof_off"] == 0.125
    assert rows[1]["published"] is True
