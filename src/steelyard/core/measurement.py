"""What one run of the load generator gave, what probes saw beside it, and the facts behind both.

Runs are in base units and in run order. A quantity that could not be read has no value and a
reason. The facts of machine, tools and servers are what must be known to trust a number.

What the transaction log of a run says is counted into buckets. Counts add up exactly in any order,
and the percentiles of a sum are those of all transactions together; percentiles themselves are
never averaged (METHOD 8).

Counters of evidence are differences over the whole run, from idle before it to idle after it, ramp
included: PostgreSQL's sessions report at their end, so only then is nothing left out. What is
sampled (wait events, series) has its place in the run's seconds.

Of a run in turns everything is of the time in which it ran, from the first connection to the end of
its generators: pauses are left out of totals, of ``seconds`` and of the places in a series. A
warm-up by the run's own generators is in the totals, and so are their transactions in what these
are divided by. Wait events are sampled in what counts of its turns alone.
"""

import math
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field, fields, replace
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

from steelyard.core.experiment import EffectiveSetting, Setting
from steelyard.core.findings import Fact, Finding, Validity
from steelyard.core.places import Provision
from steelyard.core.quantities import OPTIONAL, Computed
from steelyard.core.schedule import Ceiling, CellKey, Turn

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
    OTHERS_CPU_S = "others_cpu_s"  # what the CPUs were busy but for the lines above
    # Of all other processes, where all can be seen; in turns of the eight that use the most.
    VISIBLE_OTHERS_CPU_S = "visible_others_cpu_s"
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
    # Of workers that put the load on; levels. The skew is the most from the first to the last of
    # them when they began or went on; what their clocks leave in doubt is in it.
    WORKERS = "workers"
    START_SKEW_S = "start_skew_s"
    START_DOUBT_S = "start_doubt_s"
    # The CPU limit of the load generator, in its pod or on a machine of its own; differences.
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
    DEVICE_FLUSH_S = "device_flush_s"  # summed over flushes
    DEVICE_BUSY_S = "device_busy_s"
    DEVICE_QUEUE_S = "device_queue_s"  # requests in flight, integrated
    # The same of the WAL's device, where it is another one.
    WAL_DEVICE_WRITES = "wal_device_writes"
    WAL_DEVICE_WRITE_BYTES = "wal_device_write_bytes"
    WAL_DEVICE_WRITE_S = "wal_device_write_s"
    WAL_DEVICE_FLUSHES = "wal_device_flushes"
    WAL_DEVICE_FLUSH_S = "wal_device_flush_s"
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
    GENERATOR_CPUS = "generator_cpus"  # likewise; nothing writes the two after it any more
    GENERATOR_BUSIEST_FRACTION = "generator_busiest_fraction"  # of its CPUs that one of them used
    GENERATORS_APART_S = "generators_apart_s"  # that their beginnings lay apart at least
    # Of the fastest-used network link of this machine, in its busier direction; no loopback.
    LINK_BUSIEST_FRACTION = "link_busiest_fraction"
    GENERATORS_BESIDE = "generators_beside"  # on the machine of the server's container
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

    def plus(self, other: "StatementUse", times: float = 1.0) -> "StatementUse":
        """Return the sums of both, of the other as often as ``times``."""
        names = [each.name for each in fields(self) if each.name != "text"]
        sums = {name: getattr(self, name) + times * getattr(other, name) for name in names}
        return replace(self, **sums)


