"""Watches the machine during a run: CPU by who used it, devices, throttling, other processes.

Memory, huge pages, nodes and free disk are no counters: they are read at the end of a run.

A run in turns is read at the edges of the times in which it goes on. At an edge everything that is
measured stands still, so a reading disturbs nothing and costs the run nothing. Counters of the
whole machine go on in pauses, for others; they are added up from edge to edge. Those of the
processes of server and generator stand still with these, so that their difference over the run is
of the same time, and all parts fit together.
"""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Final

from steelyard.campaign.evidence import neighbours
from steelyard.campaign.evidence.processes import GeneratorProcesses, tree
from steelyard.campaign.evidence.sources import Counted, Sources
from steelyard.campaign.evidence.watch import Part
from steelyard.core.measurement import (
    SERVERS_MACHINE,
    Absence,
    OtherProcess,
    Quantity,
    Series,
    Vantage,
)
from steelyard.gateways.host import (
    Clock,
    Host,
    cpu_limits,
    cpu_times,
    memory_bytes,
    named_number,
    thread_cpu_s,
)
from steelyard.record.tables import HOST_QUANTITIES

# A guess: numa_maps of a process that maps many small pages takes the kernel long.
_PLACEMENT_CPU_S = 0.5
MEMORY = {
    Quantity.MEMORY_BYTES: "MemTotal",
    Quantity.MEMORY_AVAILABLE_BYTES: "MemAvailable",
}
HUGE_PAGES = {
    Quantity.HUGE_PAGES: "HugePages_Total",
    Quantity.HUGE_PAGES_FREE: "HugePages_Free",
}
Found = tuple[dict[Quantity, float], tuple[Absence, ...]]


def machine_levels(host: Host) -> Found:
    """Return CPUs and memory of this machine."""
    memory, times = memory_bytes(host.read("/proc/meminfo")), cpu_times(host.read("/proc/stat"))
    levels = {quantity: float(memory[n]) for quantity, n in MEMORY.items() if n in memory}
    if times is not None:
        levels[Quantity.CPUS] = float(times.cpus)
    if len(levels) == len(MEMORY) + 1:
        return levels, ()
    reason = "/proc/meminfo or /proc/stat cannot be read here"
    return levels, (Absence(subject="CPUs and memory of the machine", reason=reason),)


def generator_levels(host: Host) -> Counted:
    """Return how many CPUs this process and its children can use: those of its pod, in one."""
    cpus = min((limit for limit, _ in cpu_limits(host, "self")), default=None)
    return {} if cpus is None else {Quantity.GENERATOR_CPUS: cpus}


def server_levels(host: Host, vantage: Vantage) -> Found:
    """Return what the server has of the machine: huge pages, memory nodes, disk."""
    memory = memory_bytes(host.read("/proc/meminfo"))
    levels = {quantity: float(memory[n]) for quantity, n in HUGE_PAGES.items() if n in memory}
    absent = []
    huge = neighbours.huge_bytes(host.read(f"/proc/{vantage.pid}/smaps"))
    if huge is not None:
        levels[Quantity.SERVER_HUGE_BYTES] = float(huge)
    else:
        reason = "/proc/PID/smaps of the server may be read by its own account or root alone"
        absent.append(Absence(subject="huge pages of the server", reason=reason))
    allowed = named_number(host.read(f"/proc/{vantage.pid}/status"), "THP_enabled")
    if allowed is not None:
        levels[Quantity.SERVER_TRANSPARENT_HUGE] = float(allowed)
    space = host.space(str(vantage.data))
    if space is not None:
        levels[Quantity.DISK_FREE_BYTES] = float(space.free_bytes)
        levels[Quantity.DISK_BYTES] = float(space.total_bytes)
    else:
        reason = f"{vantage.data} cannot be reached"
        absent.append(Absence(subject="free disk", reason=reason))
    remote, missing = _remote(host, vantage)
    if remote is not None:
        levels[Quantity.SERVER_REMOTE_NODE_FRACTION] = remote
    return levels, (*absent, *missing)


