"""Whether this machine has the memory and the huge pages that configurations insist on.

A server whose shared memory is larger than the machine does not start, or swaps once it is used.
With ``huge_pages = on`` one without enough of them does not start; with ``try`` it starts without
them and says nothing, so that a comparison would weigh nothing. How many huge pages the servers of
configurations take is what ``vm.nr_hugepages: auto`` becomes.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from steelyard.core.errors import PreflightError
from steelyard.core.experiment import Configuration, Experiment, Layer
from steelyard.core.linux import HUGE_PAGES
from steelyard.core.units import KIB, format_bytes
from steelyard.gateways.host import Host
from steelyard.gateways.process import Processes
from steelyard.places.local.machine import capacity
from steelyard.systems.postgres.server import Installation
from steelyard.tuning.facts.linux import POOLS, default_page_bytes, pool_at
from steelyard.tuning.plan.arithmetic import (
    COUNTING_SINCE,
    formula_counter,
    least_shared_memory_bytes,
    server_counter,
)

# The least that any version takes: which one a configuration runs is not asked here.
_FRUGAL_VERSION = 15
_ROOM = 1.1  # of what the hint asks for: newer versions need up to 5 % more


def require_huge_pages(experiment: Experiment, host: Host) -> None:
    """Raise when a configuration with ``huge_pages = on`` could not start here.

    Nothing is checked where the machine does not tell its huge pages, nothing for endpoints, and
    nothing for configurations that reserve their own.

    Raises:
        PreflightError: With what is needed, what is free, and the command that reserves it.
    """
    free, page_bytes = _free_pages(host)
    if free is None or not page_bytes:
        return
    asking = [
        t
        for t in experiment.configurations
        if t.name in experiment.local_targets and HUGE_PAGES not in t.asked(Layer.LINUX)
    ]
    needs = {t.name: _needed(t, page_bytes) for t in asking if _insists(t)}
    if not needs:
        return
    name = max(needs, key=lambda configuration: needs[configuration])
    if needs[name] > free:
        reserve = int(needs[name] * _ROOM) + 1
        raise PreflightError(
            f"configuration `{name}` asks for huge_pages = on and needs at least {needs[name]} huge"
            f" pages of {format_bytes(page_bytes)}; {free} are free",
            hint=f"Reserve them (root): sysctl -w vm.nr_hugepages={reserve}, and set it back to"
            " what it was afterwards.",
        )


def require_shared_memory(experiment: Experiment, host: Host) -> None:
    """Raise when the shared memory of a configuration's server is larger than this machine.

    Limits of control groups count. Nothing is known of endpoints, and nothing is guessed.

    Raises:
        PreflightError: With what is needed and what there is.
    """
    local = [t for t in experiment.configurations if t.name in experiment.local_targets]
    needs = {t: least_shared_memory_bytes(t.asked_folded(), _FRUGAL_VERSION) for t in local}
    if not needs:
        return
    largest = max(needs, key=lambda configuration: needs[configuration])
    memory = capacity(host).memory_bytes
    if needs[largest] > memory:
        raise PreflightError(
            f"the server of configuration `{largest.name}` takes at least"
            f" {format_bytes(needs[largest])} of shared memory, and there are"
            f" {format_bytes(memory)} of memory here",
            hint="Lower its `shared_buffers`: a quarter of the memory is usual.",
        )


def _insists(configuration: Configuration) -> bool:
    asked = configuration.asked().get("huge_pages", "").lower()
    return asked in ("on", "true", "yes", "1")


def _needed(configuration: Configuration, page_bytes: int) -> int:
    return -(-least_shared_memory_bytes(configuration.asked(), _FRUGAL_VERSION) // page_bytes)


def _free_pages(host: Host) -> tuple[int | None, int]:
    """Return how many huge pages a server could still get, and the size of one."""
    found = {
        name: int(value)
        for name, value in re.findall(
            r"^(HugePages_\w+|Hugepagesize):\s+(\d+)",
            host.read("/proc/meminfo") or "",
            re.MULTILINE,
        )
    }
    if "HugePages_Free" not in found:
        return None, 0
    more = (host.read("/proc/sys/vm/nr_overcommit_hugepages") or "0").strip()
    surplus = max(int(more) - found.get("HugePages_Surp", 0), 0) if more.isdigit() else 0
    free = found["HugePages_Free"] - found.get("HugePages_Rsvd", 0) + surplus
    return free, found.get("Hugepagesize", 0) * KIB


class HugePageNeeds:
    """Counts the pages of each configuration's server: by its own program, or by a formula.

    Args:
        installations: Server programs of the configurations, by name.
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

    def estimate(self, configuration: Configuration) -> int:
        """Return about how many pages a configuration's server takes; nothing is started."""
        count = formula_counter(self._installations[configuration.name].major)
        return count(configuration.asked_folded(), page_bytes(self._host)).pages

    def count(self, configurations: Iterable[Configuration]) -> Mapping[str, int]:
        """Return how many pages the servers of configurations take, by name.

        Raises:
            PreflightError: A server's program does not say.
        """
        by_program: dict[Installation, list[Configuration]] = {}
        for configuration in configurations:
            by_program.setdefault(self._installations[configuration.name], []).append(configuration)
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
