"""What was seen around a run: where its time went, what it used, who else was there.

Counters are differences over the whole run, from idle before it to idle after it, ramp included:
PostgreSQL's sessions report at their end, so only then is nothing left out. What is sampled
(wait events, series) has its place in the run's seconds.

Of a run in turns everything is of the time in which it ran, from the first connection to the end of
its generators: pauses are left out of totals, of ``seconds`` and of the places in a series. A
warm-up by the run's own generators is in the totals, and so are their transactions in what these
are divided by. Wait events are sampled in what counts of its turns alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

# Subject of the absence of everything about a server's machine.
SERVERS_MACHINE: Final = "the server's machine"
# That of what each statement used.
STATEMENTS: Final = "statements"


class WaitClass(StrEnum):
    """What a session of the server did, by the reason it was not doing something else.

    Attributes:
        CPU: On a CPU or waiting for one: the server names no wait event.
        IO: Data files.
        WAL: Writing and syncing the WAL, and waiting for another session that does so.
        LWLOCK: Locks of the server's own memory, other than those of the WAL's writing.
        LOCK: Locks of rows, tables, transactions.
        REPLICATION: A synchronous standby.
        CLIENT: For the client's next command, inside or between transactions.
        OTHER: Everything else the server names.
    """

    CPU = "cpu"
    IO = "io"
    WAL = "wal"
    LWLOCK = "lwlock"
    LOCK = "lock"
    REPLICATION = "replication"
    CLIENT = "client"
    OTHER = "other"


class Quantity(StrEnum):
    """Names of what is counted or read around a run, each with its unit.

    Counters of SQL are of the workload's database or of the whole server, as PostgreSQL counts
    them; those of the machine are of the whole machine unless they name a process.
    """

    # Of a PostgreSQL server, by SQL; differences.
    COMMITS = "commits"
    ROLLBACKS = "rollbacks"
    ROWS_RETURNED = "rows_returned"
    ROWS_FETCHED = "rows_fetched"
    ROWS_INSERTED = "rows_inserted"
    ROWS_UPDATED = "rows_updated"
    ROWS_DELETED = "rows_deleted"
    PAGES_HIT = "pages_hit"
    PAGES_READ = "pages_read"
    PAGES_WRITTEN = "pages_written"  # of relations, by whomever
    RELATION_READ_BYTES = "relation_read_bytes"  # asked of the operating system
    RELATION_SYNCS = "relation_syncs"
    TEMPORARY_BYTES = "temporary_bytes"
    DEADLOCKS = "deadlocks"
    WAL_BYTES = "wal_bytes"
    WAL_RECORDS = "wal_records"
    FULL_PAGE_IMAGES = "full_page_images"
    WAL_WRITES = "wal_writes"
    WAL_SYNCS = "wal_syncs"
    CHECKPOINTS = "checkpoints"
    AUTOVACUUMS = "autovacuums"
    # Of a PostgreSQL server, by SQL; levels at the end.
    DATABASE_BYTES = "database_bytes"
    SHARED_BUFFERS_BYTES = "shared_buffers_bytes"
    # Of a Redis server, by INFO; differences.
    COMMANDS = "commands"  # of clients and primaries, without those of the probe
    COMMAND_S = "command_s"  # of its main thread, executing them
    ERROR_REPLIES = "error_replies"
    KEYSPACE_HITS = "keyspace_hits"
    KEYSPACE_MISSES = "keyspace_misses"
    EVICTED_KEYS = "evicted_keys"
    EXPIRED_KEYS = "expired_keys"
    NETWORK_IN_BYTES = "network_in_bytes"
    NETWORK_OUT_BYTES = "network_out_bytes"
    # Growth of the append-only file; what it grew by between the last look before the end of a
    # rewrite and that end, a tenth of a second at most, is not in it.
    AOF_BYTES = "aof_bytes"
    AOF_DELAYED_FSYNCS = "aof_delayed_fsyncs"  # writes that waited for an fsync of the background
    AOF_FSYNC_PENDING_S = "aof_fsync_pending_s"  # with such an fsync waiting or at work, sampled
    AOF_REWRITES = "aof_rewrites"  # begun
    AOF_REWRITING_S = "aof_rewriting_s"  # with one at work, sampled
    RDB_SAVES = "rdb_saves"
    RDB_SAVING_S = "rdb_saving_s"  # with one at work, sampled
    FORKS = "forks"
    FORK_S = "fork_s"  # for which the main thread stood still to fork
    REPLICATION_BYTES = "replication_bytes"  # of the stream to replicas
    MAIN_THREAD_CPU_S = "main_thread_cpu_s"
    # By /proc, where it is on this machine: ready to run without a CPU; in uninterruptible sleep,
    # sampled, which is how the kernel shows that it waits for storage or for a lock of a file.
    MAIN_THREAD_RUN_QUEUE_S = "main_thread_run_queue_s"
    MAIN_THREAD_BLOCKED_S = "main_thread_blocked_s"
    BACKGROUND_CPU_S = "background_cpu_s"  # of all other threads: fsync, freeing, input and output
    CHILDREN_CPU_S = "children_cpu_s"  # of processes that saved or rewrote, once they have ended
    # Of a Redis server; levels at the end, or the largest of the run.
    KEYS = "keys"  # in all its databases
    USED_MEMORY_BYTES = "used_memory_bytes"  # that it has allocated
    RESIDENT_BYTES = "resident_bytes"
    MAXMEMORY_BYTES = "maxmemory_bytes"  # 0: no limit
    COPIED_BYTES = "copied_bytes"  # copy-on-write of one child, the most in the run
    REPLICAS = "replicas"
    # Of the stream, the most in the run: by the primary, which knows once a second; and by both,
    # asked one after the other, where the replica is beside it.
    REPLICA_BEHIND_BYTES = "replica_behind_bytes"
    REPLICA_LAG_BYTES = "replica_lag_bytes"
    SLOW_COMMANDS = "slow_commands"  # that its slow log has of the run
    SLOWEST_COMMAND_S = "slowest_command_s"
    # The worst of each kind of event in the run, by its latency monitor.
    WORST_COMMAND_S = "worst_command_s"
    WORST_FORK_S = "worst_fork_s"
    WORST_AOF_WRITE_S = "worst_aof_write_s"  # a write() of the append-only file
    WORST_AOF_FSYNC_S = "worst_aof_fsync_s"  # of the main thread: appendfsync always
    WORST_EXPIRY_S = "worst_expiry_s"  # a cycle of expiry or eviction
    # CPU and scheduling; differences.
    SERVER_CPU_S = "server_cpu_s"
    SERVER_RUN_QUEUE_S = "server_run_queue_s"
    REPLICA_CPU_S = "replica_cpu_s"  # of the replica beside the server, on the same machine
    GENERATOR_CPU_S = "generator_cpu_s"
    GENERATOR_RUN_QUEUE_S = "generator_run_queue_s"
    STEELYARD_CPU_S = "steelyard_cpu_s"
    OTHERS_CPU_S = "others_cpu_s"  # all processes but those of the lines above
    CPU_USER_S = "cpu_user_s"
    CPU_SYSTEM_S = "cpu_system_s"
    CPU_IOWAIT_S = "cpu_iowait_s"
    CPU_IDLE_S = "cpu_idle_s"
    CPU_STEAL_S = "cpu_steal_s"
    CPU_PRESSURE_S = "cpu_pressure_s"  # PSI, some
    IO_PRESSURE_S = "io_pressure_s"
    MEMORY_PRESSURE_S = "memory_pressure_s"
    CONTEXT_SWITCHES = "context_switches"
    SERVER_SWITCHES = "server_switches"
    SWAPPED_PAGES = "swapped_pages"
    # A CPU quota of the server's control group; differences.
    QUOTA_PERIODS = "quota_periods"
    THROTTLED_PERIODS = "throttled_periods"
    THROTTLED_S = "throttled_s"
    # CPU limits of the pods of load generators, added up; differences.
    GENERATOR_QUOTA_PERIODS = "generator_quota_periods"
    GENERATOR_THROTTLED_PERIODS = "generator_throttled_periods"
    GENERATOR_THROTTLED_S = "generator_throttled_s"
    # The block device of the data directory, by /proc/diskstats; differences.
    DEVICE_READS = "device_reads"
    DEVICE_READ_BYTES = "device_read_bytes"
    DEVICE_READ_S = "device_read_s"  # summed over requests
    DEVICE_WRITES = "device_writes"
    DEVICE_WRITE_BYTES = "device_write_bytes"
    DEVICE_WRITE_S = "device_write_s"
    DEVICE_FLUSHES = "device_flushes"
    DEVICE_BUSY_S = "device_busy_s"
    DEVICE_QUEUE_S = "device_queue_s"  # requests in flight, integrated
    # The same of the WAL's device, where it is another one.
    WAL_DEVICE_WRITES = "wal_device_writes"
    WAL_DEVICE_WRITE_BYTES = "wal_device_write_bytes"
    WAL_DEVICE_WRITE_S = "wal_device_write_s"
    WAL_DEVICE_FLUSHES = "wal_device_flushes"
    WAL_DEVICE_BUSY_S = "wal_device_busy_s"
    WAL_DEVICE_QUEUE_S = "wal_device_queue_s"
    # What the server's own processes asked of devices; differences.
    SERVER_READ_BYTES = "server_read_bytes"
    # Counted when a page of the cache becomes dirty, not when it is written; some kernels count
    # the whole large folio that it lies in, many times what the device writes (measured).
    SERVER_WRITTEN_BYTES = "server_written_bytes"
    # Parts of a run in turns, added up over its turns: right after a switch, and afterwards.
    SETTLING_S = "settling_s"
    SETTLING_WRITE_BYTES = "settling_write_bytes"  # of the device of the data
    SETTLED_S = "settled_s"
    SETTLED_WRITE_BYTES = "settled_write_bytes"
    SETTLED_READ_BYTES = "settled_read_bytes"
    # Of the server's processes in the turns of a run, its warm-up left out.
    TURNS_MAJOR_FAULTS = "turns_major_faults"
    # The machine; levels at the end.
    CPUS = "cpus"
    MEMORY_BYTES = "memory_bytes"
    MEMORY_AVAILABLE_BYTES = "memory_available_bytes"
    HUGE_PAGES = "huge_pages"
    HUGE_PAGES_FREE = "huge_pages_free"
    SERVER_HUGE_BYTES = "server_huge_bytes"  # of the server's shared memory, on huge pages
    SERVER_TRANSPARENT_HUGE = "server_transparent_huge"  # 1: the kernel may give it huge pages
    SERVER_REMOTE_NODE_FRACTION = "server_remote_node_fraction"  # of its pages, outside one node
    # Of containers; levels at the end.
    SERVER_MEMORY_BYTES = "server_memory_bytes"  # what its control group is charged for
    SERVER_WORKING_SET_BYTES = "server_working_set_bytes"  # without files nobody has used lately
    SERVER_CPUS = "server_cpus"  # that its limit or its CPU set allows
    GENERATOR_CPUS = "generator_cpus"  # likewise, added up over the generators
    GENERATOR_BUSIEST_FRACTION = "generator_busiest_fraction"  # of its CPUs that one of them used
    GENERATORS_APART_S = "generators_apart_s"  # that their beginnings lay apart at least
    # Of the fastest-used network link of this machine, in its busier direction; no loopback.
    LINK_BUSIEST_FRACTION = "link_busiest_fraction"
    GENERATORS_BESIDE = "generators_beside"  # their pods on the machine of the server
    DISK_FREE_BYTES = "disk_free_bytes"
    DISK_BYTES = "disk_bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """Something that was not measured, and why: ``reason`` is a sentence."""

    subject: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitEvent:
    """How many sessions waited for one event, on average.

    Attributes:
        kind: ``wait_event_type`` of pg_stat_activity, or ``CPU``.
        name: ``wait_event``; empty for CPU.
        group: What it counts as.
        sessions: Mean over the samples after the ramp, of the generator's sessions.
    """

    kind: str
    name: str
    group: WaitClass
    sessions: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Average active sessions of the generator by wait event.

    Attributes:
        source: Where it comes from, in words: ``pg_stat_activity at 10 Hz``.
        samples: Taken after the ramp.
        lost: Planned but not taken, because the last one took too long.
        events: With the most sessions first.
    """

    source: str
    samples: int
    lost: int
    events: tuple[WaitEvent, ...]

    def sessions_in(self, group: WaitClass) -> float:
        """Return the mean number of sessions in a class."""
        return sum(event.sessions for event in self.events if event.group is group)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Several quantities over the seconds of a run.

    Attributes:
        subject: ``waits``, ``counters``, ``host``.
        names: Of the columns: ``Quantity`` for differences over the interval, ``WaitClass`` for
            mean sessions in it.
        end_s: End of each interval, seconds since the run's start, without pauses.
        rows: One per interval; a value is None where it could not be read.
    """

    subject: str
    names: tuple[str, ...]
    end_s: tuple[float, ...]
    rows: tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherProcess:
    """A process that is neither server, generator nor Steelyard, and what it used in the run.

    Attributes:
        name: Of its program, never its arguments.
        io_bytes: Read from and written to devices; None where it may not be seen.
    """

    pid: int
    name: str
    cpu_s: float
    io_bytes: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementUse:
    """What one statement used on the server, since an arbitrary start or over a run.

    Of the load's own role and database, also where others use them at the same time.

    Attributes:
        text: As the server shows it, with parameters for its constants; transaction control in one
            way of those there are to write it.
        seconds: For which it was executed, without planning, summed over calls.
        pages_hit: Of the server's shared memory.
        pages_read: That were not there.
    """

    text: str
    calls: float
    seconds: float
    rows: float
    pages_hit: float
    pages_read: float
    wal_bytes: float


# The texts of transaction control, however a script writes it.
BEGIN: Final = "BEGIN"
COMMIT: Final = "COMMIT"
ROLLBACK: Final = "ROLLBACK"

_MOST_STATEMENTS = 100  # of a run, kept in the record; others take part in no figure
_FORGOTTEN = Absence(
    subject=STATEMENTS,
    reason="pg_stat_statements was reset during the run, or forgot statements: raise"
    " pg_stat_statements.max.",
)


def used_between(
    before: Sequence[StatementUse] | None, after: Sequence[StatementUse] | None
) -> tuple[tuple[StatementUse, ...] | None, tuple[Absence, ...]]:
    """Return what each statement used, the longest first, and what is not known of them.

    What the server has forgotten since might have been used: then nothing is sure.
    """
    if before is None or after is None:
        return None, ()
    known = {each.text: each for each in after}
    earlier = {each.text: each for each in before}
    if any(text not in known or known[text].calls < each.calls for text, each in earlier.items()):
        return None, (_FORGOTTEN,)
    used = [_used_since(earlier.get(text), each) for text, each in known.items()]
    called = sorted((each for each in used if each.calls), key=lambda each: -each.seconds)
    return tuple(called[:_MOST_STATEMENTS]), ()


def _used_since(before: StatementUse | None, after: StatementUse) -> StatementUse:
    if before is None:
        return after
    return StatementUse(
        text=after.text,
        calls=after.calls - before.calls,
        seconds=round(after.seconds - before.seconds, 9),
        rows=after.rows - before.rows,
        pages_hit=after.pages_hit - before.pages_hit,
        pages_read=after.pages_read - before.pages_read,
        wal_bytes=after.wal_bytes - before.wal_bytes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeCost:
    """What the watching itself used of the CPUs during a run, in seconds.

    What is read in the pauses of a run in turns is not in it: it takes nothing from the run.

    Attributes:
        own_cpu_s: Of the probes' threads.
        server_cpu_s: Of the server's sessions that answered them; None where not visible.
    """

    own_cpu_s: float
    server_cpu_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything the probes saw around one run.

    Attributes:
        seconds: From the first reading to the last, without pauses: what the totals cover.
        totals: Differences over it, by ``Quantity``.
        levels: Readings at its end, by ``Quantity``.
        others: The heaviest other processes, at most five.
        absent: What was asked for and not measured.
        statements: What each used, the longest first; None when that was not measured.
    """

    seconds: float
    totals: Mapping[str, float]
    levels: Mapping[str, float]
    waits: Waits | None
    series: tuple[Series, ...]
    others: tuple[OtherProcess, ...]
    absent: tuple[Absence, ...]
    cost: ProbeCost | None = None
    statements: tuple[StatementUse, ...] | None = None

    def total(self, quantity: Quantity) -> float | None:
        """Return a difference over the run, or None when it was not measured."""
        return self.totals.get(quantity)

    def level(self, quantity: Quantity) -> float | None:
        """Return a reading at its end, or None when it was not measured."""
        return self.levels.get(quantity)

    def series_of(self, subject: str) -> Series | None:
        """Return the series of a subject, or None."""
        return next((each for each in self.series if each.subject == subject), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vantage:
    """A server on this machine.

    Attributes:
        pid: Of its first process; all others descend from it.
        data: Its data directory.
        beside: First processes of servers that were started beside it: replicas.
        groups: Directories of its control group, by controller, where it has one of its own.
    """

    pid: int
    data: Path
    beside: tuple[int, ...] = ()
    groups: tuple[Path, ...] = ()
