"""What a PostgreSQL server says of itself: read from answers of real ones."""

from collections import Counter

import pytest
from recorded import RECORDINGS, VERSIONS, RecordedSession

from fakes.clock import FakeClock
from fakes.sql import FakeSql
from steelyard.core.measurement import Quantity, WaitClass
from steelyard.core.outside import ServerAddress
from steelyard.core.wording import TargetError
from steelyard.systems.postgres import reader
from steelyard.systems.postgres import reader as counters
from steelyard.systems.postgres import reader as waits
from steelyard.systems.postgres.reader import (
    PostgresReader,
    hidden_sessions,
    open_reader,
    read_waits,
    wait_class,
)

_ADDRESS = ServerAddress(host="/fake", port=5432, user="u", database="d")
_OF_SQL = list(Quantity)[: list(Quantity).index(Quantity.DATABASE_BYTES)]


def _differences(session: RecordedSession) -> dict[str, float]:
    """Return what the reader made of a recorded run: idle before, a look within, settled after."""
    read = PostgresReader(session, FakeClock())
    before = read.counters()
    for _ in range(6):
        read.waits()
    read.counters()
    after = read.settled_counters()
    return {name: after[name] - before[name] for name in before}


@pytest.mark.parametrize("version", VERSIONS)
def test_commits_are_those_of_the_generator(version: int) -> None:
    """To the last one: what the reader itself did is taken off.

    Beside its transactions pgbench commits once per connection and two queries of its own.
    """
    session = RecordedSession(str(version))
    extra = (1 + session.clients) + 2
    assert _differences(session)[Quantity.COMMITS] == session.transactions + extra


@pytest.mark.parametrize("version", VERSIONS)
def test_a_tpcb_run_is_counted_as_what_it_is(version: int) -> None:
    """Three rows are changed and one added per transaction, and about each of them is synced."""
    session = RecordedSession(str(version))
    found = _differences(session)
    assert found[Quantity.ROWS_UPDATED] == 3 * session.transactions
    assert found[Quantity.ROWS_INSERTED] == session.transactions
    assert 0 < found[Quantity.WAL_SYNCS] <= session.transactions * 1.1
    assert found[Quantity.WAL_SYNCS] <= found[Quantity.WAL_WRITES] * 1.1
    assert found[Quantity.WAL_RECORDS] > 4 * session.transactions
    assert found[Quantity.WAL_BYTES] > 200 * session.transactions


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_counted_and_what_is_absent_are_all_there_is(version: int) -> None:
    """Nothing is both, nothing is neither; each absence says since when it would be there."""
    read = PostgresReader(RecordedSession(str(version)), FakeClock())
    absent = [absence.subject for absence in read.absent]
    assert sorted([*read.counters(), *absent]) == sorted(_OF_SQL)
    assert all("and later do" in absence.reason for absence in read.absent)
    assert (Quantity.RELATION_READ_BYTES in absent) == (version < 16)


@pytest.mark.parametrize("version", [13, 14, 15, 16, 17, 18, 19])
def test_every_version_has_one_place_for_each_counter(version: int) -> None:
    """Also those that are not run here: a quantity has one source there, or none and a reason."""
    sources = (*counters.sources_of(version), counters.tables_source((1,)))
    found = Counter(counters.quantities(sources))
    found.update(absence.subject for absence in counters.absences_of(version))
    assert found == Counter(_OF_SQL)


@pytest.mark.parametrize(
    ("version", "place", "columns"),
    [
        (14, "pg_stat_wal", ("wal_write", "wal_sync")),
        (17, "pg_stat_wal", ("wal_write", "wal_sync")),
        (16, "pg_stat_bgwriter", ("checkpoints_timed", "checkpoints_req")),
        (17, "pg_stat_checkpointer", ("num_requested",)),
        (17, "pg_stat_io", ("op_bytes",)),
        (18, "pg_stat_io", ("read_bytes", "'wal'")),
    ],
)
def test_a_counter_is_looked_for_where_its_version_has_it(
    version: int, place: str, columns: tuple[str, ...]
) -> None:
    """As the documentation of that version says; other versions' columns are not asked for."""
    statement = counters.combined(counters.sources_of(version))
    assert place in statement
    assert all(column in statement for column in columns)
    assert ("checkpoints_req" in statement) == (version <= 16)
    assert ("wal_sync" in statement) == (14 <= version <= 17)
    assert ("pg_stat_io" in statement) == (version >= 16)
    assert ("op_bytes" in statement) == (version in (16, 17))


