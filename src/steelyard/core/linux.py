"""What one Linux machine is and how it is tuned: a hypervisor, a virtual machine, bare metal.

None means that nobody saw it; the origins in ``StackFacts`` say why. Every quantity is in base
units: bytes, seconds, fractions. What makes wake-ups slow is in a record as rows of text, which are
written and read back here.

Of a configuration's layers, ``linux`` says which knobs of this machine it may turn, with their
values, and ``cgroup`` what control groups of the kernel let server and generator use.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from enum import StrEnum
from math import inf
from typing import Final

from steelyard.core.experiment import SwitchCost
from steelyard.core.findings import Fact
from steelyard.core.quantities import Quantity, as_text, key, refusal, shown
from steelyard.core.wording import (
    KIB,
    MIB,
    US_PER_S,
    InputError,
    format_bytes,
    format_latencies,
    parse_bytes,
)

# Longest exit latency of a shallow idle state. Of server CPUs C1 and C1E are below, C6 far above:
# 1-10 and 85-170 µs in drivers/idle/intel_idle.c; TuneD's latency-performance draws the same line.
SHALLOW_EXIT_S: Final = 10e-6
_AMD_VENDORS: Final = ("AuthenticAMD", "HygonGenuine")


@dataclass(frozen=True, slots=True, kw_only=True)
class PagePool:
    """The huge pages of one size, of a machine or of one of its NUMA nodes.

    Attributes:
        reserved: Promised to a program and not touched yet; the kernel counts them for the whole
            machine only, so None for a node.
    """

    page_bytes: int
    total: int
    free: int
    surplus: int = 0
    reserved: int | None = None

    @property
    def own(self) -> int:
        """Return its pages without the surplus, which go when their user ends."""
        return self.total - self.surplus

    @property
    def available(self) -> int:
        """Return how many pages a further program can still get."""
        return self.free - (self.reserved or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaNode:
    """One NUMA node.

    Attributes:
        cpus: Numbers of its logical CPUs.
        distances: To every node in their order, 10 to itself; empty when it was not seen.
        pools: Its huge pages by size; empty when they were not seen.
    """

    number: int
    cpus: tuple[int, ...]
    memory_bytes: int | None = None
    distances: tuple[int, ...] = ()
    pools: tuple[PagePool, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleState:
    """A state that an idle CPU may enter."""

    name: str
    exit_latency_s: float
    disabled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolUser:
    """A process that holds huge pages."""

    pid: int
    command: str
    held_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockDevice:
    """The disk under the data directory, as the kernel of this machine sees it.

    Attributes:
        kind: ``ssd``, ``hdd``, ``nvme``, ``ebs``, ``instance-store``, ``longhorn``, ``virtio`` (its
            rotational flag is no evidence), ``device-mapper``, ``loop``, ``network``, ``tmpfs``.
    """

    name: str
    kind: str
    read_ahead_bytes: int | None = None
    scheduler: str | None = None
    rotational: bool | None = None
    write_cache: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PingPong:
    """Round trips of one byte between two threads: what a wake-up costs here.

    Attributes:
        same_cpu_s: Median with both on one CPU.
        across_s: Median with each on a CPU of its own, on one NUMA node.
        across_p99_s: 99th percentile of the latter.
        other_node_s: Median with the threads on different NUMA nodes; None where there is one node.
    """

    same_cpu_s: float | None = None
    across_s: float | None = None
    across_p99_s: float | None = None
    other_node_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinuxFacts:
    """One Linux kernel and what it knows of its hardware.

    Attributes:
        virtualization: ``none``, ``kvm``, ``xen``, ``qemu``, or the vendor's own word.
        container: Kind of container around whoever looked; ``none`` outside of one.
        vendor: Of the machine, from DMI; of a virtual one often the hypervisor's.
        cpu_vendor: As an x86 CPU names it: ``GenuineIntel``, ``AuthenticAMD``.
        instance_type: Of a cloud (``m6i.large``), from DMI or the metadata service.
        siblings: The threads of each core, one tuple per core.
        page_bytes: Of ordinary memory.
        huge_page_bytes: Default size of huge pages.
        pools: All huge pages by size.
        requested_huge_pages: Of the default size, as configured; the kernel may have given fewer.
        requested_other_pages: So of other sizes, by size; None where none are asked for.
        overcommit_huge_pages: How many more of the default size may be made on demand.
        hugetlbfs: Page sizes for which a hugetlbfs is mounted, in bytes.
        transparent_huge_pages: ``always``, ``madvise``, ``never``; likewise ``thp_defrag``.
        scaling_driver: Of the CPU frequency; like the next two only visible where cpufreq is.
        governor: Of all CPUs; several different ones joined by a comma. So the next.
        idle_states: Of the first CPU.
        halt_poll_s: How long the host's KVM polls before it halts a virtual CPU.
        guest_halt_poll_s: How long this guest polls before it halts.
        dma_latency_s: The limit that somebody holds on the wake-up latency; None: no limit seen.
        steal_fraction: Of CPU time, over the moment of looking; so the next.
        cpu_pressure_fraction: Share of the last ten seconds in which some task waited for a CPU.
        balloon: Whether a virtio balloon is bound.
        pool_users: Who holds huge pages.
    """

    virtualization: str | None = None
    container: str | None = None
    vendor: str | None = None
    cpu_vendor: str | None = None
    instance_type: str | None = None
    architecture: str | None = None
    kernel: str | None = None
    cpus: tuple[int, ...] | None = None
    nodes: tuple[NumaNode, ...] | None = None
    siblings: tuple[tuple[int, ...], ...] | None = None
    smt: bool | None = None
    memory_bytes: int | None = None
    swap_bytes: int | None = None
    page_bytes: int | None = None
    huge_page_bytes: int | None = None
    pools: tuple[PagePool, ...] | None = None
    requested_huge_pages: int | None = None
    requested_other_pages: Mapping[int, int] | None = None
    overcommit_huge_pages: int | None = None
    hugetlbfs: tuple[int, ...] | None = None
    transparent_huge_pages: str | None = None
    thp_defrag: str | None = None
    swappiness: int | None = None
    dirty_bytes: int | None = None
    dirty_background_bytes: int | None = None
    dirty_ratio: int | None = None
    overcommit_memory: int | None = None
    numa_balancing: int | None = None
    zone_reclaim_mode: int | None = None
    clocksource: str | None = None
    scaling_driver: str | None = None
    governor: str | None = None
    energy_preference: str | None = None
    idle_driver: str | None = None
    idle_governor: str | None = None
    idle_states: tuple[IdleState, ...] | None = None
    halt_poll_s: float | None = None
    guest_halt_poll_s: float | None = None
    dma_latency_s: float | None = None
    steal_fraction: float | None = None
    cpu_pressure_fraction: float | None = None
    balloon: bool | None = None
    pool_users: tuple[PoolUser, ...] | None = None
    device: BlockDevice | None = None
    cgroup_version: str | None = None
    allowed_cpus: tuple[int, ...] | None = None
    io_uring_disabled: int | None = None
    ping_pong: PingPong | None = None

    @property
    def has_amd_cpu(self) -> bool | None:
        """Return whether its CPUs are AMD's or of their design; None where nobody saw it."""
        return None if self.cpu_vendor is None else self.cpu_vendor in _AMD_VENDORS

    @property
    def deep_states(self) -> tuple[IdleState, ...]:
        """Return the states that idle CPUs may enter and are slow to leave.

        A latency limit that somebody holds keeps CPUs out of the states that are slower.
        """
        limit = self.dma_latency_s
        return tuple(
            state
            for state in self.idle_states or ()
            if not state.disabled
            and state.exit_latency_s > SHALLOW_EXIT_S
            and (limit is None or state.exit_latency_s <= limit)
        )

    def pool(self, page_bytes: int | None = None) -> PagePool | None:
        """Return the pool of one page size, of the default size when none is named."""
        size = page_bytes or self.huge_page_bytes
        return next((pool for pool in self.pools or () if pool.page_bytes == size), None)


