"""What a report is made of: sections of blocks, and numbers as readers and programs see them.

All text is already worded and formatted, and all numbers carry their unit; only the rows of a
figure and the drawing of an interval hold plain numbers, because they become positions.
"""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum, StrEnum
from functools import cache
from operator import is_
from typing import Any, Final, TypeVar

from steelyard.core import wording
from steelyard.core.findings import Estimate, Severity, Validity
from steelyard.core.quantities import PLAIN, Unit
from steelyard.core.wording import POSTGRES_WORDS, WorkWords

_T = TypeVar("_T")
Value = str | float | int | bool | None  # what a row of a figure may hold


class Tone(StrEnum):
    """How a text is meant; renderings turn it into colour, never into colour alone."""

    GOOD = "good"
    BAD = "bad"
    EVEN = "even"
    OPEN = "open"
    WARNING = "warning"
    ERROR = "error"
    PLAIN = "plain"


TONES: Final = {
    Severity.ERROR: Tone.ERROR,
    Severity.WARNING: Tone.WARNING,
    Severity.INFO: Tone.PLAIN,
    Validity.INVALID: Tone.ERROR,
    Validity.SUSPECT: Tone.WARNING,
    Validity.VALID: Tone.PLAIN,
}


class Align(StrEnum):
    """Where the text of a column stands."""

    LEFT = "left"
    RIGHT = "right"


