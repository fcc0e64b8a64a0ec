"""Reads the machine around a run in turns: at the edges of the times in which the run goes on.

At an edge everything that is measured stands still, so a reading disturbs nothing and costs the run
nothing. Counters of the whole machine go on in pauses, for others; they are added up from edge to
edge. Those of the processes of server and generator stand still with these, so that their
difference over the run is of the same time, and all parts fit together.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from steelyard.experiment.probes.crowd import Bystanders, Crowd
from steelyard.experiment.probes.crowd import Seen as SeenProcesses
from steelyard.experiment.probes.generator_processes import GeneratorProcesses
from steelyard.experiment.probes.links import LinkSums
from steelyard.experiment.probes.machine import Reading, Seen, difference, machine_part, rounded
from steelyard.experiment.probes.probe import Part
from steelyard.experiment.probes.procfs import cpu_times
from steelyard.experiment.probes.sources import Counted, Sources
from steelyard.gateways.clock import Clock
from steelyard.gateways.host import Host
from steelyard.model.evidence import Quantity
from steelyard.model.vantage import Vantage

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
        crowd: Crowd,
        generators: Callable[[], Sequence[int]],
        clock: Clock,
    ) -> None:
        self._vantage = vantage
        self._crowd = crowd
        self._clock = clock
        self._sources = Sources.of(host, vantage, GeneratorProcesses(host=host, chosen=generators))
        self._bystanders = Bystanders()
        times = cpu_times(host.read("/proc/stat"))
        self._cpus = times.cpus if times is not None else host.cpus()
        self._links = LinkSums(host=host)
        self._own_before = self._sources.own()
        # What cannot be read once is in no sum.
        self._sums: Counted = dict.fromkeys(self._sources.passing(), 0.0)
        self._parts = Parts()
        self._faults_before: int | None = None
        self.own_s = 0.0
        self._readings: list[Reading] = [(0.0, self._reading())]
        self._edge: Counted = {}
        self.at = 0.0
        self._processes: SeenProcesses = {}

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
            Seen(sources=self._sources, vantage=self._vantage, readings=self._readings),
            last=(self.own_s, self._reading()),
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
