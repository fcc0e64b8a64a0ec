"""One use of the load generator: from a planned run to a measurement with its findings."""

from dataclasses import dataclass

from steelyard.engines.engine import Engine
from steelyard.experiment.bench import Bench
from steelyard.experiment.probes.watch import Watch
from steelyard.experiment.validity import generator_failed, judge_measurement
from steelyard.gateways.clock import Clock
from steelyard.model.errors import MeasurementError
from steelyard.model.evidence import Evidence
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

    def take(self, planned: PlannedRun, *, seconds: float, ramp_s: float) -> Taken:
        """Return a run of ``seconds`` after the ramp, judged; what failed is in the findings."""
        checkpoint = self.bench.checkpoint_age(planned.treatment)
        wall, monotonic = self.clock.now(), self.clock.monotonic()
        measurement, output = None, ""
        watch = Watch(probes=self.bench.probes(planned, ramp_s=ramp_s), clock=self.clock)
        try:
            completed = watch.around(
                lambda: self.bench.run(planned, seconds=round(seconds + ramp_s))
            )
            output = completed.stdout + completed.stderr
            jump_s = (self.clock.now() - wall) - (self.clock.monotonic() - monotonic)
            measurement = self.engine.parse_run(completed, ramp_s=ramp_s, started_at=wall)
            findings = judge_measurement(measurement, clock_jump_s=jump_s)
            if not self.bench.is_running():
                # Backends may outlive their postmaster to the end of a run.
                lost = generator_failed("pgbench still ended normally", server_died=True)
                findings = (*findings, lost)
        except MeasurementError as error:
            died = not self.bench.is_running()
            findings = (generator_failed(error.message, server_died=died),)
        return Taken(
            wall=wall,
            monotonic=monotonic,
            measurement=measurement,
            findings=findings,
            output=output,
            checkpoint=checkpoint,
            evidence=watch.evidence(),
        )
