"""Turns among servers of a formula, and turns that a server's own counter counts."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from fakes.campaigns import Stage, an_experiment
from fakes.clock import FakeClock
from fakes.servers import FakeEngine, World
from fakes.standing import FakeGenerators
from steelyard.campaign.design.schedule import block_coin, cells_of
from steelyard.campaign.evidence.run_log import LogOrder
from steelyard.campaign.run.counting import ByCounter, Ran
from steelyard.campaign.run.taking import RunTaker, Seat, Taken, Work, seat_of
from steelyard.core.experiment import Workload
from steelyard.core.measurement import Measurement
from steelyard.core.outside import ServerAddress
from steelyard.core.schedule import Load, Pausing, PlannedRun, Stretch, TurnTimes
from steelyard.core.wording import Interrupted, MeasurementError
from steelyard.systems.protocol import CountedAt, RunRequest

TIMES = TurnTimes(turn_s=0.25, turn_discard_s=0.1)
WORK = Work(seconds=5.0)
ROUNDS = 20
FIRST_TURN = 2  # number of the pause after it: the first look and connecting come before


@dataclass(kw_only=True)
class Table:
    """Two servers that are up together, each with its seat in one cell."""

    stage: Stage
    times: TurnTimes = TIMES
    warming: bool = False
    seats: list[Seat] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Bring both up and let both stand still."""
        cell = cells_of(self.stage.experiment)[0]
        for slot, configuration in zip(self.stage.slots(2), ("slow", "fast"), strict=True):
            slot.bench.prepare(lambda _: None)
            slot.bench.activate(configuration, restore=True, means="copy")
            slot.bench.platform(configuration).standstill.pause()
            planned = PlannedRun(configuration=configuration, cell=cell)
            seat = seat_of(slot, planned, self.engine, self.stage.clock, warming=self.warming)
            self.seats.append(seat)
        for world in self.worlds:
            world.pauses = 0

    @property
    def engine(self) -> FakeEngine:
        """Return the engine of both."""
        return FakeEngine(self.stage.world)

    @property
    def worlds(self) -> list[World]:
        """Return what is the case in each slot."""
        return [self.stage.world.in_slot(slot) for slot in (1, 2)]

    @property
    def generators(self) -> list[FakeGenerators]:
        """Return all that were ever started."""
        return [each for world in self.worlds for each in world.generators]

    @property
    def taker(self) -> RunTaker:
        """Return what takes the turns."""
        return RunTaker(engine=self.engine, clock=self.stage.clock, times=self.times)

    def take(self, work: Work = WORK, *, seed: int = 7) -> list[Taken]:
        """Take the cell."""
        orders = [LogOrder(name=f"run-{n}", store=self.stage.directory) for n in range(2)]
        return self.taker.take(self.seats, orders, work, block_coin(seed, 0))

    def logs(self) -> list[Path]:
        """Return what lies where the generators log."""
        directories = [
            seat.slot.bench.log_directory(seat.planned.configuration) for seat in self.seats
        ]
        return [path for directory in directories for path in directory.rglob("*")]


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    """Return two servers, the second 1.05 times as fast, without noise."""
    stage = Stage.new(an_experiment(), tmp_path / "campaign")
    stage.world.noise = 0.0
    yield Table(stage=stage)
    stage.directory.close()


def spans(table: Table) -> list[tuple[float, float, int]]:
    """Return when the generators of each seat ran, in the order of time."""
    return sorted(
        (began, ended, place)
        for place, world in enumerate(table.worlds)
        for generators in world.generators
        for began, ended in generators.ran
    )


def rounds_of(taken: Taken) -> list[int]:
    """Return the rounds of which it has a turn that counts."""
    return [turn.round for turn in taken.turns]


def measurement_of(taken: Taken) -> Measurement:
    """Return the measurement, which is there."""
    assert taken.findings == ()
    assert taken.measurement is not None
    return taken.measurement


def told(taken: Taken) -> tuple[str, str]:
    """Return code and message of the only finding of a run without a result."""
    assert taken.measurement is None
    assert taken.turns == ()
    (finding,) = taken.findings
    return finding.code, finding.message


