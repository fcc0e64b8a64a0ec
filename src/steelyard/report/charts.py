"""How charts look, and their drawings as self-contained SVG.

Altair writes Vega-Lite (``chart_specs``), vl-convert draws it; both are an extra. A settled drawing
is the same bytes every time, and fit to stand beside others in one page.

The inks are exact values on purpose: the page's style sheet finds them and swaps them in the dark.
A configuration has the same colour in all charts.
"""

import re
from html import escape
from importlib.util import find_spec

_ID = re.compile(r'\bid="([^"]+)"')
_ROOT = re.compile(r"<svg\b[^>]*>")
# What the drawing library adds for its own scripts and for every mark; nothing of it is visible.
_UNSEEN = re.compile(
    r'<path class="(?:background|foreground)"(?:(?! fill=| stroke=)[^>])*/>'
    r'|<path class="foreground"[^>]*display="none"[^>]*/>'
)
_UNUSED = re.compile(r' (?:class|role|aria-[a-z]+|pointer-events)="[^"]*"')
_TAG = re.compile(r"<[^>]+>")
_LONG_DECIMAL = re.compile(r"(\.[0-9]{2})[0-9]+")
_SIZE = re.compile(r'\bviewBox="0 0 ([0-9.]+) ([0-9.]+)"')


def settle(drawn: str, *, identity: str, title: str, alt: str) -> str:
    """Return the drawing with its own ids, a title and a description, and no fixed size.

    The drawing library numbers ids with a counter that lives as long as the process, and starts
    at the same number in every process: neither stable nor unique within a page.
    """
    root = _ROOT.search(drawn)
    if root is None:
        return drawn
    body = _TAG.sub(
        # Without attributes that nobody uses, and to the hundredth of a pixel.
        lambda tag: _LONG_DECIMAL.sub(r"\1", _UNUSED.sub("", tag[0])),
        _UNSEEN.sub("", drawn[root.end() :]),
    )
    for number, old in enumerate(dict.fromkeys(_ID.findall(body))):
        new = f"{identity}-{number}"
        body = body.replace(f'id="{old}"', f'id="{new}"')
        body = body.replace(f"url(#{old})", f"url(#{new})").replace(f'"#{old}"', f'"#{new}"')
    return (
        f"{_opening(root[0], identity)}"
        f'<title id="{identity}-title">{escape(title)}</title>'
        f'<desc id="{identity}-alt">{escape(alt)}</desc>{body}'
    )


def _opening(root: str, identity: str) -> str:
    size = _SIZE.search(root)
    width, height = (size[1], size[2]) if size else ("100", "100")
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" role="img" '
        f'aria-labelledby="{identity}-title {identity}-alt" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    )


def on_white(settled: str) -> str:
    """Return a settled drawing with a background, for a file that stands alone on any page."""
    size = _SIZE.search(settled)
    if size is None:
        return settled
    return settled.replace(
        "</desc>", f'</desc><rect width="{size[1]}" height="{size[2]}" fill="white"/>', 1
    )


INSTALL = "pip install altair vl-convert-python"


def can_draw() -> bool:
    """Return whether the packages of the extra ``charts`` are installed."""
    return all(find_spec(name) is not None for name in ("altair", "vl_convert"))


INK = "#1f2a37"
MUTED = "#5b6775"
GRID = "#e3e7ec"

# A colour means one thing on a page. Verdicts have theirs in the style sheet (faster, slower,
# equivalent, unclear), configurations these, and parts of a time the tints below. The baseline is
# neutral, the first four others are after Okabe and Ito; as many as combinations of three factors.
BASELINE = "#3d4b5c"
CONTENDERS = ("#0072b2", "#cc79a7", "#8a5a2b", "#56b4e9", "#882255", "#999933", "#005f73")
SHADE = "#76828f"  # of what does not count, and of a margin

MORE, LESS = "#d55e00", "#009e73"  # of a latency: slower and faster, as verdicts are

# What a second was spent on: tints, because full colours are configurations and verdicts.
_PARTS = {
    "CPU": "#93cdb5",
    "data files": "#f2c879",
    "WAL": "#e59c78",
    "LWLock": "#dcb2cf",
    "locks": "#bf9f80",
    "standby": "#a9cfe8",
    "other waits": "#ece58a",
    "client": "#b8c1ca",
    "server": "#93cdb5",
    "generator": "#a9cfe8",
    "other processes": "#e59c78",
    "idle": "#dfe4e9",
    "device busy": "#f2c879",
    "throttled": "#dcb2cf",
    "reads": "#a9cfe8",
    "writes": "#e59c78",
    "in flight": "#93cdb5",
}


def colours(configurations: tuple[str, ...]) -> list[str]:
    """Return one colour per configuration; the baseline comes first."""
    others = (CONTENDERS[i % len(CONTENDERS)] for i in range(max(0, len(configurations) - 1)))
    return [BASELINE, *others][: len(configurations)]


def part_colour(name: str) -> str:
    """Return the colour of a part of the seconds of a timeline."""
    return _PARTS.get(name, SHADE)


_APART = {"labelOverlap": "parity", "labelSeparation": 4}


def configuration(*, narrow: bool = False) -> dict[str, object]:
    """Return the Vega-Lite configuration that all charts share."""
    quiet = {"domain": False, "ticks": False, "grid": True, "gridColor": GRID}
    return {
        "background": "transparent",
        "font": "sans-serif",
        # Room for a font that is wider than the one the drawing was measured with.
        "padding": {"left": 14, "top": 5, "right": 40, "bottom": 5},
        "aria": False,  # the whole drawing has one title and description instead
        "view": {"stroke": None},
        "axis": {
            "labelColor": MUTED,
            "titleColor": MUTED,
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "labelPadding": 6,
            "labelLimit": 260,
            **quiet,
        },
        "axisX": {
            "titlePadding": 8,
            "tickCount": 7,
            "labelFlush": False,
            **(_APART if narrow else {}),
        },
        "axisY": {"titlePadding": 10},
        "title": {
            "color": INK,
            "fontSize": 13,
            "fontWeight": "bold",
            "anchor": "start",
            "frame": "bounds" if narrow else "group",
            "offset": 8,
        },
        "legend": {
            "labelColor": INK,
            "labelFontSize": 12,
            "labelLimit": 300,
            "orient": "top",
            "title": None,
            "symbolType": "stroke",
            "symbolStrokeWidth": 3,
            "symbolOpacity": 1,
            "offset": 12,
        },
        "concat": {"spacing": 26},
    }
