"""P values that agree with the intervals, and how many of many may be called different."""

import numpy as np
import pytest
from chance import highest_rate
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats as reference

from steelyard.stats.intervals import block_interval, block_p_value, signed_rank_p_value
from steelyard.stats.spending import discoveries, false_discovery_level

samples = arrays(np.float64, st.integers(2, 24), elements=st.floats(-1.0, 1.0, width=32))


def leaves_out_zero(contrasts: np.ndarray, level: float) -> bool:
    """Return whether the interval at a level has zero outside."""
    interval = block_interval(contrasts, level)
    return interval.low > 0.0 or interval.high < 0.0


@given(values=samples, shift=st.floats(-1.0, 1.0))
def test_the_interval_leaves_out_zero_from_the_p_value_on(values: np.ndarray, shift: float) -> None:
    """Just above its p value the interval has zero outside, just below it has not."""
    contrasts = values + shift
    p_value = block_p_value(contrasts)
    above, below = min(p_value * (1 + 1e-6) + 1e-12, 1.0), p_value * (1 - 1e-6)
    assert above >= 1.0 or leaves_out_zero(contrasts, above)
    assert below <= 1e-9 or not leaves_out_zero(contrasts, below)


@pytest.mark.parametrize("n", [10, 24, 60])
def test_it_is_the_p_value_of_the_books(n: int) -> None:
    """From 10 blocks on it is Wilcoxon's exact two-sided p, below Student's."""
    contrasts = np.random.default_rng(n).standard_normal(n) + 0.3
    expected = reference.wilcoxon(contrasts, method="exact").pvalue
    assert block_p_value(contrasts) == pytest.approx(expected)
    few = contrasts[:9]
    assert block_p_value(few) == pytest.approx(reference.ttest_1samp(few, 0.0).pvalue)


def test_ranks_that_can_say_no_more_leave_it_to_t() -> None:
    """Ten clear effects of one sign: ranks end at 2^-9, the interval and its p value do not."""
    clear = 0.1 + 0.001 * np.arange(10)
    assert signed_rank_p_value(clear) == pytest.approx(2.0**-9)
    assert block_p_value(clear) < 1e-9


def test_the_textbook_procedure() -> None:
    """Benjamini and Hochberg's own fifteen p values at 5 %: the first four."""
    published = np.array(
        [
            *(0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344),
            *(0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000),
        ]
    )
    assert discoveries(published, lambda called: false_discovery_level(0.05, called, 15)) == 4


@given(p_values=arrays(np.float64, st.integers(1, 40), elements=st.floats(0.0, 1.0)))
def test_it_agrees_with_scipy(p_values: np.ndarray) -> None:
    """The number called is that of adjusted p values within q."""
    q, many = 0.1, len(p_values)
    called = discoveries(p_values, lambda some: false_discovery_level(q, some, many))
    adjusted = reference.false_discovery_control(p_values)
    near = np.abs(adjusted - q) < 1e-9
    assert int((adjusted <= q).sum()) == called or near.any()


def test_nothing_is_called_among_equal_systems_too_often() -> None:
    """Without any effect, a campaign of 20 cells has a call in at most 5 %."""
    campaigns, wrong = 1000, 0
    for seed in range(campaigns):
        contrasts = np.random.default_rng([6, seed]).standard_normal((12, 20))
        p_values = np.array([block_p_value(column) for column in contrasts.T])
        wrong += discoveries(p_values, lambda some: false_discovery_level(0.05, some, 20)) > 0
    assert wrong / campaigns <= highest_rate(0.05, campaigns)


@pytest.mark.parametrize("called", [0, 4])
def test_a_level_of_nothing_is_refused(called: int) -> None:
    """None called, or more than there are."""
    with pytest.raises(ValueError, match="of 3"):
        false_discovery_level(0.05, called, 3)


def test_a_p_value_needs_contrasts() -> None:
    """Nothing has no p value."""
    with pytest.raises(ValueError, match="0 contrasts"):
        signed_rank_p_value(np.zeros(0))
