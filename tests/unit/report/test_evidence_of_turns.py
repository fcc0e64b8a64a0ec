"""Evidence of runs in turns in a report: it says what its figures are of, and shades no ramp."""

from dataclasses import replace

from fakes import reasons
from steelyard.answers.report import build_document
from steelyard.answers.results import CampaignAnalysis
from steelyard.answers.timeline import timeline_section
from steelyard.core.schedule import Mode
from steelyard.report.document import ChartKind, Figure
from steelyard.report.html import render_markdown


def _in_turns() -> CampaignAnalysis:
    explained = reasons.explained()
    assert explained.plan is not None
    return replace(explained, plan=replace(explained.plan, mode=Mode.ALTERNATING))


def _timeline(analysis: CampaignAnalysis) -> Figure:
    ((section,), kind) = timeline_section(analysis), ChartKind.TIMELINE
    (figure,) = (block for block in section.blocks if isinstance(block, Figure))
    assert figure.kind is kind
    return figure


def test_no_ramp_is_shaded_where_seconds_leave_the_pauses_out() -> None:
    """A run in turns has none; one in a single piece has it in every panel."""
    turns, starts = _timeline(_in_turns()), _timeline(reasons.explained())
    mark = turns.columns.index("mark")
    assert "ramp" not in {row[mark] for row in turns.rows}
    assert "ramp" in {row[mark] for row in starts.rows}
    assert "pauses left out" in turns.caption
    assert "ramp" not in turns.caption
    assert "The shaded start is the ramp" in starts.caption
    assert [row for row in starts.rows if row[mark] != "ramp"] == list(turns.rows)


def test_figures_of_turns_say_what_they_are_of() -> None:
    """Costs of all the time a run went on; latencies of what counts; no word of a ramp in them."""
    text = " ".join(render_markdown(build_document(_in_turns())).split())
    other = " ".join(render_markdown(build_document(reasons.explained())).split())
    for words in ("pauses are left out", "is of what counts of its turns", "shared in part"):
        assert words in text, words
        assert words not in other, words
    for words in ("of the whole runs with their ramp", "has the ramp in it"):
        assert words in other, words
        assert words not in text, words
