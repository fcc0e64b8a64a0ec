"""What counts of a run: by what its generators printed, by their log, or by the server's counter.

A run in one piece counts by what its generators printed, which may be a log alone. Turns are
counted by a log afterwards, or by the server. A log has the time at which each transaction ended.
Where there is none the server is asked three times in each turn, while it runs: what it counts then
is what it has done, and not what a client still waits for, so that no request in flight is counted
in a turn in which it did not end.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from steelyard.campaign.evidence.run_log import Logged, RunLog
from steelyard.core.measurement import Measurement, RunLatency, Second
from steelyard.core.outside import Completed
from steelyard.core.schedule import Pausing, Stretch, Turn, TurnTimes
from steelyard.core.wording import US_PER_S, MeasurementError
from steelyard.gateways.host import Clock
from steelyard.stats.histogram import from_text, merged
from steelyard.systems.protocol import CountedAt, Engine, RunRequest, TurnCounter

_HALVES: Final = 2
_LEAST_S: Final = 1e-3
# Between two clocks of one second, beyond what the answers took: NTP slews by 0.5 ms a second.
_CLOCKS_APART_S: Final = 1e-3


@dataclass(slots=True, kw_only=True)
class Ran:
    """What a server's generators did in a run.

    Attributes:
        stretches: When they ran, in order.
        turns: Round and place of those stretches that are turns, by their number.
        completed: What they printed.
        lost: Rounds that do not count.
        origin_at: When the first turn of any server began.
    """

    stretches: list[Stretch] = field(default_factory=list)
    turns: dict[int, tuple[int, int]] = field(default_factory=dict)
    completed: list[Completed] = field(default_factory=list)
    lost: frozenset[int] = frozenset()
    origin_at: float = 0.0

    @property
    def counted(self) -> tuple[Stretch, ...]:
        """Return all stretches, of which those of lost rounds do not count."""
        return tuple(
            replace(stretch, counted=None)
            if number in self.turns and self.turns[number][0] in self.lost
            else stretch
            for number, stretch in enumerate(self.stretches)
        )

    @property
    def ends_s(self) -> dict[int, float]:
        """Return when each turn ended by its round, since the first connection, without pauses."""
        ran_s, ends = 0.0, {}
        for number, stretch in enumerate(self.counted):
            if stretch.counted is not None and number in self.turns:
                ends[self.turns[number][0]] = ran_s + stretch.counted[1] - stretch.began_at
            ran_s += stretch.ended_at - stretch.began_at
        return ends

    def turn(self, number: int, seconds: float, halves: tuple[float, float]) -> Turn:
        """Return a turn with what ended in its halves."""
        round_number, place = self.turns[number]
        return Turn(
            round=round_number,
            place=place,
            began_s=round(self.stretches[number].began_at - self.origin_at, 6),
            seconds=round(seconds, 6),
            transactions=sum(halves),
            early=halves[0],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What a run gave.

    Attributes:
        latency: None where nobody knows when a transaction began.
        log_trouble: Empty where the log holds what it should; None: there is none.
        turns: None of a run in one piece.
    """

    measurement: Measurement
    latency: RunLatency | None = None
    log_trouble: str | None = None
    turns: tuple[Turn, ...] = ()


Settled = Callable[[], None]


@dataclass(slots=True, kw_only=True)
class Counting:
    """One way to count a run.

    Attributes:
        request: What the generators are asked for, with the log that counts.
    """

    request: RunRequest

    def begin(self, at: float) -> None:
        """Take note that the generators start now, in seconds since the epoch."""

    def attend(self, times: TurnTimes, settled: Settled) -> tuple[float, float] | None:
        """Wait to the end of a turn that has just begun; return from when to when it counts.

        That is in seconds since the epoch, None where it cannot be counted; ``settled`` is called
        when its settling is over.
        """
        raise NotImplementedError

    def note_end(self) -> None:
        """Take note that nothing is in flight any more."""

    def result(self, ran: Ran) -> Counted:
        """Return what all of the run gave.

        Raises:
            MeasurementError: A generator failed, or what counts cannot be used.
        """
        raise NotImplementedError


