"""The jackknife: what it gives for a mean is known exactly."""

import numpy as np
import pytest
from chance import lowest_rate

from steelyard.stats.intervals import jackknife_half_width, student_interval


def left_out(values: np.ndarray) -> np.ndarray:
    """Return the mean without each value, as one column."""
    return np.array([[np.delete(values, place).mean()] for place in range(len(values))])


def test_of_a_mean_it_is_students_interval() -> None:
    """Pseudo-values of a mean are the values, so both intervals are the same."""
    values = np.random.default_rng(1).standard_normal(9)
    half = jackknife_half_width(np.array([values.mean()]), left_out(values), 0.05)
    known = student_interval(values, 0.05)
    assert half[0] == pytest.approx((known.high - known.low) / 2)


def test_it_covers_a_ratio() -> None:
    """The logarithm of a ratio of means, which is no mean, is covered in 95 % of campaigns."""
    campaigns, hits = 1000, 0
    for seed in range(campaigns):
        over, under = np.exp(0.2 * np.random.default_rng([2, seed]).standard_normal((2, 12)))
        whole = np.array([np.log(over.mean() / under.mean())])
        parts = np.log(left_out(over) / left_out(under))
        hits += abs(whole[0]) <= jackknife_half_width(whole, parts, 0.05)[0]
    assert hits / campaigns >= lowest_rate(0.95, campaigns)


def test_one_block_is_refused() -> None:
    """Nothing can be left out of one block."""
    with pytest.raises(ValueError, match="1 blocks"):
        jackknife_half_width(np.zeros(1), np.zeros((1, 1)), 0.05)
