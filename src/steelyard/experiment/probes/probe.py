"""What a probe is, and what it brings home."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from steelyard.model.evidence import Absence, OtherProcess, Series, Waits


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one probe saw in one run; the parts together are the run's evidence.

    Attributes:
        server_cpu_s: What answering the probe cost the server; None where it is not visible.
    """

    totals: Mapping[str, float] = field(default_factory=dict)
    levels: Mapping[str, float] = field(default_factory=dict)
    waits: Waits | None = None
    series: tuple[Series, ...] = ()
    others: tuple[OtherProcess, ...] = ()
    absent: tuple[Absence, ...] = ()
    server_cpu_s: float | None = None


class Probe(Protocol):
    """Watches one kind of thing during one run.

    All of its methods but ``abandon`` are called in one thread of its own, so that it may keep a
    connection. Whatever one of them raises makes the probe absent, with the error as the reason.
    """

    @property
    def subject(self) -> str:
        """Return what it watches, as an absence calls it."""
        ...

    @property
    def interval_s(self) -> float:
        """Return the time between two samples."""
        ...

    def begin(self) -> None:
        """Take the first reading, while the server is still idle."""
        ...

    def sample(self, at_s: float) -> None:
        """Take a sample, ``at_s`` seconds after the run's start."""
        ...

    def finish(self, at_s: float, *, lost: int) -> Part:
        """Take the last reading after the generator's end, and return everything.

        Args:
            at_s: Seconds since the run's start.
            lost: Samples that were due and not taken, because others took too long.
        """
        ...

    def abandon(self) -> None:
        """Give up what a call may be waiting for; called from another thread."""
        ...
