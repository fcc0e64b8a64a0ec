"""Rules of a virtual machine's memory on the hypervisor's."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.core.findings import Severity
from steelyard.core.linux import NumaNode
from steelyard.core.stack import DomainFacts, StackFacts
from steelyard.core.units import GIB, format_bytes
from steelyard.tuning.rules.rule import (
    NOTHING,
    Rulings,
    StackRule,
    combined,
    groups_at_once,
    lacking,
    listed,
    of_each_domain,
    of_unread_domains,
    violated,
    violated_if,
)

FOR_GUESTS: Final = 0.94  # of a node's memory; that the hypervisor needs the rest is a guess
_OVERHEAD_BYTES: Final = 2 * GIB  # QEMU's own; a guest of 256 MiB locked 1.56 GB
_OVERHEAD_SHARE: Final = 0.10
_STRICT: Final = "strict"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Demand:
    """Memory that must come from some nodes."""

    nodes: frozenset[int]
    memory_bytes: int
    page_bytes: int | None
    held: bool


def _fits_its_nodes(facts: StackFacts) -> Rulings:
    nodes = {node.number: node for node in (facts.hypervisor and facts.hypervisor.nodes) or ()}
    groups = [_demands(group, nodes) for group in groups_at_once(facts.domains or ())]
    outcomes = (_fits(group, nodes) for group in groups if group)
    return combined(outcomes)


def _demands(domains: Sequence[DomainFacts], nodes: dict[int, NumaNode]) -> list[_Demand]:
    """Return what strict domains take from which nodes: of each cell that is bound, of the rest.

    A node that does not exist is KVM002's matter.
    """
    return [
        _Demand(
            nodes=frozenset(bound),
            memory_bytes=memory_bytes,
            page_bytes=domain.huge_page_bytes,
            held=domain.running,
        )
        for domain in domains
        for bound, memory_bytes in _strict_parts(domain)
        if bound and set(bound) <= set(nodes)
    ]


def _strict_parts(domain: DomainFacts) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield nodes and bytes of the cells that are bound themselves, then of what is left."""
    bound = [cell for cell in domain.cells if cell.memory_nodes]
    for cell in bound:
        if (cell.memory_mode or domain.memory_mode) == _STRICT:
            yield cell.memory_nodes, cell.memory_bytes
    rest = domain.memory_bytes - sum(cell.memory_bytes for cell in bound)
    if rest > 0 and domain.memory_mode == _STRICT:
        yield domain.memory_nodes, rest


def _fits(demands: Sequence[_Demand], nodes: dict[int, NumaNode]) -> Rulings:
    """Return where demands that are confined to some nodes exceed what these have together.

    Memory may be divided among its nodes at will, so demands fit if and only if no union of their
    node sets is asked for more than it has (Hall's condition for a transport problem).
    """
    outcomes: list[Rulings] = []
    for union in _unions({demand.nodes for demand in demands}):
        confined = [demand for demand in demands if demand.nodes <= union]
        members = [nodes[number] for number in sorted(union)]
        outcomes.append(_in_memory(confined, members))
        sizes = {demand.page_bytes for demand in confined if not demand.held} - {None}
        outcomes += [_in_pages(confined, members, size) for size in sorted(filter(None, sizes))]
    return combined(outcomes)


def _unions(sets: set[frozenset[int]]) -> list[frozenset[int]]:
    """Return all unions of some of the sets, the smallest first."""
    found: set[frozenset[int]] = set()
    for each in sets:
        found |= {each, *(each | union for union in found)}
    return sorted(found, key=lambda union: (len(union), sorted(union)))


def _in_memory(demands: Sequence[_Demand], nodes: Sequence[NumaNode]) -> Rulings:
    sizes = [node.memory_bytes for node in nodes if node.memory_bytes is not None]
    if len(sizes) < len(nodes):
        return lacking("hypervisor.nodes.memory_bytes")
    asked, there = sum(demand.memory_bytes for demand in demands), sum(sizes)
    return violated_if(
        asked > FOR_GUESTS * there,
        f"node {_numbers(nodes)}: strict virtual machines need {format_bytes(asked)} of"
        f" {format_bytes(there)}",
    )


