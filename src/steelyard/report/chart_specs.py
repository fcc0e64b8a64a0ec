"""From the rows of a figure to a Vega-Lite specification; imports Altair, so import it late.

Different workloads never share an axis: each has its own panel with its own scale. Channels are
named by their classes (``alt.X2("high:Q")``): for a bare string Altair searches its whole schema.

Datasets are named, so that the drawing of a figure holds each of its rows once. Marks are
Altair's; how they lie over and beside each other is Vega-Lite as it is written, because Altair
copies all that a chart holds whenever something is put around it.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import altair as alt
from altair.utils import schemapi

from steelyard.report import charts as theme
from steelyard.report.charts import colours
from steelyard.report.document import ChartKind, Figure, Value

Record = dict[str, Value]
# Altair types a chain of methods as unions that no next method accepts.
Chart: TypeAlias = Any
# A part of a Vega-Lite specification.
Drawing: TypeAlias = dict[str, Any]
Draw: TypeAlias = Callable[[Figure, "list[Panel]"], Drawing]

WIDTH = 900  # px, whole chart
NARROW = 430  # px; on a phone 12 px of text are 9 to 10
CHARACTER_PX = 7.6  # of the widest common font at this size: a page may use another than we
_MOST_IN_LINE = 6  # configurations; more are combinations of factors
_MOST_NAMED = 12  # runs on one axis: with more, Vega's steps are whole numbers
_ON_A_PHONE = 345  # px of a panel, beside the labels of its axis
_SYMBOL_PX = 40  # of a legend's line and the room around it
_SCALES_OF_THEIR_OWN = {"resolve": {"scale": {"x": "independent", "y": "independent"}}}


def width_of(figure: Figure) -> int:
    """Return how wide a chart is drawn, px."""
    return NARROW if figure.narrow else WIDTH


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One part of a chart.

    Attributes:
        dataset: The name its records have in the specification.
        names: What it is called, most general first.
        records: What it shows, in drawing order.
        last: Whether it is the lowest, which carries the axis title for all.
    """

    dataset: str
    names: tuple[str, ...]
    records: list[Record]
    last: bool

    @property
    def title(self) -> str:
        """Return the names in one line."""
        return " · ".join(self.names)

    def values(self, key: str) -> list[Any]:
        """Return the different values of a column in the order of their first appearance."""
        return list(dict.fromkeys(record[key] for record in self.records))


def panels_of(figure: Figure, keys: tuple[str, ...]) -> list[Panel]:
    """Return a panel for every combination of the keys, in the order of their appearance."""
    found: dict[tuple[str, ...], list[Record]] = {}
    for row in figure.rows:
        record = dict(zip(figure.columns, row, strict=True))
        found.setdefault(tuple(str(record[key]) for key in keys), []).append(record)
    return [
        Panel(dataset=f"panel-{place}", names=names, records=records, last=place == len(found))
        for place, (names, records) in enumerate(found.items(), start=1)
    ]