HUGE_PAGES: Final = "vm.nr_hugepages"
AUTO: Final = "auto"  # of HUGE_PAGES: what the configuration's own server needs
DMA_LATENCY: Final = "dma_latency"
READ_AHEAD: Final = "read_ahead"
GOVERNOR: Final = "governor"
TRANSPARENT: Final = "transparent_huge_pages"
TRANSPARENT_DEFRAG: Final = "transparent_huge_pages_defrag"
# Knobs that are no sysctl, by a short name; the others have the kernel's own dotted names.
SHORT_NAMES: Final = (TRANSPARENT, TRANSPARENT_DEFRAG, READ_AHEAD, GOVERNOR, DMA_LATENCY)
# What a database can feel. Names outside can take over a machine (kernel.core_pattern names a
# program that root runs), and `clean` turns back whatever a record names.
_NAMESPACES: Final = (
    "vm.",
    "net.core.",
    "net.ipv4.tcp_",
    "net.ipv4.ip_local_port_range",
    "kernel.sched_",
    "kernel.numa_balancing",
    "kernel.shm",
    "kernel.sem",
    "kernel.io_uring_",
    "kernel.timer_migration",
    "fs.aio-max-nr",
)
# Within them: actions, which no value takes back; guards of the kernel; who may do something.
# Source: Linux, admin-guide/sysctl/vm.rst, net.rst and kernel.rst, networking/ip-sysctl.rst.
_REFUSED: Final = (
    "vm.drop_caches",
    "vm.compact_memory",
    "vm.stat_refresh",
    "vm.nr_hugepages_mempolicy",
    "vm.mmap_min_addr",
    "vm.mmap_rnd_bits",
    "vm.mmap_rnd_compat_bits",
    "vm.unprivileged_userfaultfd",
    "vm.hugetlb_shm_group",
    "vm.panic_on_oom",
    "net.core.bpf_jit_enable",
    "net.core.bpf_jit_harden",
    "net.core.bpf_jit_kallsyms",
    "net.ipv4.tcp_fastopen_key",
    "kernel.shm_rmid_forced",
    "kernel.shm_next_id",
    "kernel.sem_next_id",
)
_SYSCTL: Final = re.compile(r"[a-z0-9_]+(\.[a-z0-9_-]+)+", re.ASCII)
_VALUE: Final = re.compile(r"[A-Za-z0-9_.]+([ \t]+[A-Za-z0-9_.]+)*", re.ASCII)
# A number reads back as decimal digits: one that is written otherwise would not be in force.
_NUMBERS: Final = re.compile(r"-?(0|[1-9][0-9]*)([ \t]+-?(0|[1-9][0-9]*))*", re.ASCII)
# All others are numbers.
_WORDS: Final = (
    "net.core.default_qdisc",
    "net.core.flow_limit_cpu_bitmap",
    "net.core.rps_default_mask",
    "net.ipv4.tcp_allowed_congestion_control",
    "net.ipv4.tcp_congestion_control",
)
# The least and the largest number that the kernel takes; older kernels may take less.
# Source: Linux 6.12, the tables of mm/page-writeback.c, mm/vmscan.c, mm/util.c and kernel/sysctl.c.
_RANGES: Final[Mapping[str, tuple[int, float]]] = {
    "vm.swappiness": (0, 200),
    "vm.dirty_ratio": (0, 100),
    "vm.dirty_background_ratio": (0, 100),
    "vm.dirty_bytes": (8 * KIB, inf),  # two pages
    "vm.dirty_background_bytes": (1, inf),
    "vm.overcommit_memory": (0, 2),
    "vm.page-cluster": (0, 31),
    "vm.compaction_proactiveness": (0, 100),
    "vm.extfrag_threshold": (0, 1000),
    "vm.watermark_scale_factor": (1, 3000),
    "kernel.numa_balancing": (0, 4),
    "kernel.io_uring_disabled": (0, 2),
    "kernel.timer_migration": (0, 1),
}
_MODES: Final = {
    TRANSPARENT: ("always", "madvise", "never"),
    TRANSPARENT_DEFRAG: ("always", "defer", "defer+madvise", "madvise", "never"),
}
# A running server feels these at once; of all others nobody knows, or it is known that it does not.
# Sources: Linux, admin-guide/sysctl/vm.rst, block/queue-sysfs.rst, admin-guide/pm/cpufreq.rst.
_LIVE: Final = (
    "vm.swappiness",
    "vm.dirty_bytes",
    "vm.dirty_background_bytes",
    "vm.dirty_ratio",
    "vm.dirty_background_ratio",
    "vm.dirty_expire_centisecs",
    "vm.dirty_writeback_centisecs",
    READ_AHEAD,
    GOVERNOR,
    DMA_LATENCY,
)
_MOST_PAGES: Final = 10**8
NO_LATENCY_LIMIT_US: Final = 2_000_000_000  # the kernel's word for no limit at all


