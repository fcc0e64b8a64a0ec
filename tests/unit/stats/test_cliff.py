"""Runs over time: lasting drops, windows, drift, warm-up and stalled slices."""

import numpy as np
import pytest
from chance import highest_rate, lowest_rate
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import fisher_exact

from steelyard.stats.capacity import LEAST_S, consistency, scan_for_cliff
from steelyard.stats.drift import (
    drift_of,
    position_slope,
    residual_loss,
    settled_after_s,
    stalled_slices,
    stalls_p_value,
)
from steelyard.stats.intervals import FloatArray

SECONDS = 900


def series(seed: int = 1, sd: float = 0.05) -> np.ndarray:
    """Return a steady run of 15 minutes at 1000/s with noise that hangs together."""
    rng = np.random.default_rng(seed)
    noise = np.convolve(rng.standard_normal(SECONDS + 2), np.ones(3) / np.sqrt(3), "valid")
    return np.asarray(1000.0 * np.exp(sd * noise))


def test_an_emptied_bucket_is_measured() -> None:
    """A drop to 600/s at 300 s: its time, both rates, and a bucket of 120 000 transactions."""
    rates = series()
    rates[300:] *= 0.6
    scan = scan_for_cliff(rates)
    assert scan.found
    assert scan.at_low_s <= 300.0 <= scan.at_high_s
    assert scan.at_high_s - scan.at_low_s <= 40.0
    assert scan.drop == pytest.approx(0.4, abs=0.02)
    assert scan.sustained == pytest.approx(600.0, rel=0.02)
    assert scan.least_capacity == pytest.approx(120_000.0, rel=0.1)
    assert scan.refill_s == pytest.approx(200.0, rel=0.1)
    assert not scan.late


def test_a_steady_run_has_none() -> None:
    """Noise alone is no cliff, over fifty runs."""
    assert not any(scan_for_cliff(series(seed)).found for seed in range(50))


@pytest.mark.parametrize(("before", "after"), [(3.0, 0.3), (2.0, 0.8), (0.8, 0.2)])
def test_a_slow_workload_has_the_rate_that_it_has(before: float, after: float) -> None:
    """Of whole numbers of a second the medians were 1, exactly so, whatever the rate fell to."""
    rng = np.random.default_rng(1)
    scans = [
        scan_for_cliff(np.r_[rng.poisson(before, 400), rng.poisson(after, 500)].astype(float))
        for _ in range(50)
    ]
    found = [scan for scan in scans if scan.found]
    assert len(found) >= 45
    assert np.median([scan.sustained for scan in found]) == pytest.approx(after, rel=0.1)
    held = [scan.sustained_bounds[0] <= after <= scan.sustained_bounds[1] for scan in found]
    assert np.mean(held) >= 0.7
    steady = [scan_for_cliff(rng.poisson(after, SECONDS).astype(float)) for _ in range(50)]
    assert sum(scan.found for scan in steady) <= 2


def test_a_rise_is_no_cliff() -> None:
    """Warming up is the opposite."""
    rates = series()
    rates[:300] *= 0.6
    scan = scan_for_cliff(rates)
    assert not scan.found


def test_a_dip_that_ends_is_no_cliff() -> None:
    """A neighbour of four minutes goes away again."""
    rates = series()
    rates[400:640] *= 0.6
    assert not scan_for_cliff(rates).found


def test_a_drop_that_was_there_before_is_no_cliff() -> None:
    """What comes and goes is no bucket, even when it ends low."""
    rates = series()
    rates[100:340] *= 0.6
    rates[640:] *= 0.6
    assert not scan_for_cliff(rates).found


def test_a_small_drop_is_not_worth_a_word() -> None:
    """Eight percent, however sure, is below the ten that count."""
    rates = series(sd=0.01)
    rates[300:] *= 0.92
    scan = scan_for_cliff(rates)
    assert scan.z > 4.5
    assert not scan.found


def test_a_late_drop_asks_for_a_longer_run() -> None:
    """A split in the last quarter is marked, found or not."""
    rates = series()
    rates[800:] *= 0.5
    assert scan_for_cliff(rates).late


