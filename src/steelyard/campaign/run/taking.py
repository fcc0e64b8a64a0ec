"""Takes the runs of one cell: from planned runs to measurements with their findings.

In turns servers that are up together carry the load one after another, and their generators end by
a signal. In one piece a server is alone, nothing stands still, and its generators end by themselves
after their time. Scripts in a given order are run in one piece, too: servers that are up together
have a run each, one after another while the others stand still, and configurations that one session
can have have one run together, on the server of the first of them.

Invariant: from its first pause on a server in turns runs only in its own turns, with whatever is
done for it alone; whatever ends a cell, no generator of it goes on.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np

from steelyard.campaign.design.schedule import CONNECT_S, tail_s
from steelyard.campaign.evidence.run_log import UNRECORDED, LogOrder, RunLog
from steelyard.campaign.evidence.run_rules import RunFacts, judge, validity_of
from steelyard.campaign.evidence.watch import Watch, WatchedPlace, watches
from steelyard.campaign.run.bench import Bench
from steelyard.campaign.run.counting import ByCounter, ByLog, ByPrint, Counted, Counting, Ran
from steelyard.campaign.run.in_order import (
    ByExecution,
    of_all_sides,
    order_of_trial,
    passes_of,
    patience_s,
    steps_of,
    trial_steps,
)
from steelyard.core.campaign import ScriptsInOrder, Sessions
from steelyard.core.experiment import Layer
from steelyard.core.findings import Finding, Validity
from steelyard.core.measurement import (
    Absence,
    CheckpointAge,
    Evidence,
    Measurement,
    RunLatency,
)
from steelyard.core.outside import Command, Completed
from steelyard.core.schedule import PlannedRun, Stretch, Turn, TurnTimes
from steelyard.core.wording import MeasurementError, TargetError, redacted
from steelyard.gateways.host import Clock, looks
from steelyard.gateways.process import Together
from steelyard.places.protocol import Platform, Standstill
from steelyard.systems.protocol import Engine, RunRequest

_LONGEST_S: Final = 24 * 3600  # generators in turns end by a signal
_TRIAL_S: Final = 600  # for which a script is waited for that nobody has timed yet; a guess
_LOST_SHARE: Final = 0.5  # of the rounds, beyond which a cell is thrown away: a guess
# A guess: Redis takes milliseconds from its last word to its end.
_DYING_S: Final = 0.5
_DYING_LOOK_S: Final = 0.02


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

    @property
    def valid(self) -> Measurement | None:
        """Return the measurement, unless it does not count."""
        return None if validity_of(self.findings) is Validity.INVALID else self.measurement

    @property
    def trouble(self) -> str:
        """Return all findings in one line."""
        return "; ".join(finding.message for finding in self.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A place for one of several servers that are up together, or for one at a time.

    Attributes:
        is_shared: Its server has sessions of other slots: what that counts is not of one of them.
    """

    bench: Bench
    is_shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """How long each server of a cell is under load.

    Attributes:
        seconds: That count, or of turns.
        warm_up_s: Before turns, with the same generators.
        ramp_s: Thrown away at the beginning of a run in one piece.
    """

    seconds: float
    warm_up_s: float = 0.0
    ramp_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class Seat:
    """One server with its generators in one cell.

    Attributes:
        ran: What they did.
        request: What its generators are asked for, since it began.
        counting: What counts it; None: nothing of it counts.
        watch: What watches it; without one it runs unwatched.
        age: Where its server stood in its checkpoint cycle at the beginning.
        connected_at: Of the generators that ended last, when all of their clients were.
        failure: Why its own generators gave no result.
        elsewhere_s: CPU time of its generators that were no children of ours.
        levels: How workers began it, by ``Quantity``; empty without workers.
    """

    slot: Slot
    planned: PlannedRun
    engine: Engine
    clock: Clock
    ran: Ran = field(default_factory=Ran)
    counting: Counting | None = None
    request: RunRequest = field(init=False)
    watch: Watch = field(init=False)
    age: CheckpointAge = field(default_factory=lambda: CheckpointAge(seconds=None))
    connected_at: float = 0.0
    failure: str = ""
    elsewhere_s: float = 0.0
    levels: dict[str, float] = field(default_factory=dict)
    _standstill: Standstill | None = None  # None: it runs in one piece
    _stands: bool = False
    _counts: tuple[float, float] | None = None  # from when to when, of the turn that it has
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
        return self.slot.bench.platform(self.planned.configuration)

    def begin(
        self,
        seconds: int | None,
        count: Callable[["Seat"], Counting] | None = None,
        *,
        is_alone: bool = True,
    ) -> None:
        """Take the first look at the server while it runs alone; then it stands still.

        Args:
            seconds: For which its generators are asked; None: they are taken in turns.
            count: Opens what counts the run; without it nothing of it counts.
            is_alone: No other server is up, for which it would have to stand still.

        Raises:
            MeasurementError: It cannot be counted, or is too slow to be measured in that time.
            TargetError: The server is gone.
        """
        bench, name = self.slot.bench, self.planned.configuration
        in_turns = seconds is None
        self._standstill = self.platform.standstill if in_turns or not is_alone else None
        self.proceed()
        request = bench.request(self.planned, seconds=_LONGEST_S if seconds is None else seconds)
        if in_turns and self._standstill is not None:
            request = replace(request, in_turns=self._standstill.kind)
        self.request = request
        if count is not None:
            self.counting = count(self)
            self.request = self.counting.request
            self.age = bench.checkpoint_age(name)
        while seconds is not None and (commands := self.engine.pilot(self.request)):
            self.engine.learn(self.request, self._run_through(commands))
        if count is not None:
            self.watch.begin()
        self.pause()

    def run_through(self) -> None:
        """Start generators and let them run to their own end; what they printed is kept.

        Raises:
            MeasurementError: One did not end in time.
            TargetError: The server is gone.
        """
        with self._going_on():
            self.watch.begin_turn(None)
            if self.counting is not None:
                self.counting.begin(self.clock.now())
            try:
                self.ran.completed += self._run_through(self.engine.run_commands(self.request))
            finally:
                self.watch.end_turn()
            if not all(completed.succeeded for completed in self.ran.completed):
                self._let_die()
            self.watch.settle()

    def connect(self, seconds: float) -> None:
        """Start new generators, let them run, and let everything stand still."""
        with self._going_on():
            self._begun_at = self.clock.now()
            commands = self.engine.run_commands(self.request)
            self._generators = self.platform.begin_together(commands, timeout_s=_LONGEST_S)
            self.clock.sleep(seconds)

    def run(self, seconds: float) -> None:
        """Let it run for a turn of which nothing counts."""
        with self._going_on():
            self.clock.sleep(seconds)

    def take(self, times: TurnTimes, round_number: int, place: int) -> bool:
        """Take a turn; return whether it can be counted and stood still in time."""
        assert self.counting is not None  # noqa: S101 - turns are taken to be counted
        with self._going_on():
            self.watch.begin_turn(times)
            self._counts = self.counting.attend(times, self.watch.settle_turn)
            self.watch.end_turn()
        self.ran.turns[len(self.ran.stretches) - 1] = (round_number, place)
        return self._stands and self.ran.stretches[-1].counted is not None

    def disconnect(self) -> None:
        """Let the generators end as if their time were over, and let everything stand still.

        What they printed is kept.

        Raises:
            MeasurementError: One does not end, or ended by itself before.
        """
        if self._generators is None:
            return
        load = self.engine.load
        self.watch.look()
        with self._going_on():
            ran_on = self._generators.all_run()
            self._generators.signal(load.turns_end_signal)
            try:
                completed = self._generators.completed(within_s=load.deadline_s(0.0))
            finally:
                self.close()
            self.ran.completed += completed
            if not ran_on:
                self._let_die()
            elif self.counting is not None:
                self.counting.note_end()
            self.watch.settle()
        self.connected_at = self._begun_at + load.connected_within_s(completed)
        if not ran_on:
            raise MeasurementError("the load generator ended by itself, before its last turn")

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
        if self._standstill is not None:
            self._standstill.proceed()

    def pause(self) -> bool:
        """Let server and generators stand still, in turns; return whether they did in time."""
        self._stands = self._standstill is None or self._standstill.pause()
        return self._stands

    def stand(self) -> bool:
        """Return whether it stands still, after one more try where it does not."""
        return self._stands or self.pause()

    def close(self) -> None:
        """End what is left of the generators; a second time changes nothing."""
        generators, self._generators = self._generators, None
        if generators is not None:
            self._note(generators)
            try:
                self.proceed()
            finally:
                generators.close()

    def _note(self, generators: Together) -> None:
        """Add CPU time and levels of generators on workers."""
        self.elsewhere_s += generators.cpu_s
        for name, level in generators.levels().items():
            self.levels[name] = max(level, self.levels.get(name, 0.0))

    @property
    def unconnected(self) -> set[int]:
        """Return the rounds of its turns that began while clients still connected."""
        ran = self.ran
        early = (n for n in ran.turns if ran.stretches[n].began_at < self.connected_at)
        return {ran.turns[number][0] for number in early}

    @contextmanager
    def _going_on(self) -> Iterator[None]:
        """Let it run meanwhile, and stand still afterwards."""
        if self._standstill is not None:
            self._standstill.announce()
        self.watch.resume()
        began_at = self.clock.now()
        self.proceed()
        try:
            yield
        except MeasurementError:
            self.watch.halt()
            raise
        self.pause()
        counted, self._counts = self._counts, None
        stretch = Stretch(began_at=began_at, ended_at=self.clock.now(), counted=counted)
        self.ran.stretches.append(stretch)
        self.watch.halt()

    def _run_through(self, commands: Sequence[Command]) -> tuple[Completed, ...]:
        """Run generators to their own end and return what they printed."""
        timeout_s = self.engine.load.deadline_s(self.request.seconds)
        with self.platform.begin_together(commands, timeout_s=timeout_s) as running:
            self._generators = running
            try:
                return running.completed()
            finally:
                self._generators = None
                self._note(running)

    def _let_die(self) -> None:
        """Wait a moment for the end of a server that let its clients down.

        It closes their connections before it ends, and must not seem to run in between.
        """
        for _ in looks(self.clock, _DYING_S, _DYING_LOOK_S):
            if not self.slot.bench.is_running():
                return


