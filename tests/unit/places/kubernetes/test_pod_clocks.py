"""Clocks of pods by round trips: the truth is always within the half-width."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.places.agent.outcomes import AgentRun, ClockThere, Offset, start_skew

_DELAYS = st.tuples(st.floats(0.0001, 5.0), st.floats(0.0001, 5.0))


@given(offset_s=st.floats(-1e4, 1e4), trips=st.lists(_DELAYS, min_size=1, max_size=10))
def test_the_true_offset_is_within_the_half_width(
    offset_s: float, trips: list[tuple[float, float]]
) -> None:
    """However asymmetric the ways are, the interval holds the truth."""
    clock, now = ClockThere(), 1000.0
    for there_s, back_s in trips:
        read_at = now + there_s
        clock.note(now, read_at + offset_s, read_at + back_s)
        now = read_at + back_s
    found = clock.offset
    assert found is not None
    assert abs(found.seconds - offset_s) <= found.half_width_s + 1e-6
    assert found.half_width_s == pytest.approx(min(a + b for a, b in trips) / 2, abs=1e-6)


def test_the_shortest_round_trip_counts() -> None:
    """A slow answer adds nothing to what a fast one says."""
    clock = ClockThere()
    clock.note(0.0, 10.05, 0.1)
    clock.note(1.0, 15.0, 3.0)
    assert clock.offset == Offset(seconds=pytest.approx(10.0), half_width_s=pytest.approx(0.05))


def test_old_round_trips_are_forgotten() -> None:
    """Clocks drift, so what was measured long ago says nothing any more."""
    clock = ClockThere()
    clock.note(0.0, 10.05, 0.1)
    clock.note(1000.0, 1020.5, 1001.0)
    found = clock.offset
    assert found is not None
    assert found.seconds == pytest.approx(20.0)


def test_a_clock_that_was_set_back_begins_anew() -> None:
    """What was measured by another time is no measurement."""
    clock = ClockThere()
    clock.note(1000.0, 1000.0, 1000.1)
    clock.note(1000.2, 1000.2, 400.0)
    assert clock.offset is None


def _run(began_at: float, offset: Offset | None) -> AgentRun:
    return AgentRun(where="pod p", began_at=began_at, program_s=0.5, offset=offset)


def test_a_skew_is_between_the_first_and_the_last() -> None:
    """Beginnings are compared by our clock, and the doubts of both add up."""
    runs = (
        _run(100.0, Offset(seconds=0.0, half_width_s=0.01)),
        _run(205.5, Offset(seconds=105.0, half_width_s=0.02)),
        _run(100.2, Offset(seconds=0.0, half_width_s=0.5)),
    )
    skew = start_skew(runs)
    assert skew is not None
    assert skew.seconds == pytest.approx(0.5)
    assert skew.half_width_s == pytest.approx(0.03)


def test_a_skew_that_is_not_known_is_none() -> None:
    """One program has none, and without a clock nobody knows."""
    known = Offset(seconds=0.0, half_width_s=0.01)
    assert start_skew((_run(1.0, known),)) is None
    assert start_skew((_run(1.0, known), _run(1.0, None))) is None
