"""Statements of scripts on a PostgreSQL server without load: their plans, and unknown names.

Plans are read before the first block. Generic plans, for parameters that are not known: they are
the same whenever they are asked for, and those that pgbench's prepared statements get unless the
values favour another one. Source: PostgreSQL 18, PREPARE (generic and custom plans);
``plan_cache_mode`` since version 12. Statements of scripts that only read are executed by that
plan, too, with values from the middle of their ranges: until a further execution finds no more in
memory than the one before.

Some settings act through the choice of a plan alone. Where all plans are the same under them,
generic ones and those for drawn values, no difference is to be expected, and no load has to run.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import Final

import numpy as np

from steelyard.core.experiment import Script, Workload
from steelyard.core.measurement import PlanChange, StatementPlan
from steelyard.core.outside import ServerAddress
from steelyard.core.wording import InputError, RefusedError, TargetError
from steelyard.gateways.sql import Sql, SqlSession
from steelyard.systems.postgres import scripts

_PLANNING: Final = "steelyard-plans"
_PLANS_WITHIN_S: Final = 30.0
_GENERIC: Final = "SET plan_cache_mode = force_generic_plan"
_PLANNED: Final = re.compile(
    r"\(*\s*(select|with|insert|update|delete|merge|values|table)\b", re.IGNORECASE
)


def plans_of(workload: Workload, address: ServerAddress, sql: Sql) -> tuple[StatementPlan, ...]:
    """Return the plan of each statement of a workload's scripts, in order, once for each script.

    Scripts with the same statement have the plan of the first of them. The address is that of its
    database, with the settings of the configuration in force.

    Raises:
        TargetError: The server lets nobody in.
    """
    owners = [
        (script, statement)
        for script in workload.scripts
        for statement in dict.fromkeys(scripts.statements(script.text))
        if _PLANNED.match(statement)
    ]
    asked: dict[str, Script] = {}
    for script, statement in owners:
        asked.setdefault(statement, script)
    if not asked:
        return ()
    with closing(sql.session(address, _PLANNING, patience_s=_PLANS_WITHIN_S)) as session:
        session.do(_GENERIC)
        known: dict[Script, dict[str, str]] = {}
        plans = [_plan(session, workload.name, each, _name(n)) for n, each in enumerate(asked)]
        plan_of = {
            plan.statement: _with_runs(session, plan, _name(number), workload, script, known)
            for number, (plan, script) in enumerate(zip(plans, asked.values(), strict=True))
        }
    return tuple(replace(plan_of[statement], script=script.name) for script, statement in owners)


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


# What was read before is in memory the next time: the last one depends least on who ran before.
_LEAST: Final = 2
_MOST: Final = 4  # executions; more than the least while the pages that are read fall
_FALLS: Final = 0.95
_EXECUTED: Final = "EXPLAIN (ANALYZE, BUFFERS, SETTINGS, WAL)"  # with costs: else no JIT is shown
_PAGES_READ: Final = re.compile(r"Buffers: shared[^,]*? read=(\d+)")
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
        while len(runs) < _LEAST or (len(runs) < _MOST and _warms_up(runs)):
            rows = session.rows(f"{_EXECUTED} {executed}")
            runs.append(tuple(str(line) for (line,) in rows))
    except (TargetError, KeyError):  # what pgbench alone can compute, or another statement sets
        runs.clear()
    with suppress(TargetError):
        session.do("ROLLBACK")
    return replace(plan, runs=tuple(runs))


def _warms_up(runs: Sequence[Sequence[str]]) -> bool:
    """Return whether the last execution read clearly fewer pages than the one before."""
    matches = (_PAGES_READ.search("\n".join(lines)) for lines in runs[-2:])
    before, last = (int(match[1]) if match else 0 for match in matches)
    return 0 < last < _FALLS * before


def _values(
    session: SqlSession,
    workload: Workload,
    script: Script,
    share: Callable[[], float] = lambda: 0.5,
) -> dict[str, str]:
    """Return values of a script's variables, computed by the server: typical, or as drawn."""
    # In parentheses: what is below 0 may follow a minus.
    values = {name: f"({value})" for name, value in workload.variables}
    values["scale"] = str(workload.scale or 1)
    for name, expression in scripts.typical_values(script.text, share):
        ((value,),) = session.rows(f"SELECT {scripts.fill(expression, values)}")
        values[name] = f"({value})"
    return values


