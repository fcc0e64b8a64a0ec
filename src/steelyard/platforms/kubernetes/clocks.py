"""How far a pod's clock is from ours, by round trips.

Cristian's method: the pod read its clock somewhere between our question and its answer, so the
offset is known to half of the time between; the shortest round trip says it best.

Source: F. Cristian, "Probabilistic clock synchronization", Distributed Computing 3 (1989).
"""

from dataclasses import dataclass
from typing import Final

_KEPT_S: Final = 600.0  # quartz drifts by some ten millionths: 10 ms in that time
_MOST: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """How much later it is on a pod's clock than on ours.

    Attributes:
        seconds: Best guess.
        half_width_s: The truth is no farther from it, however the network delays.
    """

    seconds: float
    half_width_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trip:
    asked_at: float
    theirs: float
    answered_at: float

    @property
    def seconds(self) -> float:
        return self.answered_at - self.asked_at


class PodClock:
    """What is known of one pod's clock."""

    def __init__(self) -> None:
        self._trips: list[_Trip] = []

    def note(self, asked_at: float, theirs: float, answered_at: float) -> None:
        """Take a round trip: our wall clock before, the pod's between, ours after."""
        if answered_at < asked_at:  # our clock was set back meanwhile
            self._trips.clear()
            return
        self._trips.append(_Trip(asked_at=asked_at, theirs=theirs, answered_at=answered_at))
        self._trips = [each for each in self._trips if answered_at - each.asked_at < _KEPT_S]
        self._trips = self._trips[-_MOST:]

    @property
    def offset(self) -> Offset | None:
        """Return how far it is; None where it was never asked."""
        if not self._trips:
            return None
        best = min(self._trips, key=lambda trip: trip.seconds)
        return Offset(
            seconds=best.theirs - (best.asked_at + best.answered_at) / 2,
            half_width_s=best.seconds / 2,
        )

    @property
    def slowest_s(self) -> float:
        """Return the longest of the last round trips; 0.0 where there is none."""
        return max((trip.seconds for trip in self._trips[-5:]), default=0.0)
