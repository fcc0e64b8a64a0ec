"""Which probes watch a run, and how they watch one in turns: they are told when it goes on.

The server's own account is always taken, and what can be seen around it. In turns the probes ask
nobody who stands still. What watches the server begins and ends while that server runs alone, and
samples inside turns, once these have settled. A sample that a pause catches is forgotten; nobody
waits for it.
"""

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final, Protocol

from steelyard.campaign.evidence.machine import MachineInTurns, MachineProbe
from steelyard.campaign.evidence.neighbours import Crowd
from steelyard.campaign.evidence.pods import PodProbe
from steelyard.campaign.evidence.processes import own_process
from steelyard.campaign.evidence.server import ServerProbe
from steelyard.campaign.evidence.watch import (
    BEGIN_WITHIN_S,
    END_WITHIN_S,
    Part,
    Probe,
    Worker,
    evidence_of,
)
from steelyard.core.command import ServerAddress
from steelyard.core.errors import SteelyardError
from steelyard.core.evidence import Absence, Evidence, Vantage
from steelyard.core.experiment import Workload
from steelyard.core.schedule import TurnTimes
from steelyard.gateways.clock import Clock, thread_cpu_s
from steelyard.gateways.host import Host
from steelyard.places.kubernetes.outcomes import PodSight
from steelyard.systems.protocol import Engine

# Of what counts, at most: in a turn of 0.25 s once. Measured with twice as often: the rates of
# turns with samples were 98.7 % of those without (95 % interval 96.8 to 100.8 %, 27 blocks), which
# is no clear loss, and no proof that there is none.
_SAMPLE_S: Final = 0.15


