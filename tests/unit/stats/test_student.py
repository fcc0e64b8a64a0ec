"""Student's interval and test against scipy."""

import numpy as np
import pytest
from scipy import stats as reference

from steelyard.stats.intervals import mean_p_value, student_interval


@pytest.mark.parametrize("n", [2, 6, 9])
@pytest.mark.parametrize("level", [0.05, 0.002])
def test_interval_and_p_value_are_scipys(n: int, level: float) -> None:
    """The interval divides by n - 1, as scipy's does, and the p value is the same."""
    values = np.random.default_rng(n).standard_normal(n) + 0.3
    expected = reference.ttest_1samp(values, 0.0)
    bounds = expected.confidence_interval(1.0 - level)
    interval = student_interval(values, level)
    assert (interval.low, interval.high) == pytest.approx((bounds.low, bounds.high))
    assert interval.confidence == 1.0 - level
    assert mean_p_value(values) == pytest.approx(expected.pvalue)


def test_values_without_spread() -> None:
    """Equal values have an interval of no width; p is 0, or 1 when all are zero."""
    interval = student_interval(np.full(6, 0.5), 0.05)
    assert (interval.low, interval.high) == (0.5, 0.5)
    assert mean_p_value(np.full(6, 0.5)) == 0.0
    assert mean_p_value(np.zeros(6)) == 1.0


def test_one_value_is_refused() -> None:
    """One value has no spread to judge by."""
    with pytest.raises(ValueError, match="no t interval from 1"):
        student_interval(np.array([1.0]), 0.05)
    with pytest.raises(ValueError, match="no t test from 1"):
        mean_p_value(np.array([1.0]))
