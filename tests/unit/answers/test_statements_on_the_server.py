"""What each statement took on the server, what one costs, and which plans differ."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from jsonschema import Draft7Validator
from made_records import a_record, an_experiment
from watched_records import DEFAULT, a_watched_record

from fakes import analyses
from steelyard.answers.campaign import analyse
from steelyard.answers.observations import whole_transactions
from steelyard.answers.report import build_document, summary, summary_schema
from steelyard.answers.results import CampaignAnalysis
from steelyard.answers.statements.compute import (
    StatementTally,
    fit_of_statements,
    tallied,
    use_section,
)
from steelyard.answers.statements.executions import figures_of_plan, misestimate_of
from steelyard.answers.statements.plans import PlanSeries, node_change, plan_lines
from steelyard.answers.statements.section import (
    TracedStatement,
    chain,
    plan_section,
    traced,
)
from steelyard.core.campaign import CampaignRecord
from steelyard.core.experiment import Experiment, Workload
from steelyard.core.findings import Verdict
from steelyard.core.measurement import (
    COMMIT,
    Evidence,
    PlanChange,
    Run,
    StatementPlan,
    StatementUse,
)
from steelyard.core.schedule import Load
from steelyard.report.document import Block, BulletList, Command, Paragraph, Section, Table
from steelyard.report.terminal import render_terminal

UPDATE = "UPDATE accounts SET balance = balance + $1 WHERE aid = $2"
SELECT = "SELECT balance FROM accounts WHERE aid = $1"
RAMP_S = 2.0


def using(run: Run, **seconds: float) -> Evidence:
    """Return evidence of a run: so long per call, one call of each per transaction."""
    calls = whole_transactions(run, RAMP_S)
    assert calls is not None
    texts = {"update": UPDATE, "select": SELECT, "commit": COMMIT}
    uses = tuple(
        StatementUse(
            text=texts[name],
            calls=calls,
            seconds=calls * each_s,
            rows=calls,
            pages_hit=4 * calls,
            pages_read=0.0,
            wal_bytes=calls * (250.0 if name == "update" else 0.0),
        )
        for name, each_s in seconds.items()
    )
    assert run.evidence is not None
    return replace(run.evidence, statements=uses)


def watched(by_run: Callable[[Run], Evidence], blocks: int = 12) -> CampaignRecord:
    """Return a record of equal configurations whose runs carry evidence."""
    record = a_watched_record(DEFAULT, DEFAULT, blocks=blocks)
    return replace(record, runs=tuple(replace(run, evidence=by_run(run)) for run in record.runs))


def compared(blocks: int = 12) -> CampaignRecord:
    """Return a record in which the commit is 0.5 ms shorter and the update 0.1 ms longer.

    Each block is a little different, so that there are intervals.
    """

    def by_run(run: Run) -> Evidence:
        drift = 1.0 + 0.01 * (run.block % 3)
        if run.configuration == "t0":
            return using(run, update=0.2e-3 * drift, select=0.1e-3 * drift, commit=1e-3 * drift)
        return using(run, update=0.3e-3 * drift, select=0.1e-3 * drift, commit=0.5e-3 * drift)

    return watched(by_run, blocks)


def tallies_of(record: CampaignRecord) -> tuple[StatementTally, ...]:
    """Return what an analysis computed."""
    return analyse(record).answer(tallied) or ()


def test_statements_come_in_the_order_of_what_they_add() -> None:
    """The commit first, by its size and not its sign; the sums are those of the runs."""
    tally = tallies_of(compared())[0]
    assert [each.text for each in tally.statements] == [COMMIT, UPDATE, SELECT]
    commit, update, select = tally.statements
    assert commit.added.value == pytest.approx(-0.5e-3, rel=0.02)
    assert update.added.value == pytest.approx(0.1e-3, rel=0.02)
    assert select.added.value == pytest.approx(0.0, abs=1e-9)
    assert tally.added.value == pytest.approx(-0.4e-3, rel=0.02)
    assert commit.clear
    assert not select.clear
    assert tally.blocks == 12


def test_a_call_has_its_own_figures() -> None:
    """Time, WAL and pages of one call on both sides; relative where both are above 0."""
    commit, update, _ = tallies_of(compared())[0].statements
    time = commit.seconds_per_call
    assert time is not None
    assert time.relative
    assert time.change.value == pytest.approx(-0.5, rel=0.01)
    assert (time.baseline, time.configuration) == pytest.approx((1.01e-3, 0.505e-3), rel=0.02)
    wal = update.wal_bytes_per_call
    assert wal is not None
    assert wal.baseline == pytest.approx(250.0)
    read = update.pages_read_per_call
    assert read is not None
    assert not read.relative
    assert commit.calls == pytest.approx((1.0, 1.0))
    assert commit.shares == pytest.approx((1 / 1.3, 0.5 / 0.9), rel=0.01)


def test_the_time_of_all_statements_holds_those_that_are_not_told() -> None:
    """Of 60 statements 30 are told; the others, which got slower, are in the sum and in shares."""

    def by_run(run: Run) -> Evidence:
        calls = whole_transactions(run, RAMP_S)
        assert calls is not None
        assert run.evidence is not None
        rest_s = 0.3e-3 if run.configuration == "t0" else 0.9e-3
        uses = tuple(
            StatementUse(
                text=f"SELECT {number}",
                calls=calls,
                seconds=calls * (1e-3 if number < 30 else rest_s),
                rows=calls,
                pages_hit=0.0,
                pages_read=0.0,
                wal_bytes=0.0,
            )
            for number in range(60)
        )
        return replace(run.evidence, statements=uses)

    tally = tallies_of(watched(by_run))[0]
    assert len(tally.statements) == 30
    assert tally.added.value == pytest.approx(30 * 0.6e-3)
    assert tally.statements[0].shares == pytest.approx((1 / 39, 1 / 57))


def test_each_statement_has_a_verdict_on_the_time_of_its_call() -> None:
    """At a level that all share, so its interval is no narrower than that of one alone."""
    commit, update, select = tallies_of(compared())[0].statements
    words = (commit.verdict, update.verdict, select.verdict)
    assert words == (Verdict.FASTER, Verdict.SLOWER, Verdict.EQUIVALENT)
    assert update.time_change is not None
    assert update.time_change.value == pytest.approx(0.5, rel=0.01)
    assert tallies_of(compared(4))[0].statements[0].verdict is Verdict.NO_CLEAR_DIFFERENCE


def test_few_blocks_have_no_bounds() -> None:
    """Below six blocks nothing is clear."""
    tally = tallies_of(compared(4))[0]
    assert tally.added.low is None
    assert not any(each.clear for each in tally.statements)


def test_a_statement_of_one_side_adds_all_its_time_and_has_no_call_to_compare() -> None:
    """What a configuration does not send takes 0, and nothing is known of a call of it."""

    def by_run(run: Run) -> Evidence:
        more = {} if run.configuration == "t0" else {"select": 1e-3}
        return using(run, update=1e-3, **more)

    found = {each.text: each for each in tallies_of(watched(by_run))[0].statements}
    assert found[SELECT].added.value == pytest.approx(1e-3)
    assert found[SELECT].seconds_per_call is None
    assert found[SELECT].calls == pytest.approx((0.0, 1.0))


def test_blocks_in_which_one_run_was_not_read_are_left_out() -> None:
    """Missing is not 0: the block is out, on both sides."""

    def by_run(run: Run) -> Evidence:
        assert run.evidence is not None
        unread = (run.block, run.configuration) == (0, "t0")
        return run.evidence if unread else using(run, update=1e-3)

    assert tallies_of(watched(by_run))[0].blocks == 11


def test_without_statements_there_is_nothing() -> None:
    """No section and no key, also where runs were watched."""
    analysis = analyse(a_watched_record(DEFAULT, DEFAULT))
    assert analysis.answer(tallied) == ()
    assert "Statements on the server" not in [s.title for s in build_document(analysis).sections]
    assert "statement_uses" not in summary(analysis)


def _section_of(analysis: CampaignAnalysis) -> list[object]:
    (section,) = use_section(analysis, analysis.answer(tallied) or ())
    return list(section.blocks)


def test_the_section_says_which_statement_it_is() -> None:
    """In a sentence, then both tables; the report has it."""
    analysis = analyse(compared())
    _, said, times, calls, *_ = _section_of(analysis)
    assert isinstance(said, Paragraph)
    assert "most of what is clear is `COMMIT` with -0.5" in said.text
    assert isinstance(times, Table)
    assert [row.cells[0] for row in times.rows] == [COMMIT, UPDATE, SELECT]
    assert isinstance(calls, Table)
    assert ("WAL bytes", "250", "250") in [row.cells[1:4] for row in calls.rows]
    titles = [each.title for each in build_document(analysis).sections]
    assert "Statements on the server" in titles


@pytest.mark.parametrize(("protocol", "is_told"), [("simple", False), ("prepared", True)])
def test_under_prepared_it_is_told_that_commits_are_not_counted(
    protocol: str, *, is_told: bool
) -> None:
    """The server counts the first of a session alone; under other protocols it counts all."""
    record = compared()
    record = replace(record, experiment=replace(record.experiment, protocol=protocol))
    told = [each.text for each in _section_of(analyse(record)) if isinstance(each, Paragraph)]
    assert any("the first execution alone" in text for text in told) is is_told


def test_few_blocks_are_not_told_as_no_difference() -> None:
    """Nobody has looked yet; with enough of them the clear statement is named."""
    _, few, *_ = _section_of(analyse(compared(4)))
    assert isinstance(few, Paragraph)
    assert "so few blocks have no interval" in few.text


def test_the_schema_describes_what_programs_get() -> None:
    """Every key of it, and no other."""
    schema = summary_schema()
    uses = {**schema["properties"]["statement_uses"], "$defs": schema["$defs"]}
    told = summary(analyse(compared()))["statement_uses"]
    Draft7Validator(uses).validate(told)
    assert isinstance(told, list)
    assert isinstance(told[0], dict)
    assert set(told[0]) <= set(uses["items"]["properties"])
    statements = told[0]["statements"]
    assert isinstance(statements, list)
    assert isinstance(statements[0], dict)
    of_statement = uses["items"]["properties"]["statements"]["items"]["properties"]
    assert set(statements[0]) == set(of_statement)


SCRIPTS = ("select-only", "simple-update", "tpcb-like")
STATEMENTS, COMMITS = np.array([1.0, 5.0, 7.0]), np.array([0.0, 1.0, 1.0])


def alone(*clients: int, scripts: tuple[str, ...] = SCRIPTS) -> Experiment:
    """Return an experiment of these scripts with these clients."""
    workloads = tuple(Workload(name=s, builtin=s, scale=10) for s in scripts)
    loads = tuple(Load(clients=number, threads=1) for number in clients)
    return replace(an_experiment(), workloads=workloads, loads=loads)


def latencies(*costs: tuple[float, float], blocks: int = 12) -> np.ndarray:
    """Return ln(1/s) of every block, configuration and script, each block a little different."""
    drift = 1.0 + 0.02 * np.sin(np.arange(blocks))[:, None]
    sides = [drift * (a * STATEMENTS + b * COMMITS) for a, b in costs]
    return -np.log(np.stack(sides, axis=1))


def test_a_cost_of_every_statement_is_told_from_one_of_the_commit() -> None:
    """The configuration adds 0.1 ms to every statement and nothing to the commit."""
    record = a_record(latencies((0.2e-3, 1e-3), (0.3e-3, 1e-3)), alone(1))
    fit = analyse(record).answer(fit_of_statements)
    assert fit is not None
    assert [cost.per_statement_s.value for cost in fit.costs] == pytest.approx(
        [0.2e-3, 0.3e-3], rel=0.01
    )
    (difference,) = fit.differences
    assert difference.per_statement_s.value == pytest.approx(0.1e-3, rel=0.02)
    assert difference.is_of_round_trips
    assert not difference.is_of_commits


def test_a_cost_of_the_commit_is_told_from_one_of_every_statement() -> None:
    """Half the commit's cost is gone; statements cost what they did."""
    record = a_record(latencies((0.2e-3, 2e-3), (0.2e-3, 1e-3)), alone(1))
    fit = analyse(record).answer(fit_of_statements)
    assert fit is not None
    assert fit.differences[0].is_of_commits
    assert not fit.differences[0].is_of_round_trips


