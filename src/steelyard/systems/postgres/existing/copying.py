"""Tables of somebody else's database, copied into databases of our own on the same server.

An index and the like are tried on them, and the originals stay as they are.
They are copied while others work there, which a template would not allow: their definitions by
pg_dump, their rows by COPY from one snapshot, then indexes, constraints and statistics.

What statements name is read from the locks that the server takes to prepare them: tables, views and
what those stand for.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from steelyard.core.experiment import Workload
from steelyard.core.outside import Completed, ServerAddress
from steelyard.core.wording import (
    PreflightError,
    RefusedError,
    TargetError,
    format_bytes,
    format_duration,
    sql_literal,
)
from steelyard.gateways.files import free_bytes, read_text
from steelyard.gateways.sql import Sql
from steelyard.gateways.sql_copying import copy_rows
from steelyard.systems.postgres import scripts

AUTO: Final = "auto"  # the tables that the scripts name
_SESSION: Final = "steelyard-copies"
_PATIENCE_S: Final = 60.0
_LOCKED: Final = """
SELECT DISTINCT l.relation::bigint FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation'
  AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
  AND c.relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
"""
_NAMED: Final = "SELECT to_regclass(%s)::oid::bigint"
# With partitions and children, and with the sequences of defaults and identities.
_RELATIONS: Final = """
WITH RECURSIVE wanted (oid) AS (
  SELECT unnest(%s::bigint[])::oid
  UNION
  SELECT further.oid FROM wanted CROSS JOIN LATERAL (
    SELECT inhrelid AS oid FROM pg_inherits WHERE inhparent = wanted.oid
    UNION ALL
    SELECT s.oid FROM pg_attrdef a
    JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass AND d.objid = a.oid
      AND d.refclassid = 'pg_class'::regclass
    JOIN pg_class s ON s.oid = d.refobjid AND s.relkind = 'S' WHERE a.adrelid = wanted.oid
    UNION ALL
    SELECT s.oid FROM pg_depend d JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
    WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
      AND d.refobjid = wanted.oid AND d.deptype = 'i'
  ) AS further
)
SELECT c.relkind::text, format('%%I.%%I', n.nspname, c.relname), c.relpersistence::text,
  CASE WHEN c.relkind IN ('r', 'm') THEN pg_total_relation_size(c.oid) ELSE 0 END,
  CASE WHEN c.relkind = 'S' THEN has_sequence_privilege(c.oid, 'SELECT')
    ELSE has_table_privilege(c.oid, 'SELECT') END,
  c.relkind IN ('r', 'p') AND row_security_active(c.oid)
FROM wanted JOIN pg_class c ON c.oid = wanted.oid JOIN pg_namespace n ON n.oid = c.relnamespace
ORDER BY 2
"""
# What a table has beside its rows. A foreign key counts where both tables are copied.
_PARTS: Final = """
SELECT 'index ' || i.indexrelid::regclass FROM pg_index i
WHERE i.indisvalid AND i.indrelid IN (SELECT to_regclass(unnest(%s::text[])))
UNION ALL
SELECT 'constraint ' || conname || ' of ' || conrelid::regclass FROM pg_constraint
WHERE contype IN ('c', 'f', 'p', 'u', 'x') AND conrelid IN (SELECT to_regclass(unnest(%s::text[])))
  AND (confrelid = 0 OR confrelid IN (SELECT to_regclass(unnest(%s::text[]))))
UNION ALL
SELECT 'statistics ' || stxname FROM pg_statistic_ext
WHERE stxrelid IN (SELECT to_regclass(unnest(%s::text[])))
"""
_EXTENDED: Final = """
SELECT pg_get_statisticsobjdef(oid) FROM pg_statistic_ext
WHERE stxrelid IN (SELECT to_regclass(unnest(%s::text[])))
"""
_WAL: Final = "SELECT pg_size_bytes(current_setting('max_wal_size'))"
_NO_PATH: Final = "SET search_path = ''"
_LAYOUT: Final = """
SELECT pg_encoding_to_char(encoding), datcollate, datctype,
  to_jsonb(d) ->> 'datlocprovider',
  coalesce(to_jsonb(d) ->> 'datlocale', to_jsonb(d) ->> 'daticulocale')
