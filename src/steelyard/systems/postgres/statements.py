"""What a PostgreSQL server says of the statements of scripts, without load: plans, what is unknown.

Plans are read before the first block. Generic
plans, for parameters that are not known: they are the same whenever they are asked for, and those
that pgbench's prepared statements get unless the values favour another one. Source: PostgreSQL 18,
PREPARE (generic and custom plans); ``plan_cache_mode`` since version 12. Statements of scripts that
only read are executed by that plan, too, twice, with values from the middle of their ranges.
"""

import re
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from typing import Final

from steelyard.core.experiment import Script, Workload
from steelyard.core.measurement import StatementPlan
from steelyard.core.outside import ServerAddress
from steelyard.core.wording import RefusedError, TargetError
from steelyard.gateways.sql import Sql, SqlSession
from steelyard.systems.postgres import scripts

_PLANNING: Final = "steelyard-plans"
_PLANS_WITHIN_S: Final = 30.0
_GENERIC: Final = "SET plan_cache_mode = force_generic_plan"
_PLANNED: Final = re.compile(
    r"\(*\s*(select|with|insert|update|delete|merge|values|table)\b", re.IGNORECASE
)


def plans_of(workload: Workload, address: ServerAddress, sql: Sql) -> tuple[StatementPlan, ...]:
    """Return the plan of each statement of a workload's scripts, in order, each statement once.

    The address is that of its database, with the settings of the configuration in force.

    Raises:
        TargetError: The server lets nobody in.
    """
    asked: dict[str, Script] = {}
    for script in workload.scripts:
        for each in scripts.statements(script.text):
            if _PLANNED.match(each):
                asked.setdefault(each, script)
    if not asked:
        return ()
    with closing(sql.session(address, _PLANNING, patience_s=_PLANS_WITHIN_S)) as session:
        session.do(_GENERIC)
        known: dict[Script, dict[str, str]] = {}
        plans = [_plan(session, workload.name, each, _name(n)) for n, each in enumerate(asked)]
        return tuple(
            _with_runs(session, plan, _name(number), workload, script, known)
            for number, (plan, script) in enumerate(zip(plans, asked.values(), strict=True))
        )


_NO_SYNTAX: Final = "42601"
_NO_STATEMENT: Final = "26000"  # a pooler gave it another name than SQL knows
_NOT_THERE: Final = frozenset({"42P01", "42703"})  # table, column
# Classes of codes by which a server refuses to prepare; PostgreSQL's documentation, appendix A.
_REFUSED: Final = ("0A", "22", "3F", "42")
_MAKES: Final = re.compile(r"\b(create|search_path)\b", re.IGNORECASE)
_SAID: Final = re.compile(r"refused: (?P<said>.*?)(?: [^\W\d]+ (?P<line>\d+):|$)", re.DOTALL)


def unknown_in(
    workload: Workload,
    address: ServerAddress,
    sql: Sql,
    *,
    protocol: str,
    columns: dict[str, tuple[str, ...]],
    empty: bool = False,
    tables: bool = True,
) -> Iterator[tuple[Script, int, str]]:
    """Yield what a server does not know of the statements of scripts, with the script and its line.

    They are prepared, as pgbench does it, and not executed. What a script makes itself cannot be
    looked for. By the simple protocol values stand in the text: where a variable stands that no
    prepared statement can have there, pgbench alone knows what it means.

    Args:
        workload: Has the scripts.
        address: Of its database.
        sql: Reaches it.
        protocol: By which pgbench sends the statements.
        columns: Gets what statements return whose results become variables, by their text.
        empty: As in a database in which nothing was made yet.
        tables: Ask for all names, too, else for the grammar alone.

    Raises:
        TargetError: The server lets nobody in.
    """
    if not workload.scripts:
        return
    with closing(sql.session(address, _PLANNING, patience_s=_PLANS_WITHIN_S)) as session:
        for script in workload.scripts:
            names = tables and not _MAKES.search(script.text)
            for command in scripts.commands(script.text):
                for statement in command.statements:
                    answer = _described(session, statement, empty=empty)
                    if isinstance(answer, tuple):
                        known = columns.get(command.text, ()) if r"\aset" in command.stores else ()
                        columns |= {command.text: (*known, *answer)} if command.stores else {}
                    elif _is_wrong(answer, statement, protocol, names=names):
                        line, said = _place_in(statement, answer.message)
                        yield script, command.line + line, said


