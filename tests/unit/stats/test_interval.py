"""Intervals over blocks and between servers: which method when, and that they hold."""

import numpy as np
import pytest
from chance import highest_rate, lowest_rate
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats as reference

from steelyard.stats.factorial import pooled_contrasts
from steelyard.stats.intervals import (
    SIGNED_RANK_FROM,
    block_interval,
    mean_p_value,
    median_interval,
    plain_median_interval,
    ranked_median_interval,
    robust_variation,
    signed_rank_interval,
    student_interval,
    welch_interval,
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


blocks_of_cells = arrays(
    np.float64,
    st.tuples(st.integers(2, 12), st.integers(1, 7)),
    elements=st.floats(-1.0, 1.0, width=32),
)


def test_it_estimates_the_mean_over_cells() -> None:
    """Also when the effect depends on the load: no noise, no error."""
    effects = np.array([0.0, 0.02, 0.03, 0.05, 0.10])
    pooled = pooled_contrasts(np.tile(effects, (8, 1)))
    assert pooled == pytest.approx(np.full(8, effects.mean()))


def test_a_stalled_slice_does_not_spoil_its_block() -> None:
    """A slice at a tenth of its speed moves its block by a tenth of what it moves the mean."""
    contrasts = 0.02 * np.random.default_rng(1).standard_normal((12, 5))
    stalled = contrasts.copy()
    stalled[4, 2] += np.log(0.1)
    moved = np.abs(pooled_contrasts(stalled) - pooled_contrasts(contrasts))
    assert moved.max() < 0.1 * abs(np.log(0.1)) / 5


def test_a_single_cell_is_its_own_result() -> None:
    """Nothing is centred, so nothing is stretched."""
    contrasts = np.random.default_rng(2).standard_normal((9, 1))
    assert (pooled_contrasts(contrasts) == contrasts[:, 0]).all()


def test_three_cells_are_averaged_four_are_trimmed() -> None:
    """With fewer than four cells an outlier counts, with four it is dropped."""
    contrasts = np.zeros((9, 4))
    contrasts[0, 0] = 1.0
    assert pooled_contrasts(contrasts[:, :3])[0] == pytest.approx(np.sqrt(9 / 8) / 3)
    assert pooled_contrasts(contrasts)[0] == 0.0


def test_one_block_is_the_mean_of_its_cells() -> None:
    """A single block has nothing to stretch by."""
    assert pooled_contrasts(np.array([[0.1, 0.2, 0.6]])) == pytest.approx([0.3])


@pytest.mark.parametrize("shape", [(0, 5), (5, 0)])
def test_nothing_to_pool(shape: tuple[int, int]) -> None:
    """No block or no cell is refused."""
    with pytest.raises(ValueError, match="nothing to pool"):
        pooled_contrasts(np.empty(shape))


@pytest.mark.parametrize("blocks", [8, 15, 30])
def test_identical_systems_are_told_apart_at_the_level_only(blocks: int) -> None:
    """Pooled over five cells with one slice in fifty stalled, at most 5 % at level 4.5 %."""
    campaigns = 1500
    rng = np.random.default_rng([3, blocks])
    slices = 0.03 * rng.standard_normal((campaigns, blocks, 5, 2))
    slices += np.where(rng.random(slices.shape) < 0.02, np.log(0.4), 0.0)
    contrasts = slices[..., 1] - slices[..., 0] + 0.02 * rng.standard_normal((campaigns, blocks, 1))
    found = [block_interval(pooled_contrasts(sample), 0.045) for sample in contrasts]
    wrong = np.mean([interval.low > 0.0 or interval.high < 0.0 for interval in found])
    assert wrong <= highest_rate(0.05, campaigns)


@given(contrasts=blocks_of_cells, shift=st.floats(-5, 5), scale=st.floats(0.01, 100))
def test_shift_and_scale_go_through(contrasts: np.ndarray, shift: float, scale: float) -> None:
    """Pooling a shifted and scaled array shifts and scales the pooled contrasts."""
    expected = pooled_contrasts(contrasts) * scale + shift
    assert pooled_contrasts(contrasts * scale + shift) == pytest.approx(expected, abs=1e-6)


@given(contrasts=blocks_of_cells)
def test_swapping_the_arms_changes_the_sign(contrasts: np.ndarray) -> None:
    """Negated cells give the negated result."""
    assert pooled_contrasts(-contrasts) == pytest.approx(-pooled_contrasts(contrasts), abs=1e-12)


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
