"""Settings profiles: named sets of settings that follow from facts about a machine.

A profile is data with reasons, no optimum: each setting says why it has its value, where the
rule comes from, and when it is a guess. A further profile is one more entry of ``PROFILES``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from steelyard.core.experiment import Layer, Setting
from steelyard.core.wording import GIB, MIB
from steelyard.tuning.rules.kubernetes_memory import BACKEND_BYTES, LIMIT_SHARE
from steelyard.tuning.rules.postgres import MOST_CONNECTIONS_PER_CPU

# A sort may use work_mem once, a hash table twice: hash_mem_multiplier's default since 15.
HASH_MEM_MULTIPLIER: Final = 2
AUTOVACUUM_WORKERS: Final = 3
FEWEST_CONNECTIONS: Final = 20
LEAST_WORK_MEM: Final = 4 * MIB
LEAST_MAINTENANCE: Final = 64 * MIB

# PostgreSQL's own defaults, below which buffers and WAL never go.
_DEFAULT_SHARED_BUFFERS: Final = 128 * MIB
_DEFAULT_MAX_WAL_SIZE: Final = 1 * GIB
_DEFAULT_CONNECTIONS: Final = 100
_USUAL_WAL: Final = 4 * GIB
# Shared memory for 100 connections, huge pages with their margin included: at least what the
# formula of `stack plan` says for PostgreSQL 13 to 18, so that what fits here fits there.
_SHARED_PER_BUFFER: Final = 1.06
_SHARED_BESIDE: Final = 48 * MIB
_ANYTHING: Final = (None, "virtio", "device-mapper", "loop")  # nobody knows what is below

_RESOURCES: Final = "PostgreSQL documentation, 'Resource Consumption'"
_PLANNING: Final = "PostgreSQL documentation, 'Query Planning'"
_CONNECTIONS: Final = "PostgreSQL documentation, 'Connections and Authentication'"
_WAL_CONFIGURATION: Final = "PostgreSQL documentation, 'WAL Configuration'"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """What a profile needs to know of the machine that the server runs on.

    Attributes:
        cpus: That the server may use: a container's quota where there is one, so not always whole.
        memory_bytes: Likewise the container's limit where there is one.
        free_disk_bytes: Where the data directories are made; None when it is not known.
        storage: Kind below them, such as ``ssd`` or ``hdd``; None when it is not known.
    """

    cpus: float
    memory_bytes: int
    free_disk_bytes: int | None = None
    storage: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledSetting:
    """One setting of a profile.

    Attributes:
        reason: Why it has this value; begins with "A guess" where nothing was measured.
        source: Where the rule comes from.
    """

    setting: Setting
    reason: str
    source: str


def profile_names() -> tuple[str, ...]:
    """Return the names of all profiles."""
    return tuple(PROFILES)


def follows_the_machine(name: str) -> bool:
    """Return whether a profile's values depend on the machine."""
    return PROFILES[name] is not published_maxed


def profiled_settings(name: str, facts: MachineFacts) -> tuple[ProfiledSetting, ...]:
    """Return the settings of a profile on a machine.

    Raises:
        KeyError: There is no profile of that name.
    """
    return PROFILES[name](facts)


def fitted(facts: MachineFacts) -> tuple[ProfiledSetting, ...]:
    """Return PostgreSQL settings fitted to the machine's memory, CPUs, storage and free disk.

    `stack plan` starts from these values, and the rules of `inspect` hold with them. Conservative:
    durability stays as it is (``fsync``, ``synchronous_commit`` and ``full_page_writes`` are never
    touched), and PostgreSQL 15 to 18 accept every setting.
    """
    return (*_memory(facts), *_wal(facts), *_storage(facts), *_parallelism(facts))


