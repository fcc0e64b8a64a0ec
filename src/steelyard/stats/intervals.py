"""Intervals of a centre over blocks: signed rank, Student's t, medians; and the verdicts they give.

Validity of the signed rank comes from the coin of each block: when the configurations do not
differ, every contrast is as likely as its negative whatever the noise looks like, so the sum of
positive ranks has its null distribution exactly. No model of the noise is needed (METHOD 3.3). Its
inversion gives the Hodges-Lehmann centre and the interval at any number of blocks. How much longer
an open question takes is METHOD 3.6.

Student's t is the interval of the first looks, and the p value of a mean. Two samples share no
blocks when nothing was interleaved. The level of one cell is the median of its runs, with an
interval over blocks. A sample that may be skewed or full of ties has a median between two of its
own values. The binomial bound says how likely an event may be, from how often it happened.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from steelyard.core.findings import Verdict
from steelyard.stats import special

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An estimate between two bounds, all in the unit of the values it came from.

    Attributes:
        estimate: The centre.
        low: Lower bound; minus infinity where no bound reaches the level.
        high: Upper bound; plus infinity likewise.
        confidence: Achieved by the bounds, between 0 and 1: at least one minus the level asked.
    """

    estimate: float
    low: float
    high: float
    confidence: float

    @property
    def bounded(self) -> bool:
        """Return whether both bounds are finite."""
        return bool(np.isfinite(self.low) and np.isfinite(self.high))


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


def welch_interval(ours: FloatArray, theirs: FloatArray, level: float) -> Interval:
    """Return the difference of two means with Welch's interval, unpaired.

    It covers what varies from block to block within each sample. What changed between the two
    (time, machine, software) is in the difference, and no estimator can take it out.

    Args:
        ours: Shape (n,), n >= 2, ln(1/s): one value per block of one campaign.
        theirs: Shape (m,), m >= 2, same unit, of another campaign.
        level: Two-sided error level, between 0 and 1.

    Returns:
        Log ratio, ours minus theirs; confidence is about 1 - level for independent normal blocks,
        less when the blocks of one campaign drift together. Where neither sample varies the
        interval has no width.

    Raises:
        ValueError: Fewer than two values on a side, or the level is not between 0 and 1.

    Source:
        Welch (1947), Biometrika 34; degrees of freedom of Satterthwaite (1946). Both variances
        divide by n - 1.
    """
    if min(len(ours), len(theirs)) < 2 or not 0.0 < level < 1.0:
        raise ValueError(
            f"no unpaired interval from {len(ours)} and {len(theirs)} values at level {level:g}"
        )
    difference = float(ours.mean() - theirs.mean())
    parts = np.array([side.var(ddof=1) / len(side) for side in (ours, theirs)])
    total = float(parts.sum())
    if total == 0.0:
        return Interval(
            estimate=difference, low=difference, high=difference, confidence=1.0 - level
        )
    spare = np.array([len(ours) - 1, len(theirs) - 1])
    degrees = total**2 / float((parts**2 / spare).sum())
    half = -float(special.stdtrit(degrees, level / 2.0)) * float(np.sqrt(total))
    return Interval(
        estimate=difference,
        low=difference - half,
        high=difference + half,
        confidence=1.0 - level,
    )


def highest_chance(found: int, *, of: int, level: float) -> float:
    """Return the highest chance of an event that so few events do not refute.

    Args:
        found: How many trials had it, at least 0.
        of: Independent trials, at least 1 and not fewer than were found.
        level: One-sided error level, between 0 and 1.

    Returns:
        A fraction: the upper bound with exact confidence of at least 1 - level. No event in n
        trials leaves 1 - level^(1/n).

    Raises:
        ValueError: Fewer trials than events, or none.

    Source:
        Clopper and Pearson (1934), "The use of confidence or fiducial limits illustrated in the
        case of the binomial", Biometrika 26.
    """
    if not 0 <= found <= of or of < 1:
        raise ValueError("a proportion needs at least one trial, and no more events than trials")
    return 1.0 if found == of else float(special.betaincinv(found + 1, of - found, 1.0 - level))