def test_a_short_run_is_refused() -> None:
    """A run of 139 s cannot show a cliff, and nobody may take silence for steadiness."""
    with pytest.raises(ValueError, match="139 s"):
        scan_for_cliff(series()[: LEAST_S - 1])
    assert not scan_for_cliff(np.full(LEAST_S, 1000.0)).found


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


def levels(
    hours: FloatArray, *, walk: float, trend: float = 0.0, noise: float = 0.01, seed: int = 1
) -> FloatArray:
    """Return levels that walk, rise and scatter."""
    rng = np.random.default_rng(seed)
    steps = rng.standard_normal(len(hours)) * np.sqrt(np.diff(hours, prepend=hours[0]))
    return walk * np.cumsum(steps) + trend * hours + noise * rng.standard_normal(len(hours))


HOUR = np.arange(40) / 40.0


def test_a_walk_is_found_and_is_no_noise() -> None:
    """Ten hours of blocks: the walk within a third, the noise about it likewise."""
    drift = drift_of(levels(HOUR * 10, walk=0.05, noise=0.02), HOUR * 10)
    assert drift.walk_sd.estimate == pytest.approx(0.05, rel=0.33)
    assert drift.block_sd == pytest.approx(0.02, rel=0.5)


def test_a_line_is_a_trend_and_no_walk() -> None:
    """A steady rise of a tenth per hour is found; the walk may be 0."""
    drift = drift_of(levels(HOUR, walk=0.0, trend=0.1, noise=0.002), HOUR)
    assert drift.trend_per_h.low < 0.1 < drift.trend_per_h.high
    assert drift.trend_per_h.low > 0.05
    assert drift.walk_sd.low == 0.0
    assert drift.walk_sd.estimate < 0.01


def test_a_still_machine_does_not_drift() -> None:
    """Equal levels give 0 and no warning."""
    drift = drift_of(np.zeros(12), HOUR[:12])
    assert drift.walk_sd.estimate < 1e-6
    assert drift.trend_per_h.estimate == 0.0


def test_many_blocks_are_grouped() -> None:
    """A thousand blocks cost no more than eighty, and say the same."""
    hours = np.arange(1000) / 100.0
    drift = drift_of(levels(hours, walk=0.05, noise=0.05), hours)
    assert drift.walk_sd.estimate == pytest.approx(0.05, rel=0.33)


def test_the_intervals_cover() -> None:
    """Of 200 hours of 40 blocks, the walk's and the trend's intervals hold nine tenths."""
    found = [drift_of(levels(HOUR, walk=0.04, trend=0.03, seed=seed), HOUR) for seed in range(200)]
    walks = np.mean([each.walk_sd.low <= 0.04 <= each.walk_sd.high for each in found])
    trends = np.mean([each.trend_per_h.low <= 0.03 <= each.trend_per_h.high for each in found])
    assert walks >= lowest_rate(0.93, 200)
    assert trends >= lowest_rate(0.93, 200)


@pytest.mark.parametrize(
    "hours", [np.arange(5) / 10.0, np.array([0.0, 1.0, 1.0, 2.0, 3.0, 4.0, 5.0])]
)
def test_too_little_is_refused(hours: FloatArray) -> None:
    """Fewer than six blocks, or two at one time, have no drift."""
    with pytest.raises(ValueError, match="no drift"):
        drift_of(np.zeros(len(hours)), hours)


def test_a_stall_is_found_in_its_own_cell_and_arm() -> None:
    """A slice at half speed stalls; a slow cell does not."""
    log_tps = 0.01 * np.random.default_rng(1).standard_normal((12, 2, 3))
    log_tps[:, 1, :] -= 2.0
    log_tps[5, 1, 2] += np.log(0.5)
    assert np.argwhere(stalled_slices(log_tps)).tolist() == [[5, 1, 2]]


def test_what_is_no_stall() -> None:
    """Neither a loss below a fifth, nor one within five robust deviations, nor a fast slice."""
    steady = np.zeros(11)
    steady[3], steady[4] = np.log(0.81), np.log(2.0)
    assert not stalled_slices(steady).any()
    noisy = np.linspace(-1.0, 1.0, 11)
    assert not stalled_slices(noisy).any()


