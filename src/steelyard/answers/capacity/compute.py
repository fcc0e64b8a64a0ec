"""Open loops: what was offered, how much of it was done, how late it was, and rates under a goal.

Findings about the capacity and the rates made from it are derived from the plan, which is written
once. A finding noted while the capacity is looked for would stay behind where the search was
interrupted and repeated.

Percentiles are those of blocks, never averages of percentiles: where one block has too few
transactions for one, those of neighbouring blocks are added up (METHOD 8).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Final, TypeVar

import numpy as np

from steelyard.answers.latency import compute as latencies
from steelyard.answers.observations import (
    Observations,
    ResultContrast,
    level,
    result_contrasts,
    runs_by_block,
)
from steelyard.answers.results import Grounds
from steelyard.core.campaign import CampaignRecord, Capacity, CapacityPoint
from steelyard.core.experiment import Experiment
from steelyard.core.findings import Estimate, Finding, Severity
from steelyard.core.measurement import Run
from steelyard.core.quantities import (
    INLINE,
    OPTIONAL,
    PER_SECOND,
    PERCENT,
    SECONDS,
    Computed,
    Named,
)
from steelyard.core.schedule import (
    CLIENTS,
    THREADS,
    BaselineName,
    Blocks,
    CellKey,
    ConfigurationName,
    LatencyGoal,
    Load,
    WorkloadName,
)
from steelyard.core.wording import US_PER_S
from steelyard.report.document import count
from steelyard.stats.capacity import (
    Crossing,
    Reached,
    crossing,
    find_capacity,
    goal_rate,
    goal_ratio,
)
from steelyard.stats.histogram import Histogram, merged, rank_of, values_needed
from steelyard.stats.intervals import LEVEL, FloatArray

_RISES = "capacity-still-rises"


def capacity_findings(record: CampaignRecord) -> Iterator[Finding]:
    """Yield where more clients may reach more, and where a load may not reach its rate."""
    noted = {finding.code for finding in record.findings}
    for capacity in record.plan.capacities if record.plan is not None else ():
        if _RISES not in noted:  # the first records of capacities noted it themselves
            yield from _rising(capacity)
        yield from _narrow(record.experiment, capacity)


def log_slices(points: Sequence[CapacityPoint]) -> FloatArray:
    """Return ln(1/s), shape (rounds, numbers of clients)."""
    return np.log(np.array([point.slices for point in points], dtype=np.float64)).T


def _rising(capacity: Capacity) -> Iterator[Finding]:
    """Yield that the most clients that were tried were clearly the best."""
    if not find_capacity(log_slices(capacity.points)).rising:
        return
    yield Finding(
        code=_RISES,
        severity=Severity.WARNING,
        message=f"{capacity.workload}: throughput still rises at {capacity.clients} clients,"
        " the most that were tried; the capacity may be more than what the rates are shares of",
        remedy="Try more clients: `capacity: {clients: [...]}`.",
        subject=capacity.configuration,
    )


def _narrow(experiment: Experiment, capacity: Capacity) -> Iterator[Finding]:
    """Yield which loads have fewer clients or threads than it takes to reach the capacity."""
    reached = next(point for point in capacity.points if point.clients == capacity.clients)
    shares = [load for load in experiment.loads if load.share is not None]
    narrow = [
        load
        for load in shares
        if load.clients < reached.clients or load.threads < min(reached.threads, load.clients)
    ]
    if narrow:
        told = ", ".join(dict.fromkeys(map(_pool, narrow)))
        yield Finding(
            code="capacity-of-more-clients",
            severity=Severity.WARNING,
            message=(
                f"{capacity.workload}: the capacity takes {_pool(reached)}, and shares of it are"
                f" offered with {told}, too, which may never complete as much"
            ),
            remedy="Give these loads rates of their own: `load.rate: 500/s`, or leave them out.",
            subject=capacity.configuration,
        )


def _pool(load: Load | CapacityPoint) -> str:
    return f"{count(load.clients, 'client')} on {count(load.threads, 'thread')}"


_Part = TypeVar("_Part")


_CLIENTS: Final = Computed(lambda rate: rate.load.clients, Annotated[int, CLIENTS])
_THREADS: Final = Computed(lambda rate: rate.load.threads, Annotated[int, THREADS])


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalRate:
    """The highest rate of one configuration that meets the goal.

    Attributes:
        load: Of all these rates; its own rate says nothing.
        rates_per_s: That told the percentile, rising.
        reached: 1/s; None where no rate tells it.
        blocks: In which every run at every rate was logged, of all configurations.
        untold: Too few even with all blocks together.
    """

    workload: WorkloadName
    configuration: ConfigurationName
    load: Load
    clients: ClassVar = _CLIENTS
    threads: ClassVar = _THREADS
    reached: Reached | None
    rate: ClassVar = Computed(
        lambda goal: _as_estimate(goal.reached),
        Annotated[
            Estimate | None,
            PER_SECOND,
            "Highest rate within the goal, 1/s; null if no rate met it or all did.",
        ],
    )
    beyond: ClassVar = Computed(
        lambda goal: _beyond(goal.reached),
        Annotated[
            str | None,
            "above or below: the rate lies beyond the measured ones; both: as many blocks lie above"
            " as below.",
        ],
    )
    rates_per_s: Annotated[
        tuple[float, ...], Named("measured_per_s"), "Rates that were measured, 1/s."
    ]
    untold: Annotated[
        tuple[float, ...],
        Named("not_enough_transactions_per_s"),
        "Rates with too few transactions for the percentile, 1/s.",
    ] = ()
    blocks: Blocks
    pooled: int
    blocks_pooled: ClassVar = Computed(
        lambda goal: goal.pooled or None,
        Annotated[int | None, "Blocks that were pooled into one; may be null."],
    )


def _as_estimate(reached: Reached | None) -> Estimate | None:
    """Return a value whose censored parts become null where it is printed."""
    if reached is None:
        return None
    value = math.nan if reached.value is None else reached.value
    return Estimate(value=value, low=reached.low, high=reached.high)


def _beyond(reached: Reached | None) -> str | None:
    if reached is None:
        return None
    sides = {-1.0: "below", 0.0: None, 1.0: "above"}
    return "both" if reached.value is None else sides[reached.beyond]


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalContrast:
    """How the rates under the goal of two configurations compare.

    Attributes:
        ratio: Log ratio over blocks; infinite bounds say nothing of that side.
        blocks: That count.
        beyond: 1 where both rates lie above all that was measured, -1 where both lie below, 0
            else.
        censored: The rate of one of the two lies beyond what was measured, or between blocks on
            both sides of it: the ratio itself is not known.
        pooled: Neighbouring blocks that were added up for each percentile.
    """

    workload: WorkloadName
    baseline: BaselineName
    configuration: ConfigurationName
    load: Load
    clients: ClassVar = _CLIENTS
    threads: ClassVar = _THREADS
    ratio: Reached
    effect: ClassVar = Computed(
        lambda contrast: None if contrast.is_open else side(contrast.ratio.value),
        Annotated[
            float | None, PERCENT, "Relative difference in that rate against the baseline, %."
        ],
    )
    low: ClassVar = Computed(
        lambda contrast: side(contrast.ratio.low),
        Annotated[float | None, PERCENT, "Lower bound of the interval, %; may be null."],
    )
    high: ClassVar = Computed(
        lambda contrast: side(contrast.ratio.high),
        Annotated[float | None, PERCENT, "Upper bound of the interval, %; may be null."],
    )
    blocks: int
    beyond: int = 0
    censored: bool = False
    pooled: int = 1

    @property
    def is_open(self) -> bool:
        """Return whether a block's rate beyond the measured ones may move the ratio."""
        ends = (self.ratio.low, self.ratio.high)
        return self.censored or any(end is not None and not math.isfinite(end) for end in ends)


