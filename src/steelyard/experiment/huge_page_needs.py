"""How many huge pages the servers of treatments take: what ``vm.nr_hugepages: auto`` becomes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from steelyard.engines.postgres.installation import Installation
from steelyard.gateways.host import Host
from steelyard.gateways.process import Processes
from steelyard.model.experiment import Treatment
from steelyard.model.units import KIB
from steelyard.tuning.facts.pools import POOLS, default_page_bytes, pool_at
from steelyard.tuning.planning.huge_pages import (
    COUNTING_SINCE,
    formula_counter,
    server_counter,
)


class HugePageNeeds:
    """Counts the pages of each treatment's server: by its own program, or by a formula.

    Args:
        installations: Server programs of the treatments, by name.
        processes: Runs them.
        account: Unprivileged one to run them as, where Steelyard is root.
        host: Says how large a huge page is.
    """

    def __init__(
        self,
        installations: Mapping[str, Installation],
        processes: Processes,
        account: str | None,
        host: Host,
    ) -> None:
        self._installations = installations
        self._processes = processes
        self._account = account
        self._host = host

    def estimate(self, treatment: Treatment) -> int:
        """Return about how many pages a treatment's server takes; nothing is started."""
        count = formula_counter(self._installations[treatment.name].major)
        return count(treatment.asked_folded(), page_bytes(self._host)).pages

    def count(self, treatments: Iterable[Treatment]) -> Mapping[str, int]:
        """Return how many pages the servers of treatments take, by name.

        Raises:
            PreflightError: A server's program does not say.
        """
        by_program: dict[Installation, list[Treatment]] = {}
        for treatment in treatments:
            by_program.setdefault(self._installations[treatment.name], []).append(treatment)
        found: dict[str, int] = {}
        for installation, mine in by_program.items():
            if installation.major < COUNTING_SINCE:
                found |= {each.name: self.estimate(each) for each in mine}
                continue
            with server_counter(installation, self._processes, self._account) as count:
                size = page_bytes(self._host)
                found |= {each.name: count(each.asked_folded(), size).pages for each in mine}
        return found


def page_bytes(host: Host) -> int:
    """Return the size of the pages that ``vm.nr_hugepages`` counts; 0 where there are none."""
    return default_page_bytes(host) or 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """The machine's pool of huge pages at one moment.

    Attributes:
        standing: Its pages, without those that the kernel lent beyond its size.
        taken: In use by others, or promised to them.
    """

    standing: int
    taken: int

    def with_room_for(self, needed: int) -> int:
        """Return how large the pool must be for a server that takes so many pages.

        What others have is on top, and no pool becomes smaller than it is: its pages may be for
        somebody who has not started yet.
        """
        return max(self.standing, self.taken + needed)


def pool_of(host: Host) -> Pool:
    """Return the pool as it is now."""
    size = page_bytes(host)
    pool = pool_at(host, f"{POOLS}/hugepages-{size // KIB}kB", size)
    if pool is None:
        return Pool(standing=0, taken=0)
    return Pool(standing=pool.own, taken=pool.total - pool.available)
