"""Words for an interval, and how much longer an open question takes (METHOD 3.6)."""

from steelyard.model.verdicts import Verdict

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
