"""From the rows of a figure to a Vega-Lite specification; imports Altair, so import it late.

Different workloads never share an axis: each has its own panel with its own scale. Channels are
named by their classes (``alt.X2("high:Q")``): for a bare string Altair searches its whole schema.
"""

import json
from typing import Any

import altair as alt
from altair.utils import schemapi

from steelyard.answers.figure_specs import (
    capacity,
    history,
    over_time,
    tails,
    timeline,
    waterfall,
)
from steelyard.report import charts as theme
from steelyard.report.document import ChartKind, Figure
from steelyard.report.panels import (
    CHARACTER_PX,
    Chart,
    Drawing,
    Panel,
    chart_of,
    colour_of,
    layered,
    panels_of,
    run_ticks,
    side_by_side,
    stacked,
)

_SIGNED_PERCENT = "(datum.value > 0 ? '+' : '') + format(datum.value, '~g') + ' %'"
# Names of result rows end like wording.load_name(None).
_IS_RESULT = "indexof(datum.label, 'all loads') >= 0"
_ROW_PX = 30
_MOST_LEVEL_LABELS = 6  # more loads than these stand aslant below a panel of half the width


def specification(figure: Figure) -> str:
    """Return the figure as Vega-Lite JSON."""
    draw, keys = _DRAW[figure.kind]
    panels = panels_of(figure, keys)
    # Altair would check each mark against the whole schema as it is made, half of a report's time.
    with schemapi.debug_mode(arg=False):
        drawn = draw(figure, panels)
    datasets = {panel.dataset: panel.records for panel in panels}
    whole = {"$schema": alt.SCHEMA_URL, "config": theme.configuration(), "datasets": datasets}
    return json.dumps(whole | drawn)


# --- rows with names left, an interval each, and its numbers right: effects, and single loads ---


def _percent_axis(title: str | None) -> alt.Axis:
    return alt.Axis(title=title, labelExpr=_SIGNED_PERCENT)


def _effects(figure: Figure, panels: list[Panel]) -> Drawing:
    return stacked([_effect_panel(figure, panel) for panel in panels])


def _effect_panel(figure: Figure, panel: Panel) -> Drawing:
    told = f"difference in {figure.words.rate} against {figure.configurations[0]}"
    title = told if panel.last else None
    x = alt.X("effect:Q", axis=_percent_axis(title), scale=alt.Scale(zero=True, padding=12))
    band = chart_of(panel).transform_filter("datum.place == 0")
    shaded = band.mark_rect(color=theme.BASELINE, opacity=0.16).encode(
        x=alt.X("below:Q"), x2=alt.X2("margin:Q")
    )
    zero = band.mark_rule(color=theme.INK, strokeWidth=1).encode(x=alt.XDatum(0))
    return _named_rows(figure, panel, x, under=[shaded, zero])


def _beside(figure: Figure, column: str) -> int:
    """Return how many pixels the longest text of a column takes beside the panels."""
    place = figure.columns.index(column)
    longest = max(len(str(row[place])) for row in figure.rows)
    return min(260, round(longest * CHARACTER_PX) + 12)


def _named_rows(figure: Figure, panel: Panel, x: alt.X, under: list[Chart]) -> Drawing:
    rows = panel.values("row")
    names = _beside(figure, "row")
    width = theme.WIDTH - names - _beside(figure, "text")
    y = alt.Y(
        "row:N",
        sort=[str(row) for row in rows],
        axis=alt.Axis(
            title=None,
            grid=False,
            minExtent=names,
            maxExtent=names,
            labelColor=theme.INK,
            labelFontWeight=alt.condition(_IS_RESULT, alt.value("bold"), alt.value("normal")),
        ),
    )
    colour = colour_of(figure, legend=False)
    base = chart_of(panel)
    rule = base.mark_rule(strokeWidth=2.5).encode(
        x=alt.X("low:Q"), x2=alt.X2("high:Q"), y=y, color=colour
    )
    shapes = alt.Scale(domain=[True, False], range=["diamond", "circle"])
    sizes = alt.Scale(domain=[True, False], range=[190, 80])
    point = base.mark_point(filled=True, opacity=1, strokeWidth=0).encode(
        x=x,
        y=y,
        color=colour,
        shape=alt.Shape("pooled:N", scale=shapes, legend=None),
        size=alt.Size("pooled:N", scale=sizes, legend=None),
    )
    return layered(
        *under,
        rule,
        point,
        _numbers(base, y, width + 12),
        title=panel.title,
        width=width,
        height=_ROW_PX * len(rows),
    )


