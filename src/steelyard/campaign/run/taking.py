"""One use of the load generator: from a planned run to a measurement with its findings.

The turns of one seat are counted by the generator's log afterwards, or by the server. A log has the
time at which each transaction ended. Where there is none the server is asked three times in each
turn, while it runs: what it counts then is what it has done, and not what a client still waits for,
so that no request in flight is counted in a turn in which it did not end.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from steelyard.campaign.design import schedule as durations
from steelyard.campaign.evidence.run_log import UNRECORDED, Logged, LogOrder, RunLog
from steelyard.campaign.evidence.run_rules import RunFacts, judge
from steelyard.campaign.evidence.watch import Watch, WatchedPlace, watches
from steelyard.campaign.run.bench import Bench
from steelyard.core.experiment import Layer
from steelyard.core.findings import Finding
from steelyard.core.measurement import CheckpointAge, Evidence, Measurement, RunLatency, Second
from steelyard.core.outside import Completed
from steelyard.core.schedule import Pausing, PlannedRun, Stretch, Turn, TurnTimes
from steelyard.core.wording import US_PER_S, MeasurementError, redacted
from steelyard.gateways.host import Clock
from steelyard.stats.histogram import from_text, merged
from steelyard.systems.protocol import CountedAt, Engine, RunRequest, TurnCounter


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """One use of the generator, not yet placed in the record."""

    wall: float
    monotonic: float
    measurement: Measurement | None
    findings: tuple[Finding, ...]
    output: str
    checkpoint: CheckpointAge
    evidence: Evidence | None = None
    latency: RunLatency | None = None
    turns: tuple[Turn, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Length:
    """How long a run is: ``seconds`` after its ramp, and what follows them in an open loop."""

    seconds: float
    ramp_s: float
    tail_s: float = 0.0

    @property
    def whole_s(self) -> int:
        """Return the seconds that the generator is asked for."""
        return round(self.seconds + self.ramp_s + self.tail_s)

    @property
    def slice_s(self) -> float | None:
        """Return after how long the tail begins; None where there is none."""
        return self.seconds if self.tail_s else None

    def ramp_over_s(self, series: Sequence[Second]) -> float | None:
        """Return when the ramp was over, as ``Measurement`` counts it; None where nobody knows."""
        intervals = round(self.ramp_s)
        if not intervals:
            return 0.0
        return series[intervals - 1].end_s if len(series) >= intervals else None


def printed(completed: Sequence[Completed]) -> str:
    """Return what all generators printed, one after the other, without secrets."""
    return redacted("".join(each.stdout + each.stderr for each in completed))


@dataclass(slots=True, kw_only=True)
class _Done:
    """What the generator gave, as far as it came."""

    completed: tuple[Completed, ...] = ()
    measurement: Measurement | None = None
    jump_s: float | None = None
    failure: str = ""

    @property
    def output(self) -> str:
        """Return what all generators printed."""
        return printed(self.completed)

    def count_by(self, logged: Logged, length: _Length) -> None:
        """Take from its log what a run did that printed nothing; what ended late does not count."""
        assert self.measurement is not None  # noqa: S101 - its generator ended well
        series = tuple(
            Second(
                end_s=float(second + 1),
                transactions=logged.ended.get(second, 0),
                seconds=1.0,
                latency_mean_s=None,
            )
            for second in range(length.whole_s)
        )
        counted = sum(n for second, n in logged.counted.items() if second < length.whole_s)
        mean_s, stddev_s = _latencies_s(logged.latency)
        self.measurement = replace(
            self.measurement,
            transactions=float(counted),
            latency_mean_s=mean_s,
            latency_stddev_s=stddev_s,
            series=series,
        )
        if logged.trouble or not counted:
            self.measurement, self.failure = None, logged.trouble or _none_counted(logged, length)


def _none_counted(logged: Logged, length: _Length) -> str:
    """Return that a log holds nothing that counts, and what it holds."""
    found = ": it is empty"
    if logged.ended:
        first, last = min(logged.ended), max(logged.ended)
        found = f": its {sum(logged.ended.values())} ended {first} s to {last} s after it"
    return (
        f"the log has no transaction that ended between {length.ramp_s:g} s and {length.whole_s} s"
        f" after the start of the run{found}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Taker:
    """What takes runs: a bench with its engine, under a clock."""

    engine: Engine
    bench: Bench
    clock: Clock

    def take(
        self,
        planned: PlannedRun,
        *,
        seconds: float,
        ramp_s: float,
        bearing: bool = False,
        order: LogOrder | None = None,
    ) -> Taken:
        """Return a run of ``seconds`` after the ramp, judged; what failed is in the findings.

        Where it is ``bearing`` neighbours, a run beside them is suspect, not invalid. Its
        transactions are logged where there is an ``order``.
        """
        with self._log(planned, order) as log:
            tail_s = durations.tail_s(planned.cell.load)
            length = _Length(seconds=seconds, ramp_s=ramp_s, tail_s=tail_s)
            return self._take(planned, length, log, bearing)

    def _log(
        self, planned: PlannedRun, order: LogOrder | None
    ) -> AbstractContextManager[RunLog | None]:
        if order is None and self.engine.load.counts_by_log():
            order = UNRECORDED
        if order is None or not self.engine.load.logs_transactions():
            return nullcontext()
        return RunLog(self.bench.log_directory(planned.configuration), order)

    def _take(
        self,
        planned: PlannedRun,
        length: _Length,
        log: RunLog | None,
        bearing: bool,  # noqa: FBT001
    ) -> Taken:
        checkpoint = self.bench.checkpoint_age(planned.configuration)
        request = self.bench.request(
            planned, seconds=length.whole_s, log=None if log is None else log.prefix
        )
        wall, monotonic = self.clock.now(), self.clock.monotonic()
        place = WatchedPlace(place=self.bench.place(planned))
        (watch,) = watches([place], self.bench.host, self.clock, ramp_s=length.ramp_s)
        done = _Done()
        try:
            self.bench.rehearse(planned, request)
            wall, monotonic = self.clock.now(), self.clock.monotonic()
            with _watched_by(watch):
                self._begin(request, log, wall, length)
                done.completed = self.bench.run(planned, request)
            done.jump_s = (self.clock.now() - wall) - (self.clock.monotonic() - monotonic)
            done.measurement = self.engine.load.parse_run(
                done.completed,
                request=request,
                ramp_s=length.ramp_s,
                started_at=wall,
                slice_s=length.slice_s,
            )
            self.engine.learn(request, done.completed)
        except MeasurementError as error:
            done.failure = error.message
        evidence = watch.evidence()
        # Backends may outlive their postmaster to the end of a run.
        died = not self.bench.is_running()
        logged = self._logged(log, done, length)
        latency = None if logged is None else logged.latency
        if logged is None and done.measurement is not None:  # the generator prints them instead
            latency = self.engine.latency(done.completed)
        facts = replace(
            self.asked(planned),
            measurement=done.measurement,
            asked_s=length.seconds,
            evidence=evidence,
            clock_jump_s=done.jump_s,
            failure=done.failure,
            log_trouble=logged.trouble if logged is not None else None,
            skipped=done.measurement.skipped if done.measurement is not None else None,
            server_died=died,
            last_words=self.bench.last_words(planned.configuration) if died else "",
        )
        return Taken(
            wall=wall,
            monotonic=monotonic,
            measurement=done.measurement,
            findings=judge(facts, bearing=bearing),
            output=done.output,
            checkpoint=checkpoint,
            evidence=evidence,
            latency=latency,
        )

    def _begin(self, request: RunRequest, log: RunLog | None, wall: float, length: _Length) -> None:
        """Let the log of a run that begins now be read."""
        if log is None:
            return
        log.begin(
            lambda ramp_s: self.engine.load.log_reader(
                request, started_at=wall, ramp_s=ramp_s, slice_s=length.slice_s
            ),
            self.clock.now() - wall + length.ramp_s,
        )

    def _logged(self, log: RunLog | None, done: _Done, length: _Length) -> Logged | None:
        """Return what a run's log says; None where there is none, or no result to belong to."""
        if log is None or done.measurement is None:
            return None
        if self.engine.load.counts_by_log():
            logged = log.result(length.ramp_s, None)
            done.count_by(logged, length)
            return None if done.failure else logged
        return log.result(
            length.ramp_over_s(done.measurement.series), self.engine.load.processed(done.completed)
        )

    def asked(self, planned: PlannedRun) -> RunFacts:
        """Return what is known of a run beforehand."""
        experiment = self.bench.experiment
        configuration = experiment.configuration(planned.configuration)
        return RunFacts(
            configuration=configuration.name,
            load=self.bench.load_of(planned.cell),
            asked=configuration.asked_folded(),
            limits=configuration.asked(Layer.CGROUP),
            in_force=self.bench.in_force,
            neighbours=experiment.measure.neighbours,
            words=experiment.words,
            takes_time=experiment.system.takes_time,
        )


