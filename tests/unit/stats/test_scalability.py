"""The scalability law: what it fits, what it says when it does not, and how sure it is."""

import numpy as np
import pytest
from chance import highest_rate, lowest_rate

from steelyard.stats.scalability import (
    FARTHEST_PEAK,
    Law,
    fit_law,
    fit_scalability,
    fitted_curve,
    levelled,
)

CLIENTS = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0])
FALLING = Law(log_gamma=float(np.log(900.0)), alpha=0.03, beta=1e-3)
RISING = Law(log_gamma=float(np.log(900.0)), alpha=0.05, beta=0.0)


def taken(law: Law, blocks: int, sd: float, seed: int | tuple[int, ...] = 1) -> np.ndarray:
    """Return log throughput with noise per run, and a level of its own for each block."""
    rng = np.random.default_rng(seed)
    level = 0.1 * rng.standard_normal((blocks, 1))
    return law.log_rate(CLIENTS) + level + sd * rng.standard_normal((blocks, len(CLIENTS)))


def test_the_law_is_the_textbook_formula() -> None:
    """The rate is gamma N / (1 + alpha (N - 1) + beta N (N - 1)), highest at N*."""
    expected = 900.0 * 10 / (1 + 0.03 * 9 + 1e-3 * 10 * 9)
    assert np.exp(FALLING.log_rate(np.array([10.0])))[0] == pytest.approx(expected)
    assert FALLING.peak_clients == pytest.approx(np.sqrt(0.97 / 1e-3))
    around = FALLING.log_rate(FALLING.peak_clients * np.array([0.95, 1.0, 1.05]))
    assert np.argmax(around) == 1


def test_an_exact_curve_is_found_again() -> None:
    """Without noise the parameters come back, and nothing is missed."""
    law = fit_law(CLIENTS, FALLING.log_rate(CLIENTS))
    assert law.alpha == pytest.approx(0.03, rel=1e-5)
    assert law.beta == pytest.approx(1e-3, rel=1e-5)
    fit = fit_scalability(CLIENTS, np.tile(FALLING.log_rate(CLIENTS), (6, 1)), 0.05)
    assert fit.max_error == pytest.approx(0.0, abs=1e-6)
    assert fit.lack_of_fit_p == 1.0
    assert fit.peak_in_range


def test_a_curve_that_rises_to_the_end_has_no_peak() -> None:
    """Without coherency N* is beyond every load, beta is 0 and has no upper bound."""
    fit = fit_scalability(CLIENTS, np.tile(RISING.log_rate(CLIENTS), (6, 1)), 0.05)
    assert not fit.peak_in_range
    assert fit.peak_clients.estimate == pytest.approx(FARTHEST_PEAK)
    assert (fit.beta.estimate, fit.beta.low, fit.beta.high) == (0.0, 0.0, np.inf)
    assert fit.alpha.estimate == pytest.approx(0.05, rel=1e-3)


def test_a_coherency_near_none_has_a_sober_interval() -> None:
    """Where some fits see no coherency, its interval is not that of a logarithm, over decades."""
    faint = Law(log_gamma=FALLING.log_gamma, alpha=0.3, beta=2e-5)
    wide = [fit_scalability(CLIENTS, taken(faint, 7, 0.2, seed), 0.05) for seed in range(20)]
    bounded = [fit for fit in wide if np.isfinite(fit.beta.high)]
    assert any(fit.beta.low == 0.0 for fit in bounded)
    assert all(fit.beta.high < 0.1 for fit in bounded)
    assert all(fit.beta.low <= fit.beta.estimate <= fit.beta.high for fit in wide)


def test_a_peak_without_an_upper_bound_says_so() -> None:
    """Where blocks cannot tell a far peak from none, N* has no upper bound, not a huge one."""
    faint = Law(log_gamma=FALLING.log_gamma, alpha=0.3, beta=3e-4)
    fits = [fit_scalability(CLIENTS, taken(faint, 7, 0.2, seed), 0.05) for seed in range(20)]
    highs = [fit.peak_clients.high for fit in fits]
    assert any(np.isinf(high) for high in highs)
    assert all(high < FARTHEST_PEAK or np.isinf(high) for high in highs)


