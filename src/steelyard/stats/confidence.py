"""What an estimator returns: a centre, two bounds, and the confidence they really have."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An estimate between two bounds, all in the unit of the values it came from.

    Attributes:
        estimate: The centre.
        low: Lower bound; minus infinity where no bound reaches the level.
        high: Upper bound; plus infinity likewise.
        confidence: Achieved by the bounds, between 0 and 1: at least one minus the level asked.
    """

    estimate: float
    low: float
    high: float
    confidence: float

    @property
    def bounded(self) -> bool:
        """Return whether both bounds are finite."""
        return bool(np.isfinite(self.low) and np.isfinite(self.high))
