"""The signed-rank statistic: its null distribution, and the Hodges-Lehmann centre it inverts to.

Validity comes from the coin of each block: when the treatments do not differ, every contrast is
as likely as its negative whatever the noise looks like, so the sum of positive ranks has the
distribution below exactly. No model of the noise is needed (METHOD 3.3).

The interval of a block design at any number of blocks (METHOD 3.3).

Words for an interval, and how much longer an open question takes (METHOD 3.6).
"""

from functools import lru_cache

import numpy as np

from steelyard.core.findings import Verdict
from steelyard.stats import special
from steelyard.stats.student import FloatArray, Interval, mean_p_value, student_interval

EXACT_UP_TO = 60
_CACHED_UP_TO = 200  # index tables grow with n squared; longer campaigns rebuild theirs


@lru_cache(maxsize=EXACT_UP_TO)
def null_distribution(n: int) -> FloatArray:
    """Return P(T+ <= t) for t = 0 .. n(n+1)/2 when every sign is a fair coin.

    Paired, without ties; exact, by adding one rank at a time: shape (n(n+1)/2 + 1,).

    Source:
        Wilcoxon (1945), "Individual comparisons by ranking methods", Biometrics Bulletin 1.
    """
    density = np.zeros(n * (n + 1) // 2 + 1)
    density[0] = 1.0
    for rank in range(1, n + 1):
        with_rank = np.zeros_like(density)
        with_rank[rank:] = density[:-rank]
        density = (density + with_rank) / 2.0
    cumulative = np.cumsum(density)
    cumulative.setflags(write=False)
    return cumulative


@lru_cache(maxsize=4096)
def critical_value(n: int, level: float) -> int:
    """Return the largest c with P(T+ <= c) <= level / 2, or -1 when even c = 0 is too likely.

    Exact up to n = 60, beyond it the normal approximation with continuity correction. The least
    two-sided level that n pairs can reach is 2^(1-n): 0.03125 for n = 6.
    """
    if n > EXACT_UP_TO:
        mean, deviation = _moments(n)
        return int(np.floor(mean + special.ndtri(level / 2.0) * deviation - 0.5))
    # A level that is meant to be attained exactly must not be lost to rounding.
    attainable = level / 2.0 * (1.0 + 1e-12)
    return int(np.searchsorted(null_distribution(n), attainable, side="right")) - 1


@lru_cache(maxsize=4096)
def achieved_level(n: int, critical: int) -> float:
    """Return the two-sided level 2 P(T+ <= critical); 0 for a negative critical value."""
    if critical < 0:
        return 0.0
    if n > EXACT_UP_TO:
        mean, deviation = _moments(n)
        return float(2.0 * special.ndtr((critical + 0.5 - mean) / deviation))
    return float(2.0 * null_distribution(n)[critical])


def hodges_lehmann_centres(contrasts: FloatArray) -> FloatArray:
    """Return the median of the Walsh averages of every column.

    Args:
        contrasts: Shape (n,) or (n, series), n >= 1, any unit: one value per block.

    Returns:
        Shape () or (series,), same unit.

    Source:
        Hodges & Lehmann (1963), Annals of Mathematical Statistics 34.
    """
    averages = _walsh_averages(contrasts)
    lower, upper = _middle(len(averages))
    averages.partition((lower, upper), axis=0)
    return np.asarray((averages[lower] + averages[upper]) / 2.0)


def signed_rank_interval(contrasts: FloatArray, level: float) -> Interval:
    """Return the Hodges-Lehmann centre with the interval of all shifts the test does not reject.

    Args:
        contrasts: Shape (n,), n >= 1, any unit: one paired difference per block.
        level: Two-sided error level, between 0 and 1.

    Returns:
        Same unit; confidence is the exact one, at least 1 - level; the bounds are infinite
        where 2^(1-n) > level.

    Raises:
        ValueError: There is no contrast, or the level is not between 0 and 1.

    Source:
        METHOD 3.3; Hollander & Wolfe, "Nonparametric Statistical Methods", chapter 3.
    """
    n = len(contrasts)
    if n < 1 or not 0.0 < level < 1.0:
        raise ValueError(f"no interval from {n} contrasts at level {level:g}")
    averages = _walsh_averages(contrasts)
    count = len(averages)
    lower, upper = _middle(count)
    critical = critical_value(n, level)
    reached = max(critical, 0)
    averages.partition(sorted({lower, upper, reached, count - 1 - reached}))
    return Interval(
        estimate=float((averages[lower] + averages[upper]) / 2.0),
        low=float(averages[critical]) if critical >= 0 else -np.inf,
        high=float(averages[count - 1 - critical]) if critical >= 0 else np.inf,
        confidence=1.0 - achieved_level(n, critical),
    )


def signed_rank_p_value(contrasts: FloatArray) -> float:
    """Return the least two-sided level at which the signed-rank interval leaves out zero.

    Args:
        contrasts: Shape (n,), n >= 1, any unit: one paired difference per block.

    Returns:
        Between 2^(1-n) and 1, exact up to n = 60; contrasts of zero count against either side.

    Raises:
        ValueError: There is no contrast.

    Source:
        The same Walsh averages as ``signed_rank_interval``: those on the rarer side of zero.
    """
    n = len(contrasts)
    if n < 1:
        raise ValueError("no p value from 0 contrasts")
    averages = _walsh_averages(contrasts)
    beyond = min(int((averages <= 0.0).sum()), int((averages >= 0.0).sum()))
    return min(achieved_level(n, beyond), 1.0)


def _moments(n: int) -> tuple[float, float]:
    """Return mean and standard deviation of T+ under the null."""
    return n * (n + 1) / 4.0, float(np.sqrt(n * (n + 1) * (2 * n + 1) / 24.0))


def _middle(count: int) -> tuple[int, int]:
    """Return the two places whose mean is the median of count sorted values."""
    return (count - 1) // 2, count // 2


def _walsh_averages(values: FloatArray) -> FloatArray:
    """Return (v_i + v_j) / 2 for all i <= j along the first axis, unsorted."""
    n = len(values)
    first, second = _pairs(n) if n <= _CACHED_UP_TO else np.triu_indices(n)
    return np.asarray((values[first] + values[second]) / 2.0)


@lru_cache(maxsize=_CACHED_UP_TO)
def _pairs(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the index pairs i <= j below n."""
    return np.triu_indices(n)


SIGNED_RANK_FROM = 10


def block_interval(contrasts: FloatArray, level: float) -> Interval:
    """Return the centre of the block contrasts with its interval.

    Args:
        contrasts: Shape (n,), n >= 2, log ratio: one paired difference per block.
        level: Two-sided error level, between 0 and 1.

    Returns:
        Log ratio. From 10 blocks on Hodges-Lehmann with exact confidence >= 1 - level. Below,
        and as long as 2^(1-n) > level, where signed ranks have no bounds, the t interval, which
        is conservative when slices stall.

    Raises:
        ValueError: Fewer than two contrasts, or the level is not between 0 and 1.

    Source:
        METHOD 3.3, which uses t below 10 blocks only: then an interval seen at 9 blocks would be
        gone at 10 for the small levels of simultaneous cells.
    """
    n = len(contrasts)
    if n < SIGNED_RANK_FROM or critical_value(n, level) < 0:
        return student_interval(contrasts, level)
    return signed_rank_interval(contrasts, level)


def block_p_value(contrasts: FloatArray) -> float:
    """Return the level from which on ``block_interval`` leaves out zero.

    Args:
        contrasts: Shape (n,), n >= 2, log ratio: one paired difference per block.

    Returns:
        Between 0 and 1. From 10 blocks on of the exact signed ranks; of t below, and where all
        contrasts have one sign and t says even less than the 2^(1-n) that ranks can reach.

    Raises:
        ValueError: Fewer than two contrasts.

    Source:
        METHOD 3.3 and 3.5.
    """
    n = len(contrasts)
    if n < SIGNED_RANK_FROM:
        return mean_p_value(contrasts)
    ranks = signed_rank_p_value(contrasts)
    if ranks > achieved_level(n, 0):
        return ranks
    return min(ranks, mean_p_value(contrasts))


POWER_FACTOR = 0.6  # 1.96 / (1.96 + 1.28): the half-width that decides with 90 % power


def verdict_of(low: float, high: float, margin: float) -> Verdict:
    """Return the word for an interval of a relative effect.

    Args:
        low: Lower bound, relative (0.03 = 3 %); may be minus infinity.
        high: Upper bound, likewise.
        margin: Relative difference of no practical weight, > 0.

    Returns:
        Faster when low > 0, slower when high < 0, else equivalent when both bounds are strictly
        within the margin. Its error is that of the interval.
    """
    if low > 0.0:
        return Verdict.FASTER
    if high < 0.0:
        return Verdict.SLOWER
    if -margin < low and high < margin:
        return Verdict.EQUIVALENT
    return Verdict.NOT_DISTINGUISHABLE


def has_no_practical_weight(low: float, high: float, margin: float) -> bool:
    """Return whether a faster or slower is certain but smaller than the margin."""
    return (low > 0.0 and high < margin) or (high < 0.0 and low > -margin)


def blocks_to_decide(blocks: int, width: float, effect: float) -> float:
    """Return about how many blocks in all decide an effect with 90 % power at this noise.

    Args:
        blocks: Behind the present interval, n >= 2.
        width: Upper minus lower bound, relative.
        effect: To be decided, relative, > 0.

    Returns:
        n (width / (2 x 0.6 x effect))^2, a number of blocks; it may be below n.

    Source:
        METHOD 3.6: widths shrink with the square root of the blocks.
    """
    return float(blocks * (width / (2.0 * POWER_FACTOR * effect)) ** 2)
