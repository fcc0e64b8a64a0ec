"""The door to pools of huge pages, and whether PostgreSQL gets the pages that a plan asks for.

The kernel takes any number and gives what it can: asked for 200 it may give 82 and say nothing
(measured). Pages that somebody uses when the pool shrinks become surplus pages: they belong to no
pool any more and go when their user ends (Documentation/admin-guide/mm/hugetlbpage.rst). A pool
here is therefore its pages without the surplus, of one NUMA node or of all.

With ``huge_pages = on`` a server without enough of them does not start, so a plan that ends there
would cost an outage at the next restart. It is refused before anything is touched, and once more
just before the setting is written. Read for it: the server's process, its memory, and the limits of
its control group, in both versions.

A limit that counts when pages are touched kills: the server starts, because nothing counted its
reservation, and ends by SIGBUS when it touches a page above the limit. Only a limit on
reservations (``rsvd``) refuses it in order. Measured with PostgreSQL 15 and 18: exit status 135,
nothing in the log. Source: Documentation/admin-guide/cgroup-v1/hugetlb.rst.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from steelyard.core.outside import ServerAddress
from steelyard.core.stack import Knob
from steelyard.core.wording import GIB, KIB, MIB, PreflightError, TargetError, format_bytes
from steelyard.gateways.host import (
    Host,
    KernelFiles,
    files_of,
    groups_around,
    memory_bytes,
    smallest_limit,
)
from steelyard.gateways.sql import Sql
from steelyard.tuning.apply.door import Check, KnobDoor, Seen, require_writable
from steelyard.tuning.facts.linux import POOLS, default_page_bytes, holders, pool_at

_ALL: Final = "all"
_PLACE: Final = re.compile(r"(?:all|\d{1,5})/(\d{4,15})")
_NODES: Final = "/sys/devices/system/node"
_WRITES: Final = 3  # each one compacts memory anew; a guess that more do not help


@dataclass(frozen=True, slots=True, kw_only=True)
class HugePagesDoor(KnobDoor):
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
        directory = _directory(knob)
        pool = pool_at(self.host, directory, _page_bytes(knob))
        if pool is None:
            return Seen(value=None, source=directory, reason=f"{directory} is not there")
        return Seen(value=str(pool.own), source=f"{directory}/nr_hugepages")

    def require(self, knob: Knob) -> None:
        """Check that the pool is there with memory for it, and that no page too many is in use."""
        directory, size = _directory(knob), _page_bytes(knob)
        pool = pool_at(self.host, directory, size)
        if pool is None:
            names = [name for name in self.host.names(POOLS) if name.startswith("hugepages-")]
            raise PreflightError(
                f"there are no huge pages of {format_bytes(size)} at {directory}",
                hint=f"This machine has {', '.join(sorted(names)) or 'none'}.",
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
        found = {place: pool_at(self.host, place, size) for place in self._directories(knob)}
        pools = {place: pool for place, pool in found.items() if pool is not None}
        return json.dumps({d: {"pages": p.own, "surplus": p.surplus} for d, p in pools.items()})

    def apply(self, knob: Knob) -> None:
        """Set the size of the pool, and look whether the kernel gave as many pages."""
        directory, asked = _directory(knob), _pages(knob)
        for _ in range(_WRITES):
            self.kernel.write(f"{directory}/nr_hugepages", str(asked))
            pool = pool_at(self.host, directory, _page_bytes(knob))
            if pool is not None and pool.own >= asked:
                return
        raise TargetError(self._shortfall(knob), hint=_remedy(knob))

    def verify(self, knob: Knob) -> Check:
        """Return whether the pool has as many pages as were asked for."""
        pool = pool_at(self.host, _directory(knob), _page_bytes(knob))
        if pool is None:
            return Check(holds=None, facts=(f"{_directory(knob)} is not there.",))
        holds = pool.own == _pages(knob)
        spare = f" {pool.free} of them are free." if holds else ""
        remedy = "" if holds else _remedy(knob)
        return Check(holds=holds, facts=(f"{self._shortfall(knob)}.{spare}",), remedy=remedy)

    def revert(self, knob: Knob, snapshot: str) -> None:
        """Give each pool the pages that it had; they may be in use still, or not to be had."""
        before: Mapping[str, Mapping[str, int]] = json.loads(snapshot)
        size = _page_bytes(knob)
        for directory, was in before.items():
            pool = pool_at(self.host, directory, size)
            if pool is not None and pool.own != was["pages"]:
                self.kernel.write(f"{directory}/nr_hugepages", str(was["pages"]))
        for directory, was in before.items():
            self._require_back(directory, size, was)

    def commands(self, knob: Knob) -> Sequence[str]:
        """Return a line for the shell, and one that reads back what the kernel gave."""
        path = shlex.quote(f"{_directory(knob)}/nr_hugepages")
        return (f"echo {_pages(knob)} > {path}", f"cat {path}")

    def _require_back(self, directory: str, size: int, was: Mapping[str, int]) -> None:
        pool = pool_at(self.host, directory, size)
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
        found = [(d, pool_at(self.host, d, size)) for d in self._directories(knob)]
        parts = [f"{pool.own} at {place}" for place, pool in found if pool is not None]
        return (
            f"{_pages(knob)} huge pages of {format_bytes(size)} were asked for {_where(knob)};"
            f" the kernel has {', '.join(parts)}"
        )

    def _directories(self, knob: Knob) -> tuple[str, ...]:
        """Return where the pages are: of ``all``, each node's own pool."""
        whole = _directory(knob)
        if not knob.place.startswith(f"{_ALL}/"):
            return (whole,)
        name = whole.rpartition("/")[2]
        numbers = sorted(
            int(node.removeprefix("node"))
            for node in self.host.names(_NODES)
            if re.fullmatch(r"node\d+", node)
        )
        nodes = [f"{_NODES}/node{number}/hugepages/{name}" for number in numbers]
        size = _page_bytes(knob)
        return tuple(each for each in nodes if pool_at(self.host, each, size)) or (whole,)

    def _free_bytes(self, knob: Knob) -> int:
        """Return the memory that the kernel could turn into huge pages, at most."""
        node = knob.place.partition("/")[0]
        place = "/proc" if node == _ALL else f"{_NODES}/node{int(node)}"
        amounts = memory_bytes(self.host.read(f"{place}/meminfo"))
        if "MemAvailable" in amounts:
            return amounts["MemAvailable"]
        cache = amounts.get("FilePages", 0) - amounts.get("Shmem", 0)
        return amounts.get("MemFree", 0) + max(cache, 0) + amounts.get("SReclaimable", 0)

    def _users(self) -> str:
        found = [
            f"{user.command} (process {user.pid}, {format_bytes(user.held_bytes)})"
            for user in holders(self.host)
        ]
        return ", ".join(found) or "no process that this account can see has touched any"


