"""The level of one cell: the median of its runs, with an interval over blocks.

The median of a sample that may be skewed or full of ties, between two of its own values.

The delete-one-block jackknife: an interval for anything that is computed from whole blocks.

Whether a sample drawn by chance is as large as it should be.
"""

import numpy as np

from steelyard.stats import special
from steelyard.stats.signed_rank import signed_rank_interval
from steelyard.stats.student import FloatArray, Interval

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


def jackknife_half_width(whole: FloatArray, without_one: FloatArray, level: float) -> FloatArray:
    """Return half the width of the intervals around estimates from all blocks.

    Args:
        whole: Shape (q,), the estimates from all n blocks, any unit on which they are about
            symmetric (take logarithms of ratios and rates).
        without_one: Shape (n, q), n >= 2: the same estimates, each row without one block.
        level: Two-sided error level, between 0 and 1.

    Returns:
        Shape (q,), same unit; the interval ``whole`` plus and minus this has about 1 - level for
        smooth estimates of independent blocks. Pseudo-values with t of n - 1 degrees; the
        variance divides by n - 1.

    Raises:
        ValueError: Fewer than two blocks, or the level is not between 0 and 1.

    Source:
        Quenouille (1956) and Tukey (1958); METHOD 6 prefers it to the bootstrap over blocks, which
        covers too little.
    """
    n = len(without_one)
    if n < 2 or not 0.0 < level < 1.0:
        raise ValueError(f"no jackknife from {n} blocks at level {level:g}")
    pseudo = n * whole - (n - 1) * without_one
    error = pseudo.std(axis=0, ddof=1) / np.sqrt(n)
    return np.asarray(-float(special.stdtrit(n - 1, level / 2.0)) * error)


def chance_of_so_few(found: int, *, of: int, share: float) -> float:
    """Return the chance that so few or fewer are drawn, each alone with the same probability.

    Args:
        found: How many were drawn, at least 0.
        of: From how many; not fewer than were found.
        share: Probability of each, above 0 and at most 1.

    Returns:
        P(X <= found) of a binomial X: exact, so that a rule that accuses below a level is wrong at
        most at that level.
    """
    return float(special.bdtr(found, of, share))