@contextmanager
def _watched_by(watch: Watch) -> Iterator[None]:
    """Let a run in one piece be watched; of one that fails, what was seen is kept."""
    with closing(watch):
        failure: MeasurementError | None = None
        try:
            watch.begin()
            watch.resume()
            watch.begin_turn(None)
            yield
        except MeasurementError as error:
            failure = error
        watch.end_turn()
        watch.settle()
        watch.halt()
        watch.take_stock()
        watch.finish()
        if failure is not None:
            raise failure


_HALVES: Final = 2
_LEAST_S: Final = 1e-3
# Between two clocks of one second, beyond what the answers took: NTP slews by 0.5 ms a second.
_CLOCKS_APART_S: Final = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnsTaken:
    """What a seat did in its cell.

    Attributes:
        stretches: When its generators ran, in order.
        turns: Round and place of those stretches that are turns, by their number.
        lost: Rounds that do not count.
        origin_at: When the first turn of any seat began.
        completed: What its generators printed.
    """

    stretches: Sequence[Stretch]
    turns: Mapping[int, tuple[int, int]]
    lost: frozenset[int]
    origin_at: float
    completed: Sequence[Completed]

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
        ran_s, found = 0.0, {}
        for number, stretch in enumerate(self.counted):
            if stretch.counted is not None and number in self.turns:
                found[self.turns[number][0]] = ran_s + stretch.counted[1] - stretch.began_at
            ran_s += stretch.ended_at - stretch.began_at
        return found

    def turn(self, number: int, seconds: float, halves: tuple[int, int]) -> Turn:
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
class CountedTurns:
    """What the turns of a seat gave.

    Attributes:
        latency: None where nobody knows when a transaction began.
        log_trouble: Empty where the log holds what it should; None: there is none.
    """

    turns: tuple[Turn, ...]
    measurement: Measurement
    latency: RunLatency | None = None
    log_trouble: str | None = None


