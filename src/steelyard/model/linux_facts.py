"""What one Linux machine is and how it is tuned: a hypervisor, a virtual machine, bare metal.

None means that nobody saw it; the origins in ``StackFacts`` say why. Every quantity is in base
units: bytes, seconds, fractions.
"""

from dataclasses import dataclass
from typing import Final

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
