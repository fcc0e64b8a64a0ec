"""From a planned block to one that counts: starts, warm-ups, runs, and tries.

Only causes from outside the configurations void a block, and then in all arms: it is redone whole.
Each try is in the journal.

A cause like a dead server ends the campaign when it comes three times in a row. A neighbour does
not: after as many redos as are allowed its runs count as suspect. Whether a block is redone may
    depend on the neighbour alone, never on results or arms. Then exchanging the configurations'
    labels would change nothing about which tries are kept, so between equal configurations each
    block's sign is still the coin's, and the interval keeps its level however the neighbour comes
    and goes. A rule that looks at the arm ("the slower one was disturbed") keeps the other arm's
    disturbances and is biased; ``tests/method/test_redone_blocks.py`` shows both. That is why the
    decision here is made before a try begins, from the causes of earlier tries and nothing else.
"""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol

from steelyard.campaign.evidence.run_log import RawStore, log_order
from steelyard.campaign.evidence.run_rules import (
    generator_failed,
    not_in_force,
    rule_of,
    validity_of,
)
from steelyard.campaign.run.bench import Bench
from steelyard.campaign.run.taking import Taken, Taker
from steelyard.core.campaign import (
    ANEW,
    BlockOutcome,
    CampaignPlan,
    CampaignRecord,
    ServerMade,
    settling_s,
)
from steelyard.core.errors import MeasurementError, PreflightError, TargetError, quoted
from steelyard.core.experiment import Experiment, Reset
from steelyard.core.findings import ENVIRONMENT, Finding, Severity, Validity
from steelyard.core.measurement import Run, RunPlace
from steelyard.core.schedule import Mode, PlannedBlock, PlannedRun, PlannedStart
from steelyard.gateways.host import Clock
from steelyard.record.directory import CampaignDirectory
from steelyard.record.journal import BlockEnded, BlockStarted, RunFinished
from steelyard.systems.protocol import Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a run stands in its campaign."""

    block: int
    attempt: int
    start: int
    position: int
    runs: int = 0  # of its start
    sub_block: int = 0

    @property
    def raw_name(self) -> str:
        """Return a file name that sorts in run order."""
        digits = max(2, len(str(self.runs - 1)))
        return f"{self.block:04d}-{self.attempt}-{self.start}-{self.position:0{digits}d}.txt"


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
        void_under: The configuration that was in force then.
        void_by: Code of the rule that threw it away.
        way_out: What that rule advises.
        made: Hears of each server that was made for a start in a cluster.
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
        """Learn nothing: all starts of a campaign are alike."""

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
            for number, start in enumerate(block.starts):
                missing = {
                    position: planned
                    for position, planned in enumerate(start.runs)
                    if (block.index, number, position) not in kept
                }
                if not missing:
                    continue
                self._enter(replace(start, runs=tuple(missing.values())))
                self._tell(block.index, attempt, number)
                for position, planned in missing.items():
                    place = Place(
                        block=block.index,
                        attempt=attempt,
                        start=number,
                        position=position,
                        runs=len(start.runs),
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

    def _enter(self, planned: PlannedStart) -> None:
        """Bring the configuration into force on the data the reset asks for, and warm-up."""
        place = self.bench.data_of(planned.configuration)
        restore = self.plan.reset is Reset.START or place not in self._restored
        if self.plan.mode is Mode.BACK_TO_BACK and not restore and self.bench.is_running():
            return
        self._active = planned.configuration
        start = self.bench.activate(planned.configuration, restore=restore, means=self.plan.restore)
        self._restored.add(place)
        self._activated_at = start.at
        self._require(start.deviations)
        self._warm_up(planned)

    def _tell(self, block: int, attempt: int, start: int) -> None:
        """Tell what the place of a server is that was made for this start."""
        if self.plan.restore == ANEW and self.experiment.is_in_kubernetes:
            made = ServerMade(
                block=block,
                attempt=attempt,
                start=start,
                configuration=self._active,
                facts=self.bench.platform(self._active).facts(),
            )
            self.made(made)

    def _warm_up(self, start: PlannedStart) -> None:
        """Put the start's own workloads on the server and throw the result away."""
        workloads = list(dict.fromkeys(run.cell.workload for run in start.runs))
        seconds = math.ceil(self.plan.warm_up.warm_up_s)  # pgbench takes whole seconds
        for number, name in enumerate(workloads):
            share = (number + 1) * seconds // len(workloads) - number * seconds // len(workloads)
            cell = next(run.cell for run in start.runs if run.cell.workload == name)
            self._throw_away(PlannedRun(configuration=start.configuration, cell=cell), share)

    def _throw_away(self, planned: PlannedRun, seconds: int) -> None:
        """Put a run's workload on the server for whole seconds, if for any."""
        failure = self.bench.warm_up(planned, seconds=seconds) if seconds else ""
        if failure:
            raise self._warm_up_failed(planned.configuration, failure)

    def _warm_up_failed(self, configuration: str, failure: str) -> Void:
        reason = f"the generator failed in the warm-up: {failure}"
        died = not self.bench.is_running()
        said = self.bench.last_words(configuration) if died else ""
        finding = generator_failed(reason, server_died=died, last_words=said)
        return Void(finding.message, finding)

    def _require(self, deviations: tuple[str, ...]) -> None:
        finding = not_in_force(self._active, deviations)
        if finding is not None:
            raise Void(finding.message, finding)

    def _run(self, planned: PlannedRun, place: Place) -> Run:
        if planned.configuration != self._active:
            self._active = planned.configuration
            self._require(self.bench.switch(planned.configuration))
            warm_up_s = self.plan.warm_up.warm_up_s
            self._throw_away(planned, settling_s(self.experiment.system, warm_up_s))
        label = f"{planned.cell.workload}, {planned.cell.load.label}, {planned.configuration}"
        self.started(block=place.block, label=label)
        return run_of(planned, place, self._take(planned, place), self._activated_at, self.raw)

    def _take(self, planned: PlannedRun, place: Place) -> Taken:
        measure = self.experiment.measure
        taker = Taker(engine=self.engine, bench=self.bench, clock=self.clock)
        return taker.take(
            planned,
            seconds=self.experiment.slice_s(planned.cell.workload),
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
        start=place.start,
        position=place.position,
        configuration=planned.configuration,
        cell=planned.cell,
        started_at=taken.wall,
        since_start_s=round(taken.monotonic - activated_at, 3),
        measurement=taken.measurement,
        validity=validity_of(taken.findings),
        findings=taken.findings,
        raw=raw.write_raw(place.raw_name, taken.output),
        checkpoint=taken.checkpoint,
        evidence=taken.evidence,
        latency=taken.latency,
        turns=taken.turns,
        sub_block=place.sub_block,
    )


