"""What an analysis says of durability: failures, what they take, and what writes take."""

from dataclasses import dataclass
from enum import StrEnum

from steelyard.model.schedule import CellKey


class Loss(StrEnum):
    """What fails."""

    SERVER = "server killed"
    POWER = "power lost"
    NODE = "node lost"
    DISK = "disk lost"
    SITE = "site lost"


class Fate(StrEnum):
    """What then becomes of what was acknowledged."""

    KEPT = "nothing"
    LAST = "last commits"
    ALL = "everything"
    UNKNOWN = "not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class Survival:
    """What becomes of an acknowledged commit under one failure.

    Attributes:
        fate: What may be lost of what was acknowledged.
        source: Empty where nothing but the set-up says so.
        seconds: What is lost was acknowledged so long before the failure at most; None where
            nothing is lost or there is no such bound.
        known_as: What is lost, in words, where seconds alone do not say it; else empty.
    """

    loss: Loss
    fate: Fate
    reason: str
    source: str
    seconds: float | None = None
    known_as: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteLatency:
    """What a transaction takes under a workload that may write, with the fewest clients.

    Attributes:
        mean_s: Median over the runs of their mean latency; None where it was not measured.
        per_s: Median of their throughput; None likewise.
    """

    cell: CellKey
    mean_s: float | None = None
    per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TreatmentDurability:
    """One treatment.

    Attributes:
        survivals: One for each failure, in their order.
        latencies: One for each workload that may write.
    """

    treatment: str
    survivals: tuple[Survival, ...]
    latencies: tuple[WriteLatency, ...]

    def fate(self, loss: Loss) -> Fate:
        """Return what becomes of acknowledged commits under one failure."""
        return next(each.fate for each in self.survivals if each.loss is loss)
