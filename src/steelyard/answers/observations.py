"""The runs of complete blocks as arrays: what estimates start from, and what they compare.

Each result is a weighted sum of a block's log throughputs over the configurations. Without factors
that is a contender minus the baseline; with factors it is a main effect, a step or a removal.

Evidence gives one value per block, configuration and cell, NaN where a run lacks it. What a report
says of evidence is made of such values: levels of one configuration, and differences within blocks.
Their intervals stand alone (pointwise) and take part in no verdict.

How the device of the data stood in a run is told by the figures that iostat makes of its counters:
None where a counter is missing, and of a mean over nothing. Source: iostat(1) of sysstat 12,
columns of ``-x``.

What the watching of runs could not see, where its samples come from and what it cost is told here
too, in the words of the probes.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final

import numpy as np

from steelyard.core.campaign import CampaignRecord
from steelyard.core.experiment import Attribution, AttributionKind, Experiment
from steelyard.core.findings import Estimate
from steelyard.core.measurement import Evidence, Quantity, Run
from steelyard.core.quantities import PERCENT, Named
from steelyard.core.schedule import CellKey
from steelyard.core.wording import MIB
from steelyard.stats.factorial import difference, main_effect, removed_last
from steelyard.stats.intervals import (
    FloatArray,
    Interval,
    block_interval,
    median_interval,
    plain_median_interval,
    signed_rank_interval,
)
from steelyard.stats.spending import FIXED_ALPHA


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """Throughput of every block, configuration and cell.

    Attributes:
        configurations: Names, in the order of the experiment.
        cells: Workload by workload, loads in the order of the experiment.
        log_tps: Shape (blocks, configurations, cells), ln(1/s), blocks in run order; over all
            rounds of a start: the sum of their transactions over the sum of their seconds. In
            sub-blocks the ratio to the baseline of the same one, times the block's mean of that.
        slices: Shape (blocks, rounds, configurations, cells), ln(1/s) of each run; of the
            baseline in sub-blocks that in the first.
        places: Same shape: place of each run in its start.
        runs: Of each configuration and cell, in block order.
        holes: Blocks called complete in which a run has no measurement; they are left out.
    """

    configurations: tuple[str, ...]
    cells: tuple[CellKey, ...]
    log_tps: FloatArray
    slices: FloatArray
    places: FloatArray
    runs: Mapping[tuple[str, CellKey], tuple[Run, ...]]
    holes: tuple[int, ...] = ()

    @property
    def blocks(self) -> int:
        """Return the number of blocks that count."""
        return len(self.log_tps)

    @property
    def rounds(self) -> int:
        """Return how often each cell ran in one start."""
        return int(self.slices.shape[1])

    @property
    def by_slice(self) -> FloatArray:
        """Return every run on its own, shape (blocks times rounds, configurations, cells)."""
        return self.slices.reshape(-1, *self.slices.shape[2:])

    def of_closed_loops(self) -> "Observations":
        """Return the same without open loops, whose throughput is what was asked for."""
        kept = [place for place, cell in enumerate(self.cells) if not cell.load.is_open]
        if len(kept) == len(self.cells):
            return self
        cells = tuple(self.cells[place] for place in kept)
        return replace(
            self,
            cells=cells,
            log_tps=self.log_tps[..., kept],
            slices=self.slices[..., kept],
            places=self.places[..., kept],
            runs={key: runs for key, runs in self.runs.items() if key[1] in cells},
        )

    def runs_of(self, configuration: str) -> list[Run]:
        """Return the runs of a configuration, cell by cell."""
        own = [runs for (name, _), runs in self.runs.items() if name == configuration]
        return [run for runs in own for run in runs]

    def columns_of(self, workload: str) -> list[int]:
        """Return the places of a workload's cells along the last axis."""
        return [place for place, cell in enumerate(self.cells) if cell.workload == workload]

    def largest_rates(self, workloads: Container[str]) -> dict[str, float]:
        """Return the largest median rate (1/s) of each configuration under some workloads.

        Over the cells of closed loops; nothing where there is none, or no block.
        """
        seen = self.of_closed_loops()
        columns = [place for place, cell in enumerate(seen.cells) if cell.workload in workloads]
        if not columns or not seen.blocks:
            return {}
        largest = np.median(np.exp(seen.log_tps[..., columns]), axis=0).max(axis=-1)
        return dict(zip(seen.configurations, map(float, largest), strict=True))

    def narrowed(self, configurations: Sequence[str]) -> "Observations":
        """Return the observations of some configurations, in this order."""
        sides = [self.configurations.index(name) for name in configurations]
        return replace(
            self,
            configurations=tuple(configurations),
            log_tps=self.log_tps[:, sides],
            slices=self.slices[:, :, sides],
            places=self.places[:, :, sides],
            runs={key: runs for key, runs in self.runs.items() if key[0] in configurations},
        )

    def weighted(self, weights: Sequence[float] | FloatArray) -> FloatArray:
        """Return the weighted sum over the configurations, shape (blocks, cells)."""
        return np.asarray(np.tensordot(np.asarray(weights), self.log_tps, axes=(0, 1)))

    def weighted_slices(self, weights: Sequence[float] | FloatArray) -> FloatArray:
        """Return the same of the single runs, shape (blocks, rounds, cells)."""
        return np.asarray(np.tensordot(np.asarray(weights), self.slices, axes=(0, 2)))

    def contrasts(self, baseline: str, configuration: str) -> FloatArray:
        """Return the log ratio of a configuration to the baseline, shape (blocks, cells)."""
        side, other = self.configurations.index(configuration), self.configurations.index(baseline)
        return np.asarray(self.log_tps[:, side] - self.log_tps[:, other])

    def slice_contrasts(self, baseline: str, configuration: str) -> FloatArray:
        """Return the log ratio of single runs, shape (blocks, rounds, cells)."""
        side, other = self.configurations.index(configuration), self.configurations.index(baseline)
        return np.asarray(self.slices[:, :, side] - self.slices[:, :, other])


