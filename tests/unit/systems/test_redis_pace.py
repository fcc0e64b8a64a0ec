"""How many requests fill a time."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.core.schedule import Load
from steelyard.systems.redis.redis_benchmark import LONG_ENOUGH_S, MOST_REQUESTS, Pace, PaceKey

_KEY = PaceKey(configuration="a", workload="set", load=Load(clients=20, threads=1))


def _piloted(pace: Pace, key: PaceKey, rate_per_s: float) -> list[int]:
    """Let pilots run against a server of one speed; return what each asked for."""
    asked = []
    while (requests := pace.pilot(key)) is not None:
        asked.append(requests)
        pace.learn(key, requests, round(requests / rate_per_s, 3))
    return asked


@given(st.floats(min_value=5.0, max_value=5e6))
def test_pilots_end_soon_at_any_speed(rate_per_s: float) -> None:
    """From 5 to 5 million requests a second a few growing pilots find the rate."""
    pace = Pace()
    asked = _piloted(pace, _KEY, rate_per_s)
    assert len(asked) <= 9
    assert asked == sorted(set(asked))
    assert pace.requests(_KEY, 10.0) == pytest.approx(10.0 * rate_per_s, rel=0.01, abs=20)


@given(st.floats(min_value=100.0, max_value=5e6))
def test_pilots_are_short(rate_per_s: float) -> None:
    """No pilot of a server that answers at least 100 requests a second lasts 3 seconds."""
    asked = _piloted(Pace(), _KEY, rate_per_s)
    assert max(asked) / rate_per_s < 3.0


def test_each_configuration_workload_and_load_has_its_own_pace() -> None:
    """What is known of one says nothing of another."""
    pace = Pace()
    _piloted(pace, _KEY, 1000.0)
    assert pace.pilot(_KEY) is None
    others = [replace(_KEY, configuration="b"), replace(_KEY, workload="get")]
    others.append(replace(_KEY, load=Load(clients=20, threads=1, pipeline=16)))
    assert all(pace.pilot(other) is not None for other in others)
    with pytest.raises(KeyError):
        pace.requests(others[0], 5.0)


def test_runs_outweigh_the_pilot() -> None:
    """A first half second in which a server was ten times as fast is soon forgotten."""
    pace = Pace()
    pace.learn(_KEY, 5000, LONG_ENOUGH_S)
    assert pace.requests(_KEY, 5.0) == 50_000
    pace.learn(_KEY, 50_000, 50.0)
    assert pace.requests(_KEY, 5.0) == pytest.approx(5000, rel=0.1)
    for _ in range(5):
        pace.learn(_KEY, 5000, 5.0)
    assert pace.requests(_KEY, 5.0) == 5000


def test_a_drift_is_followed() -> None:
    """A server that became slower is asked for less: old runs drop out."""
    pace = Pace()
    for _ in range(9):
        pace.learn(_KEY, 10_000, 5.0)
    for _ in range(5):
        pace.learn(_KEY, 2500, 5.0)
    assert pace.requests(_KEY, 5.0) == 2500


def test_every_client_has_something_to_do() -> None:
    """A server so slow that the time is over before all clients came is still measured."""
    pace = Pace()
    pace.learn(_KEY, 20, 100.0)
    assert pace.requests(_KEY, 5.0) == 20


def test_the_number_stays_within_what_the_generator_counts() -> None:
    """A long run of a fast server does not overflow."""
    pace = Pace()
    pace.learn(_KEY, 10_000_000, 1.0)
    assert pace.requests(_KEY, 36_000.0) == MOST_REQUESTS


def test_a_pilot_without_a_time_leads_to_a_larger_one() -> None:
    """0 ms is no rate."""
    pace = Pace()
    first = pace.pilot(_KEY)
    assert first is not None
    pace.learn(_KEY, first, 0.0)
    second = pace.pilot(_KEY)
    assert second is not None
    assert second > first
