"""The median between two values of the sample."""

import numpy as np
import pytest
from chance import highest_rate

from steelyard.stats.intervals import ranked_median_interval


def test_ranks_of_twenty_are_the_tabulated_ones() -> None:
    """Of 20 values the 6th and the 15th bound the median, at 95.9 %."""
    interval = ranked_median_interval(np.arange(1.0, 21.0)[::-1], 0.05)
    assert (interval.estimate, interval.low, interval.high) == (10.5, 6.0, 15.0)
    assert interval.confidence == pytest.approx(0.9586, abs=1e-4)


@pytest.mark.parametrize("n", [1, 5])
def test_too_few_values_have_no_bounds(n: int) -> None:
    """Below six values not even the extremes reach 95 %."""
    assert not ranked_median_interval(np.ones(n), 0.05).bounded


@pytest.mark.parametrize("n", [6, 9, 20])
def test_a_skewed_median_is_covered(n: int) -> None:
    """Calibration: the bounds miss the median of a skewed distribution in 5 % at most."""
    generator = np.random.default_rng(9)
    samples = generator.exponential(size=(4000, n)) ** 2
    found = [ranked_median_interval(sample, 0.05) for sample in samples]
    truth = np.log(2.0) ** 2
    missed = sum(not each.low <= truth <= each.high for each in found) / len(found)
    assert missed <= highest_rate(0.05, len(found))


def test_ties_are_taken_as_they_are() -> None:
    """A sample of zeros has zero as its median and both bounds."""
    interval = ranked_median_interval(np.zeros(20), 0.05)
    assert (interval.low, interval.estimate, interval.high) == (0.0, 0.0, 0.0)


def test_no_value_is_refused() -> None:
    """There is no median of nothing."""
    with pytest.raises(ValueError, match="at least one"):
        ranked_median_interval(np.array([]), 0.05)