def _remote(host: Host, vantage: Vantage) -> tuple[float | None, tuple[Absence, ...]]:
    """Return the part of the server's pages outside the node that holds the most.

    A page that several processes map counts for each. None without an absence where the machine
    has one node.
    """
    subject = "memory nodes of the server"
    names = host.names("/sys/devices/system/node")
    if sum(name.startswith("node") and name[4:].isdecimal() for name in names) < 2:
        return None, ()  # a fact about the machine: nothing of it can be elsewhere
    nodes: Counter[int] = Counter()
    begun_s = thread_cpu_s()
    for pid in tree(host, vantage.pid):
        nodes += neighbours.bytes_by_node(host.read(f"/proc/{pid}/numa_maps"))
        if thread_cpu_s() - begun_s > _PLACEMENT_CPU_S:
            break
    fraction = neighbours.remote_fraction(nodes)
    if fraction is None:
        reason = "/proc/PID/numa_maps of the server may be read by its own account or root alone"
        return None, (Absence(subject=subject, reason=reason),)
    return fraction, ()


SERIES = "host"
_DIGITS = 4  # a tenth of a millisecond; counts are whole
# What is left after the last sample is a row of its own only when it is long enough for a rate.
_LEAST_ROW_S = 0.5
Reading = tuple[float, Counted]


class MachineProbe:
    """Reads this machine once a second; with a vantage also the server's part of it."""

    subject = "the machine"
    interval_s = 1.0

    def __init__(self, *, host: Host, vantage: Vantage | None) -> None:
        self._host = host
        self._vantage = vantage
        self._given_up = threading.Event()
        self._sources: Sources
        self._before: neighbours.Census
        self._used: Counted
        self._links: dict[str, neighbours.Moved]
        self._readings: list[Reading]

    def begin(self) -> None:
        """Take stock of all processes, then take the first reading."""
        self._sources = Sources.of(self._host, self._vantage)
        self._before = neighbours.census(self._host)
        self._links = neighbours.links(self._host)
        self._readings = [(0.0, self._sources.sampled())]
        self._used = self._sources.used()

    def sample(self, at_s: float) -> None:
        """Read what the timeline shows."""
        self._readings.append((at_s, self._sources.sampled()))

    def finish(self, at_s: float, *, lost: int) -> Part:
        """Take the last reading once the generator's sessions have ended.

        A sample that was lost leaves a longer interval in the timeline, no gap.
        """
        del lost
        if self._sources.server is not None:
            self._sources.server.settle(self._given_up)
        last, used = self._sources.sampled(), difference(self._used, self._sources.used())
        others = neighbours.others_between(
            self._before, neighbours.census(self._host), ours=self._ours()
        )
        if others.cpu_s is not None:
            used[Quantity.VISIBLE_OTHERS_CPU_S] = rounded(others.cpu_s)
        return machine_part(
            self._sources,
            self._vantage,
            [*self._readings, (at_s, last)],
            used=used,
            others=others.heaviest,
            link_fraction=neighbours.busiest_fraction(
                self._links, neighbours.links(self._host), at_s
            ),
        )

    def abandon(self) -> None:
        """Wait for nothing any more."""
        self._given_up.set()

    def _ours(self) -> tuple[int, ...]:
        own = self._sources.generator.own_pid
        if self._vantage is None:
            return (own,)
        return (own, self._vantage.pid, *self._vantage.beside)


def machine_part(
    sources: Sources,
    vantage: Vantage | None,
    readings: Sequence[Reading],
    *,
    used: Counted,
    others: tuple[OtherProcess, ...],
    link_fraction: float | None,
) -> Part:
    """Return what was seen of a machine during a run.

    ``readings`` are those of the timeline, with the last one; ``used`` is over the whole run.
    """
    with_others = partial(with_others_used, ours=_ours(vantage))
    totals = with_others(used)
    unsampled = sources.unsampled(totals)
    levels, absent = machine_levels(sources.host)
    levels |= {} if link_fraction is None else {Quantity.LINK_BUSIEST_FRACTION: link_fraction}
    if vantage is None:
        levels |= generator_levels(sources.host)
    else:
        more, missing = server_levels(sources.host, vantage)
        levels, absent = levels | more, (*absent, *missing)
    *sampled, (end_s, last) = readings
    readings = [*sampled, (end_s, _caught_up(readings[0][1], last, totals))]
    return Part(
        totals={q.value: value for q, value in totals.items() if q not in unsampled},
        levels={quantity.value: value for quantity, value in levels.items()},
        series=timeline(readings, with_others, without=unsampled),
        others=others,
        absent=(*_unseen(vantage), *sources.absent(used), *unsampled.values(), *absent),
    )


def _ours(vantage: Vantage | None) -> set[Quantity]:
    """Return which CPU times of this machine belong to the run."""
    ours = {Quantity.GENERATOR_CPU_S, Quantity.STEELYARD_CPU_S}
    if vantage is not None:
        ours |= {Quantity.SERVER_CPU_S}
        ours |= {Quantity.REPLICA_CPU_S} if vantage.beside else set()
    return ours


