"""The terminal report: short, as wide as asked, plain without colour."""

from dataclasses import replace

import pytest

from fakes import analyses
from steelyard.answers.report import build_document
from steelyard.report import document as doc
from steelyard.report.terminal import render_table, render_terminal

SCENES = [analyses.quick, analyses.same_twice, analyses.interrupted, analyses.hostile]


@pytest.mark.parametrize("width", [60, 80, 140])
@pytest.mark.parametrize("scene", SCENES)
def test_no_line_is_wider_than_the_terminal(scene: object, width: int) -> None:
    """Spare columns go, headings break, and nothing overflows."""
    assert callable(scene)
    text = render_terminal(build_document(scene()), width)
    assert max(len(line) for line in text.split("\n")) <= width


def test_intervals_are_never_broken() -> None:
    """An interval stands on one line in every table."""
    text = render_terminal(build_document(analyses.many_loads()), 80)
    assert "[+10.9 %, +13.3 %]" in text
    assert "58,245 to 59,573" in text


def test_a_column_that_tells_rows_apart_stays() -> None:
    """A spare column goes where room is short, but not the only one that names its rows."""
    columns = (
        doc.Column(name="configuration"),
        doc.number_column("clients"),
        doc.Column(name="script", spare=True),
        *(doc.number_column(f"p{each}", "ms") for each in range(10, 20)),
        doc.Column(name="remark", spare=True),
    )
    numbers = tuple("12,345" for _ in range(10))
    rows = tuple(doc.Row(cells=("now", "4", name, *numbers, "x")) for name in ("q1.sql", "q3.sql"))
    table = doc.Table(title="Latency", columns=columns, rows=rows)
    for width in range(60, 130):
        text = render_table(table, width)
        assert "q1.sql" in text
        assert "q3.sql" in text
    assert "remark" not in render_table(table, 110)


def test_colour_only_when_asked() -> None:
    """Without colour there is no escape sequence; with colour the words are the same."""
    document = build_document(analyses.quick())
    assert "\x1b[" not in render_terminal(document, 100)
    assert "\x1b[1;32mfaster\x1b[0m" in render_terminal(document, 100, colour=True)


def test_long_tables_are_cut() -> None:
    """Two servers of different versions differ in many settings; the terminal shows the first."""
    analysis = analyses.quick()
    many = tuple(replace(analysis.settings[0], name=f"setting_{i}") for i in range(90))
    text = render_terminal(build_document(replace(analysis, settings=many)), 100)
    assert "setting_29" in text
    assert "setting_30" not in text
    assert "and 60 more in the whole report" in text


@pytest.mark.slow
@pytest.mark.parametrize("width", range(40, 121, 8))
def test_a_percent_sign_stays_with_its_number(width: int) -> None:
    """No line begins with the sign, or with what closes the bracket around it."""
    text = render_terminal(build_document(analyses.many_loads()), width, whole=True)
    assert " %" in text
    assert not [line for line in text.split("\n") if line.lstrip().startswith("%")]
    assert "\ue000" not in text
