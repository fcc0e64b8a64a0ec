"""Warm-up: how long it takes after an activation, and whether it still shows (METHOD 3.7)."""

from dataclasses import dataclass

import numpy as np

from steelyard.stats.confidence import FloatArray
from steelyard.stats.signed_rank import hodges_lehmann_centres
from steelyard.stats.student import mean_p_value

_BATCH_S = 5
_WINDOW_S = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """Change of a log ratio per place in the visit, with its two-sided p value."""

    per_position: float
    p_value: float


def settled_after_s(log_tps: FloatArray, *, batch_s: int = _BATCH_S) -> int:
    """Return after how many seconds the throughput has settled.

    MSER-5: batches of 5 s, cut where the variance of the rest over its number of batches is
    least; the cut is sought in the first half. One restart alone under-discards.

    Args:
        log_tps: Shape (restarts, seconds), ln(1/s), from the activation on, one value per
            second; at least 5 restarts of 90 s for a discard to rely on, least 1 of 2 batches.
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
    log_tps: FloatArray, discard_s: int, *, window_s: int = _WINDOW_S
) -> float | None:
    """Return the share of throughput still missing just after a discard.

    Args:
        log_tps: As for ``settled_after_s``.
        discard_s: Seconds thrown away.
        window_s: Seconds right after the discard that are looked at, 10 unless given.

    Returns:
        1 - (the ``window_s`` after the discard) / (the last half of what remains), geometric
        means over restarts: a fraction, negative when noise says so; None when fewer than three
        windows remain.
    """
    rest = log_tps.mean(axis=0)[discard_s:]
    if len(rest) < 3 * window_s:
        return None
    settled = rest[len(rest) // 2 :].mean()
    return float(-np.expm1(rest[:window_s].mean() - settled))


def position_slope(contrasts: FloatArray, positions: FloatArray, *, rounds: int = 1) -> Slope:
    """Return how the contrast changes with the place in the visit.

    Unequal warm-up makes the first slices of a visit differ from the last. Each cell is first
    centred, since cells may differ; then one least-squares slope per block is the sample. It
    finds a threefold warm-up in half of the campaigns only: a light, no guarantee.

    Args:
        contrasts: Shape (n, rounds * cells), log ratio, paired, n >= 2, at least 2 columns; round
            by round, cells in the same order in each.
        positions: Same shape: the place of each run in the block's visits, all different.
        rounds: How often each cell ran in a visit.

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
