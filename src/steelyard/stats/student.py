"""Student's t, the interval of two samples that share no blocks, and an exact binomial bound.

Student's t is the interval of the first looks, and the p value of a mean. Two samples share no
blocks when nothing was interleaved. The bound says how likely an event may be, from how often it
happened.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

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
