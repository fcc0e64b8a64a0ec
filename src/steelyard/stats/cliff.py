"""A burst cliff: one lasting drop within a long run, as a token bucket that is empty (METHOD 7)."""

from dataclasses import dataclass

import numpy as np

from steelyard.stats.student import BoolArray, FloatArray

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
        burst: Median rate before the drop, 1/s.
        burst_bounds: Interval of about 95 % for it.
        burst_mean: Mean rate of all seconds before the drop, 1/s, the first ones too: it says what
            was taken out of a bucket, stalls and all.
        sustained: Median rate after it, 1/s.
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
        One split of the logarithms of the bins' medians, where the CUSUM is largest. Its z rests
        on a long-run variance (Bartlett, 6 bins) of the residuals, winsorised at 3 MAD. False
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
    """Return the logarithms of the medians of the bins; less than one a second counts as one."""
    kept = rates[SKIPPED_S:]
    count = len(kept) // BIN_S
    medians = np.median(kept[: count * BIN_S].reshape(count, BIN_S), axis=1)
    return np.asarray(np.log(np.maximum(medians, 1.0)))


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
