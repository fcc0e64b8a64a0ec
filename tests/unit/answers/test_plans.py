"""Plans of statements: which differ between configurations, and how that is told."""

from dataclasses import replace
from pathlib import Path

import pytest

from fakes import analyses
from steelyard.answers.report import build_document, summary
from steelyard.answers.results import CampaignAnalysis
from steelyard.answers.statements.section import (
    TracedStatement,
    chain,
    figures_of_plan,
    plan_section,
    traced,
)
from steelyard.core.measurement import StatementPlan
from steelyard.report.document import BulletList, Paragraph, Section, Table
from steelyard.report.terminal import render_terminal

RECORDINGS = Path(__file__).parents[2] / "recordings" / "postgres"
STATEMENT = "SELECT count(*) FROM orders\n WHERE customer = :c"
INDEX = (
    "Aggregate",
    "  ->  Bitmap Heap Scan on orders",
    "        Recheck Cond: (customer = $1)",
    "        ->  Bitmap Index Scan on orders_customer_idx",
    "              Index Cond: (customer = $1)",
)
SCAN = ("Aggregate", "  ->  Seq Scan on orders", "        Filter: (customer = $1)")


def a_plan(*lines: str, trouble: str = "") -> StatementPlan:
    """Return a plan of the statement."""
    return StatementPlan(workload="q", statement=STATEMENT, lines=lines, trouble=trouble)


def told(*statements: dict[str, StatementPlan]) -> CampaignAnalysis:
    """Return an analysis that knows these plans, by configuration."""
    found = tuple(
        TracedStatement(workload="q", statement=STATEMENT, plans=plans) for plans in statements
    )
    return replace(analyses.quick(), answers={traced: found})


def section_of(analysis: CampaignAnalysis) -> Section:
    """Return the section."""
    (section,) = plan_section(analysis, analysis.answer(traced) or ())
    return section


def test_a_plan_is_told_from_its_leaves_to_its_root() -> None:
    """Nodes alone; their conditions and costs are not."""
    assert chain(a_plan(*SCAN)) == "Seq Scan on orders \N{RIGHTWARDS ARROW} Aggregate"
    assert chain(a_plan(*INDEX)).split(" \N{RIGHTWARDS ARROW} ") == [
        "Bitmap Index Scan on orders_customer_idx",
        "Bitmap Heap Scan on orders",
        "Aggregate",
    ]
    keys = a_plan("Seq Scan on orders", "  Filter: ((data -> 'customer'::text) = $1)")
    assert chain(keys) == "Seq Scan on orders"
    assert chain(a_plan(trouble="it is gone")) == "not known: it is gone"


def test_plans_that_differ_are_shown_side_by_side() -> None:
    """Each configuration has a row; what is equal everywhere is only counted."""
    differ = {"now": a_plan(*INDEX), "changed": a_plan(*SCAN)}
    same = {"now": a_plan(*SCAN), "changed": a_plan(*SCAN)}
    section = section_of(told(differ, same))
    lead, table = section.blocks
    assert isinstance(lead, Paragraph)
    assert lead.text == (
        "1 of 2 statements has different plans, in q; 1 has the same plan in all configurations."
    )
    assert isinstance(table, Table)
    assert [row.cells[:2] for row in table.rows] == [
        ("SELECT count(*) FROM orders WHERE customer = :c", "now"),
        ("", "changed"),
    ]


def test_a_plan_like_the_baselines_does_not_differ() -> None:
    """Of three configurations only the one whose plan is another stands beside the baseline."""
    analysis = told({"cheap": a_plan(*SCAN), "now": a_plan(*SCAN), "changed": a_plan(*INDEX)})
    analysis = replace(analysis, experiment=replace(analysis.experiment, baseline="now"))
    _, table = section_of(analysis).blocks
    assert isinstance(table, Table)
    assert [row.cells[1] for row in table.rows] == ["now", "changed"]