def is_sysctl(name: str) -> bool:
    """Return whether a name is that of a file below ``/proc/sys``."""
    return name not in SHORT_NAMES


def switch_cost_of(name: str) -> SwitchCost:
    """Return what it takes until a server feels a change of this knob."""
    return SwitchCost.SESSION if name in _LIVE else SwitchCost.RESTART


def check_name(name: str) -> None:
    """Refuse what a configuration may not turn.

    Raises:
        InputError: It is no knob, or one that has no place in an experiment.
    """
    if name in SHORT_NAMES:
        return
    if not _SYSCTL.fullmatch(name):
        raise InputError(
            f"`{name}` is no name of a kernel setting",
            hint=f"Write a sysctl as in {HUGE_PAGES}, or one of {', '.join(SHORT_NAMES)}.",
        )
    if name in _REFUSED:
        raise InputError(
            f"`{name}` is not for experiments",
            hint="It is an action, or it guards the machine. Leave it out, or turn it yourself.",
        )
    if not name.startswith(_NAMESPACES):
        raise InputError(
            f"`{name}` is not for experiments",
            hint=f"Steelyard turns {', '.join(each + '*' for each in _NAMESPACES)} only.",
        )


def check_value(name: str, text: str) -> None:
    """Refuse a value that the knob of this name cannot have.

    Raises:
        InputError: With what it takes.
    """
    if name in _MODES:
        if text not in _MODES[name]:
            raise InputError(f"`{text}` is unknown", hint=f"Write {' or '.join(_MODES[name])}.")
    elif name == READ_AHEAD:
        read_ahead_kib(text)
    elif name == DMA_LATENCY:
        latency_us(text)
    elif name == HUGE_PAGES:
        if text != AUTO and not (text.isdigit() and int(text) <= _MOST_PAGES):
            raise InputError(
                f"`{text}` is no number of huge pages",
                hint=f"Write a number, or `{AUTO}` for what the configuration's server needs.",
            )
    else:
        _check_sysctl(name, text)