def seat_of(
    slot: Slot, planned: PlannedRun, engine: Engine, clock: Clock, *, warming: bool = False
) -> Seat:
    """Return the seat of a configuration in a cell.

    Where it is ``warming`` up nothing of it counts, and its load is the one that warms up: how warm
    a server is must not depend on what runs afterwards.
    """
    if warming:
        cell = replace(planned.cell, load=slot.bench.warming_load)
        planned = replace(planned, cell=cell)
    return Seat(slot=slot, planned=planned, engine=engine, clock=clock)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTaker:
    """Takes the runs of one cell, one per seat.

    Attributes:
        times: Of the turns; None: there is one seat, whose run is in one piece, or all have one
            together.
        order: In which scripts run; None: they are drawn.
    """

    engine: Engine
    clock: Clock
    times: TurnTimes | None
    order: ScriptsInOrder | None = None

    def warm_up(self, seats: Sequence[Seat], seconds: float, coin: np.random.Generator) -> None:
        """Put so many seconds of load on each server and throw the result away.

        Raises:
            MeasurementError: A generator failed.
            TargetError: A server is gone.
        """
        is_alone = len(seats) == 1
        seats = seats[:1] if self._is_shared else seats  # it has the sessions of all
        with _closing(seats):
            for seat in seats:
                whole_s = round(seconds) if self.times is None else None
                seat.begin(whole_s, is_alone=is_alone)
            if self.times is None:
                for seat in seats:
                    seat.run_through()
                    _require_success(seat.ran.completed)
                return
            for seat in seats:
                seat.connect(CONNECT_S)
            _warm(seats, seconds - CONNECT_S, self.times, coin)
            _end(seats)

    @property
    def _is_shared(self) -> bool:
        """Return whether one run has the executions of all seats."""
        return self.order is not None and bool(self.order.sessions)

    def take(
        self,
        seats: Sequence[Seat],
        orders: Sequence[LogOrder | None],
        work: Work,
        coin: np.random.Generator,
        *,
        bearing: bool = False,
    ) -> list[Taken]:
        """Return a run of every seat, judged; what failed is in the findings.

        All seats of the block are under the same workload and load; ``coin`` draws the order in
        each round. What a log tells is kept where there is an order for it. Where it is ``bearing``
        neighbours, a run beside them is suspect, not invalid.

        Raises:
            TargetError: A server is gone.
        """
        with ExitStack() as stack, _closing(seats):
            wall, monotonic = self.clock.now(), self.clock.monotonic()
            lost: set[int] = set()
            failure = ""
            running = seats[:1] if self._is_shared else seats
            seed = 0 if self.order is None else int(coin.integers(2**63))  # the same for all
            self._watch(seats, work)
            try:
                for seat, order in zip(running, orders, strict=False):
                    count = partial(self._count, stack, order, work)
                    if self.order is not None:
                        count = partial(_count_in_order, self.order, work.warm_up_s, seed)
                    seat.begin(self._whole_s(seat, work), count, is_alone=len(seats) == 1)
                wall, monotonic = self.clock.now(), self.clock.monotonic()
                self._run(running, work, coin, lost)
            except MeasurementError as error:
                own = next((seat.planned.configuration for seat in seats if seat.failure), None)
                failure = f"in the turns with `{own}`: " if own else ""
                failure += error.message
            facts = RunFacts(
                clock_jump_s=(self.clock.now() - wall) - (self.clock.monotonic() - monotonic),
                failure=failure,
                asked_s=work.seconds if self.times is None and self.order is None else None,
                in_turns=self.times is not None or len(seats) > 1,
            )
            for seat in seats if self._is_shared else ():
                _share(seats[0], seat)
            rans = [seat.ran for seat in seats]
            began = (ran.stretches[number].began_at for ran in rans for number in ran.turns)
            origin_at = min(began, default=0.0)
            for seat in seats:
                seat.finish()
                seat.ran.lost, seat.ran.origin_at = frozenset(lost), origin_at
            return [self._taken(seat, facts, (wall, monotonic), bearing=bearing) for seat in seats]

    def _whole_s(self, seat: Seat, work: Work) -> int | None:
        """Return the seconds for which generators are asked; None in turns."""
        if self.times is not None:
            return None
        if self.order is not None:
            workload = seat.slot.bench.experiment.workload(seat.planned.cell.workload)
            return patience_s(workload, self.order, work.warm_up_s)
        return round(work.seconds + work.ramp_s + tail_s(seat.planned.cell.load))

    def _run(
        self,
        seats: Sequence[Seat],
        work: Work,
        coin: np.random.Generator,
        lost: set[int],
    ) -> None:
        """Let all servers work; ``lost`` gets the rounds that do not count.

        Raises:
            MeasurementError: A generator failed, or too many rounds are lost.
        """
        if self.times is None:
            for side in coin.permutation(len(seats)):
                seats[side].run_through()
            return
        rounds, early = self.times.turns_in(work.seconds), set[int]()
        for batch in self.times.sets(rounds):
            for seat in seats:
                seat.connect(CONNECT_S)
            if batch.start == 0:
                _warm(seats, work.warm_up_s - CONNECT_S, self.times, coin)
            lost |= _lost(seats, batch, self.times, coin)
            _end(seats)
            # Fewer clients than asked for are another load.
            early.update(*(seat.unconnected & set(batch) for seat in seats))
        went_on = len(lost - early)
        lost |= early
        if len(lost) > _LOST_SHARE * rounds:
            late = went_on < len(early)
            why = "clients had not connected yet" if late else "what was paused went on running"
            raise MeasurementError(f"{len(lost)} of {rounds} rounds are lost: {why}")

    def _count(self, stack: ExitStack, order: LogOrder | None, work: Work, seat: Seat) -> Counting:
        """Open what counts the run of a seat, until the stack is closed.

        Raises:
            MeasurementError: The server does not tell what it counts.
            TargetError: It lets nobody in.
        """
        load, request, in_turns = self.engine.load, seat.request, self.times is not None
        counter = self.engine.turn_counter(request) if in_turns else None
        if counter is not None:
            stack.callback(counter.close)
            return ByCounter(request=request, counter=counter, clock=self.clock)
        by_print = ByPrint(
            request=request,
            engine=self.engine,
            log=None,
            ramp_s=work.ramp_s,
            run_time_s=work.seconds if tail_s(seat.planned.cell.load) else None,
        )
        counts_by_log = in_turns or load.counts_by_log()
        if not counts_by_log and (order is None or not load.logs_transactions()):
            return by_print
        directory = seat.slot.bench.log_directory(seat.planned.configuration)
        log = stack.enter_context(RunLog(directory, order or UNRECORDED))
        request = replace(request, log=log.prefix)
        if in_turns:
            return ByLog(request=request, engine=self.engine, log=log, clock=self.clock)
        return replace(by_print, request=request, log=log)

    def _watch(self, seats: Sequence[Seat], work: Work) -> None:
        """Let each be watched, and none take the others for neighbours."""
        if self._is_shared:
            for seat in seats:
                seat.watch = Watch(clock=self.clock, absent=_OF_ONE_SESSION)
            return
        places = [
            WatchedPlace(
                place=seat.slot.bench.place(seat.planned),
                generators=None if self._has_children(seat) else seat.generator_pids,
                elsewhere_s=partial(getattr, seat, "elsewhere_s"),
                is_shared=seat.slot.is_shared,
            )
            for seat in seats
        ]
        host, ramp_s = (
            seats[0].slot.bench.host,
            work.ramp_s if self.times is None and len(seats) == 1 else None,
        )
        made = watches(places, host, self.clock, ramp_s=ramp_s)
        for seat, watch in zip(seats, made, strict=True):
            seat.watch = watch

    def _has_children(self, seat: Seat) -> bool:
        """Return whether all children that Steelyard gets in a run are its generators."""
        return self.times is None and seat.slot.bench.experiment.workers is None

    def _taken(
        self,
        seat: Seat,
        facts: RunFacts,
        began: tuple[float, float],
        *,
        bearing: bool,
    ) -> Taken:
        """Return what one seat's run gave; ``facts`` are those of all seats."""
        failure = seat.failure or facts.failure
        counted: Counted | None = None
        if not failure:
            assert seat.counting is not None  # noqa: S101 - since its beginning
            try:
                counted = seat.counting.result(seat.ran)
            except MeasurementError as error:
                failure = error.message
        measurement = None if counted is None else counted.measurement
        bench, experiment = seat.slot.bench, seat.slot.bench.experiment
        configuration = experiment.configuration(seat.planned.configuration)
        evidence = seat.watch.evidence()
        if evidence is not None and seat.levels:
            evidence = replace(evidence, levels={**evidence.levels, **seat.levels})
        died = not bench.is_running()  # backends may outlive their postmaster to the end of a run
        facts = replace(
            facts,
            configuration=configuration.name,
            load=bench.load_of(seat.planned.cell),
            asked=configuration.asked_folded(),
            limits=configuration.asked(Layer.CGROUP),
            in_force=bench.in_force,
            neighbours=experiment.measure.max_other_load,
            words=experiment.words,
            takes_time=experiment.system.takes_time,
            measurement=measurement,
            evidence=evidence,
            failure=failure,
            log_trouble=None if counted is None else counted.log_trouble,
            skipped=None if measurement is None else measurement.skipped,
            server_died=died,
            last_words=bench.last_words(configuration.name) if died else "",
        )
        return Taken(
            wall=began[0],
            monotonic=began[1],
            measurement=measurement,
            findings=judge(facts, bearing=bearing),
            output=redacted("".join(c.stdout + c.stderr for c in seat.ran.completed)),
            checkpoint=seat.age,
            evidence=evidence,
            latency=None if counted is None else counted.latency,
            turns=() if counted is None else counted.turns,
        )


