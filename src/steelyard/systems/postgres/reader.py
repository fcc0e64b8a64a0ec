"""What a PostgreSQL server says of itself around one run: counters, wait events, plans.

It is read on one session that stays open. Where PostgreSQL counts what differs by version. Sources:
PostgreSQL's documentation, chapter "The Cumulative Statistics System", of versions 13 to 18, and
its release notes. Versions that are not run in the project's tests follow these texts.

In pg_stat_activity ``wait_event`` alone tells whether a session works: the view copies ``state``
first and reads the wait events after that, so at tens of thousands of statements a second the two
are of different moments (measured: more sessions "idle" without a wait event than "active" without
one).

Of each statement pg_stat_statements counts: of the load's own role and database, so that a database
or a role of its own keeps configurations apart that share a server. Source: PostgreSQL's
documentation, "pg_stat_statements", of versions 13 to 18; only top-level statements where a version
tells them apart (14 and later): time of nested ones is in theirs. The extension is made only in
databases that Steelyard made; in others it has to be there.

Seen on 15 and 18: of BEGIN, END and other utility statements that a session has prepared, only the
first execution is counted, because the extension clears the identifier in the plan that is kept.

Seen on 18: of statements with one parse tree the text is whoever's was first, so that the END of a
script is shown as the `commit` of whoever made its tables. Hence one text for each.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from steelyard.core.measurement import (
    BEGIN,
    COMMIT,
    ROLLBACK,
    STATEMENTS,
    Absence,
    Quantity,
    StatementUse,
    WaitClass,
)
from steelyard.core.outside import POSTGRES_MARK, ServerAddress
from steelyard.core.wording import TargetError
from steelyard.gateways.host import Clock, until
from steelyard.gateways.sql import Row, Sql, SqlSession
from steelyard.systems.postgres import pgbench
from steelyard.systems.protocol import ServerReader, Waiting

_MAJOR: Final = 10000  # server_version_num is 10000 times the major version plus the minor


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One place where some versions count; a query of one row.

    Attributes:
        relation: What follows FROM.
        columns: SQL of each quantity.
        since: First major version that has it so.
        until: Last one; None means that there is no later change.
    """

    relation: str
    columns: Mapping[Quantity, str]
    since: int = 0
    until: int | None = None

    def serves(self, version: int) -> bool:
        """Return whether a server of this major version has it."""
        return self.since <= version and (self.until is None or version <= self.until)

    @property
    def statement(self) -> str:
        """Return its query."""
        columns = (f"({expression})::float8" for expression in self.columns.values())
        return f"SELECT {', '.join(columns)} FROM {self.relation}"  # noqa: S608 - all of it ours


