"""Published results examined by every check, and what becomes of each claim."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from steelyard.answers.claims.claim_checks import COMPARISON_CHECKS
from steelyard.answers.claims.figure_checks import FIGURE_CHECKS
from steelyard.answers.claims.grounds import (
    LEVEL,
    Cell,
    Check,
    Grade,
    Note,
    by_configuration,
    cells_of,
    contrast,
    rate_of,
)
from steelyard.answers.claims.statements import Change, Claim, Publication
from steelyard.answers.claims.table_checks import TABLE_CHECKS
from steelyard.answers.claims.tables import PublishedTable
from steelyard.core.findings import Estimate, Verdict
from steelyard.core.published import Printed, PublishedRow
from steelyard.stats.intervals import verdict_of

CHECKS: Final[tuple[Check, ...]] = (*COMPARISON_CHECKS, *FIGURE_CHECKS, *TABLE_CHECKS)
MARGIN: Final = 0.01  # METHOD 3.6: what has no practical weight


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedClaim:
    """A claim, and all that was found of it."""

    claim: Claim
    notes: tuple[Note, ...]

    @property
    def grade(self) -> Grade:
        """Return the gravest of what was found."""
        return gravest(self.notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Supported:
    """What the repeats of a table support: one configuration against another in a cell.

    Attributes:
        runs: On the side that has fewer.
        effect: Relative difference in rate; without bounds below two runs on a side.
        verdict: None below two runs on a side.
    """

    cell: Cell
    configuration: str
    against: str
    runs: int
    effect: Estimate
    verdict: Verdict | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """All that was found.

    Attributes:
        notes: Of the tables themselves.
    """

    publication: Publication
    claims: tuple[ExaminedClaim, ...]
    notes: tuple[Note, ...]
    supported: tuple[Supported, ...]

    @property
    def accusations(self) -> tuple[Note, ...]:
        """Return everything that somebody is told to be wrong, or not to be said."""
        every = (*self.notes, *(note for each in self.claims for note in each.notes))
        return tuple(note for note in every if note.grade.accuses)


def gravest(notes: Sequence[Note]) -> Grade:
    """Return the gravest grade; without a note nothing speaks for it."""
    order = list(Grade)
    return min((note.grade for note in notes), key=order.index, default=Grade.NO_EVIDENCE)


def examine(publication: Publication) -> Examination:
    """Return what all checks find."""
    found = {
        (note.claim, note.check, note.text): note
        for check in CHECKS
        for note in check.examine(publication)
    }
    notes = found.values()
    of_claims: dict[str, list[Note]] = {}
    for note in notes:
        of_claims.setdefault(note.claim, []).append(note)
    return Examination(
        publication=publication,
        claims=tuple(
            ExaminedClaim(claim=claim, notes=tuple(of_claims.get(claim.id, ())))
            for claim in publication.claims
        ),
        notes=tuple(of_claims.get("", ())),
        supported=tuple(_supported(publication.rows)),
    )


def published_tables(
    tables: Sequence[PublishedTable], further: Publication | None = None
) -> Publication:
    """Return tables of anybody as what is examined, each stated change as a claim."""
    rows = tuple(row for table in tables for row in table.rows)
    base = further or Publication(rows=())
    unread = tuple(f"{table.source}: {name}" for table in tables for name in table.unread)
    return replace(
        base,
        rows=rows,
        claims=(*base.claims, *(claim for row in rows for claim in _stated(row))),
        unread=unread,
    )


def _stated(row: PublishedRow) -> Iterator[Claim]:
    """Yield the claim that a row makes by its stated change."""
    if row.stated_change is None:
        return
    change = Change(
        metric="tps",
        workload=row.workload,
        of=row.configuration,
        against=row.against,
        stated=(_as_stated(row.stated_change),),
        clients=row.clients,
    )
    load = "" if row.clients is None else f", {row.clients} clients"
    text = f"{row.configuration} against {row.against} ({row.workload}{load}): {change.stated[0]}"
    place = f"{row.source}:{row.line}"
    yield Claim(id=place, article=row.study, text=text, asserts=(change,))


def _as_stated(change: Printed) -> str:
    """Return a change with the digits that it was printed with."""
    half = 50.0 * (change.high - change.low)  # percent
    digits = max(0, round(-np.log10(2.0 * half))) if half > 0.0 else 2
    return f"{100.0 * (change.value - 1.0):+.{digits}f}%"


def _supported(rows: Sequence[PublishedRow]) -> Iterator[Supported]:
    """Yield every configuration against the first, or that which its rows name, in each cell."""
    pairs = [(cell, name, against) for cell in cells_of(rows) for name, against in _contests(cell)]
    level = LEVEL / max(len(pairs), 1)
    for cell, name, against in pairs:
        sides = by_configuration(cell.rows)
        ours, theirs = sides[name], sides[against]
        interval = contrast(ours, theirs, level)
        if interval is None:
            ratio = np.mean(_rates(ours)) / np.mean(_rates(theirs))
            effect = Estimate(value=float(ratio) - 1.0)
            verdict = None
        else:
            value, low, high = (
                float(np.expm1(each)) for each in (interval.estimate, interval.low, interval.high)
            )
            effect = Estimate(value=value, low=low, high=high)
            verdict = verdict_of(low, high, MARGIN)
        yield Supported(
            cell=cell,
            configuration=name,
            against=against,
            runs=min(len(ours), len(theirs)),
            effect=effect,
            verdict=verdict,
        )


def _contests(cell: Cell) -> Iterator[tuple[str, str]]:
    sides = by_configuration(cell.rows)
    first = next(iter(sides))
    for name, rows in sides.items():
        against = rows[0].against if rows[0].against in sides else first
        if name != against:
            yield name, against


def _rates(rows: Sequence[PublishedRow]) -> list[float]:
    return [rate for row in rows if (rate := rate_of(row))]