def assert_all_ended(table: Table) -> None:
    """No generator goes on, and nothing of their logs is left."""
    assert table.generators
    assert all(each.closed for each in table.generators)
    assert table.logs() == []


def test_one_carries_the_load_and_the_other_stands_still(table: Table) -> None:
    """While they connect, in every turn and at the end: no two ever run at the same time."""
    table.take(Work(seconds=5.0, warm_up_s=2.0))
    ran = spans(table)
    assert {place for _, _, place in ran} == {0, 1}
    assert all(began >= ended for (_, ended, _), (began, _, _) in pairwise(ran))
    assert_all_ended(table)


def test_each_round_gives_each_a_turn(table: Table) -> None:
    """All rounds, in order; in each one is first and the other second, as the record says."""
    slow, fast = table.take()
    assert rounds_of(slow) == rounds_of(fast) == list(range(ROUNDS))
    for one, other in zip(slow.turns, fast.turns, strict=True):
        assert {one.place, other.place} == {0, 1}
        assert (one.began_s < other.began_s) is (one.place < other.place)
    assert min(slow.turns[0].began_s, fast.turns[0].began_s) == 0.0


def test_the_order_of_each_round_is_drawn(table: Table, tmp_path: Path) -> None:
    """By the coin alone: both orders come, the same coin gives the same and another others."""

    def places(name: str, seed: int) -> list[int]:
        stage = Stage.new(an_experiment(), tmp_path / name)
        taken = Table(stage=stage).take(seed=seed)
        stage.directory.close()
        return [turn.place for turn in taken[0].turns]

    first = places("one", 1)
    assert set(first) == {0, 1}
    assert places("the same", 1) == first
    assert places("another", 2) != first


def test_what_ends_in_a_turn_after_its_settling_counts(table: Table) -> None:
    """The rate is the one of the server; what does not count is told beside it."""
    for taken, world in zip(table.take(), table.worlds, strict=True):
        measured = measurement_of(taken)
        assert measured.seconds == pytest.approx(ROUNDS * 0.15)
        assert measured.tps == pytest.approx(world.rate("reads", 1), rel=0.01)
        assert [turn.seconds for turn in taken.turns] == pytest.approx([0.15] * ROUNDS)
        assert sum(turn.transactions for turn in taken.turns) == measured.transactions
        for turn in taken.turns:
            assert turn.early == pytest.approx(turn.transactions / 2, abs=1)
        done = sum(round((b - a) * each.rate) for each in world.generators for a, b in each.ran)
        assert measured.transactions + measured.uncounted == done
        assert len(measured.series) == ROUNDS
        assert measured.latency_mean_s == pytest.approx(0.001, rel=0.01)


def test_a_longer_settling_counts_less(tmp_path: Path) -> None:
    """Of as many turns."""
    stage = Stage.new(an_experiment(), tmp_path / "campaign")
    table = Table(stage=stage, times=TurnTimes(turn_s=0.5, turn_discard_s=0.3))
    for taken in table.take():
        assert measurement_of(taken).seconds == pytest.approx(10 * 0.2)
    stage.directory.close()


@pytest.mark.parametrize("warm_up_s", [0.0, 2.0, 5.0])
def test_the_same_generators_warm_up_before_their_first_turn(
    table: Table, warm_up_s: float
) -> None:
    """As long as asked, both alike, and nothing of it counts."""
    taken = table.take(Work(seconds=5.0, warm_up_s=warm_up_s))
    first_at = min(s.ran.stretches[number].began_at for s in table.seats for number in s.ran.turns)
    warmed = [
        sum(ended - began for began, ended in each.ran if ended <= first_at)
        for each in table.generators
    ]
    assert warmed[0] == pytest.approx(warmed[1])
    assert max(warm_up_s, 0.25) <= warmed[0] + 1e-6 < max(warm_up_s, 0.25) + TIMES.turn_s
    assert measurement_of(taken[0]).seconds == pytest.approx(ROUNDS * 0.15)


