"""What an analysis says of durability: failures, what they take, and what writes take."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from steelyard.core.quantities import Named
from steelyard.core.schedule import CellKey


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


BY_WEIGHT: Final = (Fate.KEPT, Fate.LAST, Fate.UNKNOWN, Fate.ALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survival:
    """What becomes of an acknowledged commit under one failure.

    Attributes:
        fate: What may be lost of what was acknowledged.
        source: Empty where nothing but the set-up says so.
        seconds: What is lost was acknowledged so long before the failure at most; None where
            nothing is lost or there is no such bound.
        known_as: What is lost, in words, where seconds alone do not say it; else empty.
        most_writes: So many writes at most; None where there is no such bound.
        writes: So many at the rate that was measured, and at least what ``most_writes`` says.
    """

    loss: Loss
    fate: Fate
    reason: str
    source: str
    seconds: float | None = None
    known_as: str = ""
    most_writes: int | None = None
    writes: float | None = None

    @property
    def rank(self) -> tuple[int, float, float, bool]:
        """Return what orders known fates, the least loss first."""
        seconds = math.inf if self.seconds is None else self.seconds
        writes = math.inf if self.most_writes is None else float(self.most_writes)
        return BY_WEIGHT.index(self.fate), seconds, writes, bool(self.known_as)


@dataclass(frozen=True, slots=True, kw_only=True)
class DurabilityTrade:
    """What one side of a comparison may lose and the other keeps, or loses less of.

    Attributes:
        what: ``committed transactions``.
        when: ``after a crash``.
        because: Or what else of the set-up, in words.
    """

    weaker: Annotated[str, Named("less_durable"), "Configuration that may lose it."]
    stronger: Annotated[str, Named("more_durable"), "Configuration that keeps it."]
    what: Annotated[str, Named("may_lose"), "Possible loss."]
    when: Annotated[str, "Kind of failure."]
    because: Annotated[str, "The setting or place behind it."]
    instead: Annotated[
        str, Named("the_other_may_lose"), "Possible loss of the other side in that case, or null."
    ] = ""


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
class ConfigurationDurability:
    """One configuration.

    Attributes:
        survivals: One for each failure, in their order.
        latencies: One for each workload that may write.
    """

    configuration: str
    survivals: tuple[Survival, ...]
    latencies: tuple[WriteLatency, ...]

    def fate(self, loss: Loss) -> Fate:
        """Return what becomes of acknowledged commits under one failure."""
        return next(each.fate for each in self.survivals if each.loss is loss)

    @property
    def lost_in_a_power_cut(self) -> str:
        """Return in a few words what of the acknowledged may be lost then."""
        cut = next(each for each in self.survivals if each.loss is Loss.POWER)
        if cut.writes is not None:
            noun = "write" if cut.writes == 1 else "writes"
            return f"\N{GREATER-THAN OR EQUAL TO} {cut.writes:,.0f} {noun}"
        if cut.seconds is not None and cut.known_as:  # and what comes during two saves
            return f"\N{GREATER-THAN OR EQUAL TO} {cut.seconds:g} s of writes"
        if cut.seconds is not None:
            return f"last {cut.seconds:g} s"
        return "the last ones" if cut.fate is Fate.LAST else cut.fate.value


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLag:
    """The replica of one configuration in one cell whose load writes.

    Attributes:
        runs: In which it was seen.
        most_bytes: Of the stream, the most at any moment of any run.
        usual_bytes: Median over runs of the most in each.
        usual_s: Median over runs of what the primary took to write the most of each, at the rate of
            that run.
        compared: Both servers were asked at nearly one moment; else the primary alone was, which
            knows of its replica once a second: a second of the stream is in it.
    """

    configuration: str
    cell: CellKey
    runs: int
    most_bytes: float
    usual_bytes: float
    usual_s: float
    compared: bool
