"""The interval over blocks: which method when, and that it covers what it promises."""

import numpy as np
import pytest
from chance import lowest_rate
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from steelyard.stats.intervals import (
    SIGNED_RANK_FROM,
    block_interval,
    signed_rank_interval,
    student_interval,
)

CAMPAIGNS = 1500
samples = arrays(np.float64, st.integers(2, 24), elements=st.floats(-1.0, 1.0, width=32))


def normal(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Noise of the books."""
    return rng.standard_normal(shape)


def heavy(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Stalls on either side: Student's t with 2 degrees of freedom."""
    return rng.standard_t(2, shape)


def bursty(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """A skewed and heteroscedastic difference whose sign is a coin's, as in a block design."""
    size = rng.exponential(1.0, shape) * rng.choice([1.0, 8.0], shape, p=[0.8, 0.2])
    return size * rng.choice([-1.0, 1.0], shape)


@pytest.mark.parametrize("noise", [normal, heavy, bursty])
@pytest.mark.parametrize("n", [6, 9, 10, 12, 30])
def test_intervals_cover(noise: object, n: int) -> None:
    """At 5 % the interval covers the true centre in 95 % of campaigns, whatever the noise."""
    values = noise(np.random.default_rng([1, n]), (CAMPAIGNS, n))
    found = [block_interval(sample, 0.05) for sample in values]
    covered = np.mean([interval.low <= 0.0 <= interval.high for interval in found])
    assert covered >= lowest_rate(0.95, CAMPAIGNS)


@pytest.mark.parametrize("level", [0.0004, 0.002, 0.005])
@pytest.mark.parametrize("noise", [normal, heavy, bursty])
def test_small_levels_cover_too(noise: object, level: float) -> None:
    """At the levels of early looks, for 10 blocks, at most the level's share misses."""
    campaigns = 8000
    values = noise(np.random.default_rng(2), (campaigns, 10))
    found = [block_interval(sample, level) for sample in values]
    covered = np.mean([interval.low <= 0.0 <= interval.high for interval in found])
    assert covered >= lowest_rate(1.0 - level, campaigns)


def test_which_method_when() -> None:
    """Below 10 blocks t; from 10 on signed ranks; t again where ranks have no bounds."""
    values = np.random.default_rng(3).standard_normal(12)
    few = values[: SIGNED_RANK_FROM - 1]
    assert block_interval(few, 0.05) == student_interval(few, 0.05)
    assert block_interval(values[:10], 0.05) == signed_rank_interval(values[:10], 0.05)
    assert not signed_rank_interval(values[:10], 0.001).bounded
    assert block_interval(values[:10], 0.001) == student_interval(values[:10], 0.001)


@given(values=samples)
def test_swapping_the_arms_mirrors_the_interval(values: np.ndarray) -> None:
    """Negated contrasts give the negated interval, with either method."""
    one, other = block_interval(values, 0.05), block_interval(-values, 0.05)
    assert (one.estimate, one.low, one.high) == pytest.approx(
        (-other.estimate, -other.high, -other.low)
    )


@given(values=samples, shift=st.floats(-5, 5), scale=st.floats(0.01, 100))
def test_units_and_effects_move_the_interval_with_them(
    values: np.ndarray, shift: float, scale: float
) -> None:
    """A shift shifts the interval and a scale scales it, with either method."""
    one, other = block_interval(values, 0.05), block_interval(values * scale + shift, 0.05)
    for name in ("estimate", "low", "high"):
        expected = getattr(one, name) * scale + shift
        assert getattr(other, name) == pytest.approx(expected, abs=1e-5)
