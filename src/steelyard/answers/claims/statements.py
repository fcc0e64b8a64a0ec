"""Claims as data: what is said of which figures. No claim says what becomes of it.

A claim holds one assertion or several, and an assertion names cells of tables, single figures and
steps. Figures are combined in formulas: ``{payload of a SET}`` is a single figure of the claim's
article, ``[tps SET local-aof-off]`` a cell of a table, with clients behind it where there are
several.
"""

import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal

from pydantic import TypeAdapter, ValidationError

from steelyard.core.published import (
    NamedFigure,
    Printed,
    PublishedRow,
    Step,
    exactly,
    metric_of,
    parse_printed,
)
from steelyard.core.wording import InputError


@dataclass(frozen=True, kw_only=True)
class Change:
    """One configuration differs from another by so much."""

    kind: Literal["change"] = "change"
    metric: str
    workload: str
    of: str
    against: str
    stated: tuple[str, ...]
    clients: int | None = None
    step: str = ""


@dataclass(frozen=True, kw_only=True)
class Noise:
    """The differences among some configurations are noise."""

    kind: Literal["noise"] = "noise"
    metric: str
    workload: str
    among: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Same:
    """Some configurations are as fast as each other."""

    kind: Literal["same"] = "same"
    metric: str
    workload: str
    among: tuple[str, ...]
    clients: int | None = None
    step: str = ""


@dataclass(frozen=True, kw_only=True)
class Control:
    """What was changed cannot reach this workload: its figure before, and those after."""

    kind: Literal["control"] = "control"
    workload: str
    before: str
    after: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Order:
    """One configuration is better than others, whatever the load."""

    kind: Literal["order"] = "order"
    metric: str
    workloads: tuple[str, ...]
    best: str
    others: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Constant:
    """The difference between two configurations lies between two figures at every load."""

    kind: Literal["constant"] = "constant"
    metric: str
    workloads: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    least: str
    most: str


@dataclass(frozen=True, kw_only=True)
class Series:
    """These are the figures of a configuration, by number of clients."""

    kind: Literal["series"] = "series"
    metric: str
    workload: str
    of: str
    stated: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Count:
    """So many configurations were measured."""

    kind: Literal["count"] = "count"
    article: str
    stated: int


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A figure is below a limit."""

    kind: Literal["bound"] = "bound"
    metric: str
    workload: str
    of: str
    below: str
    clients: int | None = None


@dataclass(frozen=True, kw_only=True)
class Sum:
    """A formula gives a figure; another source of the same article may give another one."""

    kind: Literal["sum"] = "sum"
    name: str
    formula: str
    unit: str
    stated: str = ""
    other: str = ""
    step: str = ""


@dataclass(frozen=True, kw_only=True)
class Need:
    """So much is needed, and no less: what was given, and what is asked for by version."""

    kind: Literal["need"] = "need"
    name: str
    given: str
    asked: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A step had its effect by one cause.

    Attributes:
        evidence: What must have been measured to tell.
        idle: A pair of formulas: where the first is not above the second, it changes nothing.
        besides: Formulas of what may be the cause as well, each with its name and unit.
    """

    kind: Literal["cause"] = "cause"
    step: str
    cause: str
    evidence: str
    idle: tuple[str, str] | None = None
    besides: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Unchanged:
    """Nothing else was changed in a step: pairs of formulas that should be equal."""

    kind: Literal["unchanged"] = "unchanged"
    step: str
    pairs: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Counted:
    """What is counted on both sides of a step is compared."""

    kind: Literal["counted"] = "counted"
    step: str
    what: str


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Two costs are compared: formulas, and for how many hours each pays.

    Attributes:
        same_hours: Formula of the first for the hours of the second.
    """

    kind: Literal["costs"] = "costs"
    first: str
    first_hours: str
    second: str
    second_hours: str
    same_hours: str = ""


Assertion = (
    Change
    | Noise
    | Same
    | Control
    | Order
    | Constant
    | Series
    | Count
    | Bound
    | Sum
    | Need
    | Cause
    | Unchanged
    | Counted
    | Costs
)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What somebody says.

    Attributes:
        article: Where; its figures and steps are meant.
        text: In words.
        asserts: The same as assertions.
    """

    id: str
    article: str
    text: str
    asserts: tuple[Assertion, ...]


@dataclass(frozen=True, kw_only=True)
class Article:
    """Where claims come from."""

    name: str
    cited: str
    study: str = ""