def _is_wrong(error: RefusedError, statement: str, protocol: str, *, names: bool) -> bool:
    if protocol == scripts.SIMPLE and scripts.variables(statement):
        known = error.code == _NO_SYNTAX or (names and error.code in _NOT_THERE)
        return known and '"$' not in error.message
    return error.code.startswith(_REFUSED) if names else error.code == _NO_SYNTAX


def _place_in(statement: str, message: str) -> tuple[int, str]:
    found = _SAID.search(message)
    said, line = (found["said"], int(found["line"] or 1)) if found else (message, 1)
    for number, name in reversed([*enumerate(scripts.variables(statement), start=1)]):
        said = re.sub(rf"\${number}\b", f":{name}", said)
    return line - 1, said


def _described(
    session: SqlSession, statement: str, *, empty: bool
) -> tuple[str, ...] | RefusedError:
    prepared, _ = scripts.parametrised(statement)
    try:
        session.do("BEGIN READ ONLY")
        if empty:
            session.do("SET LOCAL search_path = pg_catalog")
        return session.columns(prepared)
    except RefusedError as error:
        return error
    finally:
        session.do("ROLLBACK")


def _name(number: int) -> str:
    return f"steelyard_plan_{number}"


def _plan(session: SqlSession, workload: str, statement: str, name: str) -> StatementPlan:
    prepared, parameters = scripts.parametrised(statement)
    given = f" ({', '.join(['NULL'] * parameters)})" if parameters else ""
    explained = f"EXPLAIN (COSTS OFF) EXECUTE {name}{given}"
    try:
        session.prepare(prepared, name)
        try:
            rows = session.rows(explained)
        except RefusedError as error:
            if error.code != _NO_STATEMENT:
                raise
            session.do(f"PREPARE {name} AS {prepared}")
            rows = session.rows(explained)
    except TargetError as error:
        return StatementPlan(workload=workload, statement=statement, trouble=error.message)
    lines = tuple(str(line) for (line,) in rows)
    return StatementPlan(workload=workload, statement=statement, lines=lines)


_EXECUTIONS: Final = 2  # the first one and one that finds what it left in memory
# Of one execution. The server ends it: one that nobody waits for would go on beside the load.
_WITHIN: Final = "SET LOCAL statement_timeout = '20s'"


def _with_runs(
    session: SqlSession,
    plan: StatementPlan,
    name: str,
    workload: Workload,
    script: Script,
    known: dict[Script, dict[str, str]],
) -> StatementPlan:
    """Return a plan with executions of it, where its script only reads and values are known.

    The values of each script are computed once, and kept in ``known``.
    """
    if plan.trouble or not scripts.only_reads(script.text):
        return plan
    runs: list[tuple[str, ...]] = []
    try:
        session.do("BEGIN READ ONLY")
        session.do(_WITHIN)
        if script not in known:
            known[script] = _values(session, workload, script)
        given = [known[script][each] for each in scripts.variables(plan.statement)]
        executed = f"EXECUTE {name}" + (f" ({', '.join(given)})" if given else "")
        for _ in range(_EXECUTIONS):
            rows = session.rows(f"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF) {executed}")
            runs.append(tuple(str(line) for (line,) in rows))
    except (TargetError, KeyError):  # what pgbench alone can compute, or another statement sets
        runs.clear()
    with suppress(TargetError):
        session.do("ROLLBACK")
    return replace(plan, runs=tuple(runs))


def _values(session: SqlSession, workload: Workload, script: Script) -> dict[str, str]:
    """Return typical values of a script's variables, computed by the server."""
    # In parentheses: what is below 0 may follow a minus.
    values = {name: f"({value})" for name, value in workload.variables}
    values["scale"] = str(workload.scale or 1)
    for name, expression in scripts.typical_values(script.text):
        ((value,),) = session.rows(f"SELECT {scripts.fill(expression, values)}")
        values[name] = f"({value})"
    return values
