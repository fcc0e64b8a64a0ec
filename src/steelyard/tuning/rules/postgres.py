"""Rules of PostgreSQL: its memory, connections, checkpoints and reads."""

from functools import partial
from typing import Final

from steelyard.core.findings import Severity
from steelyard.core.stack import PostgresFacts, StackFacts
from steelyard.core.wording import MIB, format_bytes, format_share
from steelyard.tuning.rules.rule import (
    HOLDS,
    NOTHING,
    TUNING_ARTICLE,
    Rulings,
    StackRule,
    cpus_of_database,
    enter,
    huge_page_of_server,
    huge_pages_asked,
    is_off,
    lacking,
    limits_path,
    memory_of_database,
    number_of,
    setting,
    size_of,
    violated,
    violated_if,
)

_RESOURCES: Final = "PostgreSQL documentation, 'Resource Consumption'"
MOST_BUFFERS: Final = 0.4
_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - only a name in sentences
_CONTAINER_SHM_BYTES: Final = 64 * MIB  # what container runtimes give by default
_WAL_SEGMENT_BYTES: Final = 16 * MIB  # of a cluster made without --wal-segsize
RULES: Final[list[StackRule]] = []
_rule = partial(enter, RULES, layers=("postgres",), needs=("postgres.settings",))
MOST_CONNECTIONS_PER_CPU: Final = 50  # a guess, far beyond what can be active


@_rule(
    code="PG001",
    layers=("postgres", "linux"),
    severity=Severity.ERROR,
    title="Enough huge pages are free for huge_pages = on",
    why="the server does not start: could not map anonymous shared memory",
    detect="postgres -C shared_memory_size_in_huge_pages against free_hugepages less"
    " resv_hugepages of the size in huge_page_size, before the start",
    remedy="Enlarge the pool to what it needs, or end who holds the pages.",
    source='PostgreSQL 18 documentation, section 18.4.5 "Linux Huge Pages"; tried with'
    " PostgreSQL 15 and 18 on too few pages",
    needs=("postgres.huge_pages_needed", "postgres.settings", "linux.pools"),
)
def _enough_pages(facts: StackFacts) -> Rulings:
    server, linux = facts.postgres, facts.linux
    if server is None or linux is None or server.huge_pages_needed is None or server.running:
        return NOTHING
    if linux.pools is None or setting(facts, "huge_pages", "try") != "on":
        return NOTHING
    page_bytes = huge_page_of_server(facts)
    if page_bytes is None:
        return lacking("linux.huge_page_bytes")
    pool = linux.pool(page_bytes)
    there = pool.available if pool is not None else 0
    if pool is not None and pool.reserved is None and server.huge_pages_needed <= there:
        return lacking("linux.pools.reserved")
    size = "" if page_bytes == linux.huge_page_bytes else f" of {format_bytes(page_bytes)}"
    return violated_if(
        server.huge_pages_needed > there,
        f"it needs {server.huge_pages_needed} pages{size}, {there} are free and not promised",
    )


@_rule(
    code="PG002",
    layers=("postgres", "linux"),
    severity=Severity.WARNING,
    title="huge_pages = try got its huge pages",
    why="with too few pages it starts without any, and logs nothing",
    detect="huge_pages_status from PostgreSQL 17 on, else the mapping in /proc/PID/smaps",
    remedy="Enlarge the pool and set huge_pages = on, which fails where try falls back.",
    source=f"{_RESOURCES}; tried with PostgreSQL 15 and 18 on too few pages",
    needs=("postgres", "linux.pools"),
)
def _no_silent_fallback(facts: StackFacts) -> Rulings:
    server, linux = facts.postgres, facts.linux
    if server is None or linux is None or linux.pools is None:
        return NOTHING
    got, asked = _on_huge_pages(server), huge_pages_asked(facts)
    if got is None or asked is None:
        return lacking("postgres.huge_pages_status", "postgres.huge_page_mapping_bytes")
    there = sum(pool.total for pool in linux.pools)
    if asked == "off" or not (got or there):
        return NOTHING
    if got:
        return HOLDS
    pool = f"{there} huge page{'' if there == 1 else 's'} in the pool"
    return violated(f"huge_pages = {asked}, the server runs without, and the kernel has {pool}")