class TurnProbe(Probe, Protocol):
    """A probe that can forget a sample."""

    def forget(self, at_s: float) -> None:
        """Forget the sample that began then: what was sampled stood still in the midst of it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledTurn:
    """A turn in which samples are due.

    Attributes:
        at_s: Of the run, without pauses, at the turn's beginning.
        began_at: The same by the monotonic clock.
        due: When to sample, seconds since then.
    """

    at_s: float
    began_at: float
    due: tuple[float, ...]


_OVER: Final = "over"
_Message = SampledTurn | str | None  # None: the run is over


class TurnWorker(Worker):
    """One probe in its thread, which samples only when it is told of a turn."""

    def __init__(self, probe: TurnProbe, clock: Clock) -> None:
        super().__init__(probe, clock)
        self._forget = probe.forget
        self._messages: SimpleQueue[_Message] = SimpleQueue()
        self._ran_s = 0.0

    def turn(self, turn: SampledTurn) -> None:
        """Let it sample in a turn that has begun."""
        self._messages.put(turn)

    def over(self) -> None:
        """Tell it that the turn is over: what is not sampled by now is not to be kept."""
        self._messages.put(_OVER)

    def end(self, ran_s: float) -> None:
        """Tell it that the run is over, and how long it was without pauses."""
        self._ran_s = ran_s
        self.finish()

    def finish(self) -> None:
        """Tell it that the run is over."""
        self._messages.put(None)

    def _sample(self) -> int:
        lost = 0
        while (message := self._messages.get()) is not None:
            if isinstance(message, SampledTurn):
                lost += self._sample_in(message)
        return lost

    def _sample_in(self, turn: SampledTurn) -> int:
        """Sample in one turn; return how many samples were due and are not kept."""
        for number, due_s in enumerate(turn.due):
            if self._is_over(turn.began_at + due_s - self._clock.monotonic()):
                return len(turn.due) - number
            at_s = turn.at_s + self._clock.monotonic() - turn.began_at
            self._probe.sample(at_s)
            if not self._messages.empty():
                self._forget(at_s)
                return len(turn.due) - number
        return 0

    def _is_over(self, wait_s: float) -> bool:
        """Wait until a sample is due; return whether the turn was over before."""
        try:
            message = self._messages.get(timeout=max(wait_s, 0.0))
        except Empty:
            return False
        if message is None:
            self._messages.put(None)
        return True

    def _elapsed_s(self) -> float:
        return self._ran_s


@dataclass(slots=True, kw_only=True)
class TurnWatch:
    """Watches one run in turns; all methods are called by whoever lets it take them.

    The order is: ``begin`` while the server runs alone; around each time in which the run goes on
    ``resume`` before and ``halt`` after it, while everything stands still, and inside a turn
    ``begin_turn``, ``settle_turn`` and ``end_turn``; at last ``take_stock`` while everything stands
    still, and ``finish`` while the server runs alone.

    Attributes:
        server: Watches the server; None: nobody does.
        machine: Makes what reads the machine, once the server stands still; None: nobody does.
        absent: What nobody can know here, and why.
    """

    clock: Clock
    server: TurnProbe | None = None
    machine: Callable[[], MachineInTurns] | None = None
    absent: tuple[Absence, ...] = ()
    _worker: TurnWorker | None = None
    _reading: MachineInTurns | None = None
    _given_up: threading.Event = field(default_factory=threading.Event)
    _failure: str = ""
    _resumed_at: float = 0.0
    _ran_s: float = 0.0
    _own_cpu_s: float = 0.0  # what is read in a pause takes none from the run
    _parts: list[Part] = field(default_factory=list)
    _evidence: Evidence | None = None

    def begin(self) -> None:
        """Let the server be asked for its first reading, while it runs alone."""
        if self.server is not None:
            self._worker = TurnWorker(self.server, self.clock)
            self._worker.start(BEGIN_WITHIN_S)
            self._worker.go(self.clock.monotonic())

    def resume(self) -> None:
        """Take the reading before the run goes on."""
        self._read(lambda machine: machine.resume())
        read = None if self._failure else self._reading
        self._resumed_at = self.clock.monotonic() if read is None else read.at

    def begin_turn(self, times: TurnTimes) -> None:
        """Let samples be taken in a turn that begins to run now, after its settling."""
        if self._worker is not None:
            began_at = self.clock.monotonic()
            at_s = self._ran_s + began_at - self._resumed_at
            self._worker.turn(SampledTurn(at_s=at_s, began_at=began_at, due=moments(times)))

    def settle_turn(self) -> None:
        """Take the reading at the end of a turn's settling."""
        begun_s = thread_cpu_s()
        self._read(lambda machine: machine.settle_turn())
        self._own_cpu_s += thread_cpu_s() - begun_s

    def end_turn(self) -> None:
        """Let no more samples be taken: a pause comes."""
        if self._worker is not None:
            self._worker.over()

    def halt(self) -> None:
        """Take the reading when everything stands still again."""
        at = self.clock.monotonic()
        self._ran_s += at - self._resumed_at
        self._read(lambda machine: machine.halt(at))

    def warm(self) -> None:
        """Take note that the server is warm, while it stands still."""
        self._read(lambda machine: machine.begin_turns())

    def look(self) -> None:
        """Look at the processes of generators that are about to end."""
        self._read(lambda machine: machine.look())

    def settle(self) -> None:
        """Wait until the server is rid of the generators' sessions, for a second at most."""
        self._read(lambda machine: machine.settle(self._given_up))

    def take_stock(self) -> None:
        """Take the last reading of the machine, after the last ``halt``."""
        if self.machine is None:
            return
        self._read(lambda machine: self._parts.append(machine.finish()))
        if self._failure:
            absent = Absence(subject=MachineInTurns.subject, reason=self._failure)
            self._parts.append(Part(absent=(absent,)))

    def finish(self) -> None:
        """Let the server be asked for its last reading; its generators have ended."""
        if self._worker is not None:
            self._worker.end(self._ran_s)
            self._parts.insert(0, self._worker.part(END_WITHIN_S))
            self._own_cpu_s += self._worker.cpu_s
        if self.absent:
            self._parts.append(Part(absent=self.absent))
        if self._parts:
            self._evidence = evidence_of(self._parts, self._ran_s, own_cpu_s=self._own_cpu_s)

    def evidence(self) -> Evidence | None:
        """Return what the probes saw; None before ``finish``, and where there were none."""
        return self._evidence

    def close(self) -> None:
        """Give up what goes on; after ``finish`` this changes nothing."""
        self._given_up.set()
        if self._worker is not None and self._evidence is None:
            self._worker.finish()
            assert self.server is not None  # noqa: S101 - it has the worker
            self.server.abandon()

    def _read(self, step: Callable[[MachineInTurns], None]) -> None:
        """Take a step of what reads the machine; once one has failed, none."""
        if self.machine is None or self._failure:
            return
        try:
            if self._reading is None:
                self._reading = self.machine()
            step(self._reading)
        except SteelyardError as error:
            self._failure = error.message
        except Exception as error:  # noqa: BLE001 - whatever fails here must not end a run
            self._failure = f"{type(error).__name__}: {error}"