def test_warming_up_alone_takes_turns_and_keeps_nothing(tmp_path: Path) -> None:
    """Under the largest load, whatever the cell is; new generators take the turns that count."""
    stage = Stage.new(an_experiment(loads=3), tmp_path / "campaign")
    table = Table(stage=stage, warming=True)
    table.taker.warm_up(table.seats, 2.0, block_coin(7, 0))
    assert [load.clients for load in stage.world.offered] == [4, 4]
    for each in table.generators:
        assert each.log is None
        assert 2.0 <= each.ran_s < 2.0 + TIMES.turn_s + 0.01
    ran = spans(table)
    assert all(began >= ended for (_, ended, _), (began, _, _) in pairwise(ran))
    assert all(each.closed for each in table.generators)
    stage.directory.close()


@pytest.mark.parametrize("reconnections", [1, 3, 6])
def test_reconnections_share_the_rounds(tmp_path: Path, reconnections: int) -> None:
    """New generators for each share, and all rounds once; what all of them printed is kept."""
    stage = Stage.new(an_experiment(), tmp_path / "campaign")
    times = TurnTimes(turn_s=0.25, turn_discard_s=0.1, reconnects=reconnections)
    table = Table(stage=stage, times=times)
    for place, taken in enumerate(table.take()):
        assert rounds_of(taken) == list(range(ROUNDS))
        assert len(table.worlds[place].generators) == reconnections + 1
        assert taken.output.count('"done"') == reconnections + 1
        assert measurement_of(taken).seconds == pytest.approx(ROUNDS * 0.15)
    assert_all_ended(table)
    stage.directory.close()


def test_rounds_in_which_a_client_still_connects_are_lost_for_all(table: Table) -> None:
    """Fewer clients than asked for are another load; the other one's turns go with them."""
    table.worlds[1].connection_s = 1.5
    slow, fast = table.take()
    assert rounds_of(slow) == rounds_of(fast)
    lost = ROUNDS - len(slow.turns)
    # 1.5 s after its generators began: both connected for 0.25 s, and a round takes 0.5 s.
    assert 2 <= lost <= 3
    assert rounds_of(slow) == list(range(lost, ROUNDS))
    assert measurement_of(slow).seconds == pytest.approx(len(slow.turns) * 0.15)


@pytest.mark.parametrize("place", [0, 1])
def test_a_round_in_which_one_went_on_is_lost_for_all(table: Table, place: int) -> None:
    """Whoever it was; the next one is as any other, because it was stopped before."""
    table.worlds[place].restless = {FIRST_TURN + 5}
    slow, fast = table.take()
    kept = [number for number in range(ROUNDS) if number != 5]
    assert rounds_of(slow) == rounds_of(fast) == kept
    measured = measurement_of(slow)
    assert measured.seconds == pytest.approx(len(kept) * 0.15)
    assert measured.tps == pytest.approx(table.worlds[0].rate("reads", 1), rel=0.01)


def test_a_round_that_begins_while_another_one_goes_on_is_lost_too(table: Table) -> None:
    """It does not stand still at the end of its turn, nor when it is asked again."""
    table.worlds[0].restless = {FIRST_TURN + 5, FIRST_TURN + 6}
    slow, fast = table.take()
    assert rounds_of(slow) == rounds_of(fast) == [n for n in range(ROUNDS) if n not in (5, 6)]


def test_clients_that_connect_for_too_long_are_named(table: Table) -> None:
    """A busy machine forks slowly; nothing that was paused went on."""
    table.worlds[1].connection_s = 0.6 * ROUNDS * 0.5
    found = table.take()
    for taken in found:
        code, message = told(taken)
        assert code == "generator-failed"
        assert message.endswith("rounds are lost: clients had not connected yet")


def test_one_that_still_runs_after_connecting_costs_a_round(table: Table) -> None:
    """Of the first one's turn nobody knows what the other did meanwhile."""
    table.worlds[1].restless = {FIRST_TURN - 1, FIRST_TURN}
    slow, fast = table.take()
    assert rounds_of(slow) == rounds_of(fast) == list(range(1, ROUNDS))


