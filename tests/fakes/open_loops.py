"""A synthetic campaign of open loops: capacity, rates, and a goal with every kind of answer."""

import math
from collections.abc import Iterator
from dataclasses import replace

from fakes import analyses
from steelyard.answers.capacity.compute import (
    Goal,
    GoalContrast,
    GoalRate,
    OpenLoops,
    RatePoint,
    open_loops,
)
from steelyard.answers.latency.compute import Basis, LatencyLevels, PercentileLevel, Timed
from steelyard.answers.results import CampaignAnalysis
from steelyard.core.campaign import Capacity, CapacityPoint
from steelyard.core.findings import Estimate
from steelyard.core.schedule import CellKey, LatencyGoal, Load
from steelyard.stats.capacity import Reached

POOL = Load(clients=16, threads=4)
SHARES = (0.5, 0.7, 0.9)


def with_rates() -> CampaignAnalysis:
    """Return a campaign whose rates are shares of a capacity, with a goal."""
    return replace(analyses.quick(), answers={open_loops: rates()})


def rates() -> OpenLoops:
    """Return what it says of rates."""
    return OpenLoops(
        capacities=(_capacity("reads", 20_000.0), _capacity("writes", 3_000.0)),
        points=tuple(_point("reads", "default", share, 20_000.0) for share in SHARES),
        goal=Goal(
            asked_for=LatencyGoal(share=0.99, limit_s=0.01),
            rates=tuple(_rates_within()),
            contrasts=(
                GoalContrast(
                    baseline="default",
                    configuration="fitted",
                    workload="reads",
                    load=POOL,
                    ratio=Reached(value=math.log(1.12), low=math.log(1.1), high=math.inf),
                    blocks=12,
                ),
            ),
        ),
    )


def goal() -> Goal:
    """Return what came of its goal."""
    found = rates().goal
    assert found is not None
    return found


def _rates_within() -> Iterator[GoalRate]:
    yield _goal("reads", "default", Reached(value=16_100.0, low=14_000.0, high=18_000.0))
    yield _goal("reads", "fitted", Reached(value=math.inf, low=18_000.0, high=math.inf))
    yield replace(
        _goal("writes", "default", Reached(value=-math.inf, low=-math.inf, high=1_500.0)),
        rates_per_s=(1_500.0, 2_100.0),
        untold=(2_700.0,),
        pooled=3,
    )
    yield _goal("writes", "fitted", None)


def _capacity(workload: str, tps: float) -> Capacity:
    parts = {1: 0.3, 4: 0.8, 8: 1.0, 16: 0.99}
    points = tuple(
        CapacityPoint(
            clients=clients,
            threads=min(clients, 4),
            tps=Estimate(value=part * tps, low=0.98 * part * tps, high=1.02 * part * tps),
            slices=(part * tps,) * 6,
        )
        for clients, part in parts.items()
    )
    capacity = Estimate(value=tps, low=0.98 * tps, high=1.02 * tps)
    return Capacity(
        workload=workload, configuration="default", points=points, clients=8, tps=capacity
    )


def _point(workload: str, configuration: str, share: float, tps: float) -> RatePoint:
    slow = 0.001 / (1.0 - share)
    cell = CellKey(workload=workload, load=replace(POOL, share=share, latency_limit_s=0.1))
    latency = (
        _percentile(0.5, Estimate(value=slow / 5, low=slow / 6, high=slow / 4)),
        _percentile(0.99, Estimate(value=slow, low=0.9 * slow, high=1.1 * slow)),
    )
    return RatePoint(
        configuration=configuration,
        cell=cell,
        offered_per_s=share * tps,
        achieved=Estimate(value=share * tps),
        levels={
            Timed.LATENCY: _levels(configuration, cell, Timed.LATENCY, latency),
            Timed.LAG: _levels(configuration, cell, Timed.LAG, (_percentile(0.99, None),)),
        },
        skipped=0.003,
        late=0.007,
    )


def _levels(
    configuration: str, cell: CellKey, timed: Timed, percentiles: tuple[PercentileLevel, ...]
) -> LatencyLevels:
    return LatencyLevels(
        configuration=configuration,
        cell=cell,
        timed=timed,
        script="",
        blocks=12,
        transactions=50_000,
        sampled=1.0,
        percentiles=percentiles,
    )


def _percentile(share: float, value_s: Estimate | None) -> PercentileLevel:
    basis = Basis.TOO_FEW if value_s is None else Basis.BLOCKS
    return PercentileLevel(share=share, basis=basis, value_s=value_s, there=500, needed=1000)


def _goal(workload: str, configuration: str, reached: Reached | None) -> GoalRate:
    return GoalRate(
        configuration=configuration,
        workload=workload,
        load=POOL,
        rates_per_s=(10_000.0, 14_000.0, 18_000.0) if reached else (),
        reached=reached,
        blocks=12,
        pooled=1 if reached else 0,
    )
