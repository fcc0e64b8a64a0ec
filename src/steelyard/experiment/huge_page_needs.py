"""How many huge pages the servers of treatments take: what ``vm.nr_hugepages: auto`` becomes."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from steelyard.engines.postgres.installation import Installation
from steelyard.gateways.host import Host
from steelyard.gateways.process import Processes
from steelyard.model.experiment import Treatment
from steelyard.model.units import KIB
from steelyard.tuning.planning.huge_pages import (
    COUNTING_SINCE,
    formula_counter,
    server_counter,
)

_POOLS: Final = "/sys/kernel/mm/hugepages"


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
    match = re.search(r"^Hugepagesize:\s+(\d+)", host.read("/proc/meminfo") or "", re.MULTILINE)
    return int(match[1]) * KIB if match else 0


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
    directory = f"{_POOLS}/hugepages-{page_bytes(host) // KIB}kB"
    total, free, surplus, reserved = (
        _number(host.read(f"{directory}/{name}_hugepages"))
        for name in ("nr", "free", "surplus", "resv")
    )
    return Pool(standing=total - surplus, taken=total - free + reserved)


def _number(text: str | None) -> int:
    return int(text) if text and text.strip().isdigit() else 0
