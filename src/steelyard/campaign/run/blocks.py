"""From a planned block to one that counts: starts, warm-ups, runs, and tries.

Configurations are taken one after another, or in turns: then all are up, each from the same data,
and the load goes around; where not all fit, in sub-blocks with the baseline in each.

Only causes from outside the configurations void a block, and then in all arms: it is redone whole.
Each try is in the journal.

A cause like a dead server ends the campaign when it comes three times in a row. A neighbour does
not. In turns it meets all configurations alike, and no block is redone for it. Elsewhere blocks are
redone for it until that has taken its share of the budget; then their runs count as suspect.
    Whether a block is redone may depend on the neighbour alone, never on results or arms. Then
    exchanging the configurations' labels would change nothing about which tries are kept, so
    between equal configurations each block's sign is still the coin's, and the interval keeps its
    level however the neighbour comes and goes. A rule that looks at the arm ("the slower one was
    disturbed") keeps the other arm's disturbances and is biased;
    ``tests/method/test_redone_blocks.py`` shows both. That is why the decision here is made before
    a try begins, from causes and times of earlier tries and nothing else.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from steelyard.answers.turns import still_warming
from steelyard.campaign.design.schedule import block_coin, cells_of, shortened
from steelyard.campaign.evidence.run_log import RawStore, log_order
from steelyard.campaign.evidence.run_rules import (
    generator_failed,
    not_in_force,
    rule_of,
    validity_of,
)
from steelyard.campaign.run.bench import Bench, Start, do_each
from steelyard.campaign.run.taking import RunTaker, Seat, Slot, Taken, Work, seat_of
from steelyard.core import campaign
from steelyard.core.experiment import Experiment, Reset
from steelyard.core.findings import ENVIRONMENT, Finding, Severity, Validity
from steelyard.core.measurement import Run, RunPlace
from steelyard.core.schedule import CellKey, Mode, PlannedBlock, PlannedRun, PlannedStart
from steelyard.core.wording import (
    MeasurementError,
    PreflightError,
    SteelyardError,
    TargetError,
    format_duration,
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


_WARMING: Final = 0  # which part of a cell a coin is for
_TAKING: Final = 1
_ORDERING: Final = 2
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

    @classmethod
    def alone(cls, bench: Bench) -> "Slots":
        """Return the one slot of servers that are up one at a time: a bench."""
        return cls(slots=(Slot(bench=bench),))

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
            for platform in slot.bench.platforms.values()
        }
        self._guard = start_guard(places.values(), self.guards)

    def of(self, configurations: Sequence[str]) -> tuple[Slot, ...]:
        """Return the slot of each: the next one, or the only one that can take it."""
        free = list(self.slots)
        found = []
        for name in configurations:
            slot = next(slot for slot in free if name in slot.bench.platforms)
            free.remove(slot)
            found.append(slot)
        return tuple(found)

    def prepare(self, told: Callable[[str], None]) -> None:
        """Find the prepared state of every configuration for every slot."""
        for slot in self.slots:
            slot.bench.prepare(told)

    def bring_up(self, slots: Mapping[str, Slot], activate: Callable[[str], Start]) -> list[Start]:
        """Bring configurations into force in slots of theirs, side by side.

        The first time one after another: then it is noted what is made for each slot.

        Raises:
            TargetError: One did not start; the others are up or failed, too.
        """
        if len(self.slots) > 1:  # in which servers stand still
            self._guarded()
        steps = [(self.slots.index(slot), partial(activate, name)) for name, slot in slots.items()]
        if not self._was_up:
            done = [self._side_by_side([step])[0] for step in steps]
            self._was_up = True
            return done
        return self._side_by_side(steps)

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
        if len(self.slots) == 1:
            return [step() for _, step in steps]
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


class Void(Exception):  # noqa: N818 - it ends a try of a block and is no error of the program
    """The block cannot count any more; the reason is a sentence.

    Attributes:
        under: The configuration whose own trouble it is; empty: it is nobody's.
        code: Of the gravest finding; empty where there is none.
        way_out: What the rule behind it advises, or the error.
    """

    def __init__(self, reason: str, *findings: Finding, under: str = "", way_out: str = "") -> None:
        super().__init__(reason)
        self.under = under
        self.code = findings[0].code if findings else ""
        self.way_out = rule_of(self.code).remedy if findings else way_out


@contextmanager
def _voided(whose: str | Callable[[], str]) -> Iterator[None]:
    """Let what fails void the block, under the configuration whose trouble it is, if anybody's.

    The disk of the data may fill up in the middle of a block: then files refuse.
    """
    try:
        yield
    except (TargetError, MeasurementError, PreflightError) as error:
        under = whose if isinstance(whose, str) else whose()
        raise Void(error.message, under=under, way_out=error.hint) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Server:
    """A configuration in force in a slot, and since when it could take load, monotonic."""

    slot: Slot
    at: float


@dataclass(slots=True, kw_only=True)
class BlockTaker:
    """Takes blocks of a plan: start by start, cell by cell.

    Configurations that alternate are up together, each in a slot of its own, and have a run each in
    a cell, in turns. One by one there is one slot, and a run is one turn in one piece.

    Attributes:
        made: Hears of each server that was made for a start in a cluster.
        void: Why the last try was thrown away; None: it counts.
        warmed_s: For how long of load each server was warmed up in the last try; None where the
            plan says it.
    """

    experiment: Experiment
    engine: Engine
    slots: Slots
    plan: campaign.CampaignPlan
    clock: Clock
    started: Callable[..., None]
    raw: RawStore
    made: Callable[[campaign.ServerMade], None] = lambda _: None
    void: Void | None = None
    warmed_s: float | None = None
    _counted_s: float | None = None  # of the runs of the present block, where it is a short one
    _up: dict[str, _Server] = field(default_factory=dict)
    _restored: set[object] = field(default_factory=set)  # places whose data are as prepared

    @property
    def _alternates(self) -> bool:
        return self.plan.mode is Mode.ALTERNATING

    def learn(self, record: campaign.CampaignRecord) -> None:
        """Warm up longer from now on where a configuration was still warming up in turns."""
        if self._alternates:
            self.warmed_s = warm_up_s(record, self.plan)

    def take(
        self,
        block: PlannedBlock,
        attempt: int,
        kept: Collection[RunPlace] = (),
        *,
        bearing: bool = False,
    ) -> Iterator[Run]:
        """Yield the runs of each cell when all of them are finished; after an invalid one it ends.

        Runs whose places are ``kept`` are not taken again: those of a single pass that there are.
        A try that is ``bearing`` neighbours goes on beside them.
        """
        self.void, self._counted_s = None, block.counted_s
        if self.plan.reset is Reset.BLOCK:
            self._restored.clear()
        together = block.sub_blocks if self._alternates else [(start,) for start in block.starts]
        first = 0
        try:
            with _voided(self._alone):
                for starts in together:
                    place = Place(
                        block=block.index,
                        attempt=attempt,
                        start=first,
                        position=0,
                        runs=len(starts[0].runs),
                        sub_block=starts[0].sub_block,
                    )
                    positions = [
                        position
                        for position in range(place.runs)
                        if (block.index, first, position) not in kept
                    ]
                    if positions:
                        yield from self._sub_block(starts, place, positions, bearing=bearing)
                    first += len(starts)
        except Void as end:
            self.void = end
            self._up.clear()
            self._restored.clear()
            self.slots.stop()

    def _alone(self) -> str:
        """Return the one configuration in force; empty if it is not one alone."""
        return next(iter(self._up)) if len(self._up) == 1 else ""

    def _sub_block(
        self,
        starts: Sequence[PlannedStart],
        first: Place,
        positions: Sequence[int],
        *,
        bearing: bool,
    ) -> Iterator[Run]:
        """Yield the runs of starts that are up together; ``first`` is where the first one stands.

        In turns each server is warmed up with a workload before the first cell of it. One alone is
        warmed up with all of them before its first run: back to back the runs of a cell would meet
        it between them.
        """
        cells = [[start.runs[position] for start in starts] for position in positions]
        cold: dict[str, CellKey] = {}
        for runs in cells:
            cold.setdefault(runs[0].cell.workload, runs[0].cell)
        warm_ups_s = dict(zip(cold, self._warm_ups_s(len(cold)), strict=True))
        if not self._bring_up(starts, first):
            warm_ups_s.clear()
        if not self._alternates:
            for workload, seconds in warm_ups_s.items():
                run = PlannedRun(configuration=starts[0].configuration, cell=cold[workload])
                self._warm_up(first, [run], seconds)
            warm_ups_s.clear()
        for position, planned in zip(positions, cells, strict=True):
            place = replace(first, position=position)
            self._switch(place, planned)
            seconds = warm_ups_s.pop(planned[0].cell.workload, 0.0)
            owed_s = self._warm_up(place, planned, seconds)
            yield from self._cell(planned, place, owed_s, bearing=bearing)
        if self._alternates:  # their memory is needed for the next ones
            self.slots.stop()

    def _warm_ups_s(self, workloads: int) -> list[float]:
        """Return how long each of a start's workloads warms up: in turns all of it, else a share.

        A share is whole seconds, as generators take them.
        """
        if self._alternates:
            seconds = self.plan.warm_up.warm_up_s if self.warmed_s is None else self.warmed_s
            return [seconds] * workloads
        whole = math.ceil(self.plan.warm_up.warm_up_s)
        ends = [number * whole // workloads for number in range(workloads + 1)]
        return [float(end - begin) for begin, end in pairwise(ends)]

    def _bring_up(self, starts: Sequence[PlannedStart], place: Place) -> bool:
        """Start each configuration on the data that the reset asks for.

        Those that take turns stand still then. Return whether they are cold.

        Raises:
            Void: A setting is not in force.
        """
        wanted = [start.configuration for start in starts]
        slots = dict(zip(wanted, self.slots.of(wanted), strict=True))
        data = [slot.bench.data_of(name) for name, slot in slots.items()]
        restore = self._alternates or self.plan.reset is Reset.START
        restore = restore or not self._restored.issuperset(data)
        goes_on = self.plan.mode is Mode.BACK_TO_BACK and not restore
        if goes_on and any(server.slot.bench.is_running() for server in self._up.values()):
            return False
        self._up.clear()
        if self._alternates:
            takes_s = (self.plan.start_s or 0.0) + (self.plan.data_s or 0.0)
            about = f" on fresh data, about {format_duration(takes_s)}" if takes_s else ""
            self.started(block=place.block, label=f"starting {len(starts)} servers{about}")
        failed = []

        def activate(name: str) -> Start:
            try:
                bench = slots[name].bench
                return bench.activate(name, restore=restore, means=self.plan.restore)
            except SteelyardError:
                failed.append(name)
                raise

        with _voided(lambda: failed[0] if len(failed) == 1 else ""):
            servers = self.slots.bring_up(slots, activate)
        self._restored.update(data)
        self._up = {
            name: _Server(slot=slot, at=start.at)
            for (name, slot), start in zip(slots.items(), servers, strict=True)
        }
        for number, (name, start) in enumerate(zip(slots, servers, strict=True)):
            self._require(name, start.deviations)
            self._tell(replace(place, start=place.start + number), name)
        for name, slot in slots.items() if self._alternates else ():
            slot.bench.platform(name).standstill.pause()
        return True

    def _require(self, configuration: str, deviations: tuple[str, ...]) -> None:
        finding = not_in_force(configuration, deviations)
        if finding is not None:
            raise Void(finding.message, finding, under=configuration)

    def _tell(self, place: Place, configuration: str) -> None:
        """Tell what the place of a server is that was made for this start."""
        target = self.experiment.configuration(configuration).target
        if self.plan.restore == campaign.ANEW and target.home is not None:
            made = campaign.ServerMade(
                block=place.block,
                attempt=place.attempt,
                start=place.start,
                configuration=configuration,
                facts=self._up[configuration].slot.bench.platform(configuration).facts(),
            )
            self.made(made)

    def _switch(self, place: Place, planned: Sequence[PlannedRun]) -> None:
        """Bring the configuration of a run into force on the server that is up.

        Raises:
            Void: A setting is not in force.
        """
        for run in planned:
            name = run.configuration
            if name in self._up:
                continue
            (server,) = self._up.values()
            self._up = {name: server}
            with _voided(name):
                deviations = server.slot.bench.switch(name)
            self._require(name, deviations)
            warm_up_s = self.plan.warm_up.warm_up_s
            settling_s = campaign.settling_s(self.experiment.system, warm_up_s)
            if settling_s:
                self._load([run], float(settling_s), self._coin(place, _WARMING))

    def _warm_up(self, place: Place, planned: Sequence[PlannedRun], seconds: float) -> float:
        """Put a workload on every server; return the seconds that its first cell owes.

        The load is the largest, whatever runs afterwards: how warm a server is must not depend on
        the order of the runs. Where a cell in turns has that load, its own generators do it.

        Raises:
            Void: A generator failed.
        """
        if not seconds:
            return 0.0
        cell, bench = planned[0].cell, self._up[planned[0].configuration].slot.bench
        if self._alternates and cell.load == bench.warming_load:
            return seconds
        in_turns = " in turns" if self._alternates else ""
        label = f"{cell.workload}, {format_duration(seconds)}, warming up{in_turns}"
        self.started(block=place.block, label=label)
        self._load(planned, seconds, self._coin(place, _WARMING))
        return 0.0

    def _load(
        self, planned: Sequence[PlannedRun], seconds: float, coin: np.random.Generator
    ) -> None:
        """Put the largest load on servers for some seconds, and throw the result away.

        Raises:
            Void: A generator failed.
        """
        seats = self._seats(planned, warming=True)
        with _voided(partial(_culprit, seats)):
            try:
                self._runs(planned[0].cell.workload).warm_up(seats, seconds, coin)
            except MeasurementError as error:
                dead = [seat for seat in seats if not seat.slot.bench.is_running()]
                words = [seat.slot.bench.last_words(seat.planned.configuration) for seat in dead]
                finding = generator_failed(
                    f"the generator failed in the warm-up: {error.message}",
                    server_died=bool(dead),
                    last_words=" ".join(words),
                )
                raise Void(finding.message, finding, under=_culprit(seats)) from error

    def _cell(
        self, planned: Sequence[PlannedRun], place: Place, owed_s: float, *, bearing: bool
    ) -> Iterator[Run]:
        """Yield the run of each server in one cell.

        Raises:
            TargetError: A server is gone.
            Void: A run does not count.
        """
        cell = planned[0].cell
        whose = "in turns" if self._alternates else planned[0].configuration
        self.started(block=place.block, label=f"{cell.workload}, {cell.load.label}, {whose}")
        seats, measure = self._seats(planned), self.experiment.measure
        places = [replace(place, start=place.start + number) for number in range(len(seats))]
        orders = [
            log_order(measure.log, name=Path(one.raw_name).stem, store=self.raw) for one in places
        ]
        plan = self.plan
        lasting = shortened(self.experiment, plan.mode, self._counted_s, plan.turns)
        work = Work(
            seconds=lasting.run_time_s(cell.workload),
            warm_up_s=owed_s,
            ramp_s=measure.discard_start_s,
        )
        coin, taker = self._coin(place, _TAKING), self._runs(cell.workload)
        if taker.order is not None:
            coin = self._coin(replace(place, position=self._occurrence(place, cell)), _ORDERING)
        with _voided(partial(_culprit, seats)):
            taken = taker.take(seats, orders, work, coin, bearing=bearing)
        runs = [
            run_of(run, at, done, self._up[run.configuration].at, self.raw)
            for run, at, done in zip(planned, places, taken, strict=True)
        ]
        yield from runs
        self._require_valid(runs, seats)

    @staticmethod
    def _require_valid(runs: Sequence[Run], seats: Sequence[Seat]) -> None:
        """Raise Void when one does not count, under the one whose own trouble it is."""
        invalid = [run for run in runs if run.validity is Validity.INVALID]
        under = _culprit(seats)
        if not under and len(invalid) < len(runs):  # what all lack is nobody's
            under = next((run.configuration for run in invalid), "")
        for run in sorted(invalid, key=lambda run: run.configuration != under)[:1]:
            grave = [finding for finding in run.findings if finding.severity is Severity.ERROR]
            # A neighbour's redo is limited; where something else is wrong too, that counts.
            grave.sort(key=lambda finding: finding.code in ENVIRONMENT)
            raise Void("; ".join(finding.message for finding in grave), *grave, under=under)

    def _seats(self, planned: Sequence[PlannedRun], *, warming: bool = False) -> list[Seat]:
        """Return the seat of each."""
        slots = [self._up[run.configuration].slot for run in planned]
        return [
            seat_of(slot, run, self.engine, self.clock, warming=warming)
            for slot, run in zip(slots, planned, strict=True)
        ]

    def _runs(self, workload: str) -> RunTaker:
        order = campaign.order_of(self.plan, workload)
        in_turns = self._alternates and order is None
        times = campaign.turn_times(self.plan, workload) if in_turns else None
        return RunTaker(engine=self.engine, clock=self.clock, times=times, order=order)

    def _occurrence(self, place: Place, cell: CellKey) -> int:
        """Return a number of a run's cell and round, the same for all configurations."""
        cells = cells_of(self.experiment)
        back_to_back = self.plan.mode is Mode.BACK_TO_BACK
        arms = len(self.experiment.configurations) if back_to_back else 1
        return place.position // (arms * len(cells)) * len(cells) + cells.index(cell)

    def _coin(self, place: Place, part: int) -> np.random.Generator:
        """Return what draws the orders of a part of a cell in this try of the block."""
        further = (place.sub_block,) if place.sub_block else ()
        drawn_for = (place.attempt, place.position, part, *further)
        return block_coin(self.experiment.seed, place.block, *drawn_for)


