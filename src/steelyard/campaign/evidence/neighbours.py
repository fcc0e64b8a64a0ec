"""What surrounds server and generator: other processes, memory nodes, network links.

In turns each turn is looked at by itself. To read all processes at every switch would cost
milliseconds. Once a second all are looked at, and those that have used a CPU since are followed:
only they are read at every switch.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from steelyard.campaign.evidence.processes import Process, all_processes, parse_device_use, process
from steelyard.core.measurement import OtherProcess
from steelyard.gateways.host import Clock, Host, whole_number

MOST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """All processes at one moment.

    Attributes:
        device_bytes: Read from and written to devices, of those whose it may be seen.
    """

    processes: Mapping[int, Process]
    device_bytes: Mapping[int, float]


def census(host: Host) -> Census:
    """Return all processes of now."""
    processes = all_processes(host)
    used = {pid: _io_bytes(host, pid) for pid, p in processes.items() if not p.is_of_kernel}
    seen = {pid: used_bytes for pid, used_bytes in used.items() if used_bytes is not None}
    return Census(processes=processes, device_bytes=seen)


def _io_bytes(host: Host, pid: int) -> float | None:
    """Return what a process had read from and written to devices; None where it is not seen."""
    use = parse_device_use(host.read(f"/proc/{pid}/io"))
    return None if use is None else float(use.read_bytes + use.written_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Others:
    """What the processes that are not ours used between two censuses.

    Attributes:
        heaviest: Those that used the most CPU, at most five.
        cpu_s: Of all but the threads of the kernel; None where not all processes of the machine can
            be seen from here, as in a container.
    """

    heaviest: tuple[OtherProcess, ...]
    cpu_s: float | None


def others_between(before: Census, after: Census, *, ours: Collection[int]) -> Others:
    """Return what other processes used in between.

    What a process's children used counts for it once it has waited for their end: a neighbour
    that starts many short programs is still seen. A process that began and ended in between
    without a parent who waits for it is not.

    Processes of ``ours`` are left out, with all that descend from them.
    """
    living, earlier = after.processes, before.processes
    cpu_before = _counted_before(earlier, living, {p: e.whole_cpu_s for p, e in earlier.items()})
    io_before = _counted_before(earlier, living, before.device_bytes)
    found = []
    for pid, each in living.items():
        cpu_s = each.whole_cpu_s - cpu_before[pid]
        if cpu_s > 0 and not any(one.pid in ours for one in line_of(each, living)):
            io_bytes = after.device_bytes.get(pid)
            if io_bytes is not None:
                io_bytes = max(io_bytes - io_before[pid], 0.0)
            found.append(
                OtherProcess(pid=pid, name=each.name, cpu_s=round(cpu_s, 2), io_bytes=io_bytes)
            )
    found.sort(key=lambda other: (-other.cpu_s, other.pid))
    # Whoever sees the kernel's threads is in the first namespace of processes, where all are.
    sees_all = any(each.is_of_kernel for each in living.values())
    used_s = sum(other.cpu_s for other in found if not living[other.pid].is_of_kernel)
    return Others(heaviest=tuple(found[:MOST]), cpu_s=used_s if sees_all else None)


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


_LOOK_S: Final = 1.0
_FOLLOWED: Final = 8  # a guess: some 30 us each at every switch; five are ever told


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """One followed process at one moment.

    Attributes:
        cpu_s: Of it and of its children that ended, but for those that were followed themselves.
        io_bytes: Read from and written to devices; None where it may not be seen.
    """

    name: str
    started: int
    cpu_s: float
    io_bytes: float | None


Seen = Mapping[int, Followed]  # by process id


@dataclass(slots=True, kw_only=True)
class Crowd:
    """Follows the processes that are not ours, for all runs that take turns together.

    Attributes:
        ours: Processes that are left out, with all that descend from them.
    """

    host: Host
    clock: Clock
    ours: frozenset[int]
    _looked_at: float | None = None
    _used_s: dict[int, float] = field(default_factory=dict)  # by all, at the last look
    _grown_s: dict[int, float] = field(default_factory=dict)  # since the first, by the followed
    _last: dict[int, Process] = field(default_factory=dict)
    _credit_s: dict[int, float] = field(default_factory=dict)  # of children that were followed

    def now(self) -> Seen:
        """Return the followed processes; who is new among them begins here."""
        now_s = self.clock.monotonic()
        if self._looked_at is None or now_s - self._looked_at >= _LOOK_S:
            self._looked_at = now_s
            self._look()
        return {pid: each for pid in list(self._last) if (each := self._read(pid)) is not None}

    def _look(self) -> None:
        """Choose whom to follow: those that have used the most since the first look."""
        everybody = all_processes(self.host)
        for pid in self._last.keys() - everybody.keys():
            self._let_go(pid)
        for pid, each in everybody.items():
            before_s = self._used_s.get(pid)
            grown_s = 0.0 if before_s is None else each.whole_cpu_s - before_s
            if grown_s > 0.0 and not any(one.pid in self.ours for one in line_of(each, everybody)):
                self._grown_s[pid] = self._grown_s.get(pid, 0.0) + grown_s
        self._used_s = {pid: each.whole_cpu_s for pid, each in everybody.items()}
        living = (pid for pid in self._grown_s if pid in everybody)
        chosen = sorted(living, key=lambda pid: (-self._grown_s[pid], pid))[:_FOLLOWED]
        self._last = {pid: self._last.get(pid, everybody[pid]) for pid in chosen}

    def _read(self, pid: int) -> Followed | None:
        each, last = process(self.host, pid), self._last[pid]
        if each is None or each.started != last.started:
            self._let_go(pid)
            return None
        self._last[pid] = each
        return Followed(
            name=each.name,
            started=each.started,
            cpu_s=each.whole_cpu_s - self._credit_s.get(pid, 0.0),
            io_bytes=None if each.is_of_kernel else _io_bytes(self.host, pid),
        )

    def _let_go(self, pid: int) -> None:
        """Follow a process no longer that has ended.

        Whoever waited for its end has its time now, which was counted already.
        """
        last = self._last.pop(pid)
        self._credit_s[last.parent] = self._credit_s.get(last.parent, 0.0) + last.whole_cpu_s


@dataclass(slots=True, kw_only=True)
class Everybody:
    """What all other processes used in a run in one piece, by a census before and after it.

    Attributes:
        ours: Processes that are left out, with all that descend from them.
    """

    host: Host
    ours: frozenset[int]
    _before: Census = field(init=False)
    _after: Census = field(init=False)

    def begin(self) -> None:
        """Take stock before the run."""
        self._before = census(self.host)

    def end(self, most_s: float) -> None:  # noqa: ARG002 - as that of Bystanders
        """Take stock after the run."""
        self._after = census(self.host)

    def others(self) -> Others:
        """Return what they used."""
        return others_between(self._before, self._after, ours=self.ours)


@dataclass(slots=True, kw_only=True)
class Bystanders:
    """What the followed processes used in the turns of one run."""

    crowd: Crowd
    _before: Seen = field(default_factory=dict)
    _names: dict[int, str] = field(default_factory=dict)
    _cpu_s: dict[int, float] = field(default_factory=dict)
    _io_bytes: dict[int, float] = field(default_factory=dict)

    def begin(self) -> None:
        """Look at them at the beginning of a turn."""
        self._before = self.crowd.now()

    def end(self, most_s: float) -> None:
        """Count what was used since the beginning of a turn.

        Args:
            most_s: What the machine's CPUs can give in that time. Who waits for the end of children
                has all they ever used at once, and most of that is not of this turn.
        """
        for pid, now in self.crowd.now().items():
            then = self._before.get(pid)
            if then is None or then.started != now.started:
                continue
            self._names[pid] = now.name
            used_s = min(max(now.cpu_s - then.cpu_s, 0.0), most_s)
            self._cpu_s[pid] = self._cpu_s.get(pid, 0.0) + used_s
            if now.io_bytes is not None and then.io_bytes is not None:
                moved = max(now.io_bytes - then.io_bytes, 0.0)
                self._io_bytes[pid] = self._io_bytes.get(pid, 0.0) + moved

    def others(self) -> Others:
        """Return those that used the most CPU; of all together nobody knows."""
        used = [(pid, cpu_s) for pid, cpu_s in self._cpu_s.items() if cpu_s > 0.0]
        used.sort(key=lambda use: (-use[1], use[0]))
        heaviest = tuple(
            OtherProcess(
                pid=pid,
                name=self._names[pid],
                cpu_s=round(cpu_s, 2),
                io_bytes=self._io_bytes.get(pid),
            )
            for pid, cpu_s in used[:MOST]
        )
        return Others(heaviest=heaviest, cpu_s=None)


_MAPPING = re.compile(r"^[0-9a-f]+-[0-9a-f]+ (?P<mode>[rwxsp-]{4}) ")
_KB_FIELD = re.compile(r"^(Size|KernelPageSize|ShmemPmdMapped): +([0-9]+) kB$")
_PAGE_SIZE = re.compile(r"^KernelPageSize: +([1-9][0-9]*) kB$", re.MULTILINE)
_ON_HUGE_PAGES = re.compile(r"^ShmemPmdMapped: +[1-9]", re.MULTILINE)
_FIELDS = ("Size:", "KernelPageSize:", "ShmemPmdMapped:")  # of some twenty of each mapping
# What is mapped on huge pages of the pool without a file, as PostgreSQL does (fs/hugetlbfs).
_ANONYMOUS_HUGE = re.compile(
    r"^([0-9a-f]{1,16})-([0-9a-f]{1,16}) ...s .*/anon_hugepage", re.MULTILINE
)
_ROLLED_UP = re.compile(r"^ShmemPmdMapped: +([0-9]{1,20}) kB$", re.MULTILINE)
_ON_NODE = re.compile(r"\bN([0-9]+)=([0-9]+)\b")
_PAGE_KB = re.compile(r"\bkernelpagesize_kB=([0-9]+)\b")


def huge_bytes(smaps: str | None) -> int | None:
    """Return how much of its shared memory a process has on huge pages; None without ``smaps``.

    A mapping made of huge pages counts with its size: the process itself may have touched little
    of it. Shared memory on transparent huge pages counts as far as the process maps it.
    """
    if not _may_have_huge_pages(smaps or ""):
        return 0
    mappings = _shared_mappings(smaps or "")
    sizes = [kilobytes.get("KernelPageSize", 0) for _, kilobytes in mappings]
    if not any(sizes):
        return None
    usual = min(size for size in sizes if size)
    return 1024 * sum(
        kilobytes.get("Size", 0)
        if kilobytes.get("KernelPageSize", 0) > usual
        else kilobytes.get("ShmemPmdMapped", 0)
        for is_shared, kilobytes in mappings
        if is_shared
    )


def anonymous_huge_bytes(maps: str | None, rollup: str | None) -> int | None:
    """Return the same from ``maps`` and ``smaps_rollup``, which are a tenth of ``smaps``."""
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


def _may_have_huge_pages(smaps: str) -> bool:
    """Return whether it takes a look at every mapping: on most machines it does not."""
    return len(set(_PAGE_SIZE.findall(smaps))) != 1 or bool(_ON_HUGE_PAGES.search(smaps))


def _shared_mappings(smaps: str) -> list[tuple[bool, dict[str, int]]]:
    """Return each mapping: whether it is shared, and its sizes in kB."""
    found: list[tuple[bool, dict[str, int]]] = []
    for line in smaps.splitlines():
        if line.startswith(_FIELDS):
            field = _KB_FIELD.match(line)
            if found and field:
                found[-1][1][field[1]] = whole_number(field[2]) or 0
        elif not line[:1].isupper() and (mapping := _MAPPING.match(line)):
            found.append((mapping["mode"].endswith("s"), {}))
    return found


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
