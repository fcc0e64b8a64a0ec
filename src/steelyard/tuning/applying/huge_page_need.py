"""Whether PostgreSQL gets the huge pages that a plan has it ask for.

With ``huge_pages = on`` a server without enough of them does not start, so a plan that ends there
would cost an outage at the next restart. Refused before anything is touched, and once more just
before the setting is written.
"""

from dataclasses import dataclass, field

from steelyard.gateways.host import Host
from steelyard.model.errors import PreflightError
from steelyard.model.stack import Knob
from steelyard.model.units import KIB, format_bytes
from steelyard.tuning.applying.hugetlb_limits import tightest
from steelyard.tuning.applying.local_server import huge_page_mapping
from steelyard.tuning.facts.pools import POOLS, pool_at


@dataclass(frozen=True, slots=True, kw_only=True)
class HugePageNeed:
    """How many huge pages the planned server takes.

    Attributes:
        pages: None: nobody counted them, and nothing is refused.
        pools: Knobs of the plan that make pools of this size.
        counted_by: As in ``PostgresDesign``.
        elsewhere: The operator says that the server runs on another machine than this one.
    """

    pages: int | None = None
    page_bytes: int = 2 * KIB * KIB
    pools: tuple[Knob, ...] = field(default=())
    counted_by: str = ""
    elsewhere: bool = False


def require_elsewhere(need: HugePageNeed) -> None:
    """Check that the operator has said where a server is whose process is not visible here.

    Nothing else tells: an ordinary account sees no server's directory, a container hides its
    processes, a tunnel ends at localhost, and ``boot_id`` may differ within one kernel.

    Raises:
        PreflightError: They have not, so nobody can say whether its huge pages are there.
    """
    if not need.elsewhere:
        raise PreflightError(
            "the server's process is not visible from here, so nobody can say whether its huge"
            " pages are there: with huge_pages = on and too few of them it would not start again",
            hint="Run this as root on the machine of the server and outside of containers; where"
            " the server is on another machine and has its huge pages, say --remote.",
        )


def require_pages(need: HugePageNeed, pid: int, host: Host, *, planned: bool) -> None:
    """Check that the pools are large enough for a server on this machine.

    Args:
        need: Of the plan.
        pid: The server's first process; what it has already it need not get.
        host: The machine.
        planned: Count the pools as the plan will make them, not as they are.

    Raises:
        PreflightError: They are not, with the number that would do.
    """
    available = _available(need, pid, host, planned=planned)
    if need.pages is None or available is None or available >= need.pages:
        return
    size = format_bytes(need.page_bytes)
    missing = need.pages - available
    raise PreflightError(
        f"huge_pages = on needs {need.pages} huge pages of {size} ({need.counted_by}), and"
        f" {available} are there for it: the server would not start again",
        hint=f"Make the pool larger by {missing} pages, so that {_total(need, host) + missing} are"
        " in it, or ask for a smaller shared_buffers.",
    )


def require_no_sigbus(need: HugePageNeed, pid: int, host: Host) -> None:
    """Check that no control group kills the server when it touches its huge pages.

    Raises:
        PreflightError: One does, with the limit that would do.
    """
    limit = tightest(pid, need.page_bytes, host)
    if limit is None or need.pages is None:
        return
    needed = need.pages * need.page_bytes
    reserved = limit.reservations_bytes
    if reserved is not None and reserved < needed:
        raise PreflightError(
            f"the control group of the server lets it reserve {format_bytes(reserved)} of huge"
            f" pages, and it needs {format_bytes(needed)}: it would not start on them",
            hint=f"Raise the limits of {limit.reserving_group} to {needed} bytes, or set"
            " huge_pages = off.",
        )
    if limit.faults_bytes is not None and limit.faults_bytes < needed:
        raise PreflightError(
            f"the control group {limit.group} limits huge pages to"
            f" {format_bytes(limit.faults_bytes)}, the server needs {format_bytes(needed)}, and"
            " nothing limits their reservation: it would start and be killed by SIGBUS when it"
            " touches a page above the limit, without a word in its log",
            hint=f"Raise the limit to {needed} bytes (in Kubernetes: request that much"
            " hugepages), set huge_pages = off, or use a runtime that limits reservations too"
            " (runc 1.1.10, 1.2 or later).",
        )


def _available(need: HugePageNeed, pid: int, host: Host, *, planned: bool) -> int | None:
    """Return how many pages the server can have; what it holds now counts."""
    pool = pool_at(host, _whole(need), need.page_bytes)
    if pool is None:
        return None
    mapping = huge_page_mapping(pid, host)
    own = mapping.size_bytes // need.page_bytes if mapping else 0
    lent = host.read(f"{_whole(need)}/nr_overcommit_hugepages") or ""
    more = max(int(lent) - pool.surplus, 0) if lent.strip().isdigit() else 0
    growing = sum(_growth(knob, host) for knob in need.pools) if planned else 0
    return pool.available + own + more + growing


def _growth(knob: Knob, host: Host) -> int:
    """Return by how many pages a knob makes its pool larger."""
    node, _, size = knob.place.partition("/")
    name = f"hugepages-{int(size) // KIB}kB"
    place = (
        f"{POOLS}/{name}"
        if node == "all"
        else f"/sys/devices/system/node/node{node}/hugepages/{name}"
    )
    pool = pool_at(host, place, int(size))
    return int(knob.value) - (pool.own if pool else 0)


def _total(need: HugePageNeed, host: Host) -> int:
    pool = pool_at(host, _whole(need), need.page_bytes)
    return (pool.total if pool else 0) + sum(_growth(knob, host) for knob in need.pools)


def _whole(need: HugePageNeed) -> str:
    return f"{POOLS}/hugepages-{need.page_bytes // KIB}kB"
