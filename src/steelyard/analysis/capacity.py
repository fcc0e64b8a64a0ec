"""Open loops: what was offered, how much of it was done, and how late it was."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from steelyard.analysis.block_values import level, runs_by_block
from steelyard.analysis.contrasts import headline_contrasts
from steelyard.analysis.goal_rates import GoalContrast, GoalRate, goal_rates
from steelyard.analysis.latency_pools import histogram_of_run, logged_only, lost_of_run
from steelyard.analysis.latency_results import (
    LatencyAnalysis,
    LatencyLevels,
    PercentileLevel,
    Timed,
)
from steelyard.analysis.observations import Observations
from steelyard.model.campaign import CampaignRecord
from steelyard.model.capacity import Capacity
from steelyard.model.latency import LatencyGoal
from steelyard.model.schedule import CellKey
from steelyard.model.verdicts import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class RatePoint:
    """One treatment at one rate: the percentiles are those of the latency section.

    Attributes:
        offered_per_s: What was scheduled; None where the capacity was not found.
        achieved: Completed per second, median over blocks.
        levels: Latency from the scheduled start, schedule lag and service time, as far as they
            were logged.
        skipped: Share of what was scheduled that was never started, because it was over the limit
            already; of the blocks whose runs were all logged, None without one.
        late: Share over the latency limit, likewise; None without a limit, too.
    """

    treatment: str
    cell: CellKey
    offered_per_s: float | None
    achieved: Estimate | None
    levels: Mapping[Timed, LatencyLevels]
    skipped: float | None
    late: float | None

    def at(self, timed: Timed, share: float) -> PercentileLevel | None:
        """Return one percentile of one of the times; None where it was not logged."""
        found = self.levels.get(timed)
        return None if found is None else found.at(share)


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


def open_loops(
    record: CampaignRecord, seen: Observations, latency: LatencyAnalysis | None
) -> OpenLoops | None:
    """Return what a campaign says of rates; None where it offers none and found no capacity.

    Args:
        record: Of the campaign.
        seen: Its observations.
        latency: What its logs say; None where there are none.
    """
    plan, offered = record.plan, _offered(record)
    capacities = plan.capacities if plan is not None else ()
    if not capacities and not offered:
        return None
    keys = [
        (treatment, cell)
        for cell in offered
        for treatment in seen.treatments
        if (treatment, cell) in seen.runs
    ]
    points = tuple(_point(seen, latency, key, offered[key[1]]) for key in keys)
    found = OpenLoops(capacities=capacities, points=points, goal=record.experiment.goal)
    if found.goal is None:
        return found
    measured = {cell for _, cell in keys}
    rates = {cell: rate for cell, rate in offered.items() if cell in measured and rate is not None}
    compared = headline_contrasts(record.experiment)
    goals, contrasts = goal_rates(found.goal, seen, rates, compared)
    return replace(found, goals=goals, contrasts=contrasts)


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
    latency: LatencyAnalysis | None,
    key: tuple[str, CellKey],
    offered_per_s: float | None,
) -> RatePoint:
    treatment, cell = key
    side, column = seen.treatments.index(treatment), seen.cells.index(cell)
    logged = logged_only(runs_by_block(seen.runs[key])[: seen.blocks])
    late = [each.late for each in logged if each.late is not None]
    done = sum(histogram_of_run(each).total for each in logged)
    scheduled = max(done + sum(map(lost_of_run, logged)), 1)
    limited = bool(logged) and len(late) == len(logged)
    return RatePoint(
        treatment=treatment,
        cell=cell,
        offered_per_s=offered_per_s,
        achieved=level(np.exp(seen.log_tps[:, side, column])),
        levels={} if latency is None else latency.times_of(treatment, cell),
        skipped=sum(each.skipped for each in logged) / scheduled if logged else None,
        late=sum(late) / scheduled if limited else None,
    )
