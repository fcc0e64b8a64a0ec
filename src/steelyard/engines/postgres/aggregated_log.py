"""pgbench's aggregated log (``--aggregate-interval``): sums by interval instead of transactions.

It has no percentiles: means and extremes only. A line has 15 columns in PostgreSQL 15 and 18, in
the same order: ``interval_start num_transactions sum_latency sum_latency_2 min_latency max_latency
sum_lag sum_lag_2 min_lag max_lag skipped retried retries serialization_failures
deadlock_failures``. pgbench writes 0 where a flag is missing that a column needs.

Source: PostgreSQL 18, ``doLog`` in pgbench.c; recordings in ``tests/recordings/pgbench_log``.
"""

import math
from dataclasses import dataclass

from steelyard.model.aggregated import LoggedInterval, Spread
from steelyard.model.units import US_PER_S

_COLUMNS = 15
_MOST_DIGITS = 40  # sums of squares of microseconds; longer ones are none of pgbench's


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatedLog:
    """One file.

    Attributes:
        intervals: In the order of the file.
        damaged: Lines that were not understood.
        truncated: Its last line has no end, and is not counted.
    """

    intervals: tuple[LoggedInterval, ...]
    damaged: int
    truncated: bool


def parse_aggregated(content: bytes) -> AggregatedLog:
    """Return the intervals of a file; it never raises."""
    *lines, rest = content.split(b"\n")
    parsed = [_interval(line) for line in lines]
    return AggregatedLog(
        intervals=tuple(interval for interval in parsed if interval is not None),
        damaged=sum(interval is None for interval in parsed),
        truncated=bool(rest),
    )


def _interval(line: bytes) -> LoggedInterval | None:
    fields = line.split(b" ")
    if len(fields) != _COLUMNS or not all(
        field.isdigit() and len(field) <= _MOST_DIGITS for field in fields
    ):
        return None
    numbers = [int(field) for field in fields]
    return LoggedInterval(
        start_s=numbers[0],
        transactions=numbers[1],
        latency=_spread(numbers[1], numbers[2:6]),
        lag=_spread(numbers[1], numbers[6:10]) if any(numbers[6:10]) else None,
        skipped=numbers[10],
        retried=numbers[11],
        retries=numbers[12],
        serialization_failures=numbers[13],
        deadlock_failures=numbers[14],
    )


def _spread(number: int, sums: list[int]) -> Spread | None:
    """Return the spread of times from their sum, sum of squares, least and longest."""
    if not number:
        return None
    total, squares, least, longest = sums
    # Whole numbers, because the difference of two large floats would be none of theirs.
    variance = max(number * squares - total * total, 0)
    return Spread(
        mean_s=total / number / US_PER_S,
        stddev_s=math.sqrt(variance) / number / US_PER_S,
        least_s=least / US_PER_S,
        longest_s=longest / US_PER_S,
    )
