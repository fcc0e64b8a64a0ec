"""Statements of scripts: their plans, and what pg_stat_statements tells of them."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from fakes.sql import FakeSession, FakeSql
from steelyard.core.experiment import Script, Workload
from steelyard.core.measurement import BEGIN, COMMIT, ROLLBACK
from steelyard.core.outside import ServerAddress
from steelyard.core.wording import RefusedError, TargetError
from steelyard.gateways.sql import Row, SqlSession
from steelyard.systems.postgres import scripts
from steelyard.systems.postgres.reader import StatementCounts, one_text, uses_statement
from steelyard.systems.postgres.statements import plans_of

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
    assert scripts.statements(SCRIPT) == (
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
    assert scripts.parametrised(statement) == (prepared, count)


def test_each_statement_is_asked_for_once() -> None:
    """Prepared with the server's generic plan; what has no plan is not asked about."""
    explained = "EXPLAIN (COSTS OFF) EXECUTE steelyard_plan_0 (NULL)"
    sql = FakeSql({explained: [("Seq Scan on orders",)]})
    text = "BEGIN; SELECT 1 FROM orders WHERE id = :id; END;"
    scripts = (Script(name="a.sql", text=text), Script(name="b.sql", text=text, weight=2))
    workload = Workload(name="q", scripts=scripts)
    plan, other = plans_of(workload, ADDRESS, sql)
    assert (plan.workload, plan.lines, plan.trouble) == ("q", ("Seq Scan on orders",), "")
    assert (plan.script, other) == ("a.sql", replace(plan, script="b.sql"))
    assert [statement for _, statement in sql.executed] == [
        "SET plan_cache_mode = force_generic_plan",
        "steelyard_plan_0: SELECT 1 FROM orders WHERE id = $1",
        "BEGIN READ ONLY",
        "SET LOCAL statement_timeout = '20s'",
        "ROLLBACK",
    ]
    assert plan.runs == ()  # nobody knows which id
    assert sql.open_sessions == 0