def _memory(facts: MachineFacts) -> tuple[ProfiledSetting, ...]:
    memory = facts.memory_bytes
    return (
        _setting(
            "shared_buffers",
            _megabytes(_shared_buffers(facts)),
            "25 % of the memory, a reasonable start on a dedicated server",
            _RESOURCES,
        ),
        _setting(
            "effective_cache_size",
            _megabytes(memory * 3 // 4),
            "75 % of the memory is shared buffers or page cache; it allocates nothing",
            _PLANNING,
        ),
        *_working_memory(facts),
    )


def _working_memory(facts: MachineFacts) -> tuple[ProfiledSetting, ...]:
    # 1/8 of the memory if every connection sorts once at the same time.
    memory = facts.memory_bytes
    work_mem = _clamped(memory // 8 // _DEFAULT_CONNECTIONS, LEAST_WORK_MEM, 64 * MIB)
    usual = _clamped(
        int(MOST_CONNECTIONS_PER_CPU * facts.cpus), FEWEST_CONNECTIONS, _DEFAULT_CONNECTIONS
    )
    maintenance = _clamped(memory // 32, LEAST_MAINTENANCE, 1 * GIB)
    if _connections_that_fit(facts, work_mem, maintenance) < usual:
        maintenance = LEAST_MAINTENANCE
    fitting = _connections_that_fit(facts, work_mem, maintenance)
    connections = _clamped(fitting, FEWEST_CONNECTIONS, usual)
    reason = f"A guess: {MOST_CONNECTIONS_PER_CPU} per CPU at most; beyond, use a pooler"
    if connections < usual:
        reason = "As many as the memory holds; beyond, use a pooler"
    fewer = _setting("max_connections", str(connections), reason, _CONNECTIONS)
    return (
        *((fewer,) if connections != _DEFAULT_CONNECTIONS else ()),
        _setting(
            "work_mem",
            _megabytes(work_mem),
            f"A guess: 1/8 of the memory over {_DEFAULT_CONNECTIONS} connections, 4 to 64 MB",
            _RESOURCES,
        ),
        _setting(
            "maintenance_work_mem",
            _megabytes(maintenance),
            "A guess: 1/32 of the memory, 64 MB to 1 GB, as autovacuum may use it three times",
            _RESOURCES,
        ),
    )


def _connections_that_fit(facts: MachineFacts, work_mem: int, maintenance: int) -> int:
    """Return how many backends the memory holds when each has one hash table at the same time."""
    shared = int(_SHARED_PER_BUFFER * _shared_buffers(facts)) + _SHARED_BESIDE
    room = LIMIT_SHARE * (facts.memory_bytes - shared) - AUTOVACUUM_WORKERS * maintenance
    return int(room / (BACKEND_BYTES + HASH_MEM_MULTIPLIER * work_mem))


def _wal(facts: MachineFacts) -> tuple[ProfiledSetting, ...]:
    return (
        _setting(
            "checkpoint_timeout",
            "15min",
            "Fewer checkpoints write fewer full pages; recovery after a crash takes longer",
            _WAL_CONFIGURATION,
        ),
        *_wal_size(facts),
    )


def _wal_size(facts: MachineFacts) -> tuple[ProfiledSetting, ...]:
    if facts.free_disk_bytes is None:
        return ()  # the default needs no more disk than the baseline
    wanted = usual_wal_bytes(_shared_buffers(facts))
    largest = max(min(wanted, facts.free_disk_bytes // 20), _DEFAULT_MAX_WAL_SIZE)
    return (
        _setting(
            "max_wal_size",
            _megabytes(largest),
            "Room for 15 minutes of WAL: 4 GB, not below shared_buffers, but 1/20 of the free disk"
            " at most; both are guesses",
            _WAL_CONFIGURATION,
        ),
        _setting(
            "min_wal_size",
            _megabytes(largest // 4),
            "A quarter of max_wal_size, so that segments are recycled, not made anew",
            _WAL_CONFIGURATION,
        ),
    )


def usual_wal_bytes(buffers_bytes: int) -> int:
    """Return ``max_wal_size`` where the disk has room for it, by the size of the buffers."""
    return max(_USUAL_WAL, buffers_bytes)


def _storage(facts: MachineFacts) -> tuple[ProfiledSetting, ...]:
    if facts.storage == "hdd":  # reads ahead stay at the server's default
        return (_setting("random_page_cost", "4", "A rotating disk seeks", _PLANNING),)
    cheap = f"Storage is {facts.storage}: random reads cost little more"
    if facts.storage in _ANYTHING:
        cheap = "A guess: it assumes solid-state storage, where random reads cost little more"
    return (
        _setting("random_page_cost", "1.1", cheap, _PLANNING),
        _setting(
            "effective_io_concurrency",
            "64",
            "A guess: solid-state storage serves many reads at once; the default is 16 since"
            " PostgreSQL 18, 1 before",
            _RESOURCES,
        ),
    )


def _parallelism(facts: MachineFacts) -> tuple[ProfiledSetting, ...]:
    cpus = max(1, int(facts.cpus))
    each = _clamped(cpus // 2, 0, 4)
    reason = f"{facts.cpus:g} CPUs"
    settings = (
        ("max_worker_processes", max(8, cpus), f"Not below the default, and not below {reason}"),
        ("max_parallel_workers", cpus, f"{reason}; more would only compete for them"),
        ("max_parallel_workers_per_gather", each, f"Half of {reason}, 4 at most"),
        ("max_parallel_maintenance_workers", each, f"Half of {reason}, 4 at most"),
    )
    return tuple(_setting(name, str(value), why, _RESOURCES) for name, value, why in settings)


# db.t3.large has 8 GiB and reports 839 connections, so between 7,996,837,888 and 8,006,369,279
# bytes are left to the formulas. The share reserved on other classes is not published: a guess.
_CLASS_MEMORY_PER_MILLE: Final = 931
_AWS_SOURCE: Final = "Amazon RDS User Guide, 'Parameter values': defaults of RDS for PostgreSQL"


def aws_defaults(facts: MachineFacts) -> tuple[ProfiledSetting, ...]:
    """Return what RDS for PostgreSQL sets on an instance with this memory, by its formulas.

    Integer arithmetic as in the parameter groups: ``/`` truncates.
    """
    memory = facts.memory_bytes * _CLASS_MEMORY_PER_MILLE // 1000
    return (
        _setting(
            "max_connections",
            str(max(1, min(memory // 9_531_392, 5000))),
            "LEAST({DBInstanceClassMemory/9531392},5000)",
            _AWS_SOURCE,
        ),
        _setting(
            "shared_buffers",
            str(max(memory // 32_768, 16)),  # 16 pages are the least that PostgreSQL accepts
            "{DBInstanceClassMemory/32768} pages of 8 kB, 25 % of what is left to it",
            _AWS_SOURCE,
        ),
        _setting(
            "effective_cache_size",
            str(max(memory // 16_384, 1)),
            "{DBInstanceClassMemory/16384} pages of 8 kB, 50 % of what is left to it",
            _AWS_SOURCE,
        ),
    )


_PUBLISHED_MAXED: Final = (
    ("shared_buffers", "6GB", "75 % of the 8 GB that were compared"),
    ("max_connections", "200", "As printed"),
    ("work_mem", "4MB", "PostgreSQL's default"),
    ("maintenance_work_mem", "512MB", "As printed"),
    ("wal_buffers", "64MB", "As printed; the default ends at 16 MB"),
    ("random_page_cost", "1.1", "Solid-state storage"),
    ("effective_io_concurrency", "200", "A habit from before PostgreSQL 18, whose default is 16"),
    ("checkpoint_completion_target", "0.9", "The default since PostgreSQL 14"),
)


def published_maxed(_facts: MachineFacts) -> tuple[ProfiledSetting, ...]:
    """Return the settings of the published maxed read configuration, whatever the machine.

    ``huge_pages = on`` was part of it and is left out: it needs pages that the host reserves.
    """
    source = (
        'Iwan Setiawan, "Bare Metal vs. AWS RDS: CPU/NUMA Pinning and HugePages - How We Beat'
        ' Aurora on Write Throughput" (part 2), DEV Community'
    )
    return tuple(_setting(name, value, why, source) for name, value, why in _PUBLISHED_MAXED)


def _shared_buffers(facts: MachineFacts) -> int:
    return max(facts.memory_bytes // 4, _DEFAULT_SHARED_BUFFERS)


def _clamped(value: int, low: int, high: int) -> int:
    return max(low, min(value, high))


def _megabytes(count: int) -> str:
    return f"{max(1, count // MIB)}MB"


def _setting(name: str, value: str, reason: str, source: str) -> ProfiledSetting:
    setting = Setting(layer=Layer.POSTGRES, name=name, value=value)
    return ProfiledSetting(setting=setting, reason=reason, source=source)


PROFILES: Final[Mapping[str, Callable[[MachineFacts], tuple[ProfiledSetting, ...]]]] = {
    "fitted": fitted,
    "aws-defaults": aws_defaults,
    "published-maxed": published_maxed,
}
