"""Counts by second, script and bucket, sparse: what a log is while it is being read.

A cell is a whole number that stands for a second, whether it lies after the ramp, a script and a
bucket. A run has few of them however many transactions it has, and they add up exactly.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from steelyard.engines.postgres.log_lines import Lines
from steelyard.stats.histogram import Histogram, bucket_indices, histogram_of

IntArray = npt.NDArray[np.int64]

BUCKETS = len(histogram_of([]).counts)
_TABLE_SIZE = 1 << 17  # 131 ms; 256 KiB stay in a CPU's own cache
_DENSE = 4  # counters to a value, beyond which sorting is cheaper than counting
_table: list[npt.NDArray[np.int16]] = []


def buckets_of(values: IntArray) -> IntArray:
    """Return the bucket of each value, as ``stats.histogram`` has them."""
    if not _table:
        _table.append(bucket_indices(np.arange(_TABLE_SIZE)).astype(np.int16))
    places = _table[0].take(values, mode="clip").astype(np.int64)
    large = np.flatnonzero(values >= _TABLE_SIZE)
    if len(large):
        places[large] = bucket_indices(values[large])
    return places


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cells:
    """How many transactions fell into each cell.

    Attributes:
        keys: Shape (n,), rising.
        counts: Shape (n,), above 0.
    """

    keys: IntArray
    counts: IntArray


NO_CELLS = Cells(keys=np.zeros(0, np.int64), counts=np.zeros(0, np.int64))


def counted(keys: IntArray) -> Cells:
    """Return the cells of transactions, shape (n,)."""
    if not len(keys):
        return NO_CELLS
    least = int(keys.min())
    width = int(keys.max()) - least + 1
    if width > _DENSE * len(keys) + BUCKETS:
        found, counts = np.unique(keys, return_counts=True)
        return Cells(keys=found, counts=counts.astype(np.int64))
    dense = np.bincount(keys - least)
    places = np.flatnonzero(dense)
    return Cells(keys=places + least, counts=dense[places])


def summed(parts: list[Cells]) -> Cells:
    """Return the sum of cells, exactly and in any order."""
    if len(parts) == 1:
        return parts[0]
    keys = np.concatenate([part.keys for part in (NO_CELLS, *parts)])
    counts = np.concatenate([part.counts for part in (NO_CELLS, *parts)])
    if not len(keys):
        return NO_CELLS
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    firsts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return Cells(keys=ordered[firsts], counts=np.add.reduceat(counts[order], firsts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """The transactions of one script in one second, on one side of the ramp's end."""

    second: int
    ramped: bool
    script: int
    histogram: Histogram


def keys_of(lines: Lines, buckets: IntArray, scripts: int) -> IntArray:
    """Return the cell of each transaction, where there are so many scripts."""
    keys = lines.second * 2
    keys += 1 if lines.ramped is None else lines.ramped
    keys *= scripts
    keys += lines.script
    keys *= BUCKETS
    keys += buckets
    return keys


def slots(cells: Cells, scripts: int) -> Iterator[Slot]:
    """Yield the histograms by second, side of the ramp's end and script, in this order."""
    owners, buckets = np.divmod(cells.keys, BUCKETS)
    firsts = np.flatnonzero(np.diff(owners, prepend=owners[:1] - 1))
    for first, last in zip(firsts, np.append(firsts, len(owners))[1:], strict=True):
        place, script = divmod(int(owners[first]), scripts)
        counts = np.zeros(BUCKETS, np.int64)
        counts[buckets[first:last]] = cells.counts[first:last]
        second, ramped = divmod(place, 2)
        yield Slot(
            second=second,
            ramped=bool(ramped),
            script=script,
            histogram=Histogram(counts=counts),
        )
