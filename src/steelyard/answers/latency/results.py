"""What is said of latencies: their percentiles, and what to draw.

Times are in seconds, differences relative: 0.1 means 10 % more time than the baseline's. The
intervals of percentiles stand alone, at the level of one look, and take part in no verdict on
throughput.

Counts are added, percentiles never averaged: the runs of a block (its rounds, its scripts) give
one histogram and so one value of each percentile.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from steelyard.answers.observations import RunsOfBlock
from steelyard.core.findings import Estimate
from steelyard.core.measurement import RunLatency, ScriptLatency
from steelyard.core.schedule import CellKey, Load
from steelyard.core.wording import US_PER_S
from steelyard.stats.histogram import Histogram, from_text, merged, values_needed
from steelyard.stats.intervals import FloatArray

SHARES = (0.5, 0.9, 0.95, 0.99, 0.999)

Counts = Callable[[RunLatency], Iterable[Histogram]]  # which counts of a run are meant


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pool:
    """Percentiles by block, and the histogram of all blocks.

    Attributes:
        counts: Shape (blocks,), logged transactions; NaN where a run of the block has no log.
        values_s: Shape (blocks, shares), the percentiles ``SHARES``; NaN where nothing was counted.
        whole: Of all blocks with a log.
        sampled: Share of the transactions that the logs hold.
        told_to_s: No longer latency can be told; None: all can.
    """

    counts: FloatArray
    values_s: FloatArray
    whole: Histogram
    sampled: float
    told_to_s: float | None = None

    @classmethod
    def of(
        cls,
        blocks: Sequence[Histogram | None],
        sampled: float = 1.0,
        *,
        told_to_s: float | None = None,
    ) -> "Pool":
        """Return the pool of one histogram per block."""
        counts = np.full(len(blocks), np.nan)
        values_s = np.full((len(blocks), len(SHARES)), np.nan)
        for row, histogram in enumerate(blocks):
            if histogram is not None:
                counts[row] = histogram.total
                if histogram.total:
                    values_s[row] = [histogram.quantile(share) / US_PER_S for share in SHARES]
        whole = merged(each for each in blocks if each is not None)
        return cls(
            counts=counts, values_s=values_s, whole=whole, sampled=sampled, told_to_s=told_to_s
        )

    @property
    def blocks(self) -> int:
        """Return how many blocks have a log."""
        return int(np.isfinite(self.counts).sum())

    @property
    def least(self) -> int:
        """Return the logged transactions of the block that has fewest; 0 without a block."""
        known = self.counts[np.isfinite(self.counts)]
        return int(known.min()) if len(known) else 0

    def values_of(self, share: float) -> FloatArray:
        """Return one percentile of each block, shape (blocks,), seconds."""
        return np.asarray(self.values_s[:, SHARES.index(share)])

    def told_by_block(self, share: float) -> bool:
        """Return whether every block with a log has enough transactions for a percentile."""
        return self.blocks > 0 and self.least >= values_needed(share)

    def is_beyond(self, values_s: FloatArray) -> bool:
        """Return whether a value is too long to be told; NaN is left out."""
        return self.told_to_s is not None and bool((values_s > self.told_to_s).any())

    def stood_for(self, logged: float) -> int:
        """Return how many transactions so many logged ones stand for."""
        return round(logged / self.sampled)


def latencies(latency: RunLatency) -> Iterable[Histogram]:
    """Return the latencies of a run's scripts."""
    return map(_with_cut, latency.scripts)


def latencies_of(script: str) -> Counts:
    """Return what picks the latencies of one script."""
    return lambda latency: (_with_cut(each) for each in latency.scripts if each.script == script)


def _with_cut(script: ScriptLatency) -> Histogram:
    """Return the latencies of a script, with those that were cut as the longest that there are."""
    counted = from_text(script.latency)
    counted.counts[-1] += script.cut
    return counted


def pool_of(blocks: Sequence[RunsOfBlock], counts: Counts = latencies) -> Pool:
    """Return the pool of a configuration's runs in a cell, given block by block."""
    logged = [run.latency for runs in blocks for run in runs if run.latency is not None]
    sampled = min((latency.sampled for latency in logged), default=1.0)
    limits = [latency.told_to_s for latency in logged if latency.told_to_s is not None]
    return Pool.of(
        [_histogram(runs, counts) for runs in blocks], sampled, told_to_s=min(limits, default=None)
    )


def lost_of_run(latency: RunLatency) -> int:
    """Return how many were skipped or failed: they took longer than any limit."""
    return latency.skipped + sum(latency.failed.values())


def histogram_of_run(latency: RunLatency) -> Histogram:
    """Return all transactions of one run, scripts together."""
    return merged(latencies(latency))


def logged_only(blocks: Iterable[RunsOfBlock]) -> list[RunLatency]:
    """Return the logs of the blocks of which every run has one; the others are left out."""
    return [
        run.latency
        for runs in blocks
        if all(run.latency is not None for run in runs)
        for run in runs
        if run.latency is not None
    ]


def _histogram(runs: RunsOfBlock, counts: Counts) -> Histogram | None:
    """Return all transactions of a block; None where a run of it has no log."""
    found = logged_only([runs])
    if not found:
        return None
    return merged(each for latency in found for each in counts(latency))


