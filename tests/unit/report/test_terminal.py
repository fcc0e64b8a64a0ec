"""The terminal report: short, as wide as asked, plain without colour."""

from dataclasses import replace

import pytest

from fakes import analyses
from steelyard.answers.report import build_document
from steelyard.report.terminal import render_terminal

SCENES = [analyses.quick, analyses.same_twice, analyses.interrupted, analyses.hostile]


@pytest.mark.parametrize("width", [60, 80, 100, 140])
@pytest.mark.parametrize("scene", SCENES)
def test_no_line_is_wider_than_the_terminal(scene: object, width: int) -> None:
    """Spare columns go, headings break, and nothing overflows."""
    assert callable(scene)
    text = render_terminal(build_document(scene()), width)
    assert max(len(line) for line in text.split("\n")) <= width


@pytest.mark.parametrize("width", [80, 100])
def test_intervals_are_never_broken(width: int) -> None:
    """An interval stands on one line in every table."""
    text = render_terminal(build_document(analyses.many_loads()), width)
    assert "[+10.9 %, +13.3 %]" in text
    assert "58,245 to 59,573" in text


def test_colour_only_when_asked() -> None:
    """Without colour there is no escape sequence; with colour the words are the same."""
    document = build_document(analyses.quick())
    assert "\x1b[" not in render_terminal(document, 100)
    assert "\x1b[1;32mfaster\x1b[0m" in render_terminal(document, 100, colour=True)


def test_markup_in_names_is_text() -> None:
    """Brackets that Rich would take for markup are shown as they are."""
    text = render_terminal(build_document(analyses.hostile()), 100)
    assert "<script>alert('x')</script>" in text


def test_long_tables_are_cut() -> None:
    """Two servers of different versions differ in many settings; the terminal shows the first."""
    analysis = analyses.quick()
    many = tuple(replace(analysis.settings[0], name=f"setting_{i}") for i in range(90))
    text = render_terminal(build_document(replace(analysis, settings=many)), 100)
    assert "setting_29" in text
    assert "setting_30" not in text
    assert "and 60 more in the whole report" in text


def test_files_are_named() -> None:
    """The last lines say where the whole report lies."""
    text = render_terminal(build_document(analyses.quick()), 100, files=("dir/report.html",))
    assert text.rstrip().endswith("dir/report.html")


def test_an_interval_is_drawn_with_its_zero() -> None:
    """The drawing has a zero line, the margin, the interval and the estimate."""
    drawn = render_terminal(build_document(analyses.quick()), 100).split("\n")
    line = next(line for line in drawn if "━◆━" in line)
    assert line.index("│") < line.index("━") < line.index("◆")


@pytest.mark.slow
@pytest.mark.parametrize("width", range(40, 121, 4))
def test_a_percent_sign_stays_with_its_number(width: int) -> None:
    """No line begins with the sign, or with what closes the bracket around it."""
    text = render_terminal(build_document(analyses.many_loads()), width, whole=True)
    assert " %" in text
    assert not [line for line in text.split("\n") if line.lstrip().startswith("%")]
    assert "\ue000" not in text


def test_the_short_report_says_why_cells_and_effects_may_differ() -> None:
    """Who divides the medians of two cells gets another number, and is told why."""
    text = " ".join(render_terminal(build_document(analyses.quick()), 100).split())
    assert "Effects are ratios within blocks, not of the medians under Cells" in text
    whole = " ".join(render_terminal(build_document(analyses.quick()), 100, whole=True).split())
    assert "Effects come from the ratios within blocks, not from the medians in the cells" in whole