FROM pg_database d WHERE datname = current_database()
"""
_SETTINGS: Final = """
SELECT setrole <> 0, unnest(setconfig) FROM pg_db_role_setting s
JOIN pg_database d ON d.oid = s.setdatabase AND d.datname = current_database()
WHERE setrole = 0 OR setrole = (SELECT oid FROM pg_roles WHERE rolname = current_user)
"""
_DUMP: Final = (
    *("--schema-only", "--no-owner", "--no-privileges", "--no-tablespaces", "--no-comments"),
    *("--no-publications", "--no-subscriptions", "--no-security-labels", "--lock-wait-timeout=60s"),
    "--encoding=UTF8",
)
_TABLE, _PARTITIONED, _SEQUENCE = "r", "p", "S"
_UNFIT: Final = {
    "f": "is a foreign table, whose rows are elsewhere",
    "m": "is a materialized view, which is not copied",
}
# What a copy of so many bytes takes beside them: the server's own catalogue, and an index. A guess.
_BESIDE_BYTES: Final = 32 * 1024**2
_SHARE_OF_INDEX: Final = 0.2
_BYTES_PER_S: Final = 40e6  # one after the other, indexes included; a guess


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPlan:
    """Tables that would be copied, and how much disk they take.

    Attributes:
        source: The database that has it.
        tables: With rows, as SQL writes their names.
        relations: All, with partitioned tables and views, likewise.
        sequences: Those of them that are sequences.
        databases: How many hold them at most.
        total_bytes: Of the tables with their indexes.
        wal_bytes: To which the server lets its WAL grow between checkpoints (max_wal_size).
        free_bytes: Of the server's disk; None: it is not visible from here.
        problems: Why it cannot be, sentences.
    """

    source: ServerAddress
    tables: tuple[str, ...]
    relations: tuple[str, ...]
    sequences: tuple[str, ...]
    databases: int
    total_bytes: int
    wal_bytes: int
    free_bytes: int | None
    problems: tuple[str, ...]

    @property
    def needed_bytes(self) -> int:
        """Return about how much disk the copies take, one with an index more, and their WAL."""
        copies = round((self.databases + _SHARE_OF_INDEX) * self.total_bytes)
        return copies + min(copies, self.wal_bytes) + self.databases * _BESIDE_BYTES

    @property
    def label(self) -> str:
        """Return what is copied from where, for people."""
        names = ", ".join(each.removeprefix("public.") for each in self.tables)
        size = format_bytes(self.total_bytes)
        return f"{names} of database {self.source.database}, {size} with their indexes"

    @property
    def costs(self) -> str:
        """Return what copying takes, for people."""
        free = "its free space is not visible from here"
        if self.free_bytes is not None:
            free = f"{format_bytes(self.free_bytes)} are free"
        time = format_duration(max(5.0, self.databases * self.total_bytes / _BYTES_PER_S))
        return f"about {format_bytes(self.needed_bytes)} of the server's disk ({free}) and {time}"


def plan_copies(
    workloads: Iterable[Workload],
    source: ServerAddress,
    sql: Sql,
    *,
    databases: int,
    problems: Sequence[str] = (),
) -> CopyPlan:
    """Return the copies for workloads: tables that their scripts name, and that they list.

    So many ``databases`` will hold it. ``problems`` are known already.

    Raises:
        TargetError: The server lets nobody in.
    """
    problems = [*problems]
    found: set[int] = set()
    with closing(sql.session(source, _SESSION, patience_s=_PATIENCE_S)) as session:
        for workload in workloads:
            for name in workload.copied:
                if name != AUTO:
                    ((oid,),) = session.rows(_NAMED, [name])
                    problems += [f"there is no table {name} to copy"] if oid is None else []
                    found |= set() if oid is None else {int(str(oid))}
            texts = [each.text for each in workload.scripts if AUTO in workload.copied]
            for statement in (each for text in texts for each in scripts.statements(text)):
                try:
                    session.do("BEGIN READ ONLY")
                    session.prepare(scripts.parametrised(statement)[0])
                    found |= {int(str(oid)) for (oid,) in session.rows(_LOCKED)}
                except RefusedError:
                    continue  # of scripts that cannot run all is told elsewhere
                finally:
                    session.do("ROLLBACK")
        rows = session.rows(_RELATIONS, [sorted(found)])
        ((wal_bytes,),) = session.rows(_WAL)
    problems += _unfit(rows, source.user)
    kinds = {str(name): str(kind) for kind, name, *_ in rows}
    tables = tuple(name for name, kind in kinds.items() if kind == _TABLE)
    if not tables and not problems:
        problems.append("the scripts name no table to copy")
    return CopyPlan(
        source=source,
        tables=tables,
        relations=tuple(name for name, kind in kinds.items() if kind != _SEQUENCE),
        sequences=tuple(name for name, kind in kinds.items() if kind == _SEQUENCE),
        databases=databases,
        total_bytes=sum(int(str(row[3])) for row in rows),
        wal_bytes=int(str(wal_bytes)),
        free_bytes=_free_bytes(source, sql),
        problems=tuple(problems),
    )


def _unfit(rows: Sequence[Sequence[object]], user: str) -> Iterator[str]:
    for kind, name, persistence, _, may_read, is_filtered in rows:
        if str(kind) in _UNFIT:
            yield f"{name} {_UNFIT[str(kind)]}"
        elif persistence == "t":
            yield f"{name} is a temporary table, which is another session's"
        elif not may_read:
            yield f"{user} may not read {name}"
        elif is_filtered:
            yield f"{user} sees only some rows of {name} (row security)"


def _free_bytes(source: ServerAddress, sql: Sql) -> int | None:
    """Return the free space where a server of this machine has its data."""
    if not source.host.startswith("/") and source.host not in ("localhost", "127.0.0.1", "::1"):
        return None
    try:
        ((directory,),) = sql.rows(source, "SELECT current_setting('data_directory')")
    except RefusedError:
        return None  # this user may not look
    # Of a server in a container the port may be here, and the directory another one.
    pid = (read_text(Path(str(directory)) / "postmaster.pid") or "").splitlines()
    if len(pid) < 4 or pid[3].strip() != str(source.port):
        return None
    return free_bytes(Path(str(directory)))


def require_copies(plan: CopyPlan, *, is_pooled: bool, where: str) -> None:
    """Raise where tables cannot be copied.

    Raises:
        PreflightError: All that stands in the way.
    """
    if is_pooled:
        raise PreflightError(
            f"a pooler is in between at {where}, and pg_dump needs the server itself",
            hint="Name the server, not the pooler.",
        )
    if plan.problems:
        raise PreflightError(
            "\n".join(plan.problems),
            hint="GRANT SELECT, or connect as the owner of the tables; or try it on a copy of your"
            " own, as a second database (docs/targets/endpoint.md).",
        )
    if plan.free_bytes is not None and plan.free_bytes < plan.needed_bytes:
        raise PreflightError(
            f"the copies take about {format_bytes(plan.needed_bytes)} of the disk of the server at"
            f" {where}, and {format_bytes(plan.free_bytes)} are free",
            hint="Free some, or try it on another server with the same data.",
        )


def layout_of(source: ServerAddress, sql: Sql) -> str:
    """Return what makes a new database sort and compare as the source does, as SQL."""
    ((encoding, collation, kind, provider, locale),) = sql.rows(source, _LAYOUT)
    keys = {"ENCODING": encoding, "LC_COLLATE": collation, "LC_CTYPE": kind}
    if provider == "i":
        keys |= {"LOCALE_PROVIDER": "icu", "ICU_LOCALE": locale}
    elif provider == "b":
        keys |= {"LOCALE_PROVIDER": "builtin", "BUILTIN_LOCALE": locale}
    values = (f"{key} {sql_literal(str(value))}" for key, value in keys.items())
    return " ".join(("TEMPLATE template0", *values))


def settings_of(source: ServerAddress, sql: Sql) -> tuple[tuple[bool, str, str], ...]:
    """Return what sessions have there by ALTER DATABASE; true where it is for the user alone."""
    pairs = ((bool(own), *str(text).partition("=")) for own, text in sql.rows(source, _SETTINGS))
    return tuple((own, name, value) for own, name, _, value in pairs)


Programs = Callable[[str, Sequence[str], ServerAddress, str], Completed]


def copy_tables(
    plan: CopyPlan, to: ServerAddress, changes: Sequence[str], run: Programs, sql: Sql
) -> None:
    """Copy tables into a database of our own, and try the changes while they are empty.

    Args:
        plan: What is copied from where.
        to: The database.
        changes: SQL that configurations apply to their copies.
        run: Runs a client program with arguments on a database, with a text as input.
        sql: Reaches both.

    Raises:
        TargetError: The server refuses, or a copy lacks a part of the original.
    """
    # Also sequences that belong to no table, and that a default draws from.
    chosen = [f"--table={each}" for each in (*plan.relations, *plan.sequences)]
    # What tables may be made of, whatever else it needs: types, functions, extensions.
    around = _dump(run, plan.source, "pre-data", ["--exclude-table=*.*"])
    tables = _dump(run, plan.source, "pre-data", chosen)
    parts = _dump(run, plan.source, "post-data", chosen)
    run("psql", (), to, around)
    printed = run("psql", (), to, tables).stderr
    _require(plan, _there(plan.relations, to, sql), set(plan.relations), printed)
    for change in changes:
        if not re.search(r"\bconcurrently\b", change, re.IGNORECASE):
            _try(run, to, change)
    copy_rows(plan.tables, plan.source, to, sql)
    _set_sequences(plan, to, sql)
    statistics = _statistics(plan, sql)
    printed = run("psql", (), to, f"{parts}\n{statistics}").stderr
    wanted, made = (_parts(plan.relations, place, sql) for place in (plan.source, to))
    _require(plan, made, wanted, printed)


def _dump(run: Programs, source: ServerAddress, section: str, chosen: Sequence[str]) -> str:
    completed = run("pg_dump", (*_DUMP, f"--section={section}", *chosen), source, "")
    if not completed.succeeded:
        raise TargetError(
            f"reading the definitions of tables failed: pg_dump: {completed.tail(3)}",
            hint="pg_dump of this machine must not be older than the server.",
        )
    return completed.stdout


def _try(run: Programs, to: ServerAddress, change: str) -> None:
    tried = run("psql", ("--set=ON_ERROR_STOP=1",), to, f"BEGIN;\n{change}\n;\nROLLBACK;\n")
    if not tried.succeeded:
        raise TargetError(
            f"the server refuses `{change}`: {tried.tail(3)}", hint="Correct the statement."
        )


def _there(names: Sequence[str], place: ServerAddress, sql: Sql) -> set[str]:
    statement = "SELECT name FROM unnest(%s::text[]) name WHERE to_regclass(name) IS NOT NULL"
    return {str(name) for (name,) in sql.rows(place, statement, [list(names)])}


def _parts(names: Sequence[str], place: ServerAddress, sql: Sql) -> set[str]:
    with closing(sql.session(place, _SESSION, patience_s=_PATIENCE_S)) as session:
        session.do(_NO_PATH)  # names of both have their schemas
        return {str(part) for (part,) in session.rows(_PARTS, [list(names)] * 4)}


def _statistics(plan: CopyPlan, sql: Sql) -> str:
    """Return the statements that make extended statistics, which pg_dump gives with schemas alone.

    Their targets are left to the server.
    """
    with closing(sql.session(plan.source, _SESSION, patience_s=_PATIENCE_S)) as session:
        session.do(_NO_PATH)
        rows = session.rows(_EXTENDED, [list(plan.relations)])
    return "".join(f"{statement};\n" for (statement,) in rows)


def _require(plan: CopyPlan, made: set[str], wanted: set[str], printed: str) -> None:
    if missing := sorted(wanted - made):
        reason = " ".join(printed.split())[:_REASON]
        raise TargetError(
            f"the copy of {plan.source.database} lacks {', '.join(missing)}: {reason}",
            hint="Try it on a copy of your own, as a second database (docs/targets/endpoint.md).",
        )


_REASON: Final = 600  # characters of what psql printed


def _set_sequences(plan: CopyPlan, to: ServerAddress, sql: Sql) -> None:
    """Let sequences go on where the originals are."""
    for name in plan.sequences:
        ((value, is_called),) = sql.rows(plan.source, f"SELECT last_value, is_called FROM {name}")  # noqa: S608 - quoted by the server
        sql.rows(to, "SELECT setval(%s::regclass, %s, %s)", [name, value, is_called])