def _culprit(seats: Sequence[Seat]) -> str:
    """Return the configuration whose generators failed or whose server died.

    One alone is it in any case. Empty: it is nobody's.
    """
    for seat in seats:
        if seat.failure or len(seats) == 1 or not seat.slot.bench.is_running():
            return seat.planned.configuration
    return ""


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


# Before each try of one block: a restart takes seconds, and an outage may take longer. A guess;
# without pauses all tries would meet the same moment.
_PAUSES_S: Final = (0.0, 2.0, 20.0)
MAX_TRIES: Final = len(_PAUSES_S)  # what fails three times in a row does not come from a neighbour
# Of the budget, a guess: on a machine that is never quiet it would else go into blocks that are
# thrown away.
REDONE_SHARE: Final = 0.1


def pause_before_s(tried: int) -> float:
    """Return the pause before a try, after so many tries of the same block."""
    return _PAUSES_S[min(tried, len(_PAUSES_S) - 1)]


def bears_neighbours(
    outcomes: Sequence[campaign.BlockOutcome], index: int, *, block_s: float, budget_s: float
) -> bool:
    """Return whether the next try of a block counts also beside a neighbour.

    It does where losing it, too, would bring redoing beyond its share of the budget, or where the
    block was redone as often as is allowed. A try is expected to take as long as the longest so
    far, and the pause before the next one is lost with it.

    Args:
        outcomes: Of all tries of the campaign so far.
        index: Of the block.
        block_s: Seconds of a block, as foreseen.
        budget_s: Of the campaign.
    """
    expected_s = max([block_s, *(outcome.lasted_s or 0.0 for outcome in outcomes)])
    lost = [outcome for outcome in outcomes if outcome.cause in ENVIRONMENT]
    own = sum(outcome.index == index for outcome in lost)
    lost_s = expected_s + pause_before_s(own + 1)
    for outcome in lost:
        lasted_s = expected_s if outcome.lasted_s is None else outcome.lasted_s
        lost_s += lasted_s + pause_before_s(outcome.attempt + 1)
    return lost_s > REDONE_SHARE * budget_s or own >= MAX_TRIES - 1


