"""The level of one cell: the median of its runs, with an interval over blocks."""

import numpy as np

from steelyard.stats.confidence import FloatArray, Interval
from steelyard.stats.signed_rank import signed_rank_interval

BOUNDED_FROM = 6
LEVEL = 0.05
_VARIATION_FROM = 3
_MAD_TO_DEVIATION = 1.4826  # median absolute deviation to standard deviation, normal values


def median_interval(values: FloatArray) -> Interval:
    """Return the median with the signed-rank interval at 95 %.

    A description of one arm, never a comparison: blocks share drift, so the arms' intervals say
    nothing about their difference. Computed on logarithms, where noise is symmetric.

    Args:
        values: Shape (n,), > 0, any unit, one value per block, n >= 1.

    Returns:
        Same unit; confidence at least 0.95, infinite bounds below 6 blocks, where signed ranks
        cannot reach it. The interval belongs to the Hodges-Lehmann centre, which a skewed sample
        puts beside the median; it is widened where needed so that it holds the median.

    Raises:
        ValueError: There is no value, or one is not positive.
    """
    if len(values) < 1 or bool((values <= 0.0).any()):
        raise ValueError("a median of rates needs at least one value, all positive")
    median = float(np.median(values))
    ranks = signed_rank_interval(np.log(values), LEVEL)
    return Interval(
        estimate=median,
        low=min(median, float(np.exp(ranks.low))) if np.isfinite(ranks.low) else -np.inf,
        high=max(median, float(np.exp(ranks.high))),
        confidence=ranks.confidence,
    )


def plain_median_interval(values: FloatArray) -> Interval:
    """Return the median with the signed-rank interval at 95 %, of values that may be 0 or below.

    The same description as ``median_interval``, without the logarithm.

    Args:
        values: Shape (n,), any unit and sign, one value per block, n >= 1.

    Returns:
        Same unit; confidence at least 0.95, infinite bounds below 6 blocks; widened where needed
        so that it holds the median.

    Raises:
        ValueError: There is no value.
    """
    ranks = signed_rank_interval(values, LEVEL)
    median = float(np.median(values))
    return Interval(
        estimate=median,
        low=min(median, ranks.low),
        high=max(median, ranks.high),
        confidence=ranks.confidence,
    )


def robust_variation(values: FloatArray) -> float | None:
    """Return the coefficient of variation from the median absolute deviation.

    Args:
        values: Shape (n,), any unit, one value per block, n >= 3.

    Returns:
        A fraction: 1.4826 times the median absolute deviation over the size of the median, which
        for normal values is their coefficient of variation; None below 3 values or where the
        median is 0.

    Source:
        Hampel (1974), "The influence curve and its role in robust estimation", JASA 69.
    """
    if len(values) < _VARIATION_FROM:
        return None
    median = float(np.median(values))
    if not median:
        return None
    return float(_MAD_TO_DEVIATION * np.median(np.abs(values - median)) / abs(median))
