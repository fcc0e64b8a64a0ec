"""The most transactions per second that a server sustains, and the rates made from it."""

from dataclasses import dataclass

from steelyard.model.schedule import CellKey
from steelyard.model.verdicts import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityPoint:
    """Throughput of a closed loop with some clients, 1/s: the median over slices.

    Attributes:
        slices: In the order they were taken, 1/s; slice k of all points belongs to round k.
    """

    clients: int
    threads: int
    tps: Estimate
    slices: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """The most that one treatment sustained under a workload, before the first block.

    Attributes:
        treatment: Whose it is: the baseline.
        points: One per number of clients, rising.
        clients: Fewest clients that reach it.
        tps: There, 1/s.
    """

    workload: str
    treatment: str
    points: tuple[CapacityPoint, ...]
    clients: int
    tps: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRate:
    """The rate that a load's share of the capacity became, 1/s; the same for all treatments."""

    cell: CellKey
    rate_per_s: float