def test_a_script_on_another_size_of_data_hides_no_costs() -> None:
    """The reads ran on two sizes, the writes on one of them: that one tells the costs."""
    experiment = alone(1)
    larger = Workload(name="larger", builtin="select-only", scale=1000)
    two = replace(experiment, workloads=(larger, *experiment.workloads))
    rates = latencies((0.2e-3, 2e-3), (0.3e-3, 2e-3))
    slow = rates[:, :, :1] - np.log(10.0)
    fit = analyse(a_record(np.concatenate([slow, rates], axis=2), two)).answer(fit_of_statements)
    alone_told = analyse(a_record(rates, experiment)).answer(fit_of_statements)
    assert fit is not None
    assert fit == alone_told
    assert fit.one_statement is not None
    assert fit.one_statement.workload == "select-only"


def test_few_blocks_have_costs_and_no_bounds() -> None:
    """Below six blocks signed ranks reach no bound, so nothing is sure."""
    record = a_record(latencies((0.2e-3, 2e-3), (0.4e-3, 1e-3), blocks=4), alone(1))
    fit = analyse(record).answer(fit_of_statements)
    assert fit is not None
    assert fit.costs[0].per_statement_s.low is None
    assert not fit.differences[0].is_of_round_trips


@pytest.mark.parametrize(
    "experiment",
    [
        alone(2),
        alone(1, scripts=SCRIPTS[:2]),
        replace(
            alone(1),
            workloads=tuple(
                Workload(name=s, builtin=s, scale=10 + place) for place, s in enumerate(SCRIPTS)
            ),
        ),
    ],
    ids=["two clients", "two scripts", "data of different sizes"],
)
def test_other_campaigns_have_no_fit(experiment: Experiment) -> None:
    """Without one client, all three scripts, and one size of data there is nothing to fit."""
    cells = len(experiment.workloads) * len(experiment.loads)
    record = a_record(np.zeros((8, 2, cells)), experiment)
    assert analyse(record).answer(fit_of_statements) is None


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
    trees = [(b.text.rpartition(": ")[2], tree.text) for b, tree in batched(section.more)]
    index, scan = "\n".join(INDEX), "\n".join(SCAN)
    assert trees == [("now", index), ("changed", scan), ("the same in all configurations", scan)]


