"""Taking one block: visits, discards, runs, and what makes a run invalid.

Only causes from outside the treatments void a block, and then in all arms: it is redone whole.
"""

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from steelyard.engines.engine import Engine
from steelyard.experiment.bench import Bench
from steelyard.experiment.run_log import RawStore, log_order
from steelyard.experiment.taking import Taken, Taker
from steelyard.experiment.validity import (
    generator_failed,
    not_in_force,
    rule_of,
    validity_of,
)
from steelyard.gateways.clock import Clock
from steelyard.model.campaign import CampaignRecord, ServerMade
from steelyard.model.errors import MeasurementError, PreflightError, TargetError
from steelyard.model.experiment import Experiment
from steelyard.model.findings import Finding, Severity, Validity
from steelyard.model.measure import Reset
from steelyard.model.measurement import Run, RunPlace
from steelyard.model.plan import ANEW, CampaignPlan, settling_s
from steelyard.model.rules import ENVIRONMENT
from steelyard.model.schedule import Mode, PlannedBlock, PlannedRun, PlannedVisit


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a run stands in its campaign."""

    block: int
    attempt: int
    visit: int
    position: int
    runs: int = 0  # of its visit

    @property
    def raw_name(self) -> str:
        """Return a file name that sorts in run order."""
        digits = max(2, len(str(self.runs - 1)))
        return f"{self.block:04d}-{self.attempt}-{self.visit}-{self.position:0{digits}d}.txt"


class Void(Exception):  # noqa: N818 - it ends a try of a block and is no error of the program
    """The block cannot count any more; the reason is a sentence."""

    def __init__(self, reason: str, *findings: Finding) -> None:
        super().__init__(reason)
        self.findings = findings

    @property
    def code(self) -> str:
        """Return the code of the gravest finding; empty where there is none."""
        return self.findings[0].code if self.findings else ""

    @property
    def way_out(self) -> str:
        """Return what the rule behind it advises; empty where there is none."""
        return rule_of(self.code).remedy if self.findings else ""


@dataclass(slots=True, kw_only=True)
class BlockTaker:
    """Takes blocks of a plan on a bench.

    Attributes:
        void_because: Why the last try was thrown away; empty when it counts.
        void_under: The treatment that was in force then.
        void_by: Code of the rule that threw it away.
        way_out: What that rule advises.
        made: Hears of each server that was made for a visit in a cluster.
        warmed_s: None: the plan says for how long.
    """

    experiment: Experiment
    engine: Engine
    bench: Bench
    plan: CampaignPlan
    clock: Clock
    started: Callable[..., None]
    raw: RawStore
    made: Callable[[ServerMade], None] = lambda _: None
    void_because: str = ""
    void_under: str = ""
    void_by: str = ""
    way_out: str = ""
    warmed_s: float | None = None
    _active: str = ""
    _activated_at: float = 0.0
    _bearing: bool = False
    _restored: set[object] = field(default_factory=set)  # places whose data are as prepared

    def learn(self, record: CampaignRecord) -> None:
        """Learn nothing: all visits of a campaign are alike."""

    def take(
        self,
        block: PlannedBlock,
        attempt: int,
        kept: Collection[RunPlace] = (),
        *,
        bearing: bool = False,
    ) -> Iterator[Run]:
        """Yield each run as it is finished; after an invalid one the block ends.

        Runs whose places are ``kept`` are not taken again: those of a single pass that there are.
        A try that is ``bearing`` neighbours goes on beside them.
        """
        self.void_because = self.void_under = self.void_by = self.way_out = ""
        self._bearing = bearing
        if self.plan.reset is Reset.BLOCK:
            self._restored.clear()
        try:
            for number, visit in enumerate(block.visits):
                missing = {
                    position: planned
                    for position, planned in enumerate(visit.runs)
                    if (block.index, number, position) not in kept
                }
                if not missing:
                    continue
                self._enter(replace(visit, runs=tuple(missing.values())))
                self._tell(block.index, attempt, number)
                for position, planned in missing.items():
                    place = Place(
                        block=block.index,
                        attempt=attempt,
                        visit=number,
                        position=position,
                        runs=len(visit.runs),
                    )
                    run = self._run(planned, place)
                    yield run
                    require_valid(run)
        except Void as end:
            self.void_by, self.way_out = end.code, end.way_out
            self._give_up(str(end))
        # The disk of the data may fill up in the middle of a block: then files refuse.
        except (TargetError, MeasurementError, PreflightError) as error:
            self._give_up(error.message)

    def _give_up(self, reason: str) -> None:
        self.void_because, self.void_under = reason, self._active
        self._active = ""
        self._restored.clear()
        self.bench.stop(keep_data=False)

    def _enter(self, visit: PlannedVisit) -> None:
        """Bring the visit's treatment into force on the data the reset asks for, and discard."""
        place = self.bench.data_of(visit.treatment)
        restore = self.plan.reset is Reset.VISIT or place not in self._restored
        if self.plan.mode is Mode.BACK_TO_BACK and not restore and self.bench.is_running():
            return
        self._active = visit.treatment
        activation = self.bench.activate(visit.treatment, restore=restore, means=self.plan.restore)
        self._restored.add(place)
        self._activated_at = activation.at
        self._require(activation.deviations)
        self._discard(visit)

    def _tell(self, block: int, attempt: int, visit: int) -> None:
        """Tell what the place of a server is that was made for this visit."""
        if self.plan.restore == ANEW and self.experiment.is_in_kubernetes:
            made = ServerMade(
                block=block,
                attempt=attempt,
                visit=visit,
                treatment=self._active,
                facts=self.bench.platform(self._active).facts(),
            )
            self.made(made)

    def _discard(self, visit: PlannedVisit) -> None:
        """Put the visit's own workloads on the server and throw the result away."""
        workloads = list(dict.fromkeys(run.cell.workload for run in visit.runs))
        seconds = math.ceil(self.plan.discard.discard_s)  # pgbench takes whole seconds
        for number, name in enumerate(workloads):
            share = (number + 1) * seconds // len(workloads) - number * seconds // len(workloads)
            cell = next(run.cell for run in visit.runs if run.cell.workload == name)
            self._throw_away(PlannedRun(treatment=visit.treatment, cell=cell), share)

    def _throw_away(self, planned: PlannedRun, seconds: int) -> None:
        """Put a run's workload on the server for whole seconds, if for any."""
        failure = self.bench.discard(planned, seconds=seconds) if seconds else ""
        if failure:
            raise self._discard_failed(planned.treatment, failure)

    def _discard_failed(self, treatment: str, failure: str) -> Void:
        reason = f"the generator failed in the discard: {failure}"
        died = not self.bench.is_running()
        said = self.bench.last_words(treatment) if died else ""
        finding = generator_failed(reason, server_died=died, last_words=said)
        return Void(finding.message, finding)

    def _require(self, deviations: tuple[str, ...]) -> None:
        finding = not_in_force(self._active, deviations)
        if finding is not None:
            raise Void(finding.message, finding)

    def _run(self, planned: PlannedRun, place: Place) -> Run:
        if planned.treatment != self._active:
            self._active = planned.treatment
            self._require(self.bench.switch(planned.treatment))
            discard_s = self.plan.discard.discard_s
            self._throw_away(planned, settling_s(self.experiment.engine, discard_s))
        label = f"{planned.cell.workload}, {planned.cell.load.label}, {planned.treatment}"
        self.started(block=place.block, label=label)
        return run_of(planned, place, self._take(planned, place), self._activated_at, self.raw)

    def _take(self, planned: PlannedRun, place: Place) -> Taken:
        measure = self.experiment.measure
        taker = Taker(engine=self.engine, bench=self.bench, clock=self.clock)
        return taker.take(
            planned,
            seconds=measure.slice_s,
            ramp_s=measure.ramp_s,
            bearing=self._bearing,
            order=log_order(measure.log, name=Path(place.raw_name).stem, store=self.raw),
        )


def run_of(
    planned: PlannedRun, place: Place, taken: Taken, activated_at: float, raw: RawStore
) -> Run:
    """Return a run as the record keeps it, with what the generator printed stored.

    Raises:
        RecordError: It cannot be written.
    """
    return Run(
        block=place.block,
        attempt=place.attempt,
        visit=place.visit,
        position=place.position,
        treatment=planned.treatment,
        cell=planned.cell,
        started_at=taken.wall,
        since_activation_s=round(taken.monotonic - activated_at, 3),
        measurement=taken.measurement,
        validity=validity_of(taken.findings),
        findings=taken.findings,
        raw=raw.write_raw(place.raw_name, taken.output),
        checkpoint=taken.checkpoint,
        evidence=taken.evidence,
        latency=taken.latency,
        turns=taken.turns,
    )


def require_valid(run: Run) -> None:
    """Raise Void for a run that does not count."""
    if run.validity is Validity.INVALID:
        grave = [finding for finding in run.findings if finding.severity is Severity.ERROR]
        # A neighbour's redo is limited; where something else is wrong too, that counts.
        grave.sort(key=lambda finding: finding.code in ENVIRONMENT)
        raise Void("; ".join(finding.message for finding in grave), *grave)
