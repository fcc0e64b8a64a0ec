"""Latencies as counts that add up exactly: a log-linear histogram (METHOD 8).

Percentiles must never be averaged. Counts may be added in any order, and the percentiles of the
sum are those of all values together, within the width of a bucket.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from steelyard.core.wording import RecordError

IntArray = npt.NDArray[np.int64]

SUB_BUCKET_BITS = 7  # 128 sub-buckets to an octave: no value is off by more than 0.4 %
LARGEST = 2**53  # beyond it a float does not tell neighbouring integers apart
_OCTAVES = 54
_SUB_BUCKETS = 1 << SUB_BUCKET_BITS
# No bucket of a run holds more than twelve digits can say, so that no sum overflows.
_TEXT = re.compile(r"(?:[0-9]{1,4}(?::[0-9]{1,12})?(?: (?=[0-9])|$))*")
_SHOWN = 40  # characters of a text that is damaged
_TAIL = 10.0  # values beyond a quantile that make it worth stating


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Histogram:
    """Counts of whole numbers, for latencies in microseconds.

    Attributes:
        counts: Shape (buckets,), how many values fell into each bucket; the same buckets always.
    """

    counts: IntArray

    @property
    def total(self) -> int:
        """Return how many values were counted."""
        return int(self.counts.sum())

    def mean(self) -> float | None:
        """Return the mean, in the unit of the values and within 0.4 %; None of no value."""
        if not self.total:
            return None
        return float(self.counts @ bucket_values(np.arange(len(self.counts))) / self.total)

    def deviation(self) -> float | None:
        """Return the standard deviation over all values (divided by their number); None of none."""
        mean = self.mean()
        if mean is None:
            return None
        squares = (bucket_values(np.arange(len(self.counts))) - mean) ** 2
        return float(np.sqrt(self.counts @ squares / self.total))

    def tells(self, share: float) -> bool:
        """Return whether there are enough values for a quantile, see ``values_needed``."""
        return self.total >= values_needed(share)

    def quantile(self, share: float) -> float:
        """Return the value that this share of all values does not exceed.

        Args:
            share: Between 0 and 1; 0.99 for p99.

        Returns:
            Same unit as the values, within 0.4 % of the inverse of their distribution function.

        Raises:
            ValueError: Nothing was counted, or the share is not between 0 and 1.
        """
        if not self.total or not 0.0 <= share <= 1.0:
            raise ValueError(f"no quantile {share:g} of {self.total} values")
        return self.value_at(rank_of(share, self.total))

    def value_at(self, rank: int) -> float:
        """Return the value of this rank, the least being 1: exact where a share would be rounded.

        Returns:
            Same unit as the values, within 0.4 %.

        Raises:
            ValueError: There are fewer values, or the rank is below 1.
        """
        if not 1 <= rank <= self.total:
            raise ValueError(f"no value of rank {rank} among {self.total}")
        place = int(np.searchsorted(np.cumsum(self.counts), rank))
        return float(bucket_values(np.array([place]))[0])


def rank_of(share: float, total: int) -> int:
    """Return the rank of a quantile among so many values: the inverse distribution function."""
    return max(int(np.ceil(share * total)), 1)


def values_needed(share: float) -> int:
    """Return how many values a quantile takes: 10 / (1 - share), 1000 for p99.

    Source:
        METHOD 8.
    """
    return int(np.ceil(_TAIL / (1.0 - share) * (1.0 - 1e-9)))  # 1 - 0.99 is not 0.01


def histogram_of(values: npt.ArrayLike) -> Histogram:
    """Return the histogram of whole numbers.

    Args:
        values: Shape (n,), any n, at least 0 and below 2^53, microseconds for latencies; 0 is
            counted as 1, fractions are cut off.

    Raises:
        ValueError: A value is negative, not finite or too large.
    """
    taken = np.asarray(values, dtype=np.float64)
    if not bool(((taken >= 0.0) & (taken < LARGEST)).all()):
        raise ValueError("a histogram counts values from 0 to 2^53")
    counts = np.bincount(bucket_indices(taken.astype(np.int64)), minlength=_BUCKETS)
    return Histogram(counts=counts.astype(np.int64))


def merged(histograms: Iterable[Histogram]) -> Histogram:
    """Return all values of several histograms in one: exact, in any order; none is empty."""
    counts = np.zeros(_BUCKETS, np.int64)
    for histogram in histograms:
        counts += histogram.counts
    return Histogram(counts=counts)


def to_text(histogram: Histogram) -> str:
    """Return the counts as text: ``bucket:count`` where there are any, a count of 1 left out.

    Each bucket is written as its distance from the one before it, the first from 0.
    """
    places = np.flatnonzero(histogram.counts)
    steps = np.diff(places, prepend=0)
    counts = histogram.counts[places]
    return " ".join(
        f"{step}" if number == 1 else f"{step}:{number}"
        for step, number in zip(steps.tolist(), counts.tolist(), strict=True)
    )


def from_text(text: str) -> Histogram:
    """Return the histogram that ``to_text`` wrote.

    Raises:
        RecordError: It did not write this.
    """
    damaged = RecordError(
        f"`{text[:_SHOWN]}` is not a valid count of latencies",
        hint="Restore the journal from a copy.",
    )
    if not _TEXT.fullmatch(text):
        raise damaged
    pairs = [word.partition(":") for word in text.split()]
    places = np.cumsum([int(step) for step, _, _ in pairs], dtype=np.int64)
    numbers = np.array([int(number or 1) for _, _, number in pairs], dtype=np.int64)
    if (np.diff(places) <= 0).any() or (places >= _BUCKETS).any() or (numbers == 0).any():
        raise damaged
    counts = np.zeros(_BUCKETS, np.int64)
    np.add.at(counts, places, numbers)
    return Histogram(counts=counts)


def bucket_indices(values: IntArray) -> IntArray:
    """Return the bucket of each value: itself up to 255, then 128 to an octave."""
    positive = np.maximum(values, 1)
    octave = np.frexp(positive.astype(np.float64))[1].astype(np.int64) - 1
    shift = np.maximum(octave - SUB_BUCKET_BITS, 0)
    place = ((shift + 1) << SUB_BUCKET_BITS) + ((positive >> shift) - _SUB_BUCKETS)
    return np.asarray(np.where(octave <= SUB_BUCKET_BITS, positive, place), dtype=np.int64)


def bucket_bounds(indices: IntArray) -> tuple[IntArray, IntArray]:
    """Return the least and the largest whole number of each bucket."""
    shift = np.maximum((indices >> SUB_BUCKET_BITS) - 1, 0)
    above = ((indices & (_SUB_BUCKETS - 1)) + _SUB_BUCKETS) << shift
    least = np.where(indices < 2 * _SUB_BUCKETS, indices, above)
    return least, least + (np.int64(1) << shift) - 1


def bucket_values(indices: IntArray) -> npt.NDArray[np.float64]:
    """Return the middle of each bucket."""
    least, largest = bucket_bounds(indices)
    return np.asarray((least + largest) / 2.0, dtype=np.float64)


_BUCKETS = _OCTAVES << SUB_BUCKET_BITS
