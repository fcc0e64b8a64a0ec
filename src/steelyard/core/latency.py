"""What the transaction log of a run says: every transaction, counted into buckets.

Counts add up exactly in any order, and the percentiles of a sum are those of all transactions
together; percentiles themselves are never averaged (METHOD 8). An aggregated log has sums by
interval, without percentiles.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class LogPolicy(StrEnum):
    """What becomes of the generator's log of every transaction."""

    HISTOGRAMS = "histograms"  # counted into histograms, then dropped
    KEEP = "keep"  # counted, and kept compressed in the record
    OFF = "off"  # not written: there are mean latencies only


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptLatency:
    """The transactions of one script in one run, after its ramp.

    Attributes:
        script: Name of the builtin script, or of the script file.
        latency: Counts of microseconds as text, see ``stats.histogram.from_text``; under a rate
            from the scheduled start.
        longest_s: The longest of them, exactly; None without a transaction.
        cut: Ended in turns too, but a pause of the generator alone fell into them: it is not known
            how long they took, but for that it was longer than what is told.
    """

    script: str
    latency: str
    longest_s: float | None
    cut: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyWindow:
    """All transactions that ended in some seconds of a long run.

    Attributes:
        start_s: Seconds since the run's start, as progress intervals count them.
        end_s: Likewise.
        latency: Counts of microseconds as text.
    """

    start_s: float
    end_s: float
    latency: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLatency:
    """Every logged transaction of one run, after its ramp, all its generators together.

    Attributes:
        scripts: One entry per script that ran, in the order of the workload.
        lag: Counts of microseconds between the scheduled start and the start as text; empty in a
            closed loop.
        service: Counts of microseconds from the start to the end; empty in a closed loop, where
            that is the latency itself.
        failed: Failed transactions by kind: ``serialization``, ``deadlock``, or ``failed`` where
            the log does not tell.
        skipped: Never started, because they were later than the latency limit already.
        late: Took longer than the latency limit, skipped ones not included; None without a limit.
        retried: Transactions that were tried more than once.
        retries: Further tries in all.
        sampled: Share of the transactions that the log holds.
        told_to_s: No longer latency can be told, because pauses of the generator alone cut what is
            longer; None: all can.
        windows: Of 10 s, in long runs only.
        seconds: Name of the stored counts by second and script below the campaign's ``raw/``.
    """

    scripts: tuple[ScriptLatency, ...]
    lag: str = ""
    service: str = ""
    failed: Mapping[str, int] = field(default_factory=dict)
    skipped: int = 0
    late: int | None = None
    retried: int = 0
    retries: int = 0
    sampled: float = 1.0
    told_to_s: float | None = None
    windows: tuple[LatencyWindow, ...] = ()
    seconds: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyGoal:
    """A service level: this share of all transactions is faster than a limit.

    Attributes:
        share: Between 0 and 1; 0.99 for p99.
        limit_s: Latency that this percentile must stay below, from the scheduled start.
    """

    share: float
    limit_s: float

    @property
    def label(self) -> str:
        """Return it as in an experiment file: ``p99 < 10 ms``."""
        factor, unit = (1e3, "ms") if self.limit_s < 1.0 else (1.0, "s")
        if self.limit_s < 1e-3:
            factor, unit = 1e6, "us"
        return f"p{100.0 * self.share:.6g} < {self.limit_s * factor:.6g} {unit}"


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