@dataclass(slots=True, kw_only=True)
class BlockCompleter:
    """Lets a taker try blocks until they count; ``told`` hears how each try ended."""

    taker: BlockTaker
    directory: CampaignDirectory
    told: Callable[[campaign.BlockOutcome], None]

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
            record = self._try(block, tried, record)
            tried, outcome = tried + 1, record.blocks[-1]
            self.told(outcome)
            if outcome.complete:
                return replace(record, elapsed_s=self.directory.journal.elapsed_s)
            failed += outcome.cause not in ENVIRONMENT
        void = self.taker.void
        way_out = (void and void.way_out) or "Remove the cause."
        raise MeasurementError(
            f"block {block.index + 1} failed {MAX_TRIES} times: {void}",
            hint=f"{way_out} Then go on with: steelyard run --resume {quoted(self.directory.path)}",
        )

    def _try(
        self, block: PlannedBlock, attempt: int, record: campaign.CampaignRecord
    ) -> campaign.CampaignRecord:
        """Take a block once; return the record with its runs and with how it ended."""
        begun_s = self.directory.journal.elapsed_s
        self.directory.journal.append(BlockStarted(index=block.index, attempt=attempt))
        # What a single pass has is kept, and redoing the rest costs no more than a start.
        single = record.experiment.is_single_pass
        kept = record.pass_runs if single else ()
        bearing = bears_neighbours(
            record.blocks,
            block.index,
            block_s=0.0 if record.plan is None else record.plan.block_time_s(block.index),
            budget_s=math.inf if single else record.experiment.stop.budget_s,
        )
        places = {run.place for run in kept}
        for run in self.taker.take(block, attempt, places, bearing=bearing):
            self.directory.journal.append(RunFinished(run=run))
            record = replace(record, runs=(*record.runs, run))
        void = self.taker.void
        outcome = campaign.BlockOutcome(
            index=block.index,
            attempt=attempt,
            complete=void is None,
            reason="" if void is None else str(void),
            configuration="" if void is None else void.under,
            cause="" if void is None else void.code,
            warm_up_s=self.taker.warmed_s,
            lasted_s=round(self.directory.journal.elapsed_s - begun_s, 3),
        )
        self.directory.journal.append(BlockEnded(outcome=outcome))
        return replace(record, blocks=(*record.blocks, outcome))