_DATABASE = Source(
    relation="pg_stat_database WHERE datname = current_database()",
    columns={
        Quantity.COMMITS: "xact_commit",
        Quantity.ROLLBACKS: "xact_rollback",
        Quantity.PAGES_HIT: "blks_hit",
        # Up to 15 also the pages by which a table grows (measured).
        Quantity.PAGES_READ: "blks_read",
        Quantity.ROWS_RETURNED: "tup_returned",
        Quantity.ROWS_FETCHED: "tup_fetched",
        Quantity.ROWS_INSERTED: "tup_inserted",
        Quantity.ROWS_UPDATED: "tup_updated",
        Quantity.ROWS_DELETED: "tup_deleted",
        Quantity.TEMPORARY_BYTES: "temp_bytes",
        Quantity.DEADLOCKS: "deadlocks",
    },
)
# The position in the WAL is exact at once; sessions report wal_bytes of pg_stat_wal later.
_POSITION = Source(
    relation="(SELECT 1) AS one",
    columns={Quantity.WAL_BYTES: "pg_current_wal_insert_lsn() - '0/0'::pg_lsn"},
)
_WAL_14 = Source(
    relation="pg_stat_wal",
    columns={
        Quantity.WAL_RECORDS: "wal_records",
        Quantity.FULL_PAGE_IMAGES: "wal_fpi",
        Quantity.WAL_WRITES: "wal_write",
        Quantity.WAL_SYNCS: "wal_sync",
    },
    since=14,
    until=17,
)
_WAL_18 = Source(
    relation="pg_stat_wal",
    columns={Quantity.WAL_RECORDS: "wal_records", Quantity.FULL_PAGE_IMAGES: "wal_fpi"},
    since=18,
)
# Up to 17 an operation is a page, and op_bytes its size.
_IO_16 = Source(
    relation="pg_stat_io WHERE object = 'relation'",
    columns={
        Quantity.PAGES_WRITTEN: "sum(writes)",
        Quantity.RELATION_READ_BYTES: "sum(reads * op_bytes)",
        Quantity.RELATION_SYNCS: "sum(fsyncs)",
    },
    since=16,
    until=17,
)
# From 18 on an operation may be several pages, and the WAL is here, too; without the making of
# new segments, which pg_stat_wal never counted.
_IO_18 = Source(
    relation="pg_stat_io WHERE object IN ('relation', 'wal') AND context <> 'init'",
    columns={
        Quantity.PAGES_WRITTEN: "sum(write_bytes) FILTER (WHERE object = 'relation')"
        " / current_setting('block_size')::int",
        Quantity.RELATION_READ_BYTES: "sum(read_bytes) FILTER (WHERE object = 'relation')",
        Quantity.RELATION_SYNCS: "sum(fsyncs) FILTER (WHERE object = 'relation')",
        Quantity.WAL_WRITES: "sum(writes) FILTER (WHERE object = 'wal')",
        Quantity.WAL_SYNCS: "sum(fsyncs) FILTER (WHERE object = 'wal')",
    },
    since=18,
)
_CHECKPOINTS_16 = Source(
    relation="pg_stat_bgwriter",
    columns={Quantity.CHECKPOINTS: "checkpoints_timed + checkpoints_req"},
    until=16,
)
_CHECKPOINTS_17 = Source(
    relation="pg_stat_checkpointer",
    columns={Quantity.CHECKPOINTS: "num_timed + num_requested"},
    since=17,
)
SOURCES: Final = (
    *(_DATABASE, _POSITION, _WAL_14, _WAL_18),
    *(_IO_16, _IO_18, _CHECKPOINTS_16, _CHECKPOINTS_17),
)
# What older versions do not count, and in which version that began. pg_stat_bgwriter has the pages
# that backends wrote, up to 15, but learns of them at the next checkpoint only (measured): they
# would be counted in another run.
_NEWER: Final = {
    Quantity.WAL_RECORDS: 14,
    Quantity.FULL_PAGE_IMAGES: 14,
    Quantity.WAL_WRITES: 14,
    Quantity.WAL_SYNCS: 14,
    Quantity.PAGES_WRITTEN: 16,
    Quantity.RELATION_READ_BYTES: 16,
    Quantity.RELATION_SYNCS: 16,
}


def tables_source(tables: tuple[int, ...]) -> Source:
    """Return the source that sums over tables, given by their oids.

    They are listed once: to look them up each time would count as the workload's reading.
    """
    numbers = ",".join(map(str, tables))
    return Source(
        relation=f"unnest('{{{numbers}}}'::oid[]) AS tables(oid)",
        columns={Quantity.AUTOVACUUMS: "coalesce(sum(pg_stat_get_autovacuum_count(oid)), 0)"},
    )


def sources_of(version: int) -> tuple[Source, ...]:
    """Return what a server of this major version has."""
    return tuple(source for source in SOURCES if source.serves(version))


def absences_of(version: int) -> tuple[Absence, ...]:
    """Return what a server of this major version does not count."""
    return tuple(
        Absence(
            subject=quantity,
            reason=f"PostgreSQL {version} does not count it, or not in time; {since} and later do.",
        )
        for quantity, since in _NEWER.items()
        if version < since
    )


def combined(sources: tuple[Source, ...]) -> str:
    """Return one statement for all of them; its columns are theirs, in order."""
    parts = (f"({source.statement}) AS s{number}" for number, source in enumerate(sources))
    return f"SELECT * FROM {', '.join(parts)}"  # noqa: S608 - all of it ours


