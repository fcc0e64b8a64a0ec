"""What the rules of a campaign look at: runs by configuration and side, sums, events, and promises.

Events are work of the server that falls into some runs, so that one side of a comparison may have
had more of it. Promises are what the settings in force say of the two sides' durability.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Final, TypeVar

from steelyard.answers.observations import Observations, ResultContrast, result_contrasts
from steelyard.answers.results import Comparison
from steelyard.core.campaign import CampaignRecord
from steelyard.core.experiment import Configuration, Experiment
from steelyard.core.findings import Ruling, broken, lacking
from steelyard.core.measurement import Evidence, Quantity, Run, ServerEnvironment
from steelyard.core.schedule import Ceiling
from steelyard.report.document import count
from steelyard.stats.drift import stalls_p_value

Runs = Sequence[Run]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The two sides of a result: two configurations, or the two levels of a factor.

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
    """A record, its runs that count, and what its results are."""

    record: CampaignRecord
    seen: Observations
    results: tuple[Comparison, ...] = ()

    @property
    def experiment(self) -> Experiment:
        """Return what was asked for."""
        return self.record.experiment

    @property
    def configurations(self) -> tuple[Configuration, ...]:
        """Return the configurations in file order."""
        return self.experiment.configurations

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
        """Return all runs that count, configuration by configuration."""
        return tuple(run for name in self.seen.configurations for run in self.runs_of(name))

    def runs_of(self, configuration: str) -> tuple[Run, ...]:
        """Return the runs of a configuration that count, cell by cell."""
        return tuple(self.seen.runs_of(configuration))

    def sides(self) -> Iterator[Sides]:
        """Yield the two sides of every result, where both have runs."""
        names = self.seen.configurations
        for asked in result_contrasts(self.experiment):
            mine, theirs = (
                tuple(run for place in places for run in self.runs_of(names[place]))
                for places in (asked.positive, asked.negative)
            )
            if mine and theirs:
                yield Sides(
                    name=asked.configuration, other=asked.baseline, mine=mine, theirs=theirs
                )

    def server(self, configuration: str) -> ServerEnvironment | None:
        """Return a configuration's server as it was found running, or None."""
        servers = self.record.environment.servers if self.record.environment is not None else ()
        return next((server for server in servers if server.configuration == configuration), None)

    def in_force(self, configuration: str) -> Mapping[str, str]:
        """Return the settings of its server by name; empty when it was never seen."""
        server = self.server(configuration)
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
    if summed is None or not isfinite(summed) or seconds <= 0:
        return None
    return summed / seconds


def levels(runs: Runs, quantity: Quantity) -> list[float]:
    """Return the readings at the ends of runs, where there are any."""
    found = [run.evidence.level(quantity) for run in runs if run.evidence is not None]
    return [value for value in found if value is not None and isfinite(value)]


def _values(runs: Runs, quantity: Quantity) -> list[float | None]:
    return [run.evidence.total(quantity) for run in runs if run.evidence is not None]


EVENT_LEVEL: Final = 0.05


def events_differ(
    facts: CampaignFacts, what: str, happened: Callable[[Evidence], bool | None], needed: str
) -> Iterator[Ruling]:
    """Compare how many runs of the sides held an event.

    Args:
        facts: Of the campaign.
        what: The event, as the subject of a sentence.
        happened: Whether it did in a run; None where nobody counted it.
        needed: What has to be counted for that.
    """
    every = tuple(facts.sides())
    for sides in every:
        (mine, my_runs), (theirs, their_runs) = (
            _with_event(runs, happened) for runs in (sides.mine, sides.theirs)
        )
        if not my_runs or not their_runs:
            yield lacking(needed)
            continue
        p_value = stalls_p_value((mine, theirs), (my_runs, their_runs))
        if p_value < EVENT_LEVEL / len(every):
            yield broken(
                f"{sides.name}: {what} fell into {mine} of {count(my_runs, 'run')}, under"
                f" {sides.other} into {theirs} of {their_runs} (p = {p_value:.2g}, too small"
                " where runs of one start share an event: they count as independent)",
                subject=sides.name,
            )


def _with_event(runs: Runs, happened: Callable[[Evidence], bool | None]) -> tuple[int, int]:
    """Return in how many runs it happened, and in how many it was counted."""
    seen = [happened(run.evidence) for run in runs if run.evidence is not None]
    known = [each for each in seen if each is not None]
    return sum(known), len(known)


_Promise = TypeVar("_Promise")


def weighed(
    facts: CampaignFacts,
    asked: ResultContrast,
    promised: Callable[[str], _Promise | None],
    traded: Callable[[tuple[str, _Promise], tuple[str, _Promise]], Iterable[Ruling]],
    needed: str,
) -> Iterator[Ruling]:
    """Rule on one comparison by what the servers of its sides promise.

    Args:
        facts: Of the campaign.
        asked: The comparison.
        promised: Of a configuration, by its name; None where what decides it is not known.
        traded: Takes the names of the two sides, the configuration's first, and their promises;
            may rule on them.
        needed: What has to be known for that.
    """
    names = facts.seen.configurations
    told = [
        [promised(names[place]) for place in places] for places in (asked.positive, asked.negative)
    ]
    mine, theirs = ({each for each in side if each is not None} for side in told)
    if any(None in side for side in told):
        yield lacking(needed)
    elif len(mine) == len(theirs) == 1:  # else another factor decides it, on both sides alike
        yield from traded((asked.configuration, mine.pop()), (asked.baseline, theirs.pop()))
