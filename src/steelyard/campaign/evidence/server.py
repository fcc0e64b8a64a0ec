"""What the server says of itself while it works: wait events, counters, sizes.

Of a server that serves all sessions on one thread it is looked at where that thread was: in a
queue, or held up.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

from steelyard.campaign.evidence.processes import parse_scheduled
from steelyard.campaign.evidence.watch import Part
from steelyard.core.errors import TargetError
from steelyard.core.evidence import Absence, Quantity, Series, WaitClass, WaitEvent, Waits
from steelyard.gateways.clock import Clock
from steelyard.gateways.host import Host
from steelyard.systems.protocol import ServerReader, Waiting

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
            found[Quantity.MAIN_THREAD_BLOCKED_S] = round(self._blocked_s, 3)
        queued_s = self._delay_s()
        if queued_s is not None and self._queued_s is not None:
            found[Quantity.MAIN_THREAD_RUN_QUEUE_S] = round(queued_s - self._queued_s, 6)
        return found

    def _delay_s(self) -> float | None:
        path = f"/proc/{self.pid}/task/{self.pid}/schedstat"
        scheduled = parse_scheduled(self.host.read(path))
        return None if scheduled is None else scheduled.delay_s


def unseen_thread() -> Absence:
    """Return why nobody could look at it."""
    return Absence(
        subject="main thread",
        reason="The server's process is not visible from here: what held its main thread up, and"
        " how long it waited for a CPU, is not known.",
    )


_INTERVAL_S = 0.1
_PACE = f"at {1 / _INTERVAL_S:.0f} Hz"
# What is worth a place in the timeline; of the rest the difference over the run suffices.
_IN_SERIES = (
    Quantity.COMMITS,
    Quantity.WAL_BYTES,
    Quantity.FULL_PAGE_IMAGES,
    Quantity.PAGES_HIT,
    Quantity.PAGES_READ,
    Quantity.RELATION_READ_BYTES,
    Quantity.CHECKPOINTS,
    Quantity.COMMANDS,
    Quantity.AOF_BYTES,
    Quantity.AOF_DELAYED_FSYNCS,
    Quantity.AOF_REWRITING_S,
    Quantity.RDB_SAVING_S,
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

    def finish(self, at_s: float, *, lost: int) -> Part:
        """Read everything once more when the generator's sessions are gone."""
        with self._closing_on_failure():
            reader = self._opened()
            self._skip_pauses(at_s)
            settled = reader.settled_counters()
            levels = reader.levels()
            source = f"{reader.source} {self.pace}"
            waits = average(self._sightings, source, ramp_s=self.ramp_s, lost=lost)
            totals, reset = differences(self._readings[0].counters, settled)
            part = Part(
                totals={**totals, **(self._thread.totals() if self._thread else {})},
                levels=levels,
                waits=waits,
                series=self._series(at_s, seen=waits is not None),
                absent=(*_absent(reader.absent, waits), *reset, *self._unseen(reader)),
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

    def _series(self, at_s: float, *, seen: bool) -> tuple[Series, ...]:
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

    def _unseen(self, reader: ServerReader) -> tuple[Absence, ...]:
        hidden = reader.serving_pid is not None and self._thread is None
        return (unseen_thread(),) if hidden else ()

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
) -> Waits | None:
    """Return the mean sessions per event after the ramp; None when nobody was seen there.

    The ramp begins with the first session that is there: the generator counts it from its last
    connection. After the last one the generator has ended.
    """
    there = [sighting.at_s for sighting in sightings if sighting.waiting]
    kept = [s for s in sightings if there and there[0] + ramp_s <= s.at_s <= there[-1]]
    if not kept:
        return None
    totals: Counter[tuple[str, str, WaitClass]] = Counter()
    for sighting in kept:
        for one in sighting.waiting:
            totals[one.kind, one.name, one.group] += one.sessions
    return Waits(
        source=source,
        samples=len(kept),
        lost=lost,
        events=tuple(
            WaitEvent(kind=kind, name=name, group=group, sessions=round(total / len(kept), 4))
            for (kind, name, group), total in sorted(
                totals.items(), key=lambda item: (-item[1], item[0])
            )
        ),
    )


def waits_series(sightings: Sequence[Sighting], end_s: float) -> Series:
    """Return the mean sessions in each class for each second of the run; None where unseen."""
    seconds = int(end_s)
    counts: list[Counter[WaitClass]] = [Counter() for _ in range(seconds)]
    samples = [0] * seconds
    for sighting in sightings:
        second = int(sighting.at_s)
        if second < seconds:
            samples[second] += 1
            for one in sighting.waiting:
                counts[second][one.group] += one.sessions
    return Series(
        subject="waits",
        names=tuple(WaitClass),
        end_s=tuple(float(second + 1) for second in range(seconds)),
        rows=tuple(
            tuple(round(count[group] / taken, 4) if taken else None for group in WaitClass)
            for count, taken in zip(counts, samples, strict=True)
        ),
    )


def counters_series(readings: Sequence[Reading]) -> Series:
    """Return what was counted between successive readings, ramp included."""
    names = tuple(name for name in _IN_SERIES if name in readings[0].counters)
    return Series(
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
) -> tuple[Mapping[str, float], tuple[Absence, ...]]:
    """Return what was counted, and what was not because somebody reset it."""
    found: dict[str, float] = {}
    absent = []
    for name in before:
        if name in after:
            difference = _difference(before, after, name)
            if difference is None:
                reason = "The server's statistics were reset during the run."
                absent.append(Absence(subject=name, reason=reason))
            else:
                found[name] = difference
    return found, tuple(absent)


def _difference(before: Mapping[str, float], after: Mapping[str, float], name: str) -> float | None:
    """Return a counter's difference; None when it is missing or went backwards."""
    if name not in after or name not in before or after[name] < before[name]:
        return None
    return round(after[name] - before[name], 3)


def _absent(by_reader: Sequence[Absence], waits: Waits | None) -> tuple[Absence, ...]:
    if waits is None and not any(absence.subject == "wait events" for absence in by_reader):
        unseen = Absence(
            subject="wait events",
            reason="No session of the generator was seen on the server after the ramp.",
        )
        return (*by_reader, unseen)
    return tuple(by_reader)
