"""The clock of a generator that is paused between its turns.

Its log has the time of the wall. What counts is what ended in its turns, and a latency is what went
by while it ran: where generator and server stand still together, the pauses are known exactly.
Where the server goes on, nobody knows how long a transaction took that a pause fell into: the
answer may have come at any time in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from steelyard.model.turns import Stretch
from steelyard.model.units import US_PER_S

IntArray = npt.NDArray[np.int64]
Truths = npt.NDArray[np.bool_]
HALVES = 2  # of what counts of a stretch, told apart to see what one turn leaves to the next


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TurnClock:
    """The stretches of one generator as arrays, in microseconds since the epoch.

    Attributes:
        begins: Shape (n,), rising.
        ends: Shape (n,), each before the next begin.
        counted_from: Shape (n,), from when on what ends counts; the end where nothing does.
        counted_to: Shape (n,), until when.
        run_us: Shape (n,), what it had run before each stretch.
        alone: The generator stood still alone: the server went on in the pauses.
    """

    begins: IntArray
    ends: IntArray
    counted_from: IntArray
    counted_to: IntArray
    run_us: IntArray
    alone: bool = False

    @classmethod
    def of(cls, stretches: Sequence[Stretch], *, alone: bool = False) -> "TurnClock":
        """Return the clock of stretches in order, at least one."""
        begins = _us([each.began_at for each in stretches])
        ends = _us([each.ended_at for each in stretches])
        counted = [each.counted or (each.ended_at, each.ended_at) for each in stretches]
        return cls(
            begins=begins,
            ends=ends,
            counted_from=_us([first for first, _ in counted]),
            counted_to=_us([last for _, last in counted]),
            run_us=np.concatenate(([0], np.cumsum(ends - begins)[:-1])),
            alone=alone,
        )

    def placed(self, ended_us: IntArray, took_us: IntArray) -> tuple[IntArray, IntArray, Truths]:
        """Return latencies without pauses, places, and whether they count, each of shape (n,).

        A place is twice the number of the stretch, and one more in the second half of what counts
        of it. What ended in a pause belongs to the stretch before it and does not count.

        Args:
            ended_us: Shape (n,), when transactions ended, since the epoch.
            took_us: Shape (n,), from their begin to their end, by the clock of the wall.
        """
        stretch = self._stretch(ended_us)
        first, last = self.counted_from[stretch], self.counted_to[stretch]
        inside = (ended_us >= first) & (ended_us < last)
        middle = (first + last) // 2
        ran_us = self._ran_us(ended_us) - self._ran_us(ended_us - took_us)
        return ran_us, HALVES * stretch + (ended_us >= middle), inside

    def cut(self, ended_us: IntArray, took_us: IntArray) -> Truths:
        """Return whether a pause fell into transactions whose latency nobody knows then.

        Args:
            ended_us: Shape (n,), as for ``placed``.
            took_us: Likewise.

        Returns:
            Shape (n,), only false where the server stood still, too.
        """
        if not self.alone:
            return np.zeros(len(ended_us), dtype=np.bool_)
        return np.asarray(ended_us - took_us < self.begins[self._stretch(ended_us)])

    def _stretch(self, at_us: IntArray) -> IntArray:
        """Return the last stretch that began before, the first for what came before it."""
        found = np.searchsorted(self.begins, at_us, side="right") - 1
        return np.asarray(np.maximum(found, 0), dtype=np.int64)

    def _ran_us(self, at_us: IntArray) -> IntArray:
        """Return how long the generator had run by then."""
        stretch = self._stretch(at_us)
        within = np.minimum(at_us, self.ends[stretch]) - self.begins[stretch]
        return np.asarray(self.run_us[stretch] + within, dtype=np.int64)


def _us(seconds: Sequence[float]) -> IntArray:
    return np.rint(np.asarray(seconds, dtype=np.float64) * US_PER_S).astype(np.int64)