class ChartKind(StrEnum):
    """The charts a report may hold."""

    EFFECTS = "effects"
    LOADS = "loads"
    BLOCKS = "blocks"
    STRIPS = "strips"
    SCALABILITY = "scalability"
    NOISE = "noise"
    WATERFALL = "waterfall"
    TIMELINE = "timeline"
    CAPACITY = "capacity"
    LATENCY_TAIL = "latency-tail"
    LATENCY_OVER_TIME = "latency-over-time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """Running text; ``tone`` marks what must not be overlooked.

    Attributes:
        link: Anchor in this document of what it speaks of; empty for none.
    """

    text: str
    tone: Tone = Tone.PLAIN
    link: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A way to another page, or to a section of this one: ``#`` and its anchor."""

    text: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BulletList:
    """Short statements under a lead.

    Attributes:
        links: Of each item, where more of it stands; empty where none has any.
    """

    lead: str
    items: tuple[str, ...]
    links: tuple[Link | None, ...] = ()

    @property
    def linked(self) -> tuple[tuple[str, Link | None], ...]:
        """Return the items, each with its link."""
        links = self.links or (None,) * len(self.items)
        return tuple(zip(self.items, links, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A line of percentages with its zero and the margin that does not matter, for a whole page.

    Attributes:
        start: Left end, %; ``end`` the right one.
        margin: Half-width of the band without practical relevance, %.
        ticks: Places with a number, %.
    """

    start: float
    end: float
    margin: float
    ticks: tuple[float, ...] = (0.0,)

    def place(self, percent: float) -> float:
        """Return where a value lies on the line: 0 at its left end, 1 at its right end."""
        return min(1.0, max(0.0, (percent - self.start) / (self.end - self.start)))

    def label(self, tick: float) -> str:
        """Return a tick as a text: ``+10 %``."""
        return f"{tick:+g} %" if tick else "0"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalDrawing:
    """An interval to be drawn along an axis.

    Attributes:
        low: Lower bound, %; ``value`` and ``high`` likewise.
    """

    low: float
    value: float
    high: float
    axis: Axis


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictCard:
    """One result.

    Attributes:
        workload: What was asked of the server.
        configuration: That is set against the baseline, by its name.
        contest: What is compared with what: ``fitted vs default (baseline)``.
        word: The verdict in a word or two.
        main: The most important figure or phrase, interval before estimate.
        sentence: The whole verdict in one sentence, to be read alone.
        claim: The same without blocks, prices and limits.
        details: What stands beside it: estimate, confidence, blocks, "stopped early".
        drawing: The interval, or None while there is none.
        notes: What limits the statement.
        price: Who may lose what, where the sides do not keep the same; else empty.
        marked: Parts of the sentence that its tone belongs to.
        work: What was run, on how much data.
        levels: Rates of both sides, a line per load.
        latency: Which percentiles clearly changed; empty where that is not known.
        why: Which counter moved, and where the time went; empty where there is no difference.
        money: What it comes to in money; empty where nobody says what servers cost.
    """

    workload: str
    configuration: str
    contest: str
    word: str
    tone: Tone
    main: str
    sentence: str
    claim: str
    details: tuple[str, ...]
    drawing: IntervalDrawing | None
    notes: tuple[str, ...] = ()
    price: str = ""
    marked: tuple[str, ...] = ()
    work: str = ""
    levels: tuple[str, ...] = ()
    latency: str = ""
    why: str = ""
    money: str = ""

    @property
    def reason(self) -> str:
        """Return why, as a line of its own."""
        return f"why: {self.why}" if self.why else ""

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return what stands below its sentence, a line each."""
        told = (*self.levels, self.reason, self.latency, self.money, *self.notes)
        return tuple(filter(None, told))


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictCards:
    """The results of a campaign.

    Attributes:
        rankings: Where they are many, a table per workload: it is read instead of the cards.
    """

    cards: tuple[VerdictCard, ...]
    rankings: "tuple[Table, ...]" = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """The head of a column, with the unit of everything below it.

    Attributes:
        spare: May be left out where the whole table is too wide.
        below: Its texts may stand below their rows where the whole table is too wide.
        key: Under which programs find its values; empty where they do not.
    """

    name: str
    unit: str = ""
    align: Align = Align.LEFT
    spare: bool = False
    below: bool = False
    key: str = ""

    @property
    def heading(self) -> str:
        """Return name and unit in one line."""
        return f"{self.name} ({self.unit})" if self.unit else self.name


def number_column(name: str, unit: str = "", *, spare: bool = False) -> Column:
    """Return a column of numbers: they are read by their right ends."""
    return Column(name=name, unit=unit, align=Align.RIGHT, spare=spare)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Texts, one per column; ``tone`` colours the row's verdict or validity.

    Attributes:
        cells: Without marks, as programs read them.
        links: Addresses that cells lead to in a browser, each with the cell's place.
        configuration: Whose row it is; empty for none in particular.
        marks: Signs that readers see after cells, each with the cell's place.
    """

    cells: tuple[str, ...]
    tone: Tone = Tone.PLAIN
    links: tuple[tuple[int, str], ...] = ()
    configuration: str = ""
    marks: tuple[tuple[int, str], ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the cells as readers see them."""
        marks = dict(self.marks)
        return tuple(f"{cell}{marks.get(place, '')}" for place, cell in enumerate(self.cells))

    def link(self, place: int) -> str:
        """Return the address that a cell leads to; empty for none."""
        return dict(self.links).get(place, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of text under columns with units.

    Attributes:
        tone_column: Index of the column that the tone of a row belongs to; None for no column.
        note: One or two sentences on how to read it.
        brief: What even a short rendering says of that; empty for nothing.
        gist: What its rows say, in words: for who has no room for a table; empty for nothing.
        spare: Where room is short, its gist says as much as its rows do.
        data: The numbers of each row in base units, by their keys; empty: it has texts alone.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    data: "tuple[tuple[Datum, ...], ...]" = ()
    tone_column: int | None = None
    note: str = ""
    brief: str = ""
    gist: str = ""
    spare: bool = False

    def tells_apart(self, place: int) -> bool:
        """Return whether texts of a column differ in rows that are alike in all before it."""
        before, with_it = ({row.cells[:end] for row in self.rows} for end in (place, place + 1))
        return self.columns[place].align is Align.LEFT and len(with_it) > len(before)


Datum = tuple[str, Value]  # with the key under which programs find it


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How the values of a column are shown, and their numbers as data.

    Attributes:
        show: Returns the text of a value that is there.
        unit: Of its number as data.
        heading: The unit of the text.
        align: Of the column.
        missing: The text of no value.
    """

    show: Callable[[Any], str] = str
    unit: Unit = PLAIN
    heading: str = ""
    align: Align = Align.RIGHT
    missing: str = "–"  # noqa: RUF001 - ``MISSING``, which is defined below

    def text(self, value: object) -> str:
        """Return the text of a cell."""
        return self.missing if value is None else self.show(value)

    def data(self, key: str, value: object) -> tuple[Datum, ...]:
        """Return the number under its key, and after it its bounds under theirs."""
        key = column_key(key) + self.unit.suffix
        if isinstance(value, Estimate):
            ends = (value.value, *(bounds(value) or (None, None)))
            names = (key, f"{key}_low", f"{key}_high")
            return tuple(zip(names, (number(end, self.unit) for end in ends), strict=True))
        return ((key, _datum(value, self.unit)),)


def column_key(name: str) -> str:
    """Return a name as a key of data, which has letters, digits, _ and - alone."""
    return re.sub(r"[^\w-]+", "_", name)


def _datum(value: Any, unit: Unit) -> Value:  # noqa: ANN401 - whatever a cell shows
    return number(value, unit) if isinstance(value, float) else value


TEXT: Final = Form(align=Align.LEFT)
WHOLE: Final = Form(show="{:,}".format)


@dataclass(frozen=True, slots=True)
class Cells:
    """A column with the texts of its cells, and their data, by the item of the row."""

    head: Column
    text: Callable[[Any], str]
    data: Callable[[Any], tuple[Datum, ...]] = lambda _: ()


def column(
    name: str, of: Callable[[Any], object], form: Form = TEXT, *, key: str = "", spare: bool = False
) -> Cells:
    """Return a column of typed values.

    Args:
        name: Its heading.
        of: Returns the value of an item; None for a missing one.
        form: How values are shown.
        key: Under which programs find it; the name where there is none.
        spare: May be left out where the whole table is too wide.
    """
    named = key or column_key(name)
    return Cells(
        Column(name=name, unit=form.heading, align=form.align, spare=spare, key=named),
        lambda item: form.text(of(item)),
        lambda item: form.data(named, of(item)),
    )


def numbers(name: str, text: Callable[[Any], str], unit: str = "", *, spare: bool = False) -> Cells:
    """Return a column of numbers as texts: programs read them from the data of the rows."""
    return Cells(number_column(name, unit, spare=spare), text)


def table_of(
    items: Iterable[_T],
    *columns: Cells | tuple[Column | str, Callable[[_T], str]],
    title: str,
    note: str = "",
    brief: str = "",
    tone: Callable[[_T], Tone] = lambda _: Tone.PLAIN,
    tone_column: int | None = None,
    links: Callable[[_T], tuple[tuple[int, str], ...]] = lambda _: (),
    data: Callable[[_T], tuple[Datum, ...]] = lambda _: (),
    common: tuple[Datum, ...] = (),
    reason: Callable[[_T], str] | None = None,
) -> Table:
    """Return a table with a row for each item.

    Args:
        items: In the order of the rows.
        *columns: Typed ones, or each head, or the name of one of texts, with what gives the text of
            its cells: these are only shown.
        title: As in a table; so are ``note``, ``brief`` and ``tone_column``.
        note: How to read it.
        brief: What is said of that even in short.
        tone: Gives the tone of a row.
        tone_column: That the tone belongs to.
        links: Gives the addresses that cells of a row lead to.
        data: Gives what programs read of a row, before that of typed columns.
        common: Data of each row that no column shows.
        reason: Gives why values of a row are missing; empty where they are not.
    """
    items = tuple(items)
    filled = [
        each
        if isinstance(each, Cells)
        else Cells(
            each[0] if isinstance(each[0], Column) else Column(name=each[0], key=each[0]), each[1]
        )
        for each in columns
    ]
    why = (lambda _: ()) if reason is None else lambda item: (("reason", reason(item) or None),)
    values = [
        [*data(item), *(datum for each in filled for datum in each.data(item)), *why(item)]
        for item in items
    ]
    whose = next((each.text for each in filled if each.head.key == "configuration"), lambda _: "")
    return Table(
        title=title,
        columns=tuple(each.head for each in filled),
        rows=tuple(
            Row(
                cells=tuple(each.text(item) for each in filled),
                tone=tone(item),
                links=links(item),
                configuration=whose(item),
            )
            for item in items
        ),
        tone_column=tone_column,
        note=note,
        brief=brief,
        data=tuple((*common, *row) for row in values) if any(values) else (),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A chart to be drawn, with the numbers behind it.

    Attributes:
        identity: Unique within the document; becomes the prefix of the drawing's ids.
        alt: What the chart shows, for who cannot see it.
        columns: Names of the values of a row.
        rows: The numbers, in drawing order.
        configurations: All configurations in file order, so that colours are the same in all
            charts.
        words: What the work is called, for axes.
        file: Where its drawing lies beside a text that cannot hold it; empty for nowhere.
        narrow: It is drawn for a phone: panels below one another, so that its texts stay legible.
    """

    identity: str
    kind: ChartKind
    title: str
    caption: str
    alt: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    configurations: tuple[str, ...]
    words: WorkWords = POSTGRES_WORDS
    file: str = ""
    narrow: bool = False


def figure_of(rows: Iterable[dict[str, Value]], **about: Any) -> Figure:  # noqa: ANN401 - as of Figure
    """Return a figure of rows that name their values, all of them the same ones."""
    named = tuple(rows)
    values = tuple(tuple(row.values()) for row in named)
    return Figure(columns=tuple(named[0]) if named else (), rows=values, **about)


def ends(name: str, estimate: Estimate | None, unit: Unit = PLAIN) -> dict[str, Value]:
    """Return a value and its bounds as part of the row of a figure."""
    value = None if estimate is None else present(estimate.value)
    low, high = bounds(estimate) or (None, None)
    values = {name: value, "low": low, "high": high}
    return {key: None if end is None else unit.factor * end for key, end in values.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingItem:
    """One finding, ready to print; empty texts are left out.

    Attributes:
        anchor: Its name within the document, for links; empty where nothing links to it.
    """

    severity: str
    tone: Tone
    subject: str
    message: str
    remedy: str
    source: str
    code: str
    anchor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingList:
    """Findings, gravest first."""

    items: tuple[FindingItem, ...]
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command line to be copied, or lines of another language."""

    text: str
    language: str = "sh"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValues:
    """Names and values; ``title`` may be empty."""

    title: str
    pairs: tuple[tuple[str, str], ...]


Block = Paragraph | BulletList | VerdictCards | Table | Figure | FindingList | Command | KeyValues


_FEW_TITLES: Final = 2


class Chapter(StrEnum):
    """The chapters of a report, in their order."""

    RESULTS = "Results"
    WHY = "Why"
    LATENCY = "Latency"
    WARNINGS = "Warnings"
    SETUP = "Setup"
    LIMITS = "Limits"
    REPRODUCE = "Reproduce"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading with its blocks.

    Attributes:
        anchor: Stable name within the document, for links.
        first: It answers the question itself: on the first screen of a terminal, never folded.
        brief: What stands for its blocks on that screen and in a summary; nothing for all of them.
        more: Details: closed on a page, and printed by the whole report alone.
        chapter: Of a report; None: it is a part of its own.
    """

    anchor: str
    title: str
    blocks: tuple[Block, ...] = ()
    first: bool = False
    brief: tuple[Block, ...] = ()
    more: tuple[Block, ...] = ()
    chapter: Chapter | None = None

    @property
    def every(self) -> tuple[Block, ...]:
        """Return its blocks with its details."""
        return (*self.blocks, *self.more)

    @property
    def more_title(self) -> str:
        """Return the name of its details."""
        if not self.blocks:
            return self.title
        titles = {title: None for block in self.more if (title := getattr(block, "title", ""))}
        return "; ".join(titles) if 0 < len(titles) <= _FEW_TITLES else f"{self.title}, in full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A chapter with its sections, or a section without a chapter."""

    anchor: str
    title: str
    sections: tuple[Section, ...]

    @property
    def first(self) -> bool:
        """Return whether a section of it answers the question itself."""
        return any(section.first for section in self.sections)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A whole report, or a page beside others.

    Attributes:
        subtitle: Who against whom, how it ended, when it was.
        description: Why the question was asked; empty when nobody said.
        place: Servers and machine in a line; empty where they are not known.
        setup: What is compared, and under what: it stands on top.
        links: To other pages; a report of its own has none.
        query: What a list was searched by; None where there is nothing to search.
        refresh_s: A browser is to ask for the page again after so many seconds; None: never.
    """

    title: str
    subtitle: str
    description: str = ""
    place: str = ""
    setup: tuple[KeyValues, ...] = ()
    sections: tuple[Section, ...]
    links: tuple[Link, ...] = ()
    query: str | None = None
    refresh_s: int | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        """Return the sections by their chapters."""
        grouped: dict[str, list[Section]] = {}
        for each in self.sections:
            name = f"chapter-{each.chapter.lower()}" if each.chapter else each.anchor
            grouped.setdefault(name, []).append(each)
        return tuple(
            Part(anchor=name, title=group[0].chapter or group[0].title, sections=tuple(group))
            for name, group in grouped.items()
        )

    @property
    def is_long(self) -> bool:
        """Return whether there are so many results that what explains them is folded."""
        blocks = (block for section in self.sections for block in section.blocks)
        return any(isinstance(block, VerdictCards) and block.rankings for block in blocks)


def filled(part: _T, words: WorkWords) -> _T:
    """Return a document, or a part of one, with words at all marks; figures know them for axes."""
    done: _T = _reworded(part, words.fill, {"words": words})
    return done


def _reworded(part: Any, change: Callable[[str], str], of_figures: dict[str, Any]) -> Any:  # noqa: ANN401 - whatever a document holds
    """Return a part with all texts below it changed; what has nothing to change stays itself."""
    if type(part) is str:  # an enumeration's member is a text, too, and has no marks
        done = change(part)
        return part if done == part else done
    if isinstance(part, tuple):
        parts = [_reworded(each, change, of_figures) for each in part]
        return part if all(map(is_, parts, part)) else tuple(parts)
    values = dict[str, Any]()
    kind: object = type(part)
    for name in _fields_of(kind):
        old = getattr(part, name)
        new = _reworded(old, change, of_figures)
        if new is not old:
            values[name] = new
    if isinstance(part, Figure):
        values |= of_figures
    return replace(part, **values) if values else part


@cache
def _fields_of(kind: type) -> tuple[str, ...]:
    """Return what may hold texts in parts of a kind."""
    is_part = is_dataclass(kind) and not issubclass(kind, WorkWords)
    return tuple(each.name for each in fields(kind)) if is_part else ()


def harmless(part: _T, change: Callable[[str], str] = str) -> _T:
    """Return a part of a document without what would steer a terminal, and its texts changed."""
    done: _T = _reworded(part, lambda text: change(wording.printable(text)), {})
    return done


MISSING = "–"  # noqa: RUF001 - a dash for "nothing here", not a minus
utc: Final = wording.format_utc

# METHOD.md 3.3: the levels used keep the promise of 95 % with a margin, over all results.
CONFIDENCE = "95 %"
POINTWISE = (
    "Intervals are pointwise at 95 %, over blocks (none below 6), and take part in no verdict."
)


def present(value: float | None) -> float | None:
    """Return the value if it is a finite number, else None."""
    return value if value is not None and math.isfinite(value) else None


def bounds(estimate: Estimate | None) -> tuple[float, float] | None:
    """Return the interval, or None when there is none."""
    if estimate is None:
        return None
    low, high = present(estimate.low), present(estimate.high)
    return None if low is None or high is None else (low, high)


def effect_range(low: float, high: float, *, inside: float | None = None) -> str:
    """Return ``+8.1 % to +16.9 %``; an end that rounds to a margin around it gets a digit more."""
    return f"{_end(low, inside)} to {_end(high, inside)}"


def _end(value: float, inside: float | None) -> str:
    text = wording.format_percent(value)
    if inside is None or text.lstrip("+-") != wording.format_percent(inside).lstrip("+"):
        return text
    return f"{100 * value:+.2f} %"


def between(estimate: Estimate | None, shown: Callable[[float], str]) -> str:
    """Return an interval, ``4,273 to 10,083``, with each end as it is shown, or a dash."""
    pair = bounds(estimate)
    return MISSING if pair is None else " to ".join(map(shown, pair))


def in_brackets(estimate: Estimate | None, shown: Callable[[float], str]) -> str:
    """Return the same in brackets: ``[4,273, 10,083]``."""
    pair = bounds(estimate)
    return MISSING if pair is None else f"[{', '.join(map(shown, pair))}]"


def with_interval(estimate: Estimate, shown: Callable[[float], str]) -> str:
    """Return a value, and its interval in brackets where there is one."""
    value = MISSING if present(estimate.value) is None else shown(estimate.value)
    return value if bounds(estimate) is None else f"{value} {in_brackets(estimate, shown)}"


def effect_interval(estimate: Estimate | None) -> str:
    """Return an interval in brackets, ``[+8.1 %, +16.9 %]``, or a dash."""
    return in_brackets(estimate, wording.format_percent)


def effect_value(estimate: Estimate | None) -> str:
    """Return a relative effect with its sign and unit, or a dash."""
    value = None if estimate is None else present(estimate.value)
    return MISSING if value is None else wording.format_percent(value)


def share(fraction: float) -> str:
    """Return a threshold as the user wrote it: ``3 %``, ``0.5 %``."""
    return f"{100 * fraction:g} %"


def rate(value: float | None) -> str:
    """Return a rate with thousands separators and about four significant digits."""
    if present(value) is None or value is None:
        return MISSING
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2
    return f"{value:,.{digits}f}"


def proportion(fraction: float | None) -> str:
    """Return a part of a whole, which needs no sign, ``2.8 %``, or a dash."""
    return MISSING if fraction is None else wording.format_share(fraction)


def milliseconds(seconds: float | None) -> str:
    """Return a duration in ms with three significant digits, or a dash."""
    if present(seconds) is None or seconds is None:
        return MISSING
    value = seconds * wording.MS_PER_S
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:,.{digits}f}"


def p_value(value: float) -> str:
    """Return a probability without false precision."""
    return "p < 0.001" if value < 0.001 else f"p = {value:.2g}"


def count(number: int, noun: str) -> str:
    """Return a counted noun: ``1 block``, ``9 blocks``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def versus(configuration: str, baseline: str) -> str:
    """Return what is compared with what: ``large vs small (baseline)``."""
    return f"{configuration} vs {baseline} (baseline)"


def ended(text: str) -> str:
    """Return a sentence with its full stop."""
    stripped = text.strip()
    return stripped if not stripped or stripped[-1] in ".!?…" else f"{stripped}."


def enumeration(names: tuple[str, ...]) -> str:
    """Return names as a list in words: ``a``, ``a and b``, ``a, b and c``."""
    return ", ".join(names) if len(names) < 2 else f"{', '.join(names[:-1])} and {names[-1]}"


def significant(value: float, *, signed: bool = False) -> str:
    """Return a number of any size with three significant digits: ``1,230``, ``0.0123``, ``0``."""
    size, sign = abs(value), "+" * signed
    if not size:
        return "0"
    if size >= 1000:
        return f"{value:{sign},.0f}"
    digits = min(8, max(0, 2 - math.floor(math.log10(size))))
    return f"{value:{sign}.{digits}f}"


def part_ms(seconds: float | None, *, signed: bool = False) -> str:
    """Return a part of a latency in ms, with four decimals at most, or a dash; less is 0."""
    if seconds is None:
        return MISSING
    value = seconds * wording.MS_PER_S
    size = abs(value)
    if size < 0.00005:
        return "0"
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3 if size >= 0.1 else 4
    return f"{value:{'+' if signed else ''},.{digits}f}"


def changed_ms(seconds: float) -> str:
    """Return the change of a part of a latency in ms, with its sign."""
    return part_ms(seconds, signed=True)


FORMAT: Final = 2  # of ``summary.json`` and of whatever else is printed for programs
_SIGNIFICANT = 12

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def number(value: float | None, unit: Unit = PLAIN) -> float | None:
    """Return a finite number in a unit, with 12 significant digits, or None."""
    finite = present(value)
    return None if finite is None else float(f"{unit.factor * finite:.{_SIGNIFICANT}g}")


def percent(value: float | None) -> float | None:
    """Return a fraction in percent, or None."""
    return None if value is None else number(100.0 * value)


def interval(
    estimate: Estimate | None, form: Callable[[float | None], float | None] = number
) -> dict[str, Json] | None:
    """Return an estimate with its bounds in a form, null where there are none."""
    if estimate is None:
        return None
    ends = {"estimate": estimate.value, "low": estimate.low, "high": estimate.high}
    return {name: form(value) for name, value in ends.items()}


def attributes(source: object, *names: str) -> dict[str, Json]:
    """Return attributes of an object under their own names.

    A float has 12 significant digits, an estimate its bounds, an enumeration its value.
    """
    return {name: _plain(getattr(source, name)) for name in names}


def _plain(value: Json | Estimate | Enum | tuple[Json, ...]) -> Json:
    if isinstance(value, Estimate):
        return interval(value)
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, float):
        return number(value)
    return [_plain(part) for part in value] if isinstance(value, tuple | list) else value