@pytest.mark.parametrize(("count", "more"), [(1, ""), (2, ""), (3, "and 1 more"), (9, "and 7")])
def test_plans_that_differ_are_on_the_first_screen(count: int, more: str) -> None:
    """However many they are: the first two, and how many more there are."""
    differ = {"now": a_plan(*INDEX), "changed": a_plan(*SCAN)}
    document = build_document(told(*[differ] * count))
    text = render_terminal(document, 100, more="steelyard report c")
    assert f"{count} of {count} statement" in text
    assert text.count("Seq Scan on orders") == min(count, 2)
    assert (f"{more} more in the whole report" if "7" in more else more) in text


@pytest.mark.parametrize("trouble", ["", "relation nope does not exist"])
def test_equal_plans_are_one_sentence(trouble: str) -> None:
    """What is not known is no difference, and is said."""
    now = a_plan(*SCAN)
    other = a_plan(trouble=trouble) if trouble else now
    section = section_of(told({"now": now, "changed": other}))
    lead, *rest = section.blocks
    assert isinstance(lead, Paragraph)
    assert lead.text == "1 statement: each has the same plan in all configurations."
    assert [type(block) for block in rest] == ([BulletList] if trouble else [])


def test_programs_get_whole_plans() -> None:
    """All lines, and why there are none."""
    found = summary(told({"now": a_plan(*INDEX), "changed": a_plan(trouble="gone")}))
    assert found["plans"] == [
        {
            "workload": "q",
            "statement": STATEMENT,
            "differ": False,
            "plans": {
                "now": {"lines": list(INDEX), "trouble": None, "runs": []},
                "changed": {"lines": [], "trouble": "gone", "runs": []},
            },
        }
    ]


# As PostgreSQL 18 prints it; the pages that planning took are no part of the execution.
FIRST = (
    "Aggregate (actual time=41.870..41.871 rows=1.00 loops=1)",
    "  Buffers: shared hit=4 read=104",
    "  ->  Index Scan using pages_m_n on pages (actual time=4.4..41.8 rows=10.00 loops=1)",
    "        Index Searches: 1",
    "        Buffers: shared hit=4 read=104",
    "Planning:",
    "  Buffers: shared hit=96 read=17",
    "Planning Time: 6.018 ms",
    "Execution Time: 41.958 ms",
)
AGAIN = (
    "Aggregate (actual time=0.051..0.052 rows=1.00 loops=1)",
    "  Buffers: shared hit=108, temp read=50 written=50",
    "Planning:",
    "  Buffers: shared read=3",
    "  I/O Timings: shared read=7.100",
    "Planning Time: 0.082 ms",
    "Execution Time: 0.071 ms",
)


def test_what_was_executed_is_told_first_and_again() -> None:
    """Time and pages of the execution; a count that is missing is 0."""
    run = replace(a_plan(*INDEX), runs=(FIRST, AGAIN))
    section = section_of(told({"now": run, "changed": replace(run, runs=())}))
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    assert [row.cells for row in table.rows] == [
        (
            "SELECT count(*) FROM orders WHERE customer = :c",
            "now",
            *("42", "0.071", "104", "0", "4", "108"),
        )
    ]
    found = summary(told({"now": run}))
    assert found["plans"][0]["plans"]["now"]["runs"] == [list(FIRST), list(AGAIN)]


@pytest.mark.parametrize(
    ("version", "figures"),
    [
        (15, {"execution time": 49.016, "buffers read": 195.0, "buffers hit": 773.0}),
        (18, {"execution time": 4.852, "buffers read": 56.0, "buffers hit": 89.0}),
    ],
)
def test_figures_of_a_recorded_execution(version: int, figures: dict[str, float]) -> None:
    """Time and pages of the topmost node, without the buffers of planning below it."""
    lines = (RECORDINGS / f"explain-{version}.txt").read_text().splitlines()
    assert figures_of_plan(lines) == figures
