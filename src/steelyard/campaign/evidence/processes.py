"""What /proc says of single processes: who descends from whom, and what generator and server use.

The run and run-queue time of a set of tasks that come and go is from what schedstat says of each.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

from steelyard.core.measurement import Absence, Quantity
from steelyard.gateways.host import (
    TICKS_PER_S,
    Clock,
    Host,
    fields_as_numbers,
    whole_number,
    whole_numbers,
)

_KERNEL_THREAD = 0x00200000  # PF_KTHREAD, include/linux/sched.h
# In the order of proc_pid_io(5); cancelled_write_bytes is another line.
_DEVICE_USE = re.compile(r"^read_bytes: ([0-9]{1,20})\nwrite_bytes: ([0-9]{1,20})$", re.MULTILINE)
# Most processes of a machine sleep, and their files say the same at every look.
_REMEMBERED = 2048
_FAULT_FIELDS = 11  # after the name, up to cmajflt
_STAT_FIELDS = 20  # after the name, up to starttime; proc_pid_stat(5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process.

    Attributes:
        name: Of its program, in brackets when it is a thread of the kernel, as ps shows it.
        started: Tells two processes of the same id apart: ticks since the machine's start.
        cpu_s: Of all its threads.
        reaped_cpu_s: Of its children that ended and were waited for, and theirs.
    """

    pid: int
    name: str
    parent: int
    is_of_kernel: bool
    started: int
    cpu_s: float
    reaped_cpu_s: float

    @property
    def whole_cpu_s(self) -> float:
        """Return what it and its ended children used."""
        return self.cpu_s + self.reaped_cpu_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """What the scheduler counts for one task, or for several together.

    Attributes:
        run_s: On a CPU.
        delay_s: Ready to run, waiting for a CPU.
        times: How often it got a CPU: its context switches, voluntary or not.
    """

    run_s: float
    delay_s: float
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUse:
    """Bytes that a process and its ended children had read from and written to devices.

    The kernel adds a child's figures to its parent's when the parent waits for it
    (kernel/exit.c, wait_task_zombie).
    """

    read_bytes: int
    written_bytes: int


@lru_cache(maxsize=_REMEMBERED)
def parse_process(text: str | None) -> Process | None:
    """Return a process from its ``stat``; its name may hold blanks and brackets."""
    head, bracket, tail = (text or "").rpartition(")")
    pid_text, opening, name = head.partition("(")
    fields = tail.split(None, _STAT_FIELDS)
    pid = whole_number(pid_text.strip())
    if not (bracket and opening) or pid is None or len(fields) < _STAT_FIELDS:
        return None
    wanted = fields_as_numbers([fields[1], fields[6], *fields[11:15], fields[19]])
    if wanted is None:
        return None
    parent, flags, user, system, reaped_user, reaped_system, started = wanted
    is_of_kernel = bool(flags & _KERNEL_THREAD)
    return Process(
        pid=pid,
        name=f"[{name}]" if is_of_kernel else name,
        parent=parent,
        is_of_kernel=is_of_kernel,
        started=started,
        cpu_s=(user + system) / TICKS_PER_S,
        reaped_cpu_s=(reaped_user + reaped_system) / TICKS_PER_S,
    )


def parse_major_faults(text: str | None) -> int | None:
    """Return how often a process and its ended children waited for a page from a device."""
    fields = (text or "").rpartition(")")[2].split(None, _FAULT_FIELDS)
    numbers = fields_as_numbers(fields[9:11]) if len(fields) >= _FAULT_FIELDS else None
    return None if numbers is None else sum(numbers)


def parse_scheduled(text: str | None) -> Scheduled | None:
    """Return what ``schedstat`` of a task says."""
    numbers = whole_numbers(text)
    if numbers is None or len(numbers) != 3:
        return None
    return Scheduled(run_s=numbers[0] / 1e9, delay_s=numbers[1] / 1e9, times=numbers[2])


@lru_cache(maxsize=_REMEMBERED)
def parse_device_use(text: str | None) -> DeviceUse | None:
    """Return what ``io`` of a process says."""
    match = _DEVICE_USE.search(text or "")
    return DeviceUse(read_bytes=int(match[1]), written_bytes=int(match[2])) if match else None


