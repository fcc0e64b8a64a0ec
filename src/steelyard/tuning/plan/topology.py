"""Where on a machine the database goes: NUMA node, whole cores, who works beside it; and its pod.

Taken off first is what others hold of memory and CPUs: virtual machines, and pages of its pools.
With the pod go the kubelet below it and the huge pages of the machine that it takes.

Here also stands what no plan is made of: a request that contradicts itself, or that no layer would
accept.
"""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.core.linux import LinuxFacts, NumaNode, PagePool
from steelyard.core.stack import DomainFacts, Place, PodDesign, PoolDesign, StackFacts, StackRequest
from steelyard.core.wording import GIB, KIB, MIB, InputError, format_bytes, in_unit
from steelyard.tuning.plan.arithmetic import POOL_MARGIN, Budget, DoesNotFitError, pages_with_margin
from steelyard.tuning.plan.postgres_settings import NEWEST, OLDEST, volume_bytes
from steelyard.tuning.rules.domains import FOR_GUESTS


def machines_here(facts: StackFacts) -> tuple[DomainFacts, ...]:
    """Return the virtual machines of the machine that the database runs on.

    Those of another machine, its own hypervisor, are none of its.
    """
    return facts.domains or () if facts.hypervisor == facts.linux else ()


def pinned_by(domains: Sequence[DomainFacts]) -> set[int]:
    """Return the CPUs that virtual machines and their helpers are pinned to."""
    return {
        cpu
        for domain in domains
        for cpu in (*domain.pinned_cpus, *domain.emulator_pins, *domain.io_thread_pins)
    }


def floating(domains: Sequence[DomainFacts]) -> tuple[str, ...]:
    """Return the names of virtual machines with CPUs that are pinned nowhere."""
    return tuple(each.name for each in domains if len(each.vcpu_pins) < each.vcpus)


def share_of(
    domain: DomainFacts, node: NumaNode, nodes: Sequence[NumaNode], page_bytes: int | None
) -> int:
    """Return how much of a virtual machine's memory counts on a node, in bytes.

    Of its memory on pages of a size, None: on ordinary ones. What is bound to several nodes counts
    on each by its size; what is bound to none may be anywhere, so it counts on all of them.
    """
    by_nodes = Counter[tuple[int, ...]]()
    for part in domain.memory_parts.values():
        if part.huge_page_bytes == page_bytes:
            by_nodes[part.memory_nodes] += part.memory_bytes
    return sum(
        _part(size, node, [each for each in nodes if each.number in bound] or nodes)
        for bound, size in by_nodes.items()
    )


