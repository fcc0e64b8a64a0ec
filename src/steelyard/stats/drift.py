"""How a machine's level changes with time: drift over hours, warm-up, and stalled slices.

Drift is a random walk and a trend (METHOD 3.11). The signed-rank interval discounts stalls, so a
change that causes them must show up here (METHOD 3.6). Warm-up is how long it takes after an
start, and whether it still shows (METHOD 3.7).
"""

from dataclasses import dataclass
from math import comb

import numpy as np

from steelyard.stats import special
from steelyard.stats.intervals import (
    BoolArray,
    FloatArray,
    Interval,
    hodges_lehmann_centres,
    mean_p_value,
)

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


_MAD_TO_DEVIATION = 1.4826  # median absolute deviation to standard deviation, normal values
_DEVIATIONS = 5.0
_LEAST_DROP = float(np.log(1.25))


def stalled_slices(log_tps: FloatArray) -> BoolArray:
    """Return which slices fell far below the median of their cell and arm.

    Args:
        log_tps: Shape (n, ...), ln(1/s): the slices of one cell and arm along the first axis,
            n >= 1; further axes are further cells and arms.

    Returns:
        Same shape. A slice is stalled when it is below the median by more than five robust
        standard deviations and by more than ln 1.25. Below 3 slices none can be.

    Source:
        METHOD 3.6.
    """
    median = np.median(log_tps, axis=0)
    deviation = _MAD_TO_DEVIATION * np.median(np.abs(log_tps - median), axis=0)
    return np.asarray(log_tps < median - np.maximum(_DEVIATIONS * deviation, _LEAST_DROP))


def stalls_p_value(stalled: tuple[int, int], slices: tuple[int, int]) -> float:
    """Return the two-sided p value that both arms stall equally often.

    Args:
        stalled: Number of stalled slices of each arm.
        slices: Number of all slices of each arm; slices count as independent.

    Returns:
        Between 0 and 1, conservative.

    Raises:
        ValueError: More slices are stalled than there are.

    Source:
        Fisher's exact test, METHOD 3.6: the share of all tables with these margins that are no
        likelier than the one that was seen. Ours, because importing that of ``scipy.stats`` takes
        longer than the whole analysis of a campaign.
    """
    if any(not 0 <= some <= every for some, every in zip(stalled, slices, strict=True)):
        raise ValueError(f"{stalled} stalled of {slices}")
    ways = _ways(sum(stalled), slices)
    seen = ways[stalled[0]]
    return sum(way for way in ways.values() if way <= seen) / sum(ways.values())


def _ways(stalled: int, slices: tuple[int, int]) -> dict[int, int]:
    """Return in how many ways so many stalls fall, by how many of them fall into the first arm.

    As whole numbers, so that equally likely tables are equal; each follows from the one before.
    """
    first, second = slices
    least, most = max(0, stalled - second), min(stalled, first)
    way = comb(first, least) * comb(second, stalled - least)
    ways = {least: way}
    for count in range(least, most):
        way = way * (first - count) * (stalled - count)
        way //= (count + 1) * (second - stalled + count + 1)
        ways[count + 1] = way
    return ways


_BATCH_S = 5
_WINDOW_S = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """Change of a log ratio per place in the start, with its two-sided p value."""

    per_position: float
    p_value: float