def process(host: Host, pid: int) -> Process | None:
    """Return a process that lives or was not waited for yet."""
    return parse_process(host.read(f"/proc/{pid}/stat"))


def own_process(host: Host) -> Process | None:
    """Return the process that asks."""
    return parse_process(host.read("/proc/self/stat"))


def children(host: Host, pid: int) -> tuple[int, ...]:
    """Return the children of a process, of whichever of its threads."""
    found: list[int] = []
    for task in host.names(f"/proc/{pid}/task"):
        text = host.read(f"/proc/{pid}/task/{task}/children")
        if text is None:
            return _children_by_parent(host, pid)  # a kernel without CONFIG_PROC_CHILDREN
        found += whole_numbers(text) or ()
    return tuple(found)


def tree(host: Host, root: int) -> tuple[int, ...]:
    """Return a process and all that descend from it, parents first."""
    found, next_ones = [root], list(children(host, root))
    while next_ones:
        found += next_ones
        next_ones = [child for pid in next_ones for child in children(host, pid)]
    return tuple(dict.fromkeys(found))


def all_processes(host: Host) -> dict[int, Process]:
    """Return every process that is visible, by its id."""
    return living(host, (int(name) for name in host.names("/proc") if name.isdecimal()))


def living(host: Host, pids: Iterable[int]) -> dict[int, Process]:
    """Return those of some processes that have not ended, by their ids."""
    found = (process(host, pid) for pid in pids)
    return {process.pid: process for process in found if process is not None}


def _children_by_parent(host: Host, pid: int) -> tuple[int, ...]:
    return tuple(each.pid for each in all_processes(host).values() if each.parent == pid)


_NOTHING = Scheduled(run_s=0.0, delay_s=0.0, times=0)
_ENOUGH_SEEN = 0.5  # a guess: below that a sum over what samples saw is no answer
_NEVER_MIND_S = 0.05  # of CPU, which has no queue worth a figure


@dataclass(slots=True, kw_only=True)
class TaskSet:
    """Remembers what each task had reached when it was last seen.

    A task that ended counts with its last reading: what it did between that and its end is not
    in the sums.

    Attributes:
        living_run_s: Time on a CPU of those that were there at the last ``read``, each of which
            sets it anew.
    """

    host: Host
    living_run_s: float = 0.0
    _last: dict[str, Scheduled] = field(default_factory=dict)
    _earlier: Scheduled = _NOTHING  # of tasks whose id was given to another one
    _first_s: float | None = None
    _seen_s: float = 0.0  # run time between the first reading and the last

    def read(self, paths: Iterable[str]) -> Scheduled:
        """Return the sums with new readings of these tasks' ``schedstat``."""
        self.living_run_s = 0.0
        for path in paths:
            current = parse_scheduled(self.host.read(path))
            if current is None:
                continue  # it ended meanwhile
            self.living_run_s += current.run_s
            last = self._last.get(path, _NOTHING)
            if current.run_s < last.run_s:
                self._earlier = _sum([self._earlier, last])
            self._last[path] = current
        whole = _sum([self._earlier, *self._last.values()])
        if self._first_s is None:
            self._first_s = whole.run_s
        self._seen_s = whole.run_s - self._first_s
        return whole

    def saw_enough(self, cpu_s: float) -> bool:
        """Return whether readings saw the better part of the CPU time that tasks really used.

        They do not where tasks live shorter than an interval: runs below a second, a session for
        every transaction.
        """
        return cpu_s < _NEVER_MIND_S or self._seen_s >= _ENOUGH_SEEN * cpu_s


def _sum(parts: list[Scheduled]) -> Scheduled:
    return Scheduled(
        run_s=sum(part.run_s for part in parts),
        delay_s=sum(part.delay_s for part in parts),
        times=sum(part.times for part in parts),
    )