DRAWN: Final = (
    20  # sets of parameters: a guess; a plan that one value in ten gets is missed in 12 %
)
# Source: PostgreSQL 18, "Query Planning". Not `enable_partition_pruning`, which acts while a plan
# runs, too, nor what gives a plan its memory, workers or compiled code.
_BY_PLAN: Final = re.compile(
    r"(seq|random)_page_cost|cpu_(tuple|index_tuple|operator)_cost|effective_cache_size"
    r"|(join|from)_collapse_limit|geqo(_\w+)?|enable_(?!partition_pruning$)\w+",
    re.IGNORECASE,
)
_COSTS: Final = re.compile(r"  \(cost=[^)]*\)")
_CUSTOM: Final = "SET LOCAL plan_cache_mode = force_custom_plan"
_FUNCTIONS: Final = (
    "SELECT DISTINCT p.proname FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang"
    " WHERE l.lanname NOT IN ('internal', 'c')"
    " AND p.pronamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)"
)


def acts_by_plan(name: str) -> bool:
    """Return whether a setting acts through the choice of a plan alone."""
    return _BY_PLAN.fullmatch(name) is not None


def plan_changes(
    workload: Workload,
    address: ServerAddress,
    changes: Mapping[str, str],
    sql: Sql,
    *,
    seed: int,
    protocol: str,
    indexes: Sequence[str] = (),
) -> Iterator[PlanChange]:
    """Yield for each statement of a workload's scripts whether other settings change its plan.

    Compared are the tree with its conditions, the planned workers, and what is compiled (JIT).

    Args:
        workload: Has the scripts.
        address: Of its database, with the settings as they are.
        changes: The other settings, which every session may have for itself.
        sql: Reaches it.
        seed: Of the parameters that are drawn.
        protocol: By which pgbench sends the statements.
        indexes: Statements that would make further ones, which HypoPG lets the server plan with.

    Raises:
        InputError: HypoPG is not in that database.
        RefusedError: The server refuses a setting, or HypoPG an index.
        TargetError: The server lets nobody in.
    """
    with closing(sql.session(address, _PLANNING, patience_s=_PLANS_WITHIN_S)) as session:
        functions = [str(name) for (name,) in session.rows(_FUNCTIONS)]
        planner = _Planner(session, changes, is_prepared=protocol == scripts.PREPARED)
        if indexes:
            planner.suppose(indexes, address.database)
        for number, script in enumerate(workload.scripts):
            coin = np.random.default_rng([seed, number])
            reads = scripts.only_reads(script.text)
            values = tuple(_drawn(session, workload, script, coin)) if reads else ()
            for statement in dict.fromkeys(filter(_PLANNED.match, scripts.statements(script.text))):
                change = PlanChange(script=script.name, statement=statement)
                if hidden := _hidden(statement, functions, reads=reads):
                    yield replace(change, unknown=hidden)
                    continue
                try:
                    yield planner.compared(change, values)
                except KeyError as error:
                    yield replace(change, unknown=f"the value of :{error.args[0]} is not known")
                except RefusedError as error:
                    yield replace(change, unknown=error.message)


def _hidden(statement: str, functions: Sequence[str], *, reads: bool) -> str:
    """Return why a statement plans more than EXPLAIN shows; empty where it does not."""
    if not reads:
        return "its script may write, and triggers and foreign keys have plans of their own"
    named = (name for name in functions if re.search(rf"\b{re.escape(name)}\"?\s*\(", statement))
    called = next(named, "")
    return f"the statements of function {called} have plans of their own" if called else ""


def _drawn(
    session: SqlSession, workload: Workload, script: Script, coin: np.random.Generator
) -> Iterator[Mapping[str, str]]:
    """Yield drawn values of a script's variables, as far as the server can compute them."""
    for _ in range(DRAWN):
        with suppress(TargetError):
            yield _values(session, workload, script, coin.random)


