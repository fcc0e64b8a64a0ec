"""More clients, less throughput: found when it is there, and seldom when it is not."""

import numpy as np
import pytest
from chance import highest_rate

from steelyard.stats.intervals import block_interval
from steelyard.stats.scalability import retrograde


def taken(shape: list[float], blocks: int, sd: float, seed: int | tuple[int, ...]) -> np.ndarray:
    """Return log throughput around a shape, with noise per run and a level per block."""
    rng = np.random.default_rng(seed)
    noise = sd * rng.standard_normal((blocks, len(shape)))
    return np.array(shape) + 0.1 * rng.standard_normal((blocks, 1)) + noise


def test_the_first_falling_load_is_named() -> None:
    """The best is the third; the fourth is as good, the fifth lower, the sixth lower still."""
    seen = retrograde(taken([0.0, 0.5, 0.8, 0.799, 0.6, 0.4], 12, 0.01, 1), 0.05)
    assert (seen.best, seen.first) == (2, 4)
    assert len(seen.above) == 3
    assert seen.above[1].low < -0.2 < seen.above[1].high
    assert seen.above[2].estimate == pytest.approx(-0.4, abs=0.02)


def test_a_line_that_rises_falls_nowhere() -> None:
    """With the best load last there is nothing above it."""
    seen = retrograde(taken([0.0, 0.5, 0.8, 1.0], 12, 0.01, 2), 0.05)
    assert (seen.best, seen.above, seen.first) == (3, (), None)


def test_a_plateau_is_seldom_called_falling() -> None:
    """Seven equal loads are called falling in 5 % at most, though the best is chosen by chance.

    Bonferroni over the loads above the best alone would do it too often: the choice counts.
    """
    campaigns, naive, called = 1000, 0, 0
    for seed in range(campaigns):
        y = taken([0.0] * 7, 20, 0.02, (3, seed))
        seen = retrograde(y, 0.05)
        called += seen.first is not None
        above = [y[:, load] - y[:, seen.best] for load in range(seen.best + 1, 7)]
        naive += any(block_interval(d, 0.05 / len(above)).high < 0 for d in above)
    assert called / campaigns <= highest_rate(0.02, campaigns)
    assert naive / campaigns > 0.06


def test_the_intervals_hold_together() -> None:
    """Of a true fall, all contrasts to the best are covered at once in 95 % of campaigns."""
    shape, campaigns, missed = [0.0, 0.7, 1.0, 0.9, 0.7], 300, 0
    for seed in range(campaigns):
        seen = retrograde(taken(shape, 12, 0.02, (4, seed)), 0.05)
        truth = [shape[place] - shape[seen.best] for place in range(seen.best + 1, 5)]
        missed += any(not i.low <= t <= i.high for i, t in zip(seen.above, truth, strict=True))
    assert missed / campaigns <= highest_rate(0.05, campaigns)


@pytest.mark.parametrize("shape", [(1, 5), (8, 1)])
def test_too_little_is_refused(shape: tuple[int, int]) -> None:
    """One block or one load cannot fall."""
    with pytest.raises(ValueError, match="no falling load"):
        retrograde(np.zeros(shape), 0.05)