def quantities(sources: tuple[Source, ...]) -> tuple[Quantity, ...]:
    """Return what the columns of ``combined`` are."""
    return tuple(quantity for source in sources for quantity in source.columns)


_CPU: Final = "CPU"
# The function below the view pg_stat_activity, which joins it with databases and roles: a fifth
# less of the server's CPU time for each look (measured on 18 under load). By name and not by
# process id, which a pooler invents; the name is part of the text, because a statement with a
# parameter is planned again five times. Without the right to see another's session PostgreSQL shows
# its name, but neither its wait event nor its kind: that must not pass for CPU.
WAITS: Final = f"""
SELECT wait_event_type, wait_event, count(backend_type), count(*) - count(backend_type)
FROM pg_stat_get_activity(NULL)
WHERE datid = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND application_name = '{pgbench.SESSION_NAME}'
  AND (backend_type = 'client backend' OR backend_type IS NULL)
GROUP BY 1, 2
"""  # noqa: S608 - all of it ours

_BY_KIND: Final = {
    "cpu": WaitClass.CPU,
    "lwlock": WaitClass.LWLOCK,
    "lock": WaitClass.LOCK,
    "client": WaitClass.CLIENT,
}
# Capitals differ between versions (WALSync to 16, WalSync from 17), so names are compared without.
_BY_EVENT: Final = {
    # Whoever waits for it waits for another session that writes or syncs the WAL. WALInsert and
    # WALBufMapping are held while the WAL is filled in memory, and count as locks of memory.
    ("lwlock", "walwrite"): WaitClass.WAL,
    ("ipc", "syncrep"): WaitClass.REPLICATION,
    # Another session reads or writes the same page; a lock of memory up to 13.
    ("ipc", "bufferio"): WaitClass.IO,
    ("lwlock", "bufferio"): WaitClass.IO,
    ("lwlock", "aiouringcompletion"): WaitClass.IO,
    # The leader of the group holds the lock for all of its members.
    ("ipc", "procarraygroupupdate"): WaitClass.LWLOCK,
    ("ipc", "xactgroupupdate"): WaitClass.LWLOCK,
    ("timeout", "spindelay"): WaitClass.LWLOCK,
}
# How the names of PostgreSQL's own events of the type IO begin, but for those of the WAL. A fork
# adds its own to the type: what is neither here nor below is not known to be a wait for a file.
# Source: PostgreSQL 13 to 18, "Wait Events of Type IO".
_FILES: Final = (
    "aio",
    "basebackup",
    "buffile",
    "controlfile",
    "copyfile",
    "datafile",
    "dsm",
    "lockfile",
    "logicalrewrite",
    "relationmap",
    "reorderbuffer",
    "reorderlogicalmapping",
    "replicationslot",
    "slru",
    "snapbuild",
    "timelinehistory",
    "twophasefile",
    "versionfile",
)
# Source: Amazon Aurora User Guide, "Amazon Aurora PostgreSQL wait events". Its other events have
# PostgreSQL's names, or PostgreSQL's types of locks. IPC:DamRecordTxAck, for which the audit of
# activity streams makes a session wait, stays "other".
_BY_EVENT_OF_AURORA: Final = {
    # The storage acknowledges a commit; Aurora writes no WAL file.
    ("io", "xactsync"): WaitClass.WAL,
    ("io", "aurorastoragelogallocate"): WaitClass.WAL,  # before a write of the log
    ("io", "auroraenhancedlogicalwalread"): WaitClass.WAL,
    ("lwlock", "walwritelock"): WaitClass.WAL,
    # The cache of pages on the instance's own NVMe devices.
    ("io", "auroraoptimizedreadscacheread"): WaitClass.IO,
    ("io", "auroraoptimizedreadscachewrite"): WaitClass.IO,
    ("io", "auroraoptimizedreadscachesegmenttruncate"): WaitClass.IO,
}
_NAMED: Final = _BY_EVENT | _BY_EVENT_OF_AURORA