def _on_huge_pages(server: PostgresFacts) -> bool | None:
    """Return whether a server has its shared memory on huge pages; None where nobody saw it.

    ``huge_pages_status`` is there from PostgreSQL 17 on; before, the mapping says it.
    """
    if server.huge_pages_status in ("on", "off"):
        return server.huge_pages_status == "on"
    if server.huge_page_mapping_bytes is None or server.running is False:
        return None
    return server.huge_page_mapping_bytes > 0


@_rule(
    code="PG003",
    severity=Severity.WARNING,
    title="shared_buffers is at most 40 % of the memory that the database may use",
    why="what is cached in both is cached once too often, and little is left to sort and hash",
    detect="shared_buffers against the limits of the pod or of the server's control groups"
    " (huge pages included), else the machine's memory",
    remedy="Start at 25 %, stay at or below 40 %.",
    source=_RESOURCES,
)
def _share_of_buffers(facts: StackFacts) -> Rulings:
    buffers, memory_bytes = size_of(facts, "shared_buffers"), memory_of_database(facts)
    if buffers is None or not memory_bytes:
        return lacking(
            "postgres.settings" if buffers is None else limits_path(facts, "memory_bytes")
        )
    if buffers <= MOST_BUFFERS * memory_bytes:
        return HOLDS
    share = format_share(buffers / memory_bytes)
    told = f"shared_buffers is {format_bytes(buffers)}, {share} of {format_bytes(memory_bytes)}"
    return violated(told)


@_rule(
    code="PG006",
    severity=Severity.INFO,
    title="wal_buffers is at most one segment of WAL",
    why="-1 takes 1/32 of shared_buffers up to one segment; more rarely matters",
    detect="wal_buffers",
    remedy="Set wal_buffers = -1, or measure that more helps.",
    source="PostgreSQL documentation, 'Write Ahead Log'",
)
def _wal_buffers(facts: StackFacts) -> Rulings:
    size = size_of(facts, "wal_buffers")
    if size is None:
        return NOTHING
    return violated(f"wal_buffers is {format_bytes(size)}") if size > _WAL_SEGMENT_BYTES else HOLDS


@_rule(
    code="PG011",
    layers=("postgres", "linux"),
    severity=Severity.ERROR,
    title="huge_pages comes with shared_memory_type = mmap",
    why="only there are they used: elsewhere the setting is lost",
    detect="shared_memory_type",
    remedy="Set shared_memory_type = mmap.",
    source=_RESOURCES,
)
def _mapped(facts: StackFacts) -> Rulings:
    kind, asked = setting(facts, "shared_memory_type", "mmap"), huge_pages_asked(facts)
    if kind is None or asked is None:
        return NOTHING
    if kind == "mmap" or asked == "off":
        return HOLDS
    return violated(f"huge_pages = {asked} with shared_memory_type = {kind}")


@_rule(
    code="PG012",
    layers=("postgres", "kubernetes"),
    severity=Severity.WARNING,
    title=f"{_SHARED_MEMORY} has room for parallel query",
    why="64 MiB, a container's default, end in: could not resize shared memory segment",
    detect="the size of /dev/shm where the server runs; max_parallel_workers_per_gather",
    remedy="Enlarge it (CloudNativePG: ephemeralVolumesSizeLimit.shm, counted in the limit).",
    source="CloudNativePG documentation, 'PostgreSQL Configuration'; docker run --shm-size",
    needs=("postgres.shared_memory_directory_bytes",),
)
def _room_for_workers(facts: StackFacts) -> Rulings:
    there = facts.postgres.shared_memory_directory_bytes if facts.postgres is not None else None
    if there is None:
        return NOTHING
    workers = number_of(facts, "max_parallel_workers_per_gather", 2)
    if there > _CONTAINER_SHM_BYTES or workers == 0:
        return HOLDS
    if workers is None:
        return lacking("postgres.settings")
    return violated(f"{_SHARED_MEMORY} has {format_bytes(there)} and parallel query is on")