_OF_ONE_SESSION: Final = tuple(
    Absence(
        subject=subject,
        reason="One session runs each execution under all configurations, one after the other, so"
        " that what it used is of all of them.",
    )
    for subject in ("server", "the machine")
)


def _count_in_order(order: ScriptsInOrder, warm_up_s: float, seed: int, seat: Seat) -> Counting:
    """Put the files of a seat's clients in place; the order is one of its own for each client."""
    coin = np.random.default_rng(seed)
    bench, request, load = seat.slot.bench, seat.request, seat.engine.load
    texts = request.workload
    if order.sessions:
        texts = of_all_sides(bench.experiment, texts)
    passes = passes_of(request.workload, order, warm_up_s)
    steps = tuple(steps_of(texts, order, coin, passes) for _ in range(request.load.clients))
    files = [load.in_order(texts, [step.execution for step in each]) for each in steps]
    return ByExecution(
        request=bench.in_order(request, files, int(coin.integers(1, 2**31 - 1))),
        engine=seat.engine,
        workload=request.workload,
        texts=texts,
        steps=steps,
        side=_side(seat) if order.sessions else 0,
    )


def _side(seat: Seat) -> int:
    """Return the place of a seat's configuration in the experiment."""
    names = [each.name for each in seat.slot.bench.experiment.configurations]
    return names.index(seat.planned.configuration)