def observe(record: CampaignRecord) -> Observations:
    """Return the observations of a record's complete blocks."""
    experiment = record.experiment
    configurations = tuple(configuration.name for configuration in experiment.configurations)
    cells = tuple(
        CellKey(workload=workload.name, load=load)
        for workload in experiment.workloads
        for load in experiment.loads
    )
    indices = [index for index, _ in record.complete_blocks]
    rounds = record.plan.rounds if record.plan is not None else 1
    taken = _Taken.empty((len(indices), rounds, len(configurations), len(cells)))
    shifts = _to_own_baselines(record.counted_runs, experiment.baseline)
    taken.place(record.counted_runs, indices, configurations, cells, shifts)
    log_tps = taken.log_tps()
    whole = np.isfinite(log_tps).all(axis=(1, 2))
    holes = tuple(indices[row] for row in np.flatnonzero(~whole))
    return Observations(
        configurations=configurations,
        cells=cells,
        log_tps=log_tps[whole],
        slices=taken.slices[whole],
        places=taken.places[whole],
        runs=_grouped(record, set(holes)),
        holes=holes,
    )


def log_rate(transactions: FloatArray, seconds: FloatArray) -> FloatArray:
    """Return ln(1/s) of several runs together, floored at one transaction like a single run.

    Args:
        transactions: Shape (..., rounds).
        seconds: Same shape.

    Returns:
        Shape (...): a long run's rate, not the mean of logarithms, so that stalls weigh alike.
    """
    return np.asarray(np.log(np.maximum(transactions.sum(axis=-1), 1.0) / seconds.sum(axis=-1)))


_InSubBlock = tuple[int, CellKey, int]


