"""Throughput over clients with the capacity marked; imports Altair, so import it late."""

from typing import Any

import altair as alt

from steelyard.report.chart_panels import Drawing, Panel, chart_of, colour_of, layered, side_by_side
from steelyard.report.document import Figure


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
