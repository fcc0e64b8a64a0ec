"""The rows behind the pictures of latency: distributions to their tails, percentiles over time.

Specifications of the charts that show latency; imports Altair.
"""

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt

from steelyard.answers.drawing import specification
from steelyard.answers.latency.results import (
    LatencyAnalysis,
    Moment,
    TailCurve,
    TailPoint,
    percentile_name,
)
from steelyard.answers.results import CampaignAnalysis
from steelyard.answers.wording import cell_name
from steelyard.core.experiment import MANY, ONE
from steelyard.core.schedule import CellKey
from steelyard.core.units import MS_PER_S
from steelyard.report import charts as theme
from steelyard.report.charts import (
    Drawing,
    Panel,
    chart_of,
    colour_of,
    layered,
    run_ticks,
    side_by_side,
    stacked,
)
from steelyard.report.document import ChartKind, Figure, Value
from steelyard.report.formats import enumeration

WINDOWS = "latency-windows"
_MOST_PANELS = 6
_MOST_POINTS = 6000  # as many as keep the page light
_COLUMNS = ("workload", "load", "treatment", "percentile", "at", "latency")
TAIL_COLUMNS = ("workload", "load", "treatment", "told", "latency", "place")
TAIL_CAPTION = (
    "the axis of shares is stretched towards the tail. Of two lines the one to the left is faster."
    f" Dashed: fewer than 10 {MANY} lie beyond. Logarithmic in milliseconds."
)


def latency_figures(analysis: CampaignAnalysis, found: LatencyAnalysis) -> tuple[Figure, ...]:
    """Return the pictures that have something to show."""
    figures = (_tails(analysis, found), _slices(analysis, found), _windows(analysis, found))
    return tuple(figure for figure in figures if figure.rows)


def _treatments(analysis: CampaignAnalysis) -> tuple[str, ...]:
    """Return the baseline, then the others in file order: the order of the colours."""
    return (analysis.experiment.baseline, *analysis.experiment.contenders)


def _shown(cells: Sequence[CellKey]) -> tuple[CellKey, ...]:
    """Return all cells where they are few, else each workload's at its largest load."""
    different = tuple(dict.fromkeys(cells))
    if len(different) <= _MOST_PANELS:
        return different
    largest = {cell.workload: cell for cell in sorted(different, key=lambda cell: cell.load.size)}
    return tuple(cell for cell in different if cell in largest.values())[:_MOST_PANELS]


def _panel(analysis: CampaignAnalysis, cell: CellKey) -> tuple[str, str]:
    return (cell.workload, cell_name(analysis.experiment, cell.load))


def _tails(analysis: CampaignAnalysis, found: LatencyAnalysis) -> Figure:
    shown = _shown([curve.cell for curve in found.tails])
    curves = [curve for curve in found.tails if curve.cell in shown]
    fewer = "" if len(shown) == len({c.cell for c in found.tails}) else " Largest loads alone."
    return Figure(
        specify=specification,
        identity="latency-tail",
        kind=ChartKind.LATENCY_TAIL,
        title="Distribution of latency, to its tail",
        caption=f"The share of all {MANY} that are not slower, blocks together; "
        f"{TAIL_CAPTION}{fewer}",
        alt=f"Cumulative distribution of latency of {enumeration(_treatments(analysis))} by"
        f" workload and load, from the fastest {ONE} to beyond the 99.9th percentile; the"
        " table of levels holds the percentiles.",
        columns=TAIL_COLUMNS,
        rows=tuple(row for curve in curves for row in _tail_rows(analysis, curve)),
        treatments=_treatments(analysis),
    )


def _tail_rows(analysis: CampaignAnalysis, curve: TailCurve) -> Iterator[tuple[Value, ...]]:
    for values in tail_values(curve.points):
        yield (*_panel(analysis, curve.cell), curve.treatment, *values)


def tail_values(points: Sequence[TailPoint]) -> Iterator[tuple[bool, float, float]]:
    """Yield the points that are told, and from the last of them on those that are not.

    Each is whether it is told, its latency in ms, and its place: how many nines.
    """
    positive = [point for point in points if point.latency_s > 0.0]
    told = [point for point in positive if point.told]
    beyond = [*told[-1:], *(point for point in positive if not point.told)]
    for shown, flag in ((told, True), (beyond, False)):
        for point in shown:
            place = round(-math.log10(1.0 - point.share), 4) + 0.0
            yield flag, round(MS_PER_S * point.latency_s, 6), place


def _slices(analysis: CampaignAnalysis, found: LatencyAnalysis) -> Figure:
    shown = _shown([moment.cell for moment in found.slices])
    return Figure(
        specify=specification,
        identity="latency-slices",
        kind=ChartKind.LATENCY_OVER_TIME,
        title="Percentiles run by run",
        caption="Median (dots) and 99th percentile (triangles) of every run, runs in the order"
        f" they were made; a p99 of fewer than 1,000 {MANY} is not drawn. Logarithmic in"
        " milliseconds.",
        alt=f"p50 and p99 of each run of {enumeration(_treatments(analysis))} in run order, by"
        " workload and load.",
        columns=_COLUMNS,
        rows=tuple(_moment_rows(analysis, found.slices, shown)),
        treatments=_treatments(analysis),
    )


def _windows(analysis: CampaignAnalysis, found: LatencyAnalysis) -> Figure:
    shown = _shown([moment.cell for moment in found.windows])
    return Figure(
        specify=specification,
        identity=WINDOWS,
        kind=ChartKind.LATENCY_OVER_TIME,
        title="Percentiles over the sustained runs",
        caption="Median, 95th and 99th percentile of every 10 s of each long run, over the seconds"
        " since its start. Logarithmic in milliseconds.",
        alt=f"p50, p95 and p99 of windows of 10 s of {enumeration(_treatments(analysis))}, by"
        " workload.",
        columns=_COLUMNS,
        rows=tuple(_moment_rows(analysis, found.windows, shown)),
        treatments=_treatments(analysis),
    )


def _moment_rows(
    analysis: CampaignAnalysis, moments: Sequence[Moment], shown: Sequence[CellKey]
) -> Iterator[tuple[Value, ...]]:
    drawn = [moment for moment in moments if moment.cell in shown]
    step = max(1, -(-sum(len(moment.values) for moment in drawn) // _MOST_POINTS))
    for moment in drawn[::step]:
        for share, value in moment.values:
            if value is not None:
                name, latency = percentile_name(share), round(MS_PER_S * value, 6)
                panel = _panel(analysis, moment.cell)
                yield (*panel, moment.treatment, name, round(moment.at, 1), latency)


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
