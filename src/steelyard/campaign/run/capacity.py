"""The capacity, found before the first block, and the long runs, taken after the last one.

The capacity is the most that the baseline sustains; rates are made from it. Every round runs every
number of clients once, in random order, as a closed loop; what all rounds together say is the
capacity (``stats.capacity``). A load's share of it is one rate for all configurations, so that they
are compared under the same load.

There is one long run per configuration and workload, at the largest load. They show what slices of
seconds cannot: whole checkpoint cycles, vacuum, a cliff. One run each is no sample, so they take
part in no estimate and no verdict. A drop near the end of one may be credits that have run out, or
a neighbour who has come: then the load goes on, in further parts of half the length, without
restoring and without a warm-up.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from steelyard.answers.observations import estimate_of
from steelyard.answers.sustained.compute import calls_for_more, last_try
from steelyard.campaign.design import schedule as durations
from steelyard.campaign.design.schedule import asked_cycle_s, cells_of
from steelyard.campaign.evidence.run_log import WINDOW_S, RawStore, log_order
from steelyard.campaign.evidence.run_rules import validity_of
from steelyard.campaign.run.blocks import MAX_TRIES
from steelyard.campaign.run.taking import Taken, Taker
from steelyard.core.campaign import CampaignPlan, Capacity, CapacityPoint, CellRate
from steelyard.core.errors import MeasurementError, PreflightError, TargetError
from steelyard.core.experiment import CapacityAsked, Experiment
from steelyard.core.findings import Finding, Severity, Validity
from steelyard.core.measurement import SustainedRun
from steelyard.core.schedule import CellKey, Load, PlannedRun
from steelyard.core.units import format_duration
from steelyard.stats.capacity import LEAST_S, find_capacity
from steelyard.stats.intervals import FloatArray, median_interval

_SPAWN_KEY = 2**31 + 1  # of the coin: no block has this number
_DIGITS = 4  # of a rate; the capacity is not known to more
_REMEDY = "Remove the cause, or give the loads rates of their own: `loads.rate: 500/s`."


def asked_capacity(experiment: Experiment) -> CapacityAsked | None:
    """Return how the capacity is to be found; None where no load is a share of it."""
    shared = any(load.share is not None for load in experiment.loads)
    return experiment.capacity if shared else None


def capacity_s(experiment: Experiment, *, warm_up_s: float, start_s: float) -> float:
    """Return about how long it takes to find the capacity; 0 when nobody asks for it."""
    asked = asked_capacity(experiment)
    if asked is None:
        return 0.0
    takes = asked.rounds * len(asked.clients)
    entering_s = start_s + (warm_up_s + durations.run_overhead_s(experiment) if warm_up_s else 0.0)
    return sum(
        entering_s + takes * durations.run_s(experiment, workload.name)
        for workload in experiment.workloads
    )


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
    workload: str, configuration: str, loads: Sequence[Load], log_tps: FloatArray
) -> Capacity:
    """Return the capacity that slices tell.

    Args:
        workload: Under which they ran.
        configuration: On which.
        loads: One per column.
        log_tps: Shape (rounds, loads), ln(1/s).
    """
    found = find_capacity(log_tps)
    slices = np.exp(log_tps)
    return Capacity(
        workload=workload,
        configuration=configuration,
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
        warm_up_s: Thrown away after the start for each workload.
        told: Hears what is going on.
        raw: Keeps a slice's raw output under a name.
        search: How many were begun before: one that was interrupted is repeated from its start.
    """

    taker: Taker
    asked: CapacityAsked
    loads: tuple[Load, ...]
    means: str
    warm_up_s: float
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
            self._planned(workload, self.loads[-1]), means=self.means, warm_up_s=self.warm_up_s
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
        experiment = self.taker.bench.experiment
        measure = experiment.measure
        reason = ""
        for attempt in range(MAX_TRIES):
            taken = self.taker.take(
                planned,
                seconds=experiment.slice_s(planned.cell.workload),
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
                self.taker.bench.enter(planned, means=self.means, warm_up_s=self.warm_up_s)
        raise MeasurementError(
            f"finding the capacity failed {MAX_TRIES} times at {planned.cell.load.label}: {reason}",
            hint=_REMEDY,
        )

    def _planned(self, workload: str, load: Load) -> PlannedRun:
        baseline = self.taker.bench.experiment.baseline
        return PlannedRun(configuration=baseline, cell=CellKey(workload=workload, load=load))


def _counts(taken: Taken) -> bool:
    return validity_of(taken.findings) is not Validity.INVALID


TRIES = 2
MOST_FURTHER = 2  # parts after the first
_FURTHER_SHARE = 0.5  # of the length that was asked for
_LONG_RUN_SPAWN_KEY = 2**31  # of the coin: no block has this number
_LONG_RUN_REMEDY = "The long run is tried once more; look into the server's log in raw/."
_NO_MORE = "What came before it counts; ask for a longer `sustain` to see further."


def sustained_s(experiment: Experiment) -> float:
    """Return the length of each long run: as asked, rounded up to whole checkpoint cycles.

    The longest cycle of the configurations counts, so that all run equally long. 0 when none is
    asked.
    """
    if experiment.sustained_s is None:
        return 0.0
    cycle_s = asked_cycle_s(experiment)
    return math.ceil(experiment.sustained_s / cycle_s) * cycle_s


def sustained_runs(experiment: Experiment) -> tuple[PlannedRun, ...]:
    """Return the long runs in their order: configurations by coin within each workload."""
    if experiment.sustained_s is None:
        return ()
    sequence = np.random.SeedSequence(experiment.seed, spawn_key=(_LONG_RUN_SPAWN_KEY,))
    coin = np.random.Generator(np.random.PCG64(sequence))
    return tuple(
        PlannedRun(
            configuration=experiment.configurations[place].name,
            cell=CellKey(workload=workload.name, load=experiment.largest_load),
        )
        for workload in experiment.workloads
        for place in coin.permutation(len(experiment.configurations))
    )


def forecast_s(experiment: Experiment, *, warm_up_s: float, switch_s: float) -> float:
    """Return about how long all long runs take, beside the budget."""
    each = sustained_s(experiment) + _around_s(experiment)
    return len(sustained_runs(experiment)) * (each + warm_up_s + switch_s)


def further_s(experiment: Experiment) -> float:
    """Return the length of each further part; 0 where none can be called for."""
    asked_s = sustained_s(experiment)
    return float(round(_FURTHER_SHARE * asked_s)) if asked_s >= LEAST_S else 0.0


def most_further_s(experiment: Experiment) -> float:
    """Return how much longer all long runs may take, when each of them falls late."""
    each = further_s(experiment)
    if not each:
        return 0.0
    return len(sustained_runs(experiment)) * MOST_FURTHER * (each + _around_s(experiment))


def _around_s(experiment: Experiment) -> float:
    """Return what a long run takes beside its length."""
    tail_s = durations.tail_s(experiment.largest_load)
    return experiment.measure.ramp_s + tail_s + durations.run_overhead_s(experiment)


def is_settled(recorded: Sequence[SustainedRun]) -> bool:
    """Return whether what is recorded of one long run needs nothing more.

    A run that was cut off before a part that it called for is not: the load did not go on.
    """
    parts = last_try(recorded)
    if not parts:
        return False
    if parts[-1].validity is Validity.INVALID:
        # A further part is never tried again; a first one as often as TRIES says.
        return parts[-1].part > 0 or _failed(recorded) >= TRIES
    return len(parts) > MOST_FURTHER or not calls_for_more(parts)


def _failed(recorded: Sequence[SustainedRun]) -> int:
    return sum(run.part == 0 and run.validity is Validity.INVALID for run in recorded)


@dataclass(frozen=True, slots=True, kw_only=True)
class SustainedTaker:
    """Takes the long runs of a plan; each is on restored data after the plan's warm-up."""

    experiment: Experiment
    plan: CampaignPlan
    taker: Taker
    told: Callable[[str], None]
    raw: RawStore

    def take(
        self, number: int, planned: PlannedRun, recorded: Sequence[SustainedRun]
    ) -> Iterator[SustainedRun]:
        """Yield what is missing of one long run, each part before the next is begun.

        Args:
            number: Its place in the order.
            planned: What it is.
            recorded: What earlier sessions have of it.
        """
        recorded = list(recorded)
        while not is_settled(recorded):
            attempt = sum(run.part == 0 for run in recorded)
            last = _failed(recorded) == TRIES - 1
            recorded.append(self._first(f"{number:02d}-{attempt}", planned, bearing=last))
            yield recorded[-1]
            while recorded[-1].validity is not Validity.INVALID and not is_settled(recorded):
                part = recorded[-1].part + 1
                recorded.append(self._further(f"{number:02d}-{attempt}-{part}", planned, part))
                yield recorded[-1]

    def _first(self, name: str, planned: PlannedRun, *, bearing: bool) -> SustainedRun:
        """Return a long run's first part; one that failed is invalid and says why."""
        seconds = sustained_s(self.experiment)
        self.told(
            f"sustained run: {planned.cell.workload}, {planned.cell.load.label},"
            f" {planned.configuration}, {format_duration(seconds)}"
        )
        try:
            self.taker.bench.enter(
                planned, means=self.plan.restore, warm_up_s=self.plan.warm_up.warm_up_s
            )
        except (TargetError, MeasurementError, PreflightError) as error:
            return self._without_measurement(planned, error.message)
        return self._taken(name, planned, seconds=seconds, bearing=bearing)

    def _further(self, name: str, planned: PlannedRun, part: int) -> SustainedRun:
        """Return a part under the load that goes on; neighbours are borne: it has no second try."""
        seconds = further_s(self.experiment)
        self.told(
            f"sustained run: goes on for {format_duration(seconds)}, since"
            f" {planned.cell.workload}, {planned.configuration} fell near its end"
        )
        run = self._taken(name, planned, seconds=seconds, bearing=True)
        findings = tuple(
            replace(each, remedy=_NO_MORE) if each.remedy == _LONG_RUN_REMEDY else each
            for each in run.findings
        )
        return replace(run, part=part, findings=findings)

    def _taken(
        self, name: str, planned: PlannedRun, *, seconds: float, bearing: bool
    ) -> SustainedRun:
        ramp_s = self.experiment.measure.ramp_s
        try:
            taken = self.taker.take(
                planned,
                seconds=seconds,
                ramp_s=ramp_s,
                bearing=bearing,
                order=log_order(
                    self.experiment.measure.log,
                    name=f"sustained-{name}",
                    store=self.raw,
                    windows_s=WINDOW_S,
                ),
            )
        except (TargetError, MeasurementError, PreflightError) as error:
            return self._without_measurement(planned, error.message)
        return SustainedRun(
            configuration=planned.configuration,
            cell=planned.cell,
            started_at=taken.wall,
            ramp_s=ramp_s,
            measurement=taken.measurement,
            validity=validity_of(taken.findings),
            findings=tuple(_without_block(finding) for finding in taken.findings),
            raw=self.raw.write_raw(f"sustained-{name}.txt", taken.output),
            evidence=taken.evidence,
            latency=taken.latency,
        )

    def _without_measurement(self, planned: PlannedRun, message: str) -> SustainedRun:
        finding = Finding(
            code="sustained-failed",
            severity=Severity.ERROR,
            message=message,
            remedy=_LONG_RUN_REMEDY,
        )
        return SustainedRun(
            configuration=planned.configuration,
            cell=planned.cell,
            started_at=self.taker.clock.now(),
            ramp_s=self.experiment.measure.ramp_s,
            measurement=None,
            validity=Validity.INVALID,
            findings=(finding,),
        )


def _without_block(finding: Finding) -> Finding:
    """Return a run's finding with the remedy of a run that belongs to no block."""
    return (
        replace(finding, remedy=_LONG_RUN_REMEDY) if finding.severity is Severity.ERROR else finding
    )