def _numbers(base: Chart, y: alt.Y, from_px: int) -> Chart:
    text = base.mark_text(align="left", color=theme.INK, fontSize=12)
    return text.encode(x=alt.value(from_px), y=y, text=alt.Text("text:N"))


# --- tps over loads ---


def _loads(figure: Figure, panels: list[Panel]) -> Drawing:
    if all(len(panel.values("order")) == 1 for panel in panels):
        return stacked([_single_load_panel(figure, panel) for panel in panels])
    across = len(panels) > 1
    drawn = [_load_panel(figure, panel, width=375 if across else 800) for panel in panels]
    return side_by_side(drawn, apart=130 if any(map(_crowded, panels)) else 84)


def _crowded(panel: Panel) -> bool:
    return len(panel.values("order")) > _MOST_LEVEL_LABELS


def _single_load_panel(figure: Figure, panel: Panel) -> Drawing:
    title = f"{figure.words.many} per second" if panel.last else None
    x = alt.X(
        "tps:Q",
        axis=alt.Axis(title=title, format="~s"),
        scale=alt.Scale(zero=False, padding=12),
    )
    return _named_rows(figure, panel, x, under=[])


def _load_panel(figure: Figure, panel: Panel, width: int) -> Drawing:
    orders, labels = panel.values("order"), panel.values("clients")
    crowded = _crowded(panel)
    axis = alt.Axis(
        title="clients",
        values=orders,
        grid=False,
        tickCount=len(orders),
        labelAngle=-45 if crowded else alt.Undefined,
        labelOverlap=False if crowded else alt.Undefined,
        labelExpr=f"{json.dumps(labels)}[indexof({json.dumps(orders)}, datum.value)]",
    )
    x = alt.X("place:Q", axis=axis, scale=alt.Scale(zero=False, padding=20, nice=False))
    y_axis = alt.Axis(title=f"{figure.words.many} per second", format="~s", tickCount=5)
    y = alt.Y("tps:Q", axis=y_axis, scale=alt.Scale(zero=True))
    colour = colour_of(figure, legend=True)
    base = chart_of(panel).encode(color=colour)
    line = base.mark_line(strokeWidth=1.5, opacity=0.55).encode(x=x, y=y)
    rule = base.mark_rule(strokeWidth=2.5).encode(x=x, y=alt.Y("low:Q"), y2=alt.Y2("high:Q"))
    point = base.mark_point(filled=True, opacity=1, size=60).encode(x=x, y=y)
    return layered(line, rule, point, title=panel.title, width=width, height=240)


# --- tps over clients, measured and fitted ---


def _scalability(figure: Figure, panels: list[Panel]) -> Drawing:
    width = 375 if len(panels) > 1 else 800
    return side_by_side([_curve_panel(figure, panel, width=width) for panel in panels])


def _curve_panel(figure: Figure, panel: Panel, width: int) -> Drawing:
    measured: list[Any] = [r["clients"] for r in panel.records if not r["fitted"]]
    axis = alt.Axis(title="clients", values=sorted(set(measured)), grid=False, format="d")
    scale = alt.Scale(type="log", base=2, nice=False, padding=20)
    x = alt.X("place:Q", axis=axis, scale=scale)
    y_axis = alt.Axis(title=f"{figure.words.many} per second", format="~s", tickCount=5)
    y = alt.Y("tps:Q", axis=y_axis, scale=alt.Scale(zero=True))
    base = chart_of(panel).encode(x=x, color=colour_of(figure, legend=True))
    law = base.transform_filter("datum.fitted")
    band = law.mark_area(opacity=0.16, line=False).encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q"))
    line = law.mark_line(strokeWidth=2).encode(y=y)
    points = base.transform_filter("!datum.fitted")
    rule = points.mark_rule(strokeWidth=2.5).encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q"))
    point = points.mark_point(filled=True, opacity=1, size=60).encode(y=y)
    return layered(band, line, rule, point, title=panel.title, width=width, height=260)


# --- block by block ---