def _directory(knob: Knob) -> str:
    node, name = knob.place.partition("/")[0], f"hugepages-{_page_bytes(knob) // KIB}kB"
    if node == _ALL:
        return f"{POOLS}/{name}"
    return f"{_NODES}/node{int(node)}/hugepages/{name}"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class HugetlbLimit:
    """Limits of one control group; None: unlimited, or a kernel without the file.

    Attributes:
        faults_bytes: Of pages that are touched.
        reservations_bytes: Of pages that are promised.
        reserving_group: Whose limit on promised pages it is; another one may be tighter there.
    """

    group: str
    faults_bytes: int | None
    reservations_bytes: int | None
    reserving_group: str = ""


def tightest(pid: int, page_bytes: int, host: Host) -> HugetlbLimit | None:
    """Return the group above a process with the lowest limit on touched pages, None without one.

    A reservation limit of any group above counts for it.
    """
    found = list(_limits(pid, page_bytes, host))
    reserving = [each for each in found if each.reservations_bytes is not None]
    limited = [each for each in found if each.faults_bytes is not None]
    if not limited and not reserving:
        return None
    lowest = min(limited or reserving, key=lambda each: each.faults_bytes or 0)
    first = min(reserving, key=lambda each: each.reservations_bytes or 0, default=None)
    return HugetlbLimit(
        group=lowest.group,
        faults_bytes=lowest.faults_bytes,
        reservations_bytes=None if first is None else first.reservations_bytes,
        reserving_group="" if first is None else first.group,
    )


