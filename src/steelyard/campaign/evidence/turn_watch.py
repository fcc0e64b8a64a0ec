"""Which probes watch a run, and how they watch one in turns: they are told when it goes on.

The probe of the server is here, too: its own account is always taken, and what can be seen around
it. In turns the probes ask nobody who stands still. What watches the server begins and ends while
that server runs alone, and samples inside turns, once these have settled. A sample that a pause
catches is forgotten; nobody waits for it.
"""

import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from queue import Empty, SimpleQueue
from typing import Final, Protocol

from steelyard.campaign.evidence import watch
from steelyard.campaign.evidence.machine import MachineInTurns, MachineProbe
from steelyard.campaign.evidence.neighbours import Crowd
from steelyard.campaign.evidence.pods import PodInTurns, PodProbe
from steelyard.campaign.evidence.processes import own_process, parse_scheduled
from steelyard.core import measurement
from steelyard.core.experiment import Workload
from steelyard.core.outside import ServerAddress
from steelyard.core.schedule import TurnTimes
from steelyard.core.wording import SteelyardError, TargetError
from steelyard.gateways.host import Clock, Host, thread_cpu_s
from steelyard.places.protocol import PodSight
from steelyard.systems.protocol import Engine, ServerReader, Waiting

# Of what counts, at most: in a turn of 0.25 s once. Measured with twice as often: the rates of
# turns with samples were 98.7 % of those without (95 % interval 96.8 to 100.8 %, 27 blocks), which
# is no clear loss, and no proof that there is none.
_SAMPLE_S: Final = 0.15


class TurnProbe(watch.Probe, Protocol):
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


