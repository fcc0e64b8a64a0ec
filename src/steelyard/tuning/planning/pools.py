"""The huge pages of a machine that a database takes, beside those that others hold."""

from steelyard.model.linux_facts import LinuxFacts, PagePool
from steelyard.model.stack_facts import Intent
from steelyard.tuning.planning.arithmetic import POOL_MARGIN, Budget, pages_with_margin


def pool_pages(budget: Budget, page_bytes: int, *, in_pod: bool) -> int:
    """Return the pages of a pool for the database alone, margin included."""
    pages = budget.reserved_bytes // page_bytes
    return pages_with_margin(pages, POOL_MARGIN) if in_pod else pages


def bystander_pages(linux: LinuxFacts, intent: Intent, page_bytes: int) -> int:
    """Return the pages that processes outside of the plan hold."""
    held = sum(
        user.held_bytes for user in linux.pool_users or () if user.pid not in intent.huge_page_pids
    )
    return -(-held // page_bytes)


def other_pools_bytes(pools: tuple[PagePool, ...], page_bytes: int) -> int:
    """Return the memory in huge pages of other sizes."""
    return sum(pool.total * pool.page_bytes for pool in pools if pool.page_bytes != page_bytes)
