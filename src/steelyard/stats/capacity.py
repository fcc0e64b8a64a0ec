"""The most that a server sustains: in closed loops, under a latency goal, and over a long run.

Closed loops: the most that they reach, and with how few clients, robust to noise and to choosing;
and the number of clients above which more bring no clear gain. No search climbs from point to
point: every number of clients runs in every round, and all rounds decide together.

A latency goal: the highest rate that meets it, where it lies between the rates that were measured.
Each block has a latency percentile at some rates. It is made monotone in the rate, and the rate at
which it crosses the limit is read between two of them. How the latency rises between these two
nobody has seen, so the interval rests on the two rates themselves. Beyond the measured rates
nothing is read: a block in which not even the lowest rate meets the goal, or in which all do, is
censored, and the answer is "below" or "above" where it must be.

A long run: the spread of its windows, and the worst of them; and a burst cliff, one lasting drop as
of a token bucket that is empty (METHOD 7).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steelyard.stats.intervals import (
    BoolArray,
    FloatArray,
    Interval,
    block_interval,
    hodges_lehmann_centres,
    median_interval,
    signed_rank_interval,
)

LEVEL = 0.05
CAPACITY_COVERAGE = "91 to 96 %"  # simulated, where 95 % is said: docs/methods.md, "Capacity"
TOLERANCE = 0.03  # simulated: 2 % chooses too many clients in noise, without it 10 % are lost


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityFound:
    """The capacity among some numbers of clients.

    Attributes:
        place: Of the fewest clients that reach it.
        tps: 1/s.
        rising: They are the most that were tried, and fewer are clearly below.
    """

    place: int
    tps: Interval
    rising: bool


def find_capacity(log_tps: FloatArray) -> CapacityFound:
    """Return the fewest clients that are as good as the best, and the throughput there.

    Each round's throughput is read at the clients that the *other* rounds choose, so that what a
    round is read for has no part in choosing where. The median of these has no gain from the
    choice, which the largest of several noisy medians has.

    Args:
        log_tps: Shape (rounds, counts), ln(1/s), numbers of clients rising, in random order within
            each round; one round at least, and one number of clients.

    Returns:
        1/s, with the signed-rank interval at 95 %, unbounded below 6 rounds. The choice of clients
        is not in it: it covers in 91 to 96 % of campaigns.

    Raises:
        ValueError: There is no round or no number of clients.

    Source:
        Own simulation (docs/methods.md, "Capacity"): of 7 equally good numbers of clients in 6
        rounds, in noise of 4 % a slice, the largest median is 2.5 % too large, the median at the
        chosen clients 1 %, and this one within 0.2 %; the interval covers in 91 to 96 % of
        campaigns.
    """
    rounds, counts = log_tps.shape
    if not rounds or not counts:
        raise ValueError(f"no capacity from {rounds} rounds of {counts} numbers of clients")
    place = fewest_as_good(log_tps)
    read = log_tps[:, place]
    if rounds > 1:
        chosen = [fewest_as_good(np.delete(log_tps, one, axis=0)) for one in range(rounds)]
        read = log_tps[np.arange(rounds), chosen]
    return CapacityFound(
        place=place,
        tps=median_interval(np.exp(read)),
        rising=0 < place == counts - 1,
    )


def fewest_as_good(log_tps: FloatArray) -> int:
    """Return the place of the fewest clients that are not clearly below the best.

    Clearly below: by more than 3 %, or with an interval that lies wholly below. The first alone
    would ask for more clients than there is evidence for, the second alone would take a fraction
    of the capacity wherever noise hides the rest.

    Args:
        log_tps: As of ``find_capacity``; paired within rounds, whose own level is taken out.

    Source:
        METHOD 3.3 for the interval of paired contrasts.
    """
    levelled = log_tps - log_tps.mean(axis=1, keepdims=True)
    best = int(np.argmax(hodges_lehmann_centres(levelled)))
    return next(
        (place for place in range(best) if _as_good(log_tps[:, place] - log_tps[:, best])), best
    )


def _as_good(contrasts: FloatArray) -> bool:
    """Return whether paired log ratios to the best leave it open which of the two is better."""
    if float(hodges_lehmann_centres(contrasts)) < -TOLERANCE:
        return False
    return len(contrasts) < 2 or block_interval(contrasts, LEVEL).high >= 0.0


LEAST_GAIN_BLOCKS = 6  # below, the rate of a cell has no interval either


def fewest_without_gain(log_tps: FloatArray, level: float) -> int | None:
    """Return the place of the fewest clients above which more bring no clear gain.

    A number of clients is compared with every larger one, not with the next alone: many small steps
    make a clear gain together.

    Args:
        log_tps: Shape (blocks, counts), ln(1/s), numbers of clients rising, in random order within
            each block; one number of clients at least.
        level: Two-sided error level of one number's comparisons together, between 0 and 1.

    Returns:
        None below 6 blocks. A gain is clear where the interval of the paired log ratios lies wholly
        above zero, at the level over the larger numbers (Bonferroni). The number with the highest
        true rate is passed over in at most level / 2 of campaigns: its own comparisons alone can do
        it, so the numbers below it share no level with it. Fewer clients are named where the
        blocks are too few to see a gain; the last place, where every smaller number has one.

    Raises:
        ValueError: There is no number of clients, or the level is not between 0 and 1.

    Source:
        METHOD 3.3 for the interval, METHOD 6 for the rule.
    """
    blocks, counts = log_tps.shape
    if not counts or not 0.0 < level < 1.0:
        raise ValueError(f"no gain among {counts} numbers of clients at level {level:g}")
    if blocks < LEAST_GAIN_BLOCKS:
        return None
    return next(
        (place for place in range(counts - 1) if not _is_outdone(log_tps, place, level)), counts - 1
    )


def _is_outdone(log_tps: FloatArray, place: int, level: float) -> bool:
    """Return whether a larger number of clients has clearly more throughput."""
    gains = log_tps[:, place + 1 :] - log_tps[:, [place]]
    return any(block_interval(gain, level / gains.shape[1]).low > 0.0 for gain in gains.T)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """The highest rate that meets a goal in one block, 1/s.

    Attributes:
        least: The highest measured rate that meets it; minus infinity where none does.
        read: Between the two; minus or plus infinity beyond the measured rates.
        most: The lowest measured rate that does not meet it; plus infinity where all do.
    """

    least: float
    read: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """A value over blocks of which some may be censored.

    Attributes:
        value: Minus or plus infinity where it lies below or above all that was measured; None
            where as many blocks lie below all of it as above.
        low: Lower bound, minus infinity likewise; None where there are too few blocks for bounds.
        high: Upper bound, plus infinity likewise; None likewise.
    """

    value: float | None
    low: float | None
    high: float | None

    @property
    def beyond(self) -> float:
        """Return on which side the value lies beyond what was measured: -1, 1, or 0 for none."""
        return 0.0 if self.value is None or np.isfinite(self.value) else np.sign(self.value)


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


def crossing(rates: FloatArray, latencies_s: FloatArray, limit_s: float) -> Crossing:
    """Return where the latency of one block reaches the limit.

    Args:
        rates: Shape (n,), 1/s, rising, n >= 1.
        latencies_s: Shape (n,), s, > 0: a percentile at each rate; infinite where too many
            transactions never came to an end.
        limit_s: > 0.

    Returns:
        1/s. The rate is read on a straight line of the logarithm of the latency. That of a queue
        rises later and more steeply, so that what is read is rather too low.

    Raises:
        ValueError: There is no rate.
    """
    if not len(rates):
        raise ValueError("no rate at which a latency was measured")
    logs = monotone(np.log(latencies_s))
    above = np.flatnonzero(logs > np.log(limit_s))
    if not len(above):
        return Crossing(least=float(rates[-1]), read=np.inf, most=np.inf)
    place = int(above[0])
    if place == 0:
        return Crossing(least=-np.inf, read=-np.inf, most=float(rates[0]))
    (least, most), (low, high) = rates[place - 1 : place + 1], logs[place - 1 : place + 1]
    part = 0.0 if np.isinf(high) else (np.log(limit_s) - low) / (high - low)
    return Crossing(least=float(least), read=float(least + part * (most - least)), most=float(most))


def goal_rate(crossings: Sequence[Crossing], level: float) -> Reached:
    """Return the median rate over blocks, with an interval that rests on the measured rates.

    Args:
        crossings: Shape (blocks,), at least one.
        level: Two-sided error level, between 0 and 1.

    Returns:
        1/s. The lower bound is that of the signed ranks if the rate of every block were the
        highest measured one that meets the goal, the upper bound if it were the lowest that does
        not: together they hold however the latency rises in between. Bounds are None where
        2^(1-n) > level. There is no value where the middle lies between blocks below and blocks
        above all that was measured.

    Raises:
        ValueError: There is no block.

    Source:
        Own simulation (docs/methods.md, "The rate under a goal"): an interval of the rates that
        were read alone would cover the rate of a queue of 4 servers in less than 10 % of campaigns
        at 50, 70 and 90 %.
    """
    least, most = (np.array([getattr(c, end) for c in crossings]) for end in ("least", "most"))
    low, high = _bounds(least, most, level)
    value = _median([crossing.read for crossing in crossings])
    return Reached(value=value, low=_least(low, value), high=_most(high, value))


def goal_ratio(
    baseline: Sequence[Crossing], configuration: Sequence[Crossing], level: float
) -> Reached:
    """Return the log ratio of two configurations' rates, paired within blocks.

    Args:
        baseline: Shape (blocks,), at least one.
        configuration: Shape (blocks,), of the same blocks and the same measured rates.
        level: Two-sided error level, between 0 and 1.

    Returns:
        Log ratio: the Hodges-Lehmann centre of the rates that were read, censored blocks at the
        edge. The bounds rest on the measured rates, as those of ``goal_rate``; infinite ones say
        nothing of that side.

    Raises:
        ValueError: There is no block, or the two differ in blocks.
    """
    if len(baseline) != len(configuration):
        raise ValueError(f"{len(baseline)} blocks beside {len(configuration)}")
    pairs = list(zip(baseline, configuration, strict=True))
    low, high = _bounds(
        np.array([_log(two.least) - _log(one.most) for one, two in pairs]),
        np.array([_log(two.most) - _log(one.least) for one, two in pairs]),
        level,
    )
    centres = np.array([_log(_inside(two)) - _log(_inside(one)) for one, two in pairs])
    value = float(hodges_lehmann_centres(centres))
    return Reached(value=value, low=_least(low, value), high=_most(high, value))


def _log(rate_per_s: float) -> float:
    """Return the logarithm of a rate, which may be infinite on either side."""
    return float(np.log(rate_per_s)) if rate_per_s > 0.0 else -np.inf


def _inside(crossing: Crossing) -> float:
    """Return the rate that was read, a censored one at the edge of what was measured."""
    if np.isfinite(crossing.read):
        return crossing.read
    return crossing.least if crossing.read > 0.0 else crossing.most


def _median(values: Sequence[float]) -> float | None:
    """Return the median; of two in the middle the finite one, none between both infinities."""
    ranked = sorted(values)
    lower, upper = ranked[(len(ranked) - 1) // 2], ranked[len(ranked) // 2]
    if lower == upper:
        return lower
    if np.isinf(upper):
        return None if np.isinf(lower) else lower
    return upper if np.isinf(lower) else (lower + upper) / 2.0


def _bounds(least: FloatArray, most: FloatArray, level: float) -> tuple[float | None, float | None]:
    """Return the bounds of values of which only the least and the most they may be is known."""
    if not len(least):
        raise ValueError("no block in which a latency was measured")
    if 2.0 ** (1 - len(least)) > level:
        return None, None
    return signed_rank_interval(least, level).low, signed_rank_interval(most, level).high


def _least(bound: float | None, value: float | None) -> float | None:
    """Return a bound that holds the value, which ranks of a skewed sample may leave outside."""
    return bound if bound is None or value is None else min(bound, value)


def _most(bound: float | None, value: float | None) -> float | None:
    return bound if bound is None or value is None else max(bound, value)


WINDOW_S = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Consistency:
    """The windows of one long run; a description, never a comparison.

    Attributes:
        windows: How many whole windows there are.
        variation: Standard deviation of the window means over their mean (divides by n - 1);
            None below two windows.
        worst: The least window mean, in the unit of the rates; None without a window.
    """

    windows: int
    variation: float | None
    worst: float | None


def consistency(rates: FloatArray, window: int = WINDOW_S) -> Consistency:
    """Return how even a series of one-second rates is.

    Args:
        rates: Shape (n,), 1/s, one per second in order, any n; a last part that fills no window
            is left out.
        window: Seconds of a window, at least 1.

    Returns:
        The windows follow one another without overlap. A coefficient of variation of 0.05 says
        that ten-second means vary by 5 % of their mean.
    """
    count = len(rates) // window
    if not count:
        return Consistency(windows=0, variation=None, worst=None)
    means = rates[: count * window].reshape(count, window).mean(axis=1)
    mean = float(means.mean())
    variation = float(means.std(ddof=1)) / mean if count > 1 and mean > 0.0 else None
    return Consistency(windows=count, variation=variation, worst=float(means.min()))


SKIPPED_S = 20
BIN_S = 10
LEAST_BINS = 6  # on either side of the drop
LEAST_S = SKIPPED_S + 2 * LEAST_BINS * BIN_S
LEAST_DROP = 0.10
CRITICAL_Z = 4.5
# A late drop of at least 10 % with more than this calls for a longer run. Simulated (tests/method):
# a lower one finds no more cliffs, and extends runs without one more often.
EXTENDING_Z = 3.0
_LAGS = 6  # bins over which noise may hang together
_WINSOR = 3.0
_MAD_TO_DEVIATION = 1.4826  # median absolute deviation to standard deviation, normal values
_LEAST_VARIANCE = 1e-10
_FEW = 10.0  # 1/s: whole numbers of a second are then a tenth apart, as much as a drop
_BAI = 11.0  # half-width of Bai's 95 % interval for the time of a break, in v / d^2
_LATER_HIGHS = 0.1  # share of smoothed bins that may be on the wrong side of the middle
_EARLIER_LOWS = 0.2
_LATE = 0.75
_SURE_Z = 1.96
_MEDIAN_TO_MEAN = 1.2533  # deviation of a median over that of a mean, normal values: sqrt(pi / 2)

Bounds = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class CliffScan:
    """The likeliest lasting drop of a series, and whether it is one.

    Attributes:
        found: The drop is beyond noise, at least 10 %, lasts to the end and was not there before.
        z: CUSUM statistic of the split; 4.5 and more is beyond noise.
        drop: Fraction by which the median rate fell; negative when it rose.
        at_s: Seconds from the start of the series.
        at_low_s: Lower bound of about 95 % for ``at_s``; ``at_high_s`` the upper one.
        burst: Median over bins of the rate before the drop, 1/s.
        burst_bounds: Interval of about 95 % for it.
        burst_mean: Mean rate of all seconds before the drop, 1/s, the first ones too: it says what
            was taken out of a bucket, stalls and all.
        sustained: The same after it, 1/s.
        sustained_bounds: Interval of about 95 % for it.
        late: The split is in the last quarter, or at the last place of a series of less than 260 s
            where one can be: a longer run would tell more.
    """

    found: bool
    z: float
    drop: float
    at_s: float
    at_low_s: float
    at_high_s: float
    burst: float
    burst_bounds: Bounds
    burst_mean: float
    sustained: float
    sustained_bounds: Bounds
    late: bool

    @property
    def calls_for_more(self) -> bool:
        """Return whether a longer run is worth its time: a late drop that may be a cliff.

        How long it lasts cannot be known that near to the end, so a weaker z is enough.
        """
        return self.late and self.drop >= LEAST_DROP and self.z > EXTENDING_Z

    @property
    def least_capacity(self) -> float:
        """Return what a token bucket holds at least, in transactions beyond the sustained rate.

        At least, because it may not have been full at the start: idle, and repeat, to confirm.
        """
        return (self.burst_mean - self.sustained) * self.at_s

    @property
    def capacity_bounds(self) -> Bounds:
        """Return what the bounds of both rates and of the time allow for the least capacity.

        All three at their worst together, so the interval holds in more than 95 % (tests/method).
        """
        to_mean = self.burst_mean / self.burst
        low = (self.burst_bounds[0] * to_mean - self.sustained_bounds[1]) * self.at_low_s
        high = (self.burst_bounds[1] * to_mean - self.sustained_bounds[0]) * self.at_high_s
        return (max(low, 0.0), high)

    @property
    def refill_s(self) -> float:
        """Return the seconds of idling that refill such a bucket at the sustained rate."""
        return self.least_capacity / self.sustained

    @property
    def refill_bounds_s(self) -> Bounds:
        """Return what the bounds of capacity and sustained rate allow for the time to refill."""
        low, high = self.capacity_bounds
        return (low / self.sustained_bounds[1], high / self.sustained_bounds[0])


def scan_for_cliff(rates: FloatArray) -> CliffScan:
    """Return the likeliest lasting drop of one long run.

    Args:
        rates: Shape (seconds,), 1/s, one per second in order, at least 140 (``LEAST_S``); the
            first 20 are left out, and a last part that fills no bin of 10 s.

    Returns:
        One split of the logarithms of the bins' medians, where the CUSUM is largest; of their
        means, where the middle of the series is below 10 a second. Its z rests on a long-run
        variance (Bartlett, 6 bins) of the residuals, winsorised at 3 MAD. False
        alarms on series of 15 minutes without a drop: at most 3 %.

    Raises:
        ValueError: The series is shorter than 140 s.

    Source:
        METHOD 7; Bai (1997), Review of Economics and Statistics 79, for the time's interval.
    """
    if len(rates) < LEAST_S:
        raise ValueError(f"no cliff can be seen in {len(rates)} s; it takes {LEAST_S} s")
    levels = _levels(rates)
    split, gap = _split(levels)
    before, after = levels[:split], levels[split:]
    high, low = float(np.median(before)), float(np.median(after))
    variance = _long_run_variance(np.concatenate([before - high, after - low]))
    z, drop = gap / np.sqrt(variance), high - low
    lasting = _lasts(before, after, (high + low) / 2.0)
    # An empty bucket lets through the same in every second: then what is quiet after the drop says
    # nothing of the noise before it, and each side has its own.
    apart = [_long_run_variance(side - np.median(side)) for side in (before, after)]
    half = int(_BAI * max(variance, *apart) / drop**2) + 1 if drop > 0.0 else len(levels)
    at_s = SKIPPED_S + split * BIN_S
    return CliffScan(
        found=bool(z > CRITICAL_Z and -np.expm1(-drop) >= LEAST_DROP and lasting),
        z=float(z),
        drop=float(-np.expm1(-drop)),
        at_s=float(at_s),
        at_low_s=float(max(at_s - half * BIN_S, 0)),
        at_high_s=float(at_s + half * BIN_S),
        burst=float(np.exp(high)),
        burst_bounds=_around(high, apart[0], len(before)),
        burst_mean=float(np.mean(rates[:at_s])),
        sustained=float(np.exp(low)),
        sustained_bounds=_around(low, apart[1], len(after)),
        late=split > _LATE * len(levels) or split == len(levels) - LEAST_BINS,
    )


def _around(level: float, variance: float, bins: int) -> Bounds:
    """Return the interval of a rate whose logarithm is the median of so many bins."""
    reach = _SURE_Z * _MEDIAN_TO_MEAN * np.sqrt(variance / bins)
    return (float(np.exp(level - reach)), float(np.exp(level + reach)))


def _levels(rates: FloatArray) -> FloatArray:
    """Return the logarithms of the bins' medians, less than one a second counting as one.

    Of a few a second a median is one of few whole numbers: there they are the bins' means, and less
    than one in a bin counts as one. Simulated: 3 a second that fall to 0.3 were called 1 a second.
    """
    kept = rates[SKIPPED_S:]
    count = len(kept) // BIN_S
    bins = kept[: count * BIN_S].reshape(count, BIN_S)
    if np.median(bins) < _FEW:
        return np.asarray(np.log(np.maximum(bins.mean(axis=1), 1.0 / BIN_S)))
    return np.asarray(np.log(np.maximum(np.median(bins, axis=1), 1.0)))


def _split(levels: FloatArray) -> tuple[int, float]:
    """Return where the mean falls most, and by how much, scaled to the noise of one bin."""
    n = len(levels)
    places = np.arange(LEAST_BINS, n - LEAST_BINS + 1)
    sums = np.cumsum(levels)
    before = sums[places - 1] / places
    after = (sums[-1] - sums[places - 1]) / (n - places)
    gaps = (before - after) * np.sqrt(places * (n - places) / n)
    best = int(np.argmax(gaps))
    return int(places[best]), float(gaps[best])


def _long_run_variance(residuals: FloatArray) -> float:
    """Return the variance that a mean of such residuals has, times their number."""
    reach = _WINSOR * _MAD_TO_DEVIATION * float(np.median(np.abs(residuals)))
    kept = np.clip(residuals, -reach, reach)
    alone = float(np.mean(kept**2))
    together = sum(
        (1.0 - lag / (_LAGS + 1)) * float(np.mean(kept[lag:] * kept[:-lag]))
        for lag in range(1, min(_LAGS, len(kept) - 1) + 1)
    )
    return max(alone, alone + 2.0 * together, _LEAST_VARIANCE)


def _lasts(before: FloatArray, after: FloatArray, middle: float) -> bool:
    """Return whether the rate stays low to the end, and was not as low earlier."""
    recovered: BoolArray = _smoothed(after) > middle
    dipped: BoolArray = _smoothed(before) < middle
    return bool(recovered.mean() <= _LATER_HIGHS and dipped.mean() <= _EARLIER_LOWS)


def _smoothed(levels: FloatArray) -> FloatArray:
    return np.convolve(levels, np.ones(3) / 3.0, "valid")
