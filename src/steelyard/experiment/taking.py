"""One use of the load generator: from a planned run to a measurement with its findings."""

from dataclasses import dataclass, replace

from steelyard.engines.engine import Engine
from steelyard.experiment.bench import Bench
from steelyard.experiment.differences import settings_of
from steelyard.experiment.probes.watch import Watch
from steelyard.experiment.run_facts import RunFacts
from steelyard.experiment.validity import judge
from steelyard.gateways.clock import Clock
from steelyard.model.errors import MeasurementError
from steelyard.model.evidence import Evidence
from steelyard.model.experiment import Layer
from steelyard.model.findings import Finding
from steelyard.model.measurement import CheckpointAge, Measurement
from steelyard.model.schedule import PlannedRun


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Taker:
    """What takes runs: a bench with its engine, under a clock."""

    engine: Engine
    bench: Bench
    clock: Clock

    def take(
        self, planned: PlannedRun, *, seconds: float, ramp_s: float, bearing: bool = False
    ) -> Taken:
        """Return a run of ``seconds`` after the ramp, judged; what failed is in the findings.

        Where it is ``bearing`` neighbours, a run beside them is suspect, not invalid.
        """
        checkpoint = self.bench.checkpoint_age(planned.treatment)
        wall, monotonic = self.clock.now(), self.clock.monotonic()
        watch = Watch(probes=self.bench.probes(planned, ramp_s=ramp_s), clock=self.clock)
        output, failure = "", ""
        measurement: Measurement | None = None
        jump_s: float | None = None
        try:
            completed = watch.around(
                lambda: self.bench.run(planned, seconds=round(seconds + ramp_s))
            )
            output = completed.stdout + completed.stderr
            jump_s = (self.clock.now() - wall) - (self.clock.monotonic() - monotonic)
            measurement = self.engine.parse_run(completed, ramp_s=ramp_s, started_at=wall)
        except MeasurementError as error:
            failure = error.message
        evidence = watch.evidence()
        facts = replace(
            self._asked(planned),
            measurement=measurement,
            asked_s=seconds,
            evidence=evidence,
            clock_jump_s=jump_s,
            failure=failure,
            # Backends may outlive their postmaster to the end of a run.
            server_died=not self.bench.is_running(),
        )
        return Taken(
            wall=wall,
            monotonic=monotonic,
            measurement=measurement,
            findings=judge(facts, bearing=bearing),
            output=output,
            checkpoint=checkpoint,
            evidence=evidence,
        )

    def _asked(self, planned: PlannedRun) -> RunFacts:
        """Return what is known of a run beforehand."""
        experiment = self.bench.experiment
        treatment = experiment.treatment(planned.treatment)
        return RunFacts(
            treatment=treatment.name,
            load=self.bench.load_of(planned.cell),
            asked={name.lower(): value for name, value in settings_of(treatment).items()},
            limits=settings_of(treatment, Layer.CGROUP),
            in_force=self.bench.in_force,
            neighbours=experiment.measure.neighbours,
        )