class TurnWorker(watch.Worker):
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
        probes: Watch the server and its container.
        machine: Makes what reads the machine, once the server stands still; None: nobody does.
        absent: What nobody can know here, and why.
    """

    clock: Clock
    probes: tuple[TurnProbe, ...] = ()
    machine: Callable[[], MachineInTurns] | None = None
    absent: tuple[measurement.Absence, ...] = ()
    _workers: list[TurnWorker] = field(default_factory=list)
    _reading: MachineInTurns | None = None
    _given_up: threading.Event = field(default_factory=threading.Event)
    _failure: str = ""
    _resumed_at: float = 0.0
    _ran_s: float = 0.0
    _own_cpu_s: float = 0.0  # what is read in a pause takes none from the run
    _parts: list[watch.Part] = field(default_factory=list)
    _evidence: measurement.Evidence | None = None

    def begin(self) -> None:
        """Let the server be asked for its first reading, while it runs alone."""
        self._workers = [TurnWorker(probe, self.clock) for probe in self.probes]
        for worker in self._workers:
            worker.start(watch.BEGIN_WITHIN_S)
            worker.go(self.clock.monotonic())

    def resume(self) -> None:
        """Take the reading before the run goes on."""
        self._read(lambda machine: machine.resume())
        read = None if self._failure else self._reading
        self._resumed_at = self.clock.monotonic() if read is None else read.at

    def begin_turn(self, times: TurnTimes) -> None:
        """Let samples be taken in a turn that begins to run now, after its settling."""
        began_at = self.clock.monotonic()
        at_s = self._ran_s + began_at - self._resumed_at
        turn = SampledTurn(at_s=at_s, began_at=began_at, due=moments(times))
        for worker in self._workers:
            worker.turn(turn)

    def settle_turn(self) -> None:
        """Take the reading at the end of a turn's settling."""
        begun_s = thread_cpu_s()
        self._read(lambda machine: machine.settle_turn())
        self._own_cpu_s += thread_cpu_s() - begun_s

    def end_turn(self) -> None:
        """Let no more samples be taken: a pause comes."""
        for worker in self._workers:
            worker.over()

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
            absent = measurement.Absence(subject=MachineInTurns.subject, reason=self._failure)
            self._parts.append(watch.Part(absent=(absent,)))

    def finish(self) -> None:
        """Let the server be asked for its last reading; its generators have ended."""
        for worker in self._workers:
            worker.end(self._ran_s)
        # What is told of the server's machine in its container holds, not the same of this one.
        self._parts += [worker.part(watch.END_WITHIN_S) for worker in self._workers]
        self._own_cpu_s += sum(worker.cpu_s for worker in self._workers)
        if self.absent:
            self._parts.append(watch.Part(absent=self.absent))
        if self._parts:
            self._evidence = watch.evidence_of(self._parts, self._ran_s, own_cpu_s=self._own_cpu_s)

    def evidence(self) -> measurement.Evidence | None:
        """Return what the probes saw; None before ``finish``, and where there were none."""
        return self._evidence

    def close(self) -> None:
        """Give up what goes on; after ``finish`` this changes nothing."""
        self._given_up.set()
        if self._evidence is None:
            for worker, probe in zip(self._workers, self.probes, strict=False):
                worker.finish()
                probe.abandon()

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
        sight: Its container, where it runs in a cluster.
    """

    engine: Engine
    address: ServerAddress
    workload: Workload
    vantage: measurement.Vantage | None
    sight: PodSight | None = None


def probes_for(place: Place, host: Host, clock: Clock, *, ramp_s: float) -> tuple[watch.Probe, ...]:
    """Return new probes for one run."""
    server = ServerProbe(
        open_reader=lambda: place.engine.reader(place.address, place.workload),
        ramp_s=ramp_s,
        nearby=host if place.vantage is not None else None,
    )
    if place.sight is not None:
        return (server, PodProbe(sight=place.sight, host=host, clock=clock))
    return (server, MachineProbe(host=host, vantage=place.vantage))


_PACE_IN_TURNS = "in turns"
_OF_ALL_SESSIONS = measurement.Absence(
    subject="server",
    reason="Sessions of other configurations are on the same server, which counts what all of them"
    " do.",
)
_IN_ONE_DATABASE = measurement.Absence(
    subject=measurement.STATEMENTS,
    reason="Sessions of other configurations are in the same database by the same role, for which"
    " the server counts what all of them do.",
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

    @property
    def account(self) -> tuple[object, ...]:
        """Return what the server counts statements by: databases and role."""
        address = None if self.place is None else self.place.address
        if address is None:
            return ()
        return address.host, address.port, address.user, address.databases, address.database


def turn_watches(places: Sequence[PlaceInTurns], host: Host, clock: Clock) -> tuple[TurnWatch, ...]:
    """Return what watches runs that take turns with one another, one per place.

    To none of them the others' processes are neighbours.
    """
    vantages = [one.place.vantage for one in places if one.place is not None]
    own = own_process(host)
    ours = {pid for each in vantages if each is not None for pid in (each.pid, *each.beside)}
    crowd = Crowd(host=host, clock=clock, ours=frozenset(ours | ({own.pid} if own else set())))
    of_one = [one.account for one in places if one.is_shared]
    return tuple(
        _turn_watch(one, crowd, host, clock, is_apart=of_one.count(one.account) < 2)
        for one in places
    )


def _turn_watch(
    one: PlaceInTurns, crowd: Crowd, host: Host, clock: Clock, *, is_apart: bool
) -> TurnWatch:
    place = one.place
    if place is None:
        return TurnWatch(clock=clock)
    opening = partial(place.engine.reader, place.address, place.workload)
    server = ServerProbe(
        open_reader=opening,
        ramp_s=0.0,
        nearby=host if place.vantage is not None else None,
        pace=_PACE_IN_TURNS,
        clock=clock,
    )
    probes: tuple[TurnProbe, ...] = (server,)
    absent: tuple[measurement.Absence, ...] = ()
    if one.is_shared:  # then only the statements of one of them are told apart, if those are
        probes = (watch.StatementProbe(open_reader=opening),) if is_apart else ()
        absent = (_OF_ALL_SESSIONS,) if is_apart else (_OF_ALL_SESSIONS, _IN_ONE_DATABASE)
    if place.sight is not None:
        pod = PodInTurns(sight=place.sight, host=host, is_shared=one.is_shared)
        probes = (*probes, pod)
    return TurnWatch(
        clock=clock,
        probes=probes,
        absent=absent,
        machine=partial(
            MachineInTurns,
            host=host,
            vantage=place.vantage,
            crowd=crowd,
            generators=one.generators,
            clock=clock,
        ),
    )


_UNINTERRUPTIBLE = "D"  # the field after the name; see proc_pid_stat(5)


@dataclass(slots=True, kw_only=True)
class MainThread:
    """Looks at the first thread of a process on this machine.

    A thread in uninterruptible sleep waits for a device, for the writing back of dirty pages, or
    for another thread that holds the file; it cannot serve anybody then.
    """

    host: Host
    pid: int
    _queued_s: float | None = field(init=False)
    _blocked_s: float = 0.0
    _last_s: float = 0.0
    _looks: int = 0

    def __post_init__(self) -> None:
        self._queued_s = self._delay_s()

    def look(self, at_s: float) -> None:
        """Take what it does now for what it did since the last look."""
        text = self.host.read(f"/proc/{self.pid}/task/{self.pid}/stat") or ""
        state = text.rpartition(")")[2].strip()[:1]  # a name may have parentheses of its own
        if state:
            self._looks += 1
            self._blocked_s += at_s - self._last_s if state == _UNINTERRUPTIBLE else 0.0
        self._last_s = at_s

    def totals(self) -> dict[str, float]:
        """Return what was seen since the beginning."""
        found: dict[str, float] = {}
        if self._looks:
            found[measurement.Quantity.MAIN_THREAD_BLOCKED_S] = round(self._blocked_s, 3)
        queued_s = self._delay_s()
        if queued_s is not None and self._queued_s is not None:
            found[measurement.Quantity.MAIN_THREAD_RUN_QUEUE_S] = round(
                queued_s - self._queued_s, 6
            )
        return found

    def _delay_s(self) -> float | None:
        path = f"/proc/{self.pid}/task/{self.pid}/schedstat"
        scheduled = parse_scheduled(self.host.read(path))
        return None if scheduled is None else scheduled.delay_s


_UNSEEN_THREAD = measurement.Absence(
    subject="main thread",
    reason="The server's process is not visible from here: what held its main thread up, and"
    " how long it waited for a CPU, is not known.",
)


_INTERVAL_S = 0.1
_PACE = f"at {1 / _INTERVAL_S:.0f} Hz"
# What is worth a place in the timeline; of the rest the difference over the run suffices.
_IN_SERIES = (
    measurement.Quantity.COMMITS,
    measurement.Quantity.WAL_BYTES,
    measurement.Quantity.FULL_PAGE_IMAGES,
    measurement.Quantity.PAGES_HIT,
    measurement.Quantity.PAGES_READ,
    measurement.Quantity.RELATION_READ_BYTES,
    measurement.Quantity.CHECKPOINTS,
    measurement.Quantity.COMMANDS,
    measurement.Quantity.AOF_BYTES,
    measurement.Quantity.AOF_DELAYED_FSYNCS,
    measurement.Quantity.AOF_REWRITING_S,
    measurement.Quantity.RDB_SAVING_S,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """What the generator's sessions did at one moment of the run."""

    at_s: float
    waiting: Sequence[Waiting]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """All counters at one moment of the run."""

    at_s: float
    counters: Mapping[str, float]


