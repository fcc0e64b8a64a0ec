"""Other processes of the machine: which of them used the most between two moments.

Other processes of the machine in the turns of one run: each turn is looked at by itself.

To read all processes at every switch would cost milliseconds. Once a second all are looked at, and
those that have used a CPU since are followed: only they are read at every switch.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from steelyard.campaign.evidence.processes import Process, all_processes, parse_device_use, process
from steelyard.core.evidence import OtherProcess
from steelyard.gateways.clock import Clock
from steelyard.gateways.host import Host

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
    used = {
        pid: parse_device_use(host.read(f"/proc/{pid}/io"))
        for pid, each in processes.items()
        if not each.is_of_kernel
    }
    return Census(
        processes=processes,
        device_bytes={
            pid: float(use.read_bytes + use.written_bytes)
            for pid, use in used.items()
            if use is not None
        },
    )


def heaviest(before: Census, after: Census, *, ours: Collection[int]) -> tuple[OtherProcess, ...]:
    """Return the processes that used the most CPU in between, at most five.

    What a process's children used counts for it once it has waited for their end: a neighbour
    that starts many short programs is still seen. A process that began and ended in between
    without a parent who waits for it is not.

    Args:
        before: At the beginning.
        after: At the end.
        ours: Processes that are left out, with all that descend from them.
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
    return tuple(sorted(found, key=lambda other: (-other.cpu_s, other.pid))[:MOST])


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
            io_bytes=None if each.is_of_kernel else self._io_bytes(pid),
        )

    def _let_go(self, pid: int) -> None:
        """Follow a process no longer that has ended.

        Whoever waited for its end has its time now, which was counted already.
        """
        last = self._last.pop(pid)
        self._credit_s[last.parent] = self._credit_s.get(last.parent, 0.0) + last.whole_cpu_s

    def _io_bytes(self, pid: int) -> float | None:
        use = parse_device_use(self.host.read(f"/proc/{pid}/io"))
        return None if use is None else float(use.read_bytes + use.written_bytes)


@dataclass(slots=True, kw_only=True)
class Bystanders:
    """What the followed processes used in the turns of one run."""

    _names: dict[int, str] = field(default_factory=dict)
    _cpu_s: dict[int, float] = field(default_factory=dict)
    _io_bytes: dict[int, float] = field(default_factory=dict)

    def add(self, before: Seen, after: Seen, most_s: float) -> None:
        """Count what was used between the beginning of a turn and its end.

        Args:
            before: At the beginning.
            after: At the end.
            most_s: What the machine's CPUs can give in that time. Who waits for the end of children
                has all they ever used at once, and most of that is not of this turn.
        """
        for pid, now in after.items():
            then = before.get(pid)
            if then is None or then.started != now.started:
                continue
            self._names[pid] = now.name
            used_s = min(max(now.cpu_s - then.cpu_s, 0.0), most_s)
            self._cpu_s[pid] = self._cpu_s.get(pid, 0.0) + used_s
            if now.io_bytes is not None and then.io_bytes is not None:
                moved = max(now.io_bytes - then.io_bytes, 0.0)
                self._io_bytes[pid] = self._io_bytes.get(pid, 0.0) + moved

    def heaviest(self) -> tuple[OtherProcess, ...]:
        """Return those that used the most CPU, at most five."""
        used = [(pid, cpu_s) for pid, cpu_s in self._cpu_s.items() if cpu_s > 0.0]
        used.sort(key=lambda each: (-each[1], each[0]))
        return tuple(
            OtherProcess(
                pid=pid,
                name=self._names[pid],
                cpu_s=round(cpu_s, 2),
                io_bytes=self._io_bytes.get(pid),
            )
            for pid, cpu_s in used[:MOST]
        )