def _check_sysctl(name: str, text: str) -> None:
    if name in _WORDS:
        if not _VALUE.fullmatch(text):
            raise InputError(f"`{text}` is not a value of a sysctl", hint="Write words.")
        return
    least, most = _RANGES.get(name, (0 if name.startswith("vm.") else -inf, inf))
    bounds = [f"at least {least}"] * (least > -inf) + [f"at most {most}"] * (most < inf)
    hint = f"Write {', '.join(['decimal numbers', *bounds])}."
    if not _NUMBERS.fullmatch(text):
        if name.endswith("_bytes"):
            with suppress(InputError):
                hint = f"Write it in bytes: {parse_bytes(text)}."
        raise InputError(f"the kernel takes numbers for `{name}`, not `{text}`", hint=hint)
    if not all(least <= int(word) <= most for word in text.split()):
        raise InputError(f"the kernel refuses {text} for `{name}`", hint=hint)


def read_ahead_kib(text: str) -> int:
    """Return a read-ahead in KiB from a size such as ``128kB``.

    Raises:
        InputError: It is no whole number of KiB.
    """
    size = parse_bytes(text)
    if size < 0 or size % KIB:
        raise InputError(f"`{text}` is no whole number of kB", hint="Write it as 128kB or 4MB.")
    return size // KIB


