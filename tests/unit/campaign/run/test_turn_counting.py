"""Turns counted by a server's own counter: what counts, by whose clock, and what cannot."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from fakes.clock import FakeClock
from steelyard.campaign.run.taking import ByCounter, TurnsTaken
from steelyard.core.experiment import Workload
from steelyard.core.outside import ServerAddress
from steelyard.core.schedule import Load, Pausing, Stretch, TurnTimes
from steelyard.systems.protocol import CountedAt, RunRequest

_TIMES = TurnTimes(turn_s=0.25, settling_s=0.1)
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
) -> tuple[ByCounter, TurnsTaken, list[bool]]:
    """Take turns with a pause of a second before each; return what counted them."""
    counting = ByCounter(request=_REQUEST, counter=server, clock=clock)
    stretches, good = [], []
    for _ in range(turns):
        clock.sleep(1.0)
        began_at = clock.now()
        counted = counting.attend(_TIMES, lambda: None)
        good.append(counted is not None)
        stretches.append(Stretch(began_at=began_at, ended_at=clock.now(), counted=counted))
    taken = TurnsTaken(
        stretches=stretches,
        turns={number: (number, 0) for number in range(turns)},
        lost=lost,
        origin_at=stretches[0].began_at,
        completed=(),
    )
    return counting, taken, good


def test_what_ended_after_the_settling_counts() -> None:
    """150 ms of each turn, at the server's rate, in equal halves; nothing of it is a latency."""
    clock = FakeClock()
    counting, taken, good = counted_turns(Server(clock), clock, 3)
    result = counting.result(taken)
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
    counting, taken, good = counted_turns(server, clock, 1)
    (turn,) = counting.result(taken).turns
    assert good == [True]
    assert turn.seconds == pytest.approx(0.15 - 0.002 + 0.03)
    assert turn.transactions / turn.seconds == pytest.approx(1000.0, rel=0.01)


def test_halves_are_of_equal_length_wherever_the_middle_reading_fell() -> None:
    """A late reading in the middle does not make the first half look faster."""
    for late_s in (0.0, 0.05, 0.12):
        clock = FakeClock()
        server = Server(clock, answers_after_s=[0.0, 0.0, late_s])
        counting, taken, _ = counted_turns(server, clock, 1)
        (turn,) = counting.result(taken).turns
        assert turn.early == pytest.approx(turn.transactions / 2, abs=1)


def test_a_slow_first_half_is_seen() -> None:
    """Nothing in the first 75 ms that count, all of it in the second."""
    clock = FakeClock()
    begun = clock.monotonic() + 1.0 + 0.1 + 0.075
    server = Server(clock, rate=lambda at_s: 2000.0 * max(at_s - begun, 0.0))
    counting, taken, _ = counted_turns(server, clock, 1)
    (turn,) = counting.result(taken).turns
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
    counting, taken, _ = counted_turns(server, clock, 1)
    (turn,) = counting.result(taken).turns
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
    counting, taken, _ = counted_turns(server, clock, 3, lost=frozenset({1}))
    whole = ByCounter.result(counting, taken)
    assert [turn.round for turn in whole.turns] == [0, 2]
    first, third = (turn.transactions for turn in whole.turns)
    assert third > first
    assert whole.measurement.transactions == first + third


def test_what_was_done_in_all_is_told_once_generators_have_ended() -> None:
    """Evidence is divided by all that the server did, settling and connecting included."""
    clock = FakeClock()
    counting, taken, _ = counted_turns(Server(clock), clock, 2)
    clock.sleep(0.5)
    counting.note_end()
    measurement = counting.result(taken).measurement
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
