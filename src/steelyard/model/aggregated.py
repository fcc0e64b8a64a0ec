"""What an aggregated log says: sums by interval, without percentiles."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Times of an interval.

    Attributes:
        mean_s: Their mean.
        stddev_s: Their standard deviation; its denominator is their number.
        least_s: The shortest.
        longest_s: The longest.
    """

    mean_s: float
    stddev_s: float
    least_s: float
    longest_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedInterval:
    """One line: the transactions of one thread that ended in an interval.

    Attributes:
        start_s: Seconds since the epoch.
        transactions: Successful ones.
        latency: None where none succeeded.
        lag: From the scheduled start to the start; None likewise, and where all are 0, as they
            are without a rate.
        skipped: 0 without a latency limit, too.
        retried: Tried more than once; 0 without ``--max-tries``, too.
        retries: Further tries in all.
        serialization_failures: 0 without ``--failures-detailed``, too.
        deadlock_failures: Likewise.
    """

    start_s: int
    transactions: int
    latency: Spread | None
    lag: Spread | None
    skipped: int
    retried: int
    retries: int
    serialization_failures: int
    deadlock_failures: int