def latency_us(text: str) -> int:
    """Return the longest wake-up that is allowed, in microseconds.

    Raises:
        InputError: It is no whole number of them.
    """
    if not text.isdigit() or int(text) >= NO_LATENCY_LIMIT_US:
        raise InputError(
            f"`{text}` is no number of microseconds",
            hint="Write 0 so that CPUs never sleep, or the longest wake-up that you allow.",
        )
    return int(text)


# Guesses; the first is for steal and for the delay of virtual CPUs: above the noise of an idle
# hypervisor, below what latencies at one client show.
WAITED_FRACTION: Final = 0.01
PRESSED_FRACTION: Final = 0.10

_MACHINE: Final = "machine"
_VIRTUALISATION: Final = "virtualisation"  # a row that every record has
_DRIVER, _STATES, _POLLING, _LIMIT = (
    "idle driver",
    "idle states",
    "guest halt polling",
    "wake-up limit",
)
_NOT_VISIBLE: Final = "not visible"
_NO_LIMIT: Final = "none"
_OFF: Final = " (off)"
_STATE: Final = re.compile(r"(.{1,40}) ([0-9.e+]{1,12}) µs( \(off\))?")
_TIME: Final = re.compile(r"([0-9.e+]{1,12}) µs")


def idle_suspects(machine: LinuxFacts, name: str) -> Iterator[str]:
    """Yield which idle state makes wake-ups slow, if one does."""
    deep = machine.deep_states
    if deep:
        deepest = max(deep, key=lambda state: state.exit_latency_s)
        (latency,) = format_latencies([deepest.exit_latency_s])
        yield f"idle CPUs of {name} enter {deepest.name}, which takes {latency} to leave"


def halt_suspects(machine: LinuxFacts) -> Iterator[str]:
    """Yield why idle virtual CPUs halt at once, if they do; nothing where nobody knows."""
    if machine.virtualization in (None, "none"):
        return
    if machine.idle_driver == "none":
        yield (
            "an idle virtual CPU halts at once (no idle driver, which a latency limit does not"
            " change)"
        )
        return
    held = machine.dma_latency_s is not None and machine.dma_latency_s <= 0.0  # polls, never halts
    if machine.guest_halt_poll_s == 0.0 and not held:
        yield "an idle virtual CPU halts at once (guest_halt_poll_ns = 0)"


def wake_up_facts(machine: LinuxFacts, *, limit_seen: bool) -> tuple[Fact, ...]:
    """Return what a record says of the wake-ups of its machine, in the order to print it.

    Args:
        machine: On which the campaign runs.
        limit_seen: Somebody could look for a latency limit: then None means that there is none.
    """
    states = ", ".join(
        f"{state.name} {_us(state.exit_latency_s)}{_OFF if state.disabled else ''}"
        for state in machine.idle_states or ()
    )
    poll, limit = machine.guest_halt_poll_s, machine.dma_latency_s
    rows = {
        _DRIVER: machine.idle_driver or _NOT_VISIBLE,
        _STATES: states or _NOT_VISIBLE,
        _POLLING: _NOT_VISIBLE if poll is None else _us(poll),
        _LIMIT: _us(limit) if limit is not None else _NO_LIMIT if limit_seen else _NOT_VISIBLE,
    }
    return tuple(Fact(name=name, value=text, subject=_MACHINE) for name, text in rows.items())


