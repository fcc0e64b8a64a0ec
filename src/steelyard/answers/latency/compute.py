"""Percentiles of every transaction over blocks, compared, and distributions to be drawn.

Times are in seconds, differences relative: 0.1 means 10 % more time than the baseline's. The
intervals of percentiles stand alone, at the level of one look, and take part in no verdict on
throughput.

Transactions inside a slice depend on one another, so an interval from their number alone is far
too narrow (METHOD 8). Blocks are the sample here too: each gives one value of a percentile. Counts
are added, percentiles never averaged: the runs of a block (its rounds, its scripts) give one
histogram and so one value of each percentile.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, ClassVar

import numpy as np

from steelyard.answers import observations as obs
from steelyard.answers.results import Grounds
from steelyard.answers.sustained.compute import last_try, usable_parts
from steelyard.core.campaign import CampaignRecord
from steelyard.core.experiment import MANY
from steelyard.core.findings import Estimate, Validity
from steelyard.core.measurement import Run, RunLatency, ScriptLatency, SustainedRun
from steelyard.core.quantities import INLINE, PERCENT, Computed, Named
from steelyard.core.schedule import (
    BaselineName,
    Blocks,
    CellKey,
    ConfigurationName,
    Load,
    WorkloadName,
)
from steelyard.core.wording import MS_PER_S, US_PER_S
from steelyard.stats.histogram import Histogram, from_text, merged, values_needed
from steelyard.stats.intervals import FloatArray

SHARES = (0.5, 0.9, 0.95, 0.99, 0.999)
OF_WINDOWS = (0.5, 0.95, 0.99)
_STEPS = 12  # points to a decade of the share that is slower

Counts = Callable[[RunLatency], Iterable[Histogram]]  # which counts of a run are meant


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pool:
    """Percentiles by block, and the histogram of all blocks.

    Attributes:
        counts: Shape (blocks,), logged transactions; NaN where a run of the block has no log.
        values_s: Shape (blocks, shares), the percentiles ``SHARES``; NaN where nothing was counted.
        whole: Of all blocks with a log; skipped transactions are the longest that there are.
        sampled: Share of the transactions that the logs hold.
        told_to_s: No longer latency can be told; None: all can.
        skips: It is the latency limit, and later transactions were skipped.
    """

    counts: FloatArray
    values_s: FloatArray
    whole: Histogram
    sampled: float = 1.0
    told_to_s: float | None = None
    skips: bool = False

    @classmethod
    def of(cls, blocks: Sequence[Histogram | None], skipped: Sequence[int] = ()) -> "Pool":
        """Return the pool of one histogram per block, and of transactions skipped in each."""
        counts = np.full(len(blocks), np.nan)
        values_s = np.full((len(blocks), len(SHARES)), np.nan)
        for row, histogram in enumerate(blocks):
            if histogram is not None:
                counts[row] = histogram.total
                histogram.counts[-1] += skipped[row] if skipped else 0
                if histogram.total:
                    values_s[row] = [histogram.quantile(share) / US_PER_S for share in SHARES]
        whole = merged(each for each in blocks if each is not None)
        return cls(counts=counts, values_s=values_s, whole=whole)

    @property
    def blocks(self) -> int:
        """Return how many blocks have a log."""
        return int(np.isfinite(self.counts).sum())

    @property
    def least(self) -> int:
        """Return the logged transactions of the block that has fewest; 0 without a block."""
        known = self.counts[np.isfinite(self.counts)]
        return int(known.min()) if len(known) else 0

    @property
    def logged(self) -> int:
        """Return the logged transactions of all blocks."""
        return int(np.nansum(self.counts))

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


def pool_of(
    blocks: Sequence[obs.RunsOfBlock],
    counts: Counts = latencies,
    *,
    skipped_after_s: float | None = None,
) -> Pool:
    """Return the pool of a configuration's runs in a cell, given block by block.

    Args:
        blocks: Runs of each.
        counts: Of a run that are meant.
        skipped_after_s: Transactions that were later than this were skipped, and count as longer;
            None: they are left out.
    """
    logged = [run.latency for runs in blocks for run in runs if run.latency is not None]
    limits = [latency.told_to_s for latency in logged if latency.told_to_s is not None]
    counted = skipped_after_s is not None
    skipped = [sum(each.skipped for each in logged_only([runs])) * counted for runs in blocks]
    if skipped_after_s is not None and any(skipped):
        limits.append(skipped_after_s)
    told_to_s = min(limits, default=None)
    return replace(
        Pool.of([_histogram(runs, counts) for runs in blocks], skipped),
        sampled=min((latency.sampled for latency in logged), default=1.0),
        told_to_s=told_to_s,
        skips=any(skipped) and told_to_s == skipped_after_s,
    )


def lost_of_run(latency: RunLatency) -> int:
    """Return how many were skipped or failed: they took longer than any limit."""
    return latency.skipped + sum(latency.failed.values())


def histogram_of_run(latency: RunLatency) -> Histogram:
    """Return all transactions of one run, scripts together."""
    return merged(latencies(latency))


def logged_only(blocks: Iterable[obs.RunsOfBlock]) -> list[RunLatency]:
    """Return the logs of the blocks of which every run has one; the others are left out."""
    return [
        run.latency
        for runs in blocks
        if all(run.latency is not None for run in runs)
        for run in runs
        if run.latency is not None
    ]


def _histogram(runs: obs.RunsOfBlock, counts: Counts) -> Histogram | None:
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
    BEYOND = "longer than can be told"  # the generator alone was paused, or skipped what was late
    LONGEST = "longest"


def percentile_name(share: float) -> str:
    """Return what a percentile is called: ``p50``, ``p99.9``, ``max``."""
    return "max" if share >= MAXIMUM else f"p{100.0 * share:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PercentileLevel:
    """One percentile of one configuration in one cell.

    Attributes:
        share: Of the transactions that are not slower, 0.99 for p99; 1 for the longest.
        there: Of the block that has fewest; where they are too few even together, of all blocks.
        needed: 10 / (1 - share) of logged ones.
        reason: Why there is no interval, or no value; empty when there is one.
        beyond_s: It is longer than this, and by how much is not known; None: it is known.
    """

    share: float
    value_s: Annotated[
        Estimate | None, Named("seconds"), "Seconds; null without enough transactions."
    ]
    basis: Annotated[Basis, "The basis of the value and its interval."]
    there: Annotated[int, Named("transactions"), "Logged transactions behind it."]
    needed: Annotated[int, "Transactions that this percentile needs."]
    reason: Annotated[str, "The reason for a missing value or interval; may be null."] = ""
    beyond_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyLevels:
    """The percentiles of one configuration in one cell.

    Attributes:
        blocks: Of which every run was logged; the others are left out.
    """

    cell: Annotated[CellKey, INLINE]
    configuration: ConfigurationName
    timed: Annotated[Timed, Named("of"), "latency, schedule lag or service time."]
    script: Annotated[str, "Script; null: all together."] = ""
    blocks: Blocks
    transactions: Annotated[int, Named("logged_transactions"), "Transactions in the logs."]
    sampled: Annotated[float, Named("log_sampling"), "Share of the transactions that was logged."]
    percentiles: tuple[PercentileLevel, ...]
    by_name: ClassVar = Computed(
        lambda levels: {percentile_name(each.share): each for each in levels.percentiles},
        Annotated[Mapping[str, PercentileLevel], Named("percentiles"), "By name: p50, p99, max."],
    )

    def at(self, share: float) -> PercentileLevel | None:
        """Return one percentile; None where it was not asked for."""
        return next((each for each in self.percentiles if each.share == share), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyChange:
    """One percentile of two configurations, or of a factor's two levels, compared within blocks.

    Attributes:
        change: With its interval taken alone; None without enough transactions.
        clear: The interval leaves out zero also when the error is shared by all percentiles and
            cells of the contrast.
    """

    baseline: BaselineName
    configuration: ConfigurationName
    workload: WorkloadName
    load: Annotated[Load, INLINE]
    share: float
    percentile: ClassVar = Computed(
        lambda change: percentile_name(change.share), Annotated[str, "Name of the percentile."]
    )
    change: Annotated[Estimate | None, PERCENT, INLINE, "Relative change, %."]
    word: ClassVar = Computed(
        lambda change: change.called or None,
        Annotated[str | None, Named("called"), "lower or higher; null if neither is clear."],
    )
    blocks: Blocks
    clear: bool = False
    reason: Annotated[str, "The reason for a missing change; may be null."] = ""

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
    """Percentiles of a window of a long run.

    Attributes:
        at: Seconds from the start of the run to the window's end.
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
        windows: Of the long runs.
    """

    levels: Annotated[tuple[LatencyLevels, ...], "Percentiles of each cell."]
    changes: Annotated[
        tuple[LatencyChange, ...], Named("comparisons"), "Configurations against the baseline."
    ]
    tails: tuple[TailCurve, ...] = ()
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


def tail_curve(
    configuration: str, cell: CellKey, whole: Histogram, *, told_to_s: float | None = None
) -> TailCurve:
    """Return the distribution function of a configuration in a cell, as far as it can be told."""
    total = whole.total
    points = tuple(
        TailPoint(share=share, latency_s=whole.quantile(share) / US_PER_S, told=whole.tells(share))
        for share in (_shares(total) if total else ())
    )
    if told_to_s is not None:
        points = tuple(point for point in points if point.latency_s <= told_to_s)
    return TailCurve(configuration=configuration, cell=cell, points=points)


def _shares(total: int) -> list[float]:
    """Return shares from 0 on; the last but the longest leaves one transaction beyond itself."""
    decades = np.log10(max(total, 2))
    beyond = 10.0 ** -np.arange(0.0, decades, 1.0 / _STEPS)
    return [float(1.0 - each) for each in beyond]


def window_moments(record: CampaignRecord, configurations: Sequence[str]) -> Iterator[Moment]:
    """Yield the windows of the long runs, further parts going on where the first ended.

    Only parts of the last try, and none that is invalid.
    """
    for cell in dict.fromkeys(run.cell for run in record.sustained):
        for configuration in configurations:
            tried = [
                run
                for run in record.sustained
                if (run.cell, run.configuration) == (cell, configuration)
            ]
            parts = usable_parts(last_try(tried))
            for run in parts:
                if run.validity is not Validity.INVALID:
                    yield from _windows(run, run.started_at - parts[0].started_at)


def _windows(run: SustainedRun, from_s: float) -> Iterator[Moment]:
    for window in run.latency.windows if run.latency is not None else ():
        yield Moment(
            configuration=run.configuration,
            cell=run.cell,
            at=from_s + window.end_s,
            values=_values(from_text(window.latency), OF_WINDOWS),
        )


def _values(
    histogram: Histogram, shares: Sequence[float]
) -> tuple[tuple[float, float | None], ...]:
    return tuple(
        (share, histogram.quantile(share) / US_PER_S if histogram.tells(share) else None)
        for share in shares
    )


_BRIEFLY = (0.5, 0.99)  # what is told of schedule lag and service time
_TIMED: Mapping[Timed, Counts] = {
    Timed.LAG: lambda latency: (from_text(latency.lag),),
    Timed.SERVICE: lambda latency: (from_text(latency.service),),
}

Key = tuple[str, CellKey]


def campaign_latency(grounds: Grounds) -> LatencyAnalysis | None:
    """Return what the logs of a campaign say; None where no run that counts has one."""
    record = grounds.record
    return analyse_latency(record, grounds.seen, obs.result_contrasts(record.experiment))


def analyse_latency(
    record: CampaignRecord, seen: obs.Observations, asked: Sequence[obs.ResultContrast]
) -> LatencyAnalysis | None:
    """Return what the logs say; None where no run that counts has one.

    Args:
        record: Of the campaign.
        seen: Its observations.
        asked: What is compared, with weights in the order of ``seen.configurations``.
    """
    pools = _pools(seen)
    windows = tuple(window_moments(record, seen.configurations))
    if not pools and not windows:
        return None
    cells = [cell for cell in seen.cells if any(key[1] == cell for key in pools)]
    return LatencyAnalysis(
        levels=tuple(each for key, pool in pools.items() for each in _levels(seen, key, pool)),
        changes=tuple(
            each
            for contrast in asked
            for each in compare_percentiles(contrast, seen.configurations, cells, pools)
        ),
        tails=tuple(
            tail_curve(*key, pool.whole, told_to_s=pool.told_to_s) for key, pool in pools.items()
        ),
        windows=windows,
    )


def compare_percentiles(
    asked: obs.ResultContrast,
    configurations: Sequence[str],
    cells: Sequence[CellKey],
    pools: Mapping[Key, Pool],
) -> tuple[LatencyChange, ...]:
    """Return every percentile of every cell under one contrast.

    Of each block the weighted sum of the logarithms of its percentiles; the Hodges-Lehmann centre
    of these with its signed-rank interval. Bonferroni is over all that could be compared.
    """
    compared = [
        _difference(asked, configurations, cell, pools, s) for cell in cells for s in SHARES
    ]
    family = sum(len(differences) > 0 for differences, _ in compared)
    places = ((cell, share) for cell in cells for share in SHARES)
    return tuple(
        LatencyChange(
            baseline=asked.baseline,
            configuration=asked.configuration,
            workload=cell.workload,
            load=cell.load,
            share=share,
            change=obs.as_ratio(obs.change(differences)) if len(differences) else None,
            blocks=len(differences),
            clear=len(differences) > 1 and obs.is_clear(differences, family),
            reason=reason,
        )
        for (cell, share), (differences, reason) in zip(places, compared, strict=True)
    )


def _pools(seen: obs.Observations) -> dict[Key, Pool]:
    """Return the pools of all configurations and cells of which a run has a log."""
    return {
        (configuration, cell): pool_of(blocks, skipped_after_s=cell.load.latency_limit_s)
        for cell in seen.cells
        for configuration in seen.configurations
        if (blocks := _blocks(seen, configuration, cell))
    }


def _blocks(seen: obs.Observations, configuration: str, cell: CellKey) -> list[Sequence[Run]]:
    """Return the runs of each block; nothing where none of them has a log."""
    runs = seen.runs.get((configuration, cell), ())
    logged = any(run.latency is not None for run in runs)
    return obs.runs_by_block(runs)[: seen.blocks] if logged else []


# --- levels ---


def _levels(seen: obs.Observations, key: Key, pool: Pool) -> Iterator[LatencyLevels]:
    """Yield the latencies of a cell, then those of its scripts, then lag and service time."""
    blocks = _blocks(seen, *key)
    scripts = [each for latency in logged_only(blocks) for each in latency.scripts]
    names = list(dict.fromkeys(each.script for each in scripts))
    longest = [each.longest_s for each in scripts if each.longest_s is not None]
    yield _levels_of_pool(key, pool, Timed.LATENCY, longest_s=max(longest, default=None))
    for name in names if len(names) > 1 else ():
        longest = [s.longest_s for s in scripts if s.script == name and s.longest_s is not None]
        own = pool_of(blocks, latencies_of(name))
        yield _levels_of_pool(
            key, own, Timed.LATENCY, script=name, longest_s=max(longest, default=None)
        )
    for timed, counts in _TIMED.items() if key[1].load.is_open else ():
        # What was skipped lagged by more than the limit, and was never sent.
        limit_s = key[1].load.latency_limit_s if timed is Timed.LAG else None
        other = pool_of(blocks, counts, skipped_after_s=limit_s)
        if other.logged:
            longest_s = other.whole.value_at(other.logged) / US_PER_S  # the skipped rank above it
            yield _levels_of_pool(key, other, timed, longest_s=longest_s)


def _levels_of_pool(
    key: Key, pool: Pool, timed: Timed, *, longest_s: float | None, script: str = ""
) -> LatencyLevels:
    shares = SHARES if timed is Timed.LATENCY else _BRIEFLY
    return LatencyLevels(
        configuration=key[0],
        cell=key[1],
        timed=timed,
        script=script,
        blocks=pool.blocks,
        transactions=pool.logged,
        sampled=pool.sampled,
        percentiles=(*(percentile_of(pool, share) for share in shares), _longest(pool, longest_s)),
    )


def percentile_of(pool: Pool, share: float) -> PercentileLevel:
    """Return a percentile over blocks, of all blocks together, or why there is neither."""
    needed = pool.stood_for(values_needed(share))
    if _is_beyond(pool, share):
        return PercentileLevel(
            share=share,
            basis=Basis.BEYOND,
            value_s=None,
            there=pool.stood_for(pool.least),
            needed=needed,
            reason=_beyond(pool),
            beyond_s=pool.told_to_s,
        )
    if pool.told_by_block(share):
        basis, value, there = Basis.BLOCKS, obs.level(pool.values_of(share)), pool.least
        reason = "" if value is not None and value.low is not None else "fewer than 6 blocks"
    elif pool.whole.tells(share):
        basis, there = Basis.TOGETHER, pool.least
        value = Estimate(value=pool.whole.quantile(share) / US_PER_S)
        reason = (
            f"all blocks together, without an interval: a block has as few as"
            f" {pool.stood_for(there):,} {MANY}, and it takes {needed:,}"
        )
    else:
        basis, value, there = Basis.TOO_FEW, None, pool.logged
        reason = (
            f"not enough {MANY}: {pool.stood_for(there):,} in all blocks together, and it"
            f" takes {needed:,}"
        )
    return PercentileLevel(
        share=share,
        basis=basis,
        value_s=value,
        there=pool.stood_for(there),
        needed=needed,
        reason=reason,
    )


def _is_beyond(pool: Pool, share: float) -> bool:
    """Return whether a percentile that there are enough transactions for cannot be told."""
    if pool.told_by_block(share):
        return pool.is_beyond(pool.values_of(share))
    if pool.whole.tells(share):
        return pool.is_beyond(np.array([pool.whole.quantile(share) / US_PER_S]))
    return False


def _beyond(pool: Pool) -> str:
    told_to_ms = (pool.told_to_s or 0.0) * MS_PER_S
    if pool.skips:
        why = "transactions that were later than this were skipped"
    else:
        why = "the pauses of the load generator alone cut what is longer"
    return f"above {told_to_ms:g} ms nothing is told: {why}"


def _longest(pool: Pool, longest_s: float | None) -> PercentileLevel:
    everything = pool.whole.quantile(MAXIMUM) / US_PER_S if pool.whole.total else 0.0
    if not pool.skips and pool.is_beyond(np.array([everything])):
        return PercentileLevel(
            share=MAXIMUM,
            basis=Basis.BEYOND,
            value_s=None,
            there=pool.stood_for(pool.logged),
            needed=1,
            reason=_beyond(pool),
            beyond_s=pool.told_to_s,
        )
    return PercentileLevel(
        share=MAXIMUM,
        basis=Basis.TOO_FEW if longest_s is None else Basis.LONGEST,
        value_s=None if longest_s is None else Estimate(value=longest_s),
        there=pool.stood_for(pool.logged),
        needed=1,
        reason="" if longest_s is not None else f"not enough {MANY}: there is none",
    )


# --- differences ---


def _difference(
    asked: obs.ResultContrast,
    configurations: Sequence[str],
    cell: CellKey,
    pools: Mapping[Key, Pool],
    share: float,
) -> tuple[FloatArray, str]:
    """Return the contrast of each block, or nothing and why."""
    sides = [(weight, configurations[at]) for at, weight in enumerate(asked.weights) if weight]
    found = [(weight, pools[name, cell]) for weight, name in sides if (name, cell) in pools]
    none = np.empty(0)
    if len(found) < len(sides):
        return none, "not every side has a log"
    rows = np.isfinite([pool.counts for _, pool in found]).all(axis=0)
    if not rows.any():
        return none, "no block in which every side has a log"
    pool, least = min(
        ((pool, float(pool.counts[rows].min())) for _, pool in found), key=lambda each: each[1]
    )
    if least < values_needed(share):
        there, needed = pool.stood_for(least), pool.stood_for(values_needed(share))
        return none, (
            f"not enough {MANY}: a block has as few as {there:,}, and it takes {needed:,}"
        )
    if beyond := [pool for _, pool in found if pool.is_beyond(pool.values_of(share)[rows])]:
        return none, _beyond(beyond[0])
    logs = [weight * np.log(pool.values_of(share)[rows]) for weight, pool in found]
    return np.asarray(np.sum(logs, axis=0)), ""
