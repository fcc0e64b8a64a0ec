"""Open loops: what was offered and how late it was, and the highest rate that meets the goal.

Percentiles are those of blocks, never averages of percentiles: where one block has too few
transactions for one, those of neighbouring blocks are added up (METHOD 8).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from steelyard.analysis.block_values import runs_by_block
from steelyard.analysis.contrasts import HeadlineContrast, headline_contrasts
from steelyard.analysis.observations import Observations
from steelyard.model.campaign import CampaignRecord
from steelyard.model.capacity import Capacity
from steelyard.model.experiment import Load
from steelyard.model.latency import LatencyGoal, RunLatency
from steelyard.model.measurement import Run
from steelyard.model.schedule import CellKey
from steelyard.model.units import US_PER_S
from steelyard.model.verdicts import Estimate
from steelyard.stats.confidence import Interval
from steelyard.stats.goal import Crossing, Reached, crossing, goal_rate, goal_ratio
from steelyard.stats.histogram import Histogram, from_text, merged, rank_of
from steelyard.stats.median import LEVEL, median_interval

_TAIL = 10.0  # transactions beyond a percentile that make it worth stating: METHOD 8
_P50, _P99 = 0.5, 0.99
_Part = TypeVar("_Part")


@dataclass(frozen=True, slots=True, kw_only=True)
class RatePoint:
    """One treatment at one rate.

    Attributes:
        offered_per_s: What was scheduled; None where the capacity was not found.
        achieved: Completed per second, median over blocks.
        p50_s: Median over blocks of their latency from the scheduled start; None where there are
            too few transactions, or no log of them.
        p99_s: Likewise.
        lag_p99_s: How late transactions were started, likewise.
        transactions: Successful ones, of all blocks.
        late: Over the latency limit; None without a limit.
        skipped: Never started, because they were over it already.
        missing: Runs of which no transaction is known.
    """

    treatment: str
    cell: CellKey
    offered_per_s: float | None
    achieved: Estimate | None
    p50_s: Estimate | None
    p99_s: Estimate | None
    lag_p99_s: Estimate | None
    transactions: int
    late: int | None
    skipped: int
    missing: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalRate:
    """The highest rate of one treatment that meets the goal.

    Attributes:
        load: Of all these rates; its own rate says nothing.
        rates_per_s: That were measured and told the percentile, rising.
        reached: 1/s; None where no rate tells it.
        blocks: That count.
        pooled: Neighbouring blocks that were added up for one percentile.
        untold: Rates with too few transactions for the percentile, even all blocks together.
    """

    treatment: str
    workload: str
    load: Load
    rates_per_s: tuple[float, ...]
    reached: Reached | None
    blocks: int
    pooled: int
    untold: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalContrast:
    """How the rates under the goal of two treatments compare.

    Attributes:
        ratio: Log ratio over blocks; infinite bounds say nothing of that side.
    """

    baseline: str
    treatment: str
    workload: str
    load: Load
    ratio: Reached


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLoops:
    """What a campaign says of rates.

    Attributes:
        capacities: Of the baseline before the first block; empty where no load is a share.
        points: One per open load, treatment and workload, with blocks.
        goal: What was looked for; None: nothing.
        goals: One per workload, treatment and pool of clients.
        contrasts: Against the baseline, where both treatments tell a rate.
    """

    capacities: tuple[Capacity, ...]
    points: tuple[RatePoint, ...]
    goal: LatencyGoal | None = None
    goals: tuple[GoalRate, ...] = ()
    contrasts: tuple[GoalContrast, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taken:
    """The transactions of one block in one cell; none where no run of it was logged."""

    latency: Histogram
    lag: Histogram
    missed: int  # skipped or failed: they took longer than any limit

    @property
    def total(self) -> int:
        return self.latency.total + self.missed

    def quantile_s(self, share: float) -> float:
        """Return the latency that this share of all does not exceed, infinite if lost ones do."""
        rank = rank_of(share, self.total)
        if rank > self.latency.total:
            return np.inf
        return self.latency.value_at(rank) / US_PER_S


_Ladder = dict[float, CellKey]  # of one workload and pool of clients: cell by offered rate
_Blocks = dict[tuple[str, CellKey], list[_Taken]]


def open_loops(record: CampaignRecord, seen: Observations) -> OpenLoops | None:
    """Return what a campaign says of rates; None where it offers none and found no capacity."""
    experiment, plan = record.experiment, record.plan
    capacities = plan.capacities if plan is not None else ()
    offered = _offered(record)
    if not capacities and not offered:
        return None
    cells = [cell for cell in offered if any((t, cell) in seen.runs for t in seen.treatments)]
    blocks: _Blocks = {
        (treatment, cell): [_taken(runs) for runs in runs_by_block(seen.runs[treatment, cell])]
        for cell in cells
        for treatment in seen.treatments
        if (treatment, cell) in seen.runs
    }
    points = tuple(
        _point(treatment, cell, seen.runs[treatment, cell], blocks[treatment, cell], offered[cell])
        for cell in cells
        for treatment in seen.treatments
        if (treatment, cell) in blocks
    )
    found = OpenLoops(capacities=capacities, points=points, goal=experiment.goal)
    if experiment.goal is None or not blocks:
        return found
    known = {cell: rate for cell, rate in offered.items() if rate is not None and cell in cells}
    contrasts = headline_contrasts(experiment)
    answers = [
        _answers(ladder, experiment.goal, blocks, seen.treatments, contrasts)
        for ladder in _ladders(known)
    ]
    return replace(
        found,
        goals=tuple(goal for goals, _ in answers for goal in goals),
        contrasts=tuple(contrast for _, contrasts in answers for contrast in contrasts),
    )


def _offered(record: CampaignRecord) -> dict[CellKey, float | None]:
    """Return the rate of every open cell, in file order."""
    found = {rate.cell: rate.rate_per_s for rate in record.plan.rates} if record.plan else {}
    cells = (
        CellKey(workload=workload.name, load=load)
        for workload in record.experiment.workloads
        for load in record.experiment.loads
    )
    return {cell: found.get(cell, cell.load.rate_per_s) for cell in cells if cell.load.is_open}


def _taken(runs: Sequence[Run]) -> _Taken:
    logged = [run.latency for run in runs if run.latency is not None]
    return _Taken(
        latency=merged(from_text(s.latency) for latency in logged for s in latency.scripts),
        lag=merged(from_text(latency.lag) for latency in logged),
        missed=sum(_lost(latency) for latency in logged),
    )


def _lost(latency: RunLatency) -> int:
    return latency.skipped + sum(latency.failed.values())


def _together(parts: Sequence[_Taken]) -> _Taken:
    return _Taken(
        latency=merged(part.latency for part in parts),
        lag=merged(part.lag for part in parts),
        missed=sum(part.missed for part in parts),
    )


def _point(
    treatment: str,
    cell: CellKey,
    runs: Sequence[Run],
    blocks: Sequence[_Taken],
    offered_per_s: float | None,
) -> RatePoint:
    logged = [run.latency for run in runs if run.latency is not None]
    late = [latency.late for latency in logged if latency.late is not None]
    rates = [
        float(np.median([r.measurement.tps for r in of_block if r.measurement is not None]))
        for of_block in runs_by_block(runs)
        if any(r.measurement is not None for r in of_block)
    ]
    return RatePoint(
        treatment=treatment,
        cell=cell,
        offered_per_s=offered_per_s,
        achieved=_level(rates),
        p50_s=_percentile([block.latency for block in blocks], _P50),
        p99_s=_percentile([block.latency for block in blocks], _P99),
        lag_p99_s=_percentile([block.lag for block in blocks], _P99),
        transactions=sum(block.latency.total for block in blocks),
        late=sum(late) if late else None,
        skipped=sum(latency.skipped for latency in logged),
        missing=len(runs) - len(logged),
    )


def _percentile(blocks: Sequence[Histogram], share: float) -> Estimate | None:
    """Return the median over blocks, s, neighbours added up where one has too few; or None."""
    size = _pooling([[block.total for block in blocks]], share)
    if size is None:
        return None
    pooled = [merged(part) for part in _neighbours(blocks, size)]
    return _level([max(part.quantile(share), 1.0) / US_PER_S for part in pooled])


def _level(values: Sequence[float]) -> Estimate | None:
    if not values or min(values) <= 0.0:
        return None
    return _estimate(median_interval(np.array(values)))


def _estimate(interval: Interval) -> Estimate:
    if not interval.bounded:
        return Estimate(value=interval.estimate)
    return Estimate(value=interval.estimate, low=interval.low, high=interval.high)


def _pooling(totals: Sequence[Sequence[int]], share: float) -> int | None:
    """Return how many neighbouring blocks must be added up so that all tell a percentile.

    Args:
        totals: Transactions by cell and block.
        share: Of the percentile, between 0 and 1.
    """
    needed = _TAIL / (1.0 - share) * (1.0 - 1e-9)
    blocks = min((len(cell) for cell in totals), default=0)
    for size in range(1, blocks + 1):
        if all(min(map(sum, _neighbours(cell, size))) >= needed for cell in totals):
            return size
    return None


def _neighbours(parts: Sequence[_Part], size: int) -> list[Sequence[_Part]]:
    """Return neighbours in groups of so many, the last one larger where they do not divide."""
    starts = list(range(0, max(len(parts) - size, 0) + 1, size))
    ends = [*starts[1:], len(parts)]
    return [parts[start:end] for start, end in zip(starts, ends, strict=True)]


def _ladders(offered: Mapping[CellKey, float]) -> list[_Ladder]:
    """Return cells that differ in their rates alone, in file order, rates rising."""
    ladders: dict[CellKey, _Ladder] = {}
    for cell, rate_per_s in offered.items():
        pool = replace(cell, load=replace(cell.load, rate_per_s=None, share=None))
        ladders.setdefault(pool, {})[rate_per_s] = cell
    return [dict(sorted(ladder.items())) for ladder in ladders.values()]


def _answers(
    ladder: _Ladder,
    goal: LatencyGoal,
    blocks: _Blocks,
    treatments: Sequence[str],
    contrasts: Sequence[HeadlineContrast],
) -> tuple[list[GoalRate], list[GoalContrast]]:
    """Return the rate of every treatment under the goal, and how they compare."""
    first = next(iter(ladder.values()))
    sides = [t for t in treatments if all((t, cell) in blocks for cell in ladder.values())]
    told = {
        rate: cell
        for rate, cell in ladder.items()
        if all(_pooling([_totals(blocks[t, cell])], goal.share) for t in sides)
    }
    every = [_totals(blocks[t, cell]) for t in sides for cell in told.values()]
    size = _pooling(every, goal.share)
    by_side: dict[str, list[Crossing]] = {}
    if size is not None:
        by_side = {t: _crossings(told, goal, blocks, t, size) for t in sides}
    pool = replace(first.load, rate_per_s=None, share=None)
    goals = [
        GoalRate(
            treatment=t,
            workload=first.workload,
            load=pool,
            rates_per_s=tuple(told),
            reached=goal_rate(by_side[t], LEVEL) if t in by_side else None,
            blocks=len(blocks[t, first]),
            pooled=size or 0,
            untold=tuple(rate for rate in ladder if rate not in told),
        )
        for t in sides
    ]
    return goals, [
        GoalContrast(
            baseline=asked.baseline,
            treatment=asked.treatment,
            workload=first.workload,
            load=pool,
            ratio=goal_ratio(by_side[asked.baseline], by_side[asked.treatment], LEVEL),
        )
        for asked in contrasts
        if asked.baseline in by_side and asked.treatment in by_side
    ]


def _totals(blocks: Sequence[_Taken]) -> list[int]:
    return [block.total for block in blocks]


def _crossings(
    ladder: _Ladder, goal: LatencyGoal, blocks: _Blocks, treatment: str, size: int
) -> list[Crossing]:
    """Return where the latency of each block, or of neighbours, reaches the limit."""
    rates = np.array(list(ladder))
    of_cells = [
        [_together(part) for part in _neighbours(blocks[treatment, cell], size)]
        for cell in ladder.values()
    ]
    return [
        crossing(
            rates,
            np.array([max(taken.quantile_s(goal.share), 1.0 / US_PER_S) for taken in taken_at]),
            goal.limit_s,
        )
        for taken_at in zip(*of_cells, strict=True)
    ]
