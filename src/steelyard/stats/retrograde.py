"""Retrograde scaling as it was seen: more clients, less throughput; no curve is assumed."""

from dataclasses import dataclass

import numpy as np

from steelyard.stats.confidence import FloatArray, Interval
from steelyard.stats.interval import block_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrograde:
    """The best load, and how the loads above it compare with it.

    Attributes:
        best: Place of the load with the highest mean of logarithms.
        above: Log ratio to the best, of each load above it in order; they hold together.
        first: Place of the first load whose whole interval lies below zero; None if there is none.
    """

    best: int
    above: tuple[Interval, ...]
    first: int | None


def retrograde(log_tps: FloatArray, level: float) -> Retrograde:
    """Return from which load on the throughput is lower than at the best one.

    Args:
        log_tps: Shape (blocks, loads), ln(1/s), loads in rising order of clients and in random
            order within each block; n >= 2 blocks, >= 2 loads.
        level: Two-sided error level over all pairs of loads, between 0 and 1.

    Returns:
        Paired contrasts within blocks, with the interval of every other contrast. The best load is
        chosen by the same blocks, so a load that is as good looks worse than it: Bonferroni over
        all pairs of loads, not only over those above the best, makes up for any choice.

    Raises:
        ValueError: Fewer than two blocks or loads, or the level is not between 0 and 1.

    Source:
        METHOD 3.3 for the interval. Bonferroni over the loads above the best alone would call seven
        equal loads falling in up to 10 % of campaigns instead of 5 %; over all pairs it is 2 %.
    """
    blocks, loads = log_tps.shape
    if blocks < 2 or loads < 2:
        raise ValueError(f"no falling load among {loads} loads in {blocks} blocks")
    best = int(np.argmax(log_tps.mean(axis=0)))
    pairs = loads * (loads - 1) // 2
    above = tuple(
        block_interval(log_tps[:, load] - log_tps[:, best], level / pairs)
        for load in range(best + 1, loads)
    )
    falling = [place for place, interval in enumerate(above, best + 1) if interval.high < 0.0]
    return Retrograde(best=best, above=above, first=falling[0] if falling else None)