def wait_class(kind: str, name: str) -> WaitClass:
    """Return what a wait event counts as; ``kind`` may be ``CPU``."""
    kind, name = kind.lower(), name.lower()
    named = _NAMED.get((kind, name))
    if kind == "io" and named is None:
        if name.startswith("wal"):
            return WaitClass.WAL
        return WaitClass.IO if name.startswith(_FILES) else WaitClass.OTHER
    return named or _BY_KIND.get(kind, WaitClass.OTHER)


def read_waits(rows: Sequence[Row]) -> tuple[Waiting, ...]:
    """Return what the rows of ``WAITS`` say of the generator's sessions."""
    return tuple(one for one in map(_waiting, rows) if one.sessions)


@lru_cache(maxsize=1024)  # the same few rows, ten times a second
def _waiting(row: Row) -> Waiting:
    kind, name, count, _ = row
    kind, name = str(kind or _CPU), str(name or "")
    return Waiting(kind=kind, name=name, group=wait_class(kind, name), sessions=int(str(count)))


def hidden_sessions(rows: Sequence[Row]) -> int:
    """Return how many of the generator's sessions may not be looked at."""
    return sum(int(str(hidden)) for *_, hidden in rows)


# With the WAL of each statement, and the execution apart from the planning.
_FIRST_COUNTED: Final = 13
_TOP_LEVEL_SINCE: Final = 14
# ``pg_stat_statements.max`` is known if and only if the library is loaded, and to every role.
_EXTENSION: Final = f"""
SELECT (SELECT quote_ident(nspname) FROM pg_extension AS e
        JOIN pg_namespace AS n ON n.oid = e.extnamespace WHERE extname = 'pg_stat_statements'),
       current_setting('pg_stat_statements.max', true) IS NOT NULL,
       coalesce(shobj_description(oid, 'pg_database') LIKE '{POSTGRES_MARK}%', false)
FROM pg_database WHERE datname = current_database()
"""  # noqa: S608 - all of it ours
_MAKE_IT: Final = "CREATE EXTENSION pg_stat_statements"
# What Steelyard itself asks: constants are not in the text, names of functions and views are.
_OURS: Final = "pg_(stat_|database_size|backend_pid)"
# PostgreSQL's documentation, of each command: WORK and TRANSACTION have no effect.
_CONTROL: Final = (
    (re.compile(r"(BEGIN( WORK| TRANSACTION)?|START TRANSACTION)", re.IGNORECASE), BEGIN),
    (re.compile(r"(END|COMMIT)( WORK| TRANSACTION)?", re.IGNORECASE), COMMIT),
    (re.compile(r"(ROLLBACK|ABORT)( WORK| TRANSACTION)?", re.IGNORECASE), ROLLBACK),
)
_LOAD_IT: Final = (
    "pg_stat_statements is not loaded; add it to shared_preload_libraries of all configurations"
)


def uses_statement(schema: str, version: int) -> str:
    """Return the query for what each statement of this role and database has used."""
    top = " AND toplevel" if version >= _TOP_LEVEL_SINCE else ""
    return (
        "SELECT query, sum(calls)::float8, (sum(total_exec_time) / 1000)::float8,"  # noqa: S608 - the schema is quoted by the server
        " sum(rows)::float8, sum(shared_blks_hit)::float8, sum(shared_blks_read)::float8,"
        f" sum(wal_bytes)::float8 FROM {schema}.pg_stat_statements"
        " WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())"
        " AND userid = (SELECT oid FROM pg_roles WHERE rolname = current_user)"
        f"{top} AND query !~ '{_OURS}' GROUP BY query"
    )


