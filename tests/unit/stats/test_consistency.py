"""Windows of a long run: their spread and the worst of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.stats.capacity import consistency


def test_an_even_run_has_no_variation() -> None:
    """Equal seconds give a coefficient of 0 and a worst window equal to all others."""
    even = consistency(np.full(60, 250.0))
    assert (even.windows, even.variation, even.worst) == (6, 0.0, 250.0)


def test_the_coefficient_divides_by_n_minus_one() -> None:
    """Windows of 100, 200 and 300 have a standard deviation of 100 about 200."""
    three = consistency(np.repeat([100.0, 200.0, 300.0], 10))
    assert three.variation == pytest.approx(0.5)
    assert three.worst == 100.0


def test_seconds_within_a_window_do_not_count_as_spread() -> None:
    """A saw of one-second period vanishes in ten-second means: they are what is judged."""
    assert consistency(np.tile([0.0, 200.0], 30)).variation == 0.0


def test_what_fills_no_window_is_left_out() -> None:
    """Too short a run has no figures rather than made-up ones; a last part is not a window."""
    assert consistency(np.ones(9)).worst is None
    one = consistency(np.ones(19))
    assert (one.windows, one.variation, one.worst) == (1, None, 1.0)
    assert consistency(np.zeros(40)).variation is None


@given(st.lists(st.floats(0.0, 1e6), max_size=200))
def test_the_worst_window_is_never_above_the_mean(rates: list[float]) -> None:
    """Whatever the rates: finite, not negative, and the worst is at most the best second."""
    found = consistency(np.asarray(rates, dtype=np.float64))
    assert found.windows == len(rates) // 10
    if found.worst is not None:
        assert 0.0 <= found.worst <= max(rates) * (1.0 + 1e-12)
    assert found.variation is None or found.variation >= 0.0
