"""Capacity, rates and goal in a report: in the result's place, in tables, a chart, and JSON."""

import json
import math
from dataclasses import replace

import pytest

from fakes import analyses, open_loops
from steelyard.answers.capacity.compute import open_loops as of_rates
from steelyard.answers.capacity.section import capacity_section, rate_answers
from steelyard.answers.report import build_document, summary
from steelyard.answers.results import CampaignAnalysis
from steelyard.core.target import POSTGRES_WORDS
from steelyard.report.document import Figure, Section, Table, filled
from steelyard.report.html import render_chart, render_html, render_markdown
from steelyard.report.terminal import render_terminal
from steelyard.stats.capacity import Reached


def section_of(analysis: CampaignAnalysis) -> Section:
    """Return the section of a campaign with open loops."""
    found = analysis.answer(of_rates)
    assert found is not None
    (section,) = capacity_section(analysis, found)
    return section


@pytest.fixture
def section() -> Section:
    """Return the section of a campaign with every kind of answer."""
    return filled(section_of(open_loops.with_rates()), POSTGRES_WORDS)


def _table(section: Section, title: str) -> list[dict[str, str]]:
    (table,) = [b for b in section.blocks if isinstance(b, Table) and b.title.startswith(title)]
    names = [column.name for column in table.columns]
    return [dict(zip(names, row.cells, strict=True)) for row in table.rows]


@pytest.mark.usefixtures("undrawn")
def test_the_answers_stand_where_the_results_do() -> None:
    """Capacity and goal are sentences there, each with its interval or what it lies beyond."""
    capacity, goal = filled(rate_answers(open_loops.with_rates()), POSTGRES_WORDS)
    assert capacity.items[0] == (
        "reads: 20,000/s [19,600, 20,400], from 8 clients on (default, before the first block)."
    )
    assert goal.lead == "The highest rate with p99 < 10 ms"
    assert goal.items[0] == "default, reads, 16 clients: about 16,100/s, [14,000, 18,000]."
    above, below = "above 18,000/s, the highest rate", "below 1,500/s, the lowest rate"
    assert f"fitted, reads, 16 clients: {above} that was measured (at least" in goal.items[1]
    assert f"default, writes, 16 clients: {below} that was measured (at most" in goal.items[2]
    assert "not enough transactions at any of the rates" in goal.items[3]
    assert goal.items[4].endswith("default, reads, 16 clients: at least +10.0 % with 95 %.")
    markdown = render_markdown(build_document(open_loops.with_rates()))
    assert markdown.index(goal.items[0]) < markdown.index("## Capacity and rates")
    assert goal.items[0] in render_html(build_document(open_loops.with_rates()))
    assert "about 16,100/s" in render_terminal(build_document(open_loops.with_rates()), 100)


def test_the_capacity_is_marked_among_its_points(section: Section) -> None:
    """Each number of clients has its throughput; the fewest that reach it have the capacity."""
    rows = _table(section, "Capacity")
    assert [row["clients"] for row in rows if row["capacity"]] == ["8", "8"]
    assert rows[2]["capacity"] == "20,000/s [19,600, 20,400]"
    assert rows[0]["tps"] == "6,000 [5,880, 6,120]"
    (table,) = [b for b in section.blocks if isinstance(b, Table) and b.title == "Capacity"]
    assert "held in 91 to 96 % of simulated campaigns" in table.note
    (figure,) = [block for block in section.blocks if isinstance(block, Figure)]
    marked = figure.columns.index("capacity")
    assert sum(bool(row[marked]) for row in figure.rows) == 2
    assert "20,000/s" in (render_chart(figure) or "")


def test_rates_say_what_was_offered_and_how_late_it_was(section: Section) -> None:
    """Offered with its share, achieved, percentiles with intervals, late and skipped."""
    row = _table(section, "Rates")[2]
    assert (row["clients"], row["offered"]) == ("16", "18,000 (90 %)")
    assert row["p99"] == "10.0 [9.00, 11.0]"
    assert (row["late"], row["skipped"]) == ("0.70 %", "0.30 %")
    assert row["lag p99"] == "not enough [500 of 1,000]"


def test_the_goal_says_what_it_rests_on(section: Section) -> None:
    """Censored values and bounds are words; pooled blocks and rates without an answer are told."""
    rows = _table(section, "The highest rate with p99 < 10 ms")
    assert [row["highest rate"] for row in rows] == [
        "16,100",
        "above 18,000",
        "below 1,500",
        "not enough transactions",
    ]
    assert rows[0]["95 % interval"] == "14,000 to 18,000"
    assert rows[1]["95 % interval"] == "18,000 to above 18,000"
    assert rows[2]["95 % interval"] == "below 1,500 to 1,500"
    note = next(b.note for b in section.blocks if isinstance(b, Table))
    assert "3 neighbouring blocks were added up" in note
    assert "not enough transactions at 2,700/s" in note