@pytest.mark.parametrize(("lost", "is_enough"), [(10, True), (11, False)])
def test_beyond_half_of_the_rounds_nothing_counts(
    table: Table, lost: int, *, is_enough: bool
) -> None:
    """Who cannot stand still cannot take turns: all of them are thrown away, under nobody."""
    # After each that fails there is one more, before the next round.
    table.worlds[0].restless = {FIRST_TURN + 2 * number for number in range(lost)}
    found = table.take()
    if is_enough:
        assert [len(taken.turns) for taken in found] == [ROUNDS - lost] * 2
    else:
        message = f"{lost} of {ROUNDS} rounds are lost: what was paused went on running"
        assert [told(taken) for taken in found] == [("generator-failed", message)] * 2
        assert not any(seat.failure for seat in table.seats)
    assert_all_ended(table)


def test_a_generator_that_ends_by_itself_ends_the_turns(table: Table) -> None:
    """It is told whose it was; the other has no result either, for its turns were cut short."""
    table.worlds[1].fails_after_s = 1.5
    slow, fast = table.take()
    assert told(fast) == ("generator-failed", "the generator exited with 2")
    assert told(slow) == (
        "generator-failed",
        "in the turns with `fast`: the generator exited with 2",
    )
    assert [seat.failure for seat in table.seats] == ["", "the generator exited with 2"]
    assert max(ended for _, ended, _ in spans(table)) - min(b for b, _, _ in spans(table)) < 5.0
    assert_all_ended(table)


def test_a_server_that_dies_in_its_turn_is_told_as_such(table: Table) -> None:
    """Under its own configuration, with its last words; that of the other is no death."""
    table.worlds[0].dies_after_s = 1.5
    slow, fast = table.take()
    assert told(slow)[0] == "server-died"
    assert "ready" in told(slow)[1]
    assert told(fast)[0] == "generator-failed"
    assert "in the turns with `slow`" in told(fast)[1]
    assert_all_ended(table)


def test_a_generator_that_does_not_end_is_not_waited_for(table: Table) -> None:
    """When it is told to; what has no result is thrown away."""
    table.worlds[0].hangs = True
    begun = table.stage.clock.monotonic()
    slow, _ = table.take()
    assert "did not end within 60 s" in told(slow)[1]
    assert table.stage.clock.monotonic() - begun < 120
    assert_all_ended(table)


def test_a_warm_up_that_fails_is_known_by_its_seat(tmp_path: Path) -> None:
    """It raises, and nothing goes on."""
    stage = Stage.new(an_experiment(), tmp_path / "campaign")
    table = Table(stage=stage, warming=True)
    table.worlds[1].fails_after_s = 1.0
    with pytest.raises(MeasurementError, match="exited with 2"):
        table.taker.warm_up(table.seats, 2.0, block_coin(7, 0))
    assert [bool(seat.failure) for seat in table.seats] == [False, True]
    assert all(each.closed for each in table.generators)
    stage.directory.close()


def test_a_log_that_lacks_transactions_is_no_measurement(table: Table) -> None:
    """It is what counts here, and not only what tells latencies."""
    table.worlds[0].lost_from_logs = 500
    slow, fast = table.take()
    assert "the transaction log holds" in told(slow)[1]
    assert measurement_of(fast)


def test_a_clock_that_is_set_meanwhile_voids_all(table: Table) -> None:
    """Turns are told from each other by the clock of the wall."""
    clock = table.stage.clock
    clock.woken = lambda number: clock.step_wall(3600.0 if number == 30 else 0.0)
    assert [[f.code for f in taken.findings] for taken in table.take()] == [["clock-jump"]] * 2


def stop_at(table: Table, at: int) -> None:
    """Let somebody press Ctrl-C at a wait."""

    def stop(number: int) -> None:
        if number == at:
            raise Interrupted("stopped by SIGINT")

    table.stage.clock.woken = stop


