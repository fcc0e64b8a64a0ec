"""What logs of single runs say, whoever ran them: percentiles without intervals, and sums.

One run is no experiment: nothing here knows how far a repetition would differ.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from steelyard.answers.latency.compute import tail_points
from steelyard.answers.latency.pools import SHARES, histogram_of_run
from steelyard.answers.latency.results import MAXIMUM, Basis, PercentileLevel, TailPoint, Timed
from steelyard.core.findings import Estimate
from steelyard.core.latency import LoggedInterval, RunLatency, Spread
from steelyard.core.units import US_PER_S
from steelyard.stats.histogram import Histogram, from_text, values_needed

_FIRST = 0.01
_NONE_LAGGED = Spread(mean_s=0.0, stddev_s=0.0, least_s=0.0, longest_s=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedGroup:
    """The logs of one run: of its threads, or of generators that were started together.

    Attributes:
        files: How many.
        open_loop: The run had a rate, and latency counts from the scheduled start.
        tells_retries: The log has a column for them.
        started_at: When its first transaction was due, seconds since the epoch.
        ramp_s: What ended before ``started_at + ramp_s`` is left out.
        seconds: From the end of the ramp to the last end of a transaction.
        latency: Every transaction after the ramp.
        damaged: Lines that were not understood.
        truncated: Files whose last line has no end.
        empty: Files without a line.
    """

    name: str
    files: int
    open_loop: bool
    tells_retries: bool
    started_at: float
    ramp_s: float
    seconds: float
    latency: RunLatency
    damaged: int = 0
    truncated: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()

    @property
    def whole(self) -> Histogram:
        """Return the latencies of all scripts together."""
        return histogram_of_run(self.latency)

    @property
    def transactions(self) -> int:
        """Return how many succeeded after the ramp."""
        return self.whole.total

    @property
    def failed(self) -> int:
        """Return how many failed after the ramp, of any kind."""
        return sum(self.latency.failed.values())

    @property
    def achieved_per_s(self) -> float | None:
        """Return transactions per second; None where the log ends with the ramp."""
        return self.transactions / self.seconds if self.seconds > 0.0 else None

    @property
    def tail(self) -> tuple[TailPoint, ...]:
        """Return the distribution function of all scripts together, without its first hundredth.

        pgbench logs single transactions as 0 us, which would stretch a logarithmic axis.
        """
        whole = self.whole
        first_s = whole.quantile(_FIRST) / US_PER_S if whole.total else 0.0
        points = tail_points(whole)
        return (
            *(replace(each, share=_FIRST, latency_s=first_s) for each in points[:1]),
            *points[1:],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatedGroup:
    """Aggregated logs of one run.

    Attributes:
        intervals: Its threads together, by start.
    """

    name: str
    files: int
    intervals: tuple[LoggedInterval, ...]
    damaged: int = 0
    truncated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTimes:
    """The percentiles of one time of one script of one run.

    Attributes:
        script: Empty for all together.
        percentiles: Without intervals.
    """

    group: str
    timed: Timed
    script: str
    transactions: int
    percentiles: tuple[PercentileLevel, ...]


def logged_times(groups: Iterable[LoggedGroup]) -> tuple[LoggedTimes, ...]:
    """Return what to tell of some runs, the same of all beside each other."""
    found = [times for group in groups for times in _of_group(group)]
    order = {key: None for times in found for key in [(times.script, times.timed)]}
    return tuple(times for key in order for times in found if (times.script, times.timed) == key)


def _of_group(group: LoggedGroup) -> Iterator[LoggedTimes]:
    latency = group.latency
    longest = [each.longest_s for each in latency.scripts if each.longest_s is not None]
    yield _times(group, Timed.LATENCY, group.whole, longest_s=max(longest, default=None))
    for timed, text in ((Timed.LAG, latency.lag), (Timed.SERVICE, latency.service)):
        if group.open_loop:
            yield _times(group, timed, from_text(text))
    if len(latency.scripts) > 1:
        for each in latency.scripts:
            counted = from_text(each.latency)
            yield _times(
                group, Timed.LATENCY, counted, longest_s=each.longest_s, script=each.script
            )


def _times(
    group: LoggedGroup,
    timed: Timed,
    counted: Histogram,
    *,
    longest_s: float | None = None,
    script: str = "",
) -> LoggedTimes:
    """Return the percentiles; the longest is known exactly, or as exactly as its bucket."""
    if longest_s is None and counted.total:
        longest_s = counted.quantile(MAXIMUM) / US_PER_S
    longest = PercentileLevel(
        share=MAXIMUM,
        basis=Basis.TOO_FEW if longest_s is None else Basis.LONGEST,
        value_s=None if longest_s is None else Estimate(value=longest_s),
        there=counted.total,
        needed=1,
    )
    return LoggedTimes(
        group=group.name,
        timed=timed,
        script=script,
        transactions=counted.total,
        percentiles=(*(_percentile(counted, share) for share in SHARES), longest),
    )


def _percentile(counted: Histogram, share: float) -> PercentileLevel:
    told = counted.tells(share)
    return PercentileLevel(
        share=share,
        basis=Basis.ONE_RUN if told else Basis.TOO_FEW,
        value_s=Estimate(value=counted.quantile(share) / US_PER_S) if told else None,
        there=counted.total,
        needed=values_needed(share),
        reason="" if told else Basis.TOO_FEW.value,
    )


def intervals_together(intervals: Iterable[LoggedInterval]) -> tuple[LoggedInterval, ...]:
    """Return the intervals of several threads by their start: sums add up, extremes are kept."""
    found: dict[int, list[LoggedInterval]] = {}
    for each in intervals:
        found.setdefault(each.start_s, []).append(each)
    return tuple(_together(found[start]) for start in sorted(found))


def _together(parts: list[LoggedInterval]) -> LoggedInterval:
    return LoggedInterval(
        start_s=parts[0].start_s,
        transactions=sum(part.transactions for part in parts),
        latency=_spread([(part.transactions, part.latency) for part in parts]),
        lag=_spread([(part.transactions, part.lag) for part in parts]),
        skipped=sum(part.skipped for part in parts),
        retried=sum(part.retried for part in parts),
        retries=sum(part.retries for part in parts),
        serialization_failures=sum(part.serialization_failures for part in parts),
        deadlock_failures=sum(part.deadlock_failures for part in parts),
    )


def _spread(parts: list[tuple[int, Spread | None]]) -> Spread | None:
    """Return mean, deviation and extremes of all values of the parts; None without any.

    A part of transactions without a spread beside one that has it is all 0: nothing lagged.
    """
    if all(spread is None for _, spread in parts):
        return None
    known = [(number, spread or _NONE_LAGGED) for number, spread in parts if number]
    total = sum(number for number, _ in known)
    mean_s = sum(number * spread.mean_s for number, spread in known) / total
    variance = (
        sum(
            number * (spread.stddev_s**2 + (spread.mean_s - mean_s) ** 2)
            for number, spread in known
        )
        / total
    )
    return Spread(
        mean_s=mean_s,
        stddev_s=math.sqrt(variance),
        least_s=min(spread.least_s for _, spread in known),
        longest_s=max(spread.longest_s for _, spread in known),
    )
