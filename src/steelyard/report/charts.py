"""Charts as self-contained SVG: Altair writes Vega-Lite, vl-convert draws it.

Both are an extra and slow to import, so they are imported when the first chart is drawn; without
them ``render_chart`` returns None and the report says what to install.
"""

from importlib.util import find_spec

from steelyard.report.document import Figure
from steelyard.report.svg import settle

INSTALL = "pip install steelyard[charts]"


def can_draw() -> bool:
    """Return whether the packages of the extra ``charts`` are installed."""
    return all(find_spec(name) is not None for name in ("altair", "vl_convert"))


def render_chart(figure: Figure) -> str | None:
    """Return a figure as an SVG element to put into a page; None when it cannot be drawn here."""
    if not can_draw() or not figure.rows:
        return None
    import vl_convert  # noqa: PLC0415 - an extra, and slow to import

    from steelyard.report.chart_specs import specification  # noqa: PLC0415 - imports Altair

    # No address is allowed: a chart is drawn from its own rows or not at all.
    drawn = vl_convert.vegalite_to_svg(specification(figure), allowed_base_urls=[])
    return settle(drawn, identity=figure.identity, title=figure.title, alt=figure.alt)
