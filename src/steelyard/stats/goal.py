"""The highest rate that meets a latency goal, where it lies between the rates that were measured.

Each block has a latency percentile at some rates. It is made monotone in the rate, and the rate at
which it crosses the limit is read between two of them. Beyond the measured rates nothing is read:
a block in which not even the lowest rate meets the goal, or in which all do, is censored, and the
interval over blocks says "below" or "above" where it must.
"""

from dataclasses import dataclass

import numpy as np

from steelyard.stats.confidence import FloatArray
from steelyard.stats.signed_rank import hodges_lehmann_centres, signed_rank_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """A value over blocks of which some may be censored.

    Attributes:
        value: Minus or plus infinity where it lies below or above all that was measured.
        low: Lower bound, minus infinity likewise; None where there are too few blocks for bounds.
        high: Upper bound, plus infinity likewise; None likewise.
    """

    value: float
    low: float | None
    high: float | None


def monotone(values: FloatArray) -> FloatArray:
    """Return the rising sequence that is nearest in squares.

    Args:
        values: Shape (n,), any unit, equal weights; plus infinity stays.

    Source:
        Ayer et al. (1955), "An empirical distribution function for sampling with incomplete
        information", Annals of Mathematical Statistics 26: pool adjacent violators.
    """
    means: list[float] = []
    sizes: list[int] = []
    for value in values:
        means.append(float(value))
        sizes.append(1)
        while len(means) > 1 and means[-2] > means[-1]:
            mean, size = means.pop(), sizes.pop()
            means[-1] = (means[-1] * sizes[-1] + mean * size) / (sizes[-1] + size)
            sizes[-1] += size
    return np.repeat(np.array(means, dtype=np.float64), sizes)


def crossing(rates: FloatArray, latencies_s: FloatArray, limit_s: float) -> float:
    """Return the rate at which the latency of one block reaches the limit.

    Args:
        rates: Shape (n,), 1/s, rising, n >= 1.
        latencies_s: Shape (n,), s, > 0: a percentile at each rate; infinite where too many
            transactions never came to an end.
        limit_s: > 0.

    Returns:
        1/s; minus infinity where not even the lowest rate meets it, plus infinity where all do.
        Between two rates the logarithm of the latency is taken to be linear in the rate. A queue's
        rises later and more steeply, so that what is read is rather too low.

    Raises:
        ValueError: There is no rate.
    """
    if not len(rates):
        raise ValueError("no rate at which a latency was measured")
    logs = monotone(np.log(latencies_s))
    above = np.flatnonzero(logs > np.log(limit_s))
    if not len(above):
        return np.inf
    place = int(above[0])
    if place == 0:
        return -np.inf
    low, high = logs[place - 1], logs[place]
    part = 0.0 if np.isinf(high) else (np.log(limit_s) - low) / (high - low)
    return float(rates[place - 1] + part * (rates[place] - rates[place - 1]))


def goal_rate(crossings: FloatArray, rates: FloatArray, level: float) -> Reached:
    """Return the median rate over blocks, with the signed-rank interval.

    Args:
        crossings: Shape (blocks,), 1/s, at least one, of ``crossing``.
        rates: Shape (n,), 1/s, rising: those that were measured.
        level: Two-sided error level, between 0 and 1.

    Returns:
        1/s. Each bound holds whatever the censored values are: the lower one takes those above all
        rates for the highest rate and those below for as low as can be, the upper one the other
        way round. Bounds are None where 2^(1-n) > level.

    Raises:
        ValueError: There is no block.
    """
    lowest, highest = float(rates[0]), float(rates[-1])
    low, high = _bounds(
        np.where(crossings == np.inf, highest, crossings),
        np.where(crossings == -np.inf, lowest, crossings),
        level,
    )
    value = float(np.median(np.clip(crossings, lowest, highest)))
    # A median on the edge comes from a censored middle: only blocks beyond it are put there.
    beyond = np.isinf(crossings).any()
    if beyond and value >= highest:
        value = np.inf
    elif beyond and value <= lowest:
        value = -np.inf
    return Reached(value=value, low=_least(low, value), high=_most(high, value))


def goal_ratio(
    baseline: FloatArray, treatment: FloatArray, rates: FloatArray, level: float
) -> Reached:
    """Return the log ratio of two treatments' rates, paired within blocks.

    Args:
        baseline: Shape (blocks,), 1/s, of ``crossing``.
        treatment: Shape (blocks,), 1/s, of the same blocks.
        rates: Shape (n,), 1/s, rising: those that were measured, of both.
        level: Two-sided error level, between 0 and 1.

    Returns:
        Log ratio: the Hodges-Lehmann centre with the censored blocks at the edges, and bounds that
        hold whatever these are; infinite ones say nothing of that side.

    Raises:
        ValueError: There is no block, or the two differ in blocks.
    """
    if len(baseline) != len(treatment):
        raise ValueError(f"{len(baseline)} blocks beside {len(treatment)}")
    lowest, highest = float(rates[0]), float(rates[-1])
    inside = [np.log(np.clip(side, lowest, highest)) for side in (baseline, treatment)]
    sides = list(zip((baseline, treatment), inside, strict=True))
    lower = [np.where(side == -np.inf, -np.inf, logs) for side, logs in sides]
    upper = [np.where(side == np.inf, np.inf, logs) for side, logs in sides]
    low, high = _bounds(lower[1] - upper[0], upper[1] - lower[0], level)
    value = float(hodges_lehmann_centres(inside[1] - inside[0]))
    return Reached(value=value, low=_least(low, value), high=_most(high, value))


def _bounds(least: FloatArray, most: FloatArray, level: float) -> tuple[float | None, float | None]:
    """Return the bounds of values of which only the least and the most they may be is known."""
    if not len(least):
        raise ValueError("no block in which a rate was measured")
    if 2.0 ** (1 - len(least)) > level:
        return None, None
    return signed_rank_interval(least, level).low, signed_rank_interval(most, level).high


def _least(bound: float | None, value: float) -> float | None:
    """Return a bound that holds the value, which ranks of a skewed sample may leave outside."""
    return None if bound is None else min(bound, value)


def _most(bound: float | None, value: float) -> float | None:
    return None if bound is None else max(bound, value)