def with_others_used(used: Counted, *, ours: Collection[Quantity]) -> Counted:
    """Return differences with what is left for all other processes, where all is known."""
    modes = (Quantity.CPU_USER_S, Quantity.CPU_SYSTEM_S)
    if any(quantity not in used for quantity in (*modes, *ours)):
        return used
    others_s = sum(used[mode] for mode in modes) - sum(used[part] for part in ours)
    return {**used, Quantity.OTHERS_CPU_S: rounded(max(others_s, 0.0))}


def _caught_up(first: Counted, last: Counted, totals: Counted) -> Counted:
    """Return the last reading with the CPU that no sample saw, so that rows add up."""
    exact: Counted = {
        quantity: first[quantity] + totals[quantity]
        for quantity in (Quantity.SERVER_CPU_S, Quantity.GENERATOR_CPU_S)
        if quantity in first and quantity in totals
    }
    return {**last, **exact}


def _unseen(vantage: Vantage | None) -> tuple[Absence, ...]:
    if vantage is not None:
        return ()
    reason = (
        "the server's processes, devices and memory are not visible from here;"
        " CPU and other processes are those of the machine that runs the generator"
    )
    return (Absence(subject=SERVERS_MACHINE, reason=reason),)


def timeline(
    readings: Sequence[Reading],
    finished: Callable[[Counted], Counted],
    *,
    without: Collection[Quantity] = (),
) -> tuple[Series, ...]:
    """Return the series of a run; none where nothing of it was counted.

    Args:
        readings: Counters with the seconds since the run's start; the first at its start.
        finished: Adds to differences what follows from them.
        without: Quantities that samples do not show.
    """
    readings = without_short_end(readings)
    used = [finished(difference(begin, end)) for (_, begin), (_, end) in pairwise(readings)]
    known = [name for name in HOST_QUANTITIES if name not in without]
    names = [name for name in known if any(name in row for row in used)]
    if not names:
        return ()
    return (
        Series(
            subject=SERIES,
            names=tuple(name.value for name in names),
            end_s=tuple(round(at_s, 3) for at_s, _ in readings[1:]),
            rows=tuple(tuple(row.get(name) for name in names) for row in used),
        ),
    )


def difference(begin: Counted, end: Counted) -> Counted:
    """Return what went by between two readings of the same counters.

    Idle time and waiting for devices may go back a little (proc_stat(5)); so may sums over
    processes that end while they are read.
    """
    return {
        quantity: rounded(max(end[quantity] - begin[quantity], 0.0))
        for quantity in end
        if quantity in begin
    }


def rounded(value: float) -> float:
    """Return a figure as evidence keeps it."""
    return float(round(value, _DIGITS))


def without_short_end(readings: Sequence[Reading]) -> list[Reading]:
    """Return the readings without the last sample when it lies just before the end."""
    if len(readings) > 2 and readings[-1][0] - readings[-2][0] < _LEAST_ROW_S:
        return [*readings[:-2], readings[-1]]
    return list(readings)


_ROW_S: Final = 1.0  # of the timeline


