"""Two samples that share no blocks: the interval when nothing was interleaved."""

import numpy as np

from steelyard.stats import special
from steelyard.stats.confidence import FloatArray, Interval


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
