"""PostgreSQL's settings of a plan: a catalogue with versions, reasons, sources and restart scopes.

Values that the profile ``fitted`` has are taken from there, so that both recommend the same; what
is asked for otherwise, or larger pages, may leave less room than it reckons with. Settings that
nothing speaks for are not in the catalogue; durability is never traded, and put back where it was.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from steelyard.core.stack import Place, PlannedSetting, Scope, StackRequest
from steelyard.core.wording import KIB, MIB, InputError, format_bytes
from steelyard.tuning.plan.arithmetic import Budget
from steelyard.tuning.profiles import ProfiledSetting, usual_wal_bytes

OLDEST: Final = 13
NEWEST: Final = 18

_RESOURCES: Final = "PostgreSQL documentation, 'Resource Consumption'"
_WAL: Final = "PostgreSQL documentation, 'Write Ahead Log'"
_WAL_CONFIGURATION: Final = "PostgreSQL documentation, 'WAL Configuration'"
_CONNECTIONS: Final = "PostgreSQL documentation, 'Connections and Authentication'"
_PLANNING: Final = "PostgreSQL documentation, 'Query Planning'"
_KERNEL: Final = "PostgreSQL documentation, 'Managing Kernel Resources'"
_FEWEST_MAX_WAL: Final = 1024 * MIB  # the server's default
_USUAL_VOLUME: Final = 50 * 1024 * MIB
_WAL_OF_VOLUME: Final = 4  # guesses: the volume in sizes of the WAL, and what a volume has
_HUGE_PAGES_SINCE: Final = 14  # huge_page_size
_EVERYWHERE: Final = frozenset(Place)
_OWN: Final = frozenset({Place.LOCAL, Place.KVM, Place.CNPG})


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What settings follow from.

    Attributes:
        profile: Of ``fitted`` for the request, by name.
        kernel_page_bytes: Default huge pages of the kernel; None: not known.
        present: Settings of the server as it is; empty where nobody saw them.
    """

    request: StackRequest
    budget: Budget
    profile: Mapping[str, ProfiledSetting]
    kernel_page_bytes: int | None = None
    present: Mapping[str, str]


Choice = tuple[str, str]
"""Value and reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CataloguedSetting:
    """One setting that plans may make.

    Attributes:
        since: First major version that it is planned for; ``until`` the last.
        choose: Returns value and reason; None where it is not to be set.
        effect: Size of the effect with its evidence; empty where there is none.
    """

    name: str
    source: str
    scope: Scope
    choose: Callable[[Basis], Choice | None]
    since: int = OLDEST
    until: int = NEWEST
    places: frozenset[Place] = _EVERYWHERE
    effect: str = ""


def planned_settings(basis: Basis) -> tuple[PlannedSetting, ...]:
    """Return the settings of a plan, in the catalogue's order."""
    version, place = basis.request.postgres_version, basis.request.place
    planned = []
    for entry in CATALOGUE:
        if not entry.since <= version <= entry.until or place not in entry.places:
            continue
        choice = entry.choose(basis)
        if choice is not None:
            value, reason = choice
            planned.append(
                PlannedSetting(
                    name=entry.name,
                    value=value,
                    reason=reason,
                    source=entry.source,
                    scope=entry.scope,
                    effect=entry.effect,
                )
            )
    return tuple(planned)


def fixed_settings(profile: Mapping[str, ProfiledSetting]) -> dict[str, str]:
    """Return the settings that size shared memory and do not follow from the budget."""
    return {"max_worker_processes": profile["max_worker_processes"].setting.value}


def _of_profile(name: str) -> Callable[[Basis], Choice | None]:
    def choose(basis: Basis) -> Choice | None:
        profiled = basis.profile.get(name)
        return (profiled.setting.value, profiled.reason) if profiled is not None else None

    return choose


def _huge_page_size(basis: Basis) -> Choice | None:
    wanted, default = basis.request.page_bytes, basis.kernel_page_bytes
    if wanted == default or not basis.request.huge_pages:
        return None
    value = f"{wanted // KIB}kB"
    if default is None:
        return value, "The default of the kernel that it will run on was not seen"
    return value, "The kernel's default huge pages have another size"