def try_order(
    taker: "BenchTaker",
    planned: PlannedRun,
    executions: float,
    sessions: Sessions,
) -> ScriptsInOrder:
    """Return how the scripts of a workload run in a given order, by a try on the server in force.

    Raises:
        MeasurementError: The generator failed.
        TargetError: The server is gone.
    """
    seat, bench = taker.seat(planned), taker.bench
    load = taker.engine.load
    with _closing([seat]):
        seat.begin(_TRIAL_S)
        workload = texts = seat.request.workload
        if sessions:
            texts = of_all_sides(bench.experiment, workload)
        clients, scripts = seat.request.load.clients, len(workload.scripts)
        steps = [trial_steps(scripts, sessions, _NO_COIN) for _ in range(clients)]
        orders = [[step.execution for step in each] for each in steps]
        files = [load.in_order(texts, each) for each in orders]
        seat.request = bench.in_order(seat.request, files, bench.experiment.seed)
        seat.run_through()
    times = [
        load.execution_times(completed, texts, each)
        for completed, each in zip(seat.ran.completed, orders, strict=True)
    ]
    return order_of_trial(workload, executions, sessions, [*zip(steps, times, strict=True)])


def _share(first: Seat, seat: Seat) -> None:
    """Let a seat count its own executions in the run that the first one had for all."""
    counting = first.counting
    if isinstance(counting, ByExecution) and seat is not first:
        seat.ran, seat.age = first.ran, first.age
        workload = seat.slot.bench.experiment.configuration(seat.planned.configuration).runs(
            counting.workload
        )
        seat.counting = replace(counting, workload=workload, side=_side(seat))


