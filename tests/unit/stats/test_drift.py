"""The movement of a level over hours: random walk, trend, and the noise about them."""

import numpy as np
import pytest
from chance import lowest_rate

from steelyard.stats.drift import drift_of
from steelyard.stats.intervals import FloatArray


def levels(
    hours: FloatArray, *, walk: float, trend: float = 0.0, noise: float = 0.01, seed: int = 1
) -> FloatArray:
    """Return levels that walk, rise and scatter."""
    rng = np.random.default_rng(seed)
    steps = rng.standard_normal(len(hours)) * np.sqrt(np.diff(hours, prepend=hours[0]))
    return walk * np.cumsum(steps) + trend * hours + noise * rng.standard_normal(len(hours))


HOUR = np.arange(40) / 40.0


def test_a_walk_is_found_and_is_no_noise() -> None:
    """Ten hours of blocks: the walk within a third, the noise about it likewise."""
    drift = drift_of(levels(HOUR * 10, walk=0.05, noise=0.02), HOUR * 10)
    assert drift.walk_sd.estimate == pytest.approx(0.05, rel=0.33)
    assert drift.block_sd == pytest.approx(0.02, rel=0.5)


def test_a_line_is_a_trend_and_no_walk() -> None:
    """A steady rise of a tenth per hour is found; the walk may be 0."""
    drift = drift_of(levels(HOUR, walk=0.0, trend=0.1, noise=0.002), HOUR)
    assert drift.trend_per_h.low < 0.1 < drift.trend_per_h.high
    assert drift.trend_per_h.low > 0.05
    assert drift.walk_sd.low == 0.0
    assert drift.walk_sd.estimate < 0.01


def test_a_still_machine_does_not_drift() -> None:
    """Equal levels give 0 and no warning."""
    drift = drift_of(np.zeros(12), HOUR[:12])
    assert drift.walk_sd.estimate < 1e-6
    assert drift.trend_per_h.estimate == 0.0


def test_many_blocks_are_grouped() -> None:
    """A thousand blocks cost no more than eighty, and say the same."""
    hours = np.arange(1000) / 100.0
    drift = drift_of(levels(hours, walk=0.05, noise=0.05), hours)
    assert drift.walk_sd.estimate == pytest.approx(0.05, rel=0.33)


def test_the_intervals_cover() -> None:
    """Of 200 hours of 40 blocks, the walk's and the trend's intervals hold nine tenths."""
    found = [drift_of(levels(HOUR, walk=0.04, trend=0.03, seed=seed), HOUR) for seed in range(200)]
    walks = np.mean([each.walk_sd.low <= 0.04 <= each.walk_sd.high for each in found])
    trends = np.mean([each.trend_per_h.low <= 0.03 <= each.trend_per_h.high for each in found])
    assert walks >= lowest_rate(0.93, 200)
    assert trends >= lowest_rate(0.93, 200)


@pytest.mark.parametrize(
    "hours", [np.arange(5) / 10.0, np.array([0.0, 1.0, 1.0, 2.0, 3.0, 4.0, 5.0])]
)
def test_too_little_is_refused(hours: FloatArray) -> None:
    """Fewer than six blocks, or two at one time, have no drift."""
    with pytest.raises(ValueError, match="no drift"):
        drift_of(np.zeros(len(hours)), hours)
