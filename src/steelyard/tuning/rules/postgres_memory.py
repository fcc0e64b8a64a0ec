"""Rules of PostgreSQL's memory: huge pages, buffers, shared memory."""

from functools import partial
from typing import Final

from steelyard.core.findings import Severity
from steelyard.core.stack_facts import PostgresFacts, StackFacts
from steelyard.core.units import MIB, format_bytes, format_share
from steelyard.tuning.rules.rule import Outcome, Rule, lacking, violated_if
from steelyard.tuning.rules.subjects import (
    huge_page_of_server,
    huge_pages_asked,
    is_off,
    memory_of_database,
    number_of,
    setting,
    size_of,
)

_RESOURCES: Final = "PostgreSQL documentation, 'Resource Consumption'"
MOST_BUFFERS: Final = 0.4
_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - only a name in sentences
_CONTAINER_SHM_BYTES: Final = 64 * MIB  # what container runtimes give by default
_WAL_SEGMENT_BYTES: Final = 16 * MIB  # of a cluster made without --wal-segsize


def _enough_pages(facts: StackFacts) -> Outcome:
    server, linux = facts.postgres, facts.linux
    if server is None or linux is None or server.huge_pages_needed is None or server.running:
        return None
    if linux.pools is None or setting(facts, "huge_pages", "try") != "on":
        return None
    page_bytes = huge_page_of_server(facts)
    if page_bytes is None:
        return lacking("linux.huge_page_bytes")
    pool = linux.pool(page_bytes)
    there = pool.available if pool is not None else 0
    size = "" if page_bytes == linux.huge_page_bytes else f" of {format_bytes(page_bytes)}"
    return violated_if(
        server.huge_pages_needed > there,
        f"it needs {server.huge_pages_needed} pages{size}, {there} are free and not promised",
    )


def _no_silent_fallback(facts: StackFacts) -> Outcome:
    server, linux = facts.postgres, facts.linux
    if server is None or linux is None or linux.pools is None:
        return None
    got, asked = _on_huge_pages(server), huge_pages_asked(facts)
    if got is None or asked is None:
        return lacking("postgres.huge_pages_status", "postgres.huge_page_mapping_bytes")
    there = sum(pool.total for pool in linux.pools)
    if got or asked == "off" or not there:
        return ()
    pool = f"{there} huge page{'' if there == 1 else 's'} in the pool"
    return (f"huge_pages = {asked}, the server runs without, and the kernel has {pool}",)


def _on_huge_pages(server: PostgresFacts) -> bool | None:
    """Return whether a server has its shared memory on huge pages; None where nobody saw it.

    ``huge_pages_status`` is there from PostgreSQL 17 on; before, the mapping says it.
    """
    if server.huge_pages_status in ("on", "off"):
        return server.huge_pages_status == "on"
    if server.huge_page_mapping_bytes is None or server.running is False:
        return None
    return server.huge_page_mapping_bytes > 0


def _share_of_buffers(facts: StackFacts) -> Outcome:
    buffers, memory_bytes = size_of(facts, "shared_buffers"), memory_of_database(facts)
    if buffers is None or not memory_bytes:
        return lacking("postgres.settings" if buffers is None else "linux.memory_bytes")
    if buffers <= MOST_BUFFERS * memory_bytes:
        return ()
    share = format_share(buffers / memory_bytes)
    told = f"shared_buffers is {format_bytes(buffers)}, {share} of {format_bytes(memory_bytes)}"
    return (told,)


def _wal_buffers(facts: StackFacts) -> Outcome:
    size = size_of(facts, "wal_buffers")
    if size is None:
        return None
    return (f"wal_buffers is {format_bytes(size)}",) if size > _WAL_SEGMENT_BYTES else ()


def _mapped(facts: StackFacts) -> Outcome:
    kind, asked = setting(facts, "shared_memory_type", "mmap"), huge_pages_asked(facts)
    if kind is None or asked is None:
        return None
    if kind == "mmap" or asked == "off":
        return ()
    return (f"huge_pages = {asked} with shared_memory_type = {kind}",)


