"""What an engine reads of a running server, and measures of what it can do at most."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from steelyard.model.command import Command, ServerAddress
from steelyard.model.environment import EffectiveSetting
from steelyard.model.evidence import Absence, WaitClass


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """How many of the generator's sessions wait for one event at one moment.

    Attributes:
        kind: As the server calls the kind of wait; ``CPU`` when it names none.
        name: The event; empty for CPU.
        group: What it counts as.
    """

    kind: str
    name: str
    group: WaitClass
    sessions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedAt:
    """What a server had done at a moment.

    Attributes:
        at_s: By the server's own clock, since the epoch.
        transactions: Of the workload, since an arbitrary start.
    """

    at_s: float
    transactions: int


class TurnCounter(Protocol):
    """A session of its own that counts what a server does of one workload, while it runs."""

    def read(self) -> CountedAt:
        """Return what it has done so far, without what was done for the reading.

        Raises:
            MeasurementError: The server does not tell it.
            TargetError: It is gone.
        """
        ...

    def close(self) -> None:
        """End the session; the server may stand still."""
        ...


class ServerReader(Protocol):
    """A session of its own that reads what a server says of itself, around one run.

    Every method but ``close`` is called from one thread. Errors are TargetError.
    """

    @property
    def source(self) -> str:
        """Return where ``waits`` come from, in words: ``pg_stat_activity``."""
        ...

    @property
    def pid(self) -> int | None:
        """Return the process of the session on the server; None where it has none of its own."""
        ...

    @property
    def serving_pid(self) -> int | None:
        """Return the process whose first thread serves all sessions; None where none does."""
        ...

    @property
    def answering_s(self) -> float | None:
        """Return the server's CPU time that went into answers so far, where it counts that."""
        ...

    @property
    def absent(self) -> tuple[Absence, ...]:
        """Return what this version or this role does not show."""
        ...

    def skip(self, seconds: float) -> None:
        """Take note that for so long nothing went on: what is summed over time leaves it out."""
        ...

    def waits(self) -> Sequence[Waiting]:
        """Return what the generator's sessions do now; also those that wait for their client."""
        ...

    def counters(self) -> Mapping[str, float]:
        """Return all counters there are, since an arbitrary start, by ``Quantity``."""
        ...

    def settled_counters(self) -> Mapping[str, float]:
        """Return the same when the generator's sessions are gone and have reported all they did."""
        ...

    def levels(self) -> Mapping[str, float]:
        """Return readings that are no counters, by ``Quantity``."""
        ...

    def close(self) -> None:
        """End the session; also from another thread, while a statement hangs."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRate:
    """How often one method of forcing a page out gets through.

    Attributes:
        method: As the server's setting spells it.
        per_s: None where the method does not exist or the device refuses it.
    """

    method: str
    per_s: float | None


class CeilingTools(Protocol):
    """What an engine brings to measure what its server can do at most."""

    def round_trips(self, address: ServerAddress, *, most: int, most_s: float) -> tuple[float, ...]:
        """Return the seconds of each round trip of an empty statement on one connection."""
        ...

    def sync_command(self, file: Path) -> Command:
        """Return the command that tries every method on a new file; PreflightError if absent."""
        ...

    def sync_rates(self, text: str) -> tuple[SyncRate, ...] | None:
        """Return what the command printed so far; None before the last method."""
        ...

    def sync_method(self, effective: Sequence[EffectiveSetting]) -> str | None:
        """Return the method that commits wait for; None where they wait for none."""
        ...
