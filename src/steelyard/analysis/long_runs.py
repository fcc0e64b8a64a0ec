"""A long run and the parts that went on right after it, as one series of seconds.

Between two parts the generator connects anew, and the ramp of the later one holds sessions with
cold caches. These seconds count in the time, where they passed, and in no rate.
"""

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