def _blocks(figure: Figure, panels: list[Panel]) -> Drawing:
    width = 380 if len(panels) > 1 else 830
    drawn = [_block_panel(figure, panel, width=width) for panel in panels]
    return side_by_side(drawn)


def _block_panel(figure: Figure, panel: Panel, width: int) -> Drawing:
    """Return dots per block with their running mean.

    The mean is taken over log ratios by the drawing, as a line for the eye; the estimate and its
    interval are the analysis's.
    """
    axis = alt.Axis(title="block, in run order", format="d", grid=False, tickMinStep=1)
    x = alt.X("block:Q", axis=axis, scale=alt.Scale(nice=False, padding=12, zero=False))
    against = f"effect against {figure.configurations[0]}"
    base = chart_of(panel).encode(color=colour_of(figure, legend=False))
    base = base.transform_calculate(percent="100 * (exp(datum.log_ratio) - 1)")
    y_axis = alt.Axis(title=against, labelExpr=_SIGNED_PERCENT, tickCount=5)
    # Padded instead of rounded: no label reaches above a panel and moves its title.
    scale = alt.Scale(zero=True, nice=False, padding=10)
    y = alt.Y("percent:Q", axis=y_axis, scale=scale)
    plain = chart_of(panel).transform_filter("datum.block == 1")
    ends = plain.encode(color=colour_of(figure, legend=False))
    band = ends.mark_rect(opacity=0.16, stroke=None).encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q"))
    zero = plain.mark_rule(color=theme.INK, strokeWidth=1).encode(y=alt.YDatum(0))
    mean = (
        base.transform_window(mean="mean(log_ratio)", frame=[None, 0])
        .transform_calculate(running="100 * (exp(datum.mean) - 1)")
        .mark_line(strokeWidth=2)
        .encode(x=x, y=alt.Y("running:Q"))
    )
    dots = base.mark_point(filled=True, opacity=0.65, size=36).encode(x=x, y=y)
    return layered(band, zero, mean, dots, title=panel.title, width=width, height=170)


# --- second by second ---


def _strips(figure: Figure, panels: list[Panel]) -> Drawing:
    height = 96 if len(panels) <= 6 else 64
    return stacked([_strip_panel(figure, panel, height=height) for panel in panels])


def _strip_panel(figure: Figure, panel: Panel, height: int) -> Drawing:
    long = figure.identity == "sustained"
    single = len(panel.values("run")) == 1  # its axis would count from 1 to 2
    told = "long runs, side by side" if long else "runs, in the order they were made"
    told = "one run, from its beginning to its end" if single else told
    ticks = panel.values("run") if long else run_ticks(panel.values("run"))
    title = told if panel.last else None
    axis = alt.Axis(
        title=title, grid=False, format="d", tickMinStep=1, values=ticks, labels=not single
    )
    x = alt.X("at:Q", axis=axis, scale=alt.Scale(nice=False, zero=False))
    y_axis = alt.Axis(
        title=figure.words.rate,
        format="~s",
        tickCount=height // 30,
        minExtent=44,
        maxExtent=44,
    )
    y = alt.Y("tps:Q", axis=y_axis, scale=alt.Scale(zero=True))
    seconds = chart_of(panel).transform_filter("datum.mark == ''") if long else chart_of(panel)
    base = seconds.encode(x=x, y=y, color=colour_of(figure, legend=True))
    whole = base.mark_line(strokeWidth=1.5, opacity=0.3)
    counted = base.transform_filter("!datum.ramp").mark_line(strokeWidth=1.5)
    # A line needs two seconds; a run that was over in one is a dot.
    alone = counted.transform_filter("isValid(datum.tps)").transform_joinaggregate(
        seconds="count()", groupby=["run"]
    )
    dots = alone.transform_filter("datum.seconds == 1").mark_point(filled=True, size=20, opacity=1)
    return layered(
        *_cliff_band(panel, x),
        whole,
        counted,
        dots,
        *_cliff_levels(panel, y),
        title=panel.title,
        width=theme.WIDTH - 70,
        height=height,
    )


def _cliff_band(panel: Panel, x: alt.X) -> tuple[Chart, ...]:
    """Return the interval of a cliff's time with its likeliest instant, behind the seconds."""
    if not any(record.get("mark") for record in panel.records):
        return ()
    cliff = chart_of(panel).transform_filter("datum.mark == 'cliff'")
    ends = {"x": alt.X("begin:Q", axis=x["axis"], scale=x["scale"]), "x2": alt.X2("end:Q")}
    band = cliff.mark_rect(color=theme.BASELINE, opacity=0.3).encode(**ends)
    return (band, cliff.mark_rule(color=theme.INK, strokeDash=[4, 3]).encode(x=x))