@pytest.mark.parametrize("version", VERSIONS)
def test_wait_events_are_the_generators(version: int) -> None:
    """Four clients: never more sessions than that, and together they wait for WAL and for locks."""
    session = RecordedSession(str(version))
    read = PostgresReader(session, FakeClock())
    read.counters()
    seen = [read.waits() for _ in range(6)]
    assert all(0 < sum(one.sessions for one in sample) <= session.clients for sample in seen)
    groups = {one.group for sample in seen for one in sample}
    assert {WaitClass.WAL, WaitClass.LOCK} <= groups
    assert not any(absence.subject == "wait events" for absence in read.absent)
    assert read.source == "pg_stat_activity"
    assert read.pid > 1


def test_a_role_without_rights_sees_no_wait_events_and_all_counters() -> None:
    """The generator's sessions are there and say nothing: not CPU, but absent, with the way out."""
    session = RecordedSession("18-without-rights")
    read = PostgresReader(session, FakeClock())
    before = read.counters()
    assert [read.waits() for _ in range(6)] == [()] * 6
    (absence,) = read.absent
    assert absence.subject == "wait events"
    assert "GRANT pg_monitor" in absence.reason
    read.counters()
    after = read.settled_counters()
    committed = after[Quantity.COMMITS] - before[Quantity.COMMITS]
    assert committed == session.transactions + session.clients + 3


def test_levels_are_sizes() -> None:
    """Of the database, and of the server's own memory for pages."""
    levels = PostgresReader(RecordedSession("18"), FakeClock()).levels()
    assert levels[Quantity.SHARED_BUFFERS_BYTES] == 64 * 2**20
    assert levels[Quantity.DATABASE_BYTES] > 70e6


def test_what_a_server_refuses_is_absent_and_the_rest_is_read() -> None:
    """A standby has no position to insert WAL at; only that is missing, with the server's words."""
    session = RecordedSession("18")
    session.refused.add("pg_current_wal_insert_lsn")
    read = PostgresReader(session, FakeClock())
    sources = (*counters.sources_of(18), read._sources[-1])
    whole = counters.combined(sources)
    answers = dict(zip(counters.quantities(sources), session._answers[whole][0][0], strict=True))
    left = tuple(source for source in sources if Quantity.WAL_BYTES not in source.columns)
    for source in left:
        session._answers[source.statement] = [[tuple(answers[name] for name in source.columns)]]
    row = tuple(answers[name] for source in left for name in source.columns)
    session._answers[counters.combined(left)] = [[row]]
    found = read.counters()
    assert set(found) == set(_OF_SQL) - {Quantity.WAL_BYTES}
    (absence,) = read.absent
    assert absence.subject == Quantity.WAL_BYTES
    assert "permission denied" in absence.reason


def test_sessions_that_do_not_leave_make_the_counters_absent() -> None:
    """What they have not reported would be missing; nobody waits for them for ever."""
    session = RecordedSession("18")
    clock = FakeClock()
    read = PostgresReader(session, clock)
    session._answers[waits.WAITS] = [[("Lock", "tuple", 1, 0)]]
    before = clock.monotonic()
    assert read.settled_counters() == {}
    assert clock.monotonic() - before < 5
    assert "still there" in read.absent[-1].reason


def test_a_session_that_cannot_be_used_is_closed() -> None:
    """A server that lets us in and answers nothing keeps no connection of ours."""
    sql = FakeSql()
    with pytest.raises(TargetError, match="refused"):
        open_reader(sql, _ADDRESS)
    assert sql.open_sessions == 0
    assert sql.asked[0][1] == reader._FACTS


def test_a_reader_ends_its_session() -> None:
    """When the probe is done with it."""
    session = RecordedSession("18")
    PostgresReader(session, FakeClock()).close()
    assert session.closed


_ALL = [
    tuple(line.split("\t"))
    for line in (RECORDINGS / "postgres" / "wait-events-18.tsv").read_text().splitlines()
]


