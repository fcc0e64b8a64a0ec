"""The door to pools of huge pages, of one NUMA node or of all.

The kernel takes any number and gives what it can: asked for 200 it may give 82 and say nothing
(measured). Pages that somebody uses when the pool shrinks become surplus pages: they belong to no
pool any more and go when their user ends (Documentation/admin-guide/mm/hugetlbpage.rst). A pool
here is therefore its pages without the surplus.
"""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.gateways.host import Host
from steelyard.gateways.kernel import KernelFiles
from steelyard.model.errors import PreflightError, TargetError
from steelyard.model.linux_facts import PagePool
from steelyard.model.stack import Knob
from steelyard.model.units import KIB, format_bytes
from steelyard.tuning.applying.door import Check, Seen
from steelyard.tuning.applying.kernel_files import require_writable
from steelyard.tuning.facts.pools import default_page_bytes, pool_at
from steelyard.tuning.facts.processes import holders

_ALL: Final = "all"
_PLACE: Final = re.compile(r"(?:all|\d{1,5})/(\d{4,15})")
_MACHINE: Final = "/sys/kernel/mm/hugepages"
_NODES: Final = "/sys/devices/system/node"
_WRITES: Final = 3  # each one compacts memory anew; a guess that more do not help


@dataclass(frozen=True, slots=True, kw_only=True)
class HugePagesDoor:
    """Makes and gives back huge pages."""

    host: Host
    kernel: KernelFiles

    def default_page_bytes(self) -> int:
        """Return the size that ``vm.nr_hugepages`` counts.

        Raises:
            PreflightError: This kernel has no huge pages.
        """
        size = default_page_bytes(self.host)
        if size is None:
            raise PreflightError(
                "this kernel has no huge pages", hint="Leave them out of the plan."
            )
        return size

    def seen(self, knob: Knob) -> Seen:
        """Return the pages of the pool, without surplus ones."""
        directory = self._directory(knob)
        pool = self._pool(directory, _page_bytes(knob))
        if pool is None:
            return Seen(value=None, source=directory, reason=f"{directory} is not there")
        return Seen(value=str(pool.own), source=f"{directory}/nr_hugepages")

    def require(self, knob: Knob) -> None:
        """Check that the pool is there, and that there is memory for it.

        Raises:
            PreflightError: There is not, with how many pages would do; or pages are in use.
            PrivilegeError: The account may not.
        """
        directory, size = self._directory(knob), _page_bytes(knob)
        pool = self._pool(directory, size)
        if pool is None:
            raise PreflightError(
                f"there are no huge pages of {format_bytes(size)} at {directory}",
                hint=f"This machine has {self._sizes()}.",
            )
        require_writable(f"{directory}/nr_hugepages", self.host, self.kernel)
        asked, used = _pages(knob), pool.total - pool.available
        if asked < min(used, pool.own):
            raise PreflightError(
                f"{asked} huge pages of {format_bytes(size)} are asked for {_where(knob)}, and"
                f" {used} are in use or promised there",
                hint=f"Ask for {used} at least, or stop who uses them: {self._users()}.",
            )
        fitting = pool.own + self._free_bytes(knob) // size
        if asked > fitting:
            raise PreflightError(
                f"{asked} huge pages of {format_bytes(size)} do not fit into the memory that is"
                f" free {_where(knob)}: {fitting} would",
                hint="Ask for fewer (a smaller shared_buffers), or free memory.",
            )

    def snapshot(self, knob: Knob) -> str:
        """Return the pages of each node's pool, and how many more were surplus."""
        size = _page_bytes(knob)
        found = {place: self._pool(place, size) for place in self._directories(knob)}
        pools = {place: pool for place, pool in found.items() if pool is not None}
        return json.dumps({d: {"pages": p.own, "surplus": p.surplus} for d, p in pools.items()})

    def apply(self, knob: Knob) -> None:
        """Set the size of the pool.

        Raises:
            TargetError: The kernel gave fewer pages.
        """
        directory, asked = self._directory(knob), _pages(knob)
        for _ in range(_WRITES):
            self.kernel.write(f"{directory}/nr_hugepages", str(asked))
            pool = self._pool(directory, _page_bytes(knob))
            if pool is not None and pool.own >= asked:
                return
        raise TargetError(self._shortfall(knob), hint=_remedy(knob))

    def verify(self, knob: Knob) -> Check:
        """Return whether the pool has as many pages as were asked for."""
        pool = self._pool(self._directory(knob), _page_bytes(knob))
        if pool is None:
            return Check(holds=None, facts=(f"{self._directory(knob)} is not there.",))
        holds = pool.own == _pages(knob)
        spare = f" {pool.free} of them are free." if holds else ""
        remedy = "" if holds else _remedy(knob)
        return Check(holds=holds, facts=(f"{self._shortfall(knob)}.{spare}",), remedy=remedy)

    def revert(self, knob: Knob, snapshot: str) -> None:
        """Give each pool the pages that it had.

        Raises:
            TargetError: Somebody still uses pages, or the kernel did not give enough back.
        """
        before: Mapping[str, Mapping[str, int]] = json.loads(snapshot)
        size = _page_bytes(knob)
        for directory, was in before.items():
            pool = self._pool(directory, size)
            if pool is not None and pool.own != was["pages"]:
                self.kernel.write(f"{directory}/nr_hugepages", str(was["pages"]))
        for directory, was in before.items():
            self._require_back(directory, size, was)

    def commands(self, knob: Knob) -> Sequence[str]:
        """Return a line for the shell, and one that reads back what the kernel gave."""
        path = shlex.quote(f"{self._directory(knob)}/nr_hugepages")
        return (f"echo {_pages(knob)} > {path}", f"cat {path}")

    def _require_back(self, directory: str, size: int, was: Mapping[str, int]) -> None:
        pool = self._pool(directory, size)
        if pool is None or pool.own != was["pages"]:
            now = "gone" if pool is None else str(pool.own)
            raise TargetError(
                f"the pool in {directory} had {was['pages']} huge pages and has {now}",
                hint="Memory may be scattered: write 1 to /proc/sys/vm/compact_memory, then revert"
                " again.",
            )
        left = pool.surplus - was["surplus"]
        if left > 0:
            raise TargetError(
                f"{left} huge pages that the plan made are still in use: {self._users()}",
                hint="The kernel takes them back when their user ends or is restarted without"
                " them; then revert again.",
            )

    def _shortfall(self, knob: Knob) -> str:
        size = _page_bytes(knob)
        found = [(d, self._pool(d, size)) for d in self._directories(knob)]
        parts = [f"{pool.own} at {place}" for place, pool in found if pool is not None]
        return (
            f"{_pages(knob)} huge pages of {format_bytes(size)} were asked for {_where(knob)};"
            f" the kernel has {', '.join(parts)}"
        )

    def _directory(self, knob: Knob) -> str:
        node, name = knob.place.partition("/")[0], f"hugepages-{_page_bytes(knob) // KIB}kB"
        if node == _ALL:
            return f"{_MACHINE}/{name}"
        return f"{_NODES}/node{int(node)}/hugepages/{name}"

    def _directories(self, knob: Knob) -> tuple[str, ...]:
        """Return where the pages are: of ``all``, each node's own pool."""
        whole = self._directory(knob)
        if not knob.place.startswith(f"{_ALL}/"):
            return (whole,)
        name = whole.rpartition("/")[2]
        numbers = sorted(
            int(node.removeprefix("node"))
            for node in self.host.names(_NODES)
            if re.fullmatch(r"node\d+", node)
        )
        nodes = [f"{_NODES}/node{number}/hugepages/{name}" for number in numbers]
        return tuple(d for d in nodes if self._pool(d, _page_bytes(knob)) is not None) or (whole,)

    def _pool(self, directory: str, page_bytes: int) -> PagePool | None:
        return pool_at(self.host, directory, page_bytes)

    def _sizes(self) -> str:
        found = [name for name in self.host.names(_MACHINE) if name.startswith("hugepages-")]
        return ", ".join(sorted(found)) or "none"

    def _free_bytes(self, knob: Knob) -> int:
        """Return the memory that the kernel could turn into huge pages, at most."""
        node = knob.place.partition("/")[0]
        text = self._meminfo() if node == _ALL else self._node_meminfo(int(node))
        amounts = {k: int(v) * KIB for k, v in re.findall(r"(\w+):\s+(\d+) kB", text)}
        if "MemAvailable" in amounts:
            return amounts["MemAvailable"]
        cache = amounts.get("FilePages", 0) - amounts.get("Shmem", 0)
        return amounts.get("MemFree", 0) + max(cache, 0) + amounts.get("SReclaimable", 0)

    def _meminfo(self) -> str:
        return self.host.read("/proc/meminfo") or ""

    def _node_meminfo(self, node: int) -> str:
        return self.host.read(f"{_NODES}/node{node}/meminfo") or ""

    def _users(self) -> str:
        """Return who holds huge pages, as far as this account may see it."""
        found = [
            f"{user.command} (process {user.pid}, {format_bytes(user.held_bytes)})"
            for user in holders(self.host)
        ]
        return ", ".join(found) or "no process that this account can see has touched any"


def _page_bytes(knob: Knob) -> int:
    match = _PLACE.fullmatch(knob.place)
    if match is None:
        raise PreflightError(
            f"{knob.place!r} names no pool of huge pages",
            hint=f"Write NODE/BYTES or {_ALL}/BYTES, such as 0/2097152.",
        )
    return int(match[1])


def _where(knob: Knob) -> str:
    """Return the place of a pool in words: its size is told beside it."""
    node = knob.place.partition("/")[0]
    return "on all nodes" if node == _ALL else f"on node {int(node)}"


def _pages(knob: Knob) -> int:
    if not re.fullmatch(r"\d{1,12}", knob.value):
        raise PreflightError(
            f"{knob.value!r} is no number of huge pages", hint="Write it as a whole number."
        )
    return int(knob.value)


def _remedy(knob: Knob) -> str:
    size = _page_bytes(knob)
    short = f"{size // KIB // KIB}M" if size >= KIB * KIB else f"{size // KIB}K"
    return (
        "Memory may be scattered: write 1 to /proc/sys/vm/compact_memory and apply again, or"
        f" reserve them at boot with hugepagesz={short} hugepages={knob.value} on the kernel's"
        " command line; else ask for fewer."
    )
