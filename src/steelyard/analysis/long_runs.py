"""A long run and the parts that went on right after it, as one series of seconds.

Between two parts the generator connects anew, and the ramp of the later one holds sessions with
cold caches. These seconds count in the time, where they passed, and in no rate.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steelyard.model.findings import Validity
from steelyard.model.measurement import SustainedRun
from steelyard.stats.cliff import LEAST_S, CliffScan, scan_for_cliff
from steelyard.stats.confidence import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class LongSeries:
    """The seconds of a long run after the ramps of its parts.

    Attributes:
        rates: Shape (seconds,), 1/s, in order.
        starts_s: Shape (seconds,), when each began, from the start of the first part.
        end_s: When the last one ended; 0 where there is none.
    """

    rates: FloatArray
    starts_s: FloatArray
    end_s: float

    def time_of(self, second: float) -> float:
        """Return when a place in the series was, in seconds from the start of the first part."""
        if not len(self.rates):
            return 0.0
        times = np.append(self.starts_s, self.end_s)
        return float(np.interp(second, np.arange(len(times)), times))


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstCliff:
    """A lasting drop within a long run, as of credits that have run out (METHOD 7).

    Attributes:
        scan: The drop and the rates on both sides of it.
        at_s: Seconds from the start of the run.
        at_low_s: Lower bound of about 95 % for it; ``at_high_s`` the upper one.
        slices_tps: Median of the same cell's slices in the blocks before, 1/s; None without any.
    """

    scan: CliffScan
    at_s: float
    at_low_s: float
    at_high_s: float
    slices_tps: float | None

    @property
    def slices_were_burst(self) -> bool:
        """Return whether the slices were nearer to the burst's rate than to the sustained one."""
        middle = math.sqrt(self.scan.burst * self.scan.sustained)
        return self.slices_tps is not None and self.slices_tps > middle


@dataclass(frozen=True, slots=True, kw_only=True)
class SustainedSummary:
    """One long run with its parts; never compared with another by a test.

    Attributes:
        run: Its first part.
        parts: All that count, the first among them.
        broken: A further part that failed; None where none did.
        validity: The worst of the parts that count.
        length_s: From its start to the end of its last second; 0 without seconds.
        tps: Of all parts after their ramps, 1/s; None without a measurement.
        seconds: Measured; None likewise.
        windows: Whole windows of 10 s in it.
        variation: Coefficient of variation of their means; None below two windows.
        worst_tps: The least of their means, 1/s; None without a window.
        cliff: None where none was found.
        drop_beside_neighbours: A lasting drop that neighbours explain, which is no cliff.
        too_short: It has too few seconds for a cliff to show.
        unsettled: It still ended in what may be a cliff when it was not extended any more.
        burst_only: It is shorter than the burst credits of its target last at full load, or an
            open loop, which takes less out of them than full load.
    """

    run: SustainedRun
    tps: float | None
    seconds: float | None
    windows: int
    variation: float | None
    worst_tps: float | None
    parts: tuple[SustainedRun, ...]
    broken: SustainedRun | None
    validity: Validity
    length_s: float
    cliff: BurstCliff | None
    drop_beside_neighbours: BurstCliff | None
    too_short: bool
    unsettled: bool
    burst_only: bool


def last_try(runs: Sequence[SustainedRun]) -> tuple[SustainedRun, ...]:
    """Return the parts of the last try, of the runs of one treatment and cell in their order."""
    first = max((place for place, run in enumerate(runs) if run.part == 0), default=0)
    return tuple(runs[first:])


def usable_parts(parts: Sequence[SustainedRun]) -> tuple[SustainedRun, ...]:
    """Return the first part, and those after it up to one that is invalid."""
    usable: list[SustainedRun] = list(parts[:1])
    for part in parts[1:]:
        if part.measurement is None or part.validity is Validity.INVALID:
            break
        usable.append(part)
    return tuple(usable)


def joined(parts: Sequence[SustainedRun]) -> LongSeries:
    """Return the seconds of the parts, joined by the times they started at."""
    rates: list[float] = []
    starts: list[float] = []
    end_s = 0.0
    for part in parts:
        series = part.measurement.series if part.measurement is not None else ()
        later_s = part.started_at - parts[0].started_at
        for second in series:
            if second.end_s - second.seconds / 2 >= part.ramp_s and second.seconds > 0:
                rates.append(second.transactions / second.seconds)
                starts.append(later_s + second.end_s - second.seconds)
                end_s = later_s + second.end_s
    return LongSeries(
        rates=np.asarray(rates, dtype=np.float64),
        starts_s=np.asarray(starts, dtype=np.float64),
        end_s=end_s,
    )


def scan_of(series: LongSeries) -> CliffScan | None:
    """Return the likeliest lasting drop; None where the series is too short to tell."""
    return scan_for_cliff(series.rates) if len(series.rates) >= LEAST_S else None


def calls_for_more(parts: Sequence[SustainedRun]) -> bool:
    """Return whether the parts so far end in what may be a cliff."""
    found = scan_of(joined(parts))
    return found is not None and found.calls_for_more