def _room_for_workers(facts: StackFacts) -> Outcome:
    there = facts.postgres.shared_memory_directory_bytes if facts.postgres is not None else None
    if there is None:
        return None
    workers = number_of(facts, "max_parallel_workers_per_gather", 2)
    if there > _CONTAINER_SHM_BYTES or workers == 0:
        return ()
    if workers is None:
        return lacking("postgres.settings")
    return (f"{_SHARED_MEMORY} has {format_bytes(there)} and parallel query is on",)


def _durable(facts: StackFacts) -> Outcome:
    names = ("fsync", "full_page_writes", "synchronous_commit")
    values = {name: setting(facts, name, "on") for name in names}
    if None in values.values():
        return None
    return tuple(f"{name} is off" for name, value in values.items() if value and is_off(value))


_rule = partial(Rule, layers=("postgres",))
_SETTINGS: Final = ("postgres.settings",)

RULES: Final[tuple[Rule, ...]] = (
    _rule(
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
        check=_enough_pages,
    ),
    _rule(
        code="PG002",
        layers=("postgres", "linux"),
        severity=Severity.WARNING,
        title="huge_pages = try got its huge pages",
        why="with too few pages it starts without any, and logs nothing",
        detect="huge_pages_status from PostgreSQL 17 on, else the mapping in /proc/PID/smaps",
        remedy="Enlarge the pool and set huge_pages = on, which fails where try falls back.",
        source=f"{_RESOURCES}; tried with PostgreSQL 15 and 18 on too few pages",
        needs=("postgres", "linux.pools"),
        check=_no_silent_fallback,
    ),
    _rule(
        code="PG003",
        severity=Severity.WARNING,
        title="shared_buffers is at most 40 % of the memory that the database may use",
        why="what is cached in both is cached once too often, and little is left to sort and hash",
        detect="shared_buffers against the pod's limits (huge pages included), else the machine's"
        " memory",
        remedy="Start at 25 %, stay at or below 40 %.",
        source=_RESOURCES,
        needs=_SETTINGS,
        check=_share_of_buffers,
    ),
    _rule(
        code="PG005",
        severity=Severity.ERROR,
        title="Durability is not traded for speed",
        why="a commit that is not durable is another product: its figures compare with nothing",
        detect="fsync, full_page_writes, synchronous_commit",
        remedy="Set them to on, or compare the change of durability as such.",
        source="PostgreSQL documentation, 'Write Ahead Log'",
        needs=_SETTINGS,
        check=_durable,
    ),
    _rule(
        code="PG006",
        severity=Severity.INFO,
        title="wal_buffers is at most one segment of WAL",
        why="-1 takes 1/32 of shared_buffers up to one segment; more rarely matters",
        detect="wal_buffers",
        remedy="Set wal_buffers = -1, or measure that more helps.",
        source="PostgreSQL documentation, 'Write Ahead Log'",
        needs=_SETTINGS,
        check=_wal_buffers,
    ),
    _rule(
        code="PG011",
        layers=("postgres", "linux"),
        severity=Severity.ERROR,
        title="huge_pages comes with shared_memory_type = mmap",
        why="only there are they used: elsewhere the setting is lost",
        detect="shared_memory_type",
        remedy="Set shared_memory_type = mmap.",
        source=_RESOURCES,
        needs=_SETTINGS,
        check=_mapped,
    ),
    _rule(
        code="PG012",
        layers=("postgres", "kubernetes"),
        severity=Severity.WARNING,
        title=f"{_SHARED_MEMORY} has room for parallel query",
        why="64 MiB, a container's default, end in: could not resize shared memory segment",
        detect="the size of /dev/shm where the server runs; max_parallel_workers_per_gather",
        remedy="Enlarge it (CloudNativePG: ephemeralVolumesSizeLimit.shm, counted in the limit).",
        source="CloudNativePG documentation, 'PostgreSQL Configuration'; docker run --shm-size",
        needs=("postgres.shared_memory_directory_bytes",),
        check=_room_for_workers,
    ),
)