MAXIMUM = 1.0


class Timed(StrEnum):
    """Which time of a transaction was counted."""

    LATENCY = "latency"  # to the answer: from sending, or under a rate from the scheduled start
    LAG = "schedule lag"  # under a rate: from the scheduled start to sending
    SERVICE = "service time"  # under a rate: from sending to the answer


class Basis(StrEnum):
    """What a percentile was taken from."""

    BLOCKS = "blocks"  # one value per block; their median with its interval
    TOGETHER = "all blocks together"  # a block alone has too few transactions for it
    TOO_FEW = "not enough transactions"
    BEYOND = "longer than turns can tell"  # the load generator alone was paused
    LONGEST = "longest"


def percentile_name(share: float) -> str:
    """Return what a percentile is called: ``p50``, ``p99.9``, ``max``."""
    return "max" if share >= MAXIMUM else f"p{100.0 * share:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PercentileLevel:
    """One percentile of one configuration in one cell.

    Attributes:
        share: Of the transactions that are not slower, 0.99 for p99; 1 for the longest.
        value_s: None where there are not enough transactions.
        there: Transactions of the block that has fewest; where they are too few even together,
            of all blocks.
        needed: Transactions that it takes, 10 / (1 - share) of logged ones.
        reason: Why there is no interval, or no value; empty when there is one.
        beyond_s: It is longer than this, and by how much is not known; None: it is known.
    """

    share: float
    basis: Basis
    value_s: Estimate | None
    there: int
    needed: int
    reason: str = ""
    beyond_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyLevels:
    """The percentiles of one configuration in one cell.

    Attributes:
        script: One of several that the workload has; empty for all together.
        blocks: Of which every run was logged; the others are left out.
        transactions: Logged in them.
        sampled: Share of the transactions that the log holds.
    """

    configuration: str
    cell: CellKey
    timed: Timed
    script: str
    blocks: int
    transactions: int
    sampled: float
    percentiles: tuple[PercentileLevel, ...]

    def at(self, share: float) -> PercentileLevel | None:
        """Return one percentile; None where it was not asked for."""
        return next((each for each in self.percentiles if each.share == share), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyChange:
    """One percentile of two configurations, or of a factor's two levels, compared within blocks.

    Attributes:
        change: Relative difference with its interval taken alone; None without enough
            transactions.
        blocks: Behind it.
        clear: The interval leaves out zero also when the error is shared by all percentiles and
            cells of the contrast.
        reason: Why there is no change; empty when there is one.
    """

    baseline: str
    configuration: str
    workload: str
    load: Load
    share: float
    change: Estimate | None
    blocks: int
    clear: bool = False
    reason: str = ""

    @property
    def called(self) -> str:
        """Return ``lower`` or ``higher``, empty where that is not clear."""
        if not self.clear or self.change is None:
            return ""
        return "lower" if self.change.value < 0.0 else "higher"


@dataclass(frozen=True, slots=True, kw_only=True)
class TailPoint:
    """One point of a distribution function.

    Attributes:
        share: Of the transactions that are not slower.
        told: At least 10 transactions are slower; beyond that, a line is only those few.
    """

    share: float
    latency_s: float
    told: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TailCurve:
    """The distribution of all transactions of one configuration in one cell, blocks together."""

    configuration: str
    cell: CellKey
    points: tuple[TailPoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Percentiles of a short time: of a slice, or of a window of a long run.

    Attributes:
        at: Place of a slice among the runs of its cell, counting from 1; for a window the seconds
            from the start of the long run to its end.
        values: One per share asked for, seconds; None where the transactions are too few.
    """

    configuration: str
    cell: CellKey
    at: float
    values: tuple[tuple[float, float | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyAnalysis:
    """Everything that the logs of a campaign say.

    Attributes:
        levels: Cell by cell in configuration order, all scripts together before each alone.
        changes: Contrast by contrast, cell by cell.
        tails: One per configuration and cell.
        slices: Of each run, in run order.
        windows: Of the long runs.
    """

    levels: tuple[LatencyLevels, ...]
    changes: tuple[LatencyChange, ...]
    tails: tuple[TailCurve, ...] = ()
    slices: tuple[Moment, ...] = ()
    windows: tuple[Moment, ...] = ()

    def of(self, configuration: str, cell: CellKey) -> LatencyLevels | None:
        """Return the latencies of all scripts together; None where none was logged."""
        return self.times_of(configuration, cell).get(Timed.LATENCY)

    def percentile_s(self, configuration: str, cell: CellKey, share: float) -> float | None:
        """Return a percentile of all scripts together, s; None where it cannot be told."""
        levels = self.of(configuration, cell)
        found = None if levels is None else levels.at(share)
        return None if found is None or found.value_s is None else found.value_s.value

    def times_of(self, configuration: str, cell: CellKey) -> dict[Timed, LatencyLevels]:
        """Return everything that was timed of all scripts together."""
        return {
            each.timed: each
            for each in self.levels
            if (each.configuration, each.cell) == (configuration, cell) and not each.script
        }