def _part(size: int, node: NumaNode, among: Sequence[NumaNode]) -> int:
    if node not in among:
        return 0
    whole = sum(each.memory_bytes or 0 for each in among)
    if not whole or any(each.memory_bytes is None for each in among):
        return -(-size // len(among))
    return -(-size * (node.memory_bytes or 0) // whole)


def pool_of(pools: Sequence[PagePool], page_bytes: int) -> PagePool | None:
    """Return the pool of a page size, None where there is none."""
    return next((pool for pool in pools if pool.page_bytes == page_bytes), None)


def promised_pages(linux: LinuxFacts, node: NumaNode, page_bytes: int) -> int:
    """Return how many free pages of a node may be promised to programs that touch them later.

    The kernel counts promises for the whole machine; any node may have to keep them.
    """
    whole, own = linux.pool(page_bytes), pool_of(node.pools, page_bytes)
    promised = (whole.reserved or 0) if whole is not None else 0
    return min(promised, own.free) if own is not None else 0


def pages_to_come(
    domains: Sequence[DomainFacts], node: NumaNode, nodes: Sequence[NumaNode], page_bytes: int
) -> int:
    """Return the pages that virtual machines take from a node when they are started."""
    return sum(
        -(-share_of(domain, node, nodes, page_bytes) // page_bytes)
        for domain in domains
        if not domain.running
    )


def others_bytes(
    linux: LinuxFacts,
    node: NumaNode,
    domains: Sequence[DomainFacts],
    page_bytes: int,
    own_pages: int = 0,
) -> int:
    """Return the memory of a node that is not to be had.

    Virtual machines count whether they run or not. One that runs on huge pages is in the pool's
    figures already; ordinary memory is not.

    Args:
        linux: The machine that the node belongs to.
        node: Whose memory is asked for.
        domains: Virtual machines that stay.
        page_bytes: Of the plan: idle pages of this size can be had, those of others cannot.
        own_pages: In use, but by what the plan makes anew.
    """
    nodes = linux.nodes or (node,)
    sizes = {pool.page_bytes for pool in node.pools} | {page_bytes}
    sizes |= {size for each in domains for size in each.huge_bytes}
    total = sum(share_of(each, node, nodes, None) for each in domains)
    for size in sizes:
        pool = pool_of(node.pools, size)
        if size != page_bytes:
            there = pool.total * size if pool is not None else 0
            total += max(there, sum(share_of(each, node, nodes, size) for each in domains))
            continue
        used = pool.total - pool.free if pool is not None else 0
        used = max(used + promised_pages(linux, node, size) - own_pages, 0) * size
        run = sum(share_of(each, node, nodes, size) for each in domains if each.running)
        total += max(used, run) + pages_to_come(domains, node, nodes, size) * size
    return total


Core = tuple[int, ...]


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
        others_bytes: Memory of the node that others hold: guests, and huge pages.
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


def cpus_of(linux: LinuxFacts) -> tuple[int, ...]:
    """Return the CPUs of a machine, by its nodes where nobody saw them otherwise."""
    return linux.cpus or tuple(sorted(cpu for node in linux.nodes or () for cpu in node.cpus))


def cores_of(linux: LinuxFacts) -> tuple[Core, ...]:
    """Return the cores of a machine; every CPU is one where nobody saw siblings."""
    if linux.siblings:
        return tuple(sorted(tuple(sorted(core)) for core in set(linux.siblings)))
    return tuple((cpu,) for cpu in sorted(cpus_of(linux)))


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
        DoesNotFitError: No node has room, with what each lacks.
    """
    others = [domain for domain in domains if domain.name != wanted.name]
    own = next((domain for domain in domains if domain.name == wanted.name), None)
    offers = [_Offer(node, hypervisor, others, own, wanted) for node in nodes_of(hypervisor)]
    fitting = [offer for offer in offers if not offer.lacks]
    if not fitting:
        told = "; ".join(f"node {it.node.number}: {', '.join(it.lacks)}" for it in offers)
        raise DoesNotFitError(
            f"no NUMA node of the hypervisor has {wanted.vcpus} CPUs in whole cores, one core"
            f" beside them for the emulator, and {format_bytes(wanted.memory_bytes)} for the"
            f" virtual machine: {told}"
        )
    return min(fitting, key=lambda offer: (offer.new_pages, offer.node.number)).place()


class _Offer:
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
        taken = pinned_by(others)
        # The first core of a machine serves its interrupts and itself.
        first = min((cpu for each in cores_of(hypervisor) for cpu in each), default=0)
        self._free = [core for core in cores if len(core) == most and not taken & set(core)]
        self._guest = [core for core in self._free if first not in core]
        self._count = -(-wanted.vcpus // most)
        self._pages = -(-wanted.memory_bytes // wanted.page_bytes)
        self._pool = pool_of(node.pools, wanted.page_bytes)
        size, nodes, self._held = wanted.page_bytes, nodes_of(hypervisor), 0
        if own is not None and own.running:  # it gives these back when it ends
            used = self._pool.total - self._pool.free if self._pool is not None else 0
            self._held = min(share_of(own, node, nodes, size) // size, used)
        self._to_come = pages_to_come(others, node, nodes, size)
        self._promised = promised_pages(hypervisor, node, size)
        self.others_bytes = others_bytes(hypervisor, node, others, size, own_pages=self._held)

    @property
    def new_pages(self) -> int:
        """Return how many huge pages the node's pool lacks."""
        free = self._pool.free if self._pool is not None else 0
        return max(self._pages + self._to_come - (free - self._promised + self._held), 0)

    @property
    def free_bytes(self) -> int | None:
        """Return the most memory that a guest could have here; None: nobody saw the node's."""
        if self.node.memory_bytes is None:
            return None
        return int(FOR_GUESTS * self.node.memory_bytes) - self.others_bytes

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

    def place(self) -> DomainPlace:
        """Return the place: the guest on the first cores, its helpers on the last ones."""
        cores = tuple(self._guest[: self._count])
        beside = [core for core in self._free if core not in cores]
        io_thread = beside[-1]
        emulator = beside[-2] if len(beside) > 1 else beside[-1]
        return DomainPlace(
            node=self.node,
            cores=cores,
            emulator=emulator,
            io_thread=io_thread,
            pool_pages=(self._pool.total if self._pool else 0) + self.new_pages,
            others_bytes=self.others_bytes,
        )


_LEAST_BUFFERS: Final = 128 * KIB  # of the server
# More than superuser_reserved_connections, whose default is 3: with fewer it does not start.
_FEWEST_CONNECTIONS: Final = 4
_LEAST_HUGE_PAGE: Final = 64 * KIB  # of any architecture
_LONGEST_BRIDGE: Final = 15  # characters that Linux takes
_BRIDGE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*")
# Of an object of Kubernetes whose name is a label of its services; CloudNativePG takes 50.
_OF_CLUSTER: Final = re.compile(r"[a-z](?:[-a-z0-9]{0,48}[a-z0-9])?")
_OF_GROUP: Final = re.compile(r"[A-Za-z](?:-?[A-Za-z0-9]){0,120}")
_OF_FILE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_NAMES: Final = {
    Place.LOCAL: (_OF_FILE, "letters, digits, `.`, `_` and `-`"),
    Place.KVM: (_OF_FILE, "letters, digits, `.`, `_` and `-`"),
    Place.CNPG: (_OF_CLUSTER, "50 small letters, digits and `-` at most, a letter first"),
    Place.RDS: (_OF_GROUP, "letters, digits and single `-`, a letter first"),
}


def require_sense(request: StackRequest) -> None:
    """Refuse what contradicts itself, whatever the machine.

    Raises:
        InputError: With what would be taken.
    """
    if not OLDEST <= request.postgres_version <= NEWEST:
        raise InputError(
            f"PostgreSQL {request.postgres_version} is not in the catalogue of settings",
            hint=f"It has {OLDEST} to {NEWEST}.",
        )
    if request.cpus < 1 or request.memory_bytes < 1 or request.instances < 1:
        raise InputError(
            "CPUs, memory and instances must be at least 1", hint="As in --cpus 2 --memory 8GiB."
        )
    form, words = _NAMES[request.place]
    if not form.fullmatch(request.name):
        raise InputError(
            f"{request.name!r} is no name that every layer of {request.place.value} takes",
            hint=f"--name has {words}.",
        )
    _require_server(request)
    _require_layers(request)


def _require_server(request: StackRequest) -> None:
    buffers, connections = request.shared_buffers_bytes, request.max_connections
    if buffers is not None and buffers < _LEAST_BUFFERS:
        raise InputError(
            f"shared_buffers of {format_bytes(buffers)} is less than any server takes",
            hint=f"The least is {format_bytes(_LEAST_BUFFERS)}; leave the option out for a quarter"
            " of the memory.",
        )
    if connections is not None and connections < _FEWEST_CONNECTIONS:
        raise InputError(
            f"with max_connections = {connections} a server does not start: 3 are reserved for"
            " superusers",
            hint=f"The least is {_FEWEST_CONNECTIONS}.",
        )
    size = request.page_bytes
    if request.place is not Place.RDS and (size < _LEAST_HUGE_PAGE or size & (size - 1)):
        raise InputError(
            f"{format_bytes(size)} is no size of huge pages", hint="As in --page-size 2MiB."
        )


def _require_layers(request: StackRequest) -> None:
    """Refuse options of a layer that the place does not have, and names that it cannot read."""
    if request.place is not Place.CNPG:
        for option, given in (
            ("--volume-size", request.volume_bytes),
            ("--storage-class", request.storage_class),
        ):
            if given is not None:
                raise InputError(
                    f"{option} is of a cluster, and this plan is for {request.place.value}",
                    hint="Say --for cnpg, or leave it out.",
                )
    if request.place in (Place.LOCAL, Place.RDS) and (request.disks or request.bridge):
        raise no_domain(request)
    for path in request.disks:
        if not path.startswith("/"):
            raise InputError(f"{path!r} is no path of a disk", hint="As in --disk /dev/vg0/pg.")
    bridge = request.bridge
    if bridge is not None and (len(bridge) > _LONGEST_BRIDGE or not _BRIDGE.fullmatch(bridge)):
        raise InputError(f"{bridge!r} is no name of a bridge", hint="As in --bridge br0.")


def no_domain(request: StackRequest) -> InputError:
    """Return the refusal of disks or a bridge where there is no virtual machine to have them."""
    option = "--disk" if request.disks else "--bridge"
    return InputError(
        f"{option} is of a virtual machine, and this plan has none",
        hint="Say --for kvm, give --host-facts of the hypervisor, or leave it out.",
    )


_ON: Final = "on"


def pool_pages(budget: Budget, request: StackRequest) -> int:
    """Return the pages of a pool for the database alone, margin included."""
    if not request.huge_pages:
        return 0
    pages = budget.reserved_bytes // request.page_bytes
    return pages_with_margin(pages, POOL_MARGIN) if request.place is Place.CNPG else pages


def bystander_pages(facts: StackFacts, page_bytes: int) -> int:
    """Return the pages that others hold, or were promised, or will take when they are started.

    A server that was looked at itself is the plan's own: it gives its pages back at its restart,
    and only those. Pages that processes share count once, as the pool counts them.
    """
    linux = facts.linux or LinuxFacts()
    pool = linux.pool(page_bytes)
    if pool is not None and _is_used(linux, page_bytes):
        used = pool.total - pool.available
    else:  # the pool does not tell
        used = -(-sum(user.held_bytes for user in linux.pool_users or ()) // page_bytes)
    held = max(used - own_pages(facts, page_bytes), 0)
    nodes = linux.nodes or ()
    return held + sum(
        pages_to_come(machines_here(facts), each, nodes, page_bytes) for each in nodes
    )


def bystanders_on(facts: StackFacts, page_bytes: int, node: NumaNode) -> int:
    """Return how many of those pages may be on one node, at most."""
    linux, machines = facts.linux or LinuxFacts(), machines_here(facts)
    nodes, pool = linux.nodes or (node,), pool_of(node.pools, page_bytes)
    to_come = pages_to_come(machines, node, nodes, page_bytes)
    everywhere = sum(pages_to_come(machines, each, nodes, page_bytes) for each in nodes)
    held = bystander_pages(facts, page_bytes) - everywhere
    if len(nodes) > 1 and pool is not None and _is_used(linux, page_bytes):
        used = pool.total - pool.free + promised_pages(linux, node, page_bytes)
        held = min(held, used)
    return held + to_come


def _is_used(linux: LinuxFacts, page_bytes: int) -> bool:
    pool = linux.pool(page_bytes)
    return pool is not None and pool.total > pool.available


def own_pages(facts: StackFacts, page_bytes: int) -> int:
    """Return the pages that the server holds which the plan makes anew."""
    server, linux = facts.postgres, facts.linux or LinuxFacts()
    if server is None or server.running is False:
        return 0
    size = in_unit((server.settings or {}).get("huge_page_size", "0"), "kB")
    if (int(size * KIB) if size else linux.huge_page_bytes) != page_bytes:
        return 0
    if server.huge_page_mapping_bytes is not None:
        return server.huge_page_mapping_bytes // page_bytes
    return server.huge_pages_needed or 0 if server.huge_pages_status == _ON else 0


def idle_elsewhere(
    facts: StackFacts, page_bytes: int, chosen: Collection[int]
) -> tuple[PoolDesign, ...]:
    """Return the pools of other nodes that are to shrink to what is in use (rule OS002).

    Where virtual machines are defined nothing is taken away: they may be started later. Nor is
    what was promised to a program that has not touched it yet.
    """
    linux = facts.linux or LinuxFacts()
    if machines_here(facts):
        return ()
    found = (
        (node, pool, promised_pages(linux, node, page_bytes))
        for node in linux.nodes or ()
        if node.number not in chosen
        for pool in node.pools
        if pool.page_bytes == page_bytes
    )
    return tuple(
        PoolDesign(page_bytes=page_bytes, pages=pool.total - pool.free + promised, node=node.number)
        for node, pool, promised in found
        if pool.free > promised
    )


# kubeReserved, systemReserved, evictionHard: a guess for a node that does nothing else.
RESERVED: Final = (1 * GIB, 512 * MIB, 500 * MIB)
# Of a node beside its pods' huge pages and the database's memory: what is reserved, and a gibibyte
# for the cluster's own pods, a guess. Rule K8S015 wants 2 GiB.
SYSTEM_BYTES: Final = 3 * GIB


def pod_design(
    request: StackRequest, budget: Budget, node: LinuxFacts, shm_bytes: int
) -> PodDesign:
    """Return the pod: requests equal to limits, whole CPUs, its huge pages beside its memory."""
    threads = threads_per_core(node)
    return PodDesign(
        cpus=request.cpus,
        memory_bytes=(budget.beside_bytes if request.huge_pages else budget.memory_bytes)
        // MIB
        * MIB,
        huge_pages_bytes=budget.reserved_bytes if request.huge_pages else 0,
        page_bytes=request.page_bytes,
        reserved_cpus=cores_of(node)[0] if cores_of(node) else (0,),
        reserved_memory_bytes=RESERVED,
        numa_nodes=tuple(each.number for each in nodes_of(node)),
        smt=threads > 1,
        instances=request.instances,
        storage_class=request.storage_class,
        shm_bytes=shm_bytes,
        full_cores=request.exclusive_cpus and threads > 1,
        volume_bytes=volume_bytes(request, budget.shared_buffers_bytes),
    )


def require_whole_cores(request: StackRequest, threads: int) -> None:
    """Refuse exclusive CPUs that are no whole cores.

    Raises:
        DoesNotFitError: With how many make a core.
    """
    if request.exclusive_cpus and request.cpus % threads:
        raise DoesNotFitError(
            f"{request.cpus} exclusive CPUs are no whole cores of {threads} threads: the kubelet"
            " admits such a pod with SMTAlignmentError, or gives a core to two pods"
        )
