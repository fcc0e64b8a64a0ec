"""How narrow the intervals of a design become: from measured contrasts to any number of blocks."""

import math

from steelyard.stats import special
from steelyard.stats.signed_rank import POWER_FACTOR, SIGNED_RANK_FROM, signed_rank_interval
from steelyard.stats.student import FloatArray, Interval, student_interval

_LEVEL = 0.05
_INNER_LEVEL = 0.2
_KNOWN = 0.6  # of the degrees: what ranks know of the scale, set by simulation
_RANKS_FROM = 6  # fewer cannot be bounded by ranks at a useful level


def contrast_scale(contrasts: FloatArray) -> Interval:
    """Return the deviation of one block's contrast that its interval shows.

    It is the half-width of the signed-rank interval (METHOD 3.3), times the root of n over the
    quantile of t: for normal contrasts their standard deviation, for contrasts with stalls what
    the Hodges-Lehmann interval makes of them. Below 10 blocks an inner interval is taken, which
    one stalled block cannot stretch; below 6 the standard deviation.

    Args:
        contrasts: Shape (n,), n >= 2, log ratio: one per block.

    Returns:
        Log ratio, never negative; bounds of 95 % as for a variance with 0.6 (n - 1) degrees.

    Raises:
        ValueError: Fewer than two contrasts.

    Source:
        METHOD 3.3; the chi-squared interval of a variance; its coverage for these scales is
        simulated in tests/method.
    """
    degrees = len(contrasts) - 1
    seen = _seen(contrasts)
    quantile = -float(special.stdtrit(degrees, (1.0 - seen.confidence) / 2.0))
    scale = (seen.high - seen.low) / 2.0 * math.sqrt(len(contrasts)) / quantile
    known = _KNOWN * degrees
    low, high = (
        scale * math.sqrt(known / float(special.chdtri(known, tail)))
        for tail in (_LEVEL / 2.0, 1.0 - _LEVEL / 2.0)
    )
    return Interval(estimate=scale, low=low, high=high, confidence=1.0 - _LEVEL)


def _seen(contrasts: FloatArray) -> Interval:
    if len(contrasts) < _RANKS_FROM:
        return student_interval(contrasts, _LEVEL)
    level = _LEVEL if len(contrasts) >= SIGNED_RANK_FROM else _INNER_LEVEL
    return signed_rank_interval(contrasts, level)


def half_width(scale: float, blocks: int, level: float) -> float:
    """Return the half-width to expect of the interval of so many blocks, relative.

    It undoes ``contrast_scale``: for the blocks that were measured it is the width they showed.
    ``power.half_width`` is for a known deviation of normal contrasts, and up to a tenth wider.

    Args:
        scale: Of one block's contrast, log ratio.
        blocks: n >= 2.
        level: Two-sided error level of the interval.

    Returns:
        A fraction: 0.01 for an interval of about 1 % to either side.
    """
    return math.sinh(-float(special.stdtrit(blocks - 1, level / 2.0)) * scale / math.sqrt(blocks))


def smallest_visible(half: float) -> float:
    """Return the effect that so wide an interval decides with 90 % power (METHOD 3.6)."""
    return half / POWER_FACTOR