@dataclass(slots=True, kw_only=True)
class GeneratorProcesses:
    """Children of Steelyard that were not there before the run.

    Their whole CPU time is known at the end, when Steelyard has waited for them; run-queue time
    is that of the last sample before.

    Attributes:
        chosen: Tells which of them it is about; None: all.
        elsewhere_s: Returns the CPU time of generators that have ended and are no children.
    """

    host: Host
    chosen: Callable[[], Sequence[int]] | None = None
    elsewhere_s: Callable[[], float] = lambda: 0.0
    own_pid: int = field(init=False)
    _before: frozenset[int] = field(init=False)
    _tasks: TaskSet = field(init=False)

    def __post_init__(self) -> None:
        own = own_process(self.host)
        self.own_pid = own.pid if own else 0
        self._before = frozenset(children(self.host, self.own_pid))
        self._tasks = TaskSet(host=self.host)

    def ended(self) -> dict[Quantity, float]:
        """Return the CPU time of all children that Steelyard has waited for, whosoever."""
        return {Quantity.GENERATOR_CPU_S: self.host.children_cpu_s() + self.elsewhere_s()}

    def queued(self) -> dict[Quantity, float]:
        """Return how long they waited for a CPU so far."""
        queued = self.sampled()
        queued.pop(Quantity.GENERATOR_CPU_S, None)
        return queued

    def sampled(self) -> dict[Quantity, float]:
        """Return what a look in passing shows."""
        if self.host.read("/proc/self/schedstat") is None:
            return {}
        sums = self._tasks.read(
            f"/proc/{pid}/task/{task}/schedstat"
            for pid in self._pids()
            for task in self.host.names(f"/proc/{pid}/task")
        )
        return {
            Quantity.GENERATOR_CPU_S: sums.run_s,
            Quantity.GENERATOR_RUN_QUEUE_S: sums.delay_s,
        }

    def _pids(self) -> Iterator[int]:
        if self.chosen is not None:
            yield from self.chosen()
            return
        yield from (p for p in children(self.host, self.own_pid) if p not in self._before)

    def unsampled(self, totals: Mapping[Quantity, float]) -> tuple[Quantity, ...]:
        """Return which of the totals leave out most of what happened."""
        if self._tasks.saw_enough(totals.get(Quantity.GENERATOR_CPU_S, 0.0)):
            return ()
        return (Quantity.GENERATOR_RUN_QUEUE_S,)

    def absent(self) -> tuple[Absence, ...]:
        """Return what is not shown, and why."""
        if self.host.read("/proc/self/schedstat") is not None:
            return ()
        reason = "the kernel has no /proc/PID/schedstat"
        return (Absence(subject="run-queue time of the generator", reason=reason),)


_TRIES = 3  # of a reading during which a process ended and its figures moved to its parent's
# Backends end after the generator has: an exit with a large shared memory takes milliseconds.
_SETTLE_STEP_S = 0.05
_SETTLE_STEPS_UNCHANGED = 3
_SETTLE_STEPS = 20
_Reading = TypeVar("_Reading")


