"""Watches the server itself: sessions, counters, statements, and the thread that serves.

Of a run in turns it is asked first and last while it runs alone, and samples inside turns, once
these have settled. A sample that a pause catches is forgotten.
"""

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from steelyard.campaign.evidence.probe import Part, Probe
from steelyard.campaign.evidence.processes import parse_scheduled
from steelyard.core import measurement
from steelyard.core.wording import TargetError
from steelyard.gateways.host import Clock, Host
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
_PACE, _PACE_IN_TURNS = f"at {1 / _INTERVAL_S:.0f} Hz", "in turns"
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
class ServerProbe(Probe):
    """Samples a server on a session of its own: wait events at 10 Hz, counters at 1 Hz.

    Attributes:
        open_reader: Opens the session; in the probe's thread, because it may hang.
        ramp_s: Wait events before it are not averaged.
        nearby: The machine, where the server runs on it too and its processes can be seen.
        paused_by: Of a run in turns: tells how long a pause was, together with the run's seconds.
    """

    open_reader: Callable[[], ServerReader]
    ramp_s: float
    nearby: Host | None
    paused_by: Clock | None = None
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
        self._reader = reader = self.open_reader()
        if self._abandoned.is_set():
            raise TargetError("it was given up before it began")
        if self.nearby is not None and reader.serving_pid is not None:
            self._thread = MainThread(host=self.nearby, pid=reader.serving_pid)
        self._used = reader.statements()  # before the counters, which leave nothing of it over
        self._readings.append(Reading(at_s=0.0, counters=reader.counters()))
        if self.paused_by is not None:
            self._behind_s = self.paused_by.monotonic()

    def sample(self, at_s: float) -> None:
        """Look at the sessions, and once a second at the counters."""
        reader = self._opened()
        self._skip_pauses(at_s)
        if self._thread is not None:  # before the server is asked, which wakes it up
            self._thread.look(at_s)
        self._sightings.append(Sighting(at_s=at_s, waiting=reader.waits()))
        # Half an interval early rather than a whole one late.
        if at_s - self._readings[-1].at_s >= 1.0 - _INTERVAL_S / 2:
            self._readings.append(Reading(at_s=at_s, counters=reader.counters()))

    def forget(self, at_s: float) -> None:
        """Forget what a sample saw that began then: the server stood still in the midst of it."""
        if self._sightings and self._sightings[-1].at_s == at_s:
            self._sightings.pop()

    def finish(self, at_s: float, *, lost: int) -> Part:
        """Read everything once more when the generator's sessions are gone."""
        reader = self._opened()
        self._skip_pauses(at_s)
        settled = reader.settled_counters()
        levels = reader.levels()
        statements, gone = used_between(self._used, reader.statements())
        pace = _PACE if self.paused_by is None else _PACE_IN_TURNS
        waits = average(self._sightings, f"{reader.source} {pace}", ramp_s=self.ramp_s, lost=lost)
        totals, reset = differences(self._readings[0].counters, settled)
        part = Part(
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
        if self.paused_by is not None:
            behind_s = self.paused_by.monotonic() - at_s
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


@dataclass(slots=True, kw_only=True)
class StatementProbe(Probe):
    """Reads what each statement used in a run, and nothing else: the server serves others, too."""

    open_reader: Callable[[], ServerReader]
    subject: str = measurement.STATEMENTS
    _reader: ServerReader | None = None
    _used: tuple[measurement.StatementUse, ...] | None = None

    def begin(self) -> None:
        """Open the session and read what was used so far."""
        self._reader = self.open_reader()
        self._used = self._reader.statements()

    def finish(self, at_s: float, *, lost: int) -> Part:  # noqa: ARG002 - by its protocol
        """Read it once more when the generator's sessions are gone."""
        reader = self._reader
        if reader is None:
            raise TargetError("it never began")
        statements, gone = used_between(self._used, reader.statements())
        told = (gap for gap in reader.absent if gap.subject == measurement.STATEMENTS)
        reader.close()
        return Part(statements=statements, absent=(*told, *gone))

    def abandon(self) -> None:
        """End the session, also while a statement hangs."""
        if self._reader is not None:
            self._reader.close()


_MOST_STATEMENTS = 100  # of a run, kept in the record; others take part in no figure
_FORGOTTEN = measurement.Absence(
    subject=measurement.STATEMENTS,
    reason="pg_stat_statements was reset during the run, or forgot statements: raise"
    " pg_stat_statements.max.",
)


def used_between(
    before: Sequence[measurement.StatementUse] | None,
    after: Sequence[measurement.StatementUse] | None,
) -> tuple[tuple[measurement.StatementUse, ...] | None, tuple[measurement.Absence, ...]]:
    """Return what each statement used, the longest first, and what is not known of them.

    What the server has forgotten since might have been used: then nothing is sure.
    """
    if before is None or after is None:
        return None, ()
    known = {each.text: each for each in after}
    earlier = {each.text: each for each in before}
    if any(text not in known or known[text].calls < each.calls for text, each in earlier.items()):
        return None, (_FORGOTTEN,)
    used = [_used_since(earlier.get(text), each) for text, each in known.items()]
    called = sorted((each for each in used if each.calls), key=lambda each: -each.seconds)
    return tuple(called[:_MOST_STATEMENTS]), ()


def _used_since(
    before: measurement.StatementUse | None, after: measurement.StatementUse
) -> measurement.StatementUse:
    if before is None:
        return after
    used = after.plus(before, -1.0)
    return replace(used, seconds=round(used.seconds, 9))
