"""What PostgreSQL's sessions wait for, as pg_stat_activity shows it.

``wait_event`` alone tells whether a session works: the view copies ``state`` first and reads the
wait events after that, so at tens of thousands of statements a second the two are of different
moments (measured: more sessions "idle" without a wait event than "active" without one).
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from steelyard.engines.postgres.pgbench import SESSION_NAME
from steelyard.engines.reading import Waiting
from steelyard.gateways.sql import Row
from steelyard.model.evidence import WaitClass

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
  AND application_name = '{SESSION_NAME}'
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
        return _class_of_io(name)
    return named or _BY_KIND.get(kind, WaitClass.OTHER)


def _class_of_io(name: str) -> WaitClass:
    if name.startswith("wal"):
        return WaitClass.WAL
    return WaitClass.IO if name.startswith(_FILES) else WaitClass.OTHER


def read_waits(rows: Sequence[Row]) -> tuple[Waiting, ...]:
    """Return what the rows of ``WAITS`` say of the generator's sessions."""
    return tuple(one for one in map(_waiting, rows) if one.sessions)


@lru_cache(maxsize=1024)  # the same few rows, ten times a second
def _waiting(row: Row) -> Waiting:
    kind, name, count, _ = _typed(row)
    kind, name = kind or _CPU, name or ""
    return Waiting(kind=kind, name=name, group=wait_class(kind, name), sessions=count)


def hidden_sessions(rows: Sequence[Row]) -> int:
    """Return how many of the generator's sessions may not be looked at."""
    return sum(map(_hidden, rows))


@lru_cache(maxsize=1024)
def _hidden(row: Row) -> int:
    return _typed(row)[3]


def _typed(row: Row) -> tuple[str | None, str | None, int, int]:
    kind, name, visible, hidden = row
    return (
        None if kind is None else str(kind),
        None if name is None else str(name),
        int(str(visible)),
        int(str(hidden)),
    )
