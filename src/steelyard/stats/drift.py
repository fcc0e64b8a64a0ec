"""How the level of a machine moves over hours: a random walk and a trend (METHOD 3.11)."""

from dataclasses import dataclass

import numpy as np

from steelyard.stats import special
from steelyard.stats.confidence import FloatArray, Interval

LEAST_BLOCKS = 6  # a guess: below, the likelihood is flat
_LEVEL = 0.05
_CUT = 1.92  # log likelihood below its top: 95 % for one parameter (chi-squared, 1 degree)
_MOST_GROUPS = 80  # the decomposition grows with the cube of the blocks
_POINTS = 61
_TREND_DEGREES = 3  # few, because the drift is badly known; the coverage is simulated
_SMALL = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How the level moves, in ln(tps).

    Attributes:
        walk_sd: Deviation of the random walk after one hour, 95 % by profile likelihood.
        trend_per_h: Slope per hour with an interval of 95 % that allows for the walk.
        block_sd: Of a block's level about the walk.
    """

    walk_sd: Interval
    trend_per_h: Interval
    block_sd: float


def drift_of(levels: FloatArray, hours: FloatArray) -> Drift:
    """Return the random walk and the trend behind the levels of blocks.

    The levels are a line, a random walk and independent noise; deviations come from the residual
    likelihood (REML) on a grid, so that the line costs no bias.

    Args:
        levels: Shape (n,), ln(1/s), one per block, not sorted, n >= 6.
        hours: Shape (n,), their times, rising.

    Returns:
        Deviations of ln(tps) after one hour. The bounds of the walk begin at 0 where no walk is
        as likely.

    Raises:
        ValueError: Fewer than 6 blocks, or the times do not rise.

    Source:
        Patterson & Thompson (1971), Biometrika 58, for the residual likelihood; local level
        model of Harvey (1989), "Forecasting, structural time series models".
    """
    if len(levels) < LEAST_BLOCKS or np.any(np.diff(hours) <= 0.0):
        raise ValueError(f"no drift from {len(levels)} blocks")
    levels, hours = _grouped(levels), _grouped(hours)
    lines = np.stack([np.ones_like(hours), hours - hours.mean()], axis=1)
    walk = np.minimum.outer(hours, hours) - hours[0]
    residual, spread = _free_of_lines(levels, lines, walk)
    walks, noises, likelihood = _likelihood(residual, spread)
    top = np.unravel_index(int(likelihood.argmax()), likelihood.shape)
    likely = walks[likelihood.max(axis=1) >= likelihood[top] - _CUT]
    walk_sd, block_sd = float(walks[top[0]]), float(noises[top[1]])
    return Drift(
        walk_sd=Interval(
            estimate=walk_sd,
            low=float(likely.min()),
            high=float(likely.max()),
            confidence=1.0 - _LEVEL,
        ),
        trend_per_h=_trend(levels, lines, walk_sd**2 * walk, block_sd**2),
        block_sd=block_sd,
    )


def _grouped(values: FloatArray) -> FloatArray:
    """Return the means of successive blocks, where there are too many for the decomposition."""
    size = -(-len(values) // _MOST_GROUPS)
    whole = len(values) // size * size
    return np.asarray(values[:whole].reshape(-1, size).mean(axis=1))


def _free_of_lines(
    levels: FloatArray, lines: FloatArray, walk: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return contrasts of the levels that no line changes, and what a unit walk adds to each.

    They are chosen so that they are independent whatever the two variances are.
    """
    basis = np.linalg.qr(lines, mode="complete")[0][:, lines.shape[1] :]
    spread, turn = np.linalg.eigh(basis.T @ walk @ basis)
    return np.asarray(turn.T @ (basis.T @ levels)), np.asarray(np.maximum(spread, 0.0))


def _likelihood(
    residual: FloatArray, spread: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the grids of both deviations and the log likelihood, shape (walks, noises)."""
    size = max(float(residual.std()), _SMALL)
    grid = size * np.geomspace(1e-3, 3.0, _POINTS)
    walks = np.concatenate([[0.0], grid / np.sqrt(max(float(np.median(spread)), _SMALL))])
    noises = grid
    variance = walks[:, None, None] ** 2 * spread + noises[None, :, None] ** 2
    likelihood = -0.5 * (np.log(variance) + residual**2 / variance).sum(axis=2)
    return walks, noises, likelihood


def _trend(
    levels: FloatArray, lines: FloatArray, walk: FloatArray, noise_variance: float
) -> Interval:
    """Return the least-squares slope, its error from the walk and the noise that were found."""
    weights = lines[:, 1] / (lines[:, 1] ** 2).sum()
    slope = float(weights @ levels)
    variance = float(weights @ walk @ weights + noise_variance * (weights**2).sum())
    reach = -float(special.stdtrit(_TREND_DEGREES, _LEVEL / 2.0)) * float(np.sqrt(variance))
    return Interval(estimate=slope, low=slope - reach, high=slope + reach, confidence=1.0 - _LEVEL)