@dataclass(slots=True, kw_only=True)
class ServerProbe:
    """Samples a server on a session of its own: wait events at 10 Hz, counters at 1 Hz.

    Attributes:
        open_reader: Opens the session; in the probe's thread, because it may hang.
        ramp_s: Wait events before it are not averaged.
        nearby: The machine, where the server runs on it too and its processes can be seen.
        pace: How often it looks at the sessions, in words.
        clock: Where the run is paused: tells how long a pause was, together with the run's seconds.
    """

    open_reader: Callable[[], ServerReader]
    ramp_s: float
    nearby: Host | None
    pace: str = _PACE
    clock: Clock | None = None
    subject: str = "server"
    interval_s: float = _INTERVAL_S
    _reader: ServerReader | None = None
    _thread: MainThread | None = None
    _abandoned: threading.Event = field(default_factory=threading.Event)
    _sightings: list[Sighting] = field(default_factory=list)
    _readings: list[Reading] = field(default_factory=list)
    _used: tuple[measurement.StatementUse, ...] | None = None
    _behind_s: float = 0.0  # the run's seconds behind those of the clock

    def begin(self) -> None:
        """Open the session and read all counters, while the server is still idle."""
        reader = self.open_reader()
        self._reader = reader
        with self._closing_on_failure():
            if self._abandoned.is_set():
                raise TargetError("it was given up before it began")
            if self.nearby is not None and reader.serving_pid is not None:
                self._thread = MainThread(host=self.nearby, pid=reader.serving_pid)
            self._used = reader.statements()  # before the counters, which leave nothing of it over
            self._readings.append(Reading(at_s=0.0, counters=reader.counters()))
            if self.clock is not None:
                self._behind_s = self.clock.monotonic()

    def sample(self, at_s: float) -> None:
        """Look at the sessions, and once a second at the counters."""
        reader = self._opened()
        try:  # as _closing_on_failure does, at less cost ten times a second
            self._skip_pauses(at_s)
            if self._thread is not None:  # before the server is asked, which wakes it up
                self._thread.look(at_s)
            self._sightings.append(Sighting(at_s=at_s, waiting=reader.waits()))
            # Half an interval early rather than a whole one late.
            if at_s - self._readings[-1].at_s >= 1.0 - _INTERVAL_S / 2:
                self._readings.append(Reading(at_s=at_s, counters=reader.counters()))
        except Exception:
            reader.close()
            raise

    def forget(self, at_s: float) -> None:
        """Forget what a sample saw that began then: the server stood still in the midst of it."""
        if self._sightings and self._sightings[-1].at_s == at_s:
            self._sightings.pop()

    def finish(self, at_s: float, *, lost: int) -> watch.Part:
        """Read everything once more when the generator's sessions are gone."""
        with self._closing_on_failure():
            reader = self._opened()
            self._skip_pauses(at_s)
            settled = reader.settled_counters()
            levels = reader.levels()
            statements, gone = watch.used_between(self._used, reader.statements())
            source = f"{reader.source} {self.pace}"
            waits = average(self._sightings, source, ramp_s=self.ramp_s, lost=lost)
            totals, reset = differences(self._readings[0].counters, settled)
            part = watch.Part(
                totals={**totals, **(self._thread.totals() if self._thread else {})},
                levels=levels,
                waits=waits,
                series=self._series(at_s, seen=waits is not None),
                absent=(*_absent(reader.absent, waits), *reset, *gone, *self._unseen(reader)),
                statements=statements,
                server_cpu_s=self._server_cpu_s(reader),
            )
        reader.close()
        return part

    def _skip_pauses(self, at_s: float) -> None:
        """Tell the reader for how long the run has stood still since it was last told."""
        if self.clock is not None:
            behind_s = self.clock.monotonic() - at_s
            self._opened().skip(max(behind_s - self._behind_s, 0.0))
            self._behind_s = behind_s

    def _series(self, at_s: float, *, seen: bool) -> tuple[measurement.Series, ...]:
        """Return the timelines; of wait events only where any session was seen."""
        counted = counters_series(self._readings)
        return (waits_series(self._sightings, at_s), counted) if seen else (counted,)

    def abandon(self) -> None:
        """End the session, also while a statement hangs."""
        self._abandoned.set()
        if self._reader is not None:
            self._reader.close()

    def _opened(self) -> ServerReader:
        if self._reader is None:
            raise TargetError("it never began")
        return self._reader

    @contextmanager
    def _closing_on_failure(self) -> Iterator[None]:
        try:
            yield
        except Exception:
            self._opened().close()
            raise

    def _unseen(self, reader: ServerReader) -> tuple[measurement.Absence, ...]:
        hidden = reader.serving_pid is not None and self._thread is None
        return (_UNSEEN_THREAD,) if hidden else ()

    def _server_cpu_s(self, reader: ServerReader) -> float | None:
        """Return what the session has used of the server's CPUs since it was opened."""
        if reader.answering_s is not None:
            return reader.answering_s
        if self.nearby is None or reader.pid is None:
            return None
        scheduled = parse_scheduled(self.nearby.read(f"/proc/{reader.pid}/schedstat"))
        return scheduled.run_s if scheduled is not None else None