def recorded_suspects(facts: Iterable[Fact]) -> tuple[str, ...]:
    """Return what of a record's machine makes wake-ups slow; none of a record that lacks it."""
    rows = {fact.name: fact.value for fact in facts if fact.subject == _MACHINE}
    if _STATES not in rows:
        return ()
    driver, kind = rows.get(_DRIVER, _NOT_VISIBLE), rows.get(_VIRTUALISATION) or None
    if kind is not None:  # of what kind a virtual machine is does not matter here
        kind = "unknown" if kind.startswith("virtual machine") else "none"
    machine = LinuxFacts(
        virtualization=kind,
        idle_driver=None if driver == _NOT_VISIBLE else driver,
        idle_states=tuple(_states(rows[_STATES])),
        guest_halt_poll_s=_seconds(rows.get(_POLLING, "")),
        dma_latency_s=_seconds(rows.get(_LIMIT, "")),
    )
    return (*idle_suspects(machine, "this machine"), *halt_suspects(machine))


def _states(text: str) -> Iterator[IdleState]:
    for part in text.split(", "):
        found, latency_s = _STATE.fullmatch(part), None
        if found is not None:
            latency_s = _number(found[2])
        if found is not None and latency_s is not None:
            yield IdleState(name=found[1], exit_latency_s=latency_s, disabled=bool(found[3]))


def _seconds(text: str) -> float | None:
    found = _TIME.fullmatch(text)
    return None if found is None else _number(found[1])


def _number(text: str) -> float | None:
    try:
        return float(text) / US_PER_S
    except ValueError:
        return None


def _us(seconds: float) -> str:
    return f"{seconds * US_PER_S:.10g} µs"


PERIOD_US: Final = 100_000  # a quota is so much CPU time in each period
_LEAST_QUOTA_US: Final = 1_000  # the kernel refuses less: Documentation/scheduler/sched-bwc.rst
_MOST_CPUS: Final = 10_000
_MOST_PER_S: Final = 10**9
_CPU_RANGE: Final = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")


class Controller(StrEnum):
    """A part of the kernel that limits groups, or lets them stand still."""

    CPU = "cpu"
    CPUSET = "cpuset"
    IO = "io"
    MEMORY = "memory"
    FREEZER = "freezer"


_LARGEST_PAGE_BYTES: Final = 64 * KIB  # of Arm; the kernel keeps limits in whole pages
LEAST_MEMORY_BYTES: Final = 64 * MIB  # a guess: PostgreSQL starts in half of it
THROTTLES: Final = ("read_iops", "write_iops", "read_bytes_per_s", "write_bytes_per_s")
CPUSETS: Final = ("cpuset", "generator_cpuset")


def controllers_of(keys: Iterable[str]) -> frozenset[Controller]:
    """Return the controllers that the server's group needs for these keys."""
    by_key = {
        "cpus": Controller.CPU,
        "cpuset": Controller.CPUSET,
        "memory": Controller.MEMORY,
        **dict.fromkeys(THROTTLES, Controller.IO),
    }
    return frozenset(by_key[key] for key in keys if key in by_key)


def parse_cpus(text: str) -> float:
    """Return a quota in CPUs, to the microsecond of a period that the kernel counts in.

    Raises:
        InputError: It is no number, or less than the kernel takes.
    """
    hint = "Write a number of CPUs, as in 0.6 or 2."
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text.strip()):
        raise InputError(f"`{text}` is not a number of CPUs", hint=hint)
    quota_us = round(float(text) * PERIOD_US)
    if not _LEAST_QUOTA_US <= quota_us <= _MOST_CPUS * PERIOD_US:
        least = _LEAST_QUOTA_US / PERIOD_US
        raise InputError(
            f"`{text}` CPUs is out of range", hint=f"Write a number from {least:g} to {_MOST_CPUS}."
        )
    return quota_us / PERIOD_US


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """Return the CPUs of a list as the kernel writes it, ``0-1,3``, in order and each once.

    Raises:
        InputError: It is no such list.
    """
    found: set[int] = set()
    for part in text.split(","):
        match = _CPU_RANGE.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise InputError(
                f"`{text}` is not a list of CPUs", hint="Write it as 0, as 0-1 or as 0,2-3."
            )
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def parse_iops(text: str) -> int:
    """Return a number of requests per second.

    Raises:
        InputError: It is no whole number, or out of range.
    """
    if not re.fullmatch(r"[0-9]{1,10}", text.strip()) or not 1 <= int(text) <= _MOST_PER_S:
        raise InputError(
            f"`{text}` is not a number of requests per second",
            hint=f"Write a whole number from 1 to {_MOST_PER_S}.",
        )
    return int(text)