def _limits(pid: int, page_bytes: int, host: Host) -> Iterator[HugetlbLimit]:
    units = ((GIB, "GB"), (MIB, "MB"), (KIB, "KB"))
    unit, suffix = next(it for it in units if page_bytes >= it[0])
    prefix = f"hugetlb.{page_bytes // unit}{suffix}"
    for group in groups_around(host, pid, "hugetlb"):
        faults, reservations = (
            smallest_limit(files_of(host, group), f"{name}.max", f"{name}.limit_in_bytes")
            for name in (prefix, f"{prefix}.rsvd")
        )
        yield HugetlbLimit(group=group, faults_bytes=faults, reservations_bytes=reservations)


_WHERE = """
SELECT current_setting('data_directory'), extract(epoch FROM pg_postmaster_start_time())::bigint
"""
# The server notes its start twice, a moment apart: in the file and for the function.
_SAME_START_S = 10.0
_MAPPING = re.compile(
    r"^\S+ \S+ \S+ \S+ \S+\s+/?anon_hugepage.*\n(?:(?!^[0-9a-f]+-[0-9a-f]+ ).*\n)*?"
    r"Size:\s+(\d+) kB\nKernelPageSize:\s+(\d+) kB",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryMapping:
    """Shared memory on huge pages: its size, and the size of a page."""

    size_bytes: int
    page_bytes: int


def find_process(address: ServerAddress, sql: Sql, host: Host) -> int | None:
    """Return the first process of a server, None where it runs elsewhere or hides its directory.

    The address alone tells nothing: a tunnel ends at localhost, too. What decides is that the
    directory of the server has its process and its moment of start in ``postmaster.pid``.
    """
    try:
        ((data, started),) = sql.rows(address, _WHERE)
    except TargetError:
        return None  # this user may not see data_directory
    lines = (host.read(f"{data}/postmaster.pid") or "").splitlines()
    if len(lines) < 3 or not lines[0].isdigit() or not lines[2].isdigit():
        return None
    close = abs(float(lines[2]) - float(str(started))) <= _SAME_START_S
    alive = host.read(f"/proc/{lines[0]}/comm") is not None
    return int(lines[0]) if close and alive else None


def huge_page_mapping(pid: int, host: Host) -> MemoryMapping | None:
    """Return the largest mapping on huge pages of a process, None where none is seen.

    What counts is the size of its pages: pages that are only reserved are in no ``Rss`` (measured).
    """
    found = _MAPPING.findall(host.read(f"/proc/{pid}/smaps") or "")
    mappings = [MemoryMapping(size_bytes=int(s) * KIB, page_bytes=int(p) * KIB) for s, p in found]
    return max(mappings, key=lambda mapping: mapping.size_bytes, default=None)


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
    missing, pool = need.pages - available, pool_at(host, _whole(need), need.page_bytes)
    total = (pool.total if pool else 0) + sum(_growth(knob, host) for knob in need.pools)
    raise PreflightError(
        f"huge_pages = on needs {need.pages} huge pages of {size} ({need.counted_by}), and"
        f" {available} are there for it: the server would not start again",
        hint=f"Make the pool larger by {missing} pages, so that {total + missing} are"
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
    pool = pool_at(host, _directory(knob), _page_bytes(knob))
    return int(knob.value) - (pool.own if pool else 0)


def _whole(need: HugePageNeed) -> str:
    return f"{POOLS}/hugepages-{need.page_bytes // KIB}kB"