def side(log_ratio: float | None) -> float | None:
    """Return the relative difference of a log ratio; None where that is not finite."""
    return None if log_ratio is None or not math.isfinite(log_ratio) else math.expm1(log_ratio)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taken:
    """The transactions of one block at one rate."""

    latency: Histogram
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


_Ladder = dict[float, list[CellKey]]  # of one workload and pool of clients: cells by offered rate
_Taken_by_block = Sequence["_Taken | None"]  # None: a run of the block was not logged
_Blocks = dict[tuple[str, CellKey], _Taken_by_block]


def goal_rates(
    goal: LatencyGoal,
    seen: Observations,
    offered: Mapping[CellKey, float],
    contrasts: Sequence[ResultContrast],
) -> tuple[tuple[GoalRate, ...], tuple[GoalContrast, ...]]:
    """Return the highest rates that meet a goal, and how they compare, pool by pool of clients.

    Args:
        goal: What is looked for.
        seen: Of the campaign.
        offered: The rate of every open cell that was measured, 1/s, in file order.
        contrasts: What is compared.
    """
    blocks: _Blocks = {
        (configuration, cell): [
            _taken(runs) for runs in runs_by_block(seen.runs[configuration, cell])[: seen.blocks]
        ]
        for cell in offered
        for configuration in seen.configurations
        if (configuration, cell) in seen.runs
    }
    answers = [
        _answers(ladder, goal, blocks, seen.configurations, contrasts)
        for ladder in _ladders(offered)
    ]
    return (
        tuple(rate for rates, _ in answers for rate in rates),
        tuple(contrast for _, compared in answers for contrast in compared),
    )


