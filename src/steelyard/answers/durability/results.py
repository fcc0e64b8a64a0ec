"""What an analysis says of durability: failures, what they take, and what writes take."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from steelyard.core.quantities import INLINE, OPTIONAL, By, Named
from steelyard.core.schedule import CellKey, ConfigurationName


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
        most_writes: So many writes at most; None where there is no such bound.
        writes: So many at the rate that was measured, and at least what ``most_writes`` says.
    """

    loss: Loss
    fate: Annotated[Fate, Named("what"), "Possible loss of acknowledged writes."]
    reason: Annotated[str, "Why."]
    source: Annotated[str, "Source; null if it follows from the set-up alone."] = ""
    seconds: Annotated[
        float | None,
        OPTIONAL,
        "Longest time from the acknowledgement of a lost write to the failure, s, if bounded.",
    ] = None
    known_as: Annotated[
        str, Named("words"), OPTIONAL, "The loss in words, if seconds alone do not say it."
    ] = ""
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
    """What a transaction takes under a workload that may write, with the fewest clients."""

    cell: Annotated[CellKey, INLINE]
    mean_s: Annotated[float | None, "Mean latency, s: median over runs."] = None
    per_s: Annotated[float | None, OPTIONAL, "Writes of a Redis per second: median over runs."] = (
        None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationDurability:
    """One configuration."""

    configuration: ConfigurationName
    survivals: Annotated[
        tuple[Survival, ...], Named("may_lose"), By("loss"), "Possible loss by kind of failure."
    ]
    latencies: Annotated[
        tuple[WriteLatency, ...], Named("write_latency"), "Each workload that may write."
    ]

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
    """The replica of one configuration in one cell whose load writes."""

    configuration: ConfigurationName
    cell: Annotated[CellKey, INLINE]
    runs: Annotated[int, "Runs with such a reading."]
    most_bytes: Annotated[float, "Bytes of the stream, the most at any moment of any run."]
    usual_bytes: Annotated[float, "Median over runs of the most bytes in each."]
    usual_s: Annotated[
        float, "Median over runs of the time in which the primary wrote the most bytes of each, s."
    ]
    compared: Annotated[
        bool,
        "Both servers answered at nearly one moment. False: the primary alone was, which knows of"
        " its replica once a second: a second of the stream is in it.",
    ]