Settled = Callable[[], None]


@dataclass(slots=True, kw_only=True)
class ByLog:
    """Counts by the log of transactions, once all turns are over."""

    engine: Engine
    request: RunRequest
    log: RunLog
    clock: Clock
    _told_to_s: float | None = None

    def attend(self, times: TurnTimes, settled: Settled) -> tuple[float, float]:
        """Wait to the end of a turn that has just begun; return from when to when it counts.

        That is in seconds since the epoch; ``settled`` is called when its settling is over.
        """
        if self.request.in_turns is Pausing.GENERATOR:
            self._told_to_s = times.told_to_s
        running_at, ends = self.clock.now(), self.clock.monotonic() + times.turn_s
        self.clock.sleep(times.settling_s)
        settled()
        self.clock.sleep(max(ends - self.clock.monotonic(), 0.0))
        return running_at + times.settling_s, self.clock.now()

    def note_end(self) -> None:
        """Do nothing: what ended when is in the log."""

    def result(self, taken: TurnsTaken) -> CountedTurns:
        """Return what all turns gave, by the log.

        Raises:
            MeasurementError: A generator failed, or the log cannot be used.
        """
        printed = self.engine.load.parse_run(
            taken.completed, request=self.request, ramp_s=0.0, started_at=0.0
        )
        by_log = self.engine.load.counts_by_log()
        processed = None if by_log else self.engine.load.processed(taken.completed)
        logged = self._logged(taken, processed)
        turns = tuple(_logged_turns(taken, logged))
        mean_s, stddev_s = _latencies_s(logged.latency)
        done = sum(logged.ended.values()) if processed is None else processed
        measurement = _measurement(turns, taken.ends_s, done)
        return CountedTurns(
            turns=turns,
            measurement=replace(
                printed,  # of which the rest knows nothing of the pauses
                transactions=measurement.transactions,
                seconds=measurement.seconds,
                latency_mean_s=mean_s,
                latency_stddev_s=stddev_s,
                series=measurement.series,
                uncounted=measurement.uncounted,
            ),
            latency=logged.latency,
            log_trouble=logged.trouble,
        )

    def _logged(self, taken: TurnsTaken, processed: int | None) -> Logged:
        stretches = taken.counted
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


