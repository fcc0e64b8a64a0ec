"""Wait events: what each of them counts as, in the names of all versions."""

from collections import Counter

import pytest
from recorded import RECORDINGS

from steelyard.core.measurement import WaitClass
from steelyard.systems.postgres import reader as waits
from steelyard.systems.postgres.reader import hidden_sessions, read_waits, wait_class

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
    ],
)
def test_an_event_counts_as_its_class(kind: str, name: str, group: WaitClass) -> None:
    """Capitals, which differ between versions, do not matter; what is unknown is "other"."""
    assert wait_class(kind, name) is group


@pytest.mark.parametrize(
    ("kind", "name", "group"),
    [
        ("IO", "XactSync", WaitClass.WAL),
        ("IO", "AuroraStorageLogAllocate", WaitClass.WAL),
        ("IO", "AuroraEnhancedLogicalWALRead", WaitClass.WAL),
        ("LWLock", "WALWriteLock", WaitClass.WAL),
        ("IO", "AuroraOptimizedReadsCacheRead", WaitClass.IO),
        ("IO", "BufFileRead", WaitClass.IO),
        ("IO", "DataFileRead", WaitClass.IO),
        ("IO", "SLRURead", WaitClass.IO),
        ("LWLock", "buffer_content", WaitClass.LWLOCK),
        ("LWLock", "lock_manager", WaitClass.LWLOCK),
        ("Lock", "Relation", WaitClass.LOCK),
        ("IPC", "DamRecordTxAck", WaitClass.OTHER),
        ("IO", "AuroraUnheard", WaitClass.OTHER),
    ],
)
def test_an_event_of_aurora_counts_as_what_aurora_waits_for(
    kind: str, name: str, group: WaitClass
) -> None:
    """Its commit is no read of data files, and what only it has and nobody told is "other"."""
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
