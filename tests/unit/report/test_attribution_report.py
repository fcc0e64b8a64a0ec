"""The report of factors: what each buys, in every form, and what it says aloud it cannot tell."""

import json
from collections.abc import Callable

import pytest
from test_golden import check

from fakes.factorial import factored
from steelyard.answers.attribution import attribution_section
from steelyard.answers.report import build_document, summary
from steelyard.answers.results import CampaignAnalysis
from steelyard.core.experiment import AttributionKind
from steelyard.report.document import Figure, Paragraph, Section, Table, Tone, rate
from steelyard.report.html import render_chart, render_html, render_markdown
from steelyard.report.terminal import render_terminal

LADDER, ABLATION = AttributionKind.LADDER, AttributionKind.ABLATION


def section(analysis: CampaignAnalysis) -> Section:
    """Return the one section about factors."""
    (found,) = attribution_section(analysis)
    return found


def warnings(analysis: CampaignAnalysis) -> str:
    """Return what must not be overlooked in the section."""
    told = [b for b in section(analysis).blocks if isinstance(b, Paragraph)]
    return " ".join(b.text for b in told if b.tone is Tone.WARNING)


def table(analysis: CampaignAnalysis) -> list[tuple[str, ...]]:
    """Return the rows of the table of effects."""
    found, *_ = (b for b in section(analysis).blocks if isinstance(b, Table))
    return [row.cells for row in found.rows]


@pytest.mark.parametrize(
    ("render", "name"),
    [
        (render_markdown, "factorial.md"),
        (lambda document: render_terminal(document, 100), "factorial.txt"),
    ],
    ids=["markdown", "terminal"],
)
def test_the_report_word_for_word(render: Callable[[object], str], name: str) -> None:
    """A full factorial of three factors says what it said before, to the letter."""
    check(name, render(build_document(factored(3))))


@pytest.mark.parametrize(
    ("kind", "factors", "said"),
    [
        (LADDER, 3, "depends on the order chosen: huge-pages, then buffers, then commit"),
        (ABLATION, 3, "synergies are counted in every removal"),
        (AttributionKind.FACTORS, 4, "huge-pages x buffers cannot be told from commit x wal"),
        (AttributionKind.FACTORS, 5, "Only 16 of 32 combinations are measured"),
    ],
)
def test_what_cannot_be_told_apart(kind: AttributionKind, factors: int, said: str) -> None:
    """It stands in the section as a warning, among the limits, and in the summary."""
    analysis = factored(factors, kind, clients=(8,), blocks=8)
    assert said in warnings(analysis)
    page = render_markdown(build_document(analysis))
    assert said in page[page.index("It does not show") :]
    told = summary(analysis)["attribution"]
    assert isinstance(told, dict)
    assert any(said in limit for limit in told["limits"])


def test_a_fraction_sends_nobody_to_effects_that_it_lacks() -> None:
    """Of five factors a synergy shows, but nothing added alone or removed last."""
    for factors, is_told in ((3, True), (5, False)):
        analysis = factored(factors, clients=(8,))
        kinds = {row[1] for row in table(analysis)}
        page = render_markdown(build_document(analysis))
        assert "huge-pages x buffers together do" in page
        assert ("added alone" in kinds) is is_told
        assert ("read added alone and removed last" in page) is is_told


def test_a_full_factorial_warns_of_nothing() -> None:
    """What it cannot do (be sure that there is no synergy) is among the limits."""
    assert warnings(factored(2)) == ""
    page = render_markdown(build_document(factored(2)))
    assert "where a synergy shows no clear difference" in page


@pytest.mark.parametrize("kind", list(AttributionKind))
def test_the_chart_has_a_row_per_effect_and_workload(kind: AttributionKind) -> None:
    """Main effects, steps or removals as diamonds, synergies as dots, and it can be drawn."""
    analysis = factored(3, kind)
    (drawn,) = (b for b in section(analysis).blocks if isinstance(b, Figure))
    rows = [dict(zip(drawn.columns, row, strict=True)) for row in drawn.rows]
    synergies = 3 if kind is AttributionKind.FACTORS else 0
    assert [row["pooled"] for row in rows] == ([True] * 3 + [False] * synergies) * 2
    assert all(row["low"] < row["effect"] < row["high"] for row in rows)
    picture = render_chart(drawn)
    assert picture is not None
    assert "huge-pages" in picture


def test_comparisons_and_colours_are_those_of_the_levels() -> None:
    """Configurations have their colours; effects of factors are neutral, for these are none."""
    document = build_document(factored(3))
    figures = [b for s in document.sections for b in s.every if isinstance(b, Figure)]
    assert [f.identity for f in figures] == ["attribution", "effects", "loads", "blocks", "strips"]
    colours = {each.identity: each.configurations for each in figures}
    assert {colours[name] for name in ("attribution", "effects", "blocks")} == {
        ("the first level",)
    }
    assert {colours[name] for name in ("loads", "strips")} == {factored(3).names}


def test_one_load_needs_no_second_chart_of_effects() -> None:
    """With one load the cells are the results."""
    document = build_document(factored(2, clients=(8,)))
    figures = [b for s in document.sections for b in s.every if isinstance(b, Figure)]
    assert "effects" not in [f.identity for f in figures]


def test_early_effects_are_null_in_the_summary() -> None:
    """Before the first look no effect has a bound."""
    early = json.loads(json.dumps(summary(factored(3, blocks=3)), allow_nan=False))["attribution"]
    assert {e["low_percent"] for e in early["effects"]} == {None}


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [0, 1, 3])
def test_partial_campaigns_have_a_report(blocks: int) -> None:
    """Before the first look nothing claims an interval, and every form can be made."""
    document = build_document(factored(3, blocks=blocks))
    assert render_html(document)
    assert render_terminal(document)
    if blocks:
        assert {row[5] for row in table(factored(3, blocks=blocks))} == {
            "no interval yet",
            "no verdict yet",
        }


def test_a_journey_has_the_levels_after_each_step() -> None:
    """A row per workload and load, a column per step; designs without an order have none."""
    analysis = factored(3, AttributionKind.LADDER)
    text = render_markdown(build_document(analysis))
    table = text.partition("**Levels, step by step**\n\n")[2].partition("\n\n")[0].splitlines()
    assert [cell.strip() for cell in table[0].strip("|").split("|")] == [
        *("workload", "load", "at the start (1/s)"),
        *("+ huge-pages (1/s)", "+ buffers (1/s)", "+ commit (1/s)"),
    ]
    assert len(table) - 2 == len(analysis.experiment.workloads) * len(analysis.experiment.loads)
    last = [cell.strip() for cell in table[-1].strip("|").split("|")]
    names = [each.name for each in analysis.experiment.configurations]
    load = analysis.experiment.loads[-1]
    levels = {
        each.configuration: each.tps.value
        for each in analysis.cells
        if (each.cell.workload, each.cell.load) == ("writes", load)
    }
    assert last[2:] == [rate(levels[name]) for name in names]
    for kind in (AttributionKind.FACTORS, AttributionKind.ABLATION):
        assert "step by step" not in render_markdown(build_document(factored(3, kind)))