class _Planner:
    """Asks one session for plans, under the settings as they are and under others."""

    def __init__(
        self, session: SqlSession, changes: Mapping[str, str], *, is_prepared: bool
    ) -> None:
        self._session = session
        self._changes = changes
        self._is_prepared = is_prepared
        self._indexes: Sequence[str] = ()
        self._schema = ""

    def suppose(self, indexes: Sequence[str], database: str) -> None:
        """Let the plans under other settings know indexes that are not made.

        Raises:
            InputError: HypoPG is not in the database.
            RefusedError: It does not take one of them.
        """
        found = self._session.rows(_HYPOPG)
        if not found:
            raise InputError(
                f"plans with an index before it is made need the extension HypoPG, and the database"
                f" {database} lacks it",
                hint="CREATE EXTENSION hypopg there; or leave --plans out, to measure on copies.",
            )
        self._schema, self._indexes = str(found[0][0]), indexes
        self._toggle(supposed=True)
        self._toggle(supposed=False)

    def _toggle(self, *, supposed: bool) -> None:
        for index in self._indexes if supposed else ():
            self._session.rows(f"SELECT {self._schema}.hypopg_create_index(%s)", [index])
        if self._indexes and not supposed:
            self._session.rows(f"SELECT {self._schema}.hypopg_reset()")

    def compared(self, change: PlanChange, values: Sequence[Mapping[str, str]]) -> PlanChange:
        """Return a statement with how many of its plans change.

        Raises:
            KeyError: The value of a variable is not known.
            RefusedError: The server does not plan the statement.
        """
        names = scripts.variables(change.statement)
        drawn = [[each[name] for name in names] for each in values] if names else [[]]
        if not drawn:
            raise KeyError(names[0])
        prepared, _ = scripts.parametrised(change.statement)
        self._session.do(f"PREPARE {_COMPARED} AS {prepared}")
        try:
            changed = 0
            for row in drawn:
                pairs = [*self._pairs(row, is_generic=bool(names) and self._is_prepared)]
                another = next((pair for pair in pairs if pair[0] != pair[1]), None)
                changed += another is not None
                if another is not None and not change.before:
                    change = replace(change, before=another[0], after=another[1])
                if another is None and len({_shape(plan) for pair in pairs for plan in pair}) > 1:
                    message = "its generic plan is another one, and costs decide which of them runs"
                    return replace(change, unknown=message)
        finally:
            self._session.do(f"DEALLOCATE {_COMPARED}")
        return replace(change, drawn=len(drawn), changed=changed)

    def _pairs(
        self, row: Sequence[str], *, is_generic: bool
    ) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
        """Yield the plans for these values before and after the change, of each kind."""
        for kind in (_CUSTOM, _GENERIC) if is_generic else (_CUSTOM,):
            before = self._plan(row, kind, {})
            self._toggle(supposed=True)
            try:
                after = self._plan(row, kind, self._changes)
            finally:
                self._toggle(supposed=False)
            yield before, after

    def _plan(self, row: Sequence[str], kind: str, settings: Mapping[str, str]) -> tuple[str, ...]:
        values = f" ({', '.join(row)})" if row else ""
        self._session.do("BEGIN READ ONLY")
        try:
            self._session.do(kind)
            for name, value in settings.items():
                self._session.rows("SELECT set_config(%s, %s, true)", (name, value))
            self._session.do("DISCARD PLANS")  # one that is kept knows nothing of the settings
            rows = self._session.rows(f"EXPLAIN EXECUTE {_COMPARED}{values}")
        finally:
            self._session.do("ROLLBACK")
        return tuple(_COSTS.sub("", str(line)) for (line,) in rows)


_COMPARED: Final = "steelyard_compared"
_HYPOPG: Final = """
SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
WHERE e.extname = 'hypopg'
"""


def _shape(plan: Sequence[str]) -> tuple[str, ...]:
    """Return the nodes of a plan with the planned workers, without their conditions."""
    return (plan[0], *(line for line in plan if "->" in line or "Workers Planned" in line))