def require_valid(run: Run) -> None:
    """Raise Void for a run that does not count."""
    if run.validity is Validity.INVALID:
        grave = [finding for finding in run.findings if finding.severity is Severity.ERROR]
        # A neighbour's redo is limited; where something else is wrong too, that counts.
        grave.sort(key=lambda finding: finding.code in ENVIRONMENT)
        raise Void("; ".join(finding.message for finding in grave), *grave)


# Before each try of one block: a restart takes seconds, and an outage may take longer. A guess;
# without pauses all tries would meet the same moment.
_PAUSES_S: Final = (0.0, 2.0, 20.0)
MAX_TRIES: Final = len(_PAUSES_S)  # what fails three times in a row does not come from a neighbour
# Of the complete blocks so far, and at any time: a guess. On a machine that is never quiet the
# budget would else go into blocks that are thrown away.
REDONE_SHARE: Final = 0.25
REDONE_ANYHOW: Final = 2


def pause_before_s(tried: int) -> float:
    """Return the pause before a try, after so many tries of the same block."""
    return _PAUSES_S[min(tried, len(_PAUSES_S) - 1)]


def bears_neighbours(outcomes: Sequence[BlockOutcome], index: int) -> bool:
    """Return whether the next try of a block counts also beside a neighbour.

    Args:
        outcomes: Of all tries of the campaign so far.
        index: The block.
    """
    disturbed = [outcome.index for outcome in outcomes if outcome.cause in ENVIRONMENT]
    complete = sum(outcome.complete for outcome in outcomes)
    used_up = len(disturbed) >= REDONE_ANYHOW + REDONE_SHARE * complete
    return used_up or disturbed.count(index) >= MAX_TRIES - 1


