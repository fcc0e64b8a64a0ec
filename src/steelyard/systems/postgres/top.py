"""The statements that took most time on a server, by pg_stat_statements, as scripts.

They are normalized: constants are parameters, whose values nothing keeps. A value comes from the
user, or from pg_stats of the column that the parameter is compared with. Which column that is
says the server, in the conditions of the generic plan. Source: PostgreSQL 18, "pg_stat_statements",
"pg_stats" and EXPLAIN.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import shorten
from typing import Any, Final, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from steelyard.core.outside import ServerAddress
from steelyard.core.wording import InputError, PreflightError, RefusedError
from steelyard.gateways.files import read_text
from steelyard.gateways.sql import Sql, SqlSession
from steelyard.systems.postgres import scripts

_NAME: Final = "steelyard-top"
_WITHIN_S: Final = 30.0
_SCHEMA: Final = (
    "SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid ="
    " e.extnamespace WHERE e.extname = 'pg_stat_statements'"
)
# A user without the right to see a text gets it without its identifier.
_DEAREST: Final = (
    "SELECT coalesce(s.queryid::text, '?'), coalesce(min(s.query), ''), sum(s.calls)::float8,"
    " sum(s.total_exec_time)::float8 / 1000, d.datname, d.datname = current_database()"
    " FROM {schema}.pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid"
    " GROUP BY 1, 5 ORDER BY 4 DESC LIMIT 1000"
)
_PREPARED: Final = "steelyard_top"
_TYPES: Final = (
    "SELECT kind::text FROM pg_prepared_statements, unnest(parameter_types) WITH ORDINALITY"
    " AS each (kind, place) WHERE name = 'steelyard_top' ORDER BY place"
)
_COMMON: Final = (
    "SELECT most_common_vals::text::text[],"
    " (histogram_bounds::text::text[])[(array_length(histogram_bounds::text::text[], 1) + 1) / 2]"
    " FROM pg_stats WHERE schemaname = %s AND tablename = %s AND attname = %s"
    " ORDER BY inherited DESC LIMIT 1"
)
_QUERY: Final = re.compile(r"\s*\(*\s*(select|with|values|table)\b", re.IGNORECASE)
_OF_SERVER: Final = re.compile(r"\b(pg_\w+|lo_\w+|set_config)\s*\(", re.IGNORECASE)
_WORD: Final = r'(?:\w+|"(?:[^"]|"")+")'
_COLUMN: Final = rf"(?P<alias>{_WORD})\.(?P<column>{_WORD})\)*(?:::[a-z ]+)?"
_OPERATOR: Final = r"\s*(?:=|<>|[<>]=?|!?~~?\*?)\s*"
_PARAMETERS: Final = r"\$\d+(?:\)*(?:::[a-z ]+)?,\s*\(*\$\d+)*"
_COMPARED: Final = (
    re.compile(rf"{_COLUMN}{_OPERATOR}(?:(?:ANY|ALL) )?\(*(?:ARRAY\[)?\(*(?P<of>{_PARAMETERS})"),
    re.compile(rf"(?P<of>\$\d+)\)*(?:::[a-z ]+)?{_OPERATOR}\(*{_COLUMN}"),
)


_CATALOGUES: Final = ("pg_catalog", "information_schema")
_SHOWN: Final = 70  # characters of a statement
_SHOWN_VALUE: Final = 30
_FORM: Final = "Write a line for each statement: QUERYID: [value of $1, value of $2]."


Parameters = Mapping[str, Sequence[str | None]]  # their values, by the statement's name


class _Column(NamedTuple):
    """A column of a table."""

    schema: str
    table: str
    column: str
    place: int = 0  # in a list of values


@dataclass(frozen=True, slots=True, kw_only=True)
class TopStatement:
    """A normalized statement.

    Attributes:
        name: Its identifier in pg_stat_statements.
        text: With parameters.
        seconds: Of all its calls.
        script: The statement with values; empty if it is left out.
        values: Where each value is from.
        left_out: Why; empty if it runs.
    """

    name: str
    text: str
    calls: float
    seconds: float
    script: str = ""
    values: tuple[str, ...] = ()
    left_out: str = ""


def top_statements(
    address: ServerAddress, sql: Sql, number: int, known: Parameters
) -> tuple[TopStatement, ...]:
    """Return so many statements that can run, the dearest first, with those left out before them.

    Args:
        address: Of the database.
        sql: Reaches it.
        number: How many run at most.
        known: Values of the parameters of statements, by name.

    Raises:
        PreflightError: pg_stat_statements is not there.
        TargetError: The server cannot be reached.
    """
    found: list[TopStatement] = []
    with closing(sql.session(address, _NAME, patience_s=_WITHIN_S)) as session:
        schemas = session.rows(_SCHEMA)
        if not schemas:
            raise PreflightError(
                f"the database {address.database} has no pg_stat_statements",
                hint="Add it to shared_preload_libraries, restart, CREATE EXTENSION"
                " pg_stat_statements in this database, and let the application run.",
            )
        session.do("SET plan_cache_mode = force_generic_plan")
        for row in session.rows(_DEAREST.format(schema=schemas[0][0])):
            statement = _statement(session, row, known)
            found += [statement] if statement else []
            if sum(not each.left_out for each in found) == number:
                break
    last = max((n for n, each in enumerate(found) if each.script), default=number)
    return tuple(found[: last + 1])


def _statement(session: SqlSession, row: Sequence[Any], known: Parameters) -> TopStatement | None:
    """Return a statement with its values; None if no application sends such a one."""
    name, text, calls, seconds, database, is_here = row
    # Comments name who asks, and pgbench would find variables in them; those of /*+ are hints.
    bare = text if "/*+" in text else "; ".join(scripts.statements(text))
    statement = TopStatement(name=str(name), text=bare, calls=calls, seconds=seconds)
    if obstacle := _obstacle(bare) if is_here else f"it is of the database {database}":
        return replace(statement, left_out=obstacle)
    if not _QUERY.match(scripts.statements(text)[0]):
        return None
    try:
        session.do(f"PREPARE {_PREPARED} AS {bare}")
        try:
            return _filled(session, statement, known)
        finally:
            session.do(f"DEALLOCATE {_PREPARED}")
    except RefusedError as error:
        return replace(statement, left_out=f"the server does not plan it: {error.message}")


def _obstacle(text: str) -> str:
    """Return why a statement of this database is left out, by its text."""
    if not scripts.only_reads(text):
        return "it may write, or its text is hidden"
    called = _OF_SERVER.search(scripts.without_literals(text))
    return f"it calls the server's own function {called[1]}" if called else ""


def _filled(session: SqlSession, statement: TopStatement, known: Parameters) -> TopStatement | None:
    types = [str(kind) for (kind,) in session.rows(_TYPES)]
    nulls = f" ({', '.join(['NULL'] * len(types))})" if types else ""
    ((plan,),) = session.rows(f"EXPLAIN (VERBOSE, FORMAT JSON) EXECUTE {_PREPARED}{nulls}")
    nodes = [*_nodes(json.loads(plan) if isinstance(plan, str) else plan)]
    tables = {
        n["Alias"]: (n.get("Schema", ""), n["Relation Name"])
        for n in nodes
        if "Alias" in n and "Relation Name" in n
    }
    if tables and all(schema in _CATALOGUES for schema, _ in tables.values()):
        return None
    own = known.get(statement.name)
    if own is not None and len(own) != len(types):
        message = f"{len(own)} values are given for its {len(types)} parameters"
        return replace(statement, left_out=message)
    columns = {} if own is not None else dict(_columns(nodes, tables))
    values, sources = [], []
    for number, kind in enumerate(types, start=1):
        if own is not None:
            value, source = own[number - 1], "given"
        else:
            value, source = _common(session, columns.get(number))
            if value is None:
                return replace(statement, left_out=f"${number} {source}")
        values.append(_literal(value, kind))
        shown = "NULL" if value is None else value
        shown = shown if len(shown) <= _SHOWN_VALUE else f"{shown[:_SHOWN_VALUE]}..."
        sources.append(f"${number} = {shown} ({source})")
    script = scripts.with_values(statement.text, values).strip().rstrip(";")
    session.do(f"EXPLAIN {script}")  # a value may be none of the parameter's type
    return replace(statement, script=f"{script};\n", values=tuple(sources))


def _nodes(plan: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 - JSON
    """Yield all nodes of a plan."""
    if isinstance(plan, list):
        for each in plan:
            yield from _nodes(each)
    elif isinstance(plan, dict):
        yield plan
        for each in plan.values():
            yield from _nodes(each)


def _columns(
    nodes: Sequence[Mapping[str, Any]], tables: Mapping[str, tuple[str, str]]
) -> Iterator[tuple[int, _Column]]:
    """Yield the column that each parameter is compared with."""
    for node in nodes:
        conditions = [str(v) for k, v in node.items() if k.endswith(("Cond", "Filter"))]
        for match in (m for c in conditions for p in _COMPARED for m in p.finditer(c)):
            before = match.string[: match.start("alias")].rstrip("(")
            table = tables.get(_plain(match["alias"]))
            if table is None or re.search(r"\w\Z", before):  # the argument of a function
                continue
            for place, number in enumerate(re.findall(r"\$(\d+)", match["of"])):
                yield int(number), _Column(*table, _plain(match["column"]), place)


def _plain(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _common(session: SqlSession, column: _Column | None) -> tuple[str | None, str]:
    """Return a common value of a column or its middle one, and the source of it."""
    if column is None:
        return None, "is compared with no column"
    shown = f"{column.table}.{column.column}"
    for common, middle in session.rows(_COMMON, column[:3]):
        if isinstance(common, list) and common:
            number = column.place % len(common)
            return str(common[number]), f"common value {number + 1} of {shown}"
        if middle is not None:
            return str(middle), f"middle of the histogram of {shown}"
    return None, f"is compared with {shown}, of which pg_stats has no values"


def _literal(value: str | None, kind: str) -> str:
    """Return a value of a type as SQL; that of an array may be the whole one or an element."""
    quoted = "NULL" if value is None else scripts.script_literal(value)
    is_element = kind.endswith("[]") and value is not None and not value.startswith("{")
    return f"ARRAY[{quoted}]::{kind}" if is_element else f"{quoted}::{kind}"


def top_lines(statements: Sequence[TopStatement], directory: Path) -> Iterator[str]:
    """Yield for each statement its time, and the values of its parameters or why it is left out."""
    yield f"Statements by their time in pg_stat_statements; scripts are in {directory}:"
    for each in statements:
        head = f"  {each.name}  {each.seconds:,.1f} s in {each.calls:,.0f} calls"
        yield f"{head}  {shorten(each.text, _SHOWN, placeholder='...')}"
        if each.left_out:
            yield f"    left out: {each.left_out}"
        elif each.values:
            yield f"    {', '.join(each.values)}"
    yield ""


def parameters_of(path: Path | None) -> dict[str, list[str | None]]:
    """Return the values of the parameters of statements by their identifiers, from a YAML file.

    Raises:
        InputError: It is not a mapping of identifiers to lists of values.
    """
    if path is None:
        return {}
    try:
        mapping = YAML(typ="safe").load(read_text(path) or "")
    except YAMLError as error:
        raise InputError(f"{path} is not YAML: {error}", hint=_FORM) from error
    if not isinstance(mapping, dict) or not all(isinstance(v, list) for v in mapping.values()):
        raise InputError(f"{path} has no lists of values by queryid", hint=_FORM)
    if any(isinstance(each, list | dict) for values in mapping.values() for each in values):
        raise InputError(
            f"{path} has a list in a list", hint="Write an array as PostgreSQL does: '{1,2}'."
        )
    return {
        str(name): [None if value is None else str(value) for value in values]
        for name, values in mapping.items()
    }