@dataclass(slots=True, kw_only=True)
class ByPrint(Counting):
    """Counts by what the generators of a run in one piece printed, and its log with it.

    Attributes:
        log: None where no transaction is logged.
        ramp_s: Thrown away at the beginning.
        run_time_s: After how long from there the tail of an open loop begins; None: there is none.
    """

    engine: Engine
    log: RunLog | None
    ramp_s: float
    run_time_s: float | None = None
    _began_at: float = 0.0

    def begin(self, at: float) -> None:
        """Let the log of a run that begins now be read."""
        self._began_at = at
        if self.log is not None:
            self.log.begin(
                lambda ramp_s: self.engine.load.log_reader(
                    self.request, started_at=at, ramp_s=ramp_s, run_time_s=self.run_time_s
                ),
                self.ramp_s,
            )

    def result(self, ran: Ran) -> Counted:
        """Return what was printed, or logged where the generators print nothing that counts."""
        load = self.engine.load
        measurement = load.parse_run(
            ran.completed,
            request=self.request,
            ramp_s=self.ramp_s,
            started_at=self._began_at,
            run_time_s=self.run_time_s,
        )
        self.engine.learn(self.request, ran.completed)
        if self.log is None:  # the generators print latencies instead
            return Counted(measurement=measurement, latency=self.engine.latency(ran.completed))
        if load.counts_by_log():
            logged = self.log.result(self.ramp_s, None)
            measurement = by_log(measurement, logged, self.request.seconds, self.ramp_s)
        else:
            ramp_s = self._ramp_over_s(measurement.series)
            logged = self.log.result(ramp_s, load.processed(ran.completed))
        return Counted(measurement=measurement, latency=logged.latency, log_trouble=logged.trouble)

    def _ramp_over_s(self, series: Sequence[Second]) -> float | None:
        """Return when the ramp was over, as ``Measurement`` counts it; None where nobody knows."""
        intervals = round(self.ramp_s)
        if not intervals:
            return 0.0
        return series[intervals - 1].end_s if len(series) >= intervals else None


def by_log(printed: Measurement, logged: Logged, whole_s: int, ramp_s: float) -> Measurement:
    """Return what a run of ``whole_s`` did that printed nothing; what ended late does not count.

    Raises:
        MeasurementError: The log cannot be used, or holds nothing that counts.
    """
    series = tuple(
        Second(
            end_s=float(second + 1),
            transactions=logged.ended.get(second, 0),
            seconds=1.0,
            latency_mean_s=None,
        )
        for second in range(whole_s)
    )
    counted = sum(number for second, number in logged.counted.items() if second < whole_s)
    if logged.trouble or not counted:
        raise MeasurementError(logged.trouble or _none_counted(logged, whole_s, ramp_s))
    mean_s, stddev_s = _latencies_s(logged.latency)
    return replace(
        printed,
        transactions=float(counted),
        latency_mean_s=mean_s,
        latency_stddev_s=stddev_s,
        series=series,
    )


def _none_counted(logged: Logged, whole_s: int, ramp_s: float) -> str:
    """Return that a log holds nothing that counts, and what it holds."""
    holds = ": it is empty"
    if logged.ended:
        first, last = min(logged.ended), max(logged.ended)
        holds = f": its {sum(logged.ended.values())} ended {first} s to {last} s after it"
    return (
        f"the log has no transaction that ended between {ramp_s:g} s and {whole_s} s"
        f" after the start of the run{holds}"
    )


@dataclass(slots=True, kw_only=True)
class ByLog(Counting):
    """Counts by the log of transactions, once all turns are over."""

    engine: Engine
    log: RunLog
    clock: Clock
    _told_to_s: float | None = None
    _shares: bool = False

    def attend(self, times: TurnTimes, settled: Settled) -> tuple[float, float]:
        """Wait to the end of a turn that has just begun; all of it counts after its settling."""
        self._shares = times.shares_edges
        if self.request.in_turns is Pausing.GENERATOR:
            self._told_to_s = times.told_to_s
        running_at, ends = self.clock.now(), self.clock.monotonic() + times.turn_s
        self.clock.sleep(times.turn_discard_s)
        settled()
        self.clock.sleep(max(ends - self.clock.monotonic(), 0.0))
        return running_at + times.turn_discard_s, self.clock.now()

    def result(self, ran: Ran) -> Counted:
        """Return what all turns gave, by the log."""
        load = self.engine.load
        printed = load.parse_run(ran.completed, request=self.request, ramp_s=0.0, started_at=0.0)
        processed = None if load.counts_by_log() else load.processed(ran.completed)
        logged = self._logged(ran, processed)
        done = sum(logged.ended.values()) if processed is None else processed
        by_half = logged.shared if self._shares else logged.counted
        return _counted(tuple(_logged_turns(ran, by_half)), ran, done, printed, logged)

    def _logged(self, ran: Ran, processed: int | None) -> Logged:
        stretches = ran.counted
        self.log.begin(
            lambda ramp_s: self.engine.load.log_reader(
                self.request,
                started_at=stretches[0].began_at,
                ramp_s=ramp_s,
                stretches=stretches,
            ),
            0.0,
            read_at_end=True,
        )
        logged = self.log.result(0.0, processed)
        if logged.trouble:  # it is what counts, and not only what tells latencies
            raise MeasurementError(logged.trouble)
        if logged.latency is None:
            return logged
        return replace(logged, latency=replace(logged.latency, told_to_s=self._told_to_s))


def _logged_turns(ran: Ran, by_half: Mapping[int, float]) -> Iterator[Turn]:
    for number, stretch in enumerate(ran.counted):
        if stretch.counted is None or number not in ran.turns:
            continue
        first, last = stretch.counted
        halves = (_HALVES * number, _HALVES * number + 1)
        early, late = (round(by_half.get(half, 0), 3) for half in halves)
        yield ran.turn(number, last - first, (early, late))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """A reading of the counter, and when it was asked for and answered, by our clock."""

    counted: CountedAt
    asked_at: float
    answered_at: float