# The texts of transaction control, however a script writes it.
BEGIN: Final = "BEGIN"
COMMIT: Final = "COMMIT"
ROLLBACK: Final = "ROLLBACK"


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

    @property
    def foreign_cpu_s(self) -> float | None:
        """Return the CPU time of processes that are neither server, generator nor Steelyard.

        Threads of the kernel, in brackets, are left out, for they also work for the server; where
        all processes can be seen also what none of them used: interrupts, falling asleep and waking
        up. None where it is not known, or where the server itself may be among them.
        """
        used = self.total(Quantity.OTHERS_CPU_S)
        if used is None or any(gone.subject == SERVERS_MACHINE for gone in self.absent):
            return None
        used -= sum(other.cpu_s for other in self.others if other.name.startswith("["))
        visible = self.total(Quantity.VISIBLE_OTHERS_CPU_S)
        return max(used if visible is None else min(used, visible), 0.0)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptLatency:
    """The transactions of one script in one run, after its ramp.

    Attributes:
        script: Name of the builtin script, or of the script file.
        latency: Counts of microseconds as text, see ``stats.histogram.from_text``; under a rate
            from the scheduled start.
        longest_s: The longest of them, exactly; None without a transaction.
        cut: Ended in turns too, but a pause of the generator alone fell into them: it is not known
            how long they took, but for that it was longer than what is told.
        executions_s: Seconds of each execution that counts, in their order, client by client, where
            all scripts ran in a given order; empty where scripts were drawn.
    """

    script: str
    latency: str
    longest_s: float | None
    cut: int = 0
    executions_s: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyWindow:
    """All transactions that ended in some seconds of a long run.

    Attributes:
        start_s: Seconds since the run's start, as progress intervals count them.
        end_s: Likewise.
        latency: Counts of microseconds as text.
    """

    start_s: float
    end_s: float
    latency: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLatency:
    """Every logged transaction of one run, after its ramp, all its generators together.

    Attributes:
        scripts: One entry per script that ran, in the order of the workload.
        lag: Counts of microseconds between the scheduled start and the start as text; empty in a
            closed loop.
        service: Counts of microseconds from the start to the end; empty in a closed loop, where
            that is the latency itself.
        failed: Failed transactions by kind: ``serialization``, ``deadlock``, or ``failed`` where
            the log does not tell.
        skipped: Never started, because they were later than the latency limit already.
        late: Took longer than the latency limit, skipped ones not included; None without a limit.
        retried: Transactions that were tried more than once.
        retries: Further tries in all.
        sampled: Share of the transactions that the log holds.
        told_to_s: No longer latency can be told, because pauses of the generator alone cut what is
            longer; None: all can.
        windows: Of 10 s, in long runs only.
        seconds: Name of the stored counts by second and script below the campaign's ``raw/``.
    """

    scripts: tuple[ScriptLatency, ...]
    lag: str = ""
    service: str = ""
    failed: Mapping[str, int] = field(default_factory=dict)
    skipped: int = 0
    late: int | None = None
    retried: int = 0
    retries: int = 0
    sampled: float = 1.0
    told_to_s: float | None = None
    windows: tuple[LatencyWindow, ...] = ()
    seconds: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Second:
    """One progress interval of the generator, about a second long.

    Attributes:
        end_s: End of the interval, seconds since the run's first connection attempt.
        transactions: Completed in the interval, from rate times length, so not always whole.
        seconds: Length of the interval.
        latency_mean_s: Mean latency of the transactions that ended in it; None when none did.
        failed: Failed transactions.
    """

    end_s: float
    transactions: float
    seconds: float
    latency_mean_s: float | None
    failed: int = 0


