"""The runs of complete blocks as one array: what every estimate starts from."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from steelyard.model.campaign import CampaignRecord
from steelyard.model.measurement import Run
from steelyard.model.schedule import CellKey
from steelyard.stats.confidence import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """Throughput of every block, treatment and cell.

    Attributes:
        treatments: Names, in the order of the experiment.
        cells: Workload by workload, loads in the order of the experiment.
        log_tps: Shape (blocks, treatments, cells), ln(1/s), blocks in run order; over all rounds
            of a visit: the sum of their transactions over the sum of their seconds.
        positions: Same shape: place of the run in its visit, the mean one with several rounds.
        slices: Shape (blocks, rounds, treatments, cells), ln(1/s) of each run.
        places: Same shape: place of each run in its visit.
        runs: Of each treatment and cell, in block order.
        holes: Blocks called complete in which a run has no measurement; they are left out.
    """

    treatments: tuple[str, ...]
    cells: tuple[CellKey, ...]
    log_tps: FloatArray
    positions: FloatArray
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
        """Return how often each cell ran in one visit."""
        return int(self.slices.shape[1])

    @property
    def by_slice(self) -> FloatArray:
        """Return every run on its own, shape (blocks times rounds, treatments, cells)."""
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
            positions=self.positions[..., kept],
            slices=self.slices[..., kept],
            places=self.places[..., kept],
            runs={key: runs for key, runs in self.runs.items() if key[1] in cells},
        )

    def columns_of(self, workload: str) -> list[int]:
        """Return the places of a workload's cells along the last axis."""
        return [place for place, cell in enumerate(self.cells) if cell.workload == workload]

    def narrowed(self, treatments: Sequence[str]) -> "Observations":
        """Return the observations of some treatments, in this order."""
        sides = [self.treatments.index(name) for name in treatments]
        return replace(
            self,
            treatments=tuple(treatments),
            log_tps=self.log_tps[:, sides],
            positions=self.positions[:, sides],
            slices=self.slices[:, :, sides],
            places=self.places[:, :, sides],
            runs={key: runs for key, runs in self.runs.items() if key[0] in treatments},
        )

    def weighted(self, weights: Sequence[float] | FloatArray) -> FloatArray:
        """Return the weighted sum over the treatments, shape (blocks, cells)."""
        return np.asarray(np.tensordot(np.asarray(weights), self.log_tps, axes=(0, 1)))

    def weighted_slices(self, weights: Sequence[float] | FloatArray) -> FloatArray:
        """Return the same of the single runs, shape (blocks, rounds, cells)."""
        return np.asarray(np.tensordot(np.asarray(weights), self.slices, axes=(0, 2)))

    def contrasts(self, baseline: str, treatment: str) -> FloatArray:
        """Return the log ratio of a treatment to the baseline, shape (blocks, cells)."""
        side, other = self.treatments.index(treatment), self.treatments.index(baseline)
        return np.asarray(self.log_tps[:, side] - self.log_tps[:, other])

    def slice_contrasts(self, baseline: str, treatment: str) -> FloatArray:
        """Return the log ratio of single runs, shape (blocks, rounds, cells)."""
        side, other = self.treatments.index(treatment), self.treatments.index(baseline)
        return np.asarray(self.slices[:, :, side] - self.slices[:, :, other])


def observe(record: CampaignRecord) -> Observations:
    """Return the observations of a record's complete blocks."""
    experiment = record.experiment
    treatments = tuple(treatment.name for treatment in experiment.treatments)
    cells = tuple(
        CellKey(workload=workload.name, load=load)
        for workload in experiment.workloads
        for load in experiment.loads
    )
    indices = [index for index, _ in record.complete_blocks]
    rounds = record.plan.rounds if record.plan is not None else 1
    taken = _Taken.empty((len(indices), rounds, len(treatments), len(cells)))
    taken.place(record.counted_runs, indices, treatments, cells)
    log_tps = taken.log_tps()
    whole = np.isfinite(log_tps).all(axis=(1, 2))
    holes = tuple(indices[row] for row in np.flatnonzero(~whole))
    return Observations(
        treatments=treatments,
        cells=cells,
        log_tps=log_tps[whole],
        positions=taken.places.mean(axis=1)[whole],
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taken:
    """What the runs gave, in arrays (blocks, rounds, treatments, cells); NaN is a hole."""

    slices: FloatArray
    transactions: FloatArray
    seconds: FloatArray
    places: FloatArray

    @classmethod
    def empty(cls, shape: tuple[int, int, int, int]) -> "_Taken":
        nothing = [np.full(shape, np.nan) for _ in range(3)]
        return cls(
            slices=nothing[0],
            transactions=nothing[1],
            seconds=nothing[2],
            places=np.zeros(shape),
        )

    def place(
        self,
        runs: Sequence[Run],
        indices: Sequence[int],
        treatments: Sequence[str],
        cells: Sequence[CellKey],
    ) -> None:
        """Put every run at its block, round, treatment and cell; rounds are in run order."""
        rows = {index: row for row, index in enumerate(indices)}
        sides = {treatment: side for side, treatment in enumerate(treatments)}
        columns = {cell: column for column, cell in enumerate(cells)}
        before: Counter[tuple[int, int, int]] = Counter()
        for run in runs:
            row, side, column = rows[run.block], sides[run.treatment], columns[run.cell]
            at = row, before[row, side, column], side, column
            before[row, side, column] += 1
            if run.measurement is not None and at[1] < self.slices.shape[1]:
                self.slices[at], self.places[at] = run.measurement.log_tps, run.position
                self.transactions[at] = run.measurement.transactions
                self.seconds[at] = run.measurement.seconds

    def log_tps(self) -> FloatArray:
        """Return ln(1/s) over the rounds, shape (blocks, treatments, cells)."""
        if self.slices.shape[1] == 1:
            return self.slices[:, 0]
        return log_rate(np.moveaxis(self.transactions, 1, -1), np.moveaxis(self.seconds, 1, -1))


def _grouped(
    record: CampaignRecord, holes: set[int]
) -> Mapping[tuple[str, CellKey], tuple[Run, ...]]:
    groups: dict[tuple[str, CellKey], list[Run]] = defaultdict(list)
    for run in sorted(record.counted_runs, key=lambda run: run.block):
        if run.block not in holes:
            groups[run.treatment, run.cell].append(run)
    return {key: tuple(runs) for key, runs in groups.items()}