def _cliff_levels(panel: Panel, y: alt.Y) -> tuple[Chart, ...]:
    """Return the rates before and after a cliff, in front of the seconds."""
    if not any(record.get("mark") for record in panel.records):
        return ()
    level = chart_of(panel).transform_filter("datum.mark == 'level'")
    rule = level.mark_rule(color=theme.INK, strokeWidth=2)
    return (rule.encode(x=alt.X("begin:Q"), x2=alt.X2("end:Q"), y=y),)


# --- half-width against minutes ---

_MARKS = (1, 2, 3, 5)  # %, where people ask
_PERCENT = "format(datum.value, '~g') + ' %'"


def _noise(figure: Figure, panels: list[Panel]) -> Drawing:
    width = 380 if len(panels) > 1 else 830
    return side_by_side([_noise_panel(figure, panel, width=width) for panel in panels])


def _noise_panel(figure: Figure, panel: Panel, width: int) -> Drawing:
    ends = [*panel.values("low"), *panel.values("high"), *_MARKS]
    axis = alt.Axis(title="minutes", values=panel.values("minutes"), format="d", grid=False)
    scale = alt.Scale(type="log", nice=False, padding=16)
    x = alt.X("minutes:Q", axis=axis, scale=scale)
    y_scale = alt.Scale(type="log", nice=False, domain=[0.9 * min(ends), 1.1 * max(ends)])
    y_axis = alt.Axis(title="half-width", labelExpr=_PERCENT, grid=False, values=_ticks(ends))
    y = alt.Y("half:Q", axis=y_axis, scale=y_scale)
    colour = theme.colours(figure.configurations)[-1]
    marks = [_mark(panel, percent) for percent in _MARKS]
    cells = (
        chart_of(panel)
        .transform_filter("!datum.pooled")
        .encode(x=x, y=y, detail=alt.Detail("row:N"))
    )
    pooled = chart_of(panel).transform_filter("datum.pooled").encode(x=x)
    return layered(
        *marks,
        pooled.mark_area(color=colour, opacity=0.16).encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q")),
        cells.mark_line(color=theme.BASELINE, strokeWidth=1.2, opacity=0.8),
        pooled.mark_line(color=colour, strokeWidth=2.5).encode(y=y),
        pooled.mark_point(filled=True, color=colour, opacity=1, size=70).encode(y=y),
        title=panel.title,
        width=width,
        height=240,
    )


def _mark(panel: Panel, percent: int) -> Chart:
    first = chart_of(panel).transform_filter("datum.pooled").transform_window(place="row_number()")
    rule = first.transform_filter("datum.place == 1").mark_rule(
        color=theme.MUTED, strokeWidth=1, strokeDash=[4, 4], opacity=0.6
    )
    return rule.encode(y=alt.YDatum(percent))


def _ticks(ends: list[Any]) -> list[float]:
    """Return the marks, and round numbers where the axis goes on beyond them."""
    beyond = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 10, 20, 50, 100, 200)
    return [*_MARKS, *(value for value in beyond if min(ends) <= value <= max(ends))]


_DRAW = {
    ChartKind.EFFECTS: (_effects, ("workload",)),
    ChartKind.LOADS: (_loads, ("workload",)),
    ChartKind.BLOCKS: (_blocks, ("workload", "configuration")),
    ChartKind.STRIPS: (_strips, ("workload", "load")),
    ChartKind.SCALABILITY: (_scalability, ("workload",)),
    ChartKind.NOISE: (_noise, ("workload",)),
    ChartKind.WATERFALL: (waterfall, ("workload", "configuration")),
    ChartKind.TIMELINE: (timeline, ("workload", "track", "configuration")),
    ChartKind.CAPACITY: (capacity, ("workload",)),
    ChartKind.LATENCY_TAIL: (tails, ("workload", "load")),
    ChartKind.LATENCY_OVER_TIME: (over_time, ("workload", "load")),
    ChartKind.HISTORY: (history, ("workload", "machine", "track")),
}
