"""What one configuration's turns leave to another's in devices and memory, by the evidence.

One value per block, workload and comparison, as of all that is said of turns.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from steelyard.analysis.block_values import RunsOfBlock, by_block, side_means, sum_of
from steelyard.analysis.contrasts import HeadlineContrast, headline_contrasts
from steelyard.analysis.observations import Observations
from steelyard.model.evidence import Quantity
from steelyard.model.experiment import Experiment
from steelyard.model.measurement import Run
from steelyard.model.units import KIB, MIB
from steelyard.stats.confidence import FloatArray, Interval
from steelyard.stats.turns import interval_of_changes

_PAGE_BYTES: Final = 8 * KIB
ENOUGH_WRITTEN_BYTES: Final = MIB  # a guess: less is the journal of the file system
READ_ONLY: Final = 0.01  # rows changed per transaction; a guess: background work changes a few
_ROWS: Final = (Quantity.ROWS_INSERTED, Quantity.ROWS_UPDATED, Quantity.ROWS_DELETED)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceCheck:
    """A trace in the turns of one comparison's sides.

    Attributes:
        baseline_level: Mean over blocks of the negative side; ``treatment_level`` of the other;
            None without a block.
        difference: Between them within blocks, with its interval at level 1 %; None with too few.
        blocks: That have a value.
        of: Blocks there are.
    """

    workload: str
    baseline: str
    treatment: str
    baseline_level: float | None
    treatment_level: float | None
    difference: Interval | None
    blocks: int
    of: int


def writes_after_switches(seen: Observations, experiment: Experiment) -> tuple[TraceCheck, ...]:
    """Return, of what the data's device writes in turns, the share that falls into their settling.

    A server that stands still hands nothing to the kernel; what it handed over before is still
    being written when another one's turn begins. Blocks with less than a MiB say nothing.
    """
    return _checks(seen, experiment, _settling_share)


def pages_from_devices(seen: Observations, experiment: Experiment) -> tuple[TraceCheck, ...]:
    """Return the pages per transaction that warm servers waited for, under workloads that read.

    They come from the device of the data, or are pages of memory that the kernel had taken away
    (major faults). Blocks say nothing whose data do not fit into memory for all servers together.
    """
    return _checks(seen, experiment, partial(_pages, servers=len(seen.treatments)))


def _checks(
    seen: Observations,
    experiment: Experiment,
    value: Callable[[RunsOfBlock], float | None],
) -> tuple[TraceCheck, ...]:
    """Return the checks of every workload and headline; none where nothing was taken in turns."""
    closed = seen.of_closed_loops()
    if not any(run.turns for runs in closed.runs.values() for run in runs):
        return ()
    values = by_block(closed, value)
    return tuple(
        _check(values[:, :, columns], workload.name, asked)
        for workload in experiment.workloads
        if (columns := closed.columns_of(workload.name))
        for asked in headline_contrasts(experiment)
    )


def _check(values: FloatArray, workload: str, asked: HeadlineContrast) -> TraceCheck:
    """Return a check of values of shape (blocks, treatments, loads): of means over the loads."""
    sides = [side_means(values[:, :, load], asked) for load in range(values.shape[2])]
    both = np.array(sides)  # (loads, 2, blocks)
    known = np.isfinite(both).all(axis=1)  # (loads, blocks)
    some = known.any(axis=0)
    kept = np.where(known[:, None, :], both, 0.0)[:, :, some]
    negative, positive = kept.sum(axis=0) / known[:, some].sum(axis=0)
    return TraceCheck(
        workload=workload,
        baseline=asked.baseline,
        treatment=asked.treatment,
        baseline_level=float(negative.mean()) if some.any() else None,
        treatment_level=float(positive.mean()) if some.any() else None,
        difference=interval_of_changes(positive - negative),
        blocks=int(some.sum()),
        of=len(values),
    )


def _settling_share(runs: RunsOfBlock) -> float | None:
    """Return the share of bytes that were written while turns settled; None below a MiB."""
    settling = _total(runs, Quantity.SETTLING_WRITE_BYTES)
    settled = _total(runs, Quantity.SETTLED_WRITE_BYTES)
    if settling is None or settled is None or settling + settled < ENOUGH_WRITTEN_BYTES:
        return None
    return settling / (settling + settled)


def _pages(runs: RunsOfBlock, *, servers: int) -> float | None:
    """Return pages per transaction; None where the workload writes or the data do not fit."""
    read = _total(runs, Quantity.SETTLED_READ_BYTES)
    faults = _total(runs, Quantity.TURNS_MAJOR_FAULTS)
    changed = sum_of([_total(runs, quantity) for quantity in _ROWS])
    counted = sum(run.measurement.transactions for run in runs if run.measurement is not None)
    if read is None or faults is None or changed is None or not counted:
        return None
    if changed > READ_ONLY * counted or not all(_fits(run, servers) for run in runs):
        return None
    return (read / _PAGE_BYTES + faults) / counted


def _fits(run: Run, servers: int) -> bool:
    """Return whether the data of so many servers fit into memory."""
    if run.evidence is None:
        return False
    size = run.evidence.level(Quantity.DATABASE_BYTES)
    memory = run.evidence.level(Quantity.MEMORY_BYTES)
    return size is not None and memory is not None and servers * size <= memory


def _total(runs: RunsOfBlock, quantity: Quantity) -> float | None:
    return sum_of([run.evidence.total(quantity) if run.evidence else None for run in runs])