def _to_own_baselines(runs: Sequence[Run], baseline: str) -> Mapping[_InSubBlock, float]:
    """Return what to add to logs of a sub-block's runs, so that sub-blocks can be compared.

    It is the mean of the baseline's logs over the sub-blocks of its block minus that in this one. A
    difference between two configurations is then that of their log ratios to the baseline beside
    them. Without sub-blocks it is 0.
    """
    own: dict[_InSubBlock, float] = {}
    for run in runs:
        if run.configuration == baseline:
            measured = run.measurement
            own[run.block, run.cell, run.sub_block] = measured.log_tps if measured else np.nan
    levels: dict[tuple[int, CellKey], list[float]] = defaultdict(list)
    for (block, cell, _), level_there in own.items():
        levels[block, cell].append(level_there)
    return {key: float(np.mean(levels[key[:2]])) - own_level for key, own_level in own.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taken:
    """What the runs gave, in arrays (blocks, rounds, configurations, cells); NaN is a hole.

    ``shifts``, without rounds, is what brings sub-blocks to one level.
    """

    slices: FloatArray
    shifts: FloatArray
    transactions: FloatArray
    seconds: FloatArray
    places: FloatArray

    @classmethod
    def empty(cls, shape: tuple[int, int, int, int]) -> "_Taken":
        nothing = [np.full(shape, np.nan) for _ in range(3)]
        return cls(
            slices=nothing[0],
            shifts=np.zeros((shape[0], *shape[2:])),
            transactions=nothing[1],
            seconds=nothing[2],
            places=np.zeros(shape),
        )

    def place(
        self,
        runs: Sequence[Run],
        indices: Sequence[int],
        configurations: Sequence[str],
        cells: Sequence[CellKey],
        shifts: Mapping[_InSubBlock, float],
    ) -> None:
        """Put every run at its block, round, configuration and cell; rounds are in run order."""
        rows = {index: row for row, index in enumerate(indices)}
        sides = {configuration: side for side, configuration in enumerate(configurations)}
        columns = {cell: column for column, cell in enumerate(cells)}
        before: Counter[tuple[int, int, int]] = Counter()
        for run in runs:
            row, side, column = rows[run.block], sides[run.configuration], columns[run.cell]
            at = row, before[row, side, column], side, column
            before[row, side, column] += 1
            if run.measurement is not None and at[1] < self.slices.shape[1]:
                self.slices[at], self.places[at] = run.measurement.log_tps, run.position
                shift = shifts.get((run.block, run.cell, run.sub_block), 0.0)
                self.shifts[row, side, column] = shift
                self.transactions[at] = run.measurement.transactions
                self.seconds[at] = run.measurement.seconds

    def log_tps(self) -> FloatArray:
        """Return ln(1/s) over the rounds, shape (blocks, configurations, cells)."""
        if self.slices.shape[1] == 1:
            return np.asarray(self.slices[:, 0] + self.shifts)
        return log_rate(np.moveaxis(self.transactions, 1, -1), np.moveaxis(self.seconds, 1, -1))


def _grouped(
    record: CampaignRecord, holes: set[int]
) -> Mapping[tuple[str, CellKey], tuple[Run, ...]]:
    groups: dict[tuple[str, CellKey], list[Run]] = defaultdict(list)
    for run in sorted(record.counted_runs, key=lambda run: run.block):
        if run.block not in holes:
            groups[run.configuration, run.cell].append(run)
    return {key: tuple(runs) for key, runs in groups.items()}


WAITS = ("wait events", "waits", "server")  # from the narrowest subject to the widest
_SQL = ("counters", "server")
_SERVER_PROCESSES = ("the server's processes", "the server's machine", "the machine")
_DEVICE = ("device of the data directory", "the server's machine", "the machine")
# Where it is not SQL: by the beginning of the quantity's name.
_SUBJECTS = {
    "main_thread_blocked": ("main thread", *_SQL),
    "main_thread_run_queue": ("main thread", *_SQL),
    "server_run_queue": ("run-queue time of the server", *_SERVER_PROCESSES),
    "server_": _SERVER_PROCESSES,
    "generator_run_queue": ("run-queue time of the generator", "the machine"),
    "generator_": ("the machine",),
    "context_switches": ("CPU of the machine", "the machine"),
    "throttled_": ("throttling", "the server's machine", "the machine"),
    "device_flush": ("flushes of the data device", *_DEVICE),
    "device_": _DEVICE,
}


def reason_among(evidence: Iterable[Evidence], subjects: Sequence[str]) -> str:
    """Return the reason of the first of these subjects that is absent in a run, or nothing."""
    told = {gone.subject: gone.reason for seen in evidence for gone in seen.absent}
    found = next((told[subject] for subject in subjects if subject in told), "")
    return found.removesuffix(".")


def subjects_of(quantity: Quantity) -> tuple[str, ...]:
    """Return what an absence of a quantity may be called, from the narrowest to the widest."""
    name = quantity.value
    words = name.replace("_", " ").removesuffix(" s")
    for begin, subjects in _SUBJECTS.items():
        if name.startswith(begin):
            return (name, words, *subjects)
    return (name, words, *_SQL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultContrast:
    """One statement that the campaign is to decide under every workload.

    Attributes:
        baseline: What is on the negative side: a configuration, or the first level of a factor.
        configuration: What is on the positive side.
        weights: One per configuration, in configuration order; their sum is 0.
    """

    baseline: str
    configuration: str
    weights: tuple[float, ...]

    @property
    def positive(self) -> tuple[int, ...]:
        """Return the places of the configurations on the positive side."""
        return tuple(place for place, weight in enumerate(self.weights) if weight > 0)

    @property
    def negative(self) -> tuple[int, ...]:
        """Return the places of the configurations on the negative side."""
        return tuple(place for place, weight in enumerate(self.weights) if weight < 0)


def result_contrasts(experiment: Experiment) -> tuple[ResultContrast, ...]:
    """Return what is compared under every workload, in file order.

    None for a single configuration.
    """
    if experiment.attribution is not None:
        return tuple(
            _contrast(factor.off, factor.on, _weights(experiment.attribution, place))
            for place, factor in enumerate(experiment.attribution.factors)
        )
    names = [configuration.name for configuration in experiment.configurations]
    places = {name: np.eye(len(names))[place] for place, name in enumerate(names)}
    return tuple(
        _contrast(experiment.baseline, contender, places[contender] - places[experiment.baseline])
        for contender in experiment.contenders
    )


def result_count(experiment: Experiment) -> int:
    """Return how many results share the campaign's error: contrasts times workloads.

    They are about throughput; where all loads are open loops there is none.
    """
    if not experiment.compares_throughput:
        return 0
    return len(experiment.workloads) * len(result_contrasts(experiment))


def _weights(attribution: Attribution, place: int) -> FloatArray:
    combinations = attribution.combinations
    match attribution.kind:
        case AttributionKind.FACTORS:
            return main_effect(combinations, place)
        case AttributionKind.LADDER:
            return difference(combinations, combinations[place], combinations[place + 1])
        case AttributionKind.ABLATION:
            return removed_last(combinations, place)


def _contrast(baseline: str, configuration: str, weights: FloatArray) -> ResultContrast:
    return ResultContrast(
        baseline=baseline, configuration=configuration, weights=tuple(map(float, weights))
    )


RunsOfBlock = Sequence[Run]  # of one configuration and cell: one per round, or per sub-block


def whole_transactions(run: Run, ramp_s: float) -> float | None:
    """Return all transactions of a run, ramp and tail included, as totals of evidence do.

    Progress intervals give those of the ramp; it is cut by count, as the generator's parser does.
    None without a measurement, without a transaction, or where the ramp's intervals are lacking.
    """
    measured, intervals = run.measurement, round(ramp_s)
    if measured is not None and not run.has_ramp:
        return measured.uncounted + measured.transactions or None
    if measured is None or len(measured.series) < intervals:
        return None
    ramp = sum(second.transactions for second in measured.series[:intervals])
    return ramp + measured.transactions + measured.tail_transactions or None


def by_block(seen: Observations, value: Callable[[RunsOfBlock], float | None]) -> FloatArray:
    """Return a value of each block, shape (blocks, configurations, cells), NaN where it is None."""
    values = np.full((seen.blocks, len(seen.configurations), len(seen.cells)), np.nan)
    for side, configuration in enumerate(seen.configurations):
        for column, cell in enumerate(seen.cells):
            runs = runs_by_block(seen.runs.get((configuration, cell), ()))
            for row, of_block in enumerate(runs[: seen.blocks]):
                found = value(of_block)
                values[row, side, column] = np.nan if found is None else found
    return values


def runs_by_block(runs: Sequence[Run]) -> list[RunsOfBlock]:
    """Return the runs of each block, in block order."""
    blocks: dict[int, list[Run]] = defaultdict(list)
    for run in runs:
        blocks[run.block].append(run)
    return [blocks[index] for index in sorted(blocks)]


def watched_blocks(
    seen: "Observations", configuration: str, cell: CellKey
) -> tuple[tuple[Evidence, ...], ...]:
    """Return the evidence of the runs of each block that was watched whole, in block order."""
    blocks = runs_by_block(seen.runs.get((configuration, cell), ()))[: seen.blocks]
    watched = [tuple(run.evidence for run in b if run.evidence is not None) for b in blocks]
    return tuple(w for w, runs in zip(watched, blocks, strict=True) if len(w) == len(runs))


def ratio_of_sums(
    block: Sequence[Evidence], above: Quantity, below: Quantity | None
) -> float | None:
    """Return a counter over another, or over the seconds, both summed over the runs of a block.

    None where one is missing, and where nothing is below.
    """
    whole = sum_of([each.total(above) for each in block])
    by = sum_of([each.seconds if below is None else each.total(below) for each in block])
    return None if whole is None or by is None or by <= 0 else whole / by


def median_over(
    evidence: Sequence[Evidence], value: Callable[[Evidence], float | None]
) -> float | None:
    """Return the median of a value over the runs in which it is known, in its unit, or None."""
    found = [value(each) for each in evidence]
    known = [each for each in found if each is not None]
    return float(np.median(known)) if known else None


def sum_of(values: Sequence[float | None]) -> float | None:
    """Return the sum, or None where one is missing or there is none."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def total_of(runs: Sequence[Run], quantity: Quantity) -> float | None:
    """Return what was counted in all of some runs, or None where it is missing in one."""
    return sum_of([run.evidence.total(quantity) if run.evidence else None for run in runs])


def median_latency_s(runs: Sequence[Run]) -> float | None:
    """Return the median over runs of their mean latency; None when none reports it."""
    taken = [run.measurement.latency_mean_s for run in runs if run.measurement is not None]
    known = [seconds for seconds in taken if seconds is not None]
    return float(np.median(known)) if known else None


def transactions_of(runs: Sequence[Run]) -> float:
    """Return how many were counted in all of some runs."""
    return sum(run.measurement.transactions for run in runs if run.measurement is not None)


READ_ONLY: Final = 0.01  # rows changed per transaction; a guess: background work changes a few
_CHANGED: Final = (Quantity.ROWS_INSERTED, Quantity.ROWS_UPDATED, Quantity.ROWS_DELETED)
_READ: Final = (Quantity.ROWS_RETURNED, Quantity.ROWS_FETCHED)


def only_read(runs: Sequence[Run], most: float = READ_ONLY) -> bool:
    """Return whether the server counted that transactions changed no rows; not where it did not.

    Args:
        runs: Of one workload.
        most: So many rows per transaction count as none.
    """
    return _counted_at_most(runs, _CHANGED, most)


def counted_no_rows(runs: Sequence[Run]) -> bool:
    """Return whether the server counted that transactions neither read nor changed a row."""
    return _counted_at_most(runs, (*_CHANGED, *_READ), READ_ONLY)


def _counted_at_most(runs: Sequence[Run], quantities: Sequence[Quantity], most: float) -> bool:
    rows, counted = sum_of([total_of(runs, each) for each in quantities]), transactions_of(runs)
    return rows is not None and counted > 0 and rows <= most * counted


def side_means(values: FloatArray, asked: ResultContrast) -> tuple[FloatArray, FloatArray]:
    """Return the negative and the positive side of a contrast, shape (blocks, configurations)."""
    weights = np.abs(np.asarray(asked.weights))
    negative, positive = list(asked.negative), list(asked.positive)
    return values[:, negative] @ weights[negative], values[:, positive] @ weights[positive]


def level(values: FloatArray) -> Estimate | None:
    """Return the median over blocks with its signed-rank interval; None without a value.

    Args:
        values: Shape (blocks,); NaN is left out.
    """
    known = values[np.isfinite(values)]
    if not len(known):
        return None
    positive = bool((known > 0.0).all())
    return estimate_of(median_interval(known) if positive else plain_median_interval(known))


def change(differences: FloatArray) -> Estimate:
    """Return the Hodges-Lehmann centre with its interval at the level of one look.

    Args:
        differences: Shape (blocks,), finite, at least one.
    """
    return estimate_of(signed_rank_interval(differences, FIXED_ALPHA))


def as_ratio(logs: Estimate) -> Estimate:
    """Return an effect in ln as a relative change."""
    return Estimate(
        value=float(np.expm1(logs.value)),
        low=None if logs.low is None else float(np.expm1(logs.low)),
        high=None if logs.high is None else float(np.expm1(logs.high)),
    )


def is_clear(differences: FloatArray, family: int) -> bool:
    """Return whether the interval leaves out 0 also at a level shared by a whole family.

    A reason is named only then: of many that are looked at, some would else be named by chance.

    Args:
        differences: Shape (blocks,), finite.
        family: How many are looked at together, at least 1.
    """
    if not change(differences).leaves_out_zero:
        return False
    shared = block_interval(differences, FIXED_ALPHA / family)
    return shared.low > 0.0 or shared.high < 0.0


def estimate_of(interval: Interval) -> Estimate:
    """Return the centre with its bounds, or without them where one of the two is none."""
    if not interval.bounded:
        return Estimate(value=interval.estimate)
    return Estimate(value=interval.estimate, low=interval.low, high=interval.high)


def busy_fraction(seen: Evidence) -> float | None:
    """Return %util; of a device that serves many requests at once it says little."""
    return ratio_of_sums((seen,), Quantity.DEVICE_BUSY_S, None)


def queue_length(seen: Evidence) -> float | None:
    """Return aqu-sz, the mean requests in flight."""
    return ratio_of_sums((seen,), Quantity.DEVICE_QUEUE_S, None)


def reads_per_s(seen: Evidence) -> float | None:
    """Return r/s."""
    return ratio_of_sums((seen,), Quantity.DEVICE_READS, None)


def requests_per_s(seen: Evidence) -> float | None:
    """Return r/s and w/s together."""
    return _per(_requests(seen), seen.seconds)


def read_size_bytes(seen: Evidence) -> float | None:
    """Return rareq-sz, the mean size of a read."""
    return ratio_of_sums((seen,), Quantity.DEVICE_READ_BYTES, Quantity.DEVICE_READS)


def wait_s(seen: Evidence) -> float | None:
    """Return r_await and w_await together: the mean time of a request, queue included."""
    return _per(_sum(seen, Quantity.DEVICE_READ_S, Quantity.DEVICE_WRITE_S), _requests(seen))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLimit:
    """What a device that was busy all the time let through, second by second the same.

    Attributes:
        requests_per_s: Reads and writes; None where they varied.
        bytes_per_s: Read and written; None likewise. One of the two is there.
    """

    requests_per_s: float | None
    bytes_per_s: float | None

    @property
    def words(self) -> str:
        """Return it with its units."""
        requests = f"{self.requests_per_s or 0.0:,.0f} requests/s"
        moved = f"{(self.bytes_per_s or 0.0) / MIB:,.1f} MiB/s"
        if self.requests_per_s is None:
            return moved
        return requests if self.bytes_per_s is None else f"{requests} and {moved}"

    def times(self, factor: float) -> "DeviceLimit":
        """Return a limit that is so many times this one."""
        return DeviceLimit(
            requests_per_s=self.requests_per_s and self.requests_per_s * factor,
            bytes_per_s=self.bytes_per_s and self.bytes_per_s * factor,
        )


ENOUGH_READ_BYTES: Final = 16 * MIB  # for a read amplification; a guess
READ_TIME_SHARE: Final = 0.01  # of the device's time, likewise: less hardly moves a latency


def reads_weigh(runs: Sequence[Run]) -> bool:
    """Return whether a device's reads took enough of its time for a ratio of them to matter."""
    took_s = total_of(runs, Quantity.DEVICE_READ_S)
    watched_s = sum(run.evidence.seconds for run in runs if run.evidence is not None)
    return took_s is not None and took_s >= READ_TIME_SHARE * watched_s


FULL: Final = 0.95  # of a second with a request in flight
STEADY: Final = 0.05  # the middle half of the seconds, over their median
QUEUED: Final = 2.0  # requests in flight: with fewer it is what one of them takes that is steady
_ENOUGH_SECONDS: Final = 10  # a guess, as are the three above and the two below
_MOST_SECONDS: Final = 0.8
_WHOLE_SECOND: Final = 0.9
_BUSY_AT_ALL: Final = 0.5  # of the time: with less no four seconds of five are full


def device_limit(evidence: Iterable[Evidence]) -> DeviceLimit | None:
    """Return what limits the device behind some runs; None where nothing shows.

    What a device can do by itself varies from second to second with what it is asked for; what a
    limit lets through does not. Where requests are all of one size both are steady, and which of
    them is the limit does not show.
    """
    watched = list(evidence)
    busy_s = sum(each.total(Quantity.DEVICE_BUSY_S) or 0.0 for each in watched)
    if busy_s < _BUSY_AT_ALL * sum(each.seconds for each in watched):
        return None  # without a look at its seconds, of which a large campaign has a million
    seconds = [second for each in watched for second in _device_seconds(each)]
    full = [second for second in seconds if second[0] >= FULL]
    if len(full) < max(_ENOUGH_SECONDS, _MOST_SECONDS * len(seconds)):
        return None
    if np.median([second[1] for second in full]) < QUEUED:
        return None
    requests, moved = (_steady([second[place] for second in full]) for place in (2, 3))
    if requests is None and moved is None:
        return None
    return DeviceLimit(requests_per_s=requests, bytes_per_s=moved)


def _device_seconds(seen: Evidence) -> Iterator[tuple[float, float, float, float]]:
    """Yield of each whole second how busy a device was, its queue, requests/s and bytes/s."""
    host = seen.series_of("host")
    if host is None:
        return
    for began_s, ended_s, row in zip((0.0, *host.end_s), host.end_s, host.rows, strict=False):
        told = dict(zip(host.names, row, strict=False))
        values = [value for name in _COUNTED if (value := told.get(name)) is not None]
        length_s = ended_s - began_s
        if length_s >= _WHOLE_SECOND and len(values) == len(_COUNTED):
            busy, queue, reads, writes, read, written = (value / length_s for value in values)
            yield busy, queue, reads + writes, read + written


_COUNTED: Final = (
    Quantity.DEVICE_BUSY_S.value,
    Quantity.DEVICE_QUEUE_S.value,
    Quantity.DEVICE_READS.value,
    Quantity.DEVICE_WRITES.value,
    Quantity.DEVICE_READ_BYTES.value,
    Quantity.DEVICE_WRITE_BYTES.value,
)


def _steady(values: Sequence[float]) -> float | None:
    """Return the median of what hardly varies, else None."""
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    return float(middle) if middle > 0.0 and high - low <= STEADY * middle else None


def _requests(seen: Evidence) -> float | None:
    return _sum(seen, Quantity.DEVICE_READS, Quantity.DEVICE_WRITES)


def _sum(seen: Evidence, *quantities: Quantity) -> float | None:
    return sum_of([seen.total(each) for each in quantities])


def _per(dividend: float | None, divisor: float | None) -> float | None:
    return None if dividend is None or divisor is None or divisor <= 0 else dividend / divisor


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """Something that was not measured, for one reason, in so many runs."""

    subject: Annotated[str, "The subject."]
    reason: Annotated[str, "The reason."]
    runs: Annotated[int, "Number of runs."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """How the runs of a campaign were watched.

    Attributes:
        runs: That were watched.
        sources: Where the wait events come from, most frequent first.
        own_cpu_s: Over all these runs.
        server_cpu_s: Used to answer the probes; None where it is not visible.
        share: Of both in the CPU time that server, generator and Steelyard used; None where one
            of these is not known.
        unseen: Most frequent first.
    """

    runs: Annotated[int, "Number of runs."]
    sources: Annotated[tuple[str, ...], "Sources of the wait events."]
    own_cpu_s: Annotated[float | None, "CPU time of the probes, s."]
    server_cpu_s: Annotated[float | None, "CPU time of the server, s."]
    share: Annotated[float | None, PERCENT, "The one as a share of the other, %."]
    unseen: Annotated[
        tuple[Unseen, ...], Named("absent"), "Subjects that were not visible, with the reason."
    ]


def watching(runs: Sequence[Run]) -> Watching | None:
    """Return how the runs were watched; None where none was."""
    evidence = [run.evidence for run in runs if run.evidence is not None]
    if not evidence:
        return None
    costs = [each.cost for each in evidence if each.cost is not None]
    answering = [cost.server_cpu_s for cost in costs if cost.server_cpu_s is not None]
    own_cpu_s = sum(cost.own_cpu_s for cost in costs) if costs else None
    server_cpu_s = sum(answering) if answering else None
    sources = Counter(each.waits.source for each in evidence if each.waits is not None)
    gone = Counter((each.subject, each.reason) for seen in evidence for each in seen.absent)
    return Watching(
        runs=len(evidence),
        sources=tuple(source for source, _ in sources.most_common()),
        unseen=tuple(
            Unseen(subject=subject, reason=reason, runs=number)
            for (subject, reason), number in gone.most_common()
        ),
        own_cpu_s=own_cpu_s,
        server_cpu_s=server_cpu_s,
        share=_share(evidence, own_cpu_s, server_cpu_s),
    )


def _share(
    evidence: Sequence[Evidence], own_cpu_s: float | None, server_cpu_s: float | None
) -> float | None:
    # Server, generator and Steelyard: the probes are a part of these.
    used = (Quantity.SERVER_CPU_S, Quantity.GENERATOR_CPU_S, Quantity.STEELYARD_CPU_S)
    whole = sum_of([_sum(each, *used) for each in evidence])
    if own_cpu_s is None or not whole:
        return None
    return (own_cpu_s + (server_cpu_s or 0.0)) / whole
