"""The huge pages of a machine that a database takes, beside those that others hold."""

from collections.abc import Collection

from steelyard.model.linux_facts import LinuxFacts, PagePool
from steelyard.model.stack import PoolDesign
from steelyard.model.stack_facts import StackFacts
from steelyard.tuning.planning.arithmetic import POOL_MARGIN, Budget, pages_with_margin


def pool_pages(budget: Budget, page_bytes: int, *, in_pod: bool) -> int:
    """Return the pages of a pool for the database alone, margin included."""
    pages = budget.reserved_bytes // page_bytes
    return pages_with_margin(pages, POOL_MARGIN) if in_pod else pages


def bystander_pages(facts: StackFacts, page_bytes: int) -> int:
    """Return the pages that programs outside of the plan hold.

    A server that was looked at itself is the plan's own: it gives its pages back at its restart.
    """
    linux, postgres = facts.linux or LinuxFacts(), facts.postgres
    own = "postgres" if postgres is not None and postgres.huge_pages_status == "on" else ""
    held = sum(
        user.held_bytes
        for user in linux.pool_users or ()
        if user.pid not in facts.intent.huge_page_pids and user.command != own
    )
    return -(-held // page_bytes)


def idle_elsewhere(
    facts: StackFacts, page_bytes: int, chosen: Collection[int]
) -> tuple[PoolDesign, ...]:
    """Return the pools of other nodes that are to shrink to what is in use (rule OS002).

    Where virtual machines are defined nothing is taken away: they may be started later.
    """
    linux = facts.linux or LinuxFacts()
    if facts.domains:
        return ()
    return tuple(
        PoolDesign(page_bytes=page_bytes, pages=pool.total - pool.free, node=node.number)
        for node in linux.nodes or ()
        if node.number not in chosen
        for pool in node.pools
        if pool.page_bytes == page_bytes and pool.free > 0
    )


def other_pools_bytes(pools: tuple[PagePool, ...], page_bytes: int) -> int:
    """Return the memory in huge pages of other sizes."""
    return sum(pool.total * pool.page_bytes for pool in pools if pool.page_bytes != page_bytes)
