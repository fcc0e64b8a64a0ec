"""From a planned block to one that counts: starts, warm-ups, runs, and tries.

Configurations are taken one after another, or in turns: then all are up, each from the same data,
and the load goes around; where not all fit, in sub-blocks with the baseline in each.

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
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from steelyard.answers.turns import still_warming
from steelyard.campaign.design.schedule import block_coin
from steelyard.campaign.evidence.run_log import LogOrder, RawStore, log_order
from steelyard.campaign.evidence.run_rules import (
    generator_failed,
    not_in_force,
    rule_of,
    validity_of,
)
from steelyard.campaign.run.bench import Bench, Start, do_each
from steelyard.campaign.run.taking import Taken, Taker
from steelyard.campaign.run.turns import Seat, Slot, TurnTaker, Work, seat_of
from steelyard.core import campaign
from steelyard.core.experiment import Experiment, Reset
from steelyard.core.findings import ENVIRONMENT, Finding, Severity, Validity
from steelyard.core.measurement import Run, RunPlace
from steelyard.core.schedule import Mode, PlannedBlock, PlannedRun, PlannedStart
from steelyard.core.wording import (
    MeasurementError,
    PreflightError,
    SteelyardError,
    TargetError,
    quoted,
)
from steelyard.gateways.cgroups import Guard, Guards
from steelyard.gateways.host import Clock
from steelyard.places.local.groups import start_guard
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
class TakesBlocks:
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
    void_because: str = ""
    void_under: str = ""
    void_by: str = ""
    way_out: str = ""
    warmed_s: float | None = None

    def learn(self, record: campaign.CampaignRecord) -> None:
        """Take from the blocks so far what the next one needs: nothing where starts are alike."""

    def take(
        self,
        block: PlannedBlock,
        attempt: int,
        kept: Collection[RunPlace] = (),
        *,
        bearing: bool = False,
    ) -> Iterator[Run]:
        """Yield each run as it is finished; after an invalid one the block ends."""
        raise NotImplementedError

    @contextmanager
    def _trying(self) -> Iterator[None]:
        """Begin a try; give it up for what voids it, and for what fails in it."""
        self.void_because = self.void_under = self.void_by = self.way_out = ""
        try:
            yield
        except Void as end:
            self.void_by, self.way_out = end.code, end.way_out
            self._give_up(str(end))
        # The disk of the data may fill up in the middle of a block: then files refuse.
        except (TargetError, MeasurementError, PreflightError) as error:
            self.way_out = error.hint
            self._give_up(error.message)

    def _give_up(self, reason: str) -> None:
        raise NotImplementedError


@dataclass(slots=True, kw_only=True)
class BlockTaker(TakesBlocks):
    """Takes blocks of a plan on a bench.

    Attributes:
        made: Hears of each server that was made for a start in a cluster.
    """

    experiment: Experiment
    engine: Engine
    bench: Bench
    plan: campaign.CampaignPlan
    started: Callable[..., None]
    raw: RawStore
    made: Callable[[campaign.ServerMade], None] = lambda _: None
    _active: str = ""
    _activated_at: float = 0.0
    _bearing: bool = False
    _restored: set[object] = field(default_factory=set)  # places whose data are as prepared

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
        self._bearing = bearing
        if self.plan.reset is Reset.BLOCK:
            self._restored.clear()
        with self._trying():
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
        target = self.experiment.configuration(self._active).target
        if self.plan.restore == campaign.ANEW and target.home is not None:
            made = campaign.ServerMade(
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
            self._throw_away(planned, campaign.settling_s(self.experiment.system, warm_up_s))
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


def bears_neighbours(outcomes: Sequence[campaign.BlockOutcome], index: int) -> bool:
    """Return whether the next try of a block counts also beside a neighbour.

    That is by the ``outcomes`` of all tries of the campaign so far.
    """
    disturbed = [outcome.index for outcome in outcomes if outcome.cause in ENVIRONMENT]
    complete = sum(outcome.complete for outcome in outcomes)
    used_up = len(disturbed) >= REDONE_ANYHOW + REDONE_SHARE * complete
    return used_up or disturbed.count(index) >= MAX_TRIES - 1


@dataclass(slots=True, kw_only=True)
class BlockCompleter:
    """Lets a taker try blocks until they count; ``told`` hears how each try ended.

    ``lasted_s`` is how long the last try took, without those before it and the pauses.
    """

    taker: TakesBlocks
    directory: CampaignDirectory
    told: Callable[[campaign.BlockOutcome], None]
    lasted_s: float = 0.0

    def complete(
        self, block: PlannedBlock, record: campaign.CampaignRecord
    ) -> campaign.CampaignRecord:
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

    def _try(
        self, block: PlannedBlock, attempt: int, record: campaign.CampaignRecord
    ) -> campaign.CampaignRecord:
        """Take a block once; return the record with its runs and with how it ended."""
        self.directory.journal.append(BlockStarted(index=block.index, attempt=attempt))
        kept = record.pass_runs if record.experiment.is_single_pass else ()
        bearing = bears_neighbours(record.blocks, block.index)
        places = {run.place for run in kept}
        for run in self.taker.take(block, attempt, places, bearing=bearing):
            self.directory.journal.append(RunFinished(run=run))
            record = replace(record, runs=(*record.runs, run))
        outcome = campaign.BlockOutcome(
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


_WARMING: Final = 0  # which part of a cell a coin is for
_TAKING: Final = 1
LONGEST_WARM_UP_S: Final = 20.0  # METHOD 3.7
_Result = TypeVar("_Result")


@dataclass(slots=True, kw_only=True)
class Slots:
    """The places of servers that are up together, and who works in each at a time.

    A slot's servers are all started by one thread, which lives as long as the campaign: the kernel
    ends a child when the thread that made it ends.

    Attributes:
        made: Makes so many of them.
        guards: Starts what lets everything go on when Steelyard dies in a pause.
    """

    made: Callable[[int], tuple[Slot, ...]] = lambda _: ()
    guards: Guards = field(default_factory=Guards)
    slots: tuple[Slot, ...] = ()
    _hands: list[ThreadPoolExecutor] = field(default_factory=list)
    _was_up: bool = False
    _guard: Guard | None = None

    def make(self, number: int) -> None:
        """Make so many slots, unless they are there."""
        self.slots = self.slots or self.made(number)

    def _guarded(self) -> None:
        """Let a guard stand, also where somebody has ended the last one.

        Raises:
            TargetError: It does not start.
        """
        if self._guard is not None and self._guard.stands():
            return
        places = {
            id(platform): platform.guarded
            for slot in self.slots
            for platform in slot.platforms.values()
        }
        self._guard = start_guard(places.values(), self.guards)

    def of(self, starts: Sequence[PlannedStart]) -> tuple[Slot, ...]:
        """Return the slot of each start: the next one, or the only one that can take it."""
        free = list(self.slots)
        found = []
        for start in starts:
            slot = next(slot for slot in free if start.configuration in slot.platforms)
            free.remove(slot)
            found.append(slot)
        return tuple(found)

    def prepare(self, told: Callable[[str], None]) -> None:
        """Find the prepared state of every configuration for every slot."""
        for slot in self.slots:
            slot.bench.prepare(told)

    def bring_up(
        self, starts: Sequence[PlannedStart], means: str, failed: list[str]
    ) -> list[Start]:
        """Bring each start's configuration into force on restored data, side by side.

        The first time one after another: then it is noted what is made for each slot.

        ``failed`` gets the configurations that did not start.

        Raises:
            TargetError: One did not start; the others are up or failed, too.
        """
        self._guarded()

        def activate(slot: Slot, configuration: str) -> Start:
            try:
                return slot.bench.activate(configuration, restore=True, means=means)
            except SteelyardError:
                failed.append(configuration)
                raise

        steps = [
            partial(activate, slot, start.configuration)
            for slot, start in zip(self.of(starts), starts, strict=True)
        ]
        if not self._was_up:
            done = [self._side_by_side([(place, step)])[0] for place, step in enumerate(steps)]
            self._was_up = True
            return done
        return self._side_by_side(list(enumerate(steps)))

    def stop(self) -> None:
        """Stop whatever runs; the data are not needed any more."""
        steps = [partial(slot.bench.stop, keep_data=False) for slot in self.slots]
        self._side_by_side(list(enumerate(steps)))

    def logs(self) -> str:
        """Return everything the servers logged."""
        return "".join(slot.bench.logs() for slot in self.slots)

    def destroy(self) -> None:
        """Stop everything and remove everything that was made for the slots.

        Raises:
            Interrupted: Somebody stopped it, after everything was tried.
            SteelyardError: The first trouble, after everything was tried.
        """
        if self._guard is not None:  # it lets everything go on: what stands still does not end
            self._guard.close()
            self._guard = None
        hands, self._hands, self._was_up = self._hands, [], False
        for hand in hands:  # one may be at work when the campaign is interrupted
            hand.shutdown(cancel_futures=True)
        do_each(slot.bench.destroy for slot in self.slots)

    def _side_by_side(self, steps: Sequence[tuple[int, Callable[[], _Result]]]) -> list[_Result]:
        """Do a step in each of some slots and return what came of it, once all are over."""
        while len(self._hands) < len(self.slots):
            self._hands.append(ThreadPoolExecutor(1, f"slot-{len(self._hands) + 1}"))
        futures = [self._hands[place].submit(step) for place, step in steps]
        troubles = [trouble for each in futures if (trouble := each.exception()) is not None]
        if troubles:
            raise troubles[0]
        return [each.result() for each in futures]


def warm_up_s(record: campaign.CampaignRecord, plan: campaign.CampaignPlan) -> float:
    """Return for how long of load each server of the next block is warmed up.

    It is doubled, for all alike, where the blocks that had the present warm-up show that one of
    them was still warming up. A warm-up that the experiment declares is kept; a finding says then
    that it is too short.
    """
    known = [o.warm_up_s for o in record.blocks if o.complete and o.warm_up_s is not None]
    if not known or record.experiment.measure.warm_up_s is not None:
        return plan.warm_up.warm_up_s
    present_s = known[-1]
    same = [o.index for o in record.blocks if o.complete and o.warm_up_s == present_s]
    if present_s < LONGEST_WARM_UP_S and still_warming(record, since=min(same)):
        return min(2.0 * present_s, LONGEST_WARM_UP_S)
    return present_s


@dataclass(slots=True, kw_only=True)
class AlternatingTaker(TakesBlocks):
    """Takes blocks of a plan in turns, as ``BlockTaker`` takes them one by one."""

    experiment: Experiment
    engine: Engine
    slots: Slots
    plan: campaign.CampaignPlan
    started: Callable[..., None]
    raw: RawStore
    _up: dict[str, Slot] = field(default_factory=dict)
    _starts: dict[str, Start] = field(default_factory=dict)

    def learn(self, record: campaign.CampaignRecord) -> None:
        """Warm up longer from now on where a configuration was still warming up."""
        self.warmed_s = warm_up_s(record, self.plan)

    def take(
        self,
        block: PlannedBlock,
        attempt: int,
        kept: Collection[RunPlace] = (),  # noqa: ARG002 - as BlockTaker; no block is kept in part
        *,
        bearing: bool = False,
    ) -> Iterator[Run]:
        """Yield the runs of each cell when all of them are finished; after an invalid one it ends.

        A try that is ``bearing`` neighbours goes on beside them.
        """
        with self._trying():
            first = 0
            for starts in block.sub_blocks:
                place = Place(block=block.index, attempt=attempt, start=first, position=0)
                place = replace(place, sub_block=starts[0].sub_block)
                self._bring_up(block.index, starts)
                yield from self._cells(starts, place, bearing=bearing)
                self.slots.stop()
                first += len(starts)

    def _give_up(self, reason: str) -> None:
        self.void_because = reason
        self.slots.stop()

    def _bring_up(self, block: int, planned: Sequence[PlannedStart]) -> None:
        """Start each configuration on its copy of the data, and let all stand still.

        Raises:
            Void: A setting is not in force.
        """
        self.started(block=block, label=f"starting {len(planned)} servers")
        failed: list[str] = []
        try:
            starts = self.slots.bring_up(planned, self.plan.restore, failed)
        except SteelyardError:
            self.void_under = failed[0] if len(failed) == 1 else ""
            raise
        configurations = [start.configuration for start in planned]
        self._up = dict(zip(configurations, self.slots.of(planned), strict=True))
        self._starts = dict(zip(configurations, starts, strict=True))
        for configuration, start in self._starts.items():
            finding = not_in_force(configuration, start.deviations)
            if finding is not None:
                self.void_under = configuration
                raise Void(finding.message, finding)
        for configuration, slot in self._up.items():
            slot.platforms[configuration].standstill.pause()

    def _cells(
        self, starts: Sequence[PlannedStart], first: Place, *, bearing: bool
    ) -> Iterator[Run]:
        """Yield the runs of each cell; before the first of a workload all servers warm up.

        ``first`` is where the first run of the first of them stands.
        """
        warm: set[str] = set()
        for position, planned in enumerate(zip(*(v.runs for v in starts), strict=True)):
            place = replace(first, position=position)
            workload, warm_up_s = planned[0].cell.workload, 0.0
            if workload not in warm:
                warm.add(workload)
                warm_up_s = self._warm_up(place, planned)
            seats = self._seats(planned)
            runs = self._cell(
                seats,
                replace(place, runs=len(starts[0].runs)),
                Work(seconds=self.experiment.slice_s(workload), warm_up_s=warm_up_s),
                bearing=bearing,
            )
            yield from runs
            self._require_valid(runs, seats)

    def _require_valid(self, runs: Sequence[Run], seats: Sequence[Seat]) -> None:
        """Raise Void when one does not count, under the one whose own trouble it is."""
        invalid = [run for run in runs if run.validity is Validity.INVALID]
        self.void_under = _culprit(seats)
        if not self.void_under and len(invalid) < len(runs):  # what all lack is nobody's
            self.void_under = next((run.configuration for run in invalid), "")
        for run in sorted(invalid, key=lambda run: run.configuration != self.void_under):
            require_valid(run)

    def _cell(self, seats: Sequence[Seat], place: Place, work: Work, *, bearing: bool) -> list[Run]:
        """Return the run of each server in one cell.

        Raises:
            TargetError: A server is gone.
        """
        cell = seats[0].planned.cell
        self.started(block=place.block, label=f"{cell.workload}, {cell.load.label}, in turns")
        places = [replace(place, start=place.start + number) for number in range(len(seats))]
        orders = [self._order(one) for one in places]
        turns, coin = self._turns(cell.workload), self._coin(place, _TAKING)
        try:
            taken = turns.take(seats, orders, work, coin, bearing=bearing)
        except TargetError:
            self.void_under = _culprit(seats)
            raise
        return [
            run_of(one, at, done, self._starts[one.configuration].at, self.raw)
            for one, at, done in zip([seat.planned for seat in seats], places, taken, strict=True)
        ]

    def _turns(self, workload: str) -> TurnTaker:
        times = campaign.turn_times(self.plan, workload)
        return TurnTaker(engine=self.engine, clock=self.clock, times=times)

    def _coin(self, place: Place, part: int) -> np.random.Generator:
        """Return what draws the orders of a part of a cell in this try of the block."""
        further = (place.sub_block,) if place.sub_block else ()
        drawn_for = (place.attempt, place.position, part, *further)
        return block_coin(self.experiment.seed, place.block, *drawn_for)

    def _warm_up(self, place: Place, planned: Sequence[PlannedRun]) -> float:
        """Put a workload on every server, in turns; return the seconds that its first cell owes.

        The load is the largest, whatever runs afterwards: how warm a server is must not depend on
        the order of the runs. Where the cell has that load, its own generators do it.

        Raises:
            Void: A generator failed.
        """
        seconds = self.plan.warm_up.warm_up_s if self.warmed_s is None else self.warmed_s
        if planned[0].cell.load == self.slots.slots[0].bench.warming_load:
            return seconds
        self.started(block=place.block, label=f"{planned[0].cell.workload}, warming up in turns")
        seats = self._seats(planned, warming=True)
        try:
            self._turns(planned[0].cell.workload).warm_up(
                seats, seconds, self._coin(place, _WARMING)
            )
        except MeasurementError as error:
            raise self._warm_up_failed(seats, error.message) from error
        return 0.0

    def _warm_up_failed(self, seats: Sequence[Seat], said: str) -> Void:
        dead = [seat for seat in seats if not seat.slot.bench.is_running()]
        words = [seat.slot.bench.last_words(seat.planned.configuration) for seat in dead]
        self.void_under = _culprit(seats)
        finding = generator_failed(
            f"the generator failed in the warm-up: {said}",
            server_died=bool(dead),
            last_words=" ".join(words),
        )
        return Void(finding.message, finding)

    def _seats(self, planned: Sequence[PlannedRun], *, warming: bool = False) -> list[Seat]:
        """Return the seat of each."""
        seats = []
        for one in planned:
            self.void_under = one.configuration
            slot = self._up[one.configuration]
            seats.append(seat_of(slot, one, self.engine, self.clock, warming=warming))
        self.void_under = ""
        return seats

    def _order(self, place: Place) -> LogOrder:
        policy = self.experiment.measure.log
        return LogOrder(name=Path(place.raw_name).stem, store=self.raw, policy=policy)


def _culprit(seats: Sequence[Seat]) -> str:
    """Return the configuration whose generators failed or whose server died.

    Empty: it is nobody's.
    """
    for seat in seats:
        if seat.failure or not seat.slot.bench.is_running():
            return seat.planned.configuration
    return ""
