"""The summary for a pull request: what answers the question, in about ten lines of Markdown."""

import pytest

from fakes import analyses
from steelyard.answers.report import build_document
from steelyard.answers.results import CampaignAnalysis
from steelyard.report.document import Column, Document, Row, Section, Table, VerdictCards
from steelyard.report.html import render_summary


def lines_of(analysis: CampaignAnalysis) -> list[str]:
    """Return the lines of a summary that have a text."""
    return [line for line in render_summary(build_document(analysis)).splitlines() if line]


@pytest.mark.parametrize("analysis", [analyses.quick(), analyses.in_turns()])
def test_it_has_the_verdicts_and_ten_lines(analysis: CampaignAnalysis) -> None:
    """Title, place, a line per verdict and per load, and what to read before relying on it."""
    lines = lines_of(analysis)
    assert lines[0].startswith(f"**{analysis.experiment.name}**: ")
    assert len([line for line in lines if line.startswith("- **")]) == len(analysis.results)
    assert len(lines) <= 12
    assert not any(line.startswith(("#", "|")) for line in lines)


def test_a_campaign_without_a_verdict_says_so() -> None:
    """In its own words, not by an empty text."""
    assert any("No verdict" in line for line in lines_of(analyses.failed_early()))


def test_of_a_long_ranking_the_best_are_shown() -> None:
    """The others are counted."""
    rows = tuple(Row(cells=(str(place), f"c{place}")) for place in range(1, 22))
    columns = (Column(name="rank"), Column(name="configuration"))
    ranking = Table(title="reads", columns=columns, rows=rows, note="how to read it")
    cards = VerdictCards(cards=(), rankings=(ranking,))
    section = Section(anchor="verdicts", title="Verdicts", blocks=(cards,), first=True)
    text = render_summary(Document(title="t", subtitle="s", sections=(section,)))
    assert [line for line in text.splitlines() if line.startswith("| ")][2:] == [
        f"| {place} | c{place} |" for place in range(1, 6)
    ]
    assert "and 16 more, in the report." in text
    assert "how to read it" not in text


def test_where_nobody_is_ahead_no_order_is_shown() -> None:
    """Five rows of equal rank would say less than the sentence does."""
    rows = tuple(Row(cells=("1", f"c{place}")) for place in range(1, 22))
    columns = (Column(name="rank"), Column(name="configuration"))
    ranking = Table(title="reads", columns=columns, rows=rows, brief="none is faster")
    cards = VerdictCards(cards=(), rankings=(ranking,))
    section = Section(anchor="verdicts", title="Verdicts", blocks=(cards,), first=True)
    text = render_summary(Document(title="t", subtitle="s", sections=(section,)))
    assert "**reads**: none is faster" in text
    assert "|" not in text