def batched(blocks: Sequence[Block]) -> Iterable[tuple[Paragraph, Command]]:
    """Return each plan of the details below whose it is."""
    return zip(blocks[::2], blocks[1::2], strict=True)  # type: ignore[return-value]


def test_a_plan_like_the_baselines_does_not_differ() -> None:
    """Of three configurations only the one whose plan is another stands beside the baseline."""
    analysis = told({"cheap": a_plan(*SCAN), "now": a_plan(*SCAN), "changed": a_plan(*INDEX)})
    analysis = replace(analysis, experiment=replace(analysis.experiment, baseline="now"))
    _, table = section_of(analysis).blocks
    assert isinstance(table, Table)
    assert [row.cells[1] for row in table.rows] == ["now", "changed"]


@pytest.mark.parametrize(
    ("plans", "line"),
    [
        (
            {"default": SCAN, "a": INDEX, "b": INDEX},
            "Seq Scan on orders → Bitmap Heap Scan on orders (orders_customer_idx) (a, b)",
        ),
        ({"default": None, "a": SCAN, "b": INDEX}, "different plans; that of default is not known"),
        ({"default": SCAN, "a": None}, "1 statement with a plan that is not known."),
    ],
    ids=["alike", "baseline unknown", "other unknown"],
)
def test_a_line_of_plans_names_all_and_what_is_not_known(
    plans: dict[str, tuple[str, ...] | None], line: str
) -> None:
    """Each configuration with the same change; an unknown plan is none that is kept."""
    found = {
        name: a_plan(*lines) if lines else a_plan(trouble="it is gone")
        for name, lines in plans.items()
    }
    (brief,) = section_of(told(found)).brief
    assert isinstance(brief, Paragraph)
    assert brief.text.endswith(line)
    assert "keeps" not in brief.text


