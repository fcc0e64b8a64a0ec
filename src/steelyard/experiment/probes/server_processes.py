"""What the processes of a server use: CPU, places in the run queue, devices."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from steelyard.experiment.probes.processes import (
    children,
    parse_device_use,
    parse_major_faults,
    process,
    tree,
)
from steelyard.experiment.probes.scheduling import TaskSet, TaskSums
from steelyard.gateways.host import Host
from steelyard.model.evidence import Absence, Quantity

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

    def settle(self, given_up: threading.Event) -> None:
        """Wait until the sessions of the generator are gone, for a second at most.

        Others may have come and stay, so an unchanged set is good enough.
        """
        seen: list[frozenset[int]] = []
        for _ in range(_SETTLE_STEPS):
            guests = frozenset(children(self.host, self.pid)) - self._first
            seen.append(guests)
            recent = seen[-_SETTLE_STEPS_UNCHANGED:]
            unchanged = len(recent) == _SETTLE_STEPS_UNCHANGED and len(set(recent)) == 1
            if not guests or unchanged or given_up.wait(_SETTLE_STEP_S):
                return

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
            Quantity.SERVER_CPU_S: sums.living_run_s + reaped_s,
            Quantity.SERVER_RUN_QUEUE_S: sums.delay_s,
        }

    def _scheduled(self) -> TaskSums | None:
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
