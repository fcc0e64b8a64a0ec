"""Welch's interval against scipy, and how often it is right."""

import numpy as np
import pytest
from chance import highest_rate, lowest_rate
from scipy import stats as reference

from steelyard.stats.intervals import welch_interval


@pytest.mark.parametrize(("n", "m"), [(2, 9), (6, 6), (20, 8)])
def test_the_interval_is_scipys(n: int, m: int) -> None:
    """Bounds are those of scipy's t test with unequal variances."""
    source = np.random.default_rng(n)
    ours, theirs = source.standard_normal(n) + 0.4, 3.0 * source.standard_normal(m)
    bounds = reference.ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    interval = welch_interval(ours, theirs, 0.05)
    assert (interval.low, interval.high) == pytest.approx((bounds.low, bounds.high))
    assert interval.estimate == pytest.approx(ours.mean() - theirs.mean())


def test_equal_campaigns_are_called_different_at_the_level() -> None:
    """Among independent normal blocks of unequal spread it misses zero in 5 % of pairs."""
    source = np.random.default_rng(5)
    trials = 4000
    missed = 0
    for _ in range(trials):
        interval = welch_interval(
            0.02 * source.standard_normal(9), 0.05 * source.standard_normal(14), 0.05
        )
        missed += not interval.low <= 0.0 <= interval.high
    assert lowest_rate(0.05, trials) < missed / trials < highest_rate(0.05, trials)


def test_drift_between_campaigns_is_not_covered() -> None:
    """Two equal servers at different times are called different nearly always: the label's why."""
    source = np.random.default_rng(6)
    missed = 0
    for _ in range(400):
        moments = 0.1 * source.standard_normal(2)
        ours, theirs = (at + 0.02 * source.standard_normal(12) for at in moments)
        interval = welch_interval(ours, theirs, 0.05)
        missed += not interval.low <= 0.0 <= interval.high
    assert missed / 400 > 0.8


def test_samples_without_spread_and_too_few_values() -> None:
    """Equal values give no width; one value on a side is refused."""
    interval = welch_interval(np.full(3, 1.5), np.full(4, 1.0), 0.05)
    assert (interval.low, interval.high) == (0.5, 0.5)
    with pytest.raises(ValueError, match="no unpaired interval from 1 and 3"):
        welch_interval(np.zeros(1), np.zeros(3), 0.05)
