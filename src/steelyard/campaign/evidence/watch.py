"""How a run is watched, in one piece or in turns, and which probes watch it.

What reads this machine is called at the edges of the times in which the run goes on, by whoever
lets it go on. All other probes have a thread each, so that none can harm or delay the run: what
watches the server begins and ends while that server runs alone. In turns nobody is asked who stands
still: samples are taken inside turns, and nobody waits for one that a pause catches.
"""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue
from typing import Final

from steelyard.campaign.evidence.machine import MachineProbe
from steelyard.campaign.evidence.neighbours import Crowd
from steelyard.campaign.evidence.pods import PodProbe
from steelyard.campaign.evidence.probe import Part, Probe, evidence_of
from steelyard.campaign.evidence.processes import own_process
from steelyard.campaign.evidence.server import ServerProbe, StatementProbe
from steelyard.core.experiment import Workload
from steelyard.core.measurement import STATEMENTS, Absence, Evidence, Vantage
from steelyard.core.outside import ServerAddress
from steelyard.core.schedule import TurnTimes
from steelyard.core.wording import SteelyardError
from steelyard.gateways.host import Clock, Host, thread_cpu_s
from steelyard.places.protocol import PodSight
from steelyard.systems.protocol import Engine

# Guesses: a probe that needs longer than that before or after a run would change what it watches.
BEGIN_WITHIN_S = 5.0
END_WITHIN_S = 10.0
# Of what counts, at most: in a turn of 0.25 s once. Measured with twice as often: the rates of
# turns with samples were 98.7 % of those without (95 % interval 96.8 to 100.8 %, 27 blocks), which
# is no clear loss, and no proof that there is none.
_SAMPLE_S: Final = 0.15


def moments(times: TurnTimes) -> tuple[float, ...]:
    """Return when to sample in a turn, seconds since it began to run: evenly, where it counts."""
    number = max(1, math.ceil(round(times.counted_s / _SAMPLE_S, 6)))
    step_s = times.counted_s / number
    return tuple(times.turn_discard_s + (place + 0.5) * step_s for place in range(number))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    """A time in which samples are due.

    Attributes:
        at_s: Of the run, without pauses, at its beginning.
        began_at: The same by the monotonic clock.
        due: When to sample, seconds since then; None: at the probe's own interval to the end of the
            run, which is in one piece.
    """

    at_s: float
    began_at: float
    due: tuple[float, ...] | None


_OVER: Final = "over"
_Message = _Turn | str | None  # None: the run is over


class Worker:
    """One probe in its thread, which samples only when it is told of a turn."""

    def __init__(self, probe: Probe, clock: Clock) -> None:
        self.probe = probe
        self.failure = ""
        self.cpu_s = 0.0
        self._clock = clock
        self._messages: SimpleQueue[_Message] = SimpleQueue()
        self._ready, self._done = threading.Event(), threading.Event()
        self._ran_s = 0.0
        self._part = Part()

    def start(self, within_s: float) -> None:
        """Begin the probe; one that is not ready in time is left behind."""
        name = f"probe {self.probe.subject}"
        try:
            threading.Thread(target=self._work, name=name, daemon=True).start()
        except RuntimeError as error:  # no more threads are allowed
            self.failure = f"{error}"
            return
        if not self._ready.wait(within_s):
            self.failure = f"it was not ready within {within_s:.0f} s"
            self.give_up()

    def turn(self, turn: _Turn | None) -> None:
        """Let it sample in a turn that has begun; None: it is over, and so is the sampling."""
        if self.probe.interval_s is not None:
            self._messages.put(turn or _OVER)

    def end(self, ran_s: float) -> None:
        """Tell it that the run is over, and how long it was without pauses."""
        self._ran_s = ran_s
        self._messages.put(None)

    def give_up(self) -> None:
        """Let go of whatever it waits for."""
        self._messages.put(None)
        self.probe.abandon()

    def part(self, within_s: float) -> Part:
        """Return what it saw, or its absence."""
        if not self.failure and not self._done.wait(within_s):
            self.failure = f"it did not end within {within_s:.0f} s"
            self.probe.abandon()
        if self.failure:
            absent = Absence(subject=self.probe.subject, reason=self.failure)
            return Part(absent=(*self._part.absent, absent))
        return self._part

    def attempt(self, step: Callable[[], None]) -> None:
        """Take a step of its probe here and now; once one has failed, none."""
        if self.failure:
            return
        try:
            step()
        except Exception as error:  # noqa: BLE001 - whatever fails in a probe must not end a run
            own = error.message if isinstance(error, SteelyardError) else ""
            self.failure = self.failure or own or f"{type(error).__name__}: {error}"
            self.probe.abandon()

    def _work(self) -> None:
        try:
            self.attempt(self._attend)
        finally:
            self.cpu_s = thread_cpu_s()
            self._ready.set()
            self._done.set()

    def _attend(self) -> None:
        self.probe.begin()
        self._ready.set()
        lost = 0
        while (message := self._messages.get()) is not None:
            if isinstance(message, _Turn):
                lost += self._sample_in(message)
        if not self.failure:
            self._part = self.probe.finish(self._ran_s, lost=lost)

    def _sample_in(self, turn: _Turn) -> int:
        """Sample until a turn is over; return how many samples were due and are not kept."""
        late = kept = 0
        for due_s in self._due(turn):
            wait_s = turn.began_at + due_s - self._clock.monotonic()
            if wait_s < 0.0:  # the one before took too long
                late += 1
                continue
            if self._is_over(wait_s):
                break
            at_s = turn.at_s + self._clock.monotonic() - turn.began_at
            self.probe.sample(at_s)
            if turn.due is not None and not self._messages.empty():
                self.probe.forget(at_s)
                break
            kept += 1
        return late if turn.due is None else len(turn.due) - kept

    def _due(self, turn: _Turn) -> Iterator[float]:
        if turn.due is not None:
            return iter(turn.due)
        interval_s = self.probe.interval_s or math.inf
        return (number * interval_s for number in count(1))

    def _is_over(self, wait_s: float) -> bool:
        """Wait until a sample is due; return whether the turn was over before."""
        try:
            message = self._messages.get(timeout=wait_s)
        except Empty:
            return False
        if message is None:
            self._messages.put(None)
        return True