@_rule(
    code="PG005",
    severity=Severity.ERROR,
    title="Durability is not traded for speed",
    why="a commit that is not durable is another product: its figures compare with nothing",
    detect="fsync, full_page_writes, synchronous_commit",
    remedy="Set them to on, or compare the change of durability as such.",
    source="PostgreSQL documentation, 'Write Ahead Log'",
)
def _durable(facts: StackFacts) -> Rulings:
    names = ("fsync", "full_page_writes", "synchronous_commit")
    values = {name: setting(facts, name, "on") for name in names}
    if None in values.values():
        return NOTHING
    return violated(
        *(f"{name} is off" for name, value in values.items() if value and is_off(value))
    )


_LEAST_CHECKPOINTS: Final = 4  # a guess: fewer say nothing
_LEAST_WAL_SHARE: Final = 0.5  # of shared_buffers; a guess
_DEEP: Final = 128
_FLASH: Final = frozenset({"ssd", "nvme", "ebs", "instance-store", "tmpfs"})
_DISK: Final = frozenset({"hdd"})
_CHEAP, _DEAR = 2.0, 2.0  # random_page_cost between that of flash, 1.1, and of disks, 4
_ASYNCHRONOUS_SINCE: Final = 18
_REFUSED: Final = {1: "to all but one group", 2: "to everybody"}  # kernel.io_uring_disabled


@_rule(
    code="PG004",
    severity=Severity.WARNING,
    title="max_connections suits the CPUs",
    why="what more connections than CPUs do is wait: in the published series latency grows in"
    " proportion beyond 10 clients on 2 CPUs",
    detect="max_connections against the CPUs of the pod, of the server's control groups or of"
    f" the machine: {MOST_CONNECTIONS_PER_CPU} each, a guess",
    remedy="Put a pooler before the server and let 4 to 8 per CPU be active.",
    source=f"{TUNING_ARTICLE}; PostgreSQL documentation, 'Managing Kernel Resources',"
    " advises pooling",
)
def _connections(facts: StackFacts) -> Rulings:
    most, cpus = number_of(facts, "max_connections", 100), cpus_of_database(facts)
    if most is None or not cpus:
        return lacking("postgres.settings" if most is None else limits_path(facts, "cpus"))
    if most <= MOST_CONNECTIONS_PER_CPU * cpus:
        return HOLDS
    return violated(f"{most:.0f} connections on {cpus:g} CPUs")


@_rule(
    code="PG007",
    severity=Severity.WARNING,
    title="Checkpoints come by time, not by WAL",
    why="every checkpoint makes each page be written to WAL in full once more; one that WAL"
    " forces comes when there is most to write",
    detect="num_requested against num_timed of pg_stat_checkpointer (pg_stat_bgwriter before"
    " PostgreSQL 17); without them max_wal_size below half of shared_buffers, a guess",
    remedy="Set max_wal_size to three times the WAL of a checkpoint_timeout.",
    source="PostgreSQL documentation, 'WAL Configuration'",
    needs=("postgres",),
)
def _checkpoints(facts: StackFacts) -> Rulings:
    server = facts.postgres
    if server is None:
        return NOTHING
    requested, timed = server.checkpoints_requested, server.checkpoints_timed
    if requested is not None and timed is not None and requested + timed >= _LEAST_CHECKPOINTS:
        told = f"{requested} of {requested + timed} checkpoints were requested, not timed"
        return violated(told) if requested > timed else HOLDS
    largest, buffers = size_of(facts, "max_wal_size"), size_of(facts, "shared_buffers")
    if largest is None or buffers is None:
        return lacking("postgres.checkpoints_requested", "postgres.settings")
    if largest >= _LEAST_WAL_SHARE * buffers:
        return HOLDS
    return violated(
        f"max_wal_size is {format_bytes(largest)} with {format_bytes(buffers)} of shared_buffers"
    )


