"""A document as one HTML file without network or script, as Markdown, and its tables as CSV.

Markdown is that of GitHub.
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, singledispatch
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from markupsafe import escape as escaped

from steelyard.report import document as doc
from steelyard.report.charts import INSTALL, can_draw, on_white, settle
from steelyard.report.document import Align


def render_html(document: doc.Document, *, opened: bool = False) -> str:
    """Return the document, charts drawn into it where that is possible; its details are closed."""
    template = _environment().get_template("report.html.j2")
    return template.render(document=document, opened=opened)


@cache
def _environment() -> Environment:
    """Return the templates, compiled once."""
    environment = Environment(
        loader=PackageLoader("steelyard.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_unbroken,
    )
    environment.filters["clauses"] = _clauses
    environment.filters["kind"] = lambda block: type(block).__name__  # names the macro for it
    environment.filters["chart"] = _chart
    environment.filters["narrow_chart"] = lambda figure: _chart(replace(figure, narrow=True))
    environment.filters["place"] = lambda drawing, at: f"{100 * drawing.place(at):.2f}"  # %
    environment.filters["card_rows"] = _card_rows
    environment.globals["install_charts"] = INSTALL
    return environment


def render_chart(figure: doc.Figure) -> str | None:
    """Return a figure as an SVG element to put into a page; None when it cannot be drawn here."""
    if not can_draw() or not figure.rows:
        return None
    import vl_convert  # noqa: PLC0415 - an extra, and slow to import

    from steelyard.report.chart_specs import specification  # noqa: PLC0415 - imports Altair

    figure = doc.harmless(figure)  # the library ends the process where a text is not valid XML
    # No address is allowed: a chart is drawn from its own rows or not at all.
    written = specification(doc.harmless(figure, _shortened))
    drawn = vl_convert.vegalite_to_svg(written, allowed_base_urls=[])
    identity = f"{figure.identity}-narrow" if figure.narrow else figure.identity
    return settle(drawn, identity=identity, title=figure.title, alt=figure.alt)


def _shortened(text: str) -> str:
    """Return a text as long as a chart has room for: the library measures each letter."""
    return text if len(text) <= _LONGEST_DRAWN else f"{text[: _LONGEST_DRAWN - 41]}…{text[-40:]}"


def _chart(figure: doc.Figure) -> Markup | None:
    """Return the drawing; it is made of text that the drawing library and ``settle`` escaped."""
    drawn = render_chart(figure)
    return None if drawn is None else Markup(drawn)  # noqa: S704


def _card_rows(block: doc.VerdictCards) -> list[list[doc.VerdictCard]]:
    """Return one row per workload, or a single row while each workload has only one card.

    None where a ranking takes their place.
    """
    if block.rankings:
        return []
    rows: dict[str, list[doc.VerdictCard]] = {}
    for card in block.cards:
        rows.setdefault(card.workload, []).append(card)
    if all(len(row) == 1 for row in rows.values()):
        return [list(block.cards)]
    return list(rows.values())


def _unbroken(value: object) -> object:
    """Return a text with its percent signs tied to their numbers; markup stays as it is."""
    return value.replace(" %", "\N{NO-BREAK SPACE}%") if type(value) is str else value


_LONGEST_DRAWN = 200
_MOST_UNBROKEN = 26  # characters that fit into a card on a phone


def _clauses(text: str, separator: str) -> Markup:
    """Return a text that breaks between its clauses only, where these are short.

    So a date stays whole, and a figure with what it is of and its unit.
    """
    clause = Markup('<span class="whole">{}</span>')
    each = (str(_unbroken(part)) for part in text.split(separator))
    return escaped(separator).join(
        clause.format(part) if len(part) <= _MOST_UNBROKEN else part for part in each
    )


# Underscores within words and brackets that make no link are left alone, so that
# shared_buffers and [+1 %, +2 %] stay legible in the source too.
_SPECIAL = re.compile(r"([\\`*<>|#~&]|(?<!\w)_|_(?!\w)|\](?=[(\[:]))")
# Paths and addresses of servers are copied out of the source: code keeps them as they are.
_CODE = re.compile(
    r"(?:(?<=[\s(\[\"'=,;])|^)"
    r"((?!https?:)[a-z][a-z0-9+]*://[^\s`|<>]*[\w/]|/[\w.+@%/-]*\w)"
)
_MARK = {doc.Tone.WARNING: "**Note:** ", doc.Tone.ERROR: "**Attention:** "}


def render_markdown(document: doc.Document, *, short: bool = False) -> str:
    """Return the document, unless it is ``short`` with its details and its charts in words."""
    parts = [f"# {escape(document.title)}", escape(document.subtitle)]
    parts += [escape(text) for text in (document.place, document.description) if text]
    parts += map(_block, document.setup)
    linked = {
        link.address
        for section in document.sections
        for block in section.blocks
        if isinstance(block, doc.BulletList)
        for link in block.links
        if link is not None
    }
    anchors = {f"#{section.anchor}" for section in document.sections}
    for part in document.parts:
        parts.append(f"## {escape(part.title)}")
        for section in part.sections:
            if f"#{section.anchor}" in linked:
                parts.append(f'<a id="{section.anchor}"></a>')
            if section.blocks:
                parts += _headed(section.title, part.title)
                parts += [_shown(_to(anchors, b), section.title, short) for b in section.blocks]
        detailed = [section for section in part.sections if section.more]
        if detailed and short:
            names = "; ".join(section.more_title for section in detailed)
            parts.append(f"Details, with `steelyard report DIR --full`: {escape(names)}.")
            continue
        for section in detailed:
            parts += _headed(section.more_title, part.title)
            parts += [_titled(block, section.more_title) for block in section.more]
    return "\n\n".join(parts) + "\n"


def _headed(title: str, above: str) -> list[str]:
    return [] if title == above else [f"### {escape(title)}"]


def _shown(block: doc.Block, heading: str, short: bool) -> str:  # noqa: FBT001 - of the whole page
    if isinstance(block, doc.Figure) and short and not block.file:
        return f"*{escape(block.title)}* (drawn in the HTML report)"
    return _titled(_narrowed(block) if isinstance(block, doc.Table) and short else block, heading)


def _narrowed(table: doc.Table) -> doc.Table:
    """Return a table without spare columns, but for those that tell its rows apart."""
    kept = [n for n, c in enumerate(table.columns) if not c.spare or table.tells_apart(n)]
    rows = (doc.Row(cells=tuple(row.texts[n] for n in kept)) for row in table.rows)
    return replace(table, columns=tuple(table.columns[n] for n in kept), rows=tuple(rows))


def _to(anchors: set[str], block: doc.Block) -> doc.Block:
    """Return a block with links to sections alone: Markdown has no other places."""
    if not isinstance(block, doc.BulletList):
        return block
    links = (link if link and link.address in anchors else None for link in block.links)
    return replace(block, links=tuple(links))


_MOST_LINES: Final = 10  # of a summary, the empty one counted
_MOST_NOTES: Final = 5  # beside answers


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """A line of a summary, and what stands below it where there is room.

    Attributes:
        remark: It says what the answers are worth, or what a gate makes of them.
        grave: It is read before other remarks.
    """

    line: str
    below: tuple[str, ...] = ()
    remark: bool = False
    grave: bool = False


def render_summary(document: doc.Document) -> str:
    """Return what answers the question itself, in at most ten lines of Markdown.

    Verdicts with their rates, rankings and tables in a sentence, the gate, and what to read before
    relying on it.
    """
    titled = f"**{escape(document.title)}**: {escape(document.subtitle)}"
    setup = [
        "; ".join(f"{escape(name)}: {escape(value)}" for name, value in block.pairs)
        for block in document.setup[:1]
    ]
    head = [titled, *([escape(document.place)] if document.place else []), *setup, ""]
    told = [
        each
        for section in document.sections
        if section.first
        for block in section.brief or section.blocks
        for each in _told(block)
    ]
    return "\n".join([*head, *_fitted(told, _MOST_LINES - len(head))]) + "\n"


def _fitted(told: Sequence[_Told], room: int) -> list[str]:
    """Return as many lines as there is room for: remarks outlast answers, the rest is counted."""
    if len(told) + sum(len(each.below) for each in told) <= room:
        return [
            line
            for each in told
            for line in (f"- {each.line}", *(f"  - {below}" for below in each.below))
        ]
    remarks = [each for each in told if each.remark]
    answers = [each for each in told if not each.remark]
    if len(told) > room:
        most = max(_MOST_NOTES, room - 1 - len(answers))
        remarks = sorted(remarks, key=lambda each: not each.grave)[:most]
        answers = answers[: room - 1 - len(remarks)]
    left = len(told) - len(answers) - len(remarks)
    more = [f"- and {left} more, in the report"] if left else []
    lines = ["; ".join([each.line, *each.below]) for each in answers]
    return [*(f"- {line}" for line in lines), *more, *(f"- {each.line}" for each in remarks)]


@singledispatch
def _told(_block: doc.Block) -> Iterator[_Told]:
    """Yield what a summary tells of a block; each kind registers its own way, else nothing."""
    yield from ()


@_told.register
def _(block: doc.Paragraph) -> Iterator[_Told]:
    if block.tone is not doc.Tone.PLAIN:  # all else explains
        grave = block.tone in (doc.Tone.ERROR, doc.Tone.BAD)
        yield _Told(line=_block(block), remark=True, grave=grave)


@_told.register
def _(block: doc.BulletList) -> Iterator[_Told]:
    yield _Told(line=escape(block.lead), below=tuple(map(escape, block.items)))


@_told.register
def _(block: doc.VerdictCards) -> Iterator[_Told]:
    for table in block.rankings:
        yield from _told(table)
    for card in () if block.rankings else block.cards:
        yield _Told(line=f"**{escape(card.sentence)}**", below=tuple(map(escape, card.remarks)))


@_told.register
def _(block: doc.Table) -> Iterator[_Told]:
    rows = f"{block.title}: a table of {len(block.rows)} rows, in the report."
    yield _Told(line=escape(block.gist or rows))


@_told.register
def _(block: doc.KeyValues) -> Iterator[_Told]:
    yield from (_Told(line=f"**{escape(name)}**: {escape(value)}") for name, value in block.pairs)


def escape(text: str) -> str:
    """Return text that Markdown shows as it is, on one line, with paths as code."""
    parts = _CODE.split(" ".join(text.split()))  # every second one is a path
    return "".join(
        f"`{part}`" if place % 2 else _SPECIAL.sub(r"\\\1", part)
        for place, part in enumerate(parts)
    )


def _titled(block: doc.Block, heading: str) -> str:
    if isinstance(block, doc.Table) and block.title != heading:
        return f"**{escape(block.title)}**\n\n{_block(block)}"
    return _block(block)


def published_files(document: doc.Document, name: str) -> dict[str, str]:
    """Return a document as files by their names: a page, Markdown, its drawings and its tables.

    Args:
        document: To be published.
        name: Of page and Markdown, without what ends it.
    """
    drawings: dict[str, str] = {}
    tables: dict[str, str] = {}
    sections = []
    for section in document.sections:
        blocks: list[doc.Block] = []
        for number, block in enumerate(section.every, start=1):
            if isinstance(block, doc.Table):
                tables[f"tables/{section.anchor}-{number}.csv"] = table_csv(block)
            drawn = render_chart(block) if isinstance(block, doc.Figure) else None
            if drawn is not None and isinstance(block, doc.Figure):
                file = f"charts/{block.identity}.svg"
                drawings[file] = on_white(drawn) + "\n"
                blocks.append(replace(block, file=file))
            else:
                blocks.append(block)
        sections.append(replace(section, blocks=tuple(blocks), more=()))
    filed = replace(document, sections=tuple(sections))
    return {
        f"{name}.html": render_html(document),
        f"{name}.md": render_markdown(filed),
        **drawings,
        **tables,
    }


# A spreadsheet computes what begins so; numbers with a sign it reads as numbers.
_FORMULA: Final = re.compile(r"[=@]|[+-](?![\d.])")


def table_csv(table: doc.Table) -> str:
    """Return a table as CSV: its data under their keys, or its cells if it has texts alone."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if table.data:
        fullest_first = sorted(table.data, key=len, reverse=True)
        keys = dict.fromkeys(key for row in fullest_first for key, _ in row)
        writer.writerow(keys)
        rows = [[row.get(key) for key in keys] for row in map(dict, table.data)]
    else:
        writer.writerow(column.heading for column in table.columns)
        rows = [list(row.cells) for row in table.rows]
    writer.writerows([_harmless(value) for value in row] for row in rows)
    return text.getvalue()