class MachineInTurns:
    """Reads this machine at the edges of one run; with a vantage also the server's part of it.

    Args:
        host: This machine.
        vantage: The server's processes; None: they are not visible from here.
        crowd: Other processes, the same for all runs that take turns together.
        generators: Returns the ids of this run's load generators.
        clock: For the length of what is counted.

    Attributes:
        at: When the run went on last, monotonic.
        own_s: Of the run so far, without pauses.
    """

    subject: Final = "the machine"

    def __init__(
        self,
        *,
        host: Host,
        vantage: Vantage | None,
        crowd: neighbours.Crowd,
        generators: Callable[[], Sequence[int]],
        clock: Clock,
    ) -> None:
        self._vantage = vantage
        self._crowd = crowd
        self._clock = clock
        self._sources = Sources.of(host, vantage, GeneratorProcesses(host=host, chosen=generators))
        self._bystanders = neighbours.Bystanders()
        times = cpu_times(host.read("/proc/stat"))
        self._cpus = times.cpus if times is not None else host.cpus()
        self._links = neighbours.LinkSums(host=host)
        self._own_before = self._sources.own()
        # What cannot be read once is in no sum.
        self._sums: Counted = dict.fromkeys(self._sources.passing(), 0.0)
        self._parts = Parts()
        self._faults_before: int | None = None
        self.own_s = 0.0
        self._readings: list[Reading] = [(0.0, self._reading())]
        self._edge: Counted = {}
        self.at = 0.0
        self._processes: neighbours.Seen = {}

    def resume(self) -> None:
        """Take the reading before the run goes on."""
        self._processes = self._crowd.now()
        if self._vantage is None:  # else nothing of the run goes through a link
            self._links.begin()
        self.at = self._clock.monotonic()
        self._edge = self._sources.passing()

    def begin_turns(self) -> None:
        """Take note of what the server's processes did while they warmed up."""
        if self._sources.server is not None:
            self._faults_before = self._sources.server.major_faults()

    def settle_turn(self) -> None:
        """Take the reading inside a turn, at the end of its settling."""
        self._parts.settled(self._sources.device_counts(), self._clock.monotonic())

    def halt(self, at: float) -> None:
        """Take the reading when everything stands still again.

        Args:
            at: Now, monotonic. At both edges the time is taken just before the reading.
        """
        edge = self._sources.passing()
        if self._vantage is None:
            self._links.end()
        most_s = self._cpus * (at - self.at)
        self._bystanders.add(self._processes, self._crowd.now(), most_s)
        self._sums = {
            quantity: total + edge[quantity] - self._edge[quantity]
            for quantity, total in self._sums.items()
            if quantity in edge and quantity in self._edge
        }
        self.own_s += at - self.at
        self._parts.ended(self._edge, self.at, edge, at)
        if self.own_s - self._readings[-1][0] >= _ROW_S:
            self._readings.append((self.own_s, self._reading()))

    def look(self) -> None:
        """Look at processes that are about to end: their time in a queue does not outlive them."""
        self._sources.own_sampled()

    def settle(self, given_up: threading.Event) -> None:
        """Wait until the sessions of the generators are gone, for a second at most."""
        if self._sources.server is not None:
            self._sources.server.settle(given_up)

    def finish(self) -> Part:
        """Return everything, after the last edge."""
        passed = {quantity: rounded(max(total, 0.0)) for quantity, total in self._sums.items()}
        own = difference(self._own_before, self._sources.own())
        return machine_part(
            self._sources,
            self._vantage,
            [*self._readings, (self.own_s, self._reading())],
            used={**passed, **own, **self._parts.totals(), **self._faults()},
            others=self._bystanders.heaviest(),
            link_fraction=self._links.busiest_fraction(self.own_s),
        )

    def _reading(self) -> Counted:
        """Return a reading for the timeline, in which no pauses are."""
        return {**self._sums, **self._sources.own_sampled()}

    def _faults(self) -> Counted:
        server = self._sources.server
        faults = None if server is None else server.major_faults()
        if faults is None or self._faults_before is None:
            return {}
        return {Quantity.TURNS_MAJOR_FAULTS: float(max(faults - self._faults_before, 0))}


_WRITTEN, _READ = Quantity.DEVICE_WRITE_BYTES, Quantity.DEVICE_READ_BYTES


@dataclass(slots=True, kw_only=True)
class Parts:
    """What the device of the data did in the two parts of turns: settling, and afterwards."""

    _inside: tuple[Counted, float] | None = None
    _sums: Counted = field(default_factory=dict)

    def settled(self, counted: Counted, at: float) -> None:
        """Take the reading between the two."""
        self._inside = counted, at

    def ended(self, first: Counted, first_at: float, last: Counted, last_at: float) -> None:
        """Count a turn; a time without a reading inside was none."""
        if self._inside is None:
            return
        (inside, inside_at), self._inside = self._inside, None
        if all(name in each for each in (first, inside, last) for name in (_WRITTEN, _READ)):
            self._add(Quantity.SETTLING_S, inside_at - first_at)
            self._add(Quantity.SETTLED_S, last_at - inside_at)
            self._add(Quantity.SETTLING_WRITE_BYTES, inside[_WRITTEN] - first[_WRITTEN])
            self._add(Quantity.SETTLED_WRITE_BYTES, last[_WRITTEN] - inside[_WRITTEN])
            self._add(Quantity.SETTLED_READ_BYTES, last[_READ] - inside[_READ])

    def totals(self) -> Counted:
        """Return the sums over all turns; nothing where the device has no counters."""
        return {quantity: rounded(total) for quantity, total in self._sums.items()}

    def _add(self, quantity: Quantity, amount: float) -> None:
        self._sums[quantity] = self._sums.get(quantity, 0.0) + amount
