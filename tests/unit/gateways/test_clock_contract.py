"""The clock: the same promises from the real one and the fake one."""

import pytest

from fakes.clock import FakeClock
from steelyard.gateways.clock import Clock, SystemClock


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
