"""Specifications of the charts that show reasons: waterfalls and timelines; imports Altair."""

from typing import Any

import altair as alt

from steelyard.report import chart_theme as theme
from steelyard.report.chart_panels import (
    CHARACTER_PX,
    Drawing,
    Panel,
    chart_of,
    in_columns,
    layered,
    stacked,
)
from steelyard.report.document import Figure

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
    """Return the tracks below one another, a column per treatment, all over the same seconds."""
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
    workload, track, treatment = panel.names
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
    title = f"{workload} · {treatment}" if first else ""
    return layered(
        drawn, shaded, checkpoint.encode(x=x), title=title, width=width, height=_TRACK_PX
    )


def _lines(figure: Figure) -> alt.Color:
    line = figure.columns.index("line")
    names = [str(name) for name in dict.fromkeys(row[line] for row in figure.rows) if name]
    colours = [theme.line_colour(name) for name in names]
    legend = alt.Legend(columns=7, columnPadding=18, symbolType="square")
    return alt.Color("line:N", scale=alt.Scale(domain=names, range=colours), legend=legend)