def _harmless(value: doc.Value) -> doc.Value:
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def render_csv(document: doc.Document) -> str:
    """Return the tables of a document, with an empty line between two."""
    blocks = (block for section in document.sections for block in section.every)
    return "\n".join(table_csv(block) for block in blocks if isinstance(block, doc.Table))


@singledispatch
def _block(block: doc.Block) -> str:
    """Return one block; each kind registers its own way."""
    raise NotImplementedError(type(block).__name__)


@_block.register
def _(block: doc.Paragraph) -> str:
    return f"{_MARK.get(block.tone, '')}{escape(block.text)}"


@_block.register
def _(block: doc.BulletList) -> str:
    items = "\n".join(
        f"- {escape(item)}" + (f" ([{escape(link.text)}]({link.address}))" if link else "")
        for item, link in block.linked
    )
    return f"**{escape(block.lead)}**\n\n{items}"


@_block.register
def _(block: doc.VerdictCards) -> str:
    tables = [_titled(each, "") for each in block.rankings]
    lines = [
        line
        for card in block.cards
        for line in (
            f"- **{escape(card.sentence)}**",
            *(f"  - {escape(note)}" for note in card.remarks),
        )
    ]
    return "\n\n".join([*tables, "\n".join(lines)])


@_block.register
def _(block: doc.Table) -> str:
    rule = ["---:" if c.align is Align.RIGHT else "---" for c in block.columns]
    lines = [_row(tuple(c.heading for c in block.columns)), f"| {' | '.join(rule)} |"]
    lines += [_row(row.texts) for row in block.rows]
    note = f"\n\n{escape(block.note)}" if block.note else ""
    return "\n".join(lines) + note


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(escape(cell) for cell in cells)} |"


@_block.register
def _(block: doc.Figure) -> str:
    if block.file:
        title, alt, caption = map(escape, (block.title, block.alt, block.caption))
        return f"**{title}**\n\n![{alt}]({block.file})\n\n{caption}"
    return f"*{escape(block.title)}* (drawn in the HTML report). {escape(block.alt)}"


@_block.register
def _(block: doc.FindingList) -> str:
    lines = []
    for item in block.items:
        subject = f" ({escape(item.subject)})" if item.subject else ""
        remedy = f" {escape(doc.ended(item.remedy))}" if item.remedy else ""
        source = f" *Source: {escape(item.source)}.*" if item.source else ""
        message = escape(doc.ended(item.message))
        lines.append(f"- **{item.severity}**{subject}: {message}{remedy}{source}")
    return "\n".join(lines)


@_block.register
def _(block: doc.Command) -> str:
    longest = max((len(ticks) for ticks in re.findall(r"`+", block.text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{block.language}\n{block.text}\n{fence}"


@_block.register
def _(block: doc.KeyValues) -> str:
    heading = f"**{escape(block.title)}**\n\n" if block.title else ""
    lines = ["| | |", "| --- | --- |", *(_row(pair) for pair in block.pairs)]
    return heading + "\n".join(lines)