@dataclass(slots=True, kw_only=True)
class ServerProcesses:
    """The first process of a server and all that descend from it.

    CPU time is complete: what a process used passes to its parent when that waits for its end,
    and the first process waits for all. Run-queue time does not pass on; of a session that ended
    the last sample counts, which lies less than an interval before its end.
    """

    host: Host
    pid: int
    _tasks: TaskSet = field(init=False)
    _first: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self._tasks = TaskSet(host=self.host)
        self._first = frozenset(children(self.host, self.pid))

    def used(self) -> dict[Quantity, float]:
        """Return what was used since the server's start, to be compared with another reading."""
        return self._consistent(self._used)

    def sampled(self) -> dict[Quantity, float]:
        """Return what a look in passing shows, with the scheduler's own precision."""
        return self._consistent(self._sampled)

    def settle(self, clock: Clock) -> None:
        """Wait until the sessions of the generator are gone, for a second at most.

        Others may have come and stay, so an unchanged set is good enough.
        """
        seen: list[frozenset[int]] = []
        for _ in range(_SETTLE_STEPS):
            guests = frozenset(children(self.host, self.pid)) - self._first
            seen.append(guests)
            recent = seen[-_SETTLE_STEPS_UNCHANGED:]
            unchanged = len(recent) == _SETTLE_STEPS_UNCHANGED and len(set(recent)) == 1
            if not guests or unchanged:
                return
            clock.sleep(_SETTLE_STEP_S)

    def major_faults(self) -> int | None:
        """Return how often its processes waited for a page from a device, since its start."""
        texts = [self.host.read(f"/proc/{pid}/stat") for pid in tree(self.host, self.pid)]
        found = [faults for faults in map(parse_major_faults, texts) if faults is not None]
        return sum(found) if found else None

    def absent(self, used: Mapping[Quantity, float]) -> tuple[Absence, ...]:
        """Return what a reading does not show, and why."""
        if Quantity.SERVER_CPU_S not in used:
            reason = "its first process is not visible in /proc, or has ended"
            return (Absence(subject="the server's processes", reason=reason),)
        found = []
        if Quantity.SERVER_READ_BYTES not in used:
            reason = "/proc/PID/io of a server process may be read by its own account or root alone"
            found.append(Absence(subject="device use of the server's processes", reason=reason))
        if Quantity.SERVER_RUN_QUEUE_S not in used:
            reason = "the kernel has no /proc/PID/schedstat"
            found.append(Absence(subject="run-queue time of the server", reason=reason))
        return tuple(found)

    def unsampled(self, totals: Mapping[Quantity, float]) -> tuple[Quantity, ...]:
        """Return which of the totals leave out most of what happened."""
        if self._tasks.saw_enough(totals.get(Quantity.SERVER_CPU_S, 0.0)):
            return ()
        return (Quantity.SERVER_RUN_QUEUE_S, Quantity.SERVER_SWITCHES)

    def _consistent(self, read: Callable[[], _Reading]) -> _Reading:
        """Return a reading during which nothing passed from a process to its parent."""
        for _ in range(_TRIES):
            before = self._reaped_s()
            reading = read()
            if self._reaped_s() == before:
                break
        return reading

    def _used(self) -> dict[Quantity, float]:
        found = [process(self.host, pid) for pid in tree(self.host, self.pid)]
        if found[0] is None:
            return {}
        whole_s = sum(each.whole_cpu_s for each in found if each is not None)
        used = {Quantity.SERVER_CPU_S: whole_s, **self._device_use()}
        sums = self._scheduled()
        if sums is not None:
            used[Quantity.SERVER_RUN_QUEUE_S] = sums.delay_s
            used[Quantity.SERVER_SWITCHES] = sums.times
        return used

    def _sampled(self) -> dict[Quantity, float]:
        sums, reaped_s = self._scheduled(), self._reaped_s()
        if sums is None or reaped_s is None:
            return {}
        return {
            Quantity.SERVER_CPU_S: self._tasks.living_run_s + reaped_s,
            Quantity.SERVER_RUN_QUEUE_S: sums.delay_s,
        }

    def _scheduled(self) -> Scheduled | None:
        if self.host.read(f"/proc/{self.pid}/schedstat") is None:
            return None
        # The first process may have several threads; those that it forked have one each.
        own = [f"{self.pid}/task/{task}" for task in self.host.names(f"/proc/{self.pid}/task")]
        others = map(str, children(self.host, self.pid))
        places = (*(own if len(own) > 1 else [str(self.pid)]), *others)
        return self._tasks.read([f"/proc/{place}/schedstat" for place in places])

    def _device_use(self) -> dict[Quantity, float]:
        texts = [self.host.read(f"/proc/{pid}/io") for pid in tree(self.host, self.pid)]
        found = [use for use in map(parse_device_use, texts) if use is not None]
        if not found or parse_device_use(texts[0]) is None:
            return {}
        return {
            Quantity.SERVER_READ_BYTES: float(sum(use.read_bytes for use in found)),
            Quantity.SERVER_WRITTEN_BYTES: float(sum(use.written_bytes for use in found)),
        }

    def _reaped_s(self) -> float | None:
        first = process(self.host, self.pid)
        return None if first is None else first.reaped_cpu_s