@pytest.mark.parametrize("n", [1, 2])
def test_too_few_to_tell(n: int) -> None:
    """Below 3 slices none can be stalled."""
    assert not stalled_slices(np.arange(n) * 10.0).any()


def test_noise_alone_hardly_ever_stalls() -> None:
    """In normal noise of 10 % fewer than one slice in a thousand is called stalled."""
    noise = 0.1 * np.random.default_rng(2).standard_normal((30, 4000))
    assert stalled_slices(noise).mean() < 0.001


def test_equal_arms_are_rarely_told_apart() -> None:
    """With 5 % stalls in both arms, Fisher's test at 5 % rejects in at most 5 % of campaigns."""
    campaigns, slices = 2000, 150
    counts = np.random.default_rng(3).binomial(slices, 0.05, (campaigns, 2))
    p_values = [stalls_p_value((int(a), int(b)), (slices, slices)) for a, b in counts]
    assert np.mean(np.array(p_values) < 0.05) <= highest_rate(0.05, campaigns)


def test_unequal_arms_are_found() -> None:
    """2 against 10 % of 150 slices differ; none against none does not."""
    assert stalls_p_value((3, 15), (150, 150)) < 0.01
    assert stalls_p_value((0, 0), (150, 150)) == 1.0


def test_the_textbook_table() -> None:
    """Fisher's tea: 3 of 4 against 1 of 4 has p = 34/70."""
    assert stalls_p_value((3, 1), (4, 4)) == pytest.approx(34 / 70)


@given(st.data())
def test_every_table_as_scipy_tests_it(data: st.DataObject) -> None:
    """Whatever the numbers of slices and stalls; the sums are exact here and rounded there."""
    slices = tuple(data.draw(st.integers(1, 400)) for _ in range(2))
    stalled = tuple(data.draw(st.integers(0, every)) for every in slices)
    table = [stalled, [every - some for some, every in zip(stalled, slices, strict=True)]]
    ours = stalls_p_value((stalled[0], stalled[1]), (slices[0], slices[1]))
    assert ours == pytest.approx(fisher_exact(np.array(table)).pvalue, rel=1e-6)


def test_more_stalls_than_slices() -> None:
    """An impossible count is refused."""
    with pytest.raises(ValueError, match="stalled of"):
        stalls_p_value((5, 0), (4, 4))


def warming(tau_s: float, restarts: int, noise: float, seed: int = 1) -> np.ndarray:
    """Return 120 s from a start on: 30 % missing at first, gone with ``tau_s``."""
    rng = np.random.default_rng(seed)
    curve = np.log1p(-0.3 * np.exp(-np.arange(120) / tau_s))
    return curve + noise * rng.standard_normal((restarts, 120))


def test_the_cut_lies_where_warming_ends() -> None:
    """After 5 restarts less than a tenth of the loss is left, for short and long warm-ups."""
    for tau_s in (2.0, 5.0, 8.0):
        cut = settled_after_s(warming(tau_s, 5, 0.05))
        assert np.exp(-cut / tau_s) < 0.1
        assert cut % 5 == 0


def test_longer_warmups_get_longer_warm_ups() -> None:
    """The cut follows the time constant, and a steady series gets none."""
    cuts = [settled_after_s(warming(tau_s, 5, 0.02)) for tau_s in (0.1, 3.0, 10.0)]
    assert cuts == sorted(cuts)
    assert cuts[0] <= 5


def test_a_steady_series_is_hardly_cut() -> None:
    """Noise alone costs less than a quarter of the run in most cases, a tenth in the median."""
    rng = np.random.default_rng(8)
    cuts = [settled_after_s(0.05 * rng.standard_normal((5, 120))) for _ in range(400)]
    assert np.median(cuts) <= 12
    assert np.mean(np.array(cuts) < 30) > 0.75


def test_a_series_that_never_settles() -> None:
    """A throughput that rises throughout is cut close to half, as the docstring says."""
    rising = np.linspace(-0.5, 0.0, 120)[None]
    assert settled_after_s(rising) >= 50


def test_short_runs_have_shorter_batches() -> None:
    """Batches of 1 s make a cut possible in 12 s, and give multiples of it."""
    short = np.array([[-0.5, -0.2, -0.05, *[0.0, 0.001, -0.001] * 3]])
    assert settled_after_s(short, batch_s=1) == 3


