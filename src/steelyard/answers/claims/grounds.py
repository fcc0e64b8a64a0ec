"""What all checks of published results rest on: notes, the noise floor, comparisons of cells."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum
from functools import lru_cache
from typing import Final, TypeVar

import numpy as np

from steelyard.answers.claims.statements import (
    Claim,
    Formula,
    LackingError,
    Noise,
    Publication,
    figure_of,
)
from steelyard.core.published import Printed, PublishedRow, Step
from steelyard.core.wording import InputError
from steelyard.report.document import enumeration
from steelyard.stats.intervals import Interval, block_interval, welch_interval

LEVEL: Final = 0.05
# Two runs of one system, each with the deviation between runs of a contended machine (6 %,
# METHOD 2), differ by less in 95 % of cases: 1.96 x 0.06 x sqrt(2), rounded up.
_UNTOLD_FLOOR: Final = 0.17


class Grade(StrEnum):
    """What a note makes of what it speaks of, gravest first."""

    CONTRADICTS = "does not follow"
    NO_EVIDENCE = "no evidence given"
    UNDECIDED = "cannot be told from noise"
    LIMIT = "follows, but"
    FOLLOWS = "follows"

    @property
    def accuses(self) -> bool:
        """Return whether somebody is told that something is wrong or cannot be said."""
        return self is not Grade.FOLLOWS


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What a check found.

    Attributes:
        check: Its id.
        text: The fact, with what was computed.
        claim: Which claim it speaks of; empty: of the tables themselves.
        lines: Where in the tables.
        numbers: What was computed, by name, in the unit that the name ends with.
    """

    check: str
    grade: Grade
    text: str
    claim: str = ""
    lines: tuple[str, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One rule of the examination.

    Attributes:
        id: Stable name.
        needs: What must be published for it.
        finds: When it says something, in one sentence.
        examine: Returns what it finds.
    """

    id: str
    needs: str
    finds: str
    examine: Callable[[Publication], Iterable[Note]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """How much single runs of equal conditions differ.

    Attributes:
        spread: The most over the least, minus 1.
        origin: What says so; empty: it is assumed.
    """

    spread: float
    origin: str = ""

    @property
    def words(self) -> str:
        """Return it with what says so."""
        if not self.origin:
            return f"{100 * self.spread:.0f} %, which is assumed where no study tells its own"
        return f"{100 * self.spread:.1f} % of a single run ({self.origin})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A claim, and what was published with it."""

    publication: Publication
    claim: Claim

    def rows(
        self, *, workload: str, clients: int | None = None, configuration: str = ""
    ) -> tuple[PublishedRow, ...]:
        """Return the rows of its study with one workload under one load."""
        return self.publication.rows_of(
            self.claim.article, workload=workload, clients=clients, configuration=configuration
        )

    def step(self, name: str) -> Step:
        """Return a step of its study."""
        return self.publication.step_of(self.claim.article, name)

    def formula(self, text: str) -> Formula:
        """Return a formula of its study's figures."""
        return Formula(publication=self.publication, article=self.claim.article, text=text)

    def value(self, formula: str) -> Printed:
        """Return what a formula gives."""
        return self.formula(formula).value()

    @property
    def floor(self) -> Floor:
        """Return the noise floor of single runs in its study."""
        return floor_of(self.publication, self.claim.article)

    def note(
        self, check: str, grade: Grade, text: str, numbers: dict[str, float] | None = None
    ) -> Note:
        """Return a note of it."""
        return Note(check=check, grade=grade, text=text, claim=self.claim.id, numbers=numbers or {})


_Asserted = TypeVar("_Asserted")
Judge = Callable[[Case, _Asserted], Iterable[Note]]


def asserted(kind: type[_Asserted], judge: Judge[_Asserted]) -> Callable[..., Iterator[Note]]:
    """Return a check over all assertions of one kind.

    What nobody published is no evidence, which the check says in place of its own.
    """

    def examine(publication: Publication) -> Iterator[Note]:
        for claim in publication.claims:
            for assertion in claim.asserts:
                if isinstance(assertion, kind):
                    yield from _judged(judge, Case(publication=publication, claim=claim), assertion)

    return examine


def _judged(judge: Judge[_Asserted], case: Case, assertion: _Asserted) -> Iterator[Note]:
    try:
        yield from list(judge(case, assertion))
    except LackingError as error:
        text = f"nothing was published to examine: {error.message}"
        yield case.note("no-evidence", Grade.NO_EVIDENCE, text)
    except InputError as error:
        text = f"it cannot be computed: {error.message}"
        yield case.note("no-evidence", Grade.NO_EVIDENCE, text)


def spread_of(values: Sequence[float]) -> float:
    """Return the most over the least, minus 1, of positive values; 0 for fewer than two."""
    positive = [value for value in values if value > 0.0]
    return max(positive) / min(positive) - 1.0 if len(positive) > 1 else 0.0


def apart(ratio: float) -> float:
    """Return by how much the larger is above the smaller, whichever it is."""
    return max(ratio, 1.0 / ratio) - 1.0 if ratio > 0.0 else float("inf")


def floor_of(publication: Publication, article: str) -> Floor:
    """Return the noise floor of single runs in a study; an assumed one where nothing says it.

    It is the largest spread among conditions that should be equal, and among those whose
    differences the authors themselves call noise.
    """
    return _floor(publication, publication.study_of(article))


@lru_cache(maxsize=64)
def _floor(publication: Publication, study: str) -> Floor:
    found = [*_called_noise(publication, study), *_should_be_equal(publication, study)]
    return max(found, key=lambda each: each.spread, default=Floor(spread=_UNTOLD_FLOOR))


def _called_noise(publication: Publication, study: str) -> Iterator[Floor]:
    for claim in publication.claims:
        for each in claim.asserts:
            if isinstance(each, Noise) and publication.study_of(claim.article) == study:
                try:
                    spread = spread_of(noise_levels(publication, claim.article, each))
                except LackingError:
                    continue
                yield Floor(spread=spread, origin=f"what {claim.id} calls noise")


def noise_levels(publication: Publication, article: str, each: Noise) -> tuple[float, ...]:
    """Return the figures whose differences are called noise.

    Raises:
        LackingError: One was not published.
    """
    return tuple(
        figure_of(
            publication.rows_of(article, workload=each.workload, configuration=name), each.metric
        ).value
        for name in each.among
    )


def _should_be_equal(publication: Publication, study: str) -> Iterator[Floor]:
    for cell in cells_of(publication.rows):
        if publication.study_of(cell.study) != study:
            continue
        for group, rows in grouped(cell.rows, lambda row: row.equal_group).items():
            alone = all(len(runs) == 1 for runs in by_configuration(rows).values())
            if group and alone:
                spread = spread_of(rates_of(rows))
                yield Floor(spread=spread, origin=f"`{group}`, which should be equal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """All rows of one workload under one load in one study: what may be compared."""

    study: str
    workload: str
    clients: int | None
    rows: tuple[PublishedRow, ...]

    @property
    def title(self) -> str:
        """Return it in words."""
        load = "" if self.clients is None else f" with {self.clients} clients"
        return f"{self.workload or 'the workload'}{load}"


_Key = TypeVar("_Key")


def grouped(
    rows: Iterable[PublishedRow], key: Callable[[PublishedRow], _Key]
) -> dict[_Key, tuple[PublishedRow, ...]]:
    """Return rows by a key, in the order of the table."""
    found: dict[_Key, list[PublishedRow]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return {name: tuple(each) for name, each in found.items()}


def cells_of(rows: Sequence[PublishedRow]) -> tuple[Cell, ...]:
    """Return the cells in the order of the table: of those rows that tell a rate."""
    with_rate = (row for row in rows if rate_of(row))
    keyed = grouped(with_rate, lambda row: (row.study, row.workload, row.clients))
    return tuple(
        Cell(study=study, workload=workload, clients=clients, rows=found)
        for (study, workload, clients), found in keyed.items()
    )


def by_configuration(rows: Sequence[PublishedRow]) -> dict[str, tuple[PublishedRow, ...]]:
    """Return the runs of each configuration."""
    return grouped(rows, lambda row: row.configuration)


def rate_of(row: PublishedRow) -> float | None:
    """Return a row's rate, 1/s; None where it tells none above 0."""
    figure = row.figure("tps")
    return figure.value if figure is not None and figure.value > 0.0 else None


def rates_of(rows: Sequence[PublishedRow]) -> list[float]:
    """Return the rates of those rows that tell one."""
    return [rate for row in rows if (rate := rate_of(row))]


def contrast(
    ours: Sequence[PublishedRow],
    theirs: Sequence[PublishedRow],
    level: float = LEVEL,
    metric: str = "tps",
) -> Interval | None:
    """Return the log ratio of two configurations in one cell; None below two runs on a side.

    Where runs have blocks that both sides share, of at least two, the blocks are the sample, as in
    a campaign; else it is Welch's interval, which drift between the two sides can fool.
    """
    one, two = _logs(ours, metric), _logs(theirs, metric)
    shared = [block for block in one if block and block in two]
    if len(shared) > 1:
        differences = [float(np.mean(one[block]) - np.mean(two[block])) for block in shared]
        return block_interval(np.array(differences), level)
    sides = [np.array([x for values in side.values() for x in values]) for side in (one, two)]
    if min(len(side) for side in sides) < 2:
        return None
    return welch_interval(sides[0], sides[1], level)


def _logs(rows: Sequence[PublishedRow], metric: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for row in rows:
        figure = row.figure(metric)
        if figure is not None and figure.value > 0.0:
            found.setdefault(row.block, []).append(float(np.log(figure.value)))
    return found


def rounded(value: float) -> str:
    """Return a figure of a table: no digit that nobody printed, halves away from zero."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{halved(value, 2).normalize():f}"


def halved(value: float, digits: int) -> Decimal:
    """Return a number with so many decimals; a half is rounded away from zero, as printers do."""
    exact = Decimal(repr(round(value, 9)))
    return exact.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP)


def named(names: Sequence[str], most: int = 4) -> str:
    """Return names as a list in words, cut where they are many."""
    if len(names) <= most:
        return enumeration(tuple(names))
    return f"{', '.join(names[:most])} and {len(names) - most} more"