@pytest.mark.parametrize(
    ("differing", "same", "last"),
    [
        (3, 2, "2 statements keep their plan in all configurations."),
        (2, 4, "4 statements keep their plan in all configurations."),
        (0, 1, "1 statement keeps its plan in all configurations."),
        (9, 0, "and 4 more with another plan"),
    ],
)
def test_plans_are_on_the_first_screen(differing: int, same: int, last: str) -> None:
    """A line for each of the first five that change, and one for those that do not."""
    change = {"default": a_plan(*INDEX), "fitted": a_plan(*SCAN)}
    kept = {"default": a_plan(*SCAN), "fitted": a_plan(*SCAN)}
    document = build_document(told(*[change] * differing, *[kept] * same))
    text = render_terminal(document, 100, more="steelyard report c")
    _, _, shown = text.partition("Plans of the statements")
    line = "Bitmap Heap Scan on orders (orders_customer_idx) → Seq Scan on orders (fitted)"
    assert " ".join(shown.split()).count(line) == min(differing, 5)
    assert last in shown


def test_plans_are_told_before_a_trial_a_line_for_each_that_changes() -> None:
    """Also where most change; several that keep their plan share a line."""

    def changes(differing: int, same: int) -> list[str]:
        other = PlanChange(script="a.sql", statement="SELECT 1", drawn=1, changed=1)
        other = replace(other, before=INDEX, after=SCAN)
        alike = PlanChange(script="b.sql", statement="SELECT 2", drawn=1)
        found = [other] * differing + [alike] * same
        return [*plan_lines(PlanSeries({"work_mem": "64MB"}, found, False), is_answer=False)]  # noqa: FBT003 - as `try` makes it

    arrow, index = "→", "Bitmap Heap Scan on orders (orders_customer_idx)"
    line = f"  a.sql: {index} {arrow} Seq Scan on orders; SELECT 1"
    head, *lines = changes(3, 2)
    assert head == "3 of 5 statements with another plan under work_mem = 64MB:"
    assert lines == [line] * 3 + ["  2 statements keep their plan.", ""]
    assert changes(2, 4)[1:] == [line] * 2 + ["  4 statements keep their plan.", ""]
    assert changes(0, 1) == ["1 statement keeps its plan under work_mem = 64MB."]


