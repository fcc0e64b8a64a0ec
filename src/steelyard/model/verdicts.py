"""Verdict words and estimates with their intervals."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What can be said of a treatment against the baseline (METHOD.md 3.6)."""

    FASTER = "faster"
    SLOWER = "slower"
    EQUIVALENT = "equivalent"
    NOT_DISTINGUISHABLE = "not distinguishable"

    @property
    def decided(self) -> bool:
        """Return whether the question is answered."""
        return self is not Verdict.NOT_DISTINGUISHABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A value with its interval, in the unit its owner states.

    Attributes:
        low: Lower bound, or None when there are too few blocks for one.
        high: Upper bound, or None likewise.
    """

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def leaves_out_zero(self) -> bool:
        """Return whether both bounds are known and on one side of zero."""
        if self.low is None or self.high is None:
            return False
        return self.low > 0.0 or self.high < 0.0
