"""What is asked of a server about the plans of scripts, and how scripts become statements."""

import pytest

from fakes.sql import FakeSql
from steelyard.core.experiment import Script, Workload
from steelyard.core.outside import ServerAddress
from steelyard.systems.postgres.pgbench import (
    fill,
    parametrised,
    statements,
    typical_values,
    variables,
)
from steelyard.systems.postgres.reader import plans_of

ADDRESS = ServerAddress(host="h", port=5432, user="u")
SCRIPT = """\
-- a comment; with a semicolon
\\set c random(1, 10)
BEGIN;
SELECT ';', "odd;name", $q$ ; $q$ FROM orders WHERE customer = :c AND day > :c::date; -- more
SELECT 1 AS a \\gset x_
UPDATE orders SET note = ':c' WHERE id = :id;
END;
"""


def test_a_script_is_its_statements() -> None:
    """Semicolons in literals end nothing; comments and pgbench's own commands are none."""
    assert statements(SCRIPT) == (
        "BEGIN",
        "SELECT ';', \"odd;name\", $q$ ; $q$ FROM orders WHERE customer = :c AND day > :c::date",
        "SELECT 1 AS a",
        "UPDATE orders SET note = ':c' WHERE id = :id",
        "END",
    )


@pytest.mark.parametrize(
    ("statement", "prepared", "count"),
    [
        ("SELECT :a + :b, :a", "SELECT $1 + $2, $3", 3),
        ("SELECT ':a', x::int, \":b\"", "SELECT ':a', x::int, \":b\"", 0),
        ("SELECT :a::int", "SELECT $1::int", 1),
    ],
)
def test_variables_are_parameters(statement: str, prepared: str, count: int) -> None:
    """Each place is one of its own, as pgbench has it; literals and casts are none."""
    assert parametrised(statement) == (prepared, count)


def test_each_statement_is_asked_for_once() -> None:
    """Prepared with the server's generic plan; what has no plan is not asked about."""
    explained = "EXPLAIN (COSTS OFF) EXECUTE steelyard_plan_0 (NULL)"
    sql = FakeSql({explained: [("Seq Scan on orders",)]})
    text = "BEGIN; SELECT 1 FROM orders WHERE id = :id; END;"
    scripts = (Script(name="a.sql", text=text), Script(name="b.sql", text=text, weight=2))
    workload = Workload(name="q", scripts=scripts)
    (plan,) = plans_of(workload, ADDRESS, sql)
    assert (plan.workload, plan.lines, plan.trouble) == ("q", ("Seq Scan on orders",), "")
    assert [statement for _, statement in sql.executed] == [
        "SET plan_cache_mode = force_generic_plan",
        "PREPARE steelyard_plan_0 AS SELECT 1 FROM orders WHERE id = $1",
        "BEGIN READ ONLY",
        "SET LOCAL statement_timeout = '20s'",
        "ROLLBACK",
    ]
    assert plan.runs == ()  # nobody knows which id
    assert sql.open_sessions == 0


def test_a_statement_without_a_plan_says_why() -> None:
    """The others are asked about all the same."""
    sql = FakeSql({"EXPLAIN (COSTS OFF) EXECUTE steelyard_plan_1": [("Result",)]})
    sql.refused.add("PREPARE steelyard_plan_0 AS SELECT nope")
    workload = Workload(name="q", scripts=(Script(name="a", text="SELECT nope; SELECT 1;"),))
    nope, one = plans_of(workload, ADDRESS, sql)
    assert (nope.lines, one.lines) == ((), ("Result",))
    assert "refused" in nope.trouble


READING = """\
\\set pages 10 * :scale
\\set n random_zipfian(1, greatest(:pages - 100, 7), 1.5)
SELECT sum(x) FROM pages WHERE n BETWEEN :n AND 9-:n AND t <> ':n';
"""


def test_what_pgbench_sets_becomes_sql() -> None:
    """Of what is drawn the middle of its range; commas within parentheses divide no arguments."""
    assert typical_values(READING) == (
        ("pages", "10 * :scale"),
        ("n", "((1) + (greatest(:pages - 100, 7))) / 2"),
    )
    assert fill("9-:n, ':n', x::n", {"n": "(-1)"}) == "9-(-1), ':n', x::n"
    assert variables("SELECT :b + :a, ':c', x::d, :b") == ("b", "a", "b")


@pytest.mark.parametrize(
    "value", ["1 + random(1, 9)", "random(1, 5) + (3)", "random(1, random(2, 9))", "random(5)"]
)
def test_a_number_that_is_drawn_inside_of_another_has_no_typical_value(value: str) -> None:
    """Each execution would have another one, under each configuration."""
    assert typical_values(f"\\set n {value}\nSELECT :n;") == ()


def test_a_script_that_reads_is_executed_twice() -> None:
    """With values that the server computed, where nothing can be written."""
    executed = "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF) EXECUTE steelyard_plan_0 ((4), (4))"
    lines = iter([[("Result",), ("Execution Time: 4 ms",)], [("Result",)]])
    sql = FakeSql(
        {
            "EXPLAIN (COSTS OFF) EXECUTE steelyard_plan_0 (NULL, NULL)": [("Result",)],
            "SELECT 10 * 3": [(30,)],
            "SELECT ((1) + (greatest((30) - 100, 7))) / 2": [(4,)],
            executed: lambda: next(lines),
        }
    )
    workload = Workload(name="q", scale_factor=3, scripts=(Script(name="a", text=READING),))
    (plan,) = plans_of(workload, ADDRESS, sql)
    assert plan.runs == (("Result", "Execution Time: 4 ms"), ("Result",))
    assert [each for _, each in sql.executed][-3:] == [
        "BEGIN READ ONLY",
        "SET LOCAL statement_timeout = '20s'",
        "ROLLBACK",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "\\set n random(1, 9)\nSELECT :n; UPDATE t SET x = :n;",
        "\\set n permute(1, 9)\nSELECT :n;",  # only pgbench has it
    ],
)
def test_what_writes_or_is_not_known_is_only_planned(text: str) -> None:
    """The plan is there, and nothing was executed."""
    sql = FakeSql()
    for number in range(2):
        sql.answers[f"EXPLAIN (COSTS OFF) EXECUTE steelyard_plan_{number} (NULL)"] = [("Result",)]
    workload = Workload(name="q", scripts=(Script(name="a", text=text),))
    found = plans_of(workload, ADDRESS, sql)
    assert {plan.runs for plan in found} == {()}
    assert sql.open_sessions == 0
    assert all(plan.lines for plan in found)
    assert not any("ANALYZE" in statement for _, statement, _ in sql.asked)


def test_a_workload_without_scripts_asks_nothing() -> None:
    """Nor does one of statements that have no plan."""
    sql = FakeSql()
    assert plans_of(Workload(name="r", builtin="select-only", scale_factor=1), ADDRESS, sql) == ()
    only_ends = Workload(name="q", scripts=(Script(name="a", text="BEGIN; END;"),))
    assert plans_of(only_ends, ADDRESS, sql) == ()
    assert sql.executed == []
