"""How the figures of capacity, reasons, latency and history are drawn, by panels, with Altair."""

import json
import math
from typing import Any

import altair as alt

from steelyard.answers.latency.figure import WINDOWS
from steelyard.report import charts as theme
from steelyard.report.document import Figure
from steelyard.report.panels import (
    CHARACTER_PX,
    Drawing,
    Panel,
    chart_of,
    colour_of,
    in_columns,
    layered,
    run_ticks,
    side_by_side,
    stacked,
)


def capacity(figure: Figure, panels: list[Panel]) -> Drawing:
    """Return a panel per workload: points with intervals, and a diamond where the capacity is."""
    width = 375 if len(panels) > 1 else 800
    return side_by_side([_panel(figure, panel, width=width) for panel in panels])


def _panel(figure: Figure, panel: Panel, width: int) -> Drawing:
    clients: list[Any] = panel.values("clients")
    axis = alt.Axis(title="clients", values=clients, grid=False, format="d")
    x = alt.X("clients:Q", axis=axis, scale=alt.Scale(type="log", base=2, nice=False, padding=20))
    y_axis = alt.Axis(title=f"{figure.words.many} per second", format="~s", tickCount=5)
    y = alt.Y("tps:Q", axis=y_axis, scale=alt.Scale(zero=True))
    base = chart_of(panel).encode(x=x, color=colour_of(figure, legend=False))
    points = base.transform_filter("!datum.capacity")
    marked = base.transform_filter("datum.capacity")
    return layered(
        points.mark_line(strokeWidth=1.5, opacity=0.55).encode(y=y),
        points.mark_rule(strokeWidth=2.5).encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q")),
        points.mark_point(filled=True, opacity=1, size=60).encode(y=y),
        marked.mark_point(filled=False, opacity=1, size=320, shape="diamond").encode(y=y),
        marked.mark_text(align="left", dx=14, dy=14, fontSize=12).encode(
            y=y, text=alt.Text("text:N")
        ),
        title=panel.title,
        width=width,
        height=260,
    )


_ROW_PX = 26
_TRACK_PX = 74
_AXIS_PX = 56  # room left of a track for its axis
_APART_PX = 26


def waterfall(figure: Figure, panels: list[Panel]) -> Drawing:
    """Return the bars of each comparison, one panel below the other."""
    rows, texts = (figure.columns.index(name) for name in ("row", "text"))
    names = max(len(str(row[rows])) for row in figure.rows)
    numbers = max(len(str(row[texts])) for row in figure.rows)
    sides = (round(size * CHARACTER_PX) + 12 for size in (names, numbers))
    left, right = sides
    return stacked([_waterfall_panel(panel, left, right) for panel in panels])


def _waterfall_panel(panel: Panel, left: int, right: int) -> Drawing:
    width = theme.WIDTH - left - right
    axis = alt.Axis(title="ms" if panel.last else None, tickCount=6)
    x = alt.X("start:Q", axis=axis, scale=alt.Scale(zero=True, nice=False, padding=4))
    y_axis = alt.Axis(title=None, grid=False, minExtent=left, maxExtent=left, labelColor=theme.INK)
    y = alt.Y("row:N", sort=[str(row) for row in panel.values("row")], axis=y_axis)
    base = chart_of(panel).transform_calculate(
        kind="datum.whole ? 'whole' : datum.end > datum.start ? 'more' : 'less'"
    )
    colours = alt.Scale(
        domain=["whole", "more", "less"], range=[theme.BASELINE, theme.MORE, theme.LESS]
    )
    bar = base.mark_bar(height=14).encode(
        x=x, x2=alt.X2("end:Q"), y=y, color=alt.Color("kind:N", scale=colours, legend=None)
    )
    # A change too small for a bar still has its place.
    tick = base.mark_tick(thickness=1.5, size=14, color=theme.INK).encode(x=alt.X("end:Q"), y=y)
    text = base.mark_text(align="left", color=theme.INK, fontSize=12).encode(
        x=alt.value(width + 12), y=y, text=alt.Text("text:N")
    )
    return layered(
        bar, tick, text, title=panel.title, width=width, height=_ROW_PX * len(panel.values("row"))
    )


