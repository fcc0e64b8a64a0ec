"""What others hold of a machine's memory and CPUs: virtual machines, and pages of its pools."""

from collections.abc import Iterator, Sequence

from steelyard.model.linux_facts import LinuxFacts, NumaNode, PagePool
from steelyard.model.stack_facts import DomainFacts, StackFacts


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


def share_of(domain: DomainFacts, node: NumaNode, nodes: Sequence[NumaNode]) -> int:
    """Return how much of a virtual machine's memory counts on a node, in bytes.

    What is bound to several nodes counts on each by its size; what is bound to none may be
    anywhere, so it counts on all of them.
    """
    return sum(
        _part(size, node, [each for each in nodes if each.number in bound] or nodes)
        for bound, size in _bindings(domain)
    )


def _bindings(domain: DomainFacts) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield nodes and bytes: of cells that are bound themselves, then of the rest."""
    bound = [cell for cell in domain.cells if cell.memory_nodes]
    yield from ((cell.memory_nodes, cell.memory_bytes) for cell in bound)
    rest = domain.memory_bytes - sum(cell.memory_bytes for cell in bound)
    if rest > 0:
        yield domain.memory_nodes, rest


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
        -(-share_of(domain, node, nodes) // page_bytes)
        for domain in domains
        if not domain.running and domain.huge_page_bytes == page_bytes
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
    sizes |= {each.huge_page_bytes for each in domains if each.huge_page_bytes}
    ordinary = [each for each in domains if not each.huge_page_bytes]
    total = sum(share_of(each, node, nodes) for each in ordinary)
    for size in sizes:
        pool = pool_of(node.pools, size)
        same = [each for each in domains if each.huge_page_bytes == size]
        if size != page_bytes:
            there = pool.total * size if pool is not None else 0
            total += max(there, sum(share_of(each, node, nodes) for each in same))
            continue
        used = pool.total - pool.free if pool is not None else 0
        used = max(used + promised_pages(linux, node, size) - own_pages, 0) * size
        run = sum(share_of(each, node, nodes) for each in same if each.running)
        total += max(used, run) + pages_to_come(domains, node, nodes, size) * size
    return total