@dataclass(frozen=True, kw_only=True)
class _File:
    articles: tuple[Article, ...] = ()
    claims: tuple[Claim, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class Publication:
    """All that was published: tables, single figures, steps, and what is claimed of them."""

    rows: tuple[PublishedRow, ...]
    figures: tuple[NamedFigure, ...] = ()
    steps: tuple[Step, ...] = ()
    articles: tuple[Article, ...] = ()
    claims: tuple[Claim, ...] = ()
    unread: tuple[str, ...] = ()

    def study_of(self, article: str) -> str:
        """Return the study that an article belongs to: itself where nothing is said."""
        found = next((each for each in self.articles if each.name == article), None)
        return found.study if found is not None and found.study else article

    def rows_of(
        self, article: str, *, workload: str, clients: int | None = None, configuration: str = ""
    ) -> tuple[PublishedRow, ...]:
        """Return the rows of a study with one workload under one load."""
        found = _by_cell(self).get((self.study_of(article), workload, clients), {})
        if configuration:
            return found.get(configuration, ())
        return tuple(row for rows in found.values() for row in rows)

    def step_of(self, article: str, name: str) -> Step:
        """Return a step of an article's study.

        Raises:
            LackingError: Nothing is told of it.
        """
        study = self.study_of(article)
        for step in self.steps:
            if step.name == name and study in {
                self.study_of(part) for part in step.article.split(" and ")
            }:
                return step
        raise LackingError(f"nothing tells what the step `{name}` changed and measured")


_Cells = dict[tuple[str, str, int | None], dict[str, tuple[PublishedRow, ...]]]


@lru_cache(maxsize=2)
def _by_cell(publication: Publication) -> _Cells:
    """Return the rows of a publication by study, workload and clients, then by configuration."""
    found: dict[tuple[str, str, int | None], dict[str, list[PublishedRow]]] = {}
    for row in publication.rows:
        key = (publication.study_of(row.study), row.workload, row.clients)
        found.setdefault(key, {}).setdefault(row.configuration, []).append(row)
    return {
        key: {name: tuple(rows) for name, rows in sides.items()} for key, sides in found.items()
    }


class LackingError(InputError):
    """The tables do not hold what an assertion speaks of."""


def read_claims(text: str, source: str) -> tuple[tuple[Article, ...], tuple[Claim, ...]]:
    """Return the articles and claims of a TOML file.

    Raises:
        InputError: It is none, with everything that is wrong.
    """
    try:
        found = TypeAdapter(_File).validate_python(tomllib.loads(text))
    except (ValidationError, RecursionError) as error:
        raise InputError(f"{source}: {_told(error)}", hint=_CLAIMS_HINT) from error
    except ValueError as error:  # also of a number with thousands of digits
        raise InputError(f"{source} is no TOML: {error}", hint=_CLAIMS_HINT) from error
    return found.articles, found.claims


_CLAIMS_HINT: Final = "docs/claims.md shows how claims are written."


def _told(error: ValidationError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "its tables are nested too deeply"
    told = [
        f"{'.'.join(map(str, each['loc']))}: {each['msg'][:1].lower()}{each['msg'][1:]}"
        for each in error.errors(include_url=False, include_input=False)
    ]
    return "\n  ".join([f"{len(told)} problems" if len(told) > 1 else "", *told[:20]]).strip()


def figure_of(rows: Sequence[PublishedRow], metric: str) -> Printed:
    """Return the one figure of a cell; of several runs their range around the mean.

    Raises:
        LackingError: There is none.
    """
    found = [figure for row in rows if (figure := row.figure(metric)) is not None]
    if not found:
        raise LackingError(f"the tables hold no {metric_of(metric).title} of it")
    return Printed(
        value=sum(each.value for each in found) / len(found),
        low=min(each.low for each in found),
        high=max(each.high for each in found),
    )


_TOKEN: Final = re.compile(
    r"\s*(?:\{(?P<figure>[^{}]*)\}|\[(?P<cell>[^\[\]]*)\]|(?P<number>[0-9][0-9.,]*(?:e[0-9]+)?)"
    r"|(?P<sign>[-+*/()]))"
)
_CLIENTS: Final = re.compile(r"[0-9]{1,7}")
_MOST_DEEP: Final = 20


@dataclass(slots=True, kw_only=True)
class Formula:
    """Reads a formula from left to right: sums of products of figures, cells, numbers, brackets."""

    publication: Publication
    article: str
    text: str
    _at: int = 0
    _depth: int = 0
    _inputs: list[float] = field(default_factory=list)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Return the figures and cells that it took, in words; empty before ``value``."""
        return tuple(f"{each:,.12g}" for each in self._inputs)

    def value(self) -> Printed:
        """Return what it gives.

        Raises:
            LackingError: It names a figure or cell that nobody published.
            InputError: It is no formula.
        """
        found = self._sum()
        if self.text[self._at :].strip():
            raise self._wrong()
        return found

    def _wrong(self) -> InputError:
        rest = self.text[self._at :].strip() or "its end"
        return InputError(f"`{self.text}` is no formula at {rest}", hint=_CLAIMS_HINT)

    def _take(self, *signs: str) -> str:
        """Return the sign that comes next where it is one of these, else "" and stay."""
        token = _TOKEN.match(self.text, self._at)
        if token is None or token["sign"] not in signs:
            return ""
        self._at = token.end()
        return str(token["sign"])

    def _sum(self) -> Printed:
        found = self._product()
        while sign := self._take("+", "-"):
            further = self._product()
            found = found + further if sign == "+" else found - further
        return found

    def _product(self) -> Printed:
        found = self._part()
        while sign := self._take("*", "/"):
            further = self._part()
            found = found * further if sign == "*" else found / further
        return found

    def _part(self) -> Printed:
        if self._take("("):
            self._depth += 1
            if self._depth > _MOST_DEEP:
                raise self._wrong()
            found = self._sum()
            if not self._take(")"):
                raise self._wrong()
            self._depth -= 1
            return found
        token = _TOKEN.match(self.text, self._at)
        if token is None or token["sign"]:
            raise self._wrong()
        self._at = token.end()
        if token["number"]:
            return exactly(parse_printed(token["number"]).value)
        figure = token["figure"]
        found = self._cell(token["cell"]) if figure is None else self._named(figure)
        self._inputs.append(found.value)
        return found

    def _named(self, name: str) -> Printed:
        for figure in self.publication.figures:
            if figure.name == name and self._is_of_study(figure.article):
                return figure.value
        raise LackingError(f"no figure `{name}` was published")

    def _is_of_study(self, article: str) -> bool:
        study_of: Callable[[str], str] = self.publication.study_of
        return study_of(article) == study_of(self.article)

    def _cell(self, words: str) -> Printed:
        metric, workload, configuration, *clients = (*words.split(), *("",) * 3)[:4]
        rows = self.publication.rows_of(
            self.article,
            workload=workload,
            configuration=configuration or "-",
            clients=int(clients[0]) if _CLIENTS.fullmatch(clients[0]) else None,
        )
        return figure_of(rows, metric)
