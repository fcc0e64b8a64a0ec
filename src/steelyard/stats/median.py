"""The level of one cell: the median of its runs, with an interval over blocks."""

import numpy as np

from steelyard.stats.confidence import FloatArray, Interval
from steelyard.stats.signed_rank import signed_rank_interval

BOUNDED_FROM = 6
LEVEL = 0.05


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
