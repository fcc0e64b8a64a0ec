"""Which of many comparisons to call different, when each alone would be too many (METHOD 3.5)."""

from collections.abc import Callable

from steelyard.stats.confidence import FloatArray


def discoveries(p_values: FloatArray, level_of: Callable[[int], float]) -> int:
    """Return how many of the smallest p values may be called different.

    Args:
        p_values: Shape (comparisons,), two-sided, any n.
        level_of: The level of each when so many are called, rising with their number; at a fixed
            number of blocks ``false_discovery_level``.

    Returns:
        The largest number r for which at least r p values are within ``level_of(r)``. All that are
        within it are those r. Among what is called different the expected share of mistakes is q
        at most, when the comparisons are independent or depend on one another positively.

    Source:
        Benjamini & Hochberg (1995), Journal of the Royal Statistical Society B 57: the step-up
        procedure, found from above without sorting.
    """
    called = len(p_values)
    while called:
        within = int((p_values <= level_of(called)).sum())
        if within >= called:
            return called
        called = within
    return 0


def false_discovery_level(q: float, called: int, comparisons: int) -> float:
    """Return the level of each comparison when some of them are called different.

    It is that of the test and of the interval: intervals at this level for those that were called
    different, and only for those, miss the truth in an expected share of q at most.

    Args:
        q: Expected share of mistakes among what is called, between 0 and 1.
        called: How many are, at least 1.
        comparisons: How many there are in all.

    Raises:
        ValueError: More are called than there are, or none.

    Source:
        Benjamini & Yekutieli (2005), Journal of the American Statistical Association 100.
    """
    if not 1 <= called <= comparisons:
        raise ValueError(f"{called} called of {comparisons}")
    return q * called / comparisons
