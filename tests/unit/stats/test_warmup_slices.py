"""Warm-up: its length from calibration runs, and its trace in a campaign."""

import numpy as np
import pytest
from chance import highest_rate, lowest_rate

from steelyard.stats.drift import position_slope, residual_loss, settled_after_s


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