def average(
    sightings: Sequence[Sighting], source: str, *, ramp_s: float, lost: int
) -> measurement.Waits | None:
    """Return the mean sessions per event after the ramp; None when nobody was seen there.

    The ramp begins with the first session that is there: the generator counts it from its last
    connection. After the last one the generator has ended.
    """
    there = [sighting.at_s for sighting in sightings if sighting.waiting]
    kept = [s for s in sightings if there and there[0] + ramp_s <= s.at_s <= there[-1]]
    if not kept:
        return None
    totals: Counter[tuple[str, str, measurement.WaitClass]] = Counter()
    for sighting in kept:
        for one in sighting.waiting:
            totals[one.kind, one.name, one.group] += one.sessions
    return measurement.Waits(
        source=source,
        samples=len(kept),
        lost=lost,
        events=tuple(
            measurement.WaitEvent(
                kind=kind, name=name, group=group, sessions=round(total / len(kept), 4)
            )
            for (kind, name, group), total in sorted(
                totals.items(), key=lambda item: (-item[1], item[0])
            )
        ),
    )


def waits_series(sightings: Sequence[Sighting], end_s: float) -> measurement.Series:
    """Return the mean sessions in each class for each second of the run; None where unseen."""
    seconds = int(end_s)
    counts: list[Counter[measurement.WaitClass]] = [Counter() for _ in range(seconds)]
    samples = [0] * seconds
    for sighting in sightings:
        second = int(sighting.at_s)
        if second < seconds:
            samples[second] += 1
            for one in sighting.waiting:
                counts[second][one.group] += one.sessions
    return measurement.Series(
        subject="waits",
        names=tuple(measurement.WaitClass),
        end_s=tuple(float(second + 1) for second in range(seconds)),
        rows=tuple(
            tuple(
                round(count[group] / taken, 4) if taken else None for group in measurement.WaitClass
            )
            for count, taken in zip(counts, samples, strict=True)
        ),
    )


