"""What was seen around a run: where its time went, what it used, who else was there.

Counters are differences over the whole run, from idle before it to idle after it, ramp included:
PostgreSQL's sessions report at their end, so only then is nothing left out. What is sampled
(wait events, series) has its place in the run's seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

# Subject of the absence of everything about a server's machine.
SERVERS_MACHINE: Final = "the server's machine"


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

    # Of the server, by SQL; differences.
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
    # Of the server, by SQL; levels at the end.
    DATABASE_BYTES = "database_bytes"
    SHARED_BUFFERS_BYTES = "shared_buffers_bytes"
    # CPU and scheduling; differences.
    SERVER_CPU_S = "server_cpu_s"
    SERVER_RUN_QUEUE_S = "server_run_queue_s"
    GENERATOR_CPU_S = "generator_cpu_s"
    GENERATOR_RUN_QUEUE_S = "generator_run_queue_s"
    STEELYARD_CPU_S = "steelyard_cpu_s"
    OTHERS_CPU_S = "others_cpu_s"  # all processes but the three above
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
    # The machine; levels at the end.
    CPUS = "cpus"
    MEMORY_BYTES = "memory_bytes"
    MEMORY_AVAILABLE_BYTES = "memory_available_bytes"
    HUGE_PAGES = "huge_pages"
    HUGE_PAGES_FREE = "huge_pages_free"
    SERVER_HUGE_BYTES = "server_huge_bytes"  # of the server's shared memory, on huge pages
    SERVER_REMOTE_NODE_FRACTION = "server_remote_node_fraction"  # of its pages, outside one node
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
        end_s: End of each interval, seconds since the run's start.
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
class ProbeCost:
    """What the watching itself used of the CPUs during a run, in seconds.

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
        seconds: From the first reading to the last: what the totals cover.
        totals: Differences over it, by ``Quantity``.
        levels: Readings at its end, by ``Quantity``.
        others: The heaviest other processes, at most five.
        absent: What was asked for and not measured.
    """

    seconds: float
    totals: Mapping[str, float]
    levels: Mapping[str, float]
    waits: Waits | None
    series: tuple[Series, ...]
    others: tuple[OtherProcess, ...]
    absent: tuple[Absence, ...]
    cost: ProbeCost | None = None

    def total(self, quantity: Quantity) -> float | None:
        """Return a difference over the run, or None when it was not measured."""
        return self.totals.get(quantity)

    def level(self, quantity: Quantity) -> float | None:
        """Return a reading at its end, or None when it was not measured."""
        return self.levels.get(quantity)

    def series_of(self, subject: str) -> Series | None:
        """Return the series of a subject, or None."""
        return next((each for each in self.series if each.subject == subject), None)