def moments(times: TurnTimes) -> tuple[float, ...]:
    """Return when to sample in a turn, seconds since it began to run: evenly, where it counts."""
    number = max(1, math.ceil(round(times.counted_s / _SAMPLE_S, 6)))
    step_s = times.counted_s / number
    return tuple(times.settling_s + (place + 0.5) * step_s for place in range(number))


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A server in force and the workload that it is about to get.

    Attributes:
        vantage: Its processes, where it runs on this machine.
        sight: Its pod and those of the generators, where they run in a cluster.
    """

    engine: Engine
    address: ServerAddress
    workload: Workload
    vantage: Vantage | None
    sight: PodSight | None = None


def probes_for(place: Place, host: Host, clock: Clock, *, ramp_s: float) -> tuple[Probe, ...]:
    """Return new probes for one run.

    Where server and generators are pods, this machine has no part in it.
    """
    server = ServerProbe(
        open_reader=lambda: place.engine.reader(place.address, place.workload),
        ramp_s=ramp_s,
        nearby=host if place.vantage is not None else None,
    )
    if place.sight is not None:
        return (server, PodProbe(sight=place.sight, host=host, clock=clock))
    return (server, MachineProbe(host=host, vantage=place.vantage))


_PACE_IN_TURNS = "in turns"
_OF_ALL_SESSIONS = Absence(
    subject="server",
    reason="Sessions of other configurations are on the same server, which counts what all of them"
    " do.",
)

_OF_PODS = Absence(
    subject="the database's container",
    reason="In turns nothing is read of the nodes, and nothing of the CPU of pods.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceInTurns:
    """One of several servers that are up together, and where its generators will be.

    Attributes:
        place: None where its server is gone.
        generators: Returns the ids of its load generators' processes.
        is_shared: Others of them are sessions of the same server.
    """

    place: Place | None
    generators: Callable[[], Sequence[int]]
    is_shared: bool = False


def turn_watches(places: Sequence[PlaceInTurns], host: Host, clock: Clock) -> tuple[TurnWatch, ...]:
    """Return what watches runs that take turns with one another, one per place.

    To none of them the others' processes are neighbours.
    """
    vantages = [one.place.vantage for one in places if one.place is not None]
    own = own_process(host)
    ours = {pid for each in vantages if each is not None for pid in (each.pid, *each.beside)}
    crowd = Crowd(host=host, clock=clock, ours=frozenset(ours | ({own.pid} if own else set())))
    return tuple(_turn_watch(one, crowd, host, clock) for one in places)


def _turn_watch(one: PlaceInTurns, crowd: Crowd, host: Host, clock: Clock) -> TurnWatch:
    place = one.place
    if place is None:
        return TurnWatch(clock=clock)
    server = ServerProbe(
        open_reader=lambda: place.engine.reader(place.address, place.workload),
        ramp_s=0.0,
        nearby=host if place.vantage is not None else None,
        pace=_PACE_IN_TURNS,
        clock=clock,
    )
    if place.sight is not None:
        return TurnWatch(clock=clock, server=server, absent=(_OF_PODS,))
    return TurnWatch(
        clock=clock,
        server=None if one.is_shared else server,
        absent=(_OF_ALL_SESSIONS,) if one.is_shared else (),
        machine=partial(
            MachineInTurns,
            host=host,
            vantage=place.vantage,
            crowd=crowd,
            generators=one.generators,
            clock=clock,
        ),
    )