def test_a_pooler_that_renames_statements_is_asked_by_sql() -> None:
    """`EXECUTE` does not know the name that the protocol gave: then `PREPARE` gives it."""
    explained, known = "EXPLAIN (COSTS OFF) EXECUTE steelyard_plan_0", []

    class Pooler(FakeSession):
        def rows(self, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
            if not known:
                raise RefusedError("the server refused: no such statement", code="26000")
            return super().rows(statement, parameters)

        def do(self, statement: str) -> None:
            known.extend([statement] if statement.startswith("PREPARE") else [])
            super().do(statement)

    class Pooled(FakeSql):
        def session(self, address: ServerAddress, *_: object, **__: object) -> FakeSession:
            return Pooler(self, address)

    workload = Workload(name="q", scripts=(Script(name="a", text="SELECT 1;"),))
    (plan,) = plans_of(workload, ADDRESS, Pooled({explained: [("Result",)]}))
    assert (plan.lines, plan.trouble) == (("Result",), "")
    assert known == ["PREPARE steelyard_plan_0 AS SELECT 1"]


def test_a_statement_without_a_plan_says_why() -> None:
    """The others are asked about all the same."""
    sql = FakeSql({"EXPLAIN (COSTS OFF) EXECUTE steelyard_plan_1": [("Result",)]})
    sql.refused.add("steelyard_plan_0: SELECT nope")
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
    assert scripts.typical_values(READING) == (
        ("pages", "10 * :scale"),
        ("n", "floor((1) + 0.500000000 * ((greatest(:pages - 100, 7)) - (1)))::bigint"),
    )
    assert scripts.fill("9-:n, ':n', x::n", {"n": "(-1)"}) == "9-(-1), ':n', x::n"
    assert scripts.variables("SELECT :b + :a, ':c', x::d, :b") == ("b", "a", "b")


@pytest.mark.parametrize(
    "value", ["1 + random(1, 9)", "random(1, 5) + (3)", "random(1, random(2, 9))", "random(5)"]
)
def test_a_number_that_is_drawn_inside_of_another_has_no_typical_value(value: str) -> None:
    """Each execution would have another one, under each configuration."""
    assert scripts.typical_values(f"\\set n {value}\nSELECT :n;") == ()


def test_a_script_that_reads_is_executed_twice() -> None:
    """With values that the server computed, where nothing can be written."""
    executed = "EXPLAIN (ANALYZE, BUFFERS, SETTINGS, WAL) EXECUTE steelyard_plan_0 ((4), (4))"
    lines = iter([[("Result",), ("Execution Time: 4 ms",)], [("Result",)]])
    middle = "floor((1) + 0.500000000 * ((greatest((30) - 100, 7)) - (1)))::bigint"
    sql = FakeSql(
        {
            "EXPLAIN (COSTS OFF) EXECUTE steelyard_plan_0 (NULL, NULL)": [("Result",)],
            "SELECT 10 * 3": [(30,)],
            f"SELECT {middle}": [(4,)],
            executed: lambda: next(lines),
        }
    )
    workload = Workload(name="q", scale=3, scripts=(Script(name="a", text=READING),))
    (plan,) = plans_of(workload, ADDRESS, sql)
    assert plan.runs == (("Result", "Execution Time: 4 ms"), ("Result",))
    assert [each for _, each in sql.executed][-3:] == [
        "BEGIN READ ONLY",
        "SET LOCAL statement_timeout = '20s'",
        "ROLLBACK",
    ]


def test_a_statement_is_executed_until_it_reads_no_less() -> None:
    """At most four times: who comes next on the same server would find what this one left."""
    reads = iter([900, 500, 490])
    sql = FakeSql(
        {
            "EXPLAIN (COSTS OFF) EXECUTE steelyard_plan_0": [("Result",)],
            "EXPLAIN (ANALYZE, BUFFERS, SETTINGS, WAL) EXECUTE steelyard_plan_0": lambda: [
                (f"  Buffers: shared hit=1 read={next(reads)}",)
            ],
        }
    )
    workload = Workload(name="q", scripts=(Script(name="a", text="SELECT 1;"),))
    (plan,) = plans_of(workload, ADDRESS, sql)
    assert [run[0].rpartition("=")[2] for run in plan.runs] == ["900", "500", "490"]


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
    assert plans_of(Workload(name="r", builtin="select-only", scale=1), ADDRESS, sql) == ()
    only_ends = Workload(name="q", scripts=(Script(name="a", text="BEGIN; END;"),))
    assert plans_of(only_ends, ADDRESS, sql) == ()
    assert sql.executed == []


@pytest.mark.parametrize(
    "script",
    [
        "\\set c random(1, 10)\nSELECT count(*) FROM orders WHERE customer = :c;\n",
        "SELECT 1 AS a \\gset x_\nSELECT :x_a;",
        "SELECT 1 \\; SELECT 2;",
        "BEGIN; SELECT 1; END;",
        "WITH recent AS (SELECT 1) SELECT * FROM recent",
        "SELECT 'update' -- insert; delete\n;",
        "/* delete; */ SELECT $$insert;$$, $a$merge$a$;",
        "select update_time from orders;",
        "VALUES (1); TABLE orders; SHOW work_mem;",
        "\\set n random(1,\\\n  9)\nSELECT :n;",
        "(SELECT 1) UNION ALL (SELECT 2);",
        "EXPLAIN UPDATE t SET a = 1; EXPLAIN (ANALYZE) SELECT 1; EXPLAIN ANALYZE (TABLE t);",
        "SET LOCAL work_mem = '1MB'; RESET work_mem; SET TRANSACTION READ ONLY;",
        "PREPARE q (int) AS SELECT $1; EXECUTE q(1); DEALLOCATE q;",
        "DECLARE c CURSOR FOR SELECT 1; FETCH 5 FROM c; CLOSE c;",
    ],
)
def test_scripts_that_read(script: str) -> None:
    """Words in literals, comments and names are none of a statement."""
    assert scripts.only_reads(script)


@pytest.mark.parametrize(
    "script",
    [
        "SELECT * FROM orders FOR UPDATE;",
        "SELECT * FROM orders FOR NO KEY UPDATE;",
        "SELECT * FROM orders FOR SHARE;",
        "SELECT nextval('s');",
        "SELECT 1 INTO t;",
        "BEGIN; UPDATE orders SET a = 1; END;",
        "WITH gone AS (DELETE FROM orders RETURNING 1) SELECT 1;",
        "BEGIN READ WRITE; SELECT 1; END;",
        "SELECT 1; CALL f();",
        "DO $$ SELECT 1 $$;",
        "SET default_transaction_read_only = off; SELECT f();",
        "VACUUM orders;",
        "EXPLAIN (ANALYZE) UPDATE t SET a = 1;",
        "EXPLAIN ANALYZE VERBOSE DELETE FROM t;",
        "(WITH d AS (DELETE FROM t RETURNING 1) SELECT 1 FROM d);",
        "PREPARE q AS INSERT INTO t VALUES (1); EXECUTE q;",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE; SELECT f();",
        "\\set a 1\n",
        "",
    ],
)
def test_scripts_that_may_write(script: str) -> None:
    """Anything else than reading statements, locks of rows, sequences, and no statement at all."""
    assert not scripts.only_reads(script)


USED = (10.0, 0.5, 20.0, 30.0, 4.0, 60.0)


class PlayedServer(SqlSession):
    """Answers the question for its facts, then the one for statements.

    Args:
        schema: Of the extension; None where the database lacks it.
        uses: Rows of the view.
    """

    def __init__(
        self,
        schema: str | None = "public",
        *,
        is_loaded: bool = True,
        is_marked: bool = False,
        uses: Sequence[Row] = (),
    ) -> None:
        self.schema = schema
        self.is_loaded = is_loaded
        self.is_marked = is_marked
        self.uses = uses
        self.done: list[str] = []
        self.asked: list[str] = []

    def rows(self, statement: str, parameters: Sequence[object] = ()) -> list[Row]:  # noqa: ARG002
        """Answer."""
        self.asked.append(statement)
        if "pg_extension" in statement:
            return [(self.schema, self.is_loaded, self.is_marked)]
        return list(self.uses)

    def do(self, statement: str) -> None:
        """Make the extension."""
        self.done.append(statement)
        self.schema = "public"

    def close(self) -> None:
        """Nothing is open."""


def counts(server: PlayedServer, version: int = 18, *, is_own: bool = False) -> StatementCounts:
    """Return what reads it."""
    return StatementCounts(server, server.rows, version, is_own=is_own)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("begin", BEGIN),
        ("BEGIN TRANSACTION", BEGIN),
        ("start  transaction;", BEGIN),
        ("END", COMMIT),
        ("commit work", COMMIT),
        ("abort", ROLLBACK),
        ("BEGIN ISOLATION LEVEL SERIALIZABLE", "BEGIN ISOLATION LEVEL SERIALIZABLE"),
        ("COMMIT PREPARED $1", "COMMIT PREPARED $1"),
        ("ROLLBACK TO SAVEPOINT a", "ROLLBACK TO SAVEPOINT a"),
        ("SELECT  1", "SELECT  1"),
    ],
)
def test_transaction_control_has_one_text(text: str, told: str) -> None:
    """What does the same is one statement; what does more, and all others, stay as they are."""
    assert one_text(text) == told


