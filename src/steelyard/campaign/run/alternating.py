"""Taking one block in turns: every configuration up, each from the same data, the load goes around.

Where not all fit, they are up in sub-blocks, one after another, the baseline in each of them.
Only causes from outside the configurations void a block, and then for all of them: it is redone
whole.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from steelyard.answers.turns import still_warming
from steelyard.campaign.design.schedule import block_coin
from steelyard.campaign.evidence.run_log import LogOrder, RawStore
from steelyard.campaign.evidence.run_rules import generator_failed, not_in_force
from steelyard.campaign.run.bench import Start
from steelyard.campaign.run.blocks import Place, Void, require_valid, run_of
from steelyard.campaign.run.turns import Seat, Slot, TurnTaker, Work, seat_of
from steelyard.core.campaign import CampaignPlan, CampaignRecord, turn_times
from steelyard.core.errors import MeasurementError, PreflightError, SteelyardError, TargetError
from steelyard.core.experiment import Experiment
from steelyard.core.findings import Validity
from steelyard.core.measurement import Run, RunPlace
from steelyard.core.schedule import PlannedBlock, PlannedRun, PlannedStart
from steelyard.gateways.cgroups import Guard, Guards, SystemGuards
from steelyard.gateways.host import Clock
from steelyard.places.local.groups import start_guard
from steelyard.systems.protocol import Engine

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
    guards: Guards = field(default_factory=SystemGuards)
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

        Args:
            starts: One for each slot.
            means: Of restoring the data.
            failed: Gets the configurations that did not start.

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
            SteelyardError: The first trouble, after everything was tried.
        """
        if self._guard is not None:  # it lets everything go on: what stands still does not end
            self._guard.close()
            self._guard = None
        hands, self._hands, self._was_up = self._hands, [], False
        for hand in hands:  # one may be at work when the campaign is interrupted
            hand.shutdown(cancel_futures=True)
        troubles: list[BaseException] = []
        for slot in self.slots:
            try:
                slot.bench.destroy()
            except BaseException as error:  # noqa: BLE001 - raised below
                troubles.append(error)
        if troubles:
            raise troubles[0]

    def _side_by_side(self, steps: Sequence[tuple[int, Callable[[], _Result]]]) -> list[_Result]:
        """Do a step in each of some slots and return what came of it, once all are over."""
        while len(self._hands) < len(self.slots):
            self._hands.append(ThreadPoolExecutor(1, f"slot-{len(self._hands) + 1}"))
        futures = [self._hands[place].submit(step) for place, step in steps]
        troubles = [trouble for each in futures if (trouble := each.exception()) is not None]
        if troubles:
            raise troubles[0]
        return [each.result() for each in futures]


def warm_up_s(record: CampaignRecord, plan: CampaignPlan) -> float:
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
class AlternatingTaker:
    """Takes blocks of a plan in turns, as ``BlockTaker`` takes them one by one."""

    experiment: Experiment
    engine: Engine
    slots: Slots
    plan: CampaignPlan
    clock: Clock
    started: Callable[..., None]
    raw: RawStore
    void_because: str = ""
    void_under: str = ""
    void_by: str = ""
    way_out: str = ""
    warmed_s: float | None = None
    _up: dict[str, Slot] = field(default_factory=dict)
    _starts: dict[str, Start] = field(default_factory=dict)

    def learn(self, record: CampaignRecord) -> None:
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
        self.void_because = self.void_under = self.void_by = self.way_out = ""
        try:
            first = 0
            for starts in block.sub_blocks:
                place = Place(block=block.index, attempt=attempt, start=first, position=0)
                place = replace(place, sub_block=starts[0].sub_block)
                self._bring_up(block.index, starts)
                yield from self._cells(starts, place, bearing=bearing)
                self.slots.stop()
                first += len(starts)
        except Void as end:
            self.void_by, self.way_out = end.code, end.way_out
            self._give_up(str(end))
        # The disk of the data may fill up in the middle of a block: then files refuse.
        except (TargetError, MeasurementError, PreflightError) as error:
            self._give_up(error.message)

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

        Args:
            starts: Of the servers that are up.
            first: Where the first run of the first of them stands.
            bearing: A run beside neighbours is suspect, not invalid.
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
        times = turn_times(self.plan, workload)
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
        """Return the seat of each.

        Raises:
            TargetError: A server is gone.
        """
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
