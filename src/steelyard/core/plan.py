"""What a campaign freezes before its first block, and how it ended.

The most transactions per second that a server sustains, and the rates made from it.

What must have been measured of a run before its rules can judge it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from steelyard.core.evidence import Evidence, Quantity
from steelyard.core.experiment import EngineName, Reset, SwitchCost
from steelyard.core.findings import (
    FOREIGN_DISK,
    GENERATOR_SATURATED,
    NEIGHBOUR_CPU,
    STEAL,
    Estimate,
)
from steelyard.core.schedule import CellKey, Mode, Pausing, SharedMemory, TurnTimes, WorkloadTurns


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


class Status(StrEnum):
    """Where a campaign stands."""

    RUNNING = "running"
    DECIDED = "decided"
    PRECISION = "precision reached"
    BUDGET = "budget reached"
    PASSED = "single pass done"
    INTERRUPTED = "interrupted"
    FAILED = "failed"

    @property
    def is_finished(self) -> bool:
        """Return whether it came to its end; any other may go on."""
        return self in (Status.DECIDED, Status.PRECISION, Status.BUDGET, Status.PASSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardChoice:
    """How the discard came about, and what it may have missed.

    Attributes:
        discard_s: What was thrown away after each activation.
        how: ``declared``, ``floor`` or ``measured``.
        measured_s: What the calibration asked for per treatment, in treatment order; empty
            without a calibration.
        residual_fraction: Loss of throughput left after the discard, per treatment; empty likewise.
        restarts: Activations behind the measurement.
        risk: One sentence.
    """

    discard_s: float
    how: str
    risk: str
    measured_s: tuple[float, ...] = ()
    residual_fraction: tuple[float | None, ...] = ()
    restarts: int = 0


# In place of the ramp, which the generators of Redis cannot leave out; as long as it is by itself.
_SETTLING_S = 2
ANEW = "reprovision"  # the means of restoring where every visit makes its server and data


class RoundsFor(StrEnum):
    """What the number of rounds in a visit was chosen for."""

    ONE = "one"  # nothing asks for more
    ASKED = "asked"
    CYCLE = "checkpoint cycle"  # one visit's runs cover a whole one
    INSTANCES = "instances"  # best for newly made servers, by costs and variances


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppingRule:
    """The looks and levels of a campaign, frozen before its first block.

    Attributes:
        max_blocks: N of the spending function.
        alpha: Total two-sided error of one headline, after Bonferroni.
        headlines: How many headlines share the total error.
        first_look: Blocks at the first look of a headline.
        cell_first_look: Blocks at the first look of a cell.
        spending_power: rho of alpha(t) = alpha t^rho.
        precision: Half-width asked for, or None.
    """

    max_blocks: int
    alpha: float
    headlines: int
    first_look: int
    cell_first_look: int
    spending_power: float
    precision: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignPlan:
    """How the blocks are made; a resumed campaign keeps it.

    Attributes:
        mode: Alternating, visits or back to back.
        switch: The switch cost of what differs between the treatments.
        reset: When the data are restored.
        restore: The means of restoring: ``reflink``, ``copy``, ``template``, ``vacuum``, or
            ``ANEW``.
        restore_s: Measured seconds of one restore by each means tried.
        block_s: Estimated seconds of one block, from measured switch and restore times.
        start_s: Measured seconds of one restart until the server is ready; None in old records.
        data_s: Measured seconds of bringing the data back for one restart; None likewise.
        rounds: Runs of each cell in one visit.
        rounds_for: What their number was chosen for.
        rounds_reason: The same in one sentence; empty for a single round that nothing asked for.
        capacities: Of the baseline, one per workload; empty where no load is a share of it.
        rates: What the shares became, one per cell that has one.
        design_reason: Why the treatments alternate or not, as a clause; empty in old records.
        pausing: What stands still between turns; None where none are taken.
        turns: Their lengths by workload; empty likewise.
        memory: Of the servers that are up together; None likewise, and where it is not known.
    """

    mode: Mode
    switch: SwitchCost
    reset: Reset
    restore: str
    restore_s: tuple[tuple[str, float], ...]
    block_s: float
    stopping: StoppingRule
    discard: DiscardChoice
    start_s: float | None = None
    data_s: float | None = None
    rounds: int = 1
    rounds_for: RoundsFor = RoundsFor.ONE
    rounds_reason: str = ""
    capacities: tuple[Capacity, ...] = ()
    rates: tuple[CellRate, ...] = ()
    design_reason: str = ""
    pausing: Pausing | None = None
    turns: tuple[WorkloadTurns, ...] = ()
    memory: SharedMemory | None = None


def turn_times(plan: CampaignPlan, workload: str) -> TurnTimes:
    """Return how long things last in the turns of a workload, which are taken."""
    return next(each.times for each in plan.turns if each.workload == workload)


def settling_s(engine: EngineName, discard_s: float) -> int:
    """Return how long a run is thrown away after each switch on a running server.

    What the treatment before left is done with in it: pages that are not written, an fsync of them.
    Only where the generator leaves out no ramp; where nothing is to be discarded, nothing is.
    """
    return min(_SETTLING_S, math.ceil(discard_s)) if engine is EngineName.REDIS else 0


RUN_NEEDS: Final[Mapping[str, tuple[Quantity, ...]]] = {
    NEIGHBOUR_CPU: (Quantity.OTHERS_CPU_S, Quantity.CPUS),
    STEAL: (Quantity.CPU_STEAL_S, Quantity.CPUS),
    FOREIGN_DISK: (
        Quantity.DEVICE_BUSY_S,
        Quantity.DEVICE_READ_BYTES,
        Quantity.DEVICE_WRITE_BYTES,
        Quantity.SERVER_READ_BYTES,
        Quantity.SERVER_WRITTEN_BYTES,
    ),
    GENERATOR_SATURATED: (Quantity.GENERATOR_CPU_S, Quantity.CPUS),
}
OTHERS_IO: Final = "io_bytes of other processes"


def missing_for(code: str, evidence: Evidence) -> tuple[str, ...]:
    """Return what a rule for runs lacks; empty when it can judge, or needs nothing measured."""
    needed = RUN_NEEDS.get(code, ())
    missing = [
        quantity.value
        for quantity in needed
        if evidence.total(quantity) is None and evidence.level(quantity) is None
    ]
    if code == FOREIGN_DISK and all(other.io_bytes is None for other in evidence.others):
        missing.append(OTHERS_IO)
    return tuple(missing)