def test_what_is_one_statement_is_summed() -> None:
    """END and commit are one, with the sums of both; a select stays by itself."""
    server = PlayedServer(uses=[("END", *USED), ("SELECT $1", *USED), ("commit", *USED)])
    commit, select = counts(server).read()
    assert (commit.text, select.text) == (COMMIT, "SELECT $1")
    assert (commit.calls, commit.seconds, commit.rows) == (20.0, 1.0, 40.0)
    assert (commit.pages_hit, commit.pages_read, commit.wal_bytes) == (60.0, 8.0, 120.0)
    assert (select.calls, select.wal_bytes) == (10.0, 60.0)


@pytest.mark.parametrize(
    ("server", "version", "reason"),
    [
        (PlayedServer(), 12, "PostgreSQL 12 does not count it, 13 does"),
        (PlayedServer(is_loaded=False), 18, "add it to shared_preload_libraries"),
        (PlayedServer(None), 18, "CREATE EXTENSION pg_stat_statements"),
    ],
)
def test_a_server_that_does_not_tell_it_says_why(
    server: PlayedServer, version: int, reason: str
) -> None:
    """And nothing is made in a database of others."""
    with pytest.raises(TargetError, match=reason):
        counts(server, version).read()
    assert server.done == []


@pytest.mark.parametrize("is_own", [True, False])
def test_the_extension_is_made_in_databases_that_steelyard_made(*, is_own: bool) -> None:
    """By the server it is on, or by its mark; once."""
    server = PlayedServer(None, is_marked=not is_own)
    reader = counts(server, is_own=is_own)
    reader.read()
    reader.read()
    assert server.done == ["CREATE EXTENSION pg_stat_statements"]


def test_only_top_level_statements_where_they_are_told_apart() -> None:
    """The time of nested ones is in theirs; 13 has no such column."""
    assert "toplevel" in uses_statement("public", 14)
    assert "toplevel" not in uses_statement("public", 13)
    assert "FROM stats.pg_stat_statements" in uses_statement("stats", 13)
