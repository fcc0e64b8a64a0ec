"""Specifications of the charts that show latency; imports Altair."""

import json
import math
from typing import Any

import altair as alt

from steelyard.report import chart_theme as theme
from steelyard.report.chart_panels import (
    Drawing,
    Panel,
    chart_of,
    colour_of,
    layered,
    run_ticks,
    side_by_side,
    stacked,
)
from steelyard.report.document import Figure
from steelyard.report.latency_figures import WINDOWS

# Where the axis of shares has its marks: so many nines, but for the median.
_MARKS = {
    "0 %": 0.0,
    "50 %": round(math.log10(2.0), 4),
    "90 %": 1.0,
    "99 %": 2.0,
    "99.9 %": 3.0,
    "99.99 %": 4.0,
    "99.999 %": 5.0,
    "99.9999 %": 6.0,
}
_MOST_TICKS = 6
# Numbers of each decade that an axis may show, most first.
_STEPS = (
    tuple(tenths / 10 for tenths in range(10, 100)),
    tuple(halves / 2 for halves in range(2, 20)),
    (1, 1.5, 2, 3, 4, 5, 6, 8),
    (1, 2, 5),
    (1, 3),
    (1,),
)
_SHAPES = {"p50": "circle", "p99": "triangle-up"}
_DASHES = {"p50": [1, 0], "p95": [6, 3], "p99": [2, 2]}


def tails(figure: Figure, panels: list[Panel]) -> Drawing:
    """Return a distribution per cell, two panels to a row."""
    width = 370 if len(panels) > 1 else 800
    return side_by_side([_tail_panel(figure, panel, width=width) for panel in panels])


def _tail_panel(figure: Figure, panel: Panel, *, width: int) -> Drawing:
    x = alt.X("latency:Q", axis=_log_axis("latency, ms", panel), scale=_log_scale())
    top: Any = max(panel.values("place"))
    marks = {name: place for name, place in _MARKS.items() if place <= top}
    places, names = list(marks.values()), list(marks)
    axis = alt.Axis(
        title=None,
        values=places,
        labelExpr=f"{json.dumps(names)}[indexof({json.dumps(places)}, datum.value)]",
    )
    y = alt.Y("place:Q", axis=axis, scale=alt.Scale(domain=[0.0, top], nice=False))
    base = chart_of(panel).encode(
        x=x, y=y, color=colour_of(figure, legend=True), order=alt.Order("place:Q")
    )
    told = base.transform_filter("datum.told").mark_line(strokeWidth=2)
    few = base.transform_filter("!datum.told").mark_line(strokeWidth=1.2, strokeDash=[3, 3])
    return layered(told, few, title=panel.title, width=width, height=230)


def over_time(figure: Figure, panels: list[Panel]) -> Drawing:
    """Return percentiles over runs as marks, over the seconds of long runs as lines."""
    draw = _window_panel if figure.identity == WINDOWS else _slice_panel
    return stacked([draw(figure, panel) for panel in panels])


def _slice_panel(figure: Figure, panel: Panel) -> Drawing:
    title = "runs, in the order they were made" if panel.last else None
    axis = alt.Axis(title=title, grid=False, format="d", values=run_ticks(panel.values("at")))
    x = alt.X("at:Q", axis=axis, scale=alt.Scale(nice=False, zero=False, padding=8))
    base = chart_of(panel).encode(x=x, y=_latency(panel), color=colour_of(figure, legend=True))
    line = base.mark_line(strokeWidth=1, opacity=0.35).encode(detail=alt.Detail("percentile:N"))
    marks = [
        base.transform_filter(f"datum.percentile == '{name}'").mark_point(
            shape=shape, filled=True, size=38, opacity=0.9, strokeWidth=0
        )
        for name, shape in _SHAPES.items()
    ]
    return layered(line, *marks, title=panel.title, width=theme.WIDTH - 80, height=130)


def _window_panel(figure: Figure, panel: Panel) -> Drawing:
    title = "seconds of the run" if panel.last else None
    x = alt.X("at:Q", axis=alt.Axis(title=title, grid=False), scale=alt.Scale(nice=False))
    names = [name for name in _DASHES if name in panel.values("percentile")]
    dashes = alt.Scale(domain=names, range=[_DASHES[name] for name in names])
    base = chart_of(panel).encode(x=x, y=_latency(panel), color=colour_of(figure, legend=True))
    line = base.mark_line(strokeWidth=1.6).encode(
        strokeDash=alt.StrokeDash("percentile:N", scale=dashes, legend=alt.Legend())
    )
    return layered(line, title=panel.title, width=theme.WIDTH - 80, height=170)


def _latency(panel: Panel) -> alt.Y:
    axis = _log_axis("ms", panel)
    axis.minExtent = axis.maxExtent = 44
    return alt.Y("latency:Q", axis=axis, scale=_log_scale())


def _log_scale() -> alt.Scale:
    return alt.Scale(type="log", nice=False, padding=8)


def _log_axis(title: str, panel: Panel) -> alt.Axis:
    """Return an axis with as many round numbers as have room."""
    values: list[Any] = panel.values("latency")
    least, most = min(values), max(values)
    powers = range(math.floor(math.log10(least)) - 1, math.ceil(math.log10(most)) + 1)
    for steps in _STEPS:
        marks = [round(step * 10.0**power, 9) for power in powers for step in steps]
        within = [mark for mark in marks if 0.9 * least <= mark <= 1.1 * most]
        if len(within) <= _MOST_TICKS:
            break
    return alt.Axis(title=title, values=within, format="~g")
