"""Where on a machine the database goes: the NUMA node, whole cores, and who works beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.model.errors import PreflightError
from steelyard.model.linux_facts import LinuxFacts, NumaNode, PagePool
from steelyard.model.stack_facts import DomainFacts
from steelyard.model.units import format_bytes

Core = tuple[int, ...]

# Of a node's memory, for strictly bound guests: the rest is the kernel's and the emulator's. The
# same share as in rule KVM003.
MOST_NODE_SHARE: Final = 0.94


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a virtual machine needs of one node.

    Attributes:
        name: Of the domain; what it has already may be given to it again.
    """

    name: str
    vcpus: int
    memory_bytes: int
    page_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainPlace:
    """Where a virtual machine goes.

    Attributes:
        cores: For its virtual CPUs.
        emulator: CPUs of the emulator's threads; on the same node, on no core of the guest.
        io_thread: Likewise of the I/O threads.
        pool_pages: That the node's pool must have in all.
        others_bytes: Memory of the node that others hold: guests bound to it, or its huge pages.
    """

    node: NumaNode
    cores: tuple[Core, ...]
    emulator: tuple[int, ...]
    io_thread: tuple[int, ...]
    pool_pages: int
    others_bytes: int

    @property
    def threads(self) -> int:
        """Return the threads of each of its cores."""
        return len(self.cores[0])


def nodes_of(linux: LinuxFacts) -> tuple[NumaNode, ...]:
    """Return the NUMA nodes; the machine as one where nobody saw them."""
    if linux.nodes:
        return linux.nodes
    return (
        NumaNode(
            number=0,
            cpus=linux.cpus or (),
            memory_bytes=linux.memory_bytes,
            pools=linux.pools or (),
        ),
    )


def cores_of(linux: LinuxFacts) -> tuple[Core, ...]:
    """Return the cores of a machine; every CPU is one where nobody saw siblings."""
    if linux.siblings:
        return tuple(sorted(tuple(sorted(core)) for core in set(linux.siblings)))
    cpus = linux.cpus or tuple(cpu for node in nodes_of(linux) for cpu in node.cpus)
    return tuple((cpu,) for cpu in sorted(cpus))


def threads_per_core(linux: LinuxFacts) -> int:
    """Return the threads of a core; 1 where nobody saw siblings."""
    return max((len(core) for core in cores_of(linux)), default=1)