def test_a_line_that_no_law_bends_like_does_not_fit() -> None:
    """More than twice the throughput from twice the clients contradicts any law, exactly seen."""
    bent = RISING.log_rate(CLIENTS) + np.array([-0.3, 0.0, 0.0, 0.0, 0.0, 0.0, 0.3])
    fit = fit_scalability(CLIENTS, np.tile(bent, (6, 1)), 0.05)
    assert fit.max_error > 0.05
    assert fit.lack_of_fit_p == 0.0


def test_the_level_of_a_block_does_not_matter() -> None:
    """A block on a machine half as fast says the same about the shape."""
    quiet = taken(FALLING, 8, 0.01)
    moved = quiet + np.linspace(-0.7, 0.7, 8)[:, None]
    first, second = (fit_scalability(CLIENTS, y, 0.05) for y in (quiet, moved))
    assert first.alpha.estimate == pytest.approx(second.alpha.estimate, abs=1e-6)
    assert first.beta.high == pytest.approx(second.beta.high, rel=1e-4)


def test_one_stalled_slice_counts_as_a_slow_one() -> None:
    """A slice at a tenth is pulled in to three robust deviations, and the rest stays."""
    y = taken(FALLING, 12, 0.01)
    stalled = y.copy()
    stalled[5, 3] += np.log(0.1)
    assert np.abs(levelled(stalled)[5, 3] - levelled(y)[5, 3]) < 0.1
    others = np.arange(len(CLIENTS)) != 3
    assert levelled(stalled)[4][others] == pytest.approx(levelled(y)[4][others], abs=0.02)


def test_the_curve_passes_through_its_own_estimates() -> None:
    """At N* the drawn curve is the peak's rate, and its band holds the curve everywhere."""
    fit = fit_scalability(CLIENTS, taken(FALLING, 10, 0.02), 0.05)
    at = np.array([1.0, fit.peak_clients.estimate, 64.0])
    points = fitted_curve(fit, at, 0.05)
    assert points[1].estimate == pytest.approx(fit.peak_rate.estimate)
    assert all(point.low < point.estimate < point.high for point in points)


@pytest.mark.parametrize(("blocks", "loads"), [(2, 7), (8, 3)])
def test_too_little_is_refused(blocks: int, loads: int) -> None:
    """Two blocks or three loads say nothing about fit or certainty."""
    with pytest.raises(ValueError, match=f"{blocks} blocks of {loads} loads"):
        fit_scalability(CLIENTS[:loads], np.zeros((blocks, loads)), 0.05)
    with pytest.raises(ValueError, match="2 loads"):
        fit_law(CLIENTS[:2], np.zeros(2))


@pytest.mark.slow
def test_the_intervals_cover_and_the_fit_is_believed() -> None:
    """95 % intervals of alpha, beta and N* cover, and a true law is rejected in 7 % or less.

    The curve's band covers the shape: its height against the mean of the loads, which is what the
    blocks can tell once their own level is removed. Seven loads: an odd number has a middle one.
    """
    campaigns, at = 200, np.array([2.0, 16.0, 64.0])
    truth = FALLING.alpha, FALLING.beta, FALLING.peak_clients
    shape = FALLING.log_rate(at) - FALLING.log_rate(CLIENTS).mean()
    covered, band, rejected = np.zeros(3), np.zeros(3), 0
    for seed in range(campaigns):
        y = taken(FALLING, 10, 0.03, (5, seed))
        fit = fit_scalability(CLIENTS, y, 0.05)
        found = fit.alpha, fit.beta, fit.peak_clients
        covered += [f.low <= t <= f.high for f, t in zip(found, truth, strict=True)]
        curve = np.array([[p.low, p.high] for p in fitted_curve(fit, at, 0.05)])
        low, high = (np.log(curve) - levelled(y).mean()).T
        band += (low <= shape) & (shape <= high)
        rejected += fit.lack_of_fit_p < 0.05
    assert (covered / campaigns >= lowest_rate(0.95, campaigns)).all()
    assert (band / campaigns >= lowest_rate(0.95, campaigns)).all()
    assert rejected / campaigns <= highest_rate(0.07, campaigns)
