"""The short report for a terminal: verdicts, tables, findings, and where the files are."""

import io
from functools import singledispatch

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table as RichTable
from rich.text import Text

from steelyard.report.document import (
    Align,
    Block,
    Document,
    FindingItem,
    FindingList,
    IntervalDrawing,
    Paragraph,
    Section,
    Table,
    Tone,
    VerdictCard,
    VerdictCards,
)

# What a terminal shows; the rest is in the files.
_SHOWN = ("verdicts", "cells", "comparisons", "findings", "settings")
_STYLE = {
    Tone.GOOD: "bold green",
    Tone.BAD: "bold red",
    Tone.EVEN: "bold cyan",
    Tone.OPEN: "bold",
    Tone.WARNING: "bold yellow",
    Tone.ERROR: "bold red",
    Tone.PLAIN: "",
}
_QUIET = "dim"


def render_terminal(
    document: Document, width: int = 100, *, colour: bool = False, files: tuple[str, ...] = ()
) -> str:
    """Return the short report as text, with escape sequences only if ``colour`` is set.

    Args:
        document: The whole report.
        width: Columns of the terminal.
        colour: Whether the terminal understands colours.
        files: Where the whole report lies, to be named at the end.
    """
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        highlight=False,
        legacy_windows=False,
        soft_wrap=False,
    )
    console.print(terminal_report(document, files))
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n"))


def terminal_report(document: Document, files: tuple[str, ...] = ()) -> RenderableType:
    """Return the short report for a console that the caller owns."""
    parts: list[RenderableType] = [
        Text(document.title, style="bold"),
        Text(document.subtitle, style=_QUIET),
    ]
    parts += [_section(s) for s in document.sections if s.anchor in _SHOWN]
    if files:
        parts += [Text(), Text("The whole report:", style=_QUIET)]
        parts += [Text(f"  {path}") for path in files]
    return Group(*parts)


def _section(section: Section) -> RenderableType:
    blocks = [_block(block) for block in section.blocks]
    if section.anchor == "verdicts":
        return Group(Text(), *blocks)
    heading = Rule(Text(section.title, style="bold"), align="left", style=_QUIET, characters="─")
    return Group(Text(), heading, *blocks)


@singledispatch
def _block(block: Block) -> RenderableType:
    """Return one block; each kind that a terminal shows registers its own way."""
    raise NotImplementedError(type(block).__name__)


@_block.register
def _(block: Paragraph) -> RenderableType:
    return Text(block.text, style=_STYLE[block.tone])


@_block.register
def _(block: VerdictCards) -> RenderableType:
    return Group(*(_card(card) for card in block.cards))


def _card(card: VerdictCard) -> RenderableType:
    before, word, after = card.sentence.partition(card.word)
    sentence = Text(before, style="bold" if not word else "")
    sentence.append(word, style=_STYLE[card.tone])
    sentence.append(after)
    lines: list[RenderableType] = [sentence]
    if card.drawing is not None:
        lines.append(Padding(_drawing(card.drawing, _STYLE[card.tone]), (0, 0, 0, 2)))
    lines += [Padding(Text(note, style=_QUIET), (0, 0, 0, 2)) for note in card.notes]
    return Group(*lines)


def _drawing(drawing: IntervalDrawing, style: str, cells: int = 56) -> Text:
    """Return the interval as characters: the margin dotted, zero upright, the interval heavy."""

    def at(percent: float) -> int:
        return round(drawing.place(percent) * (cells - 1))

    line = [" "] * cells
    for position in range(at(-drawing.margin), at(drawing.margin) + 1):
        line[position] = "·"
    for position in range(at(drawing.low), at(drawing.high) + 1):
        line[position] = "━"
    line[at(0.0)] = "┿" if line[at(0.0)] == "━" else "│"
    line[at(drawing.value)] = "◆"
    text = Text()
    for character in line:
        text.append(character, style=style if character in "━┿◆" else _QUIET)
    return text


@_block.register
def _(block: Table) -> RenderableType:
    table = RichTable(box=None, pad_edge=False, header_style=_QUIET, padding=(0, 2, 0, 0))
    for column in block.columns:
        right = column.align is Align.RIGHT
        table.add_column(Text(column.heading), justify="right" if right else "left")
    for row in block.rows:
        cells = [Text(cell) for cell in row.cells]
        if block.tone_column is not None:
            cells[block.tone_column].stylize(_STYLE[row.tone])
        table.add_row(*cells)
    return table


@_block.register
def _(block: FindingList) -> RenderableType:
    return Group(*(_finding(item) for item in block.items))


def _finding(item: FindingItem) -> RenderableType:
    text = Text(item.severity, style=_STYLE[item.tone])
    text.append(f" ({item.subject})" if item.subject else "", style=_QUIET)
    text.append(f": {item.message}")
    if not item.remedy:
        return text
    return Group(text, Padding(Text(item.remedy, style=_QUIET), (0, 0, 0, 2)))