def whole_cores(cpus: int, threads: int) -> int:
    """Return how many CPUs the whole cores have that so many CPUs need."""
    return -(-cpus // threads) * threads


def place_domain(
    wanted: Wanted, hypervisor: LinuxFacts, domains: Sequence[DomainFacts]
) -> DomainPlace:
    """Return the place of a virtual machine on one NUMA node.

    Of the nodes with room the one that needs the fewest new huge pages is taken.

    Raises:
        PreflightError: No node has room, with what each lacks and what would fit.
    """
    others = [domain for domain in domains if domain.name != wanted.name]
    own = next((domain for domain in domains if domain.name == wanted.name), None)
    offers = [_Offer(node, hypervisor, others, own, wanted) for node in nodes_of(hypervisor)]
    fitting = [offer for offer in offers if not offer.lacks]
    if not fitting:
        raise _no_room(wanted, offers)
    return min(fitting, key=lambda offer: (offer.new_pages, offer.node.number)).place()


class _Offer:
    """What one node has for a virtual machine."""

    def __init__(
        self,
        node: NumaNode,
        hypervisor: LinuxFacts,
        others: Sequence[DomainFacts],
        own: DomainFacts | None,
        wanted: Wanted,
    ) -> None:
        self.node = node
        self._wanted = wanted
        cores = [core for core in cores_of(hypervisor) if set(core) <= set(node.cpus)]
        most = max((len(core) for core in cores), default=1)
        taken = {cpu for domain in others for cpu in _cpus_of(domain)}
        # The first core of a machine serves its interrupts and itself.
        first = min((cpu for each in cores_of(hypervisor) for cpu in each), default=0)
        self._free = [core for core in cores if len(core) == most and not taken & set(core)]
        self._guest = [core for core in self._free if first not in core]
        self._count = -(-wanted.vcpus // most)
        self._pages = -(-wanted.memory_bytes // wanted.page_bytes)
        self._held = _held_pages(own, node, wanted)
        self._promised = sum(_pages_to_come(domain, node, wanted) for domain in others)
        self.others_bytes = _others_bytes(node, others, wanted, self._held)

    @property
    def new_pages(self) -> int:
        """Return how many huge pages the node's pool lacks."""
        return max(self._pages + self._promised - self._available_pages, 0)

    @property
    def free_bytes(self) -> int | None:
        """Return the most memory that a guest could have here; None: nobody saw the node's."""
        if self.node.memory_bytes is None:
            return None
        return int(MOST_NODE_SHARE * self.node.memory_bytes) - self.others_bytes

    @property
    def free_cpus(self) -> int:
        """Return the most virtual CPUs that a guest could have here."""
        spare = len(self._free) - len(self._guest)
        usable = len(self._guest) if spare else max(len(self._guest) - 1, 0)
        return usable * (len(self._guest[0]) if self._guest else 1)

    @property
    def lacks(self) -> tuple[str, ...]:
        """Return what it lacks, in words."""
        lacks = []
        if self.free_bytes is None:
            lacks.append("nobody saw how much memory it has")
        elif self._wanted.memory_bytes > self.free_bytes:
            lacks.append(
                f"{format_bytes(max(self.free_bytes, 0))} of its"
                f" {format_bytes(self.node.memory_bytes or 0)} can be had"
            )
        if self._wanted.vcpus > self.free_cpus:
            lacks.append(f"{self.free_cpus} CPUs in whole cores can be had")
        return tuple(lacks)

    @property
    def _available_pages(self) -> int:
        pool = _pool(self.node, self._wanted.page_bytes)
        return (pool.available if pool else 0) + self._held

    def place(self) -> DomainPlace:
        """Return the place: the guest on the first cores, its helpers on the last ones."""
        cores = tuple(self._guest[: self._count])
        beside = [core for core in self._free if core not in cores]
        io_thread = beside[-1]
        emulator = beside[-2] if len(beside) > 1 else beside[-1]
        pool = _pool(self.node, self._wanted.page_bytes)
        return DomainPlace(
            node=self.node,
            cores=cores,
            emulator=emulator,
            io_thread=io_thread,
            pool_pages=(pool.total if pool else 0) + self.new_pages,
            others_bytes=self.others_bytes,
        )


def _pool(node: NumaNode, page_bytes: int) -> PagePool | None:
    return next((pool for pool in node.pools if pool.page_bytes == page_bytes), None)


def _cpus_of(domain: DomainFacts) -> set[int]:
    return {*domain.pinned_cpus, *domain.emulator_pins, *domain.io_thread_pins}


def _held_pages(own: DomainFacts | None, node: NumaNode, wanted: Wanted) -> int:
    """Return the pages that the running domain holds on a node and gives back when it ends."""
    if own is None or not own.running or own.huge_page_bytes != wanted.page_bytes:
        return 0
    if node.number not in own.memory_nodes:
        return 0
    return own.memory_bytes // len(own.memory_nodes) // wanted.page_bytes


def _pages_to_come(domain: DomainFacts, node: NumaNode, wanted: Wanted) -> int:
    """Return the pages that another domain will take from a node when it is started."""
    if domain.running or domain.huge_page_bytes != wanted.page_bytes:
        return 0
    if node.number not in domain.memory_nodes:
        return 0
    return domain.memory_bytes // len(domain.memory_nodes) // wanted.page_bytes


def _others_bytes(node: NumaNode, others: Sequence[DomainFacts], wanted: Wanted, held: int) -> int:
    """Return the memory of a node that is not to be had.

    Guests bound to it count whether they run or not; so do huge pages that are in use or of
    another size. A running guest on huge pages is in both: the larger figure counts.
    """
    bound = sum(
        domain.memory_bytes // len(domain.memory_nodes)
        for domain in others
        if node.number in domain.memory_nodes
    )
    used = 0
    for pool in node.pools:
        same = pool.page_bytes == wanted.page_bytes
        pages = pool.total - pool.available - held if same else pool.total
        used += max(pages, 0) * pool.page_bytes
    return max(bound, used)


def _no_room(wanted: Wanted, offers: Sequence[_Offer]) -> PreflightError:
    told = "; ".join(f"node {offer.node.number}: {', '.join(offer.lacks)}" for offer in offers)
    best = max(offers, key=lambda offer: min(offer.free_bytes or 0, wanted.memory_bytes))
    memory = format_bytes(max(best.free_bytes or 0, 0))
    return PreflightError(
        f"no NUMA node of the hypervisor has {wanted.vcpus} CPUs in whole cores, one core beside"
        f" them for the emulator, and {format_bytes(wanted.memory_bytes)} for the virtual machine:"
        f" {told}",
        hint=f"A virtual machine of {best.free_cpus} CPUs and {memory} would fit on node"
        f" {best.node.number}, its own system included; or move other machines away.",
    )
