"""Rules of how PostgreSQL works: connections, checkpoints, reads."""

from functools import partial
from typing import Final

from steelyard.core.findings import Severity
from steelyard.core.stack_facts import StackFacts
from steelyard.core.units import format_bytes
from steelyard.tuning.rules.rule import Outcome, Rule, lacking
from steelyard.tuning.rules.subjects import cpus_of_database, number_of, setting, size_of

MOST_CONNECTIONS_PER_CPU: Final = 50  # a guess, far beyond what can be active
_LEAST_CHECKPOINTS: Final = 4  # a guess: fewer say nothing
_LEAST_WAL_SHARE: Final = 0.5  # of shared_buffers; a guess
_DEEP: Final = 128
_FLASH: Final = frozenset({"ssd", "nvme", "ebs", "instance-store", "tmpfs"})
_DISK: Final = frozenset({"hdd"})
_CHEAP, _DEAR = 2.0, 2.0  # random_page_cost between that of flash, 1.1, and of disks, 4
_ASYNCHRONOUS_SINCE: Final = 18
_REFUSED: Final = {1: "to all but one group", 2: "to everybody"}  # kernel.io_uring_disabled


def _connections(facts: StackFacts) -> Outcome:
    most, cpus = number_of(facts, "max_connections", 100), cpus_of_database(facts)
    if most is None or not cpus:
        return lacking("postgres.settings" if most is None else "linux.cpus")
    if most <= MOST_CONNECTIONS_PER_CPU * cpus:
        return ()
    return (f"{most:.0f} connections on {cpus:g} CPUs",)


def _checkpoints(facts: StackFacts) -> Outcome:
    server = facts.postgres
    if server is None:
        return None
    requested, timed = server.checkpoints_requested, server.checkpoints_timed
    if requested is not None and timed is not None and requested + timed >= _LEAST_CHECKPOINTS:
        told = f"{requested} of {requested + timed} checkpoints were requested, not timed"
        return (told,) if requested > timed else ()
    largest, buffers = size_of(facts, "max_wal_size"), size_of(facts, "shared_buffers")
    if largest is None or buffers is None:
        return lacking("postgres.checkpoints_requested", "postgres.settings")
    if largest >= _LEAST_WAL_SHARE * buffers:
        return ()
    return (
        f"max_wal_size is {format_bytes(largest)} with {format_bytes(buffers)} of shared_buffers",
    )


def _read_depth(facts: StackFacts) -> Outcome:
    version = facts.postgres.version if facts.postgres is not None else None
    default = 16 if version is not None and version >= _ASYNCHRONOUS_SINCE else 1
    depth = number_of(facts, "effective_io_concurrency", default)
    if version is None or depth is None:
        return None
    if depth < _DEEP:
        return ()
    if version < _ASYNCHRONOUS_SINCE:
        return (f"{depth:.0f} on PostgreSQL {version}, where it prefetches for bitmap heap scans",)
    method = setting(facts, "io_method", "worker")
    if method == "worker":
        workers = number_of(facts, "io_workers", 3)
        return (f"{depth:.0f} reads in flight asked of {workers or 0:.0f} io_workers",)
    return (f"{depth:.0f} reads in flight per scan, by io_method = {method}",)


def _random_page_cost(facts: StackFacts) -> Outcome:
    device = facts.linux.device if facts.linux is not None else None
    kind = facts.storage or (device.kind if device is not None else None)
    cost = number_of(facts, "random_page_cost", 4)
    if cost is None or kind not in _FLASH | _DISK:
        return lacking("storage")  # of a virtual or remote disk nobody knows what is below
    wrong = cost > _CHEAP if kind in _FLASH else cost < _DEAR
    return (f"random_page_cost is {cost:g} on {kind}",) if wrong else ()


def _io_uring(facts: StackFacts) -> Outcome:
    server, linux = facts.postgres, facts.linux
    version = server.version if server is not None else None
    if server is None or setting(facts, "io_method", "worker") != "io_uring":
        return None
    if version is not None and version < _ASYNCHRONOUS_SINCE:
        return (f"io_method = io_uring on PostgreSQL {version}, which has no io_method",)
    if server.io_uring_available is False:
        return ("io_method = io_uring, which this program or its container does not take",)
    refused = _REFUSED.get((linux.io_uring_disabled if linux is not None else None) or 0)
    if refused is not None and server.io_uring_available is None:
        return (f"io_method = io_uring, which kernel.io_uring_disabled refuses {refused}",)
    return lacking("postgres.io_uring_available") if server.io_uring_available is None else ()


_rule = partial(Rule, layers=("postgres",))
_SETTINGS: Final = ("postgres.settings",)

RULES: Final[tuple[Rule, ...]] = (
    _rule(
        code="PG004",
        severity=Severity.WARNING,
        title="max_connections suits the CPUs",
        why="what more connections than CPUs do is wait: in the published series latency grows in"
        " proportion beyond 10 clients on 2 CPUs",
        detect="max_connections against the CPUs of the pod or machine:"
        f" {MOST_CONNECTIONS_PER_CPU} each, a guess",
        remedy="Put a pooler before the server and let 4 to 8 per CPU be active.",
        source="the published series, part 2; PostgreSQL documentation, 'Managing Kernel"
        " Resources', advises pooling",
        needs=_SETTINGS,
        check=_connections,
    ),
    _rule(
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
        check=_checkpoints,
    ),
    _rule(
        code="PG008",
        severity=Severity.INFO,
        title="effective_io_concurrency means what this version makes of it",
        why="up to PostgreSQL 17 it prefetches for bitmap heap scans (default 1); from 18 on it is"
        " how many reads a scan has in flight (default 16), which io_method serves",
        detect="server_version, effective_io_concurrency, io_method, io_workers",
        remedy="From PostgreSQL 18 on set 16 to 64 and io_workers; 200 is a habit from before.",
        source="PostgreSQL 17 and 18 documentation, 'Resource Consumption'",
        needs=("postgres.version", "postgres.settings"),
        check=_read_depth,
    ),
    _rule(
        code="PG009",
        layers=("postgres", "storage"),
        severity=Severity.WARNING,
        title="random_page_cost suits the storage",
        why="4.0, the default, is of spinning disks: on flash it talks the planner out of indexes",
        detect="random_page_cost against the kind of the data device",
        remedy="Set 1.1 on flash, 4 on spinning disks.",
        source="PostgreSQL documentation, 'Query Planning'",
        needs=_SETTINGS,
        check=_random_page_cost,
    ),
    _rule(
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
        needs=_SETTINGS,
        check=_io_uring,
    ),
)
