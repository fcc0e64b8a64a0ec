"""The highest rate under a latency goal: between the measured rates, censored beyond them."""

import math
from functools import lru_cache

import numpy as np
import pytest
from chance import lowest_rate
from hypothesis import given
from hypothesis import strategies as st

from steelyard.stats.capacity import Crossing, Reached, crossing, goal_rate, goal_ratio, monotone

CAPACITY, LEVEL = 1000.0, 0.05
CLOSE = CAPACITY * np.array([0.5, 0.6, 0.7, 0.8, 0.9])
WIDE = CAPACITY * np.array([0.5, 0.7, 0.9])
CAMPAIGNS = 200


@lru_cache
def _law(servers: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rates and the p99 of the time in an M/M/c system of capacity 1000 at them."""
    rates = np.linspace(300.0, 995.0, 100)
    return rates, np.array([_p99(rate, servers) for rate in rates])


def _p99(rate: float, servers: int) -> float:
    """Return it from the probability to wait (Erlang C) and both exponentials."""
    own = CAPACITY / servers
    load, spare = rate / own, CAPACITY - rate
    last = load**servers / math.factorial(servers) * servers / (servers - load)
    waits = last / (sum(load**k / math.factorial(k) for k in range(servers)) + last)
    at = np.linspace(0.0, 2.0, 100_001)
    spare += 1e-6 * (abs(spare - own) < 1e-9)
    both = (spare * np.exp(-own * at) - own * np.exp(-spare * at)) / (spare - own)
    return float(at[np.argmax((1 - waits) * np.exp(-own * at) + waits * both <= 0.01)])


def _crossings(
    rng: np.random.Generator,
    blocks: int,
    *,
    share: float,
    rates: np.ndarray = CLOSE,
    servers: int = 1,
    capacity: float = CAPACITY,
) -> list[Crossing]:
    """Return those of blocks, under the limit that a share of 1000/s just meets.

    Each block has a capacity of its own, each slice noise of its own.
    """
    at, law = _law(servers)
    limit_s = float(np.interp(share * CAPACITY, at, law))
    found = []
    for _ in range(blocks):
        scale = capacity / CAPACITY * np.exp(rng.normal(0.0, 0.02))
        latencies = np.interp(rates / scale, at, law) / scale
        slices = latencies * np.exp(rng.normal(0.0, 0.15, len(rates)))
        found.append(crossing(rates, slices, limit_s))
    return found


def _holds(reached: Reached, value: float) -> bool:
    assert reached.low is not None
    assert reached.high is not None
    return reached.low <= value <= reached.high


@pytest.mark.parametrize("share", [0.62, 0.75, 0.83])
@pytest.mark.parametrize("servers", [1, 4])
@pytest.mark.parametrize("rates", [CLOSE, WIDE], ids=["close", "wide"])
def test_the_interval_covers_a_queues_rate(rates: np.ndarray, servers: int, share: float) -> None:
    """Whatever the law between two rates, how far they are apart, and 15 % of noise a slice."""
    rng = np.random.default_rng(int(100 * share) + servers + len(rates))
    found = [
        goal_rate(_crossings(rng, 16, share=share, rates=rates, servers=servers), LEVEL)
        for _ in range(CAMPAIGNS)
    ]
    covered = np.mean([_holds(reached, share * CAPACITY) for reached in found])
    assert covered >= lowest_rate(0.95, CAMPAIGNS)


@pytest.mark.parametrize(
    ("rates", "servers", "share", "low", "high"),
    [
        (CLOSE, 1, 0.83, -0.02, 0.0),
        (CLOSE, 4, 0.83, -0.025, 0.0),
        (WIDE, 1, 0.83, -0.045, -0.02),
        (WIDE, 4, 0.83, -0.07, -0.04),
    ],
)
def test_what_is_read_between_two_rates_is_rather_too_low(
    rates: np.ndarray, servers: int, share: float, low: float, high: float
) -> None:
    """By 1 to 2 % where rates are 10 points apart, by up to 7 % where they are 20 apart."""
    rng = np.random.default_rng(3)
    found = [
        goal_rate(_crossings(rng, 16, share=share, rates=rates, servers=servers), LEVEL).value
        for _ in range(CAMPAIGNS)
    ]
    assert low < np.mean(found) / (share * CAPACITY) - 1.0 < high


@pytest.mark.parametrize("rates", [CLOSE, WIDE], ids=["close", "wide"])
def test_the_ratio_of_two_configurations_is_found_with_its_interval(rates: np.ndarray) -> None:
    """A server of 8 % more capacity: the gain under the goal is covered, and read within 3 %.

    An interval of the rates that were read would miss it: the line between two rates errs more in
    its middle than at its ends.
    """
    rng = np.random.default_rng(5)
    at, law = _law(1)
    limit_s = float(np.interp(0.75 * CAPACITY, at, law))
    faster = float(np.interp(limit_s * 1.08, law, at)) * 1.08
    truth = math.log(faster / (0.75 * CAPACITY))
    found = []
    for _ in range(CAMPAIGNS):
        sides = [
            _crossings(rng, 12, share=0.75, rates=rates, capacity=c)
            for c in (CAPACITY, 1.08 * CAPACITY)
        ]
        found.append(goal_ratio(sides[0], sides[1], LEVEL))
    assert np.mean([each.value for each in found]) == pytest.approx(truth, abs=0.03)
    covered = np.mean([_holds(each, truth) for each in found])
    assert covered >= lowest_rate(0.95, CAMPAIGNS)


def test_nothing_is_read_beyond_the_measured_rates() -> None:
    """Where all rates meet the goal the answer is above the highest; where none does, below."""
    rng = np.random.default_rng(6)
    above = goal_rate(_crossings(rng, 10, share=0.99), LEVEL)
    assert (above.value, above.low, above.high) == (np.inf, 900.0, np.inf)
    below = goal_rate(_crossings(rng, 10, share=0.31), LEVEL)
    assert (below.value, below.low, below.high) == (-np.inf, -np.inf, 500.0)


def _between(*read: float) -> list[Crossing]:
    return [
        Crossing(
            least=100.0 * math.floor(rate / 100), read=rate, most=100.0 * math.ceil(rate / 100)
        )
        for rate in read
    ]


def test_a_bound_is_censored_where_some_blocks_are() -> None:
    """Two blocks of ten above all rates open the upper bound, not the lower one nor the median."""
    known = _between(710, 715, 720, 730, 740, 750, 760, 770)
    above = [*known, *2 * [Crossing(least=900.0, read=np.inf, most=np.inf)]]
    reached = goal_rate(above, LEVEL)
    assert (reached.value, reached.low, reached.high) == (745.0, 700.0, np.inf)
    below = [*known, *2 * [Crossing(least=-np.inf, read=-np.inf, most=500.0)]]
    other = goal_rate(below, LEVEL)
    assert (other.value, other.low, other.high) == (725.0, -np.inf, 800.0)


def test_both_sides_censored_say_nothing_of_the_ratio() -> None:
    """Two servers that both carry more than was asked are not equal: nobody knows."""
    above = [Crossing(least=900.0, read=np.inf, most=np.inf)] * 10
    ratio = goal_ratio(above, above, LEVEL)
    assert (ratio.low, ratio.high) == (-np.inf, np.inf)
    one = goal_ratio(_between(*[650.0] * 10), above, LEVEL)
    assert one.high == np.inf
    assert one.low == pytest.approx(math.log(900.0 / 700.0))


def test_five_blocks_have_no_bounds() -> None:
    """Signed ranks reach 95 % from six blocks on; the median is told from the first."""
    reached = goal_rate(_between(710, 750, 790), LEVEL)
    assert (reached.value, reached.low, reached.high) == (750.0, None, None)
    assert goal_rate(_between(*[710.0] * 6), LEVEL).low == 700.0


def test_the_middle_of_an_even_number_may_be_censored_on_one_side() -> None:
    """Then the other of the two is told; between both ends there is nothing to tell."""
    above = Crossing(least=900.0, read=np.inf, most=np.inf)
    below = Crossing(least=-np.inf, read=-np.inf, most=500.0)
    assert goal_rate([*_between(750), above], LEVEL).value == 750.0
    assert goal_rate([below, *_between(750)], LEVEL).value == 750.0
    for blocks in (2, 6):
        split = goal_rate(blocks // 2 * [below] + blocks // 2 * [above], LEVEL)
        assert (split.value, split.beyond) == (None, 0.0)
    assert (split.low, split.high) == (-np.inf, np.inf)
    assert goal_rate([below, above, above], LEVEL).value == np.inf


def test_the_crossing_is_read_on_a_logarithmic_line() -> None:
    """Halfway between 1 ms and 100 ms on the logarithm is 10 ms; a noisy dip is levelled first."""
    rates = np.array([100.0, 200.0])
    found = crossing(rates, np.array([1e-3, 1e-1]), 1e-2)
    assert (found.least, found.most) == (100.0, 200.0)
    assert found.read == pytest.approx(150.0)
    dipped = crossing(np.array([100.0, 200.0, 300.0]), np.array([1e-2, 1e-4, 1e-1]), 1e-2)
    assert dipped.read == pytest.approx(250.0)
    lost = crossing(rates, np.array([1e-3, np.inf]), 1e-2)
    assert (lost.least, lost.read, lost.most) == (100.0, 100.0, 200.0)
    assert crossing(rates, np.array([np.inf, np.inf]), 1e-2).read == -np.inf


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
        goal_rate([], LEVEL)
    with pytest.raises(ValueError, match="3 blocks beside 2"):
        goal_ratio(_between(650, 660, 670), _between(650, 660), LEVEL)