@dataclass(slots=True, kw_only=True)
class Watch:
    """Watches one run; all methods are called by whoever takes it.

    The order is: ``begin`` while the server runs alone; around each time in which the run goes on
    ``resume`` before and ``halt`` after it, and inside a turn ``begin_turn``, ``settle_turn`` and
    ``end_turn``; at last ``take_stock``, and ``finish`` while the server runs alone. A run in one
    piece is one such time with one turn. In turns everything stands still at ``resume``, ``halt``
    and ``take_stock``.

    Attributes:
        probes: Watch the server and its container.
        machine: Reads the machine; None: nobody does.
        absent: What nobody can know here, and why.
    """

    clock: Clock
    probes: Sequence[Probe] = ()
    machine: MachineProbe | None = None
    absent: tuple[Absence, ...] = ()
    _workers: tuple[Worker, ...] = ()  # that of the machine is the last, and begins last
    _resumed_at: float = 0.0
    _ran_s: float = 0.0
    _own_cpu_s: float = 0.0  # what is read at edges takes none from the run
    _parts: list[Part] = field(default_factory=list)
    _evidence: Evidence | None = None

    def begin(self) -> None:
        """Let the first readings be taken, while the server runs alone."""
        probes = self.probes if self.machine is None else (*self.probes, self.machine)
        self._workers = tuple(Worker(probe, self.clock) for probe in probes)
        for worker in self._workers:
            worker.start(BEGIN_WITHIN_S)

    def resume(self) -> None:
        """Take the reading before the run goes on."""
        self._read(lambda machine: machine.look_around())
        self._resumed_at = self.clock.monotonic()
        self._read(lambda machine: machine.resume(self._resumed_at))

    def begin_turn(self, times: TurnTimes | None) -> None:
        """Let samples be taken in a turn that begins to run now, after its settling.

        Without ``times`` the run is in one piece, and each probe samples at its own interval.
        """
        began_at = self.clock.monotonic()
        turn = _Turn(
            at_s=self._ran_s + began_at - self._resumed_at,
            began_at=began_at,
            due=None if times is None else moments(times),
        )
        for worker in self._workers:
            worker.turn(turn)

    def settle_turn(self) -> None:
        """Take the reading at the end of a turn's settling."""
        begun_s = thread_cpu_s()
        self._read(lambda machine: machine.settle_turn(self.clock.monotonic()))
        self._own_cpu_s += thread_cpu_s() - begun_s

    def end_turn(self) -> None:
        """Let no more samples be taken: a pause comes, or the end."""
        for worker in self._workers:
            worker.turn(None)

    def halt(self) -> None:
        """Take the reading when the run does not go on any more."""
        at = self.clock.monotonic()
        self._ran_s += at - self._resumed_at
        self._read(lambda machine: machine.halt(at))

    def warm(self) -> None:
        """Take note that the server is warm, before its first turn, while it stands still."""
        self._read(lambda machine: machine.warm())

    def look(self) -> None:
        """Look at the processes of generators that are about to end."""
        self._read(lambda machine: machine.look())

    def settle(self) -> None:
        """Wait until the server is rid of the generators' sessions, for a second at most."""
        self._read(lambda machine: machine.settle(self.clock))

    def take_stock(self) -> None:
        """Take the last reading of the machine, after the last ``halt``."""
        if self.machine is not None:
            self._end(self._workers[-1:])

    def finish(self) -> None:
        """Let the server be asked for its last reading; its generators have ended."""
        # What is told of the server's machine in its container holds, not the same of this one.
        self._end(self._workers[: len(self.probes)])
        if self.absent:
            self._parts.append(Part(absent=self.absent))
        if self._parts:
            own_cpu_s = self._own_cpu_s + sum(worker.cpu_s for worker in self._workers)
            self._evidence = evidence_of(self._parts, self._ran_s, own_cpu_s=own_cpu_s)

    def evidence(self) -> Evidence | None:
        """Return what the probes saw; None before ``finish``, and where there were none."""
        return self._evidence

    def close(self) -> None:
        """Give up what goes on; after ``finish`` this changes nothing."""
        if self._evidence is None:
            for worker in self._workers:
                worker.give_up()

    def _end(self, workers: Sequence[Worker]) -> None:
        for worker in workers:
            worker.end(self._ran_s)
        self._parts += [worker.part(END_WITHIN_S) for worker in workers]

    def _read(self, step: Callable[[MachineProbe], None]) -> None:
        """Take a step of what reads the machine."""
        if self.machine is not None and self._workers:
            self._workers[-1].attempt(partial(step, self.machine))


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A server in force and the workload that it is about to get.

    Attributes:
        vantage: Its processes, where it runs on this machine.
        sight: Its container, where it runs in a cluster.
    """

    engine: Engine
    address: ServerAddress
    workload: Workload
    vantage: Vantage | None
    sight: PodSight | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedPlace:
    """One of the servers that are up, and where its generators will be.

    Attributes:
        place: None where its server is gone.
        generators: Returns the ids of its load generators' processes; None: all children that
            Steelyard gets in the run.
        elsewhere_s: As of ``GeneratorProcesses``.
        is_shared: Others of them are sessions of the same server.
    """

    place: Place | None
    generators: Callable[[], Sequence[int]] | None = None
    elsewhere_s: Callable[[], float] = lambda: 0.0
    is_shared: bool = False

    @property
    def account(self) -> tuple[object, ...]:
        """Return what the server counts statements by: databases and role."""
        address = None if self.place is None else self.place.address
        if address is None:
            return ()
        return address.host, address.port, address.user, address.databases, address.database


_OF_ALL_SESSIONS = Absence(
    subject="server",
    reason="Sessions of other configurations are on the same server, which counts what all of them"
    " do.",
)
_IN_ONE_DATABASE = Absence(
    subject=STATEMENTS,
    reason="Sessions of other configurations are in the same database by the same role, for which"
    " the server counts what all of them do.",
)


def watches(
    places: Sequence[WatchedPlace], host: Host, clock: Clock, *, ramp_s: float | None
) -> tuple[Watch, ...]:
    """Return what watches one run on each of these places.

    Args:
        places: Of runs that take turns with one another, or of one run in one piece.
        host: This machine.
        clock: Of this machine.
        ramp_s: Of a run in one piece. None: they take turns, and to none of them the others'
            processes are neighbours.
    """
    vantages = [one.place.vantage for one in places if one.place is not None]
    own = own_process(host)
    ours = {pid for each in vantages if each is not None for pid in (each.pid, *each.beside)}
    ours |= {own.pid} if own else set()
    crowd = None if ramp_s is not None else Crowd(host=host, clock=clock, ours=frozenset(ours))
    of_one = [one.account for one in places if one.is_shared]
    return tuple(
        _watch(one, host, clock, crowd, ramp_s, is_apart=of_one.count(one.account) < 2)
        for one in places
    )


def _watch(
    one: WatchedPlace,
    host: Host,
    clock: Clock,
    crowd: Crowd | None,
    ramp_s: float | None,
    *,
    is_apart: bool,
) -> Watch:
    place, in_turns = one.place, ramp_s is None
    if place is None:
        return Watch(clock=clock)
    opening = partial(place.engine.reader, place.address, place.workload)
    probes: tuple[Probe, ...] = ()
    absent: tuple[Absence, ...] = ()
    if not one.is_shared:
        nearby = host if place.vantage is not None else None
        paused_by = clock if in_turns else None
        probes = (
            ServerProbe(
                open_reader=opening, ramp_s=ramp_s or 0.0, nearby=nearby, paused_by=paused_by
            ),
        )
    elif is_apart:  # then only the statements of one of them are told apart
        probes, absent = (StatementProbe(open_reader=opening),), (_OF_ALL_SESSIONS,)
    else:
        absent = (_OF_ALL_SESSIONS, _IN_ONE_DATABASE)
    if place.sight is not None:
        pod = PodProbe(
            sight=place.sight, host=host, clock=clock, in_turns=in_turns, is_shared=one.is_shared
        )
        probes = (*probes, pod)
        if not in_turns:  # it reads the generator's side of this machine, too
            return Watch(clock=clock, probes=probes, absent=absent)
    machine = MachineProbe(
        host=host,
        vantage=place.vantage,
        crowd=crowd,
        generators=one.generators,
        elsewhere_s=one.elsewhere_s,
    )
    return Watch(clock=clock, probes=probes, machine=machine, absent=absent)