def _logged_turns(taken: TurnsTaken, logged: Logged) -> Iterator[Turn]:
    for number, stretch in enumerate(taken.counted):
        if stretch.counted is None or number not in taken.turns:
            continue
        first, last = stretch.counted
        halves = (_HALVES * number, _HALVES * number + 1)
        early, late = (logged.counted.get(half, 0) for half in halves)
        yield taken.turn(number, last - first, (early, late))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """A reading of the counter, and when it was asked for and answered, by our clock."""

    counted: CountedAt
    asked_at: float
    answered_at: float


@dataclass(slots=True, kw_only=True)
class ByCounter:
    """Counts by the server's own counter, read after the settling, half-way and at the end.

    Seconds are by the clock of the server, which says when it read its counter.
    """

    request: RunRequest
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
        self.clock.sleep(times.settling_s)
        settled()
        first = self._read_at(begun + times.settling_s)
        middle = self._read_at(begun + times.settling_s + times.counted_s / _HALVES)
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

    def result(self, taken: TurnsTaken) -> CountedTurns:
        """Return what the counter says; latencies are not known."""
        numbered = zip(taken.turns, self._turns, strict=True)
        turns = tuple(
            _counted_turn(taken, number, [each.counted for each in readings])
            for number, readings in numbered
            if taken.turns[number][0] not in taken.lost
        )
        measurement = _measurement(turns, taken.ends_s, self._after - self._before)
        return CountedTurns(turns=turns, measurement=measurement)


TurnCounting = ByLog | ByCounter


@contextmanager
def counting(
    engine: Engine, request: RunRequest, directory: Path, order: LogOrder, clock: Clock
) -> Iterator[TurnCounting]:
    """Give what counts the turns of a run, as its engine does it; its server runs.

    A log goes into ``directory``, and ``order`` says what becomes of it.

    Raises:
        TargetError: The server lets nobody in.
    """
    counter = engine.turn_counter(request)
    if counter is None:
        with RunLog(directory, order) as log:
            asked = replace(request, log=log.prefix)
            yield ByLog(engine=engine, request=asked, log=log, clock=clock)
        return
    try:
        yield ByCounter(request=request, counter=counter, clock=clock)
    finally:
        counter.close()


def _clocks_agree(first: _Reading, last: _Reading) -> bool:
    """Return whether the server's clock went as ours did, as far as that can be told."""
    passed_s = last.counted.at_s - first.counted.at_s
    least_s, most_s = last.asked_at - first.answered_at, last.answered_at - first.asked_at
    return max(least_s - _CLOCKS_APART_S, _LEAST_S) <= passed_s <= most_s + _CLOCKS_APART_S


def _counted_turn(taken: TurnsTaken, number: int, readings: Sequence[CountedAt]) -> Turn:
    """Return a turn by three readings; the middle one comes when it comes, near the middle."""
    first, middle, last = readings
    half_at = (first.at_s + last.at_s) / _HALVES
    before, after = (first, middle) if half_at <= middle.at_s else (middle, last)
    between = (after.transactions - before.transactions) / (after.at_s - before.at_s)
    by_half = before.transactions + between * (half_at - before.at_s)
    whole = last.transactions - first.transactions
    early = round(by_half - first.transactions)
    return taken.turn(number, last.at_s - first.at_s, (early, whole - early))


def _measurement(turns: Sequence[Turn], ends_s: Mapping[int, float], processed: int) -> Measurement:
    """Return what counts of a run, with what it did in all."""
    transactions = sum(turn.transactions for turn in turns)
    return Measurement(
        transactions=float(transactions),
        seconds=max(sum(turn.seconds for turn in turns), _LEAST_S),
        latency_mean_s=None,
        latency_stddev_s=None,
        failed=0,
        connection_s=None,
        series=_series(turns, ends_s),
        uncounted=float(max(processed - transactions, 0)),
    )


def _series(turns: Sequence[Turn], ends_s: Mapping[int, float]) -> tuple[Second, ...]:
    """Return the turns as the intervals of a run that goes on in one piece."""
    return tuple(
        Second(
            end_s=round(ends_s[turn.round], 6),
            transactions=turn.transactions,
            seconds=turn.seconds,
            latency_mean_s=None,
        )
        for turn in turns
    )


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
