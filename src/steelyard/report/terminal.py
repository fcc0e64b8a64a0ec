"""Documents for a terminal: the first screen of a report, or every section."""

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table as RichTable
from rich.text import Text

from steelyard.report import document as doc

_STYLE = {
    doc.Tone.GOOD: "bold green",
    doc.Tone.BAD: "bold red",
    doc.Tone.EVEN: "bold cyan",
    doc.Tone.OPEN: "bold",
    doc.Tone.WARNING: "bold yellow",
    doc.Tone.ERROR: "bold red",
    doc.Tone.PLAIN: "",
}
_QUIET = "dim"
_GAP = 2  # columns between the columns of a table
_WHOLE_CARDS = 3  # on a first screen; of more the drawings are left to the whole report
_RATED_CARDS = 4  # likewise; of more their rates are left to it, too
_MOST_ROWS = 30  # of a table on a first screen
_FIRST_ROWS = 9  # of the tables of a ranking on the first screen, together
_LEAST_ROWS = 3
_LEAST_WORDS = 16  # columns that texts keep in a table that is too wide
_LONGEST_NUMBER = 28  # columns: what is longer in a column of numbers is a text
_TIE = "\ue000"  # a space that no line is broken at; Rich breaks at a no-break space, too
_WITH_UNIT = re.compile(r"(\d) ((?:[KMGT]iB|tps|ms)\b)")
_SCREEN, _LONG_SCREEN = 25, 40  # lines of a first screen; rather the longer one than no reasons
_NARROW_SCREEN = 45
_WIDE = 80  # columns from which a first screen has the fewer lines
_BRIEFEST = 4
_FEW = 6  # configurations on the briefest screens
_LINE = 56  # columns of an interval's drawing
_LEGEND = {
    "│┿": "│ no difference",
    "·": "· of no practical relevance",
    "◆": "━◆━ interval and estimate",
}


def render_terminal(
    document: doc.Document,
    width: int = 100,
    *,
    colour: bool = False,
    files: tuple[str, ...] = (),
    more: str = "",
) -> str:
    """Return every section as text, with escape sequences only if ``colour`` is set.

    Args:
        document: The whole report.
        width: Columns of the terminal.
        colour: Whether the terminal understands colours.
        files: Where it lies, to be named at the end.
        more: The command that shows the whole report; where it is given, only what answers the
            question itself is shown.
    """
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        highlight=False,
        legacy_windows=False,
    )
    tied = doc.harmless(document, _tied)
    page = _Page(width=width, first=bool(more))
    for brevity in range(_BRIEFEST + 1):
        out.seek(0)
        out.truncate()
        shown = replace(page, brevity=brevity)
        console.print(shown.first_screen(tied, more) if more else shown.document(tied, files))
        wide = _SCREEN if brevity < _BRIEFEST - 1 else _LONG_SCREEN
        most = wide if width >= _WIDE else _NARROW_SCREEN
        if not more or out.getvalue().count("\n") <= most:
            break
    return "\n".join(line.rstrip() for line in out.getvalue().replace(_TIE, " ").split("\n"))