class Seconds(Sequence[Second]):
    """The intervals of a run as plain numbers, for records of ten million; else a tuple of them.

    ``numbers`` holds four of each, no latency as NaN; ``failed`` is kept once where all are equal.
    """

    __slots__ = ("failed", "numbers")

    def __init__(self, rows: Iterable[Iterable[Any]]) -> None:
        """Take the fields of each interval, in their order; TypeError: one is no number."""
        flat = list(chain.from_iterable(rows))
        failed = array("q", flat[4::5])
        flat[3::5] = [math.nan if mean_s is None else mean_s for mean_s in flat[3::5]]
        del flat[4::5]
        self.numbers = array("d", flat)
        self.failed = failed if len(set(failed)) > 1 else failed[:1]

    @classmethod
    def of(cls, series: Sequence[Second]) -> "Seconds":
        """Return a series as one of these."""
        return series if isinstance(series, cls) else cls(map(astuple, series))

    def __len__(self) -> int:
        return len(self.numbers) // 4

    def __getitem__(self, place: Any) -> Any:  # noqa: ANN401 - one, or a tuple where it is a slice
        if isinstance(place, slice):
            return tuple(self[each] for each in range(len(self))[place])
        at = range(len(self))[place]
        end_s, done, took_s, latency_s = self.numbers[4 * at : 4 * at + 4]
        mean_s = None if math.isnan(latency_s) else latency_s
        lost = self.failed[at if len(self.failed) > 1 else 0]
        return Second(
            end_s=end_s, transactions=done, seconds=took_s, latency_mean_s=mean_s, failed=lost
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


class _OfJson:
    """How pydantic reads a series: what is as it is written comes without an object for each."""

    @staticmethod
    def __get_pydantic_core_schema__(_: object, schema_of: Callable[[Any], Any]) -> Any:  # noqa: ANN401 - pydantic's
        from pydantic_core import core_schema  # noqa: PLC0415 - where pydantic asks for it

        whole = schema_of(tuple[Second, ...])
        written = core_schema.plain_serializer_function_ser_schema(tuple, return_schema=whole)
        return core_schema.no_info_wrap_validator_function(_packed, whole, serialization=written)


def _packed(given: object, validated: Callable[[object], tuple[Second, ...]]) -> Seconds:
    if isinstance(given, list) and all(
        type(each) is dict and tuple(each) == Second.__slots__ for each in given
    ):
        with suppress(TypeError, OverflowError):  # pydantic says what is wrong
            return Seconds(each.values() for each in given)
    return Seconds.of(validated(given))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One run as the generator reported it, connection time and ramp excluded.

    Attributes:
        transactions: Completed after the ramp, and before the tail of an open loop.
        seconds: From the end of the ramp to the end of the last transaction, or to the tail; in a
            given order as many rounds as counted, each the sum of the median times of its scripts.
        latency_mean_s: Mean over the whole run as seen by the client; None if not reported.
        latency_stddev_s: Standard deviation of it; None if not reported.
        failed: Failed transactions of the whole run.
        connection_s: Time to open all connections; None if not reported.
        series: One entry per progress interval of the whole run, ramp included.
        tail_transactions: Completed after the measured part, in the tail of an open loop.
        percentiles: Latencies in seconds by their share, as the generator printed them; empty where
            it prints none, or a log tells them.
        uncounted: Completed while a run was taken in turns, outside of what counts of them: while
            connections opened and while turns settled; in a given order those thrown away.
        skipped: Never started after the ramp, because they were later than the latency limit; 0
            also in records of versions that did not read it.
    """

    transactions: float
    seconds: float
    latency_mean_s: float | None
    latency_stddev_s: float | None
    failed: int
    connection_s: float | None
    series: Annotated[Sequence[Second], _OfJson]
    tail_transactions: float = 0.0
    skipped: int = 0
    uncounted: float = 0.0
    percentiles: tuple[tuple[float, float], ...] = ()

    @property
    def tps(self) -> float:
        """Return completed transactions per second after the ramp."""
        return self.transactions / self.seconds

    @property
    def log_tps(self) -> float:
        """Return ln(tps), floored at one transaction per run so that a dead run stays finite."""
        return math.log(max(self.transactions, 1.0) / self.seconds)


RunPlace = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointAge:
    """Where a server stands in its checkpoint cycle.

    Attributes:
        seconds: Since its last complete checkpoint began or since it was started, whichever is
            later; None where the server does not tell.
        unknown: Why not; empty when it is known.
    """

    seconds: float | None
    unknown: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run in the record.

    Attributes:
        block: Index of its block, counting from 0.
        attempt: Which try of that block, counting from 0; only the last complete try counts, but
            of a single pass the valid runs of all tries.
        start: Place of its start in the block.
        position: Place in its start.
        started_at: Wall clock, seconds since the epoch.
        since_start_s: Seconds from the server's start (or last reset) to the run's start.
        measurement: None when the generator gave none; ``findings`` say why.
        raw: Name of the generator's stored output below the campaign's ``raw/``.
        checkpoint: Phase of the checkpoint cycle just before the run; None in records of versions
            that did not ask for it.
        evidence: What the probes saw; None in records of versions without probes.
        latency: Every transaction; None where none was logged, or where the log cannot be used:
            then a finding says why.
        turns: Of a run that was taken in turns, in order; empty for one in a single piece.
        sub_block: Of its block, counting from 0; the baseline has a run in each.
    """

    block: int
    attempt: int
    start: int
    position: int
    configuration: str
    cell: CellKey
    started_at: float
    since_start_s: float
    measurement: Measurement | None
    validity: Validity
    findings: tuple[Finding, ...] = ()
    raw: str = ""
    checkpoint: CheckpointAge | None = None
    evidence: Evidence | None = None
    latency: RunLatency | None = None
    turns: tuple[Turn, ...] = ()
    sub_block: int = 0

    @property
    def is_in_order(self) -> bool:
        """Return whether its scripts ran in a given order, and were not drawn."""
        return self.latency is not None and any(s.executions_s for s in self.latency.scripts)

    @property
    def has_ramp(self) -> bool:
        """Return whether its first seconds are thrown away: not in turns, nor in a given order."""
        return not self.turns and not self.is_in_order

    @property
    def place(self) -> RunPlace:
        """Return where it stands in the schedule: block, start and position."""
        return (self.block, self.start, self.position)


@dataclass(frozen=True, slots=True, kw_only=True)
class SustainedRun:
    """One long run after the last block; it belongs to no block and to no estimate.

    Attributes:
        started_at: Wall clock, seconds since the epoch.
        ramp_s: Seconds at its start that do not count.
        measurement: None when the generator gave none; ``findings`` say why.
        raw: Name of the generator's stored output below the campaign's ``raw/``.
        evidence: What the probes saw; None in records of versions without probes.
        latency: Every transaction; None as for ``Run``.
        part: 0, and counting on for each further run that went on right after this one, because
            a late drop called for more.
    """

    configuration: str
    cell: CellKey
    started_at: float
    ramp_s: float
    measurement: Measurement | None
    validity: Validity
    findings: tuple[Finding, ...] = ()
    raw: str = ""
    evidence: Evidence | None = None
    latency: RunLatency | None = None
    part: int = 0


BURST_BALANCES = ("BurstBalance", "EBSIOBalance%")
"""Metrics of what is left of burst credits, in percent of a full bucket."""
BILLED_REQUESTS = ("VolumeReadIOPs", "VolumeWriteIOPs")
"""Metrics of a cluster's storage whose sum is what is billed for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSeries:
    """What the provider of a server counted of it while the campaign ran.

    Attributes:
        unit: ``%``, ``1/s``, ``B/s``, ``B``, ``s``, ``sessions``.
        starts_s: Of each period, seconds since the epoch; empty: nothing was published, which is
            not 0.
    """

    server: Annotated[str, "Name that the provider gives it."]
    configurations: Annotated[tuple[str, ...], "Configurations that ran on it."] = ()
    metric: Annotated[str, "Name that the provider publishes."]
    unit: Annotated[str, "Unit of the values; empty for a count."]
    period_s: Annotated[
        float,
        "Period, s: values are averages, but sums with VolumeReadIOPs and VolumeWriteIOPs.",
    ]
    starts_s: tuple[float, ...]
    values: tuple[float, ...]
    points: ClassVar = Computed(
        lambda series: tuple(zip(series.starts_s, series.values, strict=True)),
        Annotated[
            tuple[tuple[float, float], ...],
            "Begin of each period, s since 1970, and value; empty without any published, which is"
            " not 0.",
        ],
    )

    @property
    def is_billed(self) -> bool:
        """Return whether its sum is what is billed."""
        return self.metric in BILLED_REQUESTS

    def since(self, moment_s: float) -> "ProviderSeries":
        """Return the periods that end after a moment."""
        first = sum(start + self.period_s <= moment_s for start in self.starts_s)
        return replace(self, starts_s=self.starts_s[first:], values=self.values[first:])


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementPlan:
    """How a server would run a statement.

    Attributes:
        statement: As its script has it.
        script: That has it first; empty in old records.
        lines: Of EXPLAIN, without costs.
        runs: Empty also where a value of a variable is not known.
    """

    workload: str
    statement: str
    lines: Annotated[tuple[str, ...], "Lines of the plan."] = ()
    trouble: Annotated[str, "Why there is no plan; may be null."] = ""
    runs: Annotated[
        tuple[tuple[str, ...], ...],
        "Lines of EXPLAIN (ANALYZE, BUFFERS, SETTINGS, WAL) of two to four executions, in order;"
        " empty if the script may write.",
    ] = ()
    script: Annotated[str, OPTIONAL, "Script that has it."] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChange:
    """Whether other settings give a statement another plan.

    Attributes:
        statement: As its script has it.
        unknown: Why that cannot be told.
        before: Lines of the first plan that is another one; empty where none is.
    """

    script: Annotated[str, "Script of the statement."]
    statement: Annotated[str, "The statement."]
    drawn: Annotated[int, "Drawn sets of parameters; 1 without parameters."] = 0
    changed: Annotated[int, "How many of the sets have another plan."] = 0
    unknown: Annotated[str, "Why its plans are not known; may be null."] = ""
    before: Annotated[tuple[str, ...], "Lines of the first plan that changes."] = ()
    after: Annotated[tuple[str, ...], "The same under the settings that are tried."] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEnvironment:
    """One configuration's server as it was found running.

    Attributes:
        settings: All of them, as a new session sees them.
        requested: What the experiment asked for.
        plans: Of the statements of scripts; empty where there are none, or nobody asked.
        provision: What its place gives it; None in old records.
    """

    configuration: str
    version: str
    settings: tuple[EffectiveSetting, ...]
    requested: tuple[Setting, ...] = ()
    plans: tuple[StatementPlan, ...] = ()
    provision: Provision | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Facts of the campaign's machine, tools and servers.

    Attributes:
        facts: Of the machine and the tools, in the order to print them.
        servers: One per configuration that was activated at least once, in configuration order.
        ceilings: What the place can do at most; empty in old records and where nobody asked.
    """

    facts: tuple[Fact, ...]
    servers: tuple[ServerEnvironment, ...] = ()
    format: int = 1
    ceilings: tuple[Ceiling, ...] = ()