@pytest.mark.parametrize(
    ("kind", "name", "group"),
    [
        ("CPU", "", WaitClass.CPU),
        ("IO", "WALSync", WaitClass.WAL),
        ("IO", "WalSync", WaitClass.WAL),
        ("IO", "WALWrite", WaitClass.WAL),
        ("IO", "WalWrite", WaitClass.WAL),
        ("IO", "WalInitWrite", WaitClass.WAL),
        ("LWLock", "WALWrite", WaitClass.WAL),
        ("LWLock", "WALInsert", WaitClass.LWLOCK),
        ("LWLock", "WALBufMapping", WaitClass.LWLOCK),
        ("LWLock", "BufferContent", WaitClass.LWLOCK),
        ("IPC", "ProcarrayGroupUpdate", WaitClass.LWLOCK),
        ("IPC", "ProcArrayGroupUpdate", WaitClass.LWLOCK),
        ("IPC", "XactGroupUpdate", WaitClass.LWLOCK),
        ("Timeout", "SpinDelay", WaitClass.LWLOCK),
        ("IO", "DataFileRead", WaitClass.IO),
        ("IO", "BuffileWrite", WaitClass.IO),
        ("IO", "SlruSync", WaitClass.IO),
        ("IO", "AioIoCompletion", WaitClass.IO),
        ("IO", "AioIoUringExecution", WaitClass.IO),
        ("LWLock", "AioUringCompletion", WaitClass.IO),
        ("IPC", "BufferIo", WaitClass.IO),
        ("IPC", "BufferIO", WaitClass.IO),
        ("LWLock", "BufferIO", WaitClass.IO),
        ("Lock", "transactionid", WaitClass.LOCK),
        ("Lock", "extend", WaitClass.LOCK),
        ("IPC", "SyncRep", WaitClass.REPLICATION),
        ("Client", "ClientRead", WaitClass.CLIENT),
        ("Client", "ClientWrite", WaitClass.CLIENT),
        ("Timeout", "PgSleep", WaitClass.OTHER),
        ("BufferPin", "BufferPin", WaitClass.OTHER),
        ("Extension", "Extension", WaitClass.OTHER),
        ("IPC", "ParallelFinish", WaitClass.OTHER),
        ("Kind of a later version", "Unheard", WaitClass.OTHER),
        ("IO", "UnheardOfAFork", WaitClass.OTHER),
        # Of Aurora, whose commit is no read of data files.
        ("IO", "XactSync", WaitClass.WAL),
        ("IO", "AuroraStorageLogAllocate", WaitClass.WAL),
        ("IO", "AuroraEnhancedLogicalWALRead", WaitClass.WAL),
        ("LWLock", "WALWriteLock", WaitClass.WAL),
        ("IO", "AuroraOptimizedReadsCacheRead", WaitClass.IO),
        ("IO", "BufFileRead", WaitClass.IO),
        ("IO", "SLRURead", WaitClass.IO),
        ("LWLock", "buffer_content", WaitClass.LWLOCK),
        ("LWLock", "lock_manager", WaitClass.LWLOCK),
        ("Lock", "Relation", WaitClass.LOCK),
        ("IPC", "DamRecordTxAck", WaitClass.OTHER),
        ("IO", "AuroraUnheard", WaitClass.OTHER),
    ],
)
def test_an_event_counts_as_its_class(kind: str, name: str, group: WaitClass) -> None:
    """Capitals, which differ between versions, do not matter; what is unknown is "other"."""
    assert wait_class(kind, name) is group


def test_every_event_of_files_is_one_of_postgresql() -> None:
    """No beginning of a name is there for nothing: each stands for an event of PostgreSQL 18."""
    names = [name.lower() for kind, name in _ALL if kind == "IO"]
    assert [each for each in waits._FILES if not any(name.startswith(each) for name in names)] == []


def test_no_named_event_is_misspelt() -> None:
    """Every exception is an event of PostgreSQL 18, but for the one that 14 did away with."""
    known = {(kind.lower(), name.lower()) for kind, name in _ALL}
    assert set(waits._BY_EVENT) - known == {("lwlock", "bufferio")}


def test_every_event_of_a_version_has_a_class() -> None:
    """No kind is passed over: only these kinds of PostgreSQL 18 hold events that are "other"."""
    by_class = Counter(wait_class(kind, name) for kind, name in _ALL)
    assert set(by_class) == set(WaitClass) - {WaitClass.CPU}
    other = {kind for kind, name in _ALL if wait_class(kind, name) is WaitClass.OTHER}
    assert other == {"Activity", "BufferPin", "Extension", "IPC", "Timeout"}


def test_a_session_without_a_wait_event_works() -> None:
    """It is CPU, by whatever name; the rest keeps the server's names."""
    rows = [(None, None, 2, 0), ("IO", "WalSync", 1, 0)]
    cpu, wal = read_waits(rows)
    assert (cpu.kind, cpu.name, cpu.group, cpu.sessions) == ("CPU", "", WaitClass.CPU, 2)
    assert (wal.kind, wal.name, wal.group, wal.sessions) == ("IO", "WalSync", WaitClass.WAL, 1)


def test_a_session_that_may_not_be_looked_at_is_not_cpu() -> None:
    """Its wait event is null, too, and still it counts as nothing."""
    rows = [(None, None, 1, 4)]
    assert [(one.group, one.sessions) for one in read_waits(rows)] == [(WaitClass.CPU, 1)]
    assert read_waits([(None, None, 0, 4)]) == ()
    assert hidden_sessions(rows) == 4