def test_too_short_a_series() -> None:
    """Less than two batches, or no restart, is refused."""
    with pytest.raises(ValueError, match="no warm-up"):
        settled_after_s(np.zeros((5, 9)))
    with pytest.raises(ValueError, match="no warm-up"):
        settled_after_s(np.zeros((0, 90)))


def test_residual_loss() -> None:
    """What is missing in the 10 s after the warm-up, against the settled rest."""
    stepped = np.where(np.arange(120) < 40, np.log(0.9), 0.0)[None]
    assert residual_loss(stepped, 20) == pytest.approx(0.1)
    assert residual_loss(stepped, 40) == pytest.approx(0.0)
    assert residual_loss(stepped, 90) == pytest.approx(0.0)


def test_unknown_residual_loss() -> None:
    """Fewer than three windows after the warm-up give no answer, not a zero."""
    assert residual_loss(np.zeros((1, 120)), 91) is None
    assert residual_loss(np.zeros((1, 12)), 3, window_s=3) == 0.0
    assert residual_loss(np.zeros((1, 12)), 4, window_s=3) is None


def orders(rng: np.random.Generator, blocks: int, cells: int) -> np.ndarray:
    """Return a random order of the cells for every block."""
    return np.argsort(rng.random((blocks, cells)), axis=1).astype(float)


def test_cells_that_differ_are_no_warmup() -> None:
    """Without noise the slope is zero however the effect depends on the load."""
    rng = np.random.default_rng(4)
    contrasts = np.tile([0.0, 0.02, 0.05, 0.1], (12, 1))
    slope = position_slope(contrasts, orders(rng, 12, 4))
    assert slope.per_position == pytest.approx(0.0, abs=1e-15)
    assert slope.p_value > 0.01


def test_a_slope_is_measured() -> None:
    """A contrast that falls by 1 % per place is found with its size."""
    rng = np.random.default_rng(5)
    positions = orders(rng, 24, 5)
    contrasts = -0.01 * positions + 0.005 * rng.standard_normal((24, 5))
    slope = position_slope(contrasts, positions)
    assert slope.per_position == pytest.approx(-0.01, abs=0.002)
    assert slope.p_value < 1e-6


def test_the_light_seldom_burns_without_cause() -> None:
    """Without unequal warm-up p is below 1 % in 1 % of campaigns, in 5 % below 5 %."""
    campaigns = 3000
    rng = np.random.default_rng(6)
    p_values = np.array(
        [
            position_slope(rng.standard_normal((15, 5)), orders(rng, 15, 5)).p_value
            for _ in range(campaigns)
        ]
    )
    assert np.mean(p_values < 0.01) <= highest_rate(0.01, campaigns)
    assert lowest_rate(0.05, campaigns) <= np.mean(p_values < 0.05)
    assert np.mean(p_values < 0.05) <= highest_rate(0.05, campaigns)


@pytest.mark.parametrize("shape", [(1, 5), (8, 1)])
def test_no_slope(shape: tuple[int, int]) -> None:
    """One block or one cell has no slope."""
    with pytest.raises(ValueError, match="no slope"):
        position_slope(np.zeros(shape), np.zeros(shape))


def test_the_light_is_calibrated_with_several_rounds() -> None:
    """Without any change, at most 5 % and about 5 % are below p = 0.05, cells of unlike effects."""
    rng = np.random.default_rng(12)
    trials, blocks, rounds, cells = 2000, 8, 3, 2
    below = 0
    for _ in range(trials):
        contrasts = 0.02 * rng.standard_normal((blocks, rounds, cells)) + np.array([0.0, 0.3])
        orders = rng.permuted(np.tile(np.arange(cells), (blocks, rounds, 1)), axis=2)
        places = orders + cells * np.arange(rounds)[None, :, None]
        slope = position_slope(
            contrasts.reshape(blocks, -1), places.reshape(blocks, -1).astype(float), rounds=rounds
        )
        below += slope.p_value < 0.05
    assert lowest_rate(0.05, trials) <= below / trials <= highest_rate(0.05, trials)
