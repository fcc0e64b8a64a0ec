"""What a PostgreSQL server says of itself around one run, read on one session that stays open."""

from collections.abc import Mapping, Sequence
from typing import Final

from steelyard.engines.postgres import counters, waits
from steelyard.engines.postgres.counters import Source
from steelyard.engines.reading import Waiting
from steelyard.gateways.clock import Clock, SystemClock
from steelyard.gateways.sql import Row, Sql, SqlSession
from steelyard.model.command import ServerAddress
from steelyard.model.errors import TargetError
from steelyard.model.evidence import Absence, Quantity

READER_NAME: Final = "steelyard-probe"
# A guess: longer than any statement here takes on a server that is alive, shorter than the end of
# a run is waited for.
_PATIENCE_S: Final = 8.0
_FACTS = """
SELECT current_setting('server_version_num')::int, pg_backend_pid(),
       (SELECT array_agg(oid::int8) FROM pg_class WHERE relkind IN ('r', 'm', 't'))
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


class PostgresReader:
    """Reads wait events and counters; what it does itself is not among them.

    Every statement is a transaction, so that the server shows no snapshot of an earlier one.
    """

    def __init__(self, session: SqlSession, clock: Clock) -> None:
        self._session = session
        self._clock = clock
        self._own_commits = 0
        self._hidden = False
        self._lacking: list[Absence] = []
        ((number, pid, tables),) = self._rows(_FACTS)
        self._version = counters.major_version(int(str(number)))
        self._pid = int(str(pid))
        tables = tables if isinstance(tables, list) else []
        self._sources: tuple[Source, ...] = (
            *counters.sources_of(self._version),
            counters.tables_source(tuple(map(int, tables))),
        )
        self._warm = False
        self._lacking.extend(counters.absences_of(self._version))

    @property
    def source(self) -> str:
        """Return where ``waits`` come from."""
        return "pg_stat_activity"

    @property
    def pid(self) -> int:
        """Return the process of the session on the server, by its own account."""
        return self._pid

    @property
    def serving_pid(self) -> None:
        """Return that every session has a process of its own."""
        return

    @property
    def answering_s(self) -> None:
        """Return that only the session's process tells."""
        return

    @property
    def absent(self) -> tuple[Absence, ...]:
        """Return what this version or this role does not show."""
        if self._hidden:
            hidden = Absence(
                subject="wait events",
                reason="The server does not show this role what the generator's sessions do;"
                " GRANT pg_monitor to it.",
            )
            return (*self._lacking, hidden)
        return tuple(self._lacking)

    def skip(self, seconds: float) -> None:
        """Do nothing: no counter of it is one of time that goes by."""

    def waits(self) -> Sequence[Waiting]:
        """Return what the generator's sessions do now; also those that wait for their client."""
        rows = self._rows(waits.WAITS)
        self._hidden = self._hidden or waits.hidden_sessions(rows) > 0
        return waits.read_waits(rows)

    def counters(self) -> Mapping[str, float]:
        """Return all counters there are, since an arbitrary start, by ``Quantity``."""
        if not self._warm:
            self._warm_up()
        self._report_own()
        return self._count()

    def settled_counters(self) -> Mapping[str, float]:
        """Return the same when the generator's sessions are gone and have reported all they did.

        A session reports before it leaves pg_stat_activity.
        """
        deadline_s = self._clock.monotonic() + _SETTLES_WITHIN_S
        while self._rows(waits.WAITS):
            if self._clock.monotonic() > deadline_s:
                self._lacking.append(_unsettled())
                return {}
            self._clock.sleep(_POLL_S)
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

    def close(self) -> None:
        """End the session; also from another thread, while a statement hangs."""
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
        (row,) = self._rows(counters.combined(self._sources))
        found: dict[str, float] = {
            name: float(str(value))
            for name, value in zip(counters.quantities(self._sources), row, strict=True)
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


def open_reader(sql: Sql, address: ServerAddress) -> PostgresReader:
    """Return a reader on a new session in the workload's database.

    Raises:
        TargetError: The server lets nobody in.
    """
    session = sql.session(address, READER_NAME, patience_s=_PATIENCE_S)
    try:
        return PostgresReader(session, SystemClock())
    except TargetError:
        session.close()
        raise


def _unsettled() -> Absence:
    return Absence(
        subject="counters",
        reason=f"Sessions of the generator were still there {_SETTLES_WITHIN_S:.0f} s after its"
        " end, and had not reported what they did.",
    )
