"""Published results examined by every check, what becomes of each claim, and the page of it."""

from collections import Counter
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
from steelyard.core.published import Metric, Printed, PublishedRow, metric_of
from steelyard.report.document import (
    FORMAT,
    MISSING,
    Block,
    BulletList,
    Column,
    Document,
    FindingItem,
    FindingList,
    Json,
    Paragraph,
    Row,
    Section,
    Table,
    Tone,
    count,
    effect_interval,
    effect_json,
    effect_value,
    ended,
    number,
    number_column,
    significant,
    table_of,
)
from steelyard.stats.intervals import Interval, plain_median_interval, verdict_of

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


_TONES: Final = {
    Grade.CONTRADICTS: Tone.ERROR,
    Grade.NO_EVIDENCE: Tone.WARNING,
    Grade.UNDECIDED: Tone.OPEN,
    Grade.LIMIT: Tone.EVEN,
    Grade.FOLLOWS: Tone.GOOD,
}
_BOUNDED_FROM: Final = 6  # runs: with fewer, signed ranks cannot reach 95 %
_HOW: Final = (
    f"{len(CHECKS)} rules, each in docs/claims.md. A printed figure is a range: what rounding alone"
    " explains is not held against it. Intervals are at 95 %, over all comparisons of this table"
    " together; runs that share a block are compared within it. What follows from the figures may"
    " still have another cause."
)


def examination_document(examination: Examination, title: str) -> Document:
    """Return what was found, claims first."""
    sections = [*_claims(examination), *_tables(examination), *_supports(examination)]
    sections.append(Section(anchor="how", title="How it decides", blocks=(Paragraph(text=_HOW),)))
    rows = len(examination.publication.rows)
    return Document(
        title=title,
        subtitle=f"{count(rows, 'row')}, {count(len(examination.claims), 'claim')},"
        f" {count(len(examination.accusations), 'objection')}",
        sections=tuple(sections),
    )


def _claims(examination: Examination) -> Iterator[Section]:
    if not examination.claims:
        return
    yield Section(
        anchor="summary", title="Claims", blocks=(_summary(examination.claims),), first=True
    )
    cited = {each.name: each.cited for each in examination.publication.articles}
    by_article: dict[str, list[ExaminedClaim]] = {}
    for each in examination.claims:
        by_article.setdefault(each.claim.article, []).append(each)
    for place, (article, claims) in enumerate(by_article.items()):
        source = cited.get(article, "")
        lead = (Paragraph(text=ended(source)),) if source else ()
        items = FindingList(items=tuple(_item(each) for each in claims))
        title = article or "As stated in the table"
        yield Section(anchor=f"claims-{place}", title=title, blocks=(*lead, items))


def _summary(claims: Sequence[ExaminedClaim]) -> Table:
    rows = []
    for grade in Grade:
        names = [each.claim.id for each in claims if each.grade is grade]
        if names:
            cells = (grade.value, str(len(names)), ", ".join(names))
            rows.append(Row(cells=cells, tone=_TONES[grade]))
    columns = (Column(name="what becomes of it"), number_column("claims"), Column(name="which"))
    return Table(
        title="What becomes of the claims", columns=columns, rows=tuple(rows), tone_column=0
    )