def _warm(
    seats: Sequence[Seat], seconds: float, times: TurnTimes, coin: np.random.Generator
) -> None:
    """Let each run for about so many seconds in turns of which nothing counts."""
    for _ in range(math.ceil(seconds / times.turn_s)):
        for side in coin.permutation(len(seats)):
            seats[side].run(times.turn_s)
        if not all(seat.all_run() for seat in seats):
            break
    for seat in seats:
        seat.watch.warm()


def _lost(
    seats: Sequence[Seat], rounds: range, times: TurnTimes, coin: np.random.Generator
) -> set[int]:
    """Take the turns of some rounds with the same generators; return those that are lost."""
    lost = set()
    for number in rounds:
        order = enumerate(coin.permutation(len(seats)))
        stood_before = [seat.stand() for seat in seats]
        stood = [seats[side].take(times, number, place) for place, side in order]
        if not all((*stood_before, *stood)):
            lost.add(number)
        if not all(seat.all_run() for seat in seats):
            break
    return lost


def _end(seats: Sequence[Seat]) -> None:
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


def _require_success(completed: Sequence[Completed]) -> None:
    """Raise a MeasurementError for generators that failed, with the cause of the first."""
    failed = [one for one in completed if not one.succeeded]
    # One that was ended because of another has a signal as its status, which is negative.
    failed.sort(key=lambda one: one.exit_status, reverse=True)
    if failed:
        raise MeasurementError(failed[0].cause() or f"it exited with {failed[0].exit_status}")