def render_table(table: doc.Table, width: int = 100) -> str:
    """Return one table as text, every row of it."""
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False, legacy_windows=False)
    console.print(_Page(width=width).table(doc.harmless(table), ""))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _tied(text: str) -> str:
    text = _WITH_UNIT.sub(rf"\1{_TIE}\2", text)
    return text.replace(" %", f"{_TIE}%").replace("\N{NO-BREAK SPACE}", _TIE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    """Blocks as Rich renderables for so many columns; ``first``: they share one screen.

    Attributes:
        brevity: What a first screen does without, so that it is one: from 1 on all bullets but the
            first and the legend, from 2 on latencies and what is longer than a line, from 3 on
            settings beyond a few configurations, then reasons.
    """

    width: int
    first: bool = False
    most: int = _MOST_ROWS
    brevity: int = 0

    def document(self, document: doc.Document, files: tuple[str, ...]) -> RenderableType:
        parts: list[RenderableType] = [
            Text(document.title, style="bold"),
            Text(document.subtitle, style=_QUIET),
            *(part for block in document.setup for part in (Text(), self.pairs(block))),
        ]
        parts += map(self.part, document.parts)
        if files:
            parts += [Text(), Text("In files:", style=_QUIET)]
            parts += [Text(f"  {path}", overflow="fold") for path in files]
        return Group(*parts)

    def first_screen(self, document: doc.Document, more: str) -> RenderableType:
        """Return what answers the question itself, in about 25 lines."""
        parts: list[RenderableType] = [Text(document.title, style="bold")]
        parts += [Text(line, style=_QUIET) for line in (document.subtitle, document.place) if line]
        cards = _cards_of(document)
        # What ran stands on the cards themselves where these are few, and so are their loads.
        apart = _is_short(cards) or any(len(card.levels) > 1 for card in cards.cards)
        setup = document.setup if apart else document.setup[:1]
        parts += [Text() for _ in setup[:1]] + [self.cut(block) for block in setup]
        for section in document.sections:
            if section.first and not all(isinstance(block, doc.Figure) for block in section.blocks):
                parts.append(self.section(replace(section, blocks=section.brief or section.blocks)))
        return Group(*parts, Text(), Text(f"Next: {more}", style=_QUIET, overflow="fold"))

    def part(self, part: doc.Part) -> RenderableType:
        """Return a chapter, its details last."""
        lines: list[RenderableType] = []
        shown = [(each.title, each.blocks) for each in part.sections]
        details = [(each.more_title, each.more) for each in part.sections]
        for title, blocks in (*shown, *details):
            drawn = self.blocks(blocks, title)
            if drawn and title != part.title:
                lines += [Text(), Text(title, style="bold")]
            lines += drawn
        return Group(*self.headed(part.title), *lines[1:])

    def section(self, section: doc.Section) -> RenderableType:
        drawn = self.blocks(section.blocks, section.title)
        if section.anchor == "verdicts":
            return Group(*drawn)
        return Group(*self.headed(section.title), *drawn[1:])

    def headed(self, title: str) -> tuple[RenderableType, ...]:
        bold = Text(title, style="bold")
        return Text(), Rule(bold, align="left", style=_QUIET, characters="─")

    def blocks(self, blocks: Sequence[doc.Block], heading: str) -> list[RenderableType]:
        drawn = (each for each in blocks if not isinstance(each, doc.Figure))
        return _spaced([self.block(each, heading) for each in drawn])

    def block(self, block: doc.Block, heading: str) -> RenderableType:
        match block:
            case doc.Paragraph():
                return Text(block.text, style=_STYLE[block.tone])
            case doc.VerdictCards():
                return self.cards(block)
            case doc.Table():
                return self.table(block, heading)
            case doc.KeyValues():
                return self.pairs(block)
            case doc.FindingList():
                return Group(*(_finding(item) for item in block.items))
            case _:
                return _plain(block, 1 if self.brevity else None)

    def cards(self, block: doc.VerdictCards) -> RenderableType:
        lines: list[RenderableType] = [*self.ranked(block.rankings)]
        if self.first and block.rankings:
            return Group(*lines, *self.extremes(block.cards))
        if self.first and _is_short(block):
            rated = len(block.cards) <= _RATED_CARDS
            short = (part for each in block.cards for part in self.short(each, rated=rated))
            return Group(*lines, *short)
        marks = ""
        for card in () if block.rankings else block.cards:
            lines.append(_marked(card.sentence, card))
            if card.drawing is not None:
                length = min(_LINE, self.width - 4)
                if not (marks and self.first):  # all have one axis
                    lines.append(Padding(_scale(card.drawing.axis, length), (0, 0, 0, 2)))
                drawn = _drawing(card.drawing, _STYLE[card.tone], length)
                lines.append(Padding(drawn, (0, 0, 0, 2)))
                marks += drawn.plain
            lines += [Padding(Text(line, style=_QUIET), (0, 0, 0, 2)) for line in self.below(card)]
        if marks and not self.brevity:
            told = (words for mark, words in _LEGEND.items() if set(mark) & set(marks))
            lines.append(Padding(Text("   ".join(told), style=_QUIET), (0, 0, 0, 2)))
        return Group(*lines)

    def extremes(self, cards: Sequence[doc.VerdictCard]) -> Iterator[RenderableType]:
        """Yield rates and reasons of the first and the last card of a ranking that has reasons."""
        moved = [card for card in cards if card.reason]
        for card in dict.fromkeys((*moved[:1], *moved[-1:])):
            head = f"{card.workload}, {card.configuration}: {'; '.join(card.levels)}"
            yield Text(head, style=_QUIET)
            part = card.reason.rpartition("; ")[2].removeprefix("why: ")  # the time says more
            reason = replace(self, brevity=_BRIEFEST).in_a_line(f"why: {part}")
            yield Padding(Text(reason, style=_QUIET), (0, 0, 0, 2))

    def short(self, card: doc.VerdictCard, *, rated: bool) -> Iterator[RenderableType]:
        """Yield a card without its drawing, where so many have no room on a first screen.

        Args:
            card: Of them.
            rated: With rates, reasons and prices, for which very many have no room either.
        """
        yield _marked(card.claim, card)
        if rated:
            levels = "; ".join(card.levels)
            reason = self.in_a_line(card.reason) if self.brevity < _BRIEFEST else ""
            told = filter(None, (levels, reason, card.money))
            yield from (Padding(Text(each, style=_QUIET), (0, 0, 0, 2)) for each in told)

    def below(self, card: doc.VerdictCard) -> tuple[str, ...]:
        """Return what stands below a verdict; on a first screen rates in a line where they fit."""
        if not self.first:
            return card.remarks
        room = self.width - _GAP
        joined = ("; ".join(filter(None, (*card.levels, card.work))), "; ".join(card.levels))
        levels = next(((each,) for each in joined if each and len(each) <= room), card.levels)
        reason = self.in_a_line(card.reason) if self.brevity < _BRIEFEST else ""
        latency = "" if self.brevity > 1 else card.latency
        return tuple(filter(None, (*levels, reason, latency, card.money, *card.notes)))

    def in_a_line(self, text: str) -> str:
        """Return a text as it is, or from some brevity on what has room in a line."""
        room = self.width - _GAP
        if self.brevity < 2 or len(text) <= room:
            return text
        return _whole_clauses(text, room)

    def ranked(self, rankings: Sequence[doc.Table]) -> Iterator[RenderableType]:
        """Yield the tables of a ranking; they share the rows that a first screen has."""
        page = self
        if self.first:
            drawn = max(1, sum(not each.spare for each in rankings))
            page = replace(self, most=max(_LEAST_ROWS, _FIRST_ROWS // drawn))
        yield from (page.table(each, "") for each in rankings)

    def table(self, block: doc.Table, heading: str) -> RenderableType:
        if self.first and block.spare:
            return Text(block.gist)
        most = self.most if self.first else len(block.rows)
        shown = block.rows[:most]
        drawn = self.rows(block, shown)
        titled = () if block.title == heading else (Text(block.title, style=_QUIET),)
        left = len(block.rows) - most
        more = (Text(f"and {left} more in the whole report", style=_QUIET),) if left > 0 else ()
        told = block.brief if self.first else block.note
        note = (Text(told, style=_QUIET),) if told else ()
        return Group(*titled, drawn, *more, *note)

    def rows(self, block: doc.Table, shown: Sequence[doc.Row]) -> RenderableType:
        """Return rows in columns, else with texts below them, else each as a paragraph."""
        if widths := _widths(block, self.width):
            return _columns(block, shown, widths)
        if any(c.below for c in block.columns) and (
            widths := _widths(block, self.width, above=True)
        ):
            return Group(*_in_two_lines(block, shown, widths))
        return Group(*(self.stacked(block, row) for row in shown))

    def cut(self, block: doc.KeyValues) -> RenderableType:
        """Return names beside their values; from some brevity on each in one line."""
        if self.brevity < 2:
            return self.pairs(block)
        room = self.width - _GAP - max(len(name) for name, _ in block.pairs)
        pairs = (
            (name, value if len(value) <= room else _whole_clauses(value, room))
            for name, value in block.pairs
        )
        few = tuple(pairs) if self.brevity < 3 else tuple(pairs)[:_FEW]
        left = len(block.pairs) - len(few)
        more = (Text(f"and {left} more", style=_QUIET),) if left else ()
        return Group(self.pairs(replace(block, pairs=few)), *more)

    def pairs(self, block: doc.KeyValues) -> RenderableType:
        """Return names beside their values, or above them where a word would not fit beside."""
        titled = (Text(block.title, style=_QUIET),) if block.title else ()
        room = self.width - _GAP - max(len(name) for name, _ in block.pairs)
        if any(_longest_word(value) > room for _, value in block.pairs):
            lines: list[RenderableType] = []
            for name, value in block.pairs:
                below = Padding(Text(value, overflow="fold"), (0, 0, 0, _GAP))
                lines += [Text(name, style=_QUIET), below]
            return Group(*titled, *lines)
        drawn = RichTable.grid(padding=(0, _GAP, 0, 0))
        drawn.add_column(no_wrap=True, style=_QUIET)
        drawn.add_column()
        for name, value in block.pairs:
            drawn.add_row(Text(name), Text(value))
        return Group(*titled, drawn)

    def stacked(self, block: doc.Table, row: doc.Row) -> RenderableType:
        """Return a row as a paragraph: what it is about, then each value after its heading."""
        columns = list(enumerate(block.columns))
        first = next((p for p, c in columns if c.align is doc.Align.RIGHT), 1)
        text = Text(", ".join(row.texts[:first]), style="bold")
        shown = [(p, c) for p, c in columns[first:] if not (self.first and c.spare)]
        for number, (place, column) in enumerate(shown):
            text.append("; " if number else ": ", style="not bold")
            text.append(f"{column.heading} ", style=f"not bold {_QUIET}")
            text.append(row.texts[place], style=f"not bold {_tone(block, row, place)}")
        return Padding(text, (0, 0, 0, _GAP))


def _in_two_lines(
    block: doc.Table, rows: Sequence[doc.Row], widths: dict[int, int]
) -> Iterator[RenderableType]:
    """Yield rows in columns, and below each the texts that have no room beside it."""
    below = [place for place, column in enumerate(block.columns) if column.below]
    first = next((p for p in widths if block.columns[p].align is doc.Align.LEFT), 0)
    indent = sum(widths[place] + _GAP for place in widths if place < first)
    for number, row in enumerate(rows):
        yield _columns(block, (row,), widths, headed=number == 0)
        text = _cell(block, row, below[0])  # the others stand after their headings
        for place in below[1:]:
            text.append(f"; {block.columns[place].heading}: {row.texts[place]}", style=_QUIET)
        yield Padding(text, (0, 0, 0, indent))


def _columns(
    block: doc.Table, rows: Sequence[doc.Row], widths: dict[int, int], *, headed: bool = True
) -> RenderableType:
    drawn = RichTable(
        box=None, pad_edge=False, header_style=_QUIET, padding=(0, _GAP, 0, 0), show_header=headed
    )
    for place, width in widths.items():
        column = block.columns[place]
        justify: JustifyMethod = "right" if column.align is doc.Align.RIGHT else "left"
        drawn.add_column(Text(column.heading), justify=justify, width=width, overflow="fold")
    for row in rows:
        drawn.add_row(*(_cell(block, row, place) for place in widths))
    return drawn


def _cards_of(document: doc.Document) -> doc.VerdictCards:
    blocks = (block for section in document.sections for block in section.blocks)
    found = (block for block in blocks if isinstance(block, doc.VerdictCards))
    return next(found, doc.VerdictCards(cards=()))


def _is_short(block: doc.VerdictCards) -> bool:
    """Return whether there are so many results that a first screen has not the whole cards."""
    return bool(block.rankings) or len(block.cards) > _WHOLE_CARDS


def _plain(block: doc.Block, most: int | None) -> RenderableType:
    """Return a list, as many of its items as there is room for, or a command."""
    match block:
        case doc.BulletList():
            items = RichTable.grid(padding=(0, 1, 0, 0))
            for each in block.items[:most]:
                items.add_row("-", Text(each))
            return Group(Text(block.lead, style=_QUIET), items)
        case doc.Command():
            return Padding(Text(block.text, overflow="fold"), (0, 0, 0, _GAP))
        case _:
            return Text()


def _spaced(blocks: list[RenderableType]) -> list[RenderableType]:
    return [part for block in blocks for part in (Text(), block)]


def _cell(block: doc.Table, row: doc.Row, place: int) -> Text:
    return Text(row.texts[place], style=_tone(block, row, place))


def _tone(block: doc.Table, row: doc.Row, place: int) -> str:
    return _STYLE[row.tone] if place == block.tone_column else ""


def _widths(block: doc.Table, room: int, *, above: bool = False) -> dict[int, int] | None:
    """Return the width of each column to show, by its place; None where they have no room.

    Neither numbers nor words are broken; headings and texts are, between words. Where that is not
    enough, spare columns are left out, the last first; those that tell rows apart stay. ``above``:
    without those that may stand below the others.
    """
    wanted = {
        place: _wanted(block, place)
        for place, column in enumerate(block.columns)
        if not (above and column.below)
    }
    for place in reversed(tuple(wanted)):
        if _total(wanted) > room and block.columns[place].spare and not block.tells_apart(place):
            del wanted[place]
    widths = dict(wanted)
    for place in sorted(wanted, key=lambda place: -wanted[place]):
        widths[place] -= max(0, min(_total(widths) - room, widths[place] - _least(block, place)))
    if _total(widths) > room:
        return None
    for place in wanted:
        most = max(widths[place], len(block.columns[place].heading))
        widths[place] += max(0, min(most - widths[place], room - _total(widths)))
    return widths


def _wanted(block: doc.Table, place: int) -> int:
    """Return the width at which a column breaks nothing but its heading."""
    heading = _longest_word(block.columns[place].heading)
    return max([heading, *(len(row.texts[place]) for row in block.rows)])


def _least(block: doc.Table, place: int) -> int:
    """Return the width that a column keeps: of numbers all of it, of texts some words a line."""
    wanted = _wanted(block, place)
    if block.columns[place].align is doc.Align.RIGHT and wanted <= _LONGEST_NUMBER:
        return wanted
    words = (_longest_word(row.texts[place]) for row in block.rows)
    return max([_longest_word(block.columns[place].heading), min(wanted, _LEAST_WORDS), *words])


def _longest_word(text: str) -> int:
    return max((len(word) for word in text.split()), default=0)


def _total(widths: dict[int, int]) -> int:
    return sum(width + _GAP for width in widths.values()) - _GAP


def _whole_clauses(text: str, room: int) -> str:
    """Return the begin of a text: better whole clauses than all that fits."""
    cut = text[: max(room - 2, 1)]
    clause = max(cut.rfind(";"), cut.rfind(","))
    return f"{(cut[:clause] if clause > room // 2 else cut.rsplit(' ', 1)[0]).rstrip(',;')} …"


def _marked(words: str, card: doc.VerdictCard) -> Text:
    """Return a verdict whose parts have the colour of its tone."""
    text = Text(words)
    for part in filter(None, card.marked):
        start = words.find(part)
        if start >= 0:
            text.stylize(_STYLE[card.tone], start, start + len(part))
    return text


def _scale(axis: doc.Axis, length: int) -> Text:
    """Return the numbers of an axis, each above its place; those that have no room are left out."""
    line = ""
    for tick in axis.ticks:
        label = axis.label(tick)
        place = max(0, round(axis.place(tick) * (length - 1)) - len(label) // 2)
        if place > len(line) or not line:
            line = f"{line:<{place}}{label}"
    return Text(line, style=_QUIET)


def _drawing(drawing: doc.IntervalDrawing, style: str, length: int) -> Text:
    """Return the interval as characters: the margin dotted, zero upright, the interval heavy."""
    axis = drawing.axis

    def at(percent: float) -> int:
        return round(axis.place(percent) * (length - 1))

    line = [" "] * length
    for position in range(at(-axis.margin), at(axis.margin) + 1):
        line[position] = "·"
    for position in range(at(drawing.low), at(drawing.high) + 1):
        line[position] = "━"
    line[at(0.0)] = "┿" if line[at(0.0)] == "━" else "│"
    line[at(drawing.value)] = "◆"
    text = Text()
    for heavy, characters in groupby(line, key=lambda character: character in "━┿◆"):
        text.append("".join(characters), style=style if heavy else _QUIET)
    return text


def _finding(item: doc.FindingItem) -> RenderableType:
    text = Text(item.severity, style=_STYLE[item.tone])
    text.append(f" ({item.subject})" if item.subject else "", style=_QUIET)
    text.append(f": {item.message}")
    if not item.remedy:
        return text
    return Group(text, Padding(Text(item.remedy, style=_QUIET), (0, 0, 0, 2)))