def _item(each: ExaminedClaim) -> FindingItem:
    ordered = sorted(each.notes, key=lambda note: list(Grade).index(note.grade))
    found = " ".join(ended(_capital(note.text)) for note in ordered)
    return FindingItem(
        severity=each.grade.value,
        tone=_TONES[each.grade],
        subject=each.claim.id,
        message=f"{ended(each.claim.text)} {found}",
        remedy="",
        source="docs/claims.md",
        code=", ".join(dict.fromkeys(note.check for note in ordered)),
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _tables(examination: Examination) -> Iterator[Section]:
    blocks: list[Block] = []
    if examination.notes:
        blocks.append(FindingList(items=tuple(map(_note_item, examination.notes))))
    else:
        text = "Nothing that the tables hold speaks against them."
        blocks.append(Paragraph(text=text, tone=Tone.GOOD))
    if examination.publication.unread:
        blocks.append(
            BulletList(lead="Columns that were not read", items=examination.publication.unread)
        )
    first = not examination.claims
    yield Section(anchor="tables", title="The tables themselves", blocks=tuple(blocks), first=first)


def _note_item(note: Note) -> FindingItem:
    return FindingItem(
        severity=note.grade.value,
        tone=_TONES[note.grade],
        subject=note.check,
        message=_capital(note.text),
        remedy=", ".join(note.lines),
        source="docs/claims.md",
        code=note.check,
    )


def _supports(examination: Examination) -> Iterator[Section]:
    found = [each for each in examination.supported if each.verdict is not None]
    single = len(examination.supported) - len(found)
    blocks: list[Block] = []
    if found:
        blocks.append(_table(found))
    if single:
        text = f"{count(single, 'comparison')} with one run on a side: n = 1, no interval."
        blocks.append(Paragraph(text=text))
    if blocks:
        yield Section(anchor="supported", title="What the repeats support", blocks=tuple(blocks))


def _table(found: Sequence[Supported]) -> Table:
    return table_of(
        found,
        ("workload", lambda each: each.cell.workload),
        (number_column("clients"), lambda each: _clients(each.cell.clients)),
        ("configuration", lambda each: each.configuration),
        ("against", lambda each: each.against),
        (number_column("runs"), lambda each: str(each.runs)),
        (number_column("effect"), lambda each: effect_value(each.effect)),
        (number_column("interval"), lambda each: effect_interval(each.effect)),
        ("verdict", lambda each: MISSING if each.verdict is None else each.verdict.value),
        title="What the repeats support",
        tone_column=7,
    )


def _clients(number: int | None) -> str:
    return MISSING if number is None else str(number)


def examination_json(examination: Examination) -> dict[str, Json]:
    """Return what was found for programs."""
    return {
        "format": FORMAT,
        "kind": "claims",
        "claims": [
            {
                "id": each.claim.id,
                "article": each.claim.article,
                "text": each.claim.text,
                "verdict": each.grade.value,
                "notes": [_note_json(note) for note in each.notes],
            }
            for each in examination.claims
        ],
        "tables": [_note_json(note) for note in examination.notes],
        "supported": [_supported_json(each) for each in examination.supported],
        "unread": list(examination.publication.unread),
    }


def _note_json(note: Note) -> dict[str, Json]:
    return {
        "check": note.check,
        "verdict": note.grade.value,
        "text": note.text,
        "lines": list(note.lines),
        "numbers": {name: number(value) for name, value in note.numbers.items()},
    }


def _supported_json(each: Supported) -> dict[str, Json]:
    return {
        "study": each.cell.study,
        "workload": each.cell.workload,
        "clients": each.cell.clients,
        "configuration": each.configuration,
        "against": each.against,
        "runs": each.runs,
        **effect_json(each.effect),
        "verdict": None if each.verdict is None else each.verdict.value,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Level:
    """A quantity of one configuration under one load, over its runs."""

    row: PublishedRow
    metric: Metric
    values: tuple[float, ...]

    @property
    def interval(self) -> Interval:
        """Return the median with its bounds, in base units."""
        return plain_median_interval(np.array(self.values))

    def shown(self, value: float) -> str:
        """Return a value in the unit of the metric."""
        return significant(value * self.metric.per_shown)

    @property
    def bounds(self) -> str:
        """Return the interval, or why there is none."""
        if len(self.values) == 1:
            return "n = 1, no interval"
        found = self.interval
        if not found.bounded:
            return f"n = {len(self.values)}, no interval below {_BOUNDED_FROM}"
        return f"{self.shown(found.low)} to {self.shown(found.high)}"


def imported_document(rows: Sequence[PublishedRow], title: str) -> Document:
    """Return rows that were read in: a line for each quantity, with the runs behind it."""
    table = table_of(
        _levels(rows),
        ("configuration", lambda level: level.row.configuration),
        ("workload", lambda level: level.row.workload),
        (number_column("clients"), lambda level: _clients(level.row.clients)),
        ("quantity", _quantity),
        (number_column("runs"), lambda level: str(len(level.values))),
        (number_column("median"), lambda level: level.shown(level.interval.estimate)),
        ("unit", lambda level: level.metric.unit),
        ("interval (95 %)", lambda level: level.bounds),
        title="",
    )
    section = Section(anchor="results", title="Results", blocks=(table,), first=True)
    return Document(title=title, subtitle=count(len(rows), "row"), sections=(section,))


def _levels(rows: Sequence[PublishedRow]) -> Iterator[_Level]:
    found: dict[tuple[object, ...], list[tuple[PublishedRow, float]]] = {}
    for row in rows:
        for name, figure in row.figures:
            key = (row.configuration, row.workload, row.clients, row.statistic, row.unit, name)
            found.setdefault(key, []).append((row, figure.value))
    for whole, values in found.items():
        row = values[0][0]
        metric = metric_of(str(whole[-1]), row.unit)
        yield _Level(row=row, metric=metric, values=tuple(value for _, value in values))


def _quantity(level: _Level) -> str:
    name, statistic = level.metric.title, level.row.statistic
    return f"{name}, {statistic}" if statistic else name


def imported_json(rows: Sequence[PublishedRow]) -> dict[str, Json]:
    """Return rows that were read in, in base units; of quantities not known as printed."""
    return {
        "format": FORMAT,
        "kind": "import",
        "rows": [
            {
                "source": row.source,
                "configuration": row.configuration,
                "workload": row.workload,
                "clients": row.clients,
                "repeat": row.repeat,
                "statistic": row.statistic,
                "unit": row.unit,
                "seconds": number(row.seconds),
                "figures": {name: number(figure.value) for name, figure in row.figures},
            }
            for row in rows
        ],
    }


def repeats_numbered(rows: Sequence[PublishedRow]) -> tuple[PublishedRow, ...]:
    """Return rows with the number of their run, where nobody told one."""
    seen: Counter[tuple[object, ...]] = Counter()
    numbered = []
    for row in rows:
        names = tuple(name for name, _ in row.figures)
        key = (row.configuration, row.workload, row.clients, row.statistic, names)
        seen[key] += 1
        numbered.append(row if row.repeat else replace(row, repeat=str(seen[key])))
    return tuple(numbered)