@pytest.mark.parametrize("at", range(1, 60, 4))
def test_an_interruption_at_any_wait_leaves_no_generator(table: Table, at: int) -> None:
    """Ctrl-C while one connects, warms up or has its turn: none goes on, no log is left."""
    stop_at(table, at)
    with pytest.raises(Interrupted):
        table.take(Work(seconds=5.0, warm_up_s=2.0))
    assert_all_ended(table)


def test_what_cannot_go_on_keeps_no_generator_from_being_ended(table: Table) -> None:
    """Both groups are gone: generators are ended all the same, and Ctrl-C stays what it was."""

    def stop(number: int) -> None:
        if number == 20:
            for seat in table.seats:
                seat.platform.standstill.gone = True  # type: ignore[attr-defined]
            raise Interrupted("stopped by SIGINT")

    table.stage.clock.woken = stop
    with pytest.raises(Interrupted):
        table.take()
    assert len(table.generators) == 2
    assert_all_ended(table)


_TIMES = TurnTimes(turn_s=0.25, turn_discard_s=0.1)
_REQUEST = RunRequest(
    workload=Workload(name="w", builtin="get"),
    load=Load(clients=1, threads=1),
    protocol="",
    seconds=1,
    address=ServerAddress(host="/s", port=1),
    in_turns=Pausing.GENERATOR,
)


@dataclass
class Server:
    """Does 1000 transactions a second while it runs; answers after a while, by a clock of its own.

    Attributes:
        answers_after_s: Of each reading, in order; the count is taken half-way.
        ahead_s: Of its clock, by the number of the reading.
    """

    clock: FakeClock
    answers_after_s: list[float] = field(default_factory=list)
    ahead_s: Callable[[int], float] = lambda _: 5000.0
    rate: Callable[[float], float] = lambda at_s: 1000.0 * at_s
    reads: int = 0
    closed: bool = False

    def read(self) -> CountedAt:
        """Return what it has done half-way through its answer."""
        half_s = (self.answers_after_s.pop(0) if self.answers_after_s else 0.0) / 2
        self.clock.sleep(half_s)
        now = self.clock.monotonic()
        counted = CountedAt(at_s=now + self.ahead_s(self.reads), transactions=round(self.rate(now)))
        self.reads += 1
        self.clock.sleep(half_s)
        return counted

    def close(self) -> None:
        """End it."""
        self.closed = True


def counted_turns(
    server: Server, clock: FakeClock, turns: int, lost: frozenset[int] = frozenset()
) -> tuple[ByCounter, Ran, list[bool]]:
    """Take turns with a pause of a second before each; return what counted them."""
    counting = ByCounter(request=_REQUEST, counter=server, clock=clock)
    stretches, good = [], []
    for _ in range(turns):
        clock.sleep(1.0)
        began_at = clock.now()
        counted = counting.attend(_TIMES, lambda: None)
        good.append(counted is not None)
        stretches.append(Stretch(began_at=began_at, ended_at=clock.now(), counted=counted))
    ran = Ran(
        stretches=stretches,
        turns={number: (number, 0) for number in range(turns)},
        lost=lost,
        origin_at=stretches[0].began_at,
    )
    return counting, ran, good


def test_what_ended_after_the_settling_counts() -> None:
    """150 ms of each turn, at the server's rate, in equal halves; nothing of it is a latency."""
    clock = FakeClock()
    counting, ran, good = counted_turns(Server(clock), clock, 3)
    result = counting.result(ran)
    assert all(good)
    assert [turn.transactions for turn in result.turns] == [150, 150, 150]
    assert [turn.early for turn in result.turns] == [75, 75, 75]
    assert [turn.seconds for turn in result.turns] == [pytest.approx(0.15)] * 3
    assert [turn.began_s for turn in result.turns] == pytest.approx([0.0, 1.25, 2.5])
    assert result.measurement.tps == pytest.approx(1000.0)
    assert (result.latency, result.log_trouble) == (None, None)
    assert result.measurement.latency_mean_s is None