def timeline(figure: Figure, panels: list[Panel]) -> Drawing:
    """Tracks below one another, a column per configuration, all over the same seconds."""
    columns = len({panel.names[2] for panel in panels})
    width = round(theme.WIDTH / columns) - _AXIS_PX - _APART_PX
    at = figure.columns.index("at")
    ends = [end for row in figure.rows if isinstance(end := row[at], float)]
    drawn = [
        _track_panel(figure, panels, place, width=width, until=max(ends), columns=columns)
        for place in range(len(panels))
    ]
    return in_columns(drawn, columns=columns, row_px=30, column_px=_AXIS_PX + _APART_PX)


def _track_panel(
    figure: Figure, panels: list[Panel], place: int, *, width: int, until: float, columns: int
) -> Drawing:
    panel = panels[place]
    workload, track, configuration = panel.names
    # The first track of a workload carries the names, the last of all the seconds.
    first = place < columns or panels[place - columns].names[0] != workload
    last = place + columns >= len(panels)
    axis = alt.Axis(
        title="seconds of the run" if last else None, labels=last, grid=False, tickCount=6
    )
    seconds = alt.Scale(domain=[0.0, until], nice=False)
    x = alt.X("at:Q", axis=axis, scale=seconds)
    top: Any = panel.records[0]["top"]
    y_axis = alt.Axis(
        title=track if place % columns == 0 else None,
        format="~s" if track == figure.words.rate else alt.Undefined,
        tickCount=3,
        titleFontSize=11,
    )
    y_scale = alt.Scale(domain=[0.0, top or 1.0], nice=False)
    base = chart_of(panel)
    values = base.transform_filter("datum.mark == 'value'")
    y = alt.Y("value:Q", axis=y_axis, scale=y_scale, stack="zero")
    drawn = values.mark_area(interpolate="step-before").encode(x=x, y=y, color=_lines(figure))
    ramp = base.transform_filter("datum.mark == 'ramp'").transform_calculate(begin="0")
    shaded = ramp.mark_rect(color=theme.BASELINE, opacity=0.16).encode(
        x=alt.X("begin:Q", axis=axis, scale=seconds), x2=alt.X2("at:Q")
    )
    checkpoint = base.transform_filter("datum.mark == 'checkpoint'").mark_rule(
        color=theme.INK, strokeWidth=1.5, strokeDash=[3, 3]
    )
    title = f"{workload} · {configuration}" if first else ""
    return layered(
        drawn, shaded, checkpoint.encode(x=x), title=title, width=width, height=_TRACK_PX
    )


def _lines(figure: Figure) -> alt.Color:
    line = figure.columns.index("line")
    names = [str(name) for name in dict.fromkeys(row[line] for row in figure.rows) if name]
    colours = [theme.line_colour(name) for name in names]
    legend = alt.Legend(columns=7, columnPadding=18, symbolType="square")
    return alt.Color("line:N", scale=alt.Scale(domain=names, range=colours), legend=legend)


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


def history(figure: Figure, panels: list[Panel]) -> Drawing:
    """Return effects, then rates, campaign by campaign, for each machine."""
    return stacked([_campaigns_panel(figure, panel) for panel in panels])


def _campaigns_panel(figure: Figure, panel: Panel) -> Drawing:
    is_effect = panel.names[-1] == "effect"
    title = "campaigns, in the order of time" if panel.last else None
    axis = alt.Axis(title=title, grid=False, format="d", values=run_ticks(panel.values("at")))
    x = alt.X("at:Q", axis=axis, scale=alt.Scale(nice=False, zero=False, padding=12))
    y_axis = alt.Axis(
        title="effect, %" if is_effect else figure.words.rate, format="~s", minExtent=44
    )
    y = alt.Y("value:Q", axis=y_axis, scale=alt.Scale(zero=is_effect, padding=8))
    marks = [
        chart_of(panel)
        .transform_filter(f"datum.mark == '{mark}'")
        .mark_rule(color=theme.MORE if mark == "changed" else theme.MUTED, strokeDash=dash)
        .encode(x=x)
        for mark, dash in (("changed", [1, 0]), ("marked", [4, 4]))
    ]
    base = chart_of(panel).encode(x=x, color=colour_of(figure, legend=True))
    bounded = base.transform_filter("datum.low !== null").mark_rule(strokeWidth=2)
    return layered(
        *marks,
        base.mark_line(strokeWidth=1, opacity=0.4).encode(y=y),
        bounded.encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q")),
        base.mark_point(filled=True, opacity=1, size=50).encode(y=y),
        title=panel.title,
        width=theme.WIDTH - 80,
        height=170 if is_effect else 110,
    )


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
