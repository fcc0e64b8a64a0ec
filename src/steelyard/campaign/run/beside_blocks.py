"""What is measured beside the blocks: how long starts warm up, the capacity, and long runs.

The warm-up is measured before the first block, where it is not declared (METHOD 3.7).

The capacity is the most that the baseline sustains; rates are made from it. It is found before the
first block, too: every round runs every number of clients once, in random order, as a closed loop;
what all rounds together say is the capacity (``stats.capacity``). A load's share of it is one rate
for all configurations, so that they are compared under the same load.

There is one long run per configuration and workload after the last block, at the largest load. They
show what slices of seconds cannot: whole checkpoint cycles, vacuum, a cliff. One run each is no
sample, so they take part in no estimate and no verdict. A drop near the end of one may be credits
that have run out, or a neighbour who has come: then the load goes on, in further parts of half the
length, without restoring and without a warm-up.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from steelyard.answers.observations import estimate_of
from steelyard.answers.sustained.compute import calls_for_more, last_try
from steelyard.campaign.design import schedule as durations
from steelyard.campaign.design.schedule import asked_cycle_s, cells_of
from steelyard.campaign.evidence.run_log import WINDOW_S, RawStore, log_order
from steelyard.campaign.evidence.run_rules import validity_of
from steelyard.campaign.run.bench import TEMPLATE, Bench
from steelyard.campaign.run.blocks import MAX_TRIES
from steelyard.campaign.run.taking import BenchTaker
from steelyard.core.campaign import (
    ANEW,
    CampaignPlan,
    Capacity,
    CapacityPoint,
    CellRate,
    WarmUpChoice,
)
from steelyard.core.experiment import (
    PREWARM_BYTES,
    Calibration,
    CapacityAsked,
    Experiment,
    LogPolicy,
)
from steelyard.core.findings import Fact, Finding, Severity, Validity
from steelyard.core.measurement import Measurement, SustainedRun
from steelyard.core.schedule import CellKey, Load, PlannedRun
from steelyard.core.wording import (
    MeasurementError,
    PreflightError,
    TargetError,
    format_bytes,
    format_duration,
    format_percent,
)
from steelyard.gateways.host import Clock
from steelyard.stats.capacity import LEAST_S, find_capacity
from steelyard.stats.drift import residual_loss, settled_after_s
from steelyard.stats.intervals import FloatArray, median_interval

_SPAWN_KEY = 2**31 + 1  # of the coin: no block has this number
_DIGITS = 4  # of a rate; the capacity is not known to more
_REMEDY = "Remove the cause, or give the loads rates of their own: `load.rate: 500/s`."


def asked_capacity(experiment: Experiment) -> CapacityAsked | None:
    """Return how the capacity is to be found; None where no load is a share of it."""
    shared = any(load.share is not None for load in experiment.loads)
    return experiment.capacity if shared else None


def capacity_s(experiment: Experiment, *, warm_up_s: float, start_s: float) -> float:
    """Return about how long it takes to find the capacity; 0 when nobody asks for it."""
    asked = asked_capacity(experiment)
    if asked is None:
        return 0.0
    takes = asked.runs * len(asked.clients)
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

    taker: BenchTaker
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
        workload, rounds = experiment.workloads[number].name, self.asked.runs
        log_tps = np.empty((rounds, len(self.loads)))
        self.taker.enter(
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
                seconds=experiment.run_time_s(planned.cell.workload),
                ramp_s=measure.discard_start_s,
                bearing=attempt == MAX_TRIES - 1,
                # Transactions are logged as they will be in the blocks: a log costs throughput.
                order=log_order(measure.log, name=f"{name}-{attempt}", store=self.raw),
            )
            self.raw.write_raw(f"{name}-{attempt}.txt", taken.output)
            if taken.valid is not None:
                return taken.valid.log_tps
            reason = taken.trouble
            if not self.taker.bench.is_running():
                self.taker.enter(planned, means=self.means, warm_up_s=self.warm_up_s)
        raise MeasurementError(
            f"finding the capacity failed {MAX_TRIES} times at {planned.cell.load.label}: {reason}",
            hint=_REMEDY,
        )

    def _planned(self, workload: str, load: Load) -> PlannedRun:
        baseline = self.taker.bench.experiment.baseline
        return PlannedRun(configuration=baseline, cell=CellKey(workload=workload, load=load))


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
    return experiment.measure.discard_start_s + tail_s + durations.run_overhead_s(experiment)


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
    """Takes the long runs of a plan; each is on restored data after the plan's warm-up.

    Data and server are made anew by that; a volume's burst credits are not. Simulated storage has
    all of them before each try. Elsewhere a try that follows a discarded one waits for them.

    Attributes:
        patience_s: For how long.
    """

    experiment: Experiment
    patience_s: float
    plan: CampaignPlan
    taker: BenchTaker
    told: Callable[[str], None]
    raw: RawStore

    def take(
        self, number: int, planned: PlannedRun, recorded: Sequence[SustainedRun]
    ) -> Iterator[SustainedRun]:
        """Yield what is missing of one long run, each part before the next is begun.

        ``recorded`` is what earlier sessions have of it.
        """
        recorded = list(recorded)
        while not is_settled(recorded):
            attempt = sum(run.part == 0 for run in recorded)
            last = _failed(recorded) == TRIES - 1
            spent = self._refilled(planned.configuration, discarded=attempt > 0)
            run = self._part(f"{number:02d}-{attempt}", planned, 0, bearing=last)
            if spent and run.measurement is not None:
                findings = (*run.findings, spent)
                run = replace(run, findings=findings, validity=validity_of(findings))
            recorded.append(run)
            yield recorded[-1]
            while recorded[-1].validity is not Validity.INVALID and not is_settled(recorded):
                part = recorded[-1].part + 1
                name = f"{number:02d}-{attempt}-{part}"
                # It has no second try, so neighbours are borne.
                recorded.append(self._part(name, planned, part, bearing=True))
                yield recorded[-1]

    def _refilled(self, name: str, *, discarded: bool) -> Finding | None:
        """Give burst credits back; return what is to be known where they may be spent."""
        bench = self.taker.bench
        if bench.refill(name) or not discarded:
            return None
        why = bench.await_credits(name, self.patience_s, self.told)
        if not why:
            return None
        return Finding(
            code="credits-not-back",
            severity=Severity.WARNING,
            message=(
                "a discarded try before this one took from the burst credits of the same volume;"
                f" {why}, so this run may begin after the burst"
            ),
            remedy="Repeat the campaign on a volume with full credits before you rely on it.",
            subject=name,
        )

    def _part(self, name: str, planned: PlannedRun, part: int, *, bearing: bool) -> SustainedRun:
        """Return a part of a long run; one that failed is invalid and says why.

        The first one is on restored data; a further one is under the load that goes on.
        """
        cell, measure = planned.cell, self.experiment.measure
        seconds = further_s(self.experiment) if part else sustained_s(self.experiment)
        length = format_duration(seconds)
        run = f"{cell.workload}, {cell.load.label}, {planned.configuration}, {length}"
        if part:
            run = f"goes on for {length}, since {cell.workload}, {planned.configuration} fell"
            run += " near its end"
        self.told(f"sustained run: {run}")
        remedy = _NO_MORE if part else _LONG_RUN_REMEDY
        failed = SustainedRun(
            configuration=planned.configuration,
            cell=cell,
            started_at=self.taker.clock.now(),
            ramp_s=measure.discard_start_s,
            measurement=None,
            validity=Validity.INVALID,
            part=part,
        )
        try:
            if not part:
                self.taker.enter(
                    planned, means=self.plan.restore, warm_up_s=self.plan.warm_up.warm_up_s
                )
            order = log_order(
                measure.log, name=f"sustained-{name}", store=self.raw, windows_s=WINDOW_S
            )
            taken = self.taker.take(
                planned,
                seconds=seconds,
                ramp_s=measure.discard_start_s,
                bearing=bearing,
                order=order,
            )
        except (TargetError, MeasurementError, PreflightError) as error:
            finding = Finding(
                code="sustained-failed",
                severity=Severity.ERROR,
                message=error.message,
                remedy=remedy,
            )
            return replace(failed, findings=(finding,))
        return replace(
            failed,
            started_at=taken.wall,
            measurement=taken.measurement,
            validity=validity_of(taken.findings),
            findings=tuple(  # it belongs to no block, which could be redone
                replace(finding, remedy=remedy) if finding.severity is Severity.ERROR else finding
                for finding in taken.findings
            ),
            raw=self.raw.write_raw(f"sustained-{name}.txt", taken.output),
            evidence=taken.evidence,
            latency=taken.latency,
        )


def choose_logs(
    experiment: Experiment, bench: Bench
) -> tuple[tuple[Fact, ...], tuple[Finding, ...]]:
    """Choose memory or disk, once for all arms, and return what a reader must know of it.

    That is nothing where no transaction is logged.
    """
    if experiment.measure.log is LogPolicy.OFF or not experiment.system.logs_transactions:
        return (), ()
    if bench.logs_in_memory():
        return (_fact("memory"),), ()
    return (_fact("disk"),), (_ON_DISK,)


def _fact(place: str) -> Fact:
    return Fact(name="transaction logs while a run goes on", value=place, subject="tools")


_ON_DISK = Finding(
    code="logs-on-disk",
    severity=Severity.WARNING,
    message="the logs of transactions are written to a disk while a run goes on: /dev/shm has no"
    " room for them, or takes no directory; where it is the disk that is measured, their writing"
    " is measured with the rest",
    remedy="Give /dev/shm more room (a container: --shm-size=1g), log a share of the transactions"
    " (`measure.log_sampling`), or none (`measure.log: off`).",
    subject="campaign",
)


_LEAST_SECONDS = 2  # two batches of MSER at its shortest batch
_GOOD_RESTARTS, _GOOD_RUN_S = 5, 90.0  # what METHOD 3.7 asks for


_TESTED = (
    "The warm-up is tested in every block, and longer in the next one where a configuration was"
    " still warming up."
)
# One session runs on a server that runs on.
IN_SUCCESSION = WarmUpChoice(
    warm_up_s=0.0,
    how="floor",
    risk="Each script runs once under every configuration before what counts of a block.",
)
_COLD = (
    f"The data are larger than {format_bytes(PREWARM_BYTES)} and were not loaded into memory after"
    " the starts: each configuration is measured while it fills its shared buffers, and the one"
    " with the larger ones, or the slower one, has filled less of them."
)


def declared_warm_up(
    experiment: Experiment, *, alternates: bool = False, leaves_cold: bool = False
) -> WarmUpChoice | None:
    """Return the warm-up when nothing is to be measured; None asks for a calibration.

    Where configurations alternate it is counted in seconds under load, and made longer in the next
    blocks when one of them was still warming up.

    It is riskier where the data were too large to be loaded into memory before (``leaves_cold``).
    """
    measure = experiment.measure
    if alternates and measure.warm_up_s is None:
        return WarmUpChoice(
            warm_up_s=durations.TURNS_WARM_UP_S,
            how="floor",
            risk=_COLD if leaves_cold else _TESTED,
            is_grave=leaves_cold,
        )
    if measure.warm_up_s is not None:
        return WarmUpChoice(
            warm_up_s=measure.warm_up_s,
            how="declared",
            risk="The warm-up was declared, not measured: a configuration that warms up more slowly"
            " is understated.",
        )
    if measure.calibration is None:
        return WarmUpChoice(
            warm_up_s=durations.DEFAULT_WARM_UP_S,
            how="floor",
            risk="The warm-up was not measured here: a configuration that needs longer to warm up"
            " is understated.",
        )
    return None


def calibrate(
    experiment: Experiment,
    calibration: Calibration,
    take: Callable[[str, str, int], Measurement],
) -> WarmUpChoice:
    """Return the warm-up from runs after fresh starts, the same for all configurations.

    Args:
        experiment: Whose configurations and workloads are run.
        calibration: How often and how long.
        take: Activates a configuration on restored data, runs a workload for some seconds and
            returns what it measured, ramp included.
    """
    workloads = [workload.name for workload in experiment.workloads]
    restarts = max(calibration.restarts, len(workloads))
    collected = []
    for configuration in experiment.configurations:
        runs: dict[str, list[Measurement]] = {}
        for number in range(restarts):
            workload = workloads[number % len(workloads)]
            taken = take(configuration.name, workload, int(calibration.run_time_s))
            runs.setdefault(workload, []).append(taken)
        collected.append(runs)
    return choose_warm_up(collected, calibration, restarts)


def choose_warm_up(
    collected: Sequence[Mapping[str, Sequence[Measurement]]],
    calibration: Calibration,
    restarts: int,
) -> WarmUpChoice:
    """Return the longest warm-up that any configuration under any workload asks for.

    The runs of each configuration are ``collected`` by workload, one measurement per start.
    """
    series = [[_log_series(runs) for runs in one.values()] for one in collected]
    # MSER takes batches of 5 s, shorter ones where a run does not hold ten of them.
    batch_s = max(1, min(5, int(calibration.run_time_s) // 10))
    measured = [
        max(
            float(settled_after_s(of_workload, batch_s=batch_s)) for of_workload in of_configuration
        )
        for of_configuration in series
    ]
    warm_up = max([calibration.at_least_s, *measured])
    residual = [
        _worst(
            [residual_loss(of_workload, round(warm_up), window_s=2 * batch_s) for of_workload in s]
        )
        for s in series
    ]
    return WarmUpChoice(
        warm_up_s=warm_up,
        how="measured",
        risk=_risk(calibration, restarts, residual),
        measured_s=tuple(measured),
        residual_fraction=tuple(residual),
        restarts=restarts,
    )


def _log_series(runs: Sequence[Measurement]) -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
    """Return ln(1/s) per second, shape (restarts, seconds), cut to the shortest run."""
    seconds = min(len(run.series) for run in runs)
    if seconds < _LEAST_SECONDS:
        raise MeasurementError(
            f"a calibration run gave only {seconds} seconds of progress",
            hint="Is the server stalled? Otherwise declare a warm-up in `measure.warm_up`.",
        )
    rates = [[max(s.transactions, 1.0) / s.seconds for s in run.series[:seconds]] for run in runs]
    return np.log(np.asarray(rates, dtype=np.float64))


def _worst(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known, default=None)


def _risk(calibration: Calibration, restarts: int, residual: Sequence[float | None]) -> str:
    known = [value for value in residual if value is not None]
    left = (
        f"the throughput right after it was at most {format_percent(max(known), signed=False)}"
        " below what followed"
        if known and max(known) > 0
        else "no loss was seen after it"
    )
    if restarts >= _GOOD_RESTARTS and calibration.run_time_s >= _GOOD_RUN_S:
        return f"The warm-up was measured on {restarts} starts per configuration: {left}."
    return (
        f"The warm-up was measured on only {restarts} starts of {calibration.run_time_s:.0f} s"
        f" per configuration ({_GOOD_RESTARTS} of {_GOOD_RUN_S:.0f} s are advised): {left}; a"
        " slower warm-up of one configuration would go unseen and would understate it."
    )


def warm_up_runs(taker: BenchTaker, means: str) -> Callable[[str, str, int], Measurement]:
    """Return what activates a configuration, runs a workload for some seconds, and measures it."""

    def take(configuration: str, workload: str, seconds: int) -> Measurement:
        cell = CellKey(workload=workload, load=taker.bench.warming_load)
        planned = PlannedRun(configuration=configuration, cell=cell)
        reason = ""
        for attempt in range(1, MAX_TRIES + 1):
            taker.bench.activate(configuration, restore=True, means=means)
            last = attempt == MAX_TRIES  # what the neighbour does then is in the warm-up
            taken = taker.take(planned, seconds=seconds, ramp_s=0.0, bearing=last)
            if taken.valid is not None:
                return taken.valid
            reason = taken.trouble
        raise MeasurementError(
            f"measuring the warm-up failed {MAX_TRIES} times: {reason}",
            hint="Remove the cause, or declare a warm-up in `measure.warm_up`.",
        )

    return take


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoring:
    """The means chosen, and the seconds of each one tried.

    Attributes:
        others: Of places that have not this means: their configurations, each with its own.
    """

    means: str
    tried_s: tuple[tuple[str, float], ...]
    others: tuple[tuple[str, str], ...] = ()


def choose_means(
    experiment: Experiment, bench: Bench, clock: Clock, *, alternates: bool = False
) -> Restoring:
    """Return the means to use for every restore of a campaign.

    A reflink copy takes the same fraction of a second at any size, so where it works nothing else
    is tried. Else a copy of the data directory is weighed against copying the databases inside a
    running server, which restores less (not the WAL position, not the statistics). Servers that
    alternate start anew in every block, each from a copy of the files. Where some servers are on
    this machine and others are there already, each gets its data back by a means of its own.

    Raises:
        PreflightError: The means asked for does not work here.
    """
    names = [each.name for each in experiment.configurations]
    if experiment.is_made_anew:
        own = ((name, bench.own_means(name, ANEW)) for name in names)
        return Restoring(means=ANEW, tried_s=(), others=tuple(o for o in own if o[1] != ANEW))
    here = [name for name in names if bench.platform(name).root is not None]
    if not here:
        return _without_files(experiment, bench)
    found = _by_files(experiment, bench, clock, here, alternates=alternates)
    own = ((name, bench.own_means(name, found.means)) for name in names)
    return replace(found, others=tuple(each for each in own if each[1] != found.means))


def _by_files(
    experiment: Experiment, bench: Bench, clock: Clock, here: Sequence[str], *, alternates: bool
) -> Restoring:
    """Return the means for servers whose files are on this machine.

    Raises:
        PreflightError: The means asked for does not work here.
    """
    first = experiment.baseline if experiment.baseline in here else here[0]
    state, platform = bench.state(first), bench.platform(first)
    targets = [experiment.configuration(name).target for name in here]
    asked = {target.restore for target in targets if target.restore}
    if len(asked) > 1:
        raise PreflightError(
            f"the configurations ask for different means of restoring: {', '.join(sorted(asked))}",
            hint="Use one `restore:` in all of them.",
        )
    reflinks = all(bench.platform(n).copies_by_reflink(bench.state(n)) for n in here)
    if asked:
        return _as_asked(asked.pop(), reflinks=reflinks)
    if reflinks:
        return Restoring(
            means="reflink", tried_s=(("reflink", platform.restore(state, "reflink")),)
        )
    if alternates:
        return Restoring(means="copy", tried_s=(("copy", platform.restore(state, "copy")),))
    return _weighed(bench, first, clock)


def _weighed(bench: Bench, configuration: str, clock: Clock) -> Restoring:
    """Return the faster of a copy of the files and one inside the server, where it makes such."""
    platform = bench.platform(configuration)
    copy_s = platform.restore(bench.state(configuration), "copy")
    copied = (("copy", round(copy_s, 3)),)
    if TEMPLATE not in platform.means():
        return Restoring(means="copy", tried_s=copied)
    try:
        bench.activate(configuration, restore=True, means=TEMPLATE)
        begun = clock.monotonic()
        # The second restore is timed: the first one also moves the data.
        bench.restore_templates(configuration)
        template_s = clock.monotonic() - begun
    except TargetError:
        return Restoring(means="copy", tried_s=copied)  # it does not work here
    tried = (*copied, (TEMPLATE, round(template_s, 3)))
    # A template restores less, so it must be clearly cheaper.
    return Restoring(means=TEMPLATE if template_s < 0.5 * copy_s else "copy", tried_s=tried)


def _without_files(experiment: Experiment, bench: Bench) -> Restoring:
    """Return the best means that every server offers, and its seconds on the first."""
    offered = [bench.platform(t.name).means() for t in experiment.configurations]
    common = [means for means in offered[0] if all(means in others for others in offered)]
    if not common:
        raise PreflightError(
            "the servers offer different means of restoring the data:"
            f" {', '.join(sorted({means for each in offered for means in each}))}",
            hint="Allow an existing database in all targets or in none, and use one `restore:`.",
        )
    name = experiment.baseline
    seconds = bench.platform(name).restore(bench.state(name), common[0])
    return Restoring(means=common[0], tried_s=((common[0], round(seconds, 3)),))


def _as_asked(means: str, *, reflinks: bool) -> Restoring:
    if means == "reflink" and not reflinks:
        raise PreflightError(
            "the file system of the data does not share blocks between copies (reflink)",
            hint="Use XFS or Btrfs, or leave `restore:` out.",
        )
    return Restoring(means=means, tried_s=())
