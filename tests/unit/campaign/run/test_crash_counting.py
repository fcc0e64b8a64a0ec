"""What counts as acknowledged and what as lost, and who notices that a load failed."""

import threading
from dataclasses import dataclass, field

import pytest

from steelyard.core.outside import ServerAddress
from steelyard.core.wording import MeasurementError, TargetError
from steelyard.crash.testing import Answers, Died, Ended, Load, counted
from steelyard.gateways.host import Clock

_NOWHERE = ServerAddress(host="/nowhere", port=1)


def _answers(writer: int, *answers: tuple[int, float]) -> Answers:
    numbers, at = zip(*answers, strict=True) if answers else ((), ())
    return Answers(writer=writer, numbers=list(numbers), at=list(at))


def test_what_was_answered_before_the_death_counts() -> None:
    """An answer after the death was ordered is late: it is no loss that a cut would have made."""
    died = Died(
        ended=Ended(begun_at=10.0),
        under_load_s=3.0,
        answers=[_answers(0, (16, 8.0), (32, 9.5), (48, 10.1))],
    )
    crash = counted(died, [list(range(20, 49))])
    assert (crash.acknowledged, crash.lost) == (32, 13)
    assert (crash.late, crash.late_lost) == (16, 16)


def test_the_oldest_lost_write_is_told_by_its_answer() -> None:
    """The age is that of the answer of the oldest lost number, over all writers."""
    answers = [_answers(0, (1, 7.0), (2, 9.0)), _answers(1, (1, 8.0), (2, 9.9))]
    crash = counted(
        Died(ended=Ended(begun_at=10.0), under_load_s=3.0, answers=answers), [[2], [1, 2]]
    )
    assert (crash.acknowledged, crash.lost) == (4, 3)
    assert crash.oldest_lost_s == pytest.approx(2.0)


def test_nothing_lost_has_no_age() -> None:
    """Where nothing is gone there is no oldest one, whatever came late."""
    died = Died(
        ended=Ended(begun_at=10.0),
        under_load_s=3.0,
        answers=[_answers(0, (5, 9.0), (6, 10.2)), _answers(1)],
    )
    crash = counted(died, [[6], []])
    assert (crash.lost, crash.late_lost, crash.oldest_lost_s) == (0, 1, None)


def test_the_cut_itself_is_kept() -> None:
    """How long the call took, and whether it took what was not flushed, is in the record."""
    ended = Ended(begun_at=10.0, window_s=0.004, took_unflushed=True)
    found = counted(Died(ended=ended, under_load_s=3.0, answers=[]), [])
    assert (found.window_s, found.took_unflushed) == (0.004, True)


@dataclass
class _Writes:
    """Connections that answer until the server dies, or until a number that it refuses."""

    refuses: int = 10**9
    dead: threading.Event = field(default_factory=threading.Event)
    written: list[tuple[int, int, int]] = field(default_factory=list)

    def writer(self, address: ServerAddress, writer: int) -> "_Writer":
        """Return a connection."""
        assert address == _NOWHERE
        return _Writer(self, writer)


@dataclass
class _Writer:
    writes: _Writes
    number: int

    def write(self, first: int, count: int) -> None:
        """Answer, or fail."""
        if self.writes.dead.wait(0.001):
            raise TargetError("connection closed")
        if first >= self.writes.refuses:
            raise TargetError("MISCONF the disk is full")
        self.writes.written.append((self.number, first, count))

    def close(self) -> None:
        """Nothing is open."""


def test_numbers_go_on_without_gaps_and_count_when_answered() -> None:
    """Every writer numbers from 1 on in whole pipelines; the one that broke off is not counted."""
    writes, clock = _Writes(), Clock()
    load = Load(writes, _NOWHERE, clients=2, pipeline=3, clock=clock)
    while len(writes.written) < 20:
        clock.sleep(0.001)
    died_at = clock.monotonic()
    writes.dead.set()
    for answers in load.end(died_at):
        own = [(first, count) for who, first, count in writes.written if who == answers.writer]
        assert own == [(1 + 3 * place, 3) for place in range(len(own))]
        assert answers.last == 3 * len(own)
        assert len(answers.at) == len(answers.numbers) == len(own)


def test_a_write_that_fails_before_the_death_is_no_crash() -> None:
    """A server that refuses writes while it should be under load spoils the measurement."""
    writes, clock = _Writes(refuses=5), Clock()
    load = Load(writes, _NOWHERE, clients=1, pipeline=1, clock=clock)
    while len(writes.written) < 4:
        clock.sleep(0.001)
    clock.sleep(0.05)
    with pytest.raises(MeasurementError, match="before the server was to die: MISCONF"):
        load.end(clock.monotonic())