class StatementCounts:
    """Reads them on a session that others use, too.

    Args:
        session: In the workload's database.
        rows: Asks it; counts what is asked as its own.
        version: Major version of the server.
        is_own: The database is Steelyard's, by the server that it is on.
    """

    def __init__(
        self,
        session: SqlSession,
        rows: Callable[[str], Sequence[Row]],
        version: int,
        *,
        is_own: bool,
    ) -> None:
        self._session = session
        self._rows = rows
        self._version = version
        self._is_own = is_own
        self._statement: str | None = None

    def read(self) -> tuple[StatementUse, ...]:
        """Return what each statement has used so far.

        Raises:
            TargetError: The server does not tell it: why.
        """
        if self._statement is None:
            self._statement = uses_statement(self._schema(), self._version)
        return _merged(_use(row) for row in self._rows(self._statement))

    def _schema(self) -> str:
        if self._version < _FIRST_COUNTED:
            raise TargetError(
                f"PostgreSQL {self._version} does not count it, {_FIRST_COUNTED} does"
            )
        ((schema, is_loaded, is_marked),) = self._rows(_EXTENSION)
        if not is_loaded:
            raise TargetError(_LOAD_IT)
        if schema is None and not (self._is_own or is_marked):
            raise TargetError(f"the database lacks the extension: {_MAKE_IT}")
        if schema is None:
            self._session.do(_MAKE_IT)
            ((schema, *_),) = self._rows(_EXTENSION)
        return str(schema)


def one_text(text: str) -> str:
    """Return a statement's text; of transaction control, the same for all ways to write it."""
    plain = " ".join(text.split()).rstrip("; ")
    return next((name for form, name in _CONTROL if form.fullmatch(plain)), text)


def _merged(uses: Iterable[StatementUse]) -> tuple[StatementUse, ...]:
    found: dict[str, StatementUse] = {}
    for each in uses:
        known = found.get(each.text)
        found[each.text] = each if known is None else known.plus(each)
    return tuple(found.values())


def _use(row: Row) -> StatementUse:
    text, *numbers = row
    calls, seconds, rows, hit, read, wal = (float(str(number)) for number in numbers)
    return StatementUse(
        text=one_text(str(text)),
        calls=calls,
        seconds=seconds,
        rows=rows,
        pages_hit=hit,
        pages_read=read,
        wal_bytes=wal,
    )


READER_NAME: Final = "steelyard-probe"
# A guess: longer than any statement here takes on a server that is alive, shorter than the end of
# a run is waited for.
_PATIENCE_S: Final = 8.0
_FACTS = """
SELECT current_setting('server_version_num')::int, pg_backend_pid(),
       (SELECT array_agg(oid::int8) FROM pg_class WHERE relkind IN ('r', 'm', 't'))
"""
# What limits the sessions of the load, as a configuration may ask, would end this one between two
# looks or in a pause.
_UNLIMITED = """
SELECT set_config(name, '0', false) FROM pg_settings WHERE setting <> '0'
   AND name IN ('idle_session_timeout', 'statement_timeout', 'transaction_timeout')
"""
_LEVELS = "SELECT pg_database_size(current_database()), pg_size_bytes(current_setting(%s))"
# A session reports what it did once a second at most, unless it is told to; and not even then its
# commits alone, without a table that it touched (pgstat_report_stat in 15 to 18, and measured).
_REPORT_NOW = """
SELECT pg_stat_force_next_flush() FROM pg_database WHERE datname = current_database()
"""
_FIRST_TO_REPORT_NOW: Final = 15
# Up to 14 a collector writes the statistics to a file that may be half a second old
# (PGSTAT_STAT_INTERVAL). Source: documentation of 14, "The Statistics Collector".
_OLD_FILE_S: Final = 0.5
_SETTLES_WITHIN_S: Final = 1.0
_POLL_S: Final = 0.01