def counters_series(readings: Sequence[Reading]) -> measurement.Series:
    """Return what was counted between successive readings, ramp included."""
    names = tuple(name for name in _IN_SERIES if name in readings[0].counters)
    return measurement.Series(
        subject="counters",
        names=names,
        end_s=tuple(round(reading.at_s, 3) for reading in readings[1:]),
        rows=tuple(
            tuple(_difference(before.counters, after.counters, name) for name in names)
            for before, after in pairwise(readings)
        ),
    )


def differences(
    before: Mapping[str, float], after: Mapping[str, float]
) -> tuple[Mapping[str, float], tuple[measurement.Absence, ...]]:
    """Return what was counted, and what was not because somebody reset it."""
    found: dict[str, float] = {}
    absent = []
    for name in before:
        if name in after:
            difference = _difference(before, after, name)
            if difference is None:
                reason = "The server's statistics were reset during the run."
                absent.append(measurement.Absence(subject=name, reason=reason))
            else:
                found[name] = difference
    return found, tuple(absent)


def _difference(before: Mapping[str, float], after: Mapping[str, float], name: str) -> float | None:
    """Return a counter's difference; None when it is missing or went backwards."""
    if name not in after or name not in before or after[name] < before[name]:
        return None
    return round(after[name] - before[name], 3)


def _absent(
    by_reader: Sequence[measurement.Absence], waits: measurement.Waits | None
) -> tuple[measurement.Absence, ...]:
    if waits is None and not any(absence.subject == "wait events" for absence in by_reader):
        unseen = measurement.Absence(
            subject="wait events",
            reason="No session of the generator was seen on the server after the ramp.",
        )
        return (*by_reader, unseen)
    return tuple(by_reader)
