"""The interval of a block design at any number of blocks (METHOD 3.3)."""

from steelyard.stats.confidence import FloatArray, Interval
from steelyard.stats.signed_rank import signed_rank_interval
from steelyard.stats.student import student_interval

SIGNED_RANK_FROM = 10


def block_interval(contrasts: FloatArray, level: float) -> Interval:
    """Return the centre of the block contrasts with its interval.

    Args:
        contrasts: Shape (n,), n >= 2, log ratio: one paired difference per block.
        level: Two-sided error level, between 0 and 1.

    Returns:
        Log ratio. From 10 blocks on Hodges-Lehmann with exact confidence >= 1 - level; below,
        where signed ranks cannot reach the small levels of early looks, the t interval, which
        is conservative when slices stall.

    Raises:
        ValueError: Fewer than two contrasts, or the level is not between 0 and 1.

    Source:
        METHOD 3.3.
    """
    if len(contrasts) < SIGNED_RANK_FROM:
        return student_interval(contrasts, level)
    return signed_rank_interval(contrasts, level)