@contextmanager
def _closing(seats: Sequence[Seat]) -> Iterator[None]:
    """Whatever ends the work, no generator of these seats goes on."""

    def close() -> None:
        with ExitStack() as stack:  # each, whatever comes of the others
            for seat in seats:
                stack.callback(seat.close)
                stack.callback(seat.watch.close)

    try:
        yield
    except BaseException:
        with suppress(TargetError):  # what ends the work counts more, above all Ctrl-C
            close()
        raise
    close()


_NO_COIN: Final = np.random.default_rng(0)  # one seat has no order


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchTaker:
    """Takes runs of the one server of a bench, each in one piece."""

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
        """Return a run of ``seconds`` after the ramp, judged; see ``RunTaker``."""
        work = Work(seconds=seconds, ramp_s=ramp_s)
        seats = [self.seat(planned)]
        (taken,) = self._alone.take(seats, [order], work, _NO_COIN, bearing=bearing)
        return taken

    def enter(self, planned: PlannedRun, *, means: str, warm_up_s: float) -> None:
        """Bring a run's configuration into force on restored data, and warm it up.

        Raises:
            MeasurementError: A setting is not in force, or the generator failed in the warm-up.
            TargetError: The server did not start.
        """
        start = self.bench.activate(planned.configuration, restore=True, means=means)
        start.require_in_force(planned.configuration)
        if not round(warm_up_s):
            return
        try:
            self._alone.warm_up([self.seat(planned, warming=True)], warm_up_s, _NO_COIN)
        except MeasurementError as error:
            raise MeasurementError(
                f"the generator failed in the warm-up: {error.message}",
                hint="Look into the server's log in raw/.",
            ) from error

    @property
    def _alone(self) -> RunTaker:
        return RunTaker(engine=self.engine, clock=self.clock, times=None)

    def seat(self, planned: PlannedRun, *, warming: bool = False) -> Seat:
        """Return the seat of a run."""
        slot = Slot(bench=self.bench)
        return seat_of(slot, planned, self.engine, self.clock, warming=warming)
