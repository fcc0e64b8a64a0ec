"""The runs of complete blocks as one array: what every estimate starts from."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
        log_tps: Shape (blocks, treatments, cells), ln(1/s), blocks in run order.
        positions: Same shape: place of the run in its visit.
        runs: Of each treatment and cell, in block order.
        holes: Blocks called complete in which a run has no measurement; they are left out.
    """

    treatments: tuple[str, ...]
    cells: tuple[CellKey, ...]
    log_tps: FloatArray
    positions: FloatArray
    runs: Mapping[tuple[str, CellKey], tuple[Run, ...]]
    holes: tuple[int, ...] = ()

    @property
    def blocks(self) -> int:
        """Return the number of blocks that count."""
        return len(self.log_tps)

    def columns_of(self, workload: str) -> list[int]:
        """Return the places of a workload's cells along the last axis."""
        return [place for place, cell in enumerate(self.cells) if cell.workload == workload]

    def weighted(self, weights: Sequence[float] | FloatArray) -> FloatArray:
        """Return the weighted sum over the treatments, shape (blocks, cells)."""
        return np.asarray(np.tensordot(np.asarray(weights), self.log_tps, axes=(0, 1)))

    def contrasts(self, baseline: str, treatment: str) -> FloatArray:
        """Return the log ratio of a treatment to the baseline, shape (blocks, cells)."""
        side, other = self.treatments.index(treatment), self.treatments.index(baseline)
        return np.asarray(self.log_tps[:, side] - self.log_tps[:, other])


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
    log_tps, positions = _placed(record.counted_runs, indices, treatments, cells)
    whole = np.isfinite(log_tps).all(axis=(1, 2))
    holes = tuple(indices[row] for row in np.flatnonzero(~whole))
    return Observations(
        treatments=treatments,
        cells=cells,
        log_tps=log_tps[whole],
        positions=positions[whole],
        runs=_grouped(record, set(holes)),
        holes=holes,
    )


def _placed(
    runs: Sequence[Run],
    indices: Sequence[int],
    treatments: Sequence[str],
    cells: Sequence[CellKey],
) -> tuple[FloatArray, FloatArray]:
    """Return log throughput and positions, shape (blocks, treatments, cells); NaN is a hole."""
    shape = (len(indices), len(treatments), len(cells))
    log_tps, positions = np.full(shape, np.nan), np.zeros(shape)
    rows = {index: row for row, index in enumerate(indices)}
    sides = {treatment: side for side, treatment in enumerate(treatments)}
    columns = {cell: column for column, cell in enumerate(cells)}
    for run in runs:
        if run.measurement is not None:
            place = rows[run.block], sides[run.treatment], columns[run.cell]
            log_tps[place], positions[place] = run.measurement.log_tps, run.position
    return log_tps, positions


def _grouped(
    record: CampaignRecord, holes: set[int]
) -> Mapping[tuple[str, CellKey], tuple[Run, ...]]:
    groups: dict[tuple[str, CellKey], list[Run]] = defaultdict(list)
    for run in sorted(record.counted_runs, key=lambda run: run.block):
        if run.block not in holes:
            groups[run.treatment, run.cell].append(run)
    return {key: tuple(runs) for key, runs in groups.items()}
