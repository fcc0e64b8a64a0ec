"""What surrounds server and generator: other processes, memory nodes, network links.

Before and after a run in one piece there is a census of all processes. In turns each turn is looked
at by itself, and to read all processes at every switch would cost milliseconds. Once a second all
are looked at, and those that have used a CPU since are followed: only they are read at a switch.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from steelyard.campaign.evidence.processes import (
    Process,
    all_processes,
    living,
    parse_device_use,
)
from steelyard.core.measurement import OtherProcess
from steelyard.gateways.host import Clock, Host, whole_number

MOST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """All processes at one moment, or those that are followed.

    Attributes:
        device_bytes: Read from and written to devices, of those whose it may be seen.
    """

    processes: Mapping[int, Process]
    device_bytes: Mapping[int, float]


def census(host: Host, pids: Iterable[int] | None = None) -> Census:
    """Return all processes of now, or these of them."""
    processes = all_processes(host) if pids is None else living(host, pids)
    used = {pid: _io_bytes(host, pid) for pid, p in processes.items() if not p.is_of_kernel}
    seen = {pid: used_bytes for pid, used_bytes in used.items() if used_bytes is not None}
    return Census(processes=processes, device_bytes=seen)


def _io_bytes(host: Host, pid: int) -> float | None:
    """Return what a process had read from and written to devices; None where it is not seen."""
    use = parse_device_use(host.read(f"/proc/{pid}/io"))
    return None if use is None else float(use.read_bytes + use.written_bytes)


def used_between(before: Census, after: Census) -> Iterator[tuple[Process, float, float | None]]:
    """Yield those who used a CPU in between, with its seconds and their bytes of devices.

    What a process's children used counts for it once it has waited for their end: a neighbour
    that starts many short programs is still seen. A process that began and ended in between
    without a parent who waits for it is not.
    """
    living, earlier = after.processes, before.processes
    cpu_before = _counted_before(earlier, living, {p: e.whole_cpu_s for p, e in earlier.items()})
    io_before = _counted_before(earlier, living, before.device_bytes)
    for pid, process in living.items():
        cpu_s = process.whole_cpu_s - cpu_before[pid]
        if cpu_s > 0:
            moved = after.device_bytes.get(pid)
            yield process, cpu_s, None if moved is None else max(moved - io_before[pid], 0.0)


def _counted_before(
    before: Mapping[int, Process], after: Mapping[int, Process], used: Mapping[int, float]
) -> Mapping[int, float]:
    """Return by process what was used already; of one that ended, by who waited for it."""
    already: dict[int, float] = defaultdict(float)
    for each in before.values():
        for one in line_of(each, before):
            later = after.get(one.pid)
            if later is not None and later.started == one.started:
                already[one.pid] += used.get(each.pid, 0.0)
                break
    return already


def line_of(process: Process, processes: Mapping[int, Process]) -> Iterator[Process]:
    """Yield a process and its ancestors."""
    each: Process | None = process
    for _ in range(len(processes)):  # ids that change hands during a census may make a circle
        if each is None:
            return
        yield each
        each = processes.get(each.parent)


def _is_of(ours: Collection[int], process: Process, processes: Mapping[int, Process]) -> bool:
    return any(one.pid in ours for one in line_of(process, processes))


_LOOK_S: Final = 1.0
_FOLLOWED: Final = 8  # a guess: some 30 us each at every switch; five are ever told


@dataclass(slots=True, kw_only=True)
class Crowd:
    """Follows the processes that are not ours, for all runs that take turns together.

    Attributes:
        ours: Processes that are left out, with all that descend from them.
        sees_all: All processes of the machine can be seen.
    """

    host: Host
    clock: Clock
    ours: frozenset[int]
    sees_all: bool = False
    _looked_at: float | None = None
    _used_s: dict[int, float] = field(default_factory=dict)  # by all, at the last look
    _grown_s: dict[int, float] = field(default_factory=dict)  # since the first, by the followed
    _followed: list[int] = field(default_factory=list)

    def now(self) -> Census:
        """Return the followed processes; once a second they are chosen again."""
        now_s = self.clock.monotonic()
        if self._looked_at is None or now_s - self._looked_at >= _LOOK_S:
            self._looked_at = now_s
            self._look()
        return census(self.host, self._followed)

    def _look(self) -> None:
        """Choose those that have used the most since the first look."""
        everybody = all_processes(self.host)
        self.sees_all = _has_kernel(everybody)
        for pid, process in everybody.items():
            before_s = self._used_s.get(pid)
            grown_s = 0.0 if before_s is None else process.whole_cpu_s - before_s
            if grown_s > 0.0 and not _is_of(self.ours, process, everybody):
                self._grown_s[pid] = self._grown_s.get(pid, 0.0) + grown_s
        self._used_s = {pid: process.whole_cpu_s for pid, process in everybody.items()}
        living = (pid for pid in self._grown_s if pid in everybody)
        self._followed = sorted(living, key=lambda pid: (-self._grown_s[pid], pid))[:_FOLLOWED]


@dataclass(slots=True, kw_only=True)
class Bystanders:
    """What other processes used while one run went on.

    Attributes:
        ours: Processes that are left out, with all that descend from them.
        crowd: Chooses whom to look at in turns. None: the run is in one piece, and all processes
            are looked at before and after it.
    """

    host: Host
    ours: frozenset[int]
    crowd: Crowd | None
    _before: Census = field(init=False)
    _sees_all: bool = False
    _used: dict[int, OtherProcess] = field(default_factory=dict)
    _cpu_s: float = 0.0

    def begin(self) -> None:
        """Look at them before the run goes on."""
        self._before = self._look()

    def end(self, most_s: float) -> None:
        """Count what they used since then.

        Args:
            most_s: What the machine's CPUs can give in a turn. Who waits for the end of children
                has all they ever used at once, and most of that is not of this turn.
        """
        after = self._look()
        self._sees_all = _has_kernel(after.processes) if self.crowd is None else self.crowd.sees_all
        for process, cpu_s, io_bytes in used_between(self._before, after):
            if _is_of(self.ours, process, after.processes):
                continue
            if self.crowd is None:
                self._add(process, cpu_s, io_bytes)
            elif _is_same(process, self._before.processes.get(process.pid)):
                self._add(process, min(cpu_s, most_s), io_bytes)

    def heaviest(self) -> tuple[OtherProcess, ...]:
        """Return those that used the most CPU, at most five."""
        used = sorted(self._used.values(), key=lambda other: (-other.cpu_s, other.pid))[:MOST]
        return tuple(replace(other, cpu_s=round(other.cpu_s, 2)) for other in used)

    def cpu_s(self) -> float | None:
        """Return what all that were looked at used together, but for the threads of the kernel.

        None where not all processes of the machine can be seen, as in a container.
        """
        return self._cpu_s if self._sees_all else None

    def _look(self) -> Census:
        return census(self.host) if self.crowd is None else self.crowd.now()

    def _add(self, process: Process, cpu_s: float, io_bytes: float | None) -> None:
        last = self._used.get(process.pid)
        if last is not None:
            moved = (last.io_bytes, io_bytes)
            io_bytes = sum(b for b in moved if b is not None) if moved != (None, None) else None
        self._used[process.pid] = OtherProcess(
            pid=process.pid,
            name=process.name,
            cpu_s=cpu_s + (0.0 if last is None else last.cpu_s),
            io_bytes=io_bytes,
        )
        self._cpu_s += 0.0 if process.is_of_kernel else cpu_s


def _has_kernel(processes: Mapping[int, Process]) -> bool:
    """Return whether these are of the first namespace of processes, where all are."""
    return any(process.is_of_kernel for process in processes.values())


def _is_same(process: Process, before: Process | None) -> bool:
    return before is not None and before.started == process.started


# What is mapped on huge pages of the pool without a file, as PostgreSQL does (fs/hugetlbfs).
_ANONYMOUS_HUGE = re.compile(
    r"^([0-9a-f]{1,16})-([0-9a-f]{1,16}) ...s .*/anon_hugepage", re.MULTILINE
)
_ROLLED_UP = re.compile(r"^ShmemPmdMapped: +([0-9]{1,20}) kB$", re.MULTILINE)
_ON_NODE = re.compile(r"\bN([0-9]+)=([0-9]+)\b")
_PAGE_KB = re.compile(r"\bkernelpagesize_kB=([0-9]+)\b")


def huge_bytes(maps: str | None, rollup: str | None) -> int | None:
    """Return how much of its shared memory a process has on huge pages; None without ``maps``.

    A mapping from the pool counts with its size: the process itself may have touched little of it.
    Shared memory on transparent huge pages counts as far as the process maps it, by
    ``smaps_rollup``. Both together are a tenth of ``smaps``, which says the same.
    """
    if not maps:
        return None
    pool = sum(int(end, 16) - int(begin, 16) for begin, end in _ANONYMOUS_HUGE.findall(maps))
    transparent = _ROLLED_UP.search(rollup or "")
    return pool + 1024 * int(transparent[1]) if transparent else pool


def bytes_by_node(numa_maps: str | None) -> Counter[int]:
    """Return the bytes that a process maps on each memory node."""
    found: Counter[int] = Counter()
    for line in (numa_maps or "").splitlines():
        match = _PAGE_KB.search(line)
        kilobytes = whole_number(match[1]) if match else None
        for node, pages in _ON_NODE.findall(line) if kilobytes else ():
            found[int(node[:9])] += (whole_number(pages) or 0) * (kilobytes or 0) * 1024
    return found


def remote_fraction(nodes: Counter[int]) -> float | None:
    """Return the part that is not on the node which holds the most; None of nothing."""
    whole = nodes.total()
    return 1.0 - max(nodes.values()) / whole if whole else None


_LINKS = "/sys/class/net"
_LOOPBACK = "lo"
_DIRECTIONS = ("rx_bytes", "tx_bytes")
_BYTES_PER_MBIT = 125_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What went through one link since the machine's start, and what fits through it."""

    received: int
    sent: int
    bytes_per_s: float


