"""What /proc says of single processes, and which of them descend from one."""

import re
from dataclasses import dataclass
from functools import lru_cache

from steelyard.experiment.probes.procfs import (
    TICKS_PER_S,
    fields_as_numbers,
    whole_number,
    whole_numbers,
)
from steelyard.gateways.host import Host

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
    """What the scheduler counts for one task.

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
    found = (process(host, int(name)) for name in host.names("/proc") if name.isdecimal())
    return {each.pid: each for each in found if each is not None}


def _children_by_parent(host: Host, pid: int) -> tuple[int, ...]:
    return tuple(each.pid for each in all_processes(host).values() if each.parent == pid)
