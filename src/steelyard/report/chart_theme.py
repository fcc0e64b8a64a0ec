"""Colours and type of the charts: calm, legible for the colour-blind, the same everywhere.

The inks are exact values on purpose: the page's style sheet finds them and swaps them in the dark.
"""

INK = "#1f2a37"
MUTED = "#5b6775"
GRID = "#e3e7ec"

# Baseline in neutral grey, the others after Okabe and Ito (without black and yellow); a brown
# besides, so that all combinations of three factors differ.
BASELINE = "#76828f"
CONTENDERS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8a5a2b")

MORE, LESS = "#d55e00", "#009e73"  # of a latency; texts say it beside

# What a second was spent on; calm colours for what is no work of the server.
_LINES = {
    "tps": "#0072b2",
    "ops/s": "#0072b2",
    "CPU": "#009e73",
    "data files": "#e69f00",
    "WAL": "#d55e00",
    "LWLock": "#cc79a7",
    "locks": "#8a5a2b",
    "standby": "#56b4e9",
    "other waits": "#f0e442",
    "client": "#b8c1ca",
    "server": "#009e73",
    "generator": "#56b4e9",
    "other processes": "#d55e00",
    "idle": "#dfe4e9",
    "device busy": "#e69f00",
    "throttled": "#cc79a7",
}

WIDTH = 900  # px, whole chart


def colours(treatments: tuple[str, ...]) -> list[str]:
    """Return one colour per treatment; the baseline comes first."""
    others = (CONTENDERS[i % len(CONTENDERS)] for i in range(max(0, len(treatments) - 1)))
    return [BASELINE, *others][: len(treatments)]


def line_colour(name: str) -> str:
    """Return the colour of a line of a timeline."""
    return _LINES.get(name, BASELINE)


def configuration() -> dict[str, object]:
    """Return the Vega-Lite configuration that all charts share."""
    quiet = {"domain": False, "ticks": False, "grid": True, "gridColor": GRID}
    return {
        "background": "transparent",
        "font": "sans-serif",
        # Room for a font that is wider than the one the drawing was measured with.
        "padding": {"left": 5, "top": 5, "right": 40, "bottom": 5},
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
        "axisX": {"titlePadding": 8, "tickCount": 7, "labelFlush": False},
        "axisY": {"titlePadding": 10},
        "title": {
            "color": INK,
            "fontSize": 13,
            "fontWeight": "bold",
            "anchor": "start",
            "frame": "group",
            "offset": 8,
        },
        "legend": {
            "labelColor": INK,
            "labelFontSize": 12,
            "orient": "top",
            "title": None,
            "symbolType": "stroke",
            "symbolStrokeWidth": 3,
            "symbolOpacity": 1,
            "offset": 12,
        },
        "concat": {"spacing": 26},
    }
