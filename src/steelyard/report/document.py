"""The document model: what every rendering of a report is made from.

All text is already worded and formatted, and all numbers carry their unit; only the rows of a
figure and the drawing of an interval hold plain numbers, because they become positions.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum, StrEnum
from typing import TypeVar, cast

from steelyard.core.target import POSTGRES_WORDS, WorkWords
from steelyard.core.units import printable

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
    HISTORY = "history"


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
class BulletList:
    """Short statements under a lead."""

    lead: str
    items: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalDrawing:
    """An interval to be drawn on a line with its zero and the margin that does not matter.

    Attributes:
        low: Lower bound, %; ``value`` and ``high`` likewise.
        margin: Half-width of the band without practical weight, %.
        start: Left end of the line, %.
        end: Right end of the line, %.
    """

    low: float
    value: float
    high: float
    margin: float
    start: float
    end: float

    def place(self, percent: float) -> float:
        """Return where a value lies on the line: 0 at its left end, 1 at its right end."""
        return min(1.0, max(0.0, (percent - self.start) / (self.end - self.start)))


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictCard:
    """One result.

    Attributes:
        workload: What was asked of the server.
        contest: Who against whom: ``fitted against default``.
        word: The verdict in a word or two.
        main: The most important figure or phrase, interval before estimate.
        sentence: The whole verdict in one sentence, to be read alone.
        details: What stands beside it: estimate, confidence, blocks, "stopped early".
        drawing: The interval, or None while there is none.
        notes: What limits the statement.
        price: Who may lose what, where the sides do not keep the same; else empty.
        marked: Parts of the sentence that its tone belongs to.
        levels: Rate and latency of both sides, a line per load.
    """

    workload: str
    contest: str
    word: str
    tone: Tone
    main: str
    sentence: str
    details: tuple[str, ...]
    drawing: IntervalDrawing | None
    notes: tuple[str, ...] = ()
    price: str = ""
    marked: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()


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
    """

    name: str
    unit: str = ""
    align: Align = Align.LEFT
    spare: bool = False

    @property
    def heading(self) -> str:
        """Return name and unit in one line."""
        return f"{self.name} ({self.unit})" if self.unit else self.name


def number_column(name: str, unit: str = "", *, spare: bool = False) -> Column:
    """Return a column of numbers: they are read by their right ends."""
    return Column(name=name, unit=unit, align=Align.RIGHT, spare=spare)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Texts, one per column; ``tone`` colours the row's verdict or validity."""

    cells: tuple[str, ...]
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of text under columns with units.

    Attributes:
        tone_column: Index of the column that the tone of a row belongs to; None for no column.
        note: One or two sentences on how to read it.
        brief: What even a short rendering says of that; empty for nothing.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    tone_column: int | None = None
    note: str = ""
    brief: str = ""


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
        specify: Returns the Vega-Lite JSON of the figure; imports what it takes when it is called.
        words: What the work is called, for axes.
    """

    identity: str
    kind: ChartKind
    title: str
    caption: str
    alt: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    configurations: tuple[str, ...]
    specify: Callable[["Figure"], str]
    words: WorkWords = POSTGRES_WORDS


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command line to be copied."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValues:
    """Names and values; ``title`` may be empty."""

    title: str
    pairs: tuple[tuple[str, str], ...]


Block = Paragraph | BulletList | VerdictCards | Table | Figure | FindingList | Command | KeyValues


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading with its blocks.

    Attributes:
        anchor: Stable name within the document, for links and for short renderings to choose by.
        first: It answers the question itself: on the first screen of a terminal, never folded.
    """

    anchor: str
    title: str
    blocks: tuple[Block, ...]
    first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A whole report.

    Attributes:
        subtitle: Who against whom, how it ended, when it was.
        description: Why the question was asked; empty when nobody said.
        place: Servers and machine in a line; empty where they are not known.
    """

    title: str
    subtitle: str
    description: str = ""
    place: str = ""
    sections: tuple[Section, ...]

    @property
    def is_long(self) -> bool:
        """Return whether there are so many results that what explains them is folded."""
        blocks = (block for section in self.sections for block in section.blocks)
        return any(isinstance(block, VerdictCards) and block.rankings for block in blocks)


def harmless(part: _T) -> _T:
    """Return a part of a document without what would steer a terminal."""
    if isinstance(part, str) and not isinstance(part, Enum):
        return cast("_T", printable(part))
    if isinstance(part, tuple):
        return cast("_T", tuple(map(harmless, part)))
    if not is_dataclass(part) or isinstance(part, type):
        return part
    whole = {each.name: getattr(part, each.name) for each in fields(part)}
    clean = {name: harmless(value) for name, value in whole.items()}
    return part if clean == whole else replace(part, **clean)
