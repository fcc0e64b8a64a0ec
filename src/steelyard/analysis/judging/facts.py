"""What the rules of a campaign look at: its runs by treatment and by side, and sums over them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from steelyard.analysis.contrasts import headline_contrasts
from steelyard.analysis.observations import Observations
from steelyard.model.campaign import CampaignRecord
from steelyard.model.ceilings import Ceiling
from steelyard.model.environment import ServerEnvironment
from steelyard.model.evidence import Quantity
from steelyard.model.experiment import Experiment, Treatment
from steelyard.model.measurement import Run

Runs = Sequence[Run]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The two sides of a headline: two treatments, or the two levels of a factor.

    Attributes:
        name: Of the side that is compared.
        other: Of the one that it is compared with.
    """

    name: str
    other: str
    mine: Runs
    theirs: Runs


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignFacts:
    """A record, and its runs that count."""

    record: CampaignRecord
    seen: Observations

    @property
    def experiment(self) -> Experiment:
        """Return what was asked for."""
        return self.record.experiment

    @property
    def treatments(self) -> tuple[Treatment, ...]:
        """Return the treatments in file order."""
        return self.experiment.treatments

    @property
    def ceilings(self) -> tuple[Ceiling, ...]:
        """Return what was measured before the first block."""
        return () if self.record.environment is None else self.record.environment.ceilings

    @property
    def watched(self) -> bool:
        """Return whether anything was seen around any run."""
        return any(run.evidence is not None for run in self.runs)

    @property
    def runs(self) -> tuple[Run, ...]:
        """Return all runs that count, treatment by treatment."""
        return tuple(run for name in self.seen.treatments for run in self.runs_of(name))

    def runs_of(self, treatment: str) -> tuple[Run, ...]:
        """Return the runs of a treatment that count, cell by cell."""
        return tuple(
            run for (name, _), runs in self.seen.runs.items() if name == treatment for run in runs
        )

    def sides(self) -> Iterator[Sides]:
        """Yield the two sides of every headline, where both have runs."""
        names = self.seen.treatments
        for asked in headline_contrasts(self.experiment):
            mine, theirs = (
                tuple(run for place in places for run in self.runs_of(names[place]))
                for places in (asked.positive, asked.negative)
            )
            if mine and theirs:
                yield Sides(name=asked.treatment, other=asked.baseline, mine=mine, theirs=theirs)

    def server(self, treatment: str) -> ServerEnvironment | None:
        """Return a treatment's server as it was found running, or None."""
        servers = self.record.environment.servers if self.record.environment is not None else ()
        return next((server for server in servers if server.treatment == treatment), None)

    def in_force(self, treatment: str) -> Mapping[str, str]:
        """Return the settings of its server by name; empty when it was never seen."""
        server = self.server(treatment)
        return {} if server is None else {s.name: s.value for s in server.settings}


def total(runs: Runs, quantity: Quantity) -> float | None:
    """Return a sum over the runs in which it was measured, or None."""
    known = [value for value in _values(runs, quantity) if value is not None]
    return sum(known) if known else None


def totals(runs: Runs, *quantities: Quantity) -> tuple[float, ...] | None:
    """Return several sums over the runs in which all of them were measured, or None."""
    rows = [
        values
        for run in runs
        if run.evidence is not None
        and None not in (values := [run.evidence.total(each) for each in quantities])
    ]
    if not rows:
        return None
    return tuple(sum(value or 0.0 for value in column) for column in zip(*rows, strict=True))


def ratio(runs: Runs, part: Quantity, whole: Quantity) -> float | None:
    """Return a sum over another, of the runs in which both were measured; None without a whole."""
    found = totals(runs, part, whole)
    return None if found is None or found[1] <= 0 else found[0] / found[1]


def rate(runs: Runs, quantity: Quantity) -> float | None:
    """Return a total per second of the runs in which it was measured, or None."""
    known = [run for run in runs if run.evidence and run.evidence.total(quantity) is not None]
    seconds = sum(run.evidence.seconds for run in known if run.evidence is not None)
    summed = total(known, quantity)
    return summed / seconds if summed is not None and seconds > 0 else None


def levels(runs: Runs, quantity: Quantity) -> list[float]:
    """Return the readings at the ends of runs, where there are any."""
    found = [run.evidence.level(quantity) for run in runs if run.evidence is not None]
    return [value for value in found if value is not None]


def _values(runs: Runs, quantity: Quantity) -> list[float | None]:
    return [run.evidence.total(quantity) for run in runs if run.evidence is not None]