def _taken(runs: Sequence[Run]) -> _Taken | None:
    """Return the transactions of a block; None where a run of it has no log, as in percentiles."""
    logged = latencies.logged_only([runs])
    if not logged:
        return None
    return _Taken(
        latency=merged(map(latencies.histogram_of_run, logged)),
        missed=sum(latencies.lost_of_run(each) for each in logged),
    )


def _together(parts: Sequence[_Taken]) -> _Taken:
    return _Taken(
        latency=merged(part.latency for part in parts),
        missed=sum(part.missed for part in parts),
    )


def _rung(blocks: _Blocks, configuration: str, cells: Sequence[CellKey]) -> _Taken_by_block:
    """Return what one rate tells: cells that turned out to have the same are one load."""
    by_block = zip(*(blocks[configuration, cell] for cell in cells), strict=True)
    return [
        _together([part for part in parts if part is not None]) if all(parts) else None
        for parts in by_block
    ]


def _pooling(totals: Sequence[Sequence[int]], share: float) -> int | None:
    """Return how many neighbouring blocks must be added up so that all tell a percentile.

    Args:
        totals: Transactions by cell and block.
        share: Of the percentile, between 0 and 1.
    """
    needed = values_needed(share)
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
        ladders.setdefault(pool, {}).setdefault(rate_per_s, []).append(cell)
    return [dict(sorted(ladder.items())) for ladder in ladders.values()]


def _answers(
    ladder: _Ladder,
    goal: LatencyGoal,
    blocks: _Blocks,
    configurations: Sequence[str],
    contrasts: Sequence[ResultContrast],
) -> tuple[list[GoalRate], list[GoalContrast]]:
    """Return the rate of every configuration under the goal, and how they compare."""
    first = next(iter(ladder.values()))[0]
    pool = replace(first.load, rate_per_s=None, share=None)
    cells = [cell for cells in ladder.values() for cell in cells]
    sides = [t for t in configurations if all((t, cell) in blocks for cell in cells)]
    rungs = {t: {rate: _rung(blocks, t, cells) for rate, cells in ladder.items()} for t in sides}
    known = _known(rungs)
    heard = [t for t in sides if known[t]]
    told = [
        rate
        for rate in ladder
        if heard and all(_pooling([_totals(known[t].get(rate, ()))], goal.share) for t in heard)
    ]
    size = _pooling([_totals(known[t][rate]) for t in heard for rate in told], goal.share)
    by_side: dict[str, list[Crossing]] = {}
    if size is not None:
        by_side = {t: _crossings(told, goal, known[t], size) for t in heard}
    goals = [
        GoalRate(
            configuration=t,
            workload=first.workload,
            load=pool,
            rates_per_s=tuple(told) if t in heard else (),
            reached=goal_rate(by_side[t], LEVEL) if t in by_side else None,
            blocks=max(map(len, known[t].values()), default=0),
            pooled=(size or 0) if t in heard else 0,
            untold=tuple(rate for rate in ladder if t not in heard or rate not in told),
        )
        for t in sides
    ]
    named = {goal.configuration: goal for goal in goals}
    return goals, [
        _contrast(named[asked.baseline], named[asked.configuration], by_side)
        for asked in contrasts
        if asked.baseline in by_side and asked.configuration in by_side
    ]


