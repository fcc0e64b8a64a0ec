"""What a probe is, and what those of a run saw together."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from steelyard.core import measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one probe saw in one run; the parts together are the run's evidence.

    Attributes:
        server_cpu_s: What answering the probe cost the server; None where it is not visible.
    """

    totals: Mapping[str, float] = field(default_factory=dict)
    levels: Mapping[str, float] = field(default_factory=dict)
    waits: measurement.Waits | None = None
    series: tuple[measurement.Series, ...] = ()
    others: tuple[measurement.OtherProcess, ...] = ()
    absent: tuple[measurement.Absence, ...] = ()
    server_cpu_s: float | None = None
    statements: tuple[measurement.StatementUse, ...] | None = None


class Probe(ABC):
    """Watches one kind of thing during one run.

    All of its methods but ``abandon`` are called in one thread of its own, so that it may keep a
    connection. Whatever one of them raises makes the probe absent, with the error as the reason;
    it is abandoned then.

    Attributes:
        subject: What it watches, as an absence calls it.
        interval_s: Between two samples of a run in one piece; None: it takes none in any run.
    """

    subject: str
    interval_s: float | None = None

    @abstractmethod
    def begin(self) -> None:
        """Take the first reading, while the server is still idle."""

    def sample(self, at_s: float) -> None:  # noqa: B027 - not every probe samples
        """Take a sample, ``at_s`` seconds after the run's start, without its pauses."""

    def forget(self, at_s: float) -> None:  # noqa: B027
        """Forget the sample that began then: what was sampled stood still in the midst of it."""

    @abstractmethod
    def finish(self, at_s: float, *, lost: int) -> Part:
        """Take the last reading after the generator's end, and return everything.

        Args:
            at_s: How long the run was, without its pauses.
            lost: Samples that were due and are not kept, because something took too long.
        """

    def abandon(self) -> None:  # noqa: B027
        """Give up what a call may be waiting for, in any thread; a second time changes nothing."""


def evidence_of(parts: Sequence[Part], seconds: float, *, own_cpu_s: float) -> measurement.Evidence:
    """Return what several probes saw in so many seconds of a run, at that cost here."""
    return measurement.Evidence(
        seconds=round(seconds, 4),
        totals=_merged(part.totals for part in parts),
        levels=_merged(part.levels for part in parts),
        waits=next((part.waits for part in parts if part.waits is not None), None),
        series=tuple(series for part in parts for series in part.series),
        others=tuple(other for part in parts for other in part.others),
        absent=tuple(absence for part in parts for absence in part.absent),
        cost=measurement.ProbeCost(
            own_cpu_s=round(own_cpu_s, 4),
            server_cpu_s=_sum([part.server_cpu_s for part in parts]),
        ),
        statements=next((part.statements for part in parts if part.statements is not None), None),
    )


def _merged(mappings: Iterable[Mapping[str, float]]) -> dict[str, float]:
    return {name: value for mapping in mappings for name, value in mapping.items()}


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known), 4) if known else None