@_rule(
    code="PG008",
    severity=Severity.INFO,
    title="effective_io_concurrency means what this version makes of it",
    why="up to PostgreSQL 17 it prefetches for bitmap heap scans (default 1); from 18 on it is"
    " how many reads a scan has in flight (default 16), which io_method serves",
    detect="server_version, effective_io_concurrency, io_method, io_workers",
    remedy="From PostgreSQL 18 on set 16 to 64 and io_workers; 200 is a habit from before.",
    source="PostgreSQL 17 and 18 documentation, 'Resource Consumption'",
    needs=("postgres.version", "postgres.settings"),
)
def _read_depth(facts: StackFacts) -> Rulings:
    version = facts.postgres.version if facts.postgres is not None else None
    default = 16 if version is not None and version >= _ASYNCHRONOUS_SINCE else 1
    depth = number_of(facts, "effective_io_concurrency", default)
    if version is None or depth is None:
        return NOTHING
    if depth < _DEEP:
        return HOLDS
    if version < _ASYNCHRONOUS_SINCE:
        return violated(
            f"{depth:.0f} on PostgreSQL {version}, where it prefetches for bitmap heap scans"
        )
    method = setting(facts, "io_method", "worker")
    if method == "worker":
        workers = number_of(facts, "io_workers", 3)
        return violated(f"{depth:.0f} reads in flight asked of {workers or 0:.0f} io_workers")
    return violated(f"{depth:.0f} reads in flight per scan, by io_method = {method}")


@_rule(
    code="PG009",
    layers=("postgres", "storage"),
    severity=Severity.WARNING,
    title="random_page_cost suits the storage",
    why="4.0, the default, is of spinning disks: on flash it talks the planner out of indexes",
    detect="random_page_cost against the kind of the data device",
    remedy="Set 1.1 on flash, 4 on spinning disks.",
    source="PostgreSQL documentation, 'Query Planning'",
)
def _random_page_cost(facts: StackFacts) -> Rulings:
    device = facts.linux.device if facts.linux is not None else None
    kind = facts.storage or (device.kind if device is not None else None)
    cost = number_of(facts, "random_page_cost", 4)
    if cost is None or kind not in _FLASH | _DISK:
        return lacking("storage")  # of a virtual or remote disk nobody knows what is below
    wrong = cost > _CHEAP if kind in _FLASH else cost < _DEAR
    return violated(f"random_page_cost is {cost:g} on {kind}") if wrong else HOLDS


@_rule(
    code="PG010",
    layers=("postgres", "kubernetes", "linux"),
    severity=Severity.WARNING,
    title="io_method = io_uring can be used here",
    why="it needs PostgreSQL 18 built with liburing, and a kernel and a container that allow"
    " it; else the server does not start",
    detect="postgres -C io_method -c io_method=io_uring; kernel.io_uring_disabled",
    remedy="Use io_method = worker.",
    source="PostgreSQL 18 documentation, 'Resource Consumption', io_method; a build without"
    " liburing says: Available values: sync, worker",
)
def _io_uring(facts: StackFacts) -> Rulings:
    server, linux = facts.postgres, facts.linux
    version = server.version if server is not None else None
    if server is None or setting(facts, "io_method", "worker") != "io_uring":
        return NOTHING
    if version is not None and version < _ASYNCHRONOUS_SINCE:
        return violated(f"io_method = io_uring on PostgreSQL {version}, which has no io_method")
    if server.io_uring_available is False:
        return violated("io_method = io_uring, which this program or its container does not take")
    refused = _REFUSED.get((linux.io_uring_disabled if linux is not None else None) or 0)
    if refused is not None and server.io_uring_available is None:
        return violated(f"io_method = io_uring, which kernel.io_uring_disabled refuses {refused}")
    return lacking("postgres.io_uring_available") if server.io_uring_available is None else HOLDS
