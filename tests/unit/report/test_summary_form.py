"""The summary for a pull request: what answers the question, in at most ten lines of Markdown."""

from dataclasses import replace

import pytest

from fakes import analyses
from steelyard.answers.report import build_document
from steelyard.answers.results import CampaignAnalysis
from steelyard.report import document as doc
from steelyard.report.html import render_summary


def lines_of(analysis: CampaignAnalysis) -> list[str]:
    """Return the lines of a summary that have a text."""
    return [line for line in render_summary(build_document(analysis)).splitlines() if line]


@pytest.mark.parametrize("analysis", [analyses.quick(), analyses.in_turns()])
def test_it_has_the_verdicts_and_ten_lines(analysis: CampaignAnalysis) -> None:
    """Title, place, a line per verdict and per load, and what to read before relying on it."""
    lines = lines_of(analysis)
    assert lines[0].startswith(f"**{analysis.experiment.name}**: ")
    for result in analysis.results:
        assert sum(line.startswith(f"- **{result.workload}: ") for line in lines) == 1
    assert len(lines) < 10
    assert not any(line.startswith(("#", "|")) for line in lines)


def test_a_campaign_without_a_verdict_says_so() -> None:
    """In its own words, not by an empty text."""
    assert any("No verdict" in line for line in lines_of(analyses.failed_early()))


def test_of_a_long_ranking_the_best_are_shown() -> None:
    """The others are counted."""
    rows = tuple(doc.Row(cells=(str(place), f"c{place}")) for place in range(1, 22))
    columns = (doc.Column(name="rank"), doc.Column(name="configuration"))
    ranking = doc.Table(title="reads", columns=columns, rows=rows, note="how to read it")
    told = replace(ranking, title="writes", gist="c1 is ahead.")
    text = summary_of(doc.VerdictCards(cards=(), rankings=(ranking, told)))
    assert text.splitlines()[2:] == [
        "- reads: a table of 21 rows, in the report.",
        "- c1 is ahead.",
    ]


def summary_of(*blocks: doc.Block) -> str:
    """Return the summary of a report that has these blocks first."""
    section = doc.Section(anchor="verdicts", title="Verdicts", blocks=blocks, first=True)
    return render_summary(doc.Document(title="t", subtitle="s", sections=(section,)))


@pytest.mark.parametrize(("answers", "remarks"), [(40, 1), (2, 30), (30, 30), (9, 0), (0, 40)])
def test_what_has_no_room_is_counted(answers: int, remarks: int) -> None:
    """Ten lines, the gravest remark among them, and nothing is dropped in silence."""
    cards = doc.KeyValues(title="", pairs=tuple((f"r{n}", "faster") for n in range(answers)))
    notes = [doc.Paragraph(text=f"passed {n}", tone=doc.Tone.GOOD) for n in range(1, remarks)]
    failed = [doc.Paragraph(text="failed", tone=doc.Tone.ERROR)] if remarks else []
    lines = summary_of(cards, *notes, *failed).splitlines()
    assert len(lines) == 10
    assert (sum("failed" in line for line in lines)) == len(failed)
    shown = sum(line.startswith("- ") and not line.startswith("- and ") for line in lines)
    assert f"- and {answers + remarks - shown} more, in the report" in lines


def test_rates_stand_beside_their_verdict_where_lines_are_short() -> None:
    """Below it where there is room."""
    for many, below in ((3, True), (6, False)):
        lists = [doc.BulletList(lead=f"r{n}", items=("8 clients",)) for n in range(many)]
        lines = summary_of(*lists).splitlines()
        assert ("  - 8 clients" in lines) is below
        assert ("- r0; 8 clients" in lines) is not below
