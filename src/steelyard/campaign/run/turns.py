"""Runs that are taken in turns: servers that are up together carry the load one after another.

Invariant: from its first pause on a server runs only in its own turns, with whatever is done for it
alone; whatever ends a cell, no generator of it goes on.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np

from steelyard.campaign.design.schedule import CONNECT_S
from steelyard.campaign.evidence.run_log import LogOrder
from steelyard.campaign.evidence.run_rules import judge
from steelyard.campaign.evidence.watch import Watch, WatchedPlace, watches
from steelyard.campaign.run.bench import Bench
from steelyard.campaign.run.taking import (
    CountedTurns,
    Taken,
    Taker,
    TurnCounting,
    TurnsTaken,
    counting,
    printed,
)
from steelyard.core.measurement import CheckpointAge
from steelyard.core.outside import Completed
from steelyard.core.schedule import PlannedRun, Stretch, TurnTimes
from steelyard.core.wording import MeasurementError, TargetError
from steelyard.gateways.host import Clock
from steelyard.gateways.process import Together
from steelyard.places.protocol import Platform
from steelyard.systems.protocol import Engine, RunRequest

_LONGEST_S: Final = 24 * 3600  # generators end by a signal
_LOST_SHARE: Final = 0.5  # of the rounds, beyond which a cell is thrown away: a guess


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A place for one of several servers that are up together.

    Attributes:
        platforms: Of the configurations that it can take, by name.
        is_shared: Its server has sessions of other slots: what that counts is not of one of them.
    """

    bench: Bench
    platforms: Mapping[str, Platform]
    is_shared: bool = False