def _contrast(
    baseline: GoalRate, configuration: GoalRate, by_side: Mapping[str, Sequence[Crossing]]
) -> GoalContrast:
    sides = [goal.reached.beyond for goal in (baseline, configuration) if goal.reached is not None]
    return GoalContrast(
        baseline=baseline.configuration,
        configuration=configuration.configuration,
        workload=baseline.workload,
        load=baseline.load,
        ratio=goal_ratio(
            by_side[baseline.configuration], by_side[configuration.configuration], LEVEL
        ),
        blocks=baseline.blocks,
        beyond=int(sides[0]) if len(set(sides)) == 1 else 0,
        censored=any(_is_censored(goal.reached) for goal in (baseline, configuration)),
        pooled=baseline.pooled,
    )


def _is_censored(reached: Reached | None) -> bool:
    return reached is None or reached.value is None or reached.beyond != 0


_Rungs = dict[float, list[_Taken]]  # by rate; the same blocks at each


def _known(rungs: Mapping[str, Mapping[float, _Taken_by_block]]) -> dict[str, _Rungs]:
    """Return the blocks that were logged at all rates on all sides, without rates never logged.

    A side without any log has no answer of its own, and the others keep theirs.
    """
    heard = {name for name, side in rungs.items() if any(map(any, side.values()))}
    every = [each for name in heard for each in rungs[name].items()]
    silent = {rate for rate, parts in every if not any(parts)}
    kept = [parts for rate, parts in every if rate not in silent]
    whole = [all(parts) for parts in zip(*kept, strict=True)]
    return {
        configuration: {
            rate: [part for part, counts in zip(parts, whole, strict=True) if counts and part]
            for rate, parts in side.items()
            if configuration in heard and rate not in silent
        }
        for configuration, side in rungs.items()
    }


def _totals(blocks: Sequence[_Taken]) -> list[int]:
    return [block.total for block in blocks]


def _crossings(
    rates: Sequence[float], goal: LatencyGoal, blocks: _Rungs, size: int
) -> list[Crossing]:
    """Return where the latency of each block, or of neighbours, reaches the limit."""
    of_rates = [[_together(part) for part in _neighbours(blocks[rate], size)] for rate in rates]
    return [
        crossing(
            np.array(rates),
            np.array([max(taken.quantile_s(goal.share), 1.0 / US_PER_S) for taken in taken_at]),
            goal.limit_s,
        )
        for taken_at in zip(*of_rates, strict=True)
    ]


