"""One use of the load generator: from a planned run to a measurement with its findings."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial

from steelyard.campaign.design import schedule as durations
from steelyard.campaign.evidence.run_facts import RunFacts
from steelyard.campaign.evidence.run_log import Logged, LogOrder, RunLog
from steelyard.campaign.evidence.run_rules import judge
from steelyard.campaign.evidence.watch import Watch
from steelyard.campaign.run.bench import Bench
from steelyard.core.command import Completed
from steelyard.core.errors import MeasurementError
from steelyard.core.evidence import Evidence
from steelyard.core.experiment import Layer
from steelyard.core.findings import Finding
from steelyard.core.latency import RunLatency
from steelyard.core.measurement import CheckpointAge, Measurement, Second
from steelyard.core.schedule import PlannedRun, Turn
from steelyard.gateways.clock import Clock
from steelyard.systems.protocol import Engine, RunRequest


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


@dataclass(slots=True, kw_only=True)
class _Done:
    """What the generator gave, as far as it came."""

    completed: tuple[Completed, ...] = ()
    measurement: Measurement | None = None
    jump_s: float | None = None
    failure: str = ""

    def began_at(self, wall: float) -> float:
        """Return when it began by the clock of the generator, which is ours where it ran here."""
        return min(self.clocks(wall))

    def clocks(self, wall: float) -> list[float]:
        """Return when each generator began, by its own clock."""
        known = [one.began_at for one in self.completed if one.began_at is not None]
        return known if known and len(known) == len(self.completed) else [wall]

    @property
    def output(self) -> str:
        """Return what all generators printed, one after the other."""
        return "".join(each.stdout + each.stderr for each in self.completed)


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
        if order is None or not self.engine.logs_transactions():
            return nullcontext()
        return RunLog(self.bench.log_directory(planned.treatment), order)

    def _take(
        self,
        planned: PlannedRun,
        length: _Length,
        log: RunLog | None,
        bearing: bool,  # noqa: FBT001
    ) -> Taken:
        checkpoint = self.bench.checkpoint_age(planned.treatment)
        request = self.bench.request(
            planned, seconds=length.whole_s, log=None if log is None else log.prefix
        )
        wall, monotonic = self.clock.now(), self.clock.monotonic()
        watch = Watch(probes=self.bench.probes(planned, ramp_s=length.ramp_s), clock=self.clock)
        done = _Done()
        try:
            self.bench.rehearse(planned, request)
            wall, monotonic = self.clock.now(), self.clock.monotonic()
            started = partial(self._begin, request, log, wall, length, done)
            done.completed = watch.around(lambda: self._run(planned, request, started))
            if request.address.inside is None:  # the clock of pods is not ours
                done.jump_s = (self.clock.now() - wall) - (self.clock.monotonic() - monotonic)
            done.measurement = self.engine.parse_run(
                done.completed,
                ramp_s=length.ramp_s,
                started_at=done.began_at(wall),
                slice_s=length.slice_s,
            )
            self.engine.learn(request, done.completed)
        except MeasurementError as error:
            done.failure = error.message
        evidence = watch.evidence()
        # Backends may outlive their postmaster to the end of a run.
        died = not self.bench.is_running()
        logged = self._logged(log, done, length)
        latency = logged.latency if logged is not None else self._printed(done)
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
            last_words=self.bench.last_words(planned.treatment) if died else "",
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

    def _run(
        self, planned: PlannedRun, request: RunRequest, started: Callable[[], None]
    ) -> tuple[Completed, ...]:
        started()
        return self.bench.run(planned, request)

    def _begin(
        self, request: RunRequest, log: RunLog | None, wall: float, length: _Length, done: _Done
    ) -> None:
        """Let the log of a run that begins now be read; of one in pods when it is here."""
        if log is None:
            return
        elsewhere = request.address.inside is not None
        log.begin(
            lambda ramp_s: self.engine.log_reader(
                request, started_at=done.clocks(wall), ramp_s=ramp_s, slice_s=length.slice_s
            ),
            length.ramp_s if elsewhere else self.clock.now() - wall + length.ramp_s,
            read_at_end=elsewhere,
        )

    def _logged(self, log: RunLog | None, done: _Done, length: _Length) -> Logged | None:
        """Return what a run's log says; None where there is none, or no result to belong to."""
        if log is None or done.measurement is None:
            return None
        return log.result(
            length.ramp_over_s(done.measurement.series), self.engine.processed(done.completed)
        )

    def _printed(self, done: _Done) -> RunLatency | None:
        """Return the latencies that the generator prints instead of a log."""
        return None if done.measurement is None else self.engine.latency(done.completed)

    def asked(self, planned: PlannedRun) -> RunFacts:
        """Return what is known of a run beforehand."""
        experiment = self.bench.experiment
        treatment = experiment.treatment(planned.treatment)
        return RunFacts(
            treatment=treatment.name,
            load=self.bench.load_of(planned.cell),
            asked=treatment.asked_folded(),
            limits=treatment.asked(Layer.CGROUP),
            in_force=self.bench.in_force,
            neighbours=experiment.measure.neighbours,
            words=experiment.words,
            takes_time=experiment.generator.takes_time,
        )