EXACT_UP_TO = 60
_CACHED_UP_TO = 200  # index tables grow with n squared; longer campaigns rebuild theirs
_PAIRS_UP_TO = 1000  # half a million pairs, 4 MB; more are not made one by one


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
    if len(contrasts) > _PAIRS_UP_TO:
        columns = contrasts.reshape(len(contrasts), -1).T
        places = _middle(_pair_count(len(contrasts)))
        centres = [sum(_walsh_at(np.sort(column), places)) / 2.0 for column in columns]
        return np.asarray(centres).reshape(contrasts.shape[1:])
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
    count = _pair_count(n)
    critical = critical_value(n, level)
    reached = max(critical, 0)
    places = (*_middle(count), reached, count - 1 - reached)
    lower, upper, low, high = _walsh_at(np.sort(contrasts), places)
    return Interval(
        estimate=(lower + upper) / 2.0,
        low=low if critical >= 0 else -np.inf,
        high=high if critical >= 0 else np.inf,
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
    below = _walsh_up_to(np.sort(contrasts), 0.0)
    above = _walsh_up_to(np.sort(-contrasts), 0.0)
    return min(achieved_level(n, min(below, above)), 1.0)


def _moments(n: int) -> tuple[float, float]:
    """Return mean and standard deviation of T+ under the null."""
    return n * (n + 1) / 4.0, float(np.sqrt(n * (n + 1) * (2 * n + 1) / 24.0))


def _middle(count: int) -> tuple[int, int]:
    """Return the two places whose mean is the median of count sorted values."""
    return (count - 1) // 2, count // 2


def _pair_count(n: int) -> int:
    return n * (n + 1) // 2


def _walsh_at(ordered: FloatArray, places: Sequence[int]) -> list[float]:
    """Return the Walsh averages of sorted values at places of their order, from 0."""
    if len(ordered) <= _PAIRS_UP_TO:
        averages = _walsh_averages(ordered)
        averages.partition(sorted(set(places)))
        return [float(averages[place]) for place in places]
    return [_walsh_found(ordered, place) for place in places]


def _walsh_found(ordered: FloatArray, place: int) -> float:
    """Return one of them by bisection: all pairs of many values would take gigabytes."""
    low, high = float(np.nextafter(ordered[0], -np.inf)), float(ordered[-1])
    while low < (middle := low + (high - low) / 2.0) < high:
        if _walsh_up_to(ordered, middle) > place:
            high = middle
        else:
            low = middle
    return high


def _walsh_up_to(ordered: FloatArray, most: float) -> int:
    """Return how many Walsh averages of sorted values are at most so large."""
    first = np.arange(len(ordered))
    reached = np.searchsorted(ordered, 2.0 * most - ordered, side="right")
    return int(np.maximum(reached - first, 0).sum())


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
    if is_by_t(len(contrasts), level):
        return student_interval(contrasts, level)
    return signed_rank_interval(contrasts, level)


def interval_ends(contrasts: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Return the ends of ``block_interval`` of many series at once.

    Args:
        contrasts: Shape (n, series), n >= 2: one value per block.
        level: Two-sided error level, between 0 and 1.

    Returns:
        Low and high, each of shape (series,).
    """
    blocks = len(contrasts)
    if is_by_t(blocks, level):
        reach = _quantile(blocks - 1, level) * contrasts.std(axis=0, ddof=1) / np.sqrt(blocks)
        centre = contrasts.mean(axis=0)
        return centre - reach, centre + reach
    averages = _walsh_averages(contrasts)
    low = critical_value(blocks, level)
    high = len(averages) - 1 - low
    averages.partition((low, high), axis=0)
    return averages[low], averages[high]


def is_by_t(blocks: int, level: float) -> bool:
    """Return whether the interval of so many blocks is that of t, and not of signed ranks."""
    return blocks < SIGNED_RANK_FROM or critical_value(blocks, level) < 0


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
    return Verdict.NO_CLEAR_DIFFERENCE


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