@dataclass(slots=True, kw_only=True)
class Seat:
    """One server with its generators in one cell.

    Attributes:
        stretches: When the generators ran, in order.
        turns: Round and place of those that are turns, by number of the stretch.
        counting: What counts its turns; None: nothing of it counts.
        watch: What watches it; without one it runs unwatched.
        failure: Why its own generators gave no result.
    """

    slot: Slot
    planned: PlannedRun
    request: RunRequest
    engine: Engine
    clock: Clock
    stretches: list[Stretch] = field(default_factory=list)
    turns: dict[int, tuple[int, int]] = field(default_factory=dict)
    completed: list[Completed] = field(default_factory=list)
    counting: TurnCounting | None = None
    watch: Watch = field(init=False)
    connected_at: float = 0.0  # of the generators that ended last, all of their clients
    failure: str = ""
    _stands: bool = False
    _begun_at: float = 0.0
    _generators: Together | None = None

    def __post_init__(self) -> None:
        self.watch = Watch(clock=self.clock)

    def generator_pids(self) -> tuple[int, ...]:
        """Return the processes of its generators, as long as they are there."""
        return () if self._generators is None else self._generators.pids

    @property
    def platform(self) -> Platform:
        """Return where its server runs."""
        return self.slot.platforms[self.planned.configuration]

    def connect(self, seconds: float) -> None:
        """Start new generators, let them run, and let everything stand still."""
        self.watch.resume()
        self.proceed()
        began_at = self._begun_at = self.clock.now()
        commands = self.engine.run_commands(self.request)
        self._generators = self.platform.begin_together(commands, timeout_s=_LONGEST_S)
        self.clock.sleep(seconds)
        self.pause()
        self.stretches.append(Stretch(began_at=began_at, ended_at=self.clock.now()))
        self.watch.halt()

    def run(self, seconds: float) -> bool:
        """Let it run for a turn of which nothing counts; return whether it stood still in time."""
        self.watch.resume()
        began_at = self.clock.now()
        self.proceed()
        self.clock.sleep(seconds)
        in_time = self.pause()
        self.stretches.append(Stretch(began_at=began_at, ended_at=self.clock.now()))
        self.watch.halt()
        return in_time

    def take(self, times: TurnTimes, round_number: int, place: int) -> bool:
        """Take a turn; return whether it can be counted and stood still in time."""
        self.watch.resume()
        began_at = self.clock.now()
        self.proceed()
        self.watch.begin_turn(times)
        assert self.counting is not None  # noqa: S101 - turns are taken to be counted
        counted = self.counting.attend(times, self.watch.settle_turn)
        self.watch.end_turn()
        in_time = self.pause()
        self.turns[len(self.stretches)] = (round_number, place)
        self.stretches.append(
            Stretch(began_at=began_at, ended_at=self.clock.now(), counted=counted)
        )
        self.watch.halt()
        return in_time and counted is not None

    def disconnect(self) -> None:
        """Let the generators end as if their time were over, and let everything stand still.

        What they printed is kept.

        Raises:
            MeasurementError: One does not end.
        """
        if self._generators is None:
            return
        self.watch.look()
        self.watch.resume()
        began_at = self.clock.now()
        self.proceed()
        ran_on = self._generators.all_run()
        self._generators.signal(self.engine.load.turns_end_signal)
        try:
            completed = self._generators.completed(within_s=self.engine.load.deadline_s(0.0))
        finally:
            self.close()
        self.completed += completed
        if self.counting is not None:
            self.counting.note_end()
        self.watch.settle()
        self.pause()
        self.stretches.append(Stretch(began_at=began_at, ended_at=self.clock.now()))
        self.watch.halt()
        self.connected_at = self._begun_at + self.engine.load.connected_within_s(completed)
        if not ran_on:
            raise MeasurementError("the load generator ended by itself, before its last turn")

    def begin(self, count: Callable[["Seat"], TurnCounting]) -> CheckpointAge:
        """Take the first look at the server while it runs alone; then it stands still.

        ``count`` opens what counts its turns.
        """
        self.proceed()
        self.counting = count(self)
        self.request = self.counting.request
        age = self.slot.bench.checkpoint_age(self.planned.configuration)
        self.watch.begin()
        self.pause()
        return age

    def finish(self) -> None:
        """Take the last look at the server while it runs alone; then it stands still."""
        self.close()
        self.pause()
        self.watch.take_stock()
        self.proceed()
        self.watch.finish()
        self.pause()

    def all_run(self) -> bool:
        """Return whether no generator has ended by itself."""
        return self._generators is None or self._generators.all_run()

    def proceed(self) -> None:
        """Let server and generators run."""
        self._stands = False
        self.platform.standstill.proceed()

    def pause(self) -> bool:
        """Let server and generators stand still; return whether they did in time."""
        self._stands = self.platform.standstill.pause()
        return self._stands

    def stand(self) -> bool:
        """Return whether it stands still, after one more try where it does not."""
        return self._stands or self.pause()

    def close(self) -> None:
        """End what is left of the generators; a second time changes nothing."""
        generators, self._generators = self._generators, None
        if generators is not None:
            try:
                self.proceed()
            finally:
                generators.close()

    def rounds_before(self, at: float) -> set[int]:
        """Return the rounds whose turns began before a time."""
        return {
            turn[0] for number, turn in self.turns.items() if self.stretches[number].began_at < at
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """How long each server of a cell is under load.

    Attributes:
        seconds: Of turns.
        warm_up_s: Before them, with the same generators.
        ramp_s: Thrown away at the beginning of a run in one piece.
    """

    seconds: float
    warm_up_s: float = 0.0
    ramp_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnTaker:
    """Takes the runs of one cell, one per seat, in turns."""

    engine: Engine
    clock: Clock
    times: TurnTimes

    def warm_up(self, seats: Sequence[Seat], seconds: float, coin: np.random.Generator) -> None:
        """Put so many seconds of load on each server, in turns, and throw the result away.

        Raises:
            MeasurementError: A generator failed.
            TargetError: A server is gone.
        """
        with _closing(seats):
            for seat in seats:
                seat.connect(CONNECT_S)
            self._warm(seats, seconds - CONNECT_S, coin)
            self._end(seats)

    def _warm(self, seats: Sequence[Seat], seconds: float, coin: np.random.Generator) -> None:
        """Let each run for about so many seconds in turns of which nothing counts."""
        for _ in range(math.ceil(seconds / self.times.turn_s)):
            for side in coin.permutation(len(seats)):
                seats[side].run(self.times.turn_s)
            if not all(seat.all_run() for seat in seats):
                return

    def take(
        self,
        seats: Sequence[Seat],
        orders: Sequence[LogOrder],
        work: Work,
        coin: np.random.Generator,
        *,
        bearing: bool = False,
    ) -> list[Taken]:
        """Return a run of every seat, judged; what failed is in the findings.

        All seats of the block are under the same workload and load; ``coin`` draws the order in
        each round. Where it is ``bearing`` neighbours, a run beside them is suspect, not invalid.

        Raises:
            TargetError: A server is gone.
        """
        with ExitStack() as stack:
            stack.enter_context(_closing(seats))
            wall, monotonic = self.clock.now(), self.clock.monotonic()
            self._watch(seats)
            ages = [
                seat.begin(partial(self._count, stack, order))
                for seat, order in zip(seats, orders, strict=True)
            ]
            lost, failure = self._rounds(seats, work, coin)
            for seat in seats:
                seat.finish()
            cell = _Cell(
                engine=self.engine,
                wall=wall,
                monotonic=monotonic,
                jump_s=(self.clock.now() - wall) - (self.clock.monotonic() - monotonic),
                lost=frozenset(lost),
                failure=failure,
                origin_at=_first_turn_at(seats),
            )
            return [
                cell.taken(seat, age, bearing=bearing)
                for seat, age in zip(seats, ages, strict=True)
            ]

    def _count(self, stack: ExitStack, order: LogOrder, seat: Seat) -> TurnCounting:
        """Open what counts the turns of a seat, until the stack is closed."""
        directory = seat.slot.bench.log_directory(seat.planned.configuration)
        own = counting(self.engine, seat.request, directory, order, self.clock)
        return stack.enter_context(own)

    def _rounds(
        self, seats: Sequence[Seat], work: Work, coin: np.random.Generator
    ) -> tuple[set[int], str]:
        """Take all turns; return the rounds that are lost, and why a generator failed."""
        lost: set[int] = set()
        rounds = self.times.turns_in(work.seconds)
        try:
            for batch, batch_rounds in enumerate(self.times.sets(rounds)):
                for seat in seats:
                    seat.connect(CONNECT_S)
                if batch == 0:
                    self._warm(seats, work.warm_up_s - CONNECT_S, coin)
                    for seat in seats:
                        seat.watch.warm()
                lost |= self._batch(seats, batch_rounds, coin)
                self._end(seats)
                lost |= _unconnected(seats) & set(batch_rounds)
        except MeasurementError as error:
            own = next((seat.planned.configuration for seat in seats if seat.failure), None)
            under = f"in the turns with `{own}`: " if own else ""
            return lost, f"{under}{error.message}"
        if len(lost) > _LOST_SHARE * rounds:
            return lost, f"{len(lost)} of {rounds} rounds are lost: what was paused went on running"
        return lost, ""

    def _batch(self, seats: Sequence[Seat], rounds: range, coin: np.random.Generator) -> set[int]:
        """Take the turns of some rounds with the same generators; return those that are lost."""
        lost = set()
        for number in rounds:
            order = enumerate(coin.permutation(len(seats)))
            stood_before = [seat.stand() for seat in seats]
            stood = [seats[side].take(self.times, number, place) for place, side in order]
            if not all((*stood_before, *stood)):
                lost.add(number)
            if not all(seat.all_run() for seat in seats):
                break
        return lost

    def _end(self, seats: Sequence[Seat]) -> None:
        """End the generators of each while it runs alone.

        Raises:
            MeasurementError: Those of one failed, which knows why.
        """
        for seat in seats:
            try:
                seat.disconnect()
            except MeasurementError as error:
                seat.failure = error.message
                raise

    def _watch(self, seats: Sequence[Seat]) -> None:
        """Let each be watched, and none take the others for neighbours."""
        places = [
            WatchedPlace(
                place=seat.slot.bench.place(seat.planned),
                generators=seat.generator_pids,
                is_shared=seat.slot.is_shared,
            )
            for seat in seats
        ]
        host = seats[0].slot.bench.host
        for seat, watch in zip(seats, watches(places, host, self.clock, ramp_s=None), strict=True):
            seat.watch = watch


def _unconnected(seats: Sequence[Seat]) -> set[int]:
    """Return the rounds in which clients of any seat still connected; they are lost for all."""
    return {number for seat in seats for number in seat.rounds_before(seat.connected_at)}


class _closing:  # noqa: N801 - used like a function
    """Whatever ends the work, no generator of these seats goes on."""

    def __init__(self, seats: Sequence[Seat]) -> None:
        self._seats = seats

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            with ExitStack() as stack:  # each, whatever comes of the others
                for seat in self._seats:
                    stack.callback(seat.close)
                    stack.callback(seat.watch.close)
        except TargetError:
            if kind is None:  # else what ends the work counts more, above all Ctrl-C
                raise


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """What all runs of one cell of a block share."""

    engine: Engine
    wall: float
    monotonic: float
    jump_s: float
    lost: frozenset[int]
    failure: str
    origin_at: float

    def taken(self, seat: Seat, age: CheckpointAge, *, bearing: bool) -> Taken:
        """Return what one seat's run gave."""
        failure, found = seat.failure or self.failure, None
        if not failure:
            try:
                found = self._found(seat)
            except MeasurementError as error:
                failure = error.message
        measurement = None if found is None else found.measurement
        bench = seat.slot.bench
        died = not bench.is_running()
        taker = Taker(engine=self.engine, bench=bench, clock=seat.clock)
        facts = replace(
            taker.asked(seat.planned),
            measurement=measurement,
            evidence=seat.watch.evidence(),
            clock_jump_s=self.jump_s,
            failure=failure,
            log_trouble=None if found is None else found.log_trouble,
            skipped=None if measurement is None else measurement.skipped,
            server_died=died,
            last_words=bench.last_words(seat.planned.configuration) if died else "",
            in_turns=True,
        )
        return Taken(
            wall=self.wall,
            monotonic=self.monotonic,
            measurement=measurement,
            findings=judge(facts, bearing=bearing),
            output=printed(seat.completed),
            checkpoint=age,
            evidence=seat.watch.evidence(),
            latency=None if found is None else found.latency,
            turns=() if found is None else found.turns,
        )

    def _found(self, seat: Seat) -> CountedTurns:
        """Return what one seat's turns gave."""
        assert seat.counting is not None  # noqa: S101 - since its beginning
        taken = TurnsTaken(
            stretches=seat.stretches,
            turns=seat.turns,
            lost=self.lost,
            origin_at=self.origin_at,
            completed=seat.completed,
        )
        return seat.counting.result(taken)


def _first_turn_at(seats: Sequence[Seat]) -> float:
    return min(
        (seat.stretches[number].began_at for seat in seats for number in seat.turns), default=0.0
    )


def seat_of(
    slot: Slot, planned: PlannedRun, engine: Engine, clock: Clock, *, warming: bool = False
) -> Seat:
    """Return the seat of a configuration in a cell; its server is up.

    Where it is ``warming`` up nothing of it counts, and its load is the one that warms up.

    Raises:
        TargetError: The server is gone.
    """
    if warming:
        cell = replace(planned.cell, load=slot.bench.warming_load)
        planned = replace(planned, cell=cell)
    standstill = slot.platforms[planned.configuration].standstill
    standstill.proceed()
    request = slot.bench.request(planned, seconds=_LONGEST_S)
    standstill.pause()
    return Seat(
        slot=slot,
        planned=planned,
        request=replace(request, in_turns=standstill.kind),
        engine=engine,
        clock=clock,
    )
