"""The signed-rank distribution, and the centre and interval that it gives."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats as reference

from steelyard.stats.intervals import (
    EXACT_UP_TO,
    achieved_level,
    critical_value,
    hodges_lehmann_centres,
    null_distribution,
    signed_rank_interval,
    signed_rank_p_value,
)

GOLDEN = np.array([0.8, 1.3, -0.4, 2.1, 0.3, 1.9, 0.7, -1.2, 1.1, 0.5, 0.9, 1.6]) / 100
samples = arrays(np.float64, st.integers(2, 24), elements=st.floats(-1.0, 1.0, width=32))


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_the_null_distribution_is_that_of_all_sign_patterns(n: int) -> None:
    """Adding rank by rank gives what counting all 2^n patterns gives."""
    sums = [
        sum(rank for rank, sign in enumerate(signs, 1) if sign)
        for signs in product((False, True), repeat=n)
    ]
    counted = [np.mean(np.array(sums) <= t) for t in range(n * (n + 1) // 2 + 1)]
    assert null_distribution(n) == pytest.approx(counted)


def test_the_least_level_of_n_pairs() -> None:
    """N pairs reach the level 2^(1-n) exactly and nothing below: 0.03125 for n = 6."""
    assert critical_value(6, 0.03125) == 0
    assert critical_value(6, 0.0312) == -1
    assert achieved_level(6, 0) == pytest.approx(0.03125)
    assert achieved_level(6, -1) == 0.0


def test_tabulated_critical_values() -> None:
    """The two-sided 5 % values of printed tables for n = 6, 10, 12, 20 and 30."""
    assert [critical_value(n, 0.05) for n in (6, 10, 12, 20, 30)] == [0, 8, 13, 52, 137]


@pytest.mark.parametrize("level", [0.05, 0.01, 0.001])
def test_the_normal_approximation_takes_over_smoothly(level: float) -> None:
    """Just above n = 60 it keeps the level, and gives away less than a quarter of it."""
    n = EXACT_UP_TO + 1
    critical = critical_value(n, level)
    assert 3 / 4 * level < 2.0 * null_distribution(n)[critical] <= level
    assert achieved_level(n, critical) == pytest.approx(level, rel=0.05)


def test_the_golden_vector() -> None:
    """Estimate .0085 and interval [.0020, .0140] of the acceptance test, confidence 95.8 %."""
    interval = signed_rank_interval(GOLDEN, 0.05)
    assert (interval.estimate, interval.low, interval.high) == pytest.approx(
        (0.0085, 0.0020, 0.0140), abs=1e-9
    )
    assert interval.confidence == pytest.approx(0.9575, abs=1e-4)


def test_the_interval_inverts_the_test() -> None:
    """Shifts just inside the bounds keep p above the level, just outside they do not."""
    rng = np.random.default_rng(5)
    for n in (8, 13, 25):
        values = rng.standard_normal(n)
        interval = signed_rank_interval(values, 0.05)
        for bound, outward in ((interval.low, -1e-9), (interval.high, 1e-9)):
            inside = reference.wilcoxon(values - bound + outward, method="exact").pvalue
            outside = reference.wilcoxon(values - bound - outward, method="exact").pvalue
            assert outside <= 0.05 < inside


def test_centres_of_columns() -> None:
    """Each column's centre is the median of all its Walsh averages, and the interval's too."""
    values = np.random.default_rng(6).standard_normal((11, 3))
    centres = hodges_lehmann_centres(values)
    for column, centre in zip(values.T, centres, strict=True):
        walsh = [*column, *((a + b) / 2 for a, b in combinations(column, 2))]
        assert centre == pytest.approx(np.median(walsh))
        assert signed_rank_interval(column, 0.1).estimate == pytest.approx(centre)


def test_long_campaigns_need_no_cached_indices() -> None:
    """Above 200 blocks, where index tables are not kept, the estimate is the same median."""
    values = np.random.default_rng(7).standard_normal(230)
    rows, columns = np.triu_indices(230)
    expected = np.median((values[rows] + values[columns]) / 2)
    assert signed_rank_interval(values, 0.05).estimate == pytest.approx(expected)


def test_levels_out_of_reach_leave_the_bounds_open() -> None:
    """Five blocks cannot bound at 5 %; the estimate is still there, the confidence is 1."""
    interval = signed_rank_interval(np.arange(5.0), 0.05)
    assert (interval.low, interval.high) == (-np.inf, np.inf)
    assert not interval.bounded
    assert interval.estimate == 2.0
    assert interval.confidence == 1.0


@pytest.mark.parametrize(("values", "level"), [([], 0.05), ([1.0], 0.0), ([1.0], 1.0)])
def test_impossible_requests(values: list[float], level: float) -> None:
    """No contrast, or a level that is none, is refused."""
    with pytest.raises(ValueError, match="no interval"):
        signed_rank_interval(np.array(values), level)


@given(values=samples)
def test_swapping_the_arms_mirrors_the_interval(values: np.ndarray) -> None:
    """Negated contrasts give the negated interval."""
    one, other = signed_rank_interval(values, 0.1), signed_rank_interval(-values, 0.1)
    assert (one.estimate, one.low, one.high) == (-other.estimate, -other.high, -other.low)


@given(values=samples, shift=st.floats(-5, 5), scale=st.floats(0.01, 100))
def test_units_and_effects_move_the_interval_with_them(
    values: np.ndarray, shift: float, scale: float
) -> None:
    """A shift shifts the interval and a scale scales it."""
    one = signed_rank_interval(values, 0.1)
    other = signed_rank_interval(values * scale + shift, 0.1)
    for name in ("estimate", "low", "high"):
        expected = getattr(one, name) * scale + shift
        assert getattr(other, name) == pytest.approx(expected, abs=1e-6)


@given(values=samples)
def test_a_smaller_level_gives_no_narrower_interval(values: np.ndarray) -> None:
    """Bounds only move outward, and the achieved confidence keeps its promise."""
    wide, narrow = signed_rank_interval(values, 0.01), signed_rank_interval(values, 0.1)
    assert wide.low <= narrow.low <= narrow.estimate <= narrow.high <= wide.high
    assert wide.confidence >= 0.99
    assert narrow.confidence >= 0.9


@pytest.mark.parametrize("kind", ["normal", "ties", "skewed"])
def test_many_values_give_what_all_their_pairs_give(kind: str) -> None:
    """Above a thousand values the places are found by bisection: the same bounds, centre and p."""
    generator = np.random.default_rng(7)
    values = generator.normal(0.001, 0.02, 1203)
    if kind == "ties":
        values = np.round(values, 2)
    if kind == "skewed":
        values = np.exp(40.0 * values) - 1.0
    first, second = np.triu_indices(len(values))
    averages = np.sort((values[first] + values[second]) / 2.0)
    found = signed_rank_interval(values, 0.05)
    critical = critical_value(len(values), 0.05)
    assert found.low == pytest.approx(averages[critical], rel=1e-12)
    assert found.high == pytest.approx(averages[-1 - critical], rel=1e-12)
    assert found.estimate == pytest.approx(np.median(averages), rel=1e-12)
    both = hodges_lehmann_centres(np.column_stack([values, -values]))
    assert both == pytest.approx([np.median(averages), -np.median(averages)], rel=1e-12)
    assert float(hodges_lehmann_centres(values)) == pytest.approx(both[0])
    beyond = min((averages <= 0.0).sum(), (averages >= 0.0).sum())
    p_value = signed_rank_p_value(values)
    assert p_value == min(achieved_level(len(values), int(beyond)), 1.0)