def test_answers_that_are_late_are_counted_over_their_own_time() -> None:
    """The server's clock says when it counted: the rate is right, however long an answer took."""
    clock = FakeClock()
    server = Server(clock, answers_after_s=[0.0, 0.004, 0.0, 0.06])
    counting, ran, good = counted_turns(server, clock, 1)
    (turn,) = counting.result(ran).turns
    assert good == [True]
    assert turn.seconds == pytest.approx(0.15 - 0.002 + 0.03)
    assert turn.transactions / turn.seconds == pytest.approx(1000.0, rel=0.01)


def test_halves_are_of_equal_length_wherever_the_middle_reading_fell() -> None:
    """A late reading in the middle does not make the first half look faster."""
    for late_s in (0.0, 0.05, 0.12):
        clock = FakeClock()
        server = Server(clock, answers_after_s=[0.0, 0.0, late_s])
        counting, ran, _ = counted_turns(server, clock, 1)
        (turn,) = counting.result(ran).turns
        assert turn.early == pytest.approx(turn.transactions / 2, abs=1)


def test_a_slow_first_half_is_seen() -> None:
    """Nothing in the first 75 ms that count, all of it in the second."""
    clock = FakeClock()
    begun = clock.monotonic() + 1.0 + 0.1 + 0.075
    server = Server(clock, rate=lambda at_s: 2000.0 * max(at_s - begun, 0.0))
    counting, ran, _ = counted_turns(server, clock, 1)
    (turn,) = counting.result(ran).turns
    assert (turn.early, turn.transactions) == (0, 150)


def test_a_middle_reading_before_the_half_is_gone_on_from() -> None:
    """The first answer was late, so the half lies between the second reading and the third."""
    clock = FakeClock()
    middle = clock.monotonic() + 1.0 + 0.1 + 0.075
    server = Server(
        clock,
        answers_after_s=[0.0, 0.06],
        rate=lambda at_s: 1000.0 * max(at_s - middle, 0.0),
    )
    counting, ran, _ = counted_turns(server, clock, 1)
    (turn,) = counting.result(ran).turns
    assert (turn.early, turn.transactions) == (15, 75)


@pytest.mark.parametrize(("jump_s", "counts"), [(0.0, True), (0.0005, True), (0.05, False)])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_server_whose_clock_was_set_in_a_turn_loses_it(
    jump_s: float, sign: float, *, counts: bool
) -> None:
    """Seconds by that clock would be wrong; slewing is none of that."""
    clock = FakeClock()
    # The first reading is that before the turns; then three of the turn.
    server = Server(clock, ahead_s=lambda number: 7.0 + (sign * jump_s if number == 3 else 0.0))
    _, _, good = counted_turns(server, clock, 1)
    assert good == [counts]


def test_lost_rounds_do_not_count_and_are_no_hole_for_others() -> None:
    """Each round keeps its number and its own readings."""
    clock = FakeClock()
    server = Server(clock, rate=lambda at_s: 1000.0 * at_s**2)
    counting, ran, _ = counted_turns(server, clock, 3, lost=frozenset({1}))
    whole = counting.result(ran)
    assert [turn.round for turn in whole.turns] == [0, 2]
    first, third = (turn.transactions for turn in whole.turns)
    assert third > first
    assert whole.measurement.transactions == first + third


def test_what_was_done_in_all_is_told_once_generators_have_ended() -> None:
    """Evidence is divided by all that the server did, settling and connecting included."""
    clock = FakeClock()
    counting, ran, _ = counted_turns(Server(clock), clock, 2)
    clock.sleep(0.5)
    counting.note_end()
    measurement = counting.result(ran).measurement
    assert measurement.transactions == 300
    assert measurement.uncounted == pytest.approx(2 * 1250 + 500 - 300)


def test_the_settling_is_told_when_it_is_over() -> None:
    """Probes read then, before the counter is read."""
    clock = FakeClock()
    server = Server(clock)
    counting = ByCounter(request=_REQUEST, counter=server, clock=clock)
    begun, heard = clock.monotonic(), []
    counting.attend(_TIMES, lambda: heard.append((clock.monotonic() - begun, server.reads)))
    assert heard == [(pytest.approx(0.1), 1)]
    assert clock.monotonic() - begun == pytest.approx(0.25)
