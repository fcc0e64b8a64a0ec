"""An examination as a document and for programs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from steelyard.answers.claims.examination import CHECKS, Examination, ExaminedClaim, Supported
from steelyard.answers.claims.grounds import Grade, Note
from steelyard.answers.results import FORMAT
from steelyard.core.published import Metric, PublishedRow, metric_of
from steelyard.report.document import (
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
    effect_value,
    ended,
    number,
    number_column,
    percent,
    significant,
)
from steelyard.stats.intervals import Interval, plain_median_interval

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
    columns = (
        Column(name="workload"),
        number_column("clients"),
        Column(name="configuration"),
        Column(name="against"),
        number_column("runs"),
        number_column("effect"),
        number_column("interval"),
        Column(name="verdict"),
    )
    rows = tuple(
        Row(
            cells=(
                each.cell.workload,
                MISSING if each.cell.clients is None else str(each.cell.clients),
                each.configuration,
                each.against,
                str(each.runs),
                effect_value(each.effect),
                effect_interval(each.effect),
                MISSING if each.verdict is None else each.verdict.value,
            )
        )
        for each in found
    )
    return Table(title="What the repeats support", columns=columns, rows=rows, tone_column=7)


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
        "effect_percent": percent(each.effect.value),
        "low_percent": percent(each.effect.low),
        "high_percent": percent(each.effect.high),
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
    columns = (
        Column(name="configuration"),
        Column(name="workload"),
        number_column("clients"),
        Column(name="quantity"),
        number_column("runs"),
        number_column("median"),
        Column(name="unit"),
        Column(name="interval (95 %)"),
    )
    table = Table(title="", columns=columns, rows=tuple(map(_level_row, _levels(rows))))
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


def _level_row(level: _Level) -> Row:
    row, statistic = level.row, level.row.statistic
    name = level.metric.title
    return Row(
        cells=(
            row.configuration,
            row.workload,
            MISSING if row.clients is None else str(row.clients),
            f"{name}, {statistic}" if statistic else name,
            str(len(level.values)),
            level.shown(level.interval.estimate),
            level.metric.unit,
            level.bounds,
        )
    )


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
