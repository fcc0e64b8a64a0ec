"""The level of one cell and its interval over blocks."""

import numpy as np
import pytest
from chance import lowest_rate
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from steelyard.stats.intervals import median_interval, plain_median_interval, robust_variation

rates = arrays(np.float64, st.integers(1, 20), elements=st.floats(1.0, 1e6))


@pytest.mark.parametrize("n", [6, 12, 30])
def test_it_covers_the_median(n: int) -> None:
    """In log-normal noise the true median is inside in at least 95 % of campaigns."""
    campaigns = 2000
    values = np.exp(0.1 * np.random.default_rng(n).standard_normal((campaigns, n)))
    found = [median_interval(sample) for sample in values]
    covered = np.mean([interval.low <= 1.0 <= interval.high for interval in found])
    assert covered >= lowest_rate(0.95, campaigns)
    assert found[0].confidence >= 0.95


def test_five_blocks_have_no_bounds() -> None:
    """Below 6 blocks the level is out of reach; from 6 on there are bounds."""
    assert not median_interval(np.arange(1.0, 6.0)).bounded
    assert median_interval(np.arange(1.0, 7.0)).bounded


def test_it_is_widened_to_hold_the_median() -> None:
    """A skewed sample's ranks leave the median outside; the interval reaches to it."""
    values = np.array([100.0] * 8 + [1e9] * 7)
    interval = median_interval(values)
    assert interval.low <= interval.estimate == 100.0


@pytest.mark.parametrize("values", [[], [1.0, 0.0], [-1.0]])
def test_rates_must_be_positive(values: list[float]) -> None:
    """No value, or one without a logarithm, is refused."""
    with pytest.raises(ValueError, match="at least one value"):
        median_interval(np.array(values))


@given(values=rates, scale=st.floats(0.001, 1000))
def test_it_holds_its_estimate_in_any_unit(values: np.ndarray, scale: float) -> None:
    """The estimate is inside its bounds, and a change of unit changes all three."""
    one, other = median_interval(values), median_interval(values * scale)
    assert one.low <= one.estimate <= one.high
    assert other.estimate == pytest.approx(one.estimate * scale)
    assert other.low == pytest.approx(one.low * scale)
    assert other.high == pytest.approx(one.high * scale)


@pytest.mark.parametrize("n", [6, 12, 30])
def test_the_plain_one_covers_the_median(n: int) -> None:
    """In normal noise around 0 the true median is inside in at least 95 % of campaigns."""
    campaigns = 2000
    values = np.random.default_rng(n).standard_normal((campaigns, n))
    found = [plain_median_interval(sample) for sample in values]
    covered = np.mean([interval.low <= 0.0 <= interval.high for interval in found])
    assert covered >= lowest_rate(0.95, campaigns)


def test_the_plain_one_takes_zeros_and_negative_values() -> None:
    """Nothing needs a logarithm; below 6 values there are no bounds, without one no median."""
    interval = plain_median_interval(np.array([-1.0, 0.0, 0.0, 0.0, 2.0, 5.0, 9.0]))
    assert interval.low <= interval.estimate == 0.0 <= interval.high
    assert not plain_median_interval(np.zeros(5)).bounded
    with pytest.raises(ValueError, match="no interval"):
        plain_median_interval(np.array([]))


def test_the_robust_variation_is_that_of_normal_values() -> None:
    """Within a few percent of their coefficient of variation, and blind to a few stalls."""
    values = 100.0 + 5.0 * np.random.default_rng(1).standard_normal(20_000)
    assert robust_variation(values) == pytest.approx(0.05, rel=0.03)
    stalled = np.where(np.arange(len(values)) % 50 == 0, 1.0, values)
    assert robust_variation(stalled) == pytest.approx(0.05, rel=0.06)


@pytest.mark.parametrize("values", [[], [1.0, 2.0], [-1.0, 0.0, 1.0]])
def test_a_variation_that_would_say_nothing_is_none(values: list[float]) -> None:
    """Below three values, or around 0, there is none."""
    assert robust_variation(np.array(values)) is None
