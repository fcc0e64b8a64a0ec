"""Other processes of the machine: which of them used the most between two moments."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from steelyard.experiment.probes.processes import (
    Process,
    all_processes,
    parse_device_use,
)
from steelyard.gateways.host import Host
from steelyard.model.evidence import OtherProcess

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