class TakesBlocks(Protocol):
    """Takes a block once, one configuration after another or in turns.

    Attributes:
        void_because: Why the last try was thrown away; empty when it counts.
        void_under: The configuration that was in force then.
        void_by: Code of the rule that threw it away.
        way_out: What that rule advises.
        warmed_s: For how long of load each server was warmed up in the last try; None where the
            plan says it.
    """

    clock: Clock
    void_because: str
    void_under: str
    void_by: str
    way_out: str
    warmed_s: float | None

    def learn(self, record: CampaignRecord) -> None:
        """Take from the blocks so far what the next one needs."""
        ...

    def take(
        self,
        block: PlannedBlock,
        attempt: int,
        kept: Collection[RunPlace] = (),
        *,
        bearing: bool = False,
    ) -> Iterator[Run]:
        """Yield each run as it is finished; after an invalid one the block ends."""
        ...


@dataclass(slots=True, kw_only=True)
class BlockCompleter:
    """Lets a taker try blocks until they count; ``told`` hears how each try ended.

    ``lasted_s`` is how long the last try took, without those before it and the pauses.
    """

    taker: TakesBlocks
    directory: CampaignDirectory
    told: Callable[[BlockOutcome], None]
    lasted_s: float = 0.0

    def complete(self, block: PlannedBlock, record: CampaignRecord) -> CampaignRecord:
        """Try a block until all its runs count; a single pass goes on from what there is.

        A neighbour uses up no try: it is borne in the end (``bears_neighbours``).

        Raises:
            MeasurementError: It failed ``MAX_TRIES`` times in a row.
        """
        self.taker.learn(record)
        before = sum(outcome.index == block.index for outcome in record.blocks)
        tried, failed = before, 0
        while failed < MAX_TRIES:
            self.taker.clock.sleep(pause_before_s(tried - before))
            begun_s = self.directory.journal.elapsed_s
            record = self._try(block, tried, record)
            tried, outcome = tried + 1, record.blocks[-1]
            self.told(outcome)
            self.lasted_s = self.directory.journal.elapsed_s - begun_s
            if outcome.complete:
                return replace(record, elapsed_s=self.directory.journal.elapsed_s)
            failed += outcome.cause not in ENVIRONMENT
        way_out = self.taker.way_out or "Remove the cause."
        raise MeasurementError(
            f"block {block.index + 1} failed {MAX_TRIES} times: {self.taker.void_because}",
            hint=f"{way_out} Then go on with: steelyard run --resume {quoted(self.directory.path)}",
        )

    def _try(self, block: PlannedBlock, attempt: int, record: CampaignRecord) -> CampaignRecord:
        """Take a block once; return the record with its runs and with how it ended."""
        self.directory.journal.append(BlockStarted(index=block.index, attempt=attempt))
        kept = record.pass_runs if record.experiment.is_single_pass else ()
        bearing = bears_neighbours(record.blocks, block.index)
        places = {run.place for run in kept}
        for run in self.taker.take(block, attempt, places, bearing=bearing):
            self.directory.journal.append(RunFinished(run=run))
            record = replace(record, runs=(*record.runs, run))
        outcome = BlockOutcome(
            index=block.index,
            attempt=attempt,
            complete=not self.taker.void_because,
            reason=self.taker.void_because,
            configuration=self.taker.void_under,
            cause=self.taker.void_by,
            warm_up_s=self.taker.warmed_s,
        )
        self.directory.journal.append(BlockEnded(outcome=outcome))
        return replace(record, blocks=(*record.blocks, outcome))
