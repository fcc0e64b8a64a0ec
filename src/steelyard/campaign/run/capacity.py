"""The most that the baseline sustains, found before the first block, and the rates made from it.

Every round runs every number of clients once, in random order, as a closed loop; what all rounds
together say is the capacity (``stats.capacity``). A load's share of it is one rate for all
treatments, so that they are compared under the same load.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from steelyard.answers.observations import estimate_of
from steelyard.campaign.design import schedule as durations
from steelyard.campaign.design.schedule import cells_of
from steelyard.campaign.evidence.run_log import RawStore, log_order
from steelyard.campaign.evidence.run_rules import validity_of
from steelyard.campaign.run.blocks import MAX_TRIES
from steelyard.campaign.run.taking import Taken, Taker
from steelyard.core.errors import MeasurementError
from steelyard.core.experiment import CapacityAsked, Experiment
from steelyard.core.findings import Validity
from steelyard.core.plan import Capacity, CapacityPoint, CellRate
from steelyard.core.schedule import CellKey, Load, PlannedRun
from steelyard.stats.capacity import find_capacity
from steelyard.stats.median import median_interval
from steelyard.stats.student import FloatArray

_SPAWN_KEY = 2**31 + 1  # of the coin: no block has this number
_DIGITS = 4  # of a rate; the capacity is not known to more
_REMEDY = "Remove the cause, or give the loads rates of their own: `loads.rate: 500/s`."


def asked_capacity(experiment: Experiment) -> CapacityAsked | None:
    """Return how the capacity is to be found; None where no load is a share of it."""
    shared = any(load.share is not None for load in experiment.loads)
    return experiment.capacity if shared else None


def capacity_s(experiment: Experiment, *, discard_s: float, activation_s: float) -> float:
    """Return about how long it takes to find the capacity; 0 when nobody asks for it."""
    asked = asked_capacity(experiment)
    if asked is None:
        return 0.0
    slices_s = asked.rounds * len(asked.clients) * durations.run_s(experiment)
    entering_s = activation_s + (
        discard_s + durations.run_overhead_s(experiment) if discard_s else 0.0
    )
    return len(experiment.workloads) * (entering_s + slices_s)


def closed_loads(experiment: Experiment, asked: CapacityAsked, *, cpus: int) -> tuple[Load, ...]:
    """Return the closed loops that are tried, rising in clients, with the threads of the loads."""
    shares = [load for load in experiment.loads if load.share is not None]
    most = max((load.generators for load in experiment.loads), default=1)
    threads = max((load.threads for load in shares), default=cpus)
    return tuple(
        Load(
            clients=clients,
            threads=max(min(clients, threads), min(most, clients)),
            generators=min(most, clients),
        )
        for clients in sorted(asked.clients)
    )


def order_of_rounds(seed: int, workload: int, rounds: int, counts: int) -> tuple[list[int], ...]:
    """Return the order of the numbers of clients in each round: a coin's, the same for a seed."""
    sequence = np.random.SeedSequence(seed, spawn_key=(_SPAWN_KEY, workload))
    coin = np.random.Generator(np.random.PCG64(sequence))
    return tuple([int(place) for place in coin.permutation(counts)] for _ in range(rounds))


def rates_of(experiment: Experiment, capacities: Sequence[Capacity]) -> tuple[CellRate, ...]:
    """Return what the shares of the capacity are, per cell that has one, 1/s."""
    most = {capacity.workload: capacity.tps.value for capacity in capacities}
    return tuple(
        CellRate(cell=cell, rate_per_s=_rounded(cell.load.share * most[cell.workload]))
        for cell in cells_of(experiment)
        if cell.load.share is not None and cell.workload in most
    )


def _rounded(rate_per_s: float) -> float:
    return float(f"{rate_per_s:.{_DIGITS}g}")


