"""A document as one HTML file: no network, no script, light and dark, paper and phone."""

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from steelyard.report.charts import INSTALL, render_chart
from steelyard.report.document import (
    Block,
    Document,
    Figure,
    IntervalDrawing,
    VerdictCard,
    VerdictCards,
)


def render_html(document: Document) -> str:
    """Return the whole document; charts are drawn into it where that is possible."""
    return _environment().get_template("report.html.j2").render(document=document)


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("steelyard.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_unbroken,
    )
    environment.filters["kind"] = _kind
    environment.filters["chart"] = _chart
    environment.filters["place"] = _place
    environment.filters["card_rows"] = _card_rows
    environment.globals["install_charts"] = INSTALL
    return environment


def _kind(block: Block) -> str:
    """Return the name of the macro that renders a block."""
    return type(block).__name__


def _chart(figure: Figure) -> Markup | None:
    """Return the drawing; it is made of text that the drawing library and ``svg`` escaped."""
    drawn = render_chart(figure)
    return None if drawn is None else Markup(drawn)  # noqa: S704


def _card_rows(block: VerdictCards) -> list[list[VerdictCard]]:
    """Return one row per workload, or a single row while each workload has only one card."""
    rows: dict[str, list[VerdictCard]] = {}
    for card in block.cards:
        rows.setdefault(card.workload, []).append(card)
    if all(len(row) == 1 for row in rows.values()):
        return [list(block.cards)]
    return list(rows.values())


def _unbroken(value: object) -> object:
    """Return a text with its percent signs tied to their numbers; markup stays as it is."""
    return value.replace(" %", "\N{NO-BREAK SPACE}%") if type(value) is str else value


def _place(drawing: IntervalDrawing, percent: float) -> str:
    """Return a position on a verdict's line as a percentage of its length."""
    return f"{100 * drawing.place(percent):.2f}"
