"""Student's t: the interval of the first looks, and the p value of a mean."""

from functools import lru_cache

import numpy as np

from steelyard.stats import special
from steelyard.stats.confidence import FloatArray, Interval


def student_interval(contrasts: FloatArray, level: float) -> Interval:
    """Return the mean with its t interval.

    Args:
        contrasts: Shape (n,), n >= 2, any unit: one paired difference per block.
        level: Two-sided error level, between 0 and 1.

    Returns:
        Same unit; confidence is 1 - level for normal contrasts, more when a few are stalled.

    Raises:
        ValueError: Fewer than two contrasts, or the level is not between 0 and 1.

    Source:
        Student (1908), "The probable error of a mean"; the variance divides by n - 1.
    """
    n = len(contrasts)
    if n < 2 or not 0.0 < level < 1.0:
        raise ValueError(f"no t interval from {n} contrasts at level {level:g}")
    mean = float(contrasts.mean())
    half = _quantile(n - 1, level) * _standard_error(contrasts)
    return Interval(estimate=mean, low=mean - half, high=mean + half, confidence=1.0 - level)


def mean_p_value(values: FloatArray) -> float:
    """Return the two-sided p value of a mean of zero.

    Args:
        values: Shape (n,), n >= 2, any unit, independent.

    Returns:
        Between 0 and 1; for equal values 0, or 1 when all are zero.

    Raises:
        ValueError: Fewer than two values.

    Source:
        One-sample t test with n - 1 degrees of freedom; the variance divides by n - 1.
    """
    n = len(values)
    if n < 2:
        raise ValueError(f"no t test from {n} values")
    mean, error = float(values.mean()), _standard_error(values)
    if error == 0.0:
        return 1.0 if mean == 0.0 else 0.0
    return float(2.0 * special.stdtr(n - 1, -abs(mean) / error))


def _standard_error(values: FloatArray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


@lru_cache(maxsize=4096)
def _quantile(degrees: int, level: float) -> float:
    """Return the upper level / 2 quantile of t."""
    return -float(special.stdtrit(degrees, level / 2.0))
