"""The highest rate under a latency goal: between the measured rates, censored beyond them."""

import numpy as np
import pytest
from chance import lowest_rate
from hypothesis import given
from hypothesis import strategies as st

from steelyard.stats.goal import Reached, crossing, goal_rate, goal_ratio, monotone

CAPACITY, LIMIT_S, LEVEL = 1000.0, 0.025, 0.05
RATES = CAPACITY * np.array([0.5, 0.6, 0.7, 0.8, 0.9])
CAMPAIGNS = 400


def _p99(rates: np.ndarray, capacity: float) -> np.ndarray:
    """Return the p99 of the time in an M/M/1 system: exponential with mean 1 / (mu - lambda)."""
    return np.asarray(np.log(100.0) / np.maximum(capacity - rates, 5.0))


def _true_rate(capacity: float, limit_s: float = LIMIT_S) -> float:
    return capacity - float(np.log(100.0)) / limit_s


def _crossings(
    rng: np.random.Generator, blocks: int, capacity: float = CAPACITY, limit_s: float = LIMIT_S
) -> np.ndarray:
    """Return those of blocks: each has a capacity of its own, each slice noise of its own."""
    found = []
    for _ in range(blocks):
        latencies = _p99(RATES, capacity * np.exp(rng.normal(0.0, 0.02)))
        slices = latencies * np.exp(rng.normal(0.0, 0.15, len(RATES)))
        found.append(crossing(RATES, slices, limit_s))
    return np.array(found)


@pytest.mark.parametrize(("blocks", "limit_s"), [(8, LIMIT_S), (16, LIMIT_S), (16, 0.012)])
def test_the_rate_of_a_queue_is_found_with_its_interval(blocks: int, limit_s: float) -> None:
    """Over noise of 15 % a slice the median is within 2.5 % of the queue's and never above it.

    What the straight line between two rates reads too low stays in the bias; about its own centre
    the interval covers as it promises.
    """
    rng = np.random.default_rng(blocks)
    reached = [
        goal_rate(_crossings(rng, blocks, limit_s=limit_s), RATES, LEVEL) for _ in range(CAMPAIGNS)
    ]
    truth = _true_rate(CAPACITY, limit_s)
    centre = float(np.mean([each.value for each in reached]))
    assert -0.025 < centre / truth - 1 < 0.01
    covered = np.mean([_holds(each, centre) for each in reached])
    assert covered >= lowest_rate(0.95, CAMPAIGNS)


def _holds(reached: Reached, value: float) -> bool:
    assert reached.low is not None
    assert reached.high is not None
    return reached.low <= value <= reached.high


def test_the_ratio_of_two_treatments_is_found_with_its_interval() -> None:
    """Of a server of 6 % more capacity the gain under the goal is found, paired within blocks."""
    rng = np.random.default_rng(5)
    truth = np.log(_true_rate(1.06 * CAPACITY) / _true_rate(CAPACITY))
    found = []
    for _ in range(CAMPAIGNS):
        sides = [_crossings(rng, 12, capacity) for capacity in (CAPACITY, 1.06 * CAPACITY)]
        found.append(goal_ratio(*sides, RATES, LEVEL))
    assert np.mean([each.value for each in found]) == pytest.approx(truth, abs=0.02)
    covered = np.mean([_holds(each, truth) for each in found])
    assert covered >= lowest_rate(0.93, CAMPAIGNS)


def test_nothing_is_read_beyond_the_measured_rates() -> None:
    """Where all rates meet the goal the answer is above the highest; where none does, below."""
    rng = np.random.default_rng(6)
    above = goal_rate(_crossings(rng, 10, limit_s=1.0), RATES, LEVEL)
    assert (above.value, above.high) == (np.inf, np.inf)
    assert above.low == RATES[-1]
    below = goal_rate(_crossings(rng, 10, limit_s=0.001), RATES, LEVEL)
    assert (below.value, below.low) == (-np.inf, -np.inf)
    assert below.high == RATES[0]


def test_a_bound_is_censored_where_some_blocks_are() -> None:
    """Two blocks of ten above all rates open the upper bound, not the lower one, nor the median."""
    crossings = np.array([700.0, 710, 720, 730, 740, 750, 760, 770, np.inf, np.inf])
    reached = goal_rate(crossings, RATES, LEVEL)
    assert reached.value == 745.0
    assert reached.high == np.inf
    assert reached.low is not None
    assert 700.0 < reached.low < 745.0
    other = goal_rate(np.where(crossings == np.inf, -np.inf, crossings), RATES, LEVEL)
    assert other.low == -np.inf
    assert other.high is not None
    assert other.high < 770.0


def test_both_sides_censored_say_nothing_of_the_ratio() -> None:
    """Two servers that both carry more than was asked are not equal: nobody knows."""
    above = np.full(10, np.inf)
    ratio = goal_ratio(above, above, RATES, LEVEL)
    assert (ratio.low, ratio.high) == (-np.inf, np.inf)
    one = goal_ratio(np.full(10, 600.0), above, RATES, LEVEL)
    assert one.high == np.inf
    assert one.low == pytest.approx(np.log(900.0 / 600.0))


def test_five_blocks_have_no_bounds() -> None:
    """Signed ranks reach 95 % from six blocks on; the median is told from the first."""
    reached = goal_rate(np.array([700.0, 750.0, 800.0]), RATES, LEVEL)
    assert (reached.value, reached.low, reached.high) == (750.0, None, None)
    assert goal_rate(np.full(6, 700.0), RATES, LEVEL).low == 700.0


def test_the_crossing_is_read_on_a_logarithmic_line() -> None:
    """Halfway between 1 ms and 100 ms on the logarithm is 10 ms; a noisy dip is levelled first."""
    rates = np.array([100.0, 200.0])
    assert crossing(rates, np.array([1e-3, 1e-1]), 1e-2) == pytest.approx(150.0)
    dipped = crossing(np.array([100.0, 200.0, 300.0]), np.array([1e-2, 1e-4, 1e-1]), 1e-2)
    assert dipped == pytest.approx(200.0 + 100.0 / 2.0)
    assert crossing(rates, np.array([1e-3, np.inf]), 1e-2) == 100.0
    assert crossing(rates, np.array([np.inf, np.inf]), 1e-2) == -np.inf


@given(st.lists(st.floats(-5.0, 5.0), min_size=1, max_size=8))
def test_monotone_means(values: list[float]) -> None:
    """It never falls, keeps the sum, and leaves alone what rises already."""
    given_values = np.array(values)
    made = monotone(given_values)
    assert (np.diff(made) >= -1e-12).all()
    assert made.sum() == pytest.approx(given_values.sum(), abs=1e-9)
    assert monotone(np.sort(given_values)) == pytest.approx(np.sort(given_values))


def test_what_cannot_be_answered_is_refused() -> None:
    """No rate, no block, unpaired blocks."""
    with pytest.raises(ValueError, match="no rate"):
        crossing(np.array([]), np.array([]), 1.0)
    with pytest.raises(ValueError, match="no block"):
        goal_rate(np.array([]), RATES, LEVEL)
    with pytest.raises(ValueError, match="3 blocks beside 2"):
        goal_ratio(np.ones(3), np.ones(2), RATES, LEVEL)