def capacity_of(
    workload: str, treatment: str, loads: Sequence[Load], log_tps: FloatArray
) -> Capacity:
    """Return the capacity that slices tell.

    Args:
        workload: Under which they ran.
        treatment: On which.
        loads: One per column.
        log_tps: Shape (rounds, loads), ln(1/s).
    """
    found = find_capacity(log_tps)
    slices = np.exp(log_tps)
    return Capacity(
        workload=workload,
        treatment=treatment,
        points=tuple(
            CapacityPoint(
                clients=load.clients,
                threads=load.threads,
                tps=estimate_of(median_interval(slices[:, place])),
                slices=tuple(float(value) for value in slices[:, place]),
            )
            for place, load in enumerate(loads)
        ),
        clients=loads[found.place].clients,
        tps=estimate_of(found.tps),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityTaker:
    """Takes the closed loops of the baseline, workload by workload.

    Attributes:
        loads: That are tried, rising in clients.
        means: Of restoring the data.
        discard_s: Thrown away after the activation for each workload.
        told: Hears what is going on.
        raw: Keeps a slice's raw output under a name.
        search: How many were begun before: one that was interrupted is repeated from its start.
    """

    taker: Taker
    asked: CapacityAsked
    loads: tuple[Load, ...]
    means: str
    discard_s: float
    told: Callable[[str], None]
    raw: RawStore
    search: int = 0

    def take(self) -> tuple[Capacity, ...]:
        """Return the capacity of every workload.

        Raises:
            MeasurementError: A slice failed as often as is allowed.
            TargetError: The server did not start.
        """
        experiment = self.taker.bench.experiment
        return tuple(
            capacity_of(workload.name, experiment.baseline, self.loads, self._slices(number))
            for number, workload in enumerate(experiment.workloads)
        )

    def _slices(self, number: int) -> FloatArray:
        """Return ln(1/s) of one workload, shape (rounds, loads)."""
        experiment = self.taker.bench.experiment
        workload, rounds = experiment.workloads[number].name, self.asked.rounds
        log_tps = np.empty((rounds, len(self.loads)))
        self.taker.bench.enter(
            self._planned(workload, self.loads[-1]), means=self.means, discard_s=self.discard_s
        )
        orders = order_of_rounds(experiment.seed, number, rounds, len(self.loads))
        for row, order in enumerate(orders):
            self.told(f"finding the capacity: {workload}, round {row + 1} of {rounds}")
            for place in order:
                planned = self._planned(workload, self.loads[place])
                clients = self.loads[place].clients
                name = f"capacity-{self.search}-{number:02d}-{row:02d}-{clients:04d}"
                log_tps[row, place] = self._slice(planned, name)
        return log_tps

    def _slice(self, planned: PlannedRun, name: str) -> float:
        """Return ln(1/s) of one slice; what came from outside is taken again."""
        measure = self.taker.bench.experiment.measure
        reason = ""
        for attempt in range(MAX_TRIES):
            taken = self.taker.take(
                planned,
                seconds=measure.slice_s,
                ramp_s=measure.ramp_s,
                bearing=attempt == MAX_TRIES - 1,
                # Transactions are logged as they will be in the blocks: a log costs throughput.
                order=log_order(measure.log, name=f"{name}-{attempt}", store=self.raw),
            )
            self.raw.write_raw(f"{name}-{attempt}.txt", taken.output)
            if taken.measurement is not None and _counts(taken):
                return taken.measurement.log_tps
            reason = "; ".join(finding.message for finding in taken.findings)
            if not self.taker.bench.is_running():
                self.taker.bench.enter(planned, means=self.means, discard_s=self.discard_s)
        raise MeasurementError(
            f"finding the capacity failed {MAX_TRIES} times at {planned.cell.load.label}: {reason}",
            hint=_REMEDY,
        )

    def _planned(self, workload: str, load: Load) -> PlannedRun:
        baseline = self.taker.bench.experiment.baseline
        return PlannedRun(treatment=baseline, cell=CellKey(workload=workload, load=load))


def _counts(taken: Taken) -> bool:
    return validity_of(taken.findings) is not Validity.INVALID
