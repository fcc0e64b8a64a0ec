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
from steelyard.campaign.evidence.probe import Part, Probe
from steelyard.campaign.evidence.processes import GeneratorProcesses, tree
from steelyard.campaign.evidence.sources import Counted, Sources, known
from steelyard.core.measurement import (
    SERVERS_MACHINE,
    Absence,
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
    huge = neighbours.huge_bytes(
        host.read(f"/proc/{vantage.pid}/maps"), host.read(f"/proc/{vantage.pid}/smaps_rollup")
    )
    if huge is not None:
        levels[Quantity.SERVER_HUGE_BYTES] = float(huge)
    else:
        reason = "/proc/PID/maps of the server may be read by its own account or root alone"
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


_ROW_S: Final = 1.0  # of the timeline


class MachineProbe(Probe):
    """Reads this machine at the edges of one run; with a vantage also the server's part of it.

    A run in one piece is looked at once a second, too.

    Args:
        host: This machine.
        vantage: The server's processes; None: they are not visible from here.
        crowd: Other processes, the same for all runs that take turns together. None: the run is in
            one piece, and all processes are looked at before and after it.
        generators: Returns the ids of this run's load generators; None: all children that Steelyard
            gets in the run.
        elsewhere_s: As of ``GeneratorProcesses``.
    """

    subject = "the machine"

    def __init__(
        self,
        *,
        host: Host,
        vantage: Vantage | None,
        crowd: neighbours.Crowd | None = None,
        generators: Callable[[], Sequence[int]] | None = None,
        elsewhere_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.interval_s = _ROW_S if crowd is None else None
        self._host = host
        self._vantage = vantage
        self._crowd = crowd
        self._chosen, self._elsewhere_s = generators, elsewhere_s
        times = cpu_times(host.read("/proc/stat"))
        self._cpus = times.cpus if times is not None else host.cpus()
        # Of a server here nothing goes through a link: it is not worth a look at every edge.
        self._links = neighbours.LinkSums(host=host) if crowd is None or vantage is None else None
        self._parts = Parts()
        self._faults_before: int | None = None
        self._at, self._own_s = 0.0, 0.0
        self._edge: Counted = {}  # empty while the run does not go on
        self._reading_now = threading.Lock()
        self._sources: Sources
        self._others: neighbours.Bystanders
        self._own_before: Counted
        self._sums: Counted
        self._readings: list[Reading]

    def begin(self) -> None:
        """Take the first reading of what stands still with the run."""
        generator = GeneratorProcesses(
            host=self._host, chosen=self._chosen, elsewhere_s=self._elsewhere_s
        )
        self._sources = Sources.of(self._host, self._vantage, generator)
        vantage = self._vantage
        ours = () if vantage is None else (vantage.pid, *vantage.beside)
        self._others = neighbours.Bystanders(
            host=self._host, ours=frozenset((generator.own_pid, *ours)), crowd=self._crowd
        )
        self._own_before = self._sources.own()
        # What cannot be read once is in no sum.
        self._sums = dict.fromkeys(self._sources.passing(), 0.0)
        self._readings = [(0.0, self._reading({}))]

    def look_around(self) -> None:
        """Take the reading of others before the run goes on."""
        self._others.begin()
        if self._links is not None:
            self._links.begin()

    def resume(self, at: float) -> None:
        """Take the reading when the run goes on now; at each edge the time is taken just before."""
        self._at = at
        self._edge = self._sources.passing()

    def warm(self) -> None:
        """Take note of what the server's processes did before the turns, while they warmed up."""
        if self._sources.server is not None and self._crowd is not None:
            self._faults_before = self._sources.server.major_faults()

    def settle_turn(self, at: float) -> None:
        """Take the reading inside a turn, at the end of its settling."""
        self._parts.settled(self._sources.device_counts(), at)

    def sample(self, at_s: float) -> None:
        """Read what the timeline shows."""
        with self._reading_now:
            if self._edge:
                reading = self._reading(self._sources.in_passing())
                self._readings.append((at_s, reading))

    def halt(self, at: float) -> None:
        """Take the reading when the run does not go on any more."""
        with self._reading_now:
            edge = self._sources.passing()
            before, self._edge = self._edge, {}
        self._sums = {
            quantity: total + edge[quantity] - before[quantity]
            for quantity, total in self._sums.items()
            if quantity in edge and quantity in before
        }
        if self._links is not None:
            self._links.end()
        self._others.end(self._cpus * (at - self._at))
        self._own_s += at - self._at
        self._parts.ended(before, self._at, edge, at)
        if self._own_s - self._readings[-1][0] >= _ROW_S:
            self._readings.append((self._own_s, self._reading({})))

    def look(self) -> None:
        """Look at processes that are about to end: their time in a queue does not outlive them."""
        with self._reading_now:
            self._sources.own_sampled()

    def settle(self, clock: Clock) -> None:
        """Wait until the sessions of the generators are gone, for a second at most."""
        if self._sources.server is not None:
            self._sources.server.settle(clock)

    def finish(self, at_s: float, *, lost: int) -> Part:
        """Return everything, after the last edge.

        A sample that was lost leaves a longer interval in the timeline, no gap.
        """
        del lost
        sources, others_cpu_s = self._sources, self._others.cpu_s()
        used = {quantity: rounded(max(total, 0.0)) for quantity, total in self._sums.items()}
        used |= difference(self._own_before, sources.own()) | self._parts.totals() | self._faults()
        if others_cpu_s is not None:
            used[Quantity.VISIBLE_OTHERS_CPU_S] = rounded(others_cpu_s)
        with_others = partial(with_others_used, ours=_ours(self._vantage))
        totals = with_others(used)
        unsampled = sources.unsampled(totals)
        levels, absent = self._levels(at_s)
        last = _caught_up(self._readings[0][1], self._reading({}), totals)
        return Part(
            totals={q.value: value for q, value in totals.items() if q not in unsampled},
            levels={quantity.value: value for quantity, value in levels.items()},
            series=timeline([*self._readings, (at_s, last)], with_others, without=unsampled),
            others=self._others.heaviest(),
            absent=(*_unseen(self._vantage), *sources.absent(used), *unsampled.values(), *absent),
        )

    def _levels(self, seconds: float) -> Found:
        levels, absent = machine_levels(self._host)
        fraction = None if self._links is None else self._links.busiest_fraction(seconds)
        levels |= known({Quantity.LINK_BUSIEST_FRACTION: fraction})
        if self._vantage is None:
            return levels | generator_levels(self._host), absent
        more, missing = server_levels(self._host, self._vantage)
        return levels | more, (*absent, *missing)

    def _reading(self, now: Counted) -> Counted:
        """Return a reading for the timeline, in which no pauses are.

        ``now`` is what was counted to this moment, where the run goes on.
        """
        passed = {
            quantity: total + now.get(quantity, 0.0) - self._edge.get(quantity, 0.0)
            for quantity, total in self._sums.items()
            if not now or (quantity in now and quantity in self._edge)
        }
        passed.pop(Quantity.GENERATOR_CPU_S, None)  # of children that have ended
        return {**passed, **self._sources.own_sampled()}

    def _faults(self) -> Counted:
        server = self._sources.server
        faults = None if server is None else server.major_faults()
        if faults is None or self._faults_before is None:
            return {}
        return {Quantity.TURNS_MAJOR_FAULTS: float(max(faults - self._faults_before, 0))}


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


_BYTES = _WRITTEN, _READ = Quantity.DEVICE_WRITE_BYTES, Quantity.DEVICE_READ_BYTES


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
        if any(name not in counted for counted in (first, inside, last) for name in _BYTES):
            return
        amounts = {
            Quantity.SETTLING_S: inside_at - first_at,
            Quantity.SETTLED_S: last_at - inside_at,
            Quantity.SETTLING_WRITE_BYTES: inside[_WRITTEN] - first[_WRITTEN],
            Quantity.SETTLED_WRITE_BYTES: last[_WRITTEN] - inside[_WRITTEN],
            Quantity.SETTLED_READ_BYTES: last[_READ] - inside[_READ],
        }
        self._sums = {name: self._sums.get(name, 0.0) + more for name, more in amounts.items()}

    def totals(self) -> Counted:
        """Return the sums over all turns; empty where the device has no counters."""
        return {quantity: rounded(total) for quantity, total in self._sums.items()}
