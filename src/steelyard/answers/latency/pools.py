"""The transactions of one configuration in one cell, block by block and all together.

Counts are added, percentiles never averaged: the runs of a block (its rounds, its scripts) give
one histogram and so one value of each percentile.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from steelyard.answers.observations import RunsOfBlock
from steelyard.core.latency import RunLatency, ScriptLatency
from steelyard.core.units import US_PER_S
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
