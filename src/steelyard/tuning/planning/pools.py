"""The huge pages of a machine that a database takes, beside those that others hold."""

from collections.abc import Collection
from typing import Final

from steelyard.engines.postgres.settings import in_unit
from steelyard.model.linux_facts import LinuxFacts, NumaNode
from steelyard.model.stack import PoolDesign
from steelyard.model.stack_facts import StackFacts
from steelyard.model.units import KIB
from steelyard.tuning.planning.arithmetic import POOL_MARGIN, Budget, pages_with_margin
from steelyard.tuning.planning.occupied import (
    machines_here,
    pages_to_come,
    pool_of,
    promised_pages,
)

_ON: Final = "on"


def pool_pages(budget: Budget, page_bytes: int, *, in_pod: bool) -> int:
    """Return the pages of a pool for the database alone, margin included."""
    pages = budget.reserved_bytes // page_bytes
    return pages_with_margin(pages, POOL_MARGIN) if in_pod else pages


def bystander_pages(facts: StackFacts, page_bytes: int) -> int:
    """Return the pages that others hold, or were promised, or will take when they are started.

    A server that was looked at itself is the plan's own: it gives its pages back at its restart,
    and only those. Pages that processes share count once, as the pool counts them.
    """
    linux = facts.linux or LinuxFacts()
    held = max(_held_pages(linux, page_bytes) - own_pages(facts, page_bytes), 0)
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


def _held_pages(linux: LinuxFacts, page_bytes: int) -> int:
    """Return the pages in use or promised; what processes hold where the pool does not tell."""
    pool = linux.pool(page_bytes)
    if pool is not None and _is_used(linux, page_bytes):
        return pool.total - pool.available
    return -(-sum(user.held_bytes for user in linux.pool_users or ()) // page_bytes)


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
