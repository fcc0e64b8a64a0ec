"""Intervals of percentiles hold what they promise although transactions depend on one another.

Simulated as METHOD 8 does: 16 blocks of slices of 10 s at 400 TPS, latencies lognormal with an
autoregressive logarithm, so that slow transactions come in rows; slices and blocks vary besides.
"""

import numpy as np
import pytest
from chance import highest_rate, lowest_rate
from scipy.signal import lfilter

from steelyard.answers.latency.compute import (
    LatencyChange,
    Pool,
    compare_percentiles,
    percentile_of,
)
from steelyard.answers.observations import ResultContrast
from steelyard.core.schedule import CellKey, Load
from steelyard.stats.histogram import Histogram, histogram_of
from steelyard.stats.intervals import achieved_level, critical_value

BLOCKS = 16
TRANSACTIONS = 4000
CAMPAIGNS = 200
SHARES = (0.5, 0.9, 0.95, 0.99)
CELL = CellKey(workload="w", load=Load(clients=8, threads=4))
ASKED = ResultContrast(baseline="a", configuration="b", weights=(-1.0, 1.0))


def a_slice(rng: np.random.Generator, level: float) -> Histogram:
    """Return 4000 transactions whose log latency is autoregressive: 0.9 from one to the next."""
    shocks = 0.6 * np.sqrt(1.0 - 0.9**2) * rng.standard_normal(TRANSACTIONS)
    logs = lfilter([1.0], [1.0, -0.9], shocks) + level
    return histogram_of(np.exp(logs) * 2000.0)


def campaigns(effect: float, seed: int) -> list[tuple[LatencyChange, ...]]:
    """Return the changes of many campaigns in which b takes longer by a known effect."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(CAMPAIGNS):
        blocks = 0.1 * rng.standard_normal(BLOCKS)
        slices = 0.03 * rng.standard_normal((2, BLOCKS))
        pools = {
            (name, CELL): Pool.of(
                [a_slice(rng, blocks[row] + slices[side, row] + shift) for row in range(BLOCKS)]
            )
            for side, (name, shift) in enumerate((("a", 0.0), ("b", np.log1p(effect))))
        }
        found.append(compare_percentiles(ASKED, ("a", "b"), (CELL,), pools))
    return found


@pytest.fixture(scope="module")
def of_equals() -> list[tuple[LatencyChange, ...]]:
    """Return campaigns in which nothing differs."""
    return campaigns(0.0, seed=8)


@pytest.mark.slow
def test_intervals_cover_a_known_difference() -> None:
    """Each percentile of b is 10 % higher, and its intervals hold that as often as they say."""
    promised = 1.0 - achieved_level(BLOCKS, critical_value(BLOCKS, 0.045))
    found = campaigns(0.1, seed=88)
    for place, share in enumerate(SHARES):
        estimates = [changes[place].change for changes in found]
        held = np.mean(
            [e is not None and (e.low or 0.0) <= 0.1 <= (e.high or 0.0) for e in estimates]
        )
        assert held >= lowest_rate(promised, CAMPAIGNS), share


@pytest.mark.slow
def test_equals_are_rarely_called_different(of_equals: list[tuple[LatencyChange, ...]]) -> None:
    """In no more than 4.5 % of campaigns any percentile is called, all of them together."""
    called = np.mean([any(change.called for change in changes) for changes in of_equals])
    assert called <= highest_rate(0.045, CAMPAIGNS)


def test_levels_cover_the_percentile_of_a_typical_block() -> None:
    """The median over blocks lies around the true percentile as often as its interval says."""
    rng = np.random.default_rng(888)
    truth_s = 0.002 * np.exp(0.6 * 1.6448536)  # p95 of the lognormal
    held = []
    for _ in range(CAMPAIGNS // 2):
        levels = 0.05 * rng.standard_normal(BLOCKS)
        value = percentile_of(Pool.of([a_slice(rng, level) for level in levels]), 0.95).value_s
        held.append(value is not None and (value.low or 0.0) <= truth_s <= (value.high or 0.0))
    assert np.mean(held) >= lowest_rate(0.95, len(held))