def _timed(timed: latencies.Timed, share: float, sentence: str) -> Computed:
    """Return the key of one percentile of a time."""
    return Computed(
        lambda point: getattr(point.at(timed, share), "value_s", None),
        Annotated[Estimate | None, SECONDS, sentence],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RatePoint:
    """One configuration at one rate: the percentiles are those of the latency section.

    Attributes:
        offered_per_s: What was scheduled; None where the capacity was not found.
        achieved: Completed per second, median over blocks.
        levels: Latency from the scheduled start, schedule lag and service time, as far as they
            were logged.
        skipped: Share of what was scheduled that was never started, because it was over the limit
            already; of the blocks whose runs were all logged, None without one.
        late: Share over the latency limit, likewise; None without a limit, too.
    """

    cell: Annotated[CellKey, INLINE]
    configuration: ConfigurationName
    offered_per_s: Annotated[float | None, "Scheduled rate, 1/s."]
    achieved: Annotated[Estimate | None, PER_SECOND, "Completed rate, 1/s."]
    levels: Mapping[latencies.Timed, latencies.LatencyLevels]
    logged: ClassVar = Computed(
        lambda point: getattr(point.levels.get(latencies.Timed.LATENCY), "transactions", None),
        Annotated[int | None, Named("logged_transactions"), "Transactions in the logs."],
    )
    latency_p50: ClassVar = _timed(latencies.Timed.LATENCY, 0.5, "Median, s.")
    latency_p99: ClassVar = _timed(latencies.Timed.LATENCY, 0.99, "99th percentile, s.")
    schedule_lag_p99: ClassVar = _timed(
        latencies.Timed.LAG, 0.99, "How late transactions started, 99th percentile, s."
    )
    service_time_p99: ClassVar = _timed(
        latencies.Timed.SERVICE, 0.99, "From the start, 99th percentile, s."
    )
    skipped: Annotated[float | None, PERCENT, "Skipped, %."]
    late: Annotated[float | None, PERCENT, "Later than the limit, %."]
    latency_limit_s: ClassVar = Computed(
        lambda point: point.cell.load.latency_limit_s, Annotated[float | None, "The limit, s."]
    )

    def at(self, timed: latencies.Timed, share: float) -> latencies.PercentileLevel | None:
        """Return one percentile of one of the times; None where it was not logged."""
        found = self.levels.get(timed)
        return None if found is None else found.at(share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A goal for latency, and what came of it.

    Attributes:
        rates: One per workload, configuration and pool of clients.
        contrasts: Where both configurations tell a rate.
    """

    asked_for: LatencyGoal
    percentile: ClassVar = Computed(
        lambda goal: 100.0 * goal.asked_for.share, Annotated[float, "Percentile of the goal, %."]
    )
    limit_s: ClassVar = Computed(
        lambda goal: goal.asked_for.limit_s, Annotated[float, "Limit of the goal, s."]
    )
    rates: Annotated[tuple[GoalRate, ...], "The highest rate of each configuration within it."]
    contrasts: Annotated[
        tuple[GoalContrast, ...], Named("comparisons"), "Configurations against the baseline."
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLoops:
    """What a campaign says of rates.

    Attributes:
        capacities: Of the baseline before the first block; empty where no load is a share.
        points: One per open load, configuration and workload, with blocks.
        goal: None: nothing was looked for, or measured.
    """

    capacities: Annotated[
        tuple[Capacity, ...],
        OPTIONAL,
        Named("capacity"),
        "The highest rate of the baseline by loads that were tried.",
    ]
    points: Annotated[
        tuple[RatePoint, ...],
        OPTIONAL,
        Named("rates"),
        "Open loops: scheduled and completed rates.",
    ]
    goal: Annotated[
        Goal | None, OPTIONAL, "A goal for latency, and the highest rate within it."
    ] = None


def open_loops(grounds: Grounds) -> OpenLoops | None:
    """Return what a campaign says of rates; None where it offers none and found no capacity."""
    record, seen = grounds.record, grounds.seen
    latency = grounds.analysis.answer(latencies.campaign_latency)
    plan, offered = record.plan, _offered(record)
    capacities = plan.capacities if plan is not None else ()
    if not capacities and not offered:
        return None
    keys = [
        (configuration, cell)
        for cell in offered
        for configuration in seen.configurations
        if (configuration, cell) in seen.runs
    ]
    points = tuple(_point(seen, latency, key, offered[key[1]]) for key in keys)
    found = OpenLoops(capacities=capacities, points=points)
    goal = record.experiment.goal
    if goal is None:
        return found
    measured = {cell for _, cell in keys}
    rates = {cell: rate for cell, rate in offered.items() if cell in measured and rate is not None}
    compared = result_contrasts(record.experiment)
    reached, contrasts = goal_rates(goal, seen, rates, compared)
    outcome = Goal(asked_for=goal, rates=reached, contrasts=contrasts)
    return replace(found, goal=outcome if reached else None)


def _offered(record: CampaignRecord) -> dict[CellKey, float | None]:
    """Return the rate of every open cell, in file order."""
    found = {rate.cell: rate.rate_per_s for rate in record.plan.rates} if record.plan else {}
    cells = (
        CellKey(workload=workload.name, load=load)
        for workload in record.experiment.workloads
        for load in record.experiment.loads
    )
    return {cell: found.get(cell, cell.load.rate_per_s) for cell in cells if cell.load.is_open}


def _point(
    seen: Observations,
    latency: latencies.LatencyAnalysis | None,
    key: tuple[str, CellKey],
    offered_per_s: float | None,
) -> RatePoint:
    configuration, cell = key
    side, column = seen.configurations.index(configuration), seen.cells.index(cell)
    logged = latencies.logged_only(runs_by_block(seen.runs[key])[: seen.blocks])
    late = [each.late for each in logged if each.late is not None]
    done = sum(latencies.histogram_of_run(each).total for each in logged)
    scheduled = max(done + sum(map(latencies.lost_of_run, logged)), 1)
    limited = bool(logged) and len(late) == len(logged)
    return RatePoint(
        configuration=configuration,
        cell=cell,
        offered_per_s=offered_per_s,
        achieved=level(np.exp(seen.log_tps[:, side, column])),
        levels={} if latency is None else latency.times_of(configuration, cell),
        skipped=sum(each.skipped for each in logged) / scheduled if logged else None,
        late=sum(late) / scheduled if limited else None,
    )