@dataclass(slots=True, kw_only=True)
class ByCounter(Counting):
    """Counts by the server's own counter, read after the settling, half-way and at the end.

    Seconds are by the clock of the server, which says when it read its counter.
    """

    counter: TurnCounter
    clock: Clock
    _turns: list[tuple[_Reading, _Reading, _Reading]] = field(default_factory=list)
    _before: int = 0
    _after: int = 0

    def __post_init__(self) -> None:
        """Note what the server had done before the first generator."""
        self._before = self._after = self.counter.read().transactions

    def attend(self, times: TurnTimes, settled: Settled) -> tuple[float, float] | None:
        """Do as ``ByLog`` does, and read the counter meanwhile; None: it cannot be counted."""
        begun = self.clock.monotonic()
        self.clock.sleep(times.turn_discard_s)
        settled()
        first = self._read_at(begun + times.turn_discard_s)
        middle = self._read_at(begun + times.turn_discard_s + times.counted_s / _HALVES)
        last = self._read_at(begun + times.turn_s)
        self._turns.append((first, middle, last))
        return (first.answered_at, last.answered_at) if _clocks_agree(first, last) else None

    def _read_at(self, moment: float) -> _Reading:
        self.clock.sleep(max(moment - self.clock.monotonic(), 0.0))
        asked_at = self.clock.now()
        counted = self.counter.read()
        return _Reading(counted=counted, asked_at=asked_at, answered_at=self.clock.now())

    def note_end(self) -> None:
        """Note what the server has done when nothing is in flight any more."""
        self._after = self.counter.read().transactions

    def result(self, ran: Ran) -> Counted:
        """Return what the counter says; latencies are not known."""
        numbered = zip(ran.turns, self._turns, strict=True)
        turns = tuple(
            _counted_turn(ran, number, [reading.counted for reading in readings])
            for number, readings in numbered
            if ran.turns[number][0] not in ran.lost
        )
        return _counted(turns, ran, self._after - self._before, _NOTHING_PRINTED)


def _clocks_agree(first: _Reading, last: _Reading) -> bool:
    """Return whether the server's clock went as ours did, as far as that can be told."""
    passed_s = last.counted.at_s - first.counted.at_s
    least_s, most_s = last.asked_at - first.answered_at, last.answered_at - first.asked_at
    return max(least_s - _CLOCKS_APART_S, _LEAST_S) <= passed_s <= most_s + _CLOCKS_APART_S


def _counted_turn(ran: Ran, number: int, readings: Sequence[CountedAt]) -> Turn:
    """Return a turn by three readings; the middle one comes when it comes, near the middle."""
    first, middle, last = readings
    half_at = (first.at_s + last.at_s) / _HALVES
    before, after = (first, middle) if half_at <= middle.at_s else (middle, last)
    between = (after.transactions - before.transactions) / (after.at_s - before.at_s)
    by_half = before.transactions + between * (half_at - before.at_s)
    whole = last.transactions - first.transactions
    early = round(by_half - first.transactions)
    return ran.turn(number, last.at_s - first.at_s, (early, whole - early))


_NOTHING_PRINTED: Final = Measurement(
    transactions=0.0,
    seconds=_LEAST_S,
    latency_mean_s=None,
    latency_stddev_s=None,
    failed=0,
    connection_s=None,
    series=(),
)


def _counted(
    turns: tuple[Turn, ...],
    ran: Ran,
    processed: int,
    printed: Measurement,
    logged: Logged | None = None,
) -> Counted:
    """Return what counts of a run in turns, which did so much in all.

    What was printed holds but for what the pauses are in.
    """
    transactions, ends_s = sum(turn.transactions for turn in turns), ran.ends_s
    latency = None if logged is None else logged.latency
    mean_s, stddev_s = _latencies_s(latency)
    measurement = replace(
        printed,
        transactions=float(transactions),
        seconds=max(sum(turn.seconds for turn in turns), _LEAST_S),
        latency_mean_s=mean_s,
        latency_stddev_s=stddev_s,
        series=tuple(
            Second(
                end_s=round(ends_s[turn.round], 6),
                transactions=turn.transactions,
                seconds=turn.seconds,
                latency_mean_s=None,
            )
            for turn in turns
        ),
        uncounted=float(max(processed - transactions, 0)),
    )
    trouble = None if logged is None else logged.trouble
    return Counted(measurement=measurement, latency=latency, log_trouble=trouble, turns=turns)


def _latencies_s(latency: RunLatency | None) -> tuple[float | None, float | None]:
    """Return the mean and the standard deviation of all latencies."""
    if latency is None:
        return None, None
    everything = merged(from_text(script.latency) for script in latency.scripts)
    mean, deviation = everything.mean(), everything.deviation()
    return (
        None if mean is None else mean / US_PER_S,
        None if deviation is None else deviation / US_PER_S,
    )