def test_json_has_the_keys_only_where_there_is_something() -> None:
    """``capacity``, ``rates`` and ``goal`` are strict JSON, and absent from other campaigns."""
    told = summary(open_loops.with_rates())
    text = json.dumps({key: told[key] for key in ("capacity", "rates", "goal")}, allow_nan=False)
    again = json.loads(text)
    assert again["capacity"][0]["clients"] == 8
    assert again["capacity"][0]["points"][0]["slices_tps"] == [6000.0] * 6
    assert again["rates"][0]["offered_per_s"] == 10_000.0
    assert again["rates"][0]["logged_transactions"] == 50_000
    assert (again["rates"][0]["skipped_percent"], again["rates"][0]["late_percent"]) == (0.3, 0.7)
    assert again["goal"]["percentile"] == 99.0
    first, second, third, fourth = again["goal"]["rates"]
    assert first["rate_per_s"] == {"estimate": 16_100.0, "low": 14_000.0, "high": 18_000.0}
    assert (first["beyond"], second["beyond"], third["beyond"]) == (None, "above", "below")
    assert second["rate_per_s"] == {"estimate": None, "low": 18_000.0, "high": None}
    assert fourth["rate_per_s"] is None
    assert again["goal"]["comparisons"][0]["low_percent"] == pytest.approx(10.0)
    assert again["goal"]["comparisons"][0]["high_percent"] is None
    assert not {"capacity", "rates", "goal"} & set(summary(analyses.quick()))


def test_without_open_loops_nothing_is_said() -> None:
    """Other reports have neither the section nor the sentences; a capacity alone has no goal."""
    assert "capacity" not in [each.anchor for each in build_document(analyses.quick()).sections]
    assert rate_answers(analyses.quick()) == ()
    alone = replace(open_loops.rates(), goal=None, goals=(), contrasts=(), points=())
    found = section_of(replace(analyses.quick(), answers={of_rates: alone}))
    assert len(found.blocks) == 2
    assert len(rate_answers(replace(analyses.quick(), answers={of_rates: alone}))) == 1


def test_threads_are_told_where_clients_do_not_tell_loads_apart() -> None:
    """16 clients on 2 and on 8 threads are two rows, so each says which it is."""
    given = open_loops.rates()
    two = [replace(open_loops.POOL, threads=threads) for threads in (2, 8)]
    goals = tuple(replace(given.goals[0], load=load) for load in two)
    cells = [replace(given.points[0].cell, load=replace(load, share=0.5)) for load in two]
    points = tuple(replace(given.points[0], cell=cell) for cell in cells)
    contrasts = tuple(replace(given.contrasts[0], load=load) for load in two)
    analysis = open_loops.with_rates()
    analysis = replace(
        analysis,
        experiment=replace(analysis.experiment, loads=tuple(cell.load for cell in cells)),
        answers={of_rates: replace(given, points=points, goals=goals, contrasts=contrasts)},
    )
    found = section_of(analysis)
    told = ["16 (2 threads)", "16 (8 threads)"]
    assert [row["clients"] for row in _table(found, "Rates")] == told
    assert [row["clients"] for row in _table(found, "The highest rate")] == told
    items = rate_answers(analysis)[1].items
    assert len(set(items)) == 4
    assert items[0].startswith("default, reads, 16 clients, 2 threads: about")


@pytest.mark.parametrize(
    ("low", "high", "beyond", "told"),
    [
        (-math.inf, math.inf, 1, "not comparable, both lie above the measured rates."),
        (-math.inf, math.inf, -1, "not comparable, both lie below the measured rates."),
        (-math.inf, math.inf, 0, "undecided with 12 blocks."),
        (-math.inf, math.log(0.9), 0, "at most -10.0 % with 95 %."),
        (None, None, 0, "+12.0 %, no interval below 6 blocks."),
    ],
)
def test_a_ratio_says_what_it_does_not_know(
    low: float | None, high: float | None, beyond: int, told: str
) -> None:
    """Open bounds are no censored values; a single bound says how sure it is.

    A program gets no figure for a difference that blocks beyond all rates may move.
    """
    given = open_loops.rates()
    ratio = Reached(value=math.log(1.12), low=low, high=high)
    contrast = replace(given.contrasts[0], ratio=ratio, beyond=beyond)
    analysis = replace(
        open_loops.with_rates(), answers={of_rates: replace(given, contrasts=(contrast,))}
    )
    assert rate_answers(analysis)[1].items[-1].endswith(f"16 clients: {told}")
    effect = summary(analysis)["goal"]["comparisons"][0]["effect_percent"]
    assert effect == (None if low is not None else pytest.approx(12.0))


def test_few_blocks_beyond_all_rates_tell_no_ratio() -> None:
    """One side meets the goal at every rate: the edge of what was measured is not its rate."""
    given = open_loops.rates()
    ratio = Reached(value=math.log(5 / 3), low=None, high=None)
    contrast = replace(given.contrasts[0], ratio=ratio, censored=True, blocks=4)
    analysis = replace(
        open_loops.with_rates(), answers={of_rates: replace(given, contrasts=(contrast,))}
    )
    assert rate_answers(analysis)[1].items[-1].endswith("undecided with 4 blocks.")
    assert summary(analysis)["goal"]["comparisons"][0]["effect_percent"] is None


def test_blocks_on_both_sides_of_all_rates_are_no_rate() -> None:
    """Neither above nor below: the sentence, the table and the JSON say so."""
    given = open_loops.rates()
    split = Reached(value=None, low=-math.inf, high=math.inf)
    goals = (replace(given.goals[0], reached=split),)
    analysis = replace(open_loops.with_rates(), answers={of_rates: replace(given, goals=goals)})
    (sentence, _) = rate_answers(analysis)[1].items
    assert "undecided, as many blocks lie below all measured rates as above them" in sentence
    section = section_of(analysis)
    (row,) = _table(section, "The highest rate")
    assert row["highest rate"] == "undecided"
    told = summary(analysis)["goal"]["rates"][0]
    assert (told["beyond"], told["rate_per_s"]["estimate"]) == ("both", None)