def settled_after_s(log_tps: FloatArray, *, batch_s: int = _BATCH_S) -> int:
    """Return after how many seconds the throughput has settled.

    MSER-5: batches of 5 s, cut where the variance of the rest over its number of batches is
    least; the cut is sought in the first half. One restart alone under-warm-ups.

    Args:
        log_tps: Shape (restarts, seconds), ln(1/s), from the start on, one value per
            second; at least 5 restarts of 90 s for a warm-up to rely on, least 1 of 2 batches.
        batch_s: Seconds per batch, 5 in MSER-5; shorter only for runs too short for ten batches.

    Returns:
        Seconds, a multiple of ``batch_s``. Close to half the series: it may not have settled.

    Raises:
        ValueError: The series is shorter than two batches or there is none.

    Source:
        White (1997), "An effective truncation heuristic for bias reduction in simulation
        output", Simulation 69; variances divide by the number of batches, as in the original.
    """
    restarts, seconds = log_tps.shape
    count = seconds // batch_s
    if count < 2 or restarts < 1:
        raise ValueError(f"no warm-up from {restarts} restarts of {seconds} s")
    mean = log_tps.mean(axis=0)[: count * batch_s]
    batches = mean.reshape(count, batch_s).mean(axis=1)
    scores = [batches[cut:].var() / (count - cut) for cut in range(count // 2)]
    return batch_s * int(np.argmin(scores))


def residual_loss(
    log_tps: FloatArray, warm_up_s: int, *, window_s: int = _WINDOW_S
) -> float | None:
    """Return the share of throughput still missing just after a warm-up.

    Args:
        log_tps: As for ``settled_after_s``.
        warm_up_s: Seconds thrown away.
        window_s: Seconds right after the warm-up that are looked at, 10 unless given.

    Returns:
        1 - (the ``window_s`` after the warm-up) / (the last half of what remains), geometric
        means over restarts: a fraction, negative when noise says so; None when fewer than three
        windows remain.
    """
    rest = log_tps.mean(axis=0)[warm_up_s:]
    if len(rest) < 3 * window_s:
        return None
    settled = rest[len(rest) // 2 :].mean()
    return float(-np.expm1(rest[:window_s].mean() - settled))


_STANDS = 0.01  # the change of ln(1/s) that counts as none, and the level of its interval
_SHOWN = 0.9  # how often a rate that stands shows it, as often as effects that plans promise


def starts_to_see_it_stand(second_sd: float, autocorrelation: float, seconds: int) -> int:
    """Return how many starts of a configuration show that its rate is steady over these seconds.

    A start gives the least-squares slope of ln(1/s) times the seconds. The rate stands if the
    99 % interval of the mean over the starts lies within plus and minus 1 %.

    Args:
        second_sd: Of ln(1/s) of one second within a start.
        autocorrelation: Of successive seconds, lag 1, between -1 and 1.
        seconds: Of each start, at least 2.

    Returns:
        With so many, at least 4, nine of ten samples of a rate that does not change show it. What
        all seconds of a start share does not matter.

    Source:
        Two one-sided tests: Schuirmann (1987), Journal of Pharmacokinetics and Biopharmaceutics 15.
    """
    places = np.arange(seconds)
    weights = places - places.mean()
    weights *= seconds / (weights @ weights)
    alike = autocorrelation ** np.abs(np.subtract.outer(places, places)).astype(np.float64)
    variance = second_sd**2 * float(weights @ alike @ weights)
    half, missed = (float(special.ndtri(1.0 - share / 2.0)) for share in (_STANDS, 1.0 - _SHOWN))
    # The second part: the deviation is not known, so that t bounds the interval.
    return int(np.ceil(variance * ((half + missed) / _STANDS) ** 2 + half**2 / 2.0))


def position_slope(contrasts: FloatArray, positions: FloatArray, *, rounds: int = 1) -> Slope:
    """Return how the contrast changes with the place in the start.

    Unequal warm-up makes the first slices of a start differ from the last. Each cell is first
    centred, since cells may differ; then one least-squares slope per block is the sample. It
    finds a threefold warm-up in half of the campaigns only: a light, no guarantee.

    Args:
        contrasts: Shape (n, rounds * cells), log ratio, paired, n >= 2, at least 2 columns; round
            by round, cells in the same order in each.
        positions: Same shape: the place of each run in the block's starts, all different.
        rounds: How often each cell ran in a start.

    Returns:
        Mean slope over blocks, log ratio per place; p value of a t test with n - 1 degrees.

    Raises:
        ValueError: Too few blocks or cells.

    Source:
        METHOD 3.7.
    """
    blocks, runs = contrasts.shape
    if blocks < 2 or runs < 2:
        raise ValueError(f"no slope from {blocks} blocks of {runs} cells")
    # A cell's centre is that of its mean over the rounds: the change from round to round is sought.
    of_cells = contrasts.reshape(blocks, rounds, -1).mean(axis=1)
    centred = contrasts - np.tile(hodges_lehmann_centres(of_cells), rounds)
    places = positions - positions.mean(axis=1, keepdims=True)
    slopes = (places * centred).sum(axis=1) / (places**2).sum(axis=1)
    return Slope(per_position=float(slopes.mean()), p_value=mean_p_value(slopes))
