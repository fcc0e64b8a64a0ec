"""Stalled slices: which they are, and whether one arm has more of them (METHOD 3.6).

The signed-rank interval discounts stalls, so a change that causes them must show up here.
"""

from math import comb

import numpy as np

from steelyard.stats.confidence import BoolArray, FloatArray

_MAD_TO_DEVIATION = 1.4826  # median absolute deviation to standard deviation, normal values
_DEVIATIONS = 5.0
_LEAST_DROP = float(np.log(1.25))


def stalled_slices(log_tps: FloatArray) -> BoolArray:
    """Return which slices fell far below the median of their cell and arm.

    Args:
        log_tps: Shape (n, ...), ln(1/s): the slices of one cell and arm along the first axis,
            n >= 1; further axes are further cells and arms.

    Returns:
        Same shape. A slice is stalled when it is below the median by more than five robust
        standard deviations and by more than ln 1.25. Below 3 slices none can be.

    Source:
        METHOD 3.6.
    """
    median = np.median(log_tps, axis=0)
    deviation = _MAD_TO_DEVIATION * np.median(np.abs(log_tps - median), axis=0)
    return np.asarray(log_tps < median - np.maximum(_DEVIATIONS * deviation, _LEAST_DROP))


def stalls_p_value(stalled: tuple[int, int], slices: tuple[int, int]) -> float:
    """Return the two-sided p value that both arms stall equally often.

    Args:
        stalled: Number of stalled slices of each arm.
        slices: Number of all slices of each arm; slices count as independent.

    Returns:
        Between 0 and 1, conservative.

    Raises:
        ValueError: More slices are stalled than there are.

    Source:
        Fisher's exact test, METHOD 3.6: the share of all tables with these margins that are no
        likelier than the one that was seen. Ours, because importing that of ``scipy.stats`` takes
        longer than the whole analysis of a campaign.
    """
    if any(not 0 <= some <= every for some, every in zip(stalled, slices, strict=True)):
        raise ValueError(f"{stalled} stalled of {slices}")
    ways = _ways(sum(stalled), slices)
    seen = ways[stalled[0]]
    return sum(way for way in ways.values() if way <= seen) / sum(ways.values())


def _ways(stalled: int, slices: tuple[int, int]) -> dict[int, int]:
    """Return in how many ways so many stalls fall, by how many of them fall into the first arm.

    As whole numbers, so that equally likely tables are equal; each follows from the one before.
    """
    first, second = slices
    least, most = max(0, stalled - second), min(stalled, first)
    way = comb(first, least) * comb(second, stalled - least)
    ways = {least: way}
    for count in range(least, most):
        way = way * (first - count) * (stalled - count)
        way //= (count + 1) * (second - stalled + count + 1)
        ways[count + 1] = way
    return ways