def colour_of(figure: Figure, *, legend: bool) -> alt.Color | alt.ColorValue:
    """Return the colours of the configurations, the same in all charts of a report."""
    names = list(figure.configurations)
    if len(names) == 1 and not legend:  # of factors the baseline alone is a configuration
        return alt.ColorValue(theme.BASELINE)
    scale = alt.Scale(domain=names, range=colours(figure.configurations))
    drawn = alt.Legend()  # in one line, or in columns where combinations are too many for that
    if len(names) > _MOST_IN_LINE or figure.narrow:
        widest = max(map(len, names)) * CHARACTER_PX + _SYMBOL_PX
        columns = max(1, int(width_of(figure) // widest))
        drawn = alt.Legend(columns=columns, columnPadding=_SYMBOL_PX)
    return alt.Color("configuration:N", scale=scale, legend=drawn if legend else None)


def chart_of(panel: Panel) -> Chart:
    """Return an empty chart of a panel's records."""
    return alt.Chart(alt.NamedData(name=panel.dataset))


def layered(*marks: Chart, title: str, width: int, height: int) -> Drawing:
    """Return a panel of marks that lie over each other, the last on top; sizes in pixels."""
    return {"title": title, "width": width, "height": height, "layer": marks_of(*marks)}


def marks_of(*marks: Chart) -> list[Drawing]:
    """Return marks as layers."""
    return [mark.to_dict(validate=False, context={"top_level": False}) for mark in marks]


def in_columns(drawings: list[Drawing], *, columns: int, row_px: int, column_px: int) -> Drawing:
    """Return panels in so many columns, each with scales of its own, and so far apart."""
    # Flush: panels line up by their frames, whatever room their labels take.
    spacing = {"row": row_px, "column": column_px}
    beside = {"concat": drawings, "columns": columns, "bounds": "flush", "spacing": spacing}
    return beside | _SCALES_OF_THEIR_OWN


def panel_px(figure: Figure, panels: list[Panel], *, half: int, whole: int) -> int:
    """Return how wide a panel is: alone in its row, or one of two; on a phone always alone."""
    return _ON_A_PHONE if figure.narrow else half if len(panels) > 1 else whole


def side_by_side(figure: Figure, drawings: list[Drawing], *, apart: int = 84) -> Drawing:
    """Return panels two by two, on a phone one below the other."""
    columns = 1 if figure.narrow else 2
    return in_columns(drawings, columns=columns, row_px=apart, column_px=84)


def stacked(drawings: list[Drawing]) -> Drawing:
    """Return panels one below the other, each with scales of its own."""
    return {"vconcat": drawings} | _SCALES_OF_THEIR_OWN


def _one_by_one(draw: Callable[[Figure, Panel], Drawing]) -> Draw:
    """Return what draws each panel and puts them one below the other."""
    return lambda figure, panels: stacked([draw(figure, panel) for panel in panels])


def _two_by_two(draw: Callable[[Figure, Panel, int], Drawing], half: int, whole: int) -> Draw:
    """Return what draws each panel, two to a row; widths in pixels, of one in two and alone."""

    def drawn(figure: Figure, panels: list[Panel]) -> Drawing:
        width = panel_px(figure, panels, half=half, whole=whole)
        return side_by_side(figure, [draw(figure, panel, width) for panel in panels])

    return drawn


def _per_second(figure: Figure) -> alt.Y:
    """Return the axis of rates, from 0."""
    axis = alt.Axis(title=f"{figure.words.many} per second", format="~s", tickCount=5)
    return alt.Y("tps:Q", axis=axis, scale=alt.Scale(zero=True))


def _with_intervals(points: Chart, y: alt.Y) -> tuple[Chart, Chart]:
    """Return points on their intervals; they know their places and colours."""
    rule = points.mark_rule(strokeWidth=2.5).encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q"))
    return rule, points.mark_point(filled=True, opacity=1, size=60).encode(y=y)


_CLIENTS = "clients (logarithmic)"


def _capacity_panel(figure: Figure, panel: Panel, width: int) -> Drawing:
    """Return points with intervals, and a diamond where the capacity is."""
    clients: list[Any] = panel.values("clients")
    axis = alt.Axis(title=_CLIENTS, values=clients, grid=False, format="d")
    x = alt.X("clients:Q", axis=axis, scale=alt.Scale(type="log", base=2, nice=False, padding=20))
    y = _per_second(figure)
    base = chart_of(panel).encode(x=x, color=colour_of(figure, legend=False))
    points = base.transform_filter("!datum.capacity")
    marked = base.transform_filter("datum.capacity")
    return layered(
        points.mark_line(strokeWidth=1.5, opacity=0.55).encode(y=y),
        *_with_intervals(points, y),
        marked.mark_point(filled=False, opacity=1, size=320, shape="diamond").encode(y=y),
        marked.mark_text(align="left", dx=14, dy=14, fontSize=12).encode(
            y=y, text=alt.Text("text:N")
        ),
        title=panel.title,
        width=width,
        height=260,
    )


_LEAST_PX = 110  # of a panel, whatever stands beside it
_STAGE_PX = 26
_TRACK_PX = 74
_AXIS_PX = 56  # room left of a track for its axis
_APART_PX = 26


def waterfall(figure: Figure, panels: list[Panel]) -> Drawing:
    """Return the bars of each comparison, one panel below the other."""
    left, right = _beside(figure, "row"), _beside(figure, "text")
    width = max(_LEAST_PX, width_of(figure) - left - right)
    ticks = 3 if figure.narrow else 6
    return stacked([_waterfall_panel(figure, panel, left, width, ticks) for panel in panels])


def _waterfall_panel(figure: Figure, panel: Panel, left: int, width: int, ticks: int) -> Drawing:
    axis = alt.Axis(title="ms" if panel.last else None, tickCount=ticks)
    scale = alt.Scale(zero=True, nice=False, padding=4)
    is_way = "top" in panel.records[0]  # parts of one configuration's time: none is a change
    if is_way:  # panels of one workload have one scale
        scale.domainMax = max(panel.values("top"))
    x = alt.X("start:Q", axis=axis, scale=scale)
    y_axis = alt.Axis(title=None, grid=False, minExtent=left, maxExtent=left, labelColor=theme.INK)
    y = alt.Y("row:N", sort=[str(row) for row in panel.values("row")], axis=y_axis)
    names = list(figure.configurations)
    # A whole is that of the configuration that its row or its panel is named after.
    whose = f"indexof({json.dumps(names)}, datum.row) >= 0 ? datum.row : datum.configuration"
    move = "datum.end > datum.start ? 'more time' : 'less time'"
    base = chart_of(panel).transform_calculate(
        kind=whose if is_way else f"datum.whole ? ({whose}) : {move}"
    )
    colour = alt.Scale(
        domain=["more time", "less time", *names],
        range=[theme.MORE, theme.LESS, *colours(figure.configurations)],
    )
    bar = base.mark_bar(height=14).encode(
        x=x, x2=alt.X2("end:Q"), y=y, color=alt.Color("kind:N", scale=colour, legend=None)
    )
    # A change too small for a bar still has its place.
    tick = base.mark_tick(thickness=1.5, size=14, color=theme.INK).encode(x=alt.X("end:Q"), y=y)
    text = _numbers(base, y, width + 12)
    return layered(
        bar, tick, text, title=panel.title, width=width, height=_STAGE_PX * len(panel.values("row"))
    )


def timeline(figure: Figure, panels: list[Panel]) -> Drawing:
    """Tracks below one another, a column per configuration, all over the same seconds."""
    found = {panel.names: panel for panel in panels}
    sides = list(dict.fromkeys(panel.names[2] for panel in panels))
    tracks = list(dict.fromkeys(panel.names[:2] for panel in panels))
    width = max(_LEAST_PX, round(width_of(figure) / len(sides)) - _AXIS_PX - _APART_PX)
    at = figure.columns.index("at")
    until = max(end for row in figure.rows if isinstance(end := row[at], float))
    drawn = []
    for place, (workload, track) in enumerate(tracks):
        # The first track of a workload carries the names, the last of all the seconds.
        first = place == 0 or tracks[place - 1][0] != workload
        ends = sides if place + 1 == len(tracks) else ()
        for side in sides:
            title = f"{workload} · {side}" if first else ""
            panel = found.get((workload, track, side))
            layer = [_ABSENT]
            if panel is not None:
                layer = _track(figure, panel, until, leads=side == sides[0], last=side in ends)
            drawn.append({"title": title, "width": width, "height": _TRACK_PX, "layer": layer})
    return in_columns(drawn, columns=len(sides), row_px=30, column_px=_AXIS_PX + _APART_PX)


# A panel without rows keeps its place, or all after it would stand below another's name.
_ABSENT: Drawing = {
    "data": {"values": [{}]},
    "mark": {"type": "text", "text": "0, or not recorded", "color": theme.MUTED},
}


def _track(figure: Figure, panel: Panel, until: float, *, leads: bool, last: bool) -> list[Drawing]:
    """Return the marks of a panel: values, ramp and checkpoints."""
    _, track, side = panel.names
    is_rate = track == figure.words.rate
    axis = alt.Axis(
        title="seconds of the run" if last else None,
        labels=last,
        grid=False,
        tickCount=3 if figure.narrow else 6,
    )
    seconds = alt.Scale(domain=[0.0, until], nice=False)
    x = alt.X("at:Q", axis=axis, scale=seconds)
    y_axis = alt.Axis(
        title=track if leads else None,
        format="~s" if is_rate else alt.Undefined,
        tickCount=3,
        titleFontSize=11,
    )
    y_scale = alt.Scale(domain=[0.0, panel.records[0]["top"] or 1.0], nice=False)
    base = chart_of(panel)
    y = alt.Y("value:Q", axis=y_axis, scale=y_scale, stack="zero")
    own = dict(zip(figure.configurations, colours(figure.configurations), strict=True))
    area = base.transform_filter("datum.mark == 'value'").mark_area(
        interpolate="step-before", opacity=0.75 if is_rate else 1
    )
    colour = alt.value(own.get(side, theme.BASELINE)) if is_rate else _parts(figure)
    ramp = base.transform_filter("datum.mark == 'ramp'").transform_calculate(begin="0")
    shaded = ramp.mark_rect(color=theme.SHADE, opacity=0.16).encode(
        x=alt.X("begin:Q", axis=axis, scale=seconds), x2=alt.X2("at:Q")
    )
    checkpoint = base.transform_filter("datum.mark == 'checkpoint'").mark_rule(
        color=theme.INK, strokeWidth=1.5, strokeDash=[3, 3]
    )
    return marks_of(area.encode(x=x, y=y, color=colour), shaded, checkpoint.encode(x=x))


def _parts(figure: Figure) -> alt.Color:
    """Return the colours of what seconds were spent on; a rate has that of its configuration."""
    line = figure.columns.index("line")
    told = {str(row[line]) for row in figure.rows if row[line]} - {figure.words.rate}
    names = [name for name in dict.fromkeys(str(row[line]) for row in figure.rows) if name in told]
    shades = [theme.part_colour(name) for name in names]
    columns = 3 if figure.narrow else 7
    legend = alt.Legend(columns=columns, columnPadding=18, symbolType="square")
    return alt.Color("line:N", scale=alt.Scale(domain=names, range=shades), legend=legend)


# Where the axis of shares has its marks: so many nines, but for the median.
_SHARES = {f"{100 - 10.0 ** (2 - nines):.9g} %": float(nines) for nines in range(7)} | {
    "50 %": round(math.log10(2.0), 4)
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
_DASHES = {"p50": [1, 0], "p95": [6, 3], "p99": [2, 2]}


def _tail_panel(figure: Figure, panel: Panel, width: int) -> Drawing:
    """Return the distribution of a cell."""
    x = alt.X("latency:Q", axis=_log_axis("latency, ms (logarithmic)", panel), scale=_log_scale())
    top: Any = max(panel.values("place"))
    marks = {name: place for name, place in _SHARES.items() if place <= top}
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


def _window_panel(figure: Figure, panel: Panel) -> Drawing:
    title = "seconds of the run" if panel.last else None
    x = alt.X("at:Q", axis=alt.Axis(title=title, grid=False), scale=alt.Scale(nice=False))
    names = [name for name in _DASHES if name in panel.values("percentile")]
    dashes = alt.Scale(domain=names, range=[_DASHES[name] for name in names])
    base = chart_of(panel).encode(x=x, y=_latency(panel), color=colour_of(figure, legend=True))
    line = base.mark_line(strokeWidth=1.6).encode(
        strokeDash=alt.StrokeDash("percentile:N", scale=dashes, legend=alt.Legend())
    )
    return layered(line, title=panel.title, width=width_of(figure) - 80, height=170)


def _latency(panel: Panel) -> alt.Y:
    axis = _log_axis("ms, logarithmic", panel)
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


_SIGNED_PERCENT = "(datum.value > 0 ? '+' : '') + format(datum.value, '~g') + ' %'"
# Names of result rows end like wording.load_name(None).
_IS_RESULT = "indexof(datum.value, 'all loads') >= 0"
_ROW_PX = 30
_TWO_LINES_PX = 44
_MOST_LEVEL_LABELS = 6  # more loads than these stand aslant below a panel of half the width


def specification(figure: Figure) -> str:
    """Return the figure as Vega-Lite JSON."""
    draw, keys = _DRAW[figure.kind]
    panels = panels_of(figure, keys)
    # Altair would check each mark against the whole schema as it is made, half of a report's time.
    with schemapi.debug_mode(arg=False):
        drawn = draw(figure, panels)
    datasets = {panel.dataset: panel.records for panel in panels}
    whole = {
        "$schema": alt.SCHEMA_URL,
        "config": theme.configuration(narrow=figure.narrow),
        "datasets": datasets,
    }
    return json.dumps(whole | drawn)


# --- rows with names left, an interval each, and its numbers right: effects, and single loads ---


def _ticks_below(figure: Figure) -> Any:  # noqa: ANN401 - Undefined or a number
    """Return how many ticks rows have below them; where that is no matter, as all charts."""
    return 3 if figure.narrow else alt.Undefined


def _effect_panel(figure: Figure, panel: Panel) -> Drawing:
    told = f"difference in {figure.words.rate} vs {figure.configurations[0]}"
    title = told if panel.last else None
    axis = alt.Axis(title=title, labelExpr=_SIGNED_PERCENT, tickCount=_ticks_below(figure))
    x = alt.X("effect:Q", axis=axis, scale=alt.Scale(zero=True, padding=12))
    band = chart_of(panel).transform_filter("datum.place == 0")
    shaded = band.mark_rect(color=theme.SHADE, opacity=0.16).encode(
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
    names, numbers = _beside(figure, "row"), _beside(figure, "text")
    beside = max(names, numbers) if figure.narrow else names
    room = width_of(figure) - beside - (0 if figure.narrow else numbers)
    width = max(_LEAST_PX, room)
    # On a phone nothing is beside: the numbers stand below the labels.
    both = {str(record["row"]): [record["row"], record["text"]] for record in panel.records}
    lines = json.dumps(list(both.values()))
    labels = f"{lines}[indexof({json.dumps(list(both))}, datum.value)]"
    y = alt.Y(
        "row:N",
        sort=[str(row) for row in rows],
        axis=alt.Axis(
            title=None,
            grid=False,
            minExtent=beside,
            maxExtent=beside,
            labelExpr=labels if figure.narrow else alt.Undefined,
            labelLineHeight=15 if figure.narrow else alt.Undefined,
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
    told = () if figure.narrow else (_numbers(base, y, width + 12),)
    height = _TWO_LINES_PX if figure.narrow else _ROW_PX
    return layered(
        *under, rule, point, *told, title=panel.title, width=width, height=height * len(rows)
    )


def _numbers(base: Chart, y: alt.Y, from_px: int) -> Chart:
    text = base.mark_text(align="left", color=theme.INK, fontSize=12)
    return text.encode(x=alt.value(from_px), y=y, text=alt.Text("text:N"))


# --- tps over loads ---


def _loads(figure: Figure, panels: list[Panel]) -> Drawing:
    if all(len(panel.values("order")) == 1 for panel in panels):
        return stacked([_single_load_panel(figure, panel) for panel in panels])
    width = panel_px(figure, panels, half=375, whole=800)
    drawn = [_load_panel(figure, panel, width) for panel in panels]
    return side_by_side(figure, drawn, apart=130 if any(map(_crowded, panels)) else 84)


def _crowded(panel: Panel) -> bool:
    return len(panel.values("order")) > _MOST_LEVEL_LABELS


def _single_load_panel(figure: Figure, panel: Panel) -> Drawing:
    title = f"{figure.words.many} per second" if panel.last else None
    axis = alt.Axis(title=title, format="~s", tickCount=_ticks_below(figure))
    x = alt.X("tps:Q", axis=axis, scale=alt.Scale(zero=True, padding=12))
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
    y = _per_second(figure)
    base = chart_of(panel).encode(x=x, color=colour_of(figure, legend=True))
    line = base.mark_line(strokeWidth=1.5, opacity=0.55).encode(y=y)
    marks = line, *_with_intervals(base, y)
    return layered(*marks, title=panel.title, width=width, height=240)


# --- tps over clients, as points and lines ---


def _curve_panel(figure: Figure, panel: Panel, width: int) -> Drawing:
    measured: list[Any] = [r["clients"] for r in panel.records if not r["line"]]
    axis = alt.Axis(title=_CLIENTS, values=sorted(set(measured)), grid=False, format="d")
    scale = alt.Scale(type="log", base=2, nice=False, padding=20)
    x = alt.X("place:Q", axis=axis, scale=scale)
    y = _per_second(figure)
    base = chart_of(panel).encode(x=x, color=colour_of(figure, legend=True))
    line = base.transform_filter("datum.line").mark_line(strokeWidth=2).encode(y=y)
    marks = line, *_with_intervals(base.transform_filter("!datum.line"), y)
    return layered(*marks, title=panel.title, width=width, height=260)


# --- block by block ---


def _block_panel(figure: Figure, panel: Panel, width: int) -> Drawing:
    """Return dots per block with their running mean.

    The mean is taken over log ratios by the drawing, as a line for the eye; the estimate and its
    interval are the analysis's.
    """
    axis = alt.Axis(title="block, in run order", format="d", grid=False, tickMinStep=1)
    x = alt.X("block:Q", axis=axis, scale=alt.Scale(nice=False, padding=12, zero=False))
    against = f"effect vs {figure.configurations[0]}"
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


_PLACES = {  # what an axis of strips counts, and what it is where there is one
    "sustained": ("long runs, side by side", "one run, from its beginning to its end"),
    "turns": ("blocks; within each, turns at their time", "one block, turns at their time"),
    "strips": ("runs, in the order they were made", "one run, from its beginning to its end"),
}


def _strip_panel(figure: Figure, panel: Panel, height: int) -> Drawing:
    kind, _, _ = figure.identity.partition("-of-")  # of which of an article's campaigns
    long, in_turns = (kind == name for name in ("sustained", "turns"))
    single = len(panel.values("run")) == 1  # its axis would count from 1 to 2
    # An axis of few has room for halves, and ``d`` writes 1.5 as 2: the 2 would stand there twice.
    few = long or len(panel.values("run")) <= _MOST_NAMED
    ticks = panel.values("run") if few else alt.Undefined
    title = _PLACES[kind][single] if panel.last else None
    axis = alt.Axis(
        title=title, grid=False, format="d", tickMinStep=1, values=ticks, labels=not single
    )
    x = alt.X("at:Q", axis=axis, scale=alt.Scale(nice=False, zero=False))
    y_axis = alt.Axis(
        title=figure.words.rate, format="~s", tickCount=height // 30, minExtent=44, maxExtent=44
    )
    y = alt.Y("tps:Q", axis=y_axis, scale=alt.Scale(zero=True))
    seconds = chart_of(panel).transform_filter("datum.mark == ''") if long else chart_of(panel)
    base = seconds.encode(x=x, y=y, color=colour_of(figure, legend=True))
    if in_turns:
        marks = (base.mark_line(strokeWidth=2.5, strokeCap="round"),)
    else:
        whole = base.mark_line(strokeWidth=1.5, opacity=0.3)
        counted = base.transform_filter("!datum.ramp").mark_line(strokeWidth=1.5)
        # A line needs two seconds; a run that was over in one is a dot.
        alone = counted.transform_filter("isValid(datum.tps)").transform_joinaggregate(
            seconds="count()", groupby=["run"]
        )
        dot = alone.transform_filter("datum.seconds == 1")
        behind, before = _cliff(panel, x, y)
        dots = dot.mark_point(filled=True, size=20, opacity=1)
        marks = (*behind, whole, counted, dots, *before)
    return layered(*marks, title=panel.title, width=width_of(figure) - 70, height=height)


def _cliff(panel: Panel, x: alt.X, y: alt.Y) -> tuple[tuple[Chart, ...], tuple[Chart, ...]]:
    """Return what is drawn behind the seconds and in front of them, where there is a cliff.

    Behind is the interval of its time with its likeliest instant, in front are the rates before and
    after it.
    """
    if not any(record.get("mark") for record in panel.records):
        return (), ()
    cliff = chart_of(panel).transform_filter("datum.mark == 'cliff'")
    ends = {"x": alt.X("begin:Q", axis=x["axis"], scale=x["scale"]), "x2": alt.X2("end:Q")}
    band = cliff.mark_rect(color=theme.SHADE, opacity=0.3).encode(**ends)
    instant = cliff.mark_rule(color=theme.INK, strokeDash=[4, 3]).encode(x=x)
    level = chart_of(panel).transform_filter("datum.mark == 'level'")
    rule = level.mark_rule(color=theme.INK, strokeWidth=2)
    return (band, instant), (rule.encode(x=alt.X("begin:Q"), x2=alt.X2("end:Q"), y=y),)


# --- half-width against minutes ---

_MARKS = (1, 2, 3, 5)  # %, where people ask
_ROUND = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 10, 20, 50, 100, 200)
_PERCENT = "format(datum.value, '~g') + ' %'"


def _noise_panel(figure: Figure, panel: Panel, width: int) -> Drawing:
    ends = [*panel.values("low"), *panel.values("high"), *_MARKS]
    axis = alt.Axis(
        title="minutes (logarithmic)", values=panel.values("minutes"), format="d", grid=False
    )
    scale = alt.Scale(type="log", nice=False, padding=16)
    x = alt.X("minutes:Q", axis=axis, scale=scale)
    y_scale = alt.Scale(type="log", nice=False, domain=[0.9 * min(ends), 1.1 * max(ends)])
    # The marks, and round numbers where the axis goes on beyond them.
    ticks = [*_MARKS, *(value for value in _ROUND if min(ends) <= value <= max(ends))]
    y_axis = alt.Axis(
        title="half-width (logarithmic)", labelExpr=_PERCENT, grid=False, values=ticks
    )
    y = alt.Y("half:Q", axis=y_axis, scale=y_scale)
    colour = theme.colours(figure.configurations)[-1]
    first = chart_of(panel).transform_filter("datum.pooled").transform_window(place="row_number()")
    rule = first.transform_filter("datum.place == 1").mark_rule(
        color=theme.MUTED, strokeWidth=1, strokeDash=[4, 4], opacity=0.6
    )
    marks = [rule.encode(y=alt.YDatum(percent)) for percent in _MARKS]
    cells = (
        chart_of(panel)
        .transform_filter("!datum.pooled")
        .encode(x=x, y=y, detail=alt.Detail("row:N"))
    )
    pooled = chart_of(panel).transform_filter("datum.pooled").encode(x=x)
    return layered(
        *marks,
        pooled.mark_area(color=colour, opacity=0.16).encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q")),
        cells.mark_line(color=theme.SHADE, strokeWidth=1.2, opacity=0.8),
        pooled.mark_line(color=colour, strokeWidth=2.5).encode(y=y),
        pooled.mark_point(filled=True, color=colour, opacity=1, size=70).encode(y=y),
        title=panel.title,
        width=width,
        height=240,
    )


_DRAW = {
    ChartKind.EFFECTS: (_one_by_one(_effect_panel), ("workload",)),
    ChartKind.LOADS: (_loads, ("workload",)),
    ChartKind.BLOCKS: (_two_by_two(_block_panel, 380, 830), ("workload", "configuration")),
    ChartKind.STRIPS: (_strips, ("workload", "load")),
    ChartKind.SCALABILITY: (_two_by_two(_curve_panel, 375, 800), ("workload",)),
    ChartKind.NOISE: (_two_by_two(_noise_panel, 380, 830), ("workload",)),
    ChartKind.WATERFALL: (waterfall, ("workload", "configuration")),
    ChartKind.TIMELINE: (timeline, ("workload", "track", "configuration")),
    ChartKind.CAPACITY: (_two_by_two(_capacity_panel, 375, 800), ("workload",)),
    ChartKind.LATENCY_TAIL: (_two_by_two(_tail_panel, 370, 800), ("workload", "load")),
    ChartKind.LATENCY_OVER_TIME: (_one_by_one(_window_panel), ("workload", "load")),
}