def test_a_plan_that_changes_without_another_node_says_what_may_have() -> None:
    """Conditions, workers and JIT are no nodes."""
    other = (*SCAN[:2], "        Filter: (customer > $1)")
    assert node_change(SCAN, other).startswith("the same nodes, with other conditions")
    assert node_change((), SCAN).startswith("no plan ")


@pytest.mark.parametrize("trouble", ["", "relation nope does not exist"])
def test_equal_plans_are_one_sentence(trouble: str) -> None:
    """What is not known is no difference, and is said."""
    now = a_plan(*SCAN)
    other = a_plan(trouble=trouble) if trouble else now
    section = section_of(told({"now": now, "changed": other}))
    lead, *rest = section.blocks
    assert isinstance(lead, Paragraph)
    same = "1 statement: each has the same plan in all configurations."
    unknown = "1 statement: no plan is known to differ; 1 has a plan that is not known."
    assert lead.text == (unknown if trouble else same)
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
            *("42", "0.071", "104", "0", "4", "108", "0", "50"),
        )
    ]
    found = summary(told({"now": run}))
    assert found["plans"][0]["plans"]["now"]["runs"] == [list(FIRST), list(AGAIN)]


@pytest.mark.parametrize(
    ("version", "figures"),
    [
        (15, {"execution": 49.016, "read": 195.0, "hit": 773.0, "memory": 1062.0}),
        (18, {"execution": 4.852, "read": 56.0, "hit": 89.0, "memory": 32.0}),
    ],
)
def test_figures_of_a_recorded_execution(version: int, figures: dict[str, float]) -> None:
    """Time and pages of the topmost node, without the buffers of planning below it."""
    lines = (RECORDINGS / f"explain-{version}.txt").read_text().splitlines()
    assert figures_of_plan(lines) == figures