def _in_pages(demands: Sequence[_Demand], nodes: Sequence[NumaNode], page_bytes: int) -> Rulings:
    if not all(node.pools for node in nodes):
        return lacking("hypervisor.nodes.pools")
    asked = sum(
        -(-demand.memory_bytes // page_bytes)
        for demand in demands
        if demand.page_bytes == page_bytes and not demand.held
    )
    pools = [pool for node in nodes for pool in node.pools if pool.page_bytes == page_bytes]
    free = sum(pool.free for pool in pools)
    return violated_if(
        asked > free,
        f"node {_numbers(nodes)}: virtual machines that are off need {asked} pages of"
        f" {format_bytes(page_bytes)}, and {free} are free",
    )


def _numbers(nodes: Sequence[NumaNode]) -> str:
    return listed(node.number for node in nodes)


def _locked_within_limits(domain: DomainFacts) -> Rulings:
    if not domain.locked:
        return NOTHING
    if domain.hard_limit_bytes is None:
        return violated(f"{domain.name}: locked without a hard_limit")
    overhead = max(_OVERHEAD_BYTES, int(_OVERHEAD_SHARE * domain.memory_bytes))
    return violated_if(
        domain.hard_limit_bytes < domain.memory_bytes + overhead,
        f"{domain.name}: hard_limit {format_bytes(domain.hard_limit_bytes)} leaves QEMU less than"
        f" {format_bytes(overhead)} beside {format_bytes(domain.memory_bytes)} of the guest",
    )


def _locked_for_a_reason(domain: DomainFacts) -> Rulings:
    if domain.huge_page_bytes is None:
        return NOTHING
    return violated_if(
        domain.locked, f"{domain.name}: its memory is locked, and on huge pages it stays anyway"
    )


def _whole_pages(domain: DomainFacts) -> Rulings:
    page_bytes = domain.huge_page_bytes
    if page_bytes is None:
        return NOTHING
    sizes = {
        "memory": domain.memory_bytes,
        **{f"cell {cell.number}": cell.memory_bytes for cell in domain.cells},
    }
    odd = {name: size for name, size in sizes.items() if size % page_bytes}
    told = f"bytes is no multiple of {format_bytes(page_bytes)}"
    return violated(*(f"{domain.name}: its {name} of {size} {told}" for name, size in odd.items()))


def _pages_are_mounted(facts: StackFacts) -> Rulings:
    mounted = (facts.hypervisor.hugetlbfs if facts.hypervisor else None) or ()

    def check(domain: DomainFacts) -> Rulings:
        if domain.huge_page_bytes is None:
            return NOTHING
        return violated_if(
            domain.huge_page_bytes not in mounted,
            f"{domain.name}: no hugetlbfs for pages of {format_bytes(domain.huge_page_bytes)}",
        )

    return of_each_domain(check)(facts)


def _without_balloon(facts: StackFacts) -> Rulings:
    """Judge by the domains, by the guest, or by both; either is evidence enough."""
    bound = facts.linux.balloon if facts.linux else None
    if facts.domains is None and bound is None:
        return lacking("domains", "linux.balloon")
    inside = NOTHING if bound is None else violated_if(bound, "the guest has virtio_balloon bound")
    domains = of_each_domain(_no_balloon_device)(facts)
    return combined([domains, of_unread_domains(facts), inside])


def _no_balloon_device(domain: DomainFacts) -> Rulings:
    return violated_if(domain.balloon != "none", f"{domain.name}: memory balloon {domain.balloon}")


RULES: Final[tuple[StackRule, ...]] = (
    StackRule(
        code="KVM003",
        layers=("kvm", "hypervisor"),
        severity=Severity.ERROR,
        title="Strict memory fits its NUMA nodes",
        why="Strict memory comes from its nodes or not at all: the domain is defined and does not "
        'start ("unable to map backing store for guest RAM: Cannot allocate memory").',
        detect="Memory of the domains that run or start by themselves together, of each other one "
        "alone, each cell on the nodes that it is bound to, against the nodes' MemTotal, of which "
        "6 % are left to the hypervisor (a guess); of those that are off, against the free huge "
        "pages of the size that they ask for.",
        remedy="Ask for a smaller virtual machine, allocate more pages on that node, or show the "
        "guest two cells on two nodes.",
        source='libvirt, Domain XML format, section "NUMA Node Tuning" (mode strict); the message '
        "is that of QEMU 7.2 under libvirt 9.0",
        needs=("domains", "hypervisor.nodes"),
        judge=_fits_its_nodes,
    ),
    StackRule(
        code="KVM009",
        layers=("kvm",),
        severity=Severity.WARNING,
        title="Locked memory has a limit that suffices",
        why="Without hard_limit libvirt lets QEMU lock all memory of the hypervisor. A limit near "
        "the guest's memory kills the virtual machine: QEMU locks its own heap, too (1.56 GB for "
        "a guest of 256 MiB).",
        detect="memoryBacking/locked and memtune/hard_limit: at least the memory and 10 % of it, "
        "2 GiB at least.",
        remedy="Set hard_limit to the memory and 10 % of it, 2 GiB at least; or drop locked.",
        source='libvirt, Domain XML format, sections "Memory Backing" (locked: hard_limit is '
        'highly recommended) and "Memory Tuning"; the overhead was measured with QEMU 7.2, its '
        "bounds are guesses",
        needs=("domains",),
        judge=of_each_domain(_locked_within_limits),
    ),
    StackRule(
        code="KVM010",
        layers=("kvm",),
        severity=Severity.INFO,
        title="Memory on huge pages needs no lock",
        why="Huge pages are never swapped out. Locking adds QEMU's own memory only, and the risk "
        "of KVM009.",
        detect="memoryBacking with locked and hugepages.",
        remedy="None is needed; locked may be dropped.",
        source="Linux, Documentation/admin-guide/mm/hugetlbpage.rst (huge pages cannot be swapped "
        "out under memory pressure)",
        needs=("domains",),
        judge=of_each_domain(_locked_for_a_reason),
    ),
    StackRule(
        code="KVM011",
        layers=("kvm", "linux"),
        severity=Severity.WARNING,
        title="There is no memory balloon",
        why="A balloon takes memory from the guest while the database counts on it. libvirt adds "
        "one where the XML names none.",
        detect="devices/memballoon/@model of the domain; in the guest a virtio device 0x0005 with "
        "a driver.",
        remedy="Write <memballoon model='none'/> within <devices>, and power-cycle the virtual "
        "machine.",
        source='libvirt, Domain XML format, section "Memory balloon device"; VIRTIO 1.2, section 5 '
        "(device id 5)",
        needs=(),
        judge=_without_balloon,
    ),
    StackRule(
        code="KVM017",
        layers=("kvm",),
        severity=Severity.ERROR,
        title="Guest memory is whole pages",
        why="257 MiB on pages of 2 MiB are accepted when the domain is defined and fail when it "
        'starts ("madvise: Invalid argument").',
        detect="memory and numa/cell/@memory against hugepages/page/@size.",
        remedy="Round the memory, and that of each cell, up to whole pages.",
        source='libvirt, Domain XML format, section "Memory Backing" (hugepages); the failure is '
        "that of QEMU 7.2 under libvirt 9.0",
        needs=("domains",),
        judge=of_each_domain(_whole_pages),
    ),
    StackRule(
        code="KVM018",
        layers=("kvm", "hypervisor"),
        severity=Severity.ERROR,
        title="The page size asked for has a hugetlbfs",
        why='The domain does not start ("Unable to find any usable hugetlbfs mount for 1048576 '
        'KiB").',
        detect="hugepages/page/@size against the hugetlbfs lines of /proc/mounts there.",
        remedy="Mount one: mount -t hugetlbfs -o pagesize=1G none /dev/hugepages1G; then restart "
        "libvirtd.",
        source='libvirt, Domain XML format, section "Memory Backing" (hugepages); the message is '
        "that of libvirt 9.0; Linux, Documentation/admin-guide/mm/hugetlbpage.rst",
        needs=("domains", "hypervisor.hugetlbfs"),
        judge=_pages_are_mounted,
    ),
)