def _shared_buffers(basis: Basis) -> Choice:
    budget = basis.budget
    share = f"{100 * budget.shared_buffers_bytes / budget.memory_bytes:.0f} % of the memory"
    if basis.request.shared_buffers_bytes is not None:
        return _size(budget.shared_buffers_bytes), f"As asked for: {share}"
    return basis.profile["shared_buffers"].setting.value, basis.profile["shared_buffers"].reason


def _max_connections(basis: Basis) -> Choice:
    budget = basis.budget
    if basis.request.max_connections is not None:
        return str(budget.max_connections), "As asked for"
    if "max_connections" in budget.lowered:
        return str(budget.max_connections), "As many as the memory holds; beyond, use a pooler"
    profiled = basis.profile.get("max_connections")
    if profiled is not None:
        return profiled.setting.value, profiled.reason
    return str(budget.max_connections), "PostgreSQL's default"


def _working(name: str, size: Callable[[Budget], int]) -> Callable[[Basis], Choice]:
    def choose(basis: Basis) -> Choice:
        if name in basis.budget.lowered:
            value = _size(size(basis.budget))
            return value, "What the memory holds when every backend sorts at the same time"
        return basis.profile[name].setting.value, basis.profile[name].reason

    return choose


def volume_bytes(request: StackRequest, buffers_bytes: int) -> int:
    """Return the size of a cluster's volume: as asked for, else as the WAL needs, at least 50 GiB.

    Raises:
        InputError: The WAL that such buffers ask for has no room on it (rule PG007).
    """
    wanted = usual_wal_bytes(buffers_bytes)
    if request.volume_bytes is None:
        return max(_USUAL_VOLUME, _WAL_OF_VOLUME * wanted)
    least = _WAL_OF_VOLUME * max(_FEWEST_MAX_WAL, -(-buffers_bytes // 2))
    if request.volume_bytes < least:
        raise InputError(
            f"a volume of {format_bytes(request.volume_bytes)} has no room for the WAL beside the"
            f" data: with {format_bytes(buffers_bytes)} of shared_buffers max_wal_size is half of"
            " that at least, and a quarter of the volume at most",
            hint=f"`--volume-size {-(-least // MIB)}MiB` is enough; or ask for smaller buffers.",
        )
    return request.volume_bytes


def _largest_wal(basis: Basis) -> tuple[int, bool]:
    """Return max_wal_size, and whether the volume bounds it."""
    buffers = basis.budget.shared_buffers_bytes
    wanted = usual_wal_bytes(buffers)
    if basis.request.place is not Place.CNPG:
        return wanted, False
    room = volume_bytes(basis.request, buffers) // _WAL_OF_VOLUME // MIB * MIB
    return min(wanted, room), room < wanted


def _max_wal_size(basis: Basis) -> Choice:
    size, bounded = _largest_wal(basis)
    if bounded:
        return _size(size), "A guess: a quarter of the volume, which has the data, too"
    reason = "A guess: room for 15 minutes of WAL; takes as much disk. Not below shared_buffers"
    return _size(size), reason


def _wal_level(basis: Basis) -> Choice:
    if basis.request.logical_decoding:
        return "logical", "Logical decoding was asked for"
    return "replica", "Enough without logical decoding; CloudNativePG's default is logical"


def _put_back(name: str) -> CataloguedSetting:
    def choose(basis: Basis) -> Choice | None:
        off = basis.present.get(name, "on").strip().lower() in ("off", "false", "no", "0")
        return ("on", "It is off: durability was traded for speed") if off else None

    scope = Scope.SESSION if name == "synchronous_commit" else Scope.RELOAD
    return CataloguedSetting(name=name, source=_WAL, scope=scope, choose=choose, places=_OWN)


def _always(value: str, reason: str) -> Callable[[Basis], Choice | None]:
    return lambda _: (value, reason)


def _planned(value: str, reason: str, *, on_huge: bool) -> Callable[[Basis], Choice | None]:
    """Return a choice for plans with huge pages, or for those without."""
    return lambda basis: (value, reason) if basis.request.huge_pages is on_huge else None


def _size(count: int) -> str:
    """Return a size as PostgreSQL takes it, in the largest unit that keeps it whole."""
    for unit, size in (("GB", 1024 * MIB), ("MB", MIB)):
        if count % size == 0:
            return f"{count // size}{unit}"
    return f"{count // KIB}kB"


def shm_bytes(budget: Budget, profile: Mapping[str, ProfiledSetting]) -> int:
    """Return a size of ``/dev/shm`` for parallel queries: their hash tables and queues.

    A guess: a quarter of the backends run a parallel hash join at once, but no more than 1/32 of
    the memory, and not below 128 MiB, twice what containers have by default.
    """
    gather = int(profile["max_parallel_workers_per_gather"].setting.value)
    tables = budget.max_connections // 4 * budget.work_mem_bytes * 2 * gather
    most = max(budget.memory_bytes // 32, 128 * MIB)
    return max(min(tables, most), 128 * MIB) // MIB * MIB


_server = partial(CataloguedSetting, source=_RESOURCES, scope=Scope.SERVER)
_reload = partial(CataloguedSetting, source=_WAL_CONFIGURATION, scope=Scope.RELOAD)
_session = partial(CataloguedSetting, source=_RESOURCES, scope=Scope.SESSION)
_planning = partial(CataloguedSetting, source=_PLANNING, scope=Scope.SESSION)

CATALOGUE: Final[tuple[CataloguedSetting, ...]] = (
    _server(
        name="huge_pages",
        source=_KERNEL,
        choose=_planned("on", "`try` falls back to ordinary pages and says nothing", on_huge=True),
        places=_OWN,
        effect="read-only +13 % at 10 clients with 512 MB of buffers (n = 3, hardly beyond the"
        ' noise); nothing seen at one client; 3 to 5 % in Iwan Setiawan, "Bare Metal vs. AWS'
        ' RDS" (part 2)',
    ),
    _server(
        name="huge_pages",
        source=_KERNEL,
        choose=_planned(
            "off", "`try` takes huge pages that were reserved for other programs", on_huge=False
        ),
        places=_OWN,
    ),
    _server(name="huge_page_size", choose=_huge_page_size, since=_HUGE_PAGES_SINCE, places=_OWN),
    _server(
        name="shared_memory_type",
        choose=_planned("mmap", "The default, and the only one on huge pages", on_huge=True),
        places=_OWN,
    ),
    _server(name="shared_buffers", choose=_shared_buffers),
    _server(name="max_connections", source=_CONNECTIONS, choose=_max_connections),
    _session(name="work_mem", choose=_working("work_mem", lambda budget: budget.work_mem_bytes)),
    _session(
        name="maintenance_work_mem",
        choose=_working("maintenance_work_mem", lambda budget: budget.maintenance_bytes),
    ),
    _planning(name="effective_cache_size", choose=_of_profile("effective_cache_size")),
    _server(
        name="wal_buffers",
        source=_WAL,
        choose=_always("-1", "1/32 of shared_buffers, 16 MB at most; more rarely matters"),
    ),
    _server(name="wal_level", source=_WAL, choose=_wal_level, places=_OWN),
    _reload(name="max_wal_size", choose=_max_wal_size),
    _reload(
        name="min_wal_size",
        choose=lambda basis: (
            _size(_largest_wal(basis)[0] // 4 // MIB * MIB),
            "A quarter of max_wal_size, so that segments are recycled, not made anew",
        ),
    ),
    _reload(name="checkpoint_timeout", choose=_of_profile("checkpoint_timeout")),
    _reload(
        name="checkpoint_completion_target",
        choose=_always("0.9", "The default since 14: writes are spread over the interval"),
        until=13,
    ),
    _planning(name="random_page_cost", choose=_of_profile("random_page_cost")),
    _session(name="effective_io_concurrency", choose=_of_profile("effective_io_concurrency")),
    _server(
        name="io_method",
        choose=_always("worker", "The default; io_uring needs a build and a kernel that allow it"),
        since=18,
        places=_OWN,
    ),
    _reload(
        name="io_workers",
        source=_RESOURCES,
        choose=lambda basis: (
            str(max(3, basis.request.cpus // 4)),
            "A guess: a quarter of the CPUs, not below the default",
        ),
        since=18,
        places=_OWN,
    ),
    _server(name="max_worker_processes", choose=_of_profile("max_worker_processes")),
    *(
        _session(name=name, choose=_of_profile(name))
        for name in (
            "max_parallel_workers",
            "max_parallel_workers_per_gather",
            "max_parallel_maintenance_workers",
        )
    ),
    *(_put_back(name) for name in ("fsync", "full_page_writes", "synchronous_commit")),
)