def parse_rate(text: str) -> int:
    """Return bytes per second from a size such as ``20MB``.

    Raises:
        InputError: It is no size, or less than 1 byte.
    """
    count = parse_bytes(text)
    if count < 1:
        raise InputError(f"`{text}` is less than 1 byte", hint="Write it as 20MB or 512kB.")
    return count


def parse_memory(text: str) -> int:
    """Return bytes of memory, in whole units of the largest ordinary page of any machine.

    Raises:
        InputError: It is no size, or less than a server starts in.
    """
    count = parse_bytes(text) // _LARGEST_PAGE_BYTES * _LARGEST_PAGE_BYTES
    if count < LEAST_MEMORY_BYTES:
        raise InputError(
            f"`{text}` is less memory than a server needs",
            hint=f"Write at least {format_bytes(LEAST_MEMORY_BYTES)}, and more than what it"
            " allocates at its start.",
        )
    return count


def cpu_list(cpus: Iterable[int]) -> str:
    """Return CPUs as the kernel writes them: ``0-1,3``."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in ranges)


def _limit(parse: Callable[[str], object], **schema: object) -> Quantity:
    """Return how a limit is read."""

    def read(value: object) -> object:
        if isinstance(value, list | dict):
            raise refusal(f"{shown(value)} is a list or mapping", "Write it as text: '0,2-3'.")
        return parse(as_text(value))

    return Quantity(read=read, schema=schema)


_TYPES: Final = ["string", "integer"]
_CPU_LIST: Final = _limit(parse_cpu_list, type=_TYPES, examples=["0", "0-1", "0,2-3"])
_IOPS: Final = _limit(parse_iops, type=["integer", "string"], minimum=1)
_RATE: Final = _limit(parse_rate, type=_TYPES, examples=["20MB"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of server and generator; null removes an inherited one."""

    cpus: float | None = key(
        None,
        _limit(parse_cpus, type=["number", "string"], exclusiveMinimum=0),
        "CPU time of the server, in CPUs.",
        0.6,
    )
    cpuset: tuple[int, ...] | None = key(None, _CPU_LIST, "CPUs that the server may run on.", "0-1")
    generator_cpuset: tuple[int, ...] | None = key(
        None, _CPU_LIST, "CPUs that the load generator may run on.", "0"
    )
    memory: int | None = key(
        None,
        _limit(parse_memory, type=_TYPES, examples=["512MB"]),
        "Memory of the server, what is cached of its files included.",
        "512MB",
    )
    read_iops: int | None = key(None, _IOPS, "Reads per second from the disk of the data.", 200)
    write_iops: int | None = key(None, _IOPS, "Writes per second to the disk of the data.", 200)
    read_bytes_per_s: int | None = key(None, _RATE, "Bytes per second from the disk.", "20MB")
    write_bytes_per_s: int | None = key(None, _RATE, "Bytes per second to the disk.", "20MB")


KEYS: Final = tuple(each.name for each in fields(Limits))


def limits_of(asked: Mapping[str, str]) -> Limits:
    """Return the limits of a configuration's settings of this layer.

    Raises:
        InputError: A value is not what its key takes.
    """
    takes = {each.name: each.metadata["key"].takes for each in fields(Limits)}
    return Limits(**{name: takes[name].read(text) for name, text in asked.items()})


def shown_limit(key: str, limits: Limits) -> tuple[str, str | None]:
    """Return a limit's value and unit as tables of settings show them."""
    value = getattr(limits, key)
    if value is None:
        return "unlimited", None
    if key in CPUSETS:
        return cpu_list(value), None
    if key != "memory" and not key.endswith("_bytes_per_s"):
        return f"{value:g}" if key == "cpus" else str(value), None
    return (str(value // KIB), "kB") if value % KIB == 0 else (str(value), "B")