class PostgresReader(ServerReader):
    """Reads wait events and counters; what it does itself is not among them.

    Every session has a process of its own, and no counter is one of time that goes by. Every
    statement is a transaction, so that the server shows no snapshot of an earlier one.

    Args:
        session: In the workload's database.
        is_own: The database is one that Steelyard made, by the server that it is on.
    """

    def __init__(self, session: SqlSession, clock: Clock, *, is_own: bool = False) -> None:
        self._session = session
        self._clock = clock
        self._own_commits = 0
        self._hidden = False
        ((number, pid, tables),) = self._rows(_FACTS)
        self._version = int(str(number)) // _MAJOR
        self._pid = int(str(pid))
        oids = tuple(map(int, tables)) if isinstance(tables, list) else ()
        self._sources = (*sources_of(self._version), tables_source(oids))
        self._warm = False
        self._lacking = [*absences_of(self._version)]
        self._uses: StatementCounts | None = StatementCounts(
            session, self._rows, self._version, is_own=is_own
        )

    @property
    def source(self) -> str:
        """Return where ``waits`` come from."""
        return "pg_stat_activity"

    @property
    def pid(self) -> int:
        """Return the process of the session on the server, by its own account."""
        return self._pid

    @property
    def absent(self) -> tuple[Absence, ...]:
        if self._hidden:
            hidden = Absence(
                subject="wait events",
                reason="The server does not show this role what the generator's sessions do;"
                " GRANT pg_monitor to it.",
            )
            return (*self._lacking, hidden)
        return tuple(self._lacking)

    def waits(self) -> Sequence[Waiting]:
        rows = self._rows(WAITS)
        self._hidden = self._hidden or hidden_sessions(rows) > 0
        return read_waits(rows)

    def counters(self) -> Mapping[str, float]:
        if not self._warm:
            self._warm_up()
        self._report_own()
        return self._count()

    def settled_counters(self) -> Mapping[str, float]:
        # A session reports before it leaves pg_stat_activity.
        if not until(lambda: not self._rows(WAITS), self._clock, _SETTLES_WITHIN_S, _POLL_S):
            reason = (
                f"Sessions of the generator were still there {_SETTLES_WITHIN_S:.0f} s after its"
                " end, and had not reported what they did."
            )
            self._lacking.append(Absence(subject="counters", reason=reason))
            return {}
        if self._version < _FIRST_TO_REPORT_NOW:
            self._clock.sleep(_OLD_FILE_S)
        self._report_own()
        return self._count()

    def levels(self) -> Mapping[str, float]:
        """Return the size of the database and of shared memory for pages."""
        ((database, buffers),) = self._rows(_LEVELS, ("shared_buffers",))
        return {
            Quantity.DATABASE_BYTES: float(str(database)),
            Quantity.SHARED_BUFFERS_BYTES: float(str(buffers)),
        }

    def statements(self) -> tuple[StatementUse, ...] | None:
        """Return what each statement has used so far; once it was refused, nothing."""
        if self._uses is None:
            return None
        try:
            return self._uses.read()
        except TargetError as error:
            self._uses = None
            self._lacking.append(Absence(subject=STATEMENTS, reason=f"{error.message}."))
            return None

    def close(self) -> None:
        self._session.close()

    def _warm_up(self) -> None:
        """Use every statement once, and leave out the sources that this server refuses.

        To prepare a statement is a transaction, too, and its planning reads the catalogue: nothing
        of that is to happen in the run.
        """
        self.waits()
        self._report_own()
        try:
            self._count()
        except TargetError:
            self._sources = tuple(source for source in self._sources if self._has(source))
            self._count()
        self._warm = True

    def _has(self, source: Source) -> bool:
        try:
            self._rows(source.statement)
        except TargetError as error:
            self._lacking.extend(
                Absence(subject=quantity, reason=error.message) for quantity in source.columns
            )
            return False
        return True

    def _count(self) -> dict[str, float]:
        if not self._sources:
            return {}
        before = self._own_commits
        (row,) = self._rows(combined(self._sources))
        found: dict[str, float] = {
            name: float(str(value))
            for name, value in zip(quantities(self._sources), row, strict=True)
            if value is not None
        }
        if Quantity.COMMITS in found:
            found[Quantity.COMMITS] -= before
        return found

    def _report_own(self) -> None:
        """Make the own commits so far visible, so that taking them off leaves the workload's."""
        if self._version >= _FIRST_TO_REPORT_NOW:
            self._rows(_REPORT_NOW)

    def _rows(self, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        rows = self._session.rows(statement, parameters)
        self._own_commits += 1
        return rows


def open_reader(sql: Sql, address: ServerAddress, *, is_own: bool = False) -> PostgresReader:
    """Return a reader on a new session in the workload's database, which may be our own.

    Raises:
        TargetError: The server lets nobody in.
    """
    session = sql.session(address, READER_NAME, patience_s=_PATIENCE_S)
    try:
        session.do(_UNLIMITED)
        return PostgresReader(session, Clock(), is_own=is_own)
    except TargetError:
        session.close()
        raise
