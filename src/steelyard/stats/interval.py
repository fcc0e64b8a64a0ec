"""The interval of a block design at any number of blocks (METHOD 3.3)."""

from steelyard.stats.confidence import FloatArray, Interval
from steelyard.stats.signed_rank import (
    achieved_level,
    critical_value,
    signed_rank_interval,
    signed_rank_p_value,
)
from steelyard.stats.student import mean_p_value, student_interval

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
