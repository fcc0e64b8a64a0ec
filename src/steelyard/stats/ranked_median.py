"""The median of a sample that may be skewed or full of ties, between two of its own values."""

import numpy as np

from steelyard.stats import special
from steelyard.stats.confidence import FloatArray, Interval


def ranked_median_interval(values: FloatArray, level: float) -> Interval:
    """Return the median with bounds that hold for any distribution: two values of the sample.

    Args:
        values: Shape (n,), any unit, independent, n >= 1.
        level: Two-sided error level, between 0 and 1.

    Returns:
        Same unit; confidence at least 1 - level, or infinite bounds where n is too small for it:
        below 6 at 5 %.

    Raises:
        ValueError: There is no value.

    Source:
        The binomial count of values below the median; Hahn and Meeker (1991), "Statistical
        Intervals", 5.2.
    """
    n = len(values)
    if n < 1:
        raise ValueError("a median needs at least one value")
    ordered = np.sort(values)
    # So many values may be cut off at each end: P(X <= cut) of n fair coins is level / 2 at most.
    cut = int(np.searchsorted(special.bdtr(np.arange(n), n, 0.5), level / 2, side="right")) - 1
    median = float(np.median(ordered))
    if cut < 0:
        return Interval(estimate=median, low=-np.inf, high=np.inf, confidence=1.0)
    return Interval(
        estimate=median,
        low=float(ordered[cut]),
        high=float(ordered[n - 1 - cut]),
        confidence=1.0 - 2.0 * float(special.bdtr(cut, n, 0.5)),
    )