def test_jit_memory_and_temporary_files_of_an_execution_are_told() -> None:
    """An average is of the same memory as its peak; what planning read is no part of it."""
    lines = (
        "Sort  (cost=1..2 rows=10 width=8) (actual time=0.1..0.2 rows=10 loops=1)",
        "  Sort Method: external merge  Disk: 4240kB",
        "  Buffers: shared hit=5, temp read=530 written=532",
        "  ->  HashAggregate  (cost=1..2 rows=10 width=8) (actual time=0.1..0.2 rows=9 loops=1)",
        "        Batches: 1  Memory Usage: 24kB",
        "        ->  Incremental Sort  (cost=1..2 rows=1 width=8) (actual rows=1 loops=1)",
        "              Sort Method: quicksort  Average Memory: 26kB  Peak Memory: 27kB",
        "JIT:",
        "  Functions: 4",
        "  Options: Inlining false, Optimization false, Expressions true, Deforming true",
        "  Timing: Generation 0.5 ms, Inlining 0.0 ms, Emission 4.0 ms, Total 5.250 ms",
        "Execution Time: 9.500 ms",
    )
    assert figures_of_plan(lines) == {
        "execution": 9.5,
        "hit": 5.0,
        "temporary": 532.0,
        "JIT": 5.25,
        "memory": 51.0,
    }


def test_the_lowest_node_that_is_planned_far_off_is_named() -> None:
    """What a limit, a semi join or a merge join ends early says nothing of the estimate."""
    below = "              ->  Seq Scan on b  (cost=0..1 rows=5000 width=8) (actual rows=9 loops=1)"
    lines = [
        "Aggregate  (cost=1..2 rows=1 width=8) (actual time=0.1..0.2 rows=1 loops=1)",
        "  ->  Hash Join  (cost=1..2 rows=7 width=8) (actual time=0.1..0.2 rows=90000 loops=1)",
        "        ->  Seq Scan on a  (cost=0..1 rows=5 width=8) (actual rows=600.00 loops=1)",
        "        ->  Limit  (cost=0..1 rows=10 width=8) (actual time=0.1..0.2 rows=9 loops=1)",
        below,
        "              ->  Index Scan on c  (cost=0..1 rows=900 width=8) (never executed)",
    ]
    assert misestimate_of(lines) == ("Seq Scan on a", 5.0, 600.0)
    assert misestimate_of(lines[3:]) is None
    found = misestimate_of([lines[0], below])
    assert found is not None
    assert found.factor == pytest.approx(5000 / 9)
    join = "  ->  Hash Semi Join  (cost=1..2 rows=7 width=8) (actual time=0.1..0.2 rows=9 loops=1)"
    assert misestimate_of([join, below]) is None
