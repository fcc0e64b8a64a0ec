"""The clock: the same promises from the real one and the fake one."""

import pytest

from fakes.clock import FakeClock
from steelyard.gateways.host import Clock, SystemClock, looks, until


@pytest.fixture(params=[SystemClock, FakeClock])
def clock(request: pytest.FixtureRequest) -> Clock:
    """Return each implementation in turn."""
    made: Clock = request.param()
    return made


def test_monotonic_never_goes_back(clock: Clock) -> None:
    """Readings of the monotonic clock do not fall."""
    readings = [clock.monotonic() for _ in range(100)]
    assert readings == sorted(readings)


def test_sleep_lasts_at_least_as_long_as_asked(clock: Clock) -> None:
    """Both clocks have moved by the seconds slept."""
    monotonic = clock.monotonic()
    clock.sleep(0.01)
    assert clock.monotonic() - monotonic >= 0.01 - 1e-9


def test_now_is_a_time_of_our_days(clock: Clock) -> None:
    """The wall clock counts seconds since the epoch, not since the start of the machine."""
    assert clock.now() > 1_700_000_000


def test_a_stepped_wall_leaves_monotonic_alone() -> None:
    """Setting the wall clock is visible against the monotonic one: that is how jumps are seen."""
    clock = FakeClock()
    wall, monotonic = clock.now(), clock.monotonic()
    clock.step_wall(-3600)
    clock.advance(5)
    assert clock.now() - wall == -3595
    assert clock.monotonic() - monotonic == 5


def test_looks_come_at_once_after_each_pause_and_once_too_late() -> None:
    """The pauses are used up in order, the last again and again, until a look began too late."""
    clock = FakeClock()
    assert list(looks(clock, 3.0, 0.5, 1.0)) == pytest.approx([0.0, 0.5, 1.5, 2.5, 3.5])
    assert clock.slept == [0.5, 1.0, 1.0, 1.0]


def test_a_look_that_finds_it_ends_the_wait() -> None:
    """No pause is made before the first look, and none after one that found it."""
    clock, answers = FakeClock(), iter([False, False, True, False])
    assert until(lambda: next(answers), clock, 10.0, 0.25)
    assert clock.slept == [0.25, 0.25]
    assert until(lambda: True, clock, 0.0, 1.0)
    assert len(clock.slept) == 2


def test_what_never_holds_is_given_up() -> None:
    """Time that the looks themselves take counts, and the last one begins after the end."""
    clock = FakeClock()

    def slow() -> bool:
        clock.advance(4.0)
        return False

    begun = clock.monotonic()
    assert not until(slow, clock, 10.0, 1.0)
    assert clock.monotonic() - begun == pytest.approx(19.0)  # looks at 0, 5, 10, 15