def links(host: Host) -> dict[str, Moved]:
    """Return every link that says how fast it is; virtual ones often say nothing, or -1."""
    found = {}
    for name in host.names(_LINKS):
        speed = whole_number((host.read(f"{_LINKS}/{name}/speed") or "").strip())
        counts = [host.read(f"{_LINKS}/{name}/statistics/{each}") for each in _DIRECTIONS]
        received, sent = (whole_number((text or "").strip()) for text in counts)
        if name != _LOOPBACK and speed and received is not None and sent is not None:
            found[name] = Moved(received=received, sent=sent, bytes_per_s=speed * _BYTES_PER_MBIT)
    return found


@dataclass(slots=True, kw_only=True)
class LinkSums:
    """What went through the links in a run, or in its parts where it is paused in between."""

    host: Host
    _before: dict[str, Moved] = field(default_factory=dict)
    _sums: dict[str, Moved] = field(default_factory=dict)

    def begin(self) -> None:
        """Begin a part."""
        self._before = links(self.host)

    def end(self) -> None:
        """End it; a link that came meanwhile, or was reset, counts for nothing."""
        for name, now in links(self.host).items():
            then = self._before.get(name)
            if then is not None:
                sum_ = self._sums.get(name, replace(now, received=0, sent=0))
                self._sums[name] = replace(
                    sum_,
                    received=sum_.received + max(now.received - then.received, 0),
                    sent=sum_.sent + max(now.sent - then.sent, 0),
                )

    def busiest_fraction(self, seconds: float) -> float | None:
        """Return the most of a link that was used, in its busier direction; None without a link."""
        if seconds <= 0 or not self._sums:
            return None
        return max(
            max(link.received, link.sent) / (link.bytes_per_s * seconds)
            for link in self._sums.values()
        )
