"""The pictures of latency and their rows: distributions to their tails, percentiles over time."""

import math
from collections.abc import Iterator, Sequence

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
from steelyard.report.document import ChartKind, Figure, Value, enumeration

WINDOWS = "latency-windows"
_MOST_PANELS = 6
_MOST_POINTS = 6000  # as many as keep the page light
_COLUMNS = ("workload", "load", "configuration", "percentile", "at", "latency")
TAIL_COLUMNS = ("workload", "load", "configuration", "told", "latency", "place")
TAIL_CAPTION = (
    "the axis of shares is stretched towards the tail. Of two lines the one to the left is faster."
    f" Dashed: fewer than 10 {MANY} lie beyond. Logarithmic in milliseconds."
)


def latency_figures(analysis: CampaignAnalysis, found: LatencyAnalysis) -> tuple[Figure, ...]:
    """Return the pictures that have something to show."""
    figures = (_tails(analysis, found), _slices(analysis, found), _windows(analysis, found))
    return tuple(figure for figure in figures if figure.rows)


def _configurations(analysis: CampaignAnalysis) -> tuple[str, ...]:
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
        alt=f"Cumulative distribution of latency of {enumeration(_configurations(analysis))} by"
        f" workload and load, from the fastest {ONE} to beyond the 99.9th percentile; the"
        " table of levels holds the percentiles.",
        columns=TAIL_COLUMNS,
        rows=tuple(row for curve in curves for row in _tail_rows(analysis, curve)),
        configurations=_configurations(analysis),
    )


def _tail_rows(analysis: CampaignAnalysis, curve: TailCurve) -> Iterator[tuple[Value, ...]]:
    for values in tail_values(curve.points):
        yield (*_panel(analysis, curve.cell), curve.configuration, *values)


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
        alt=f"p50 and p99 of each run of {enumeration(_configurations(analysis))} in run order, by"
        " workload and load.",
        columns=_COLUMNS,
        rows=tuple(_moment_rows(analysis, found.slices, shown)),
        configurations=_configurations(analysis),
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
        alt=f"p50, p95 and p99 of windows of 10 s of {enumeration(_configurations(analysis))}, by"
        " workload.",
        columns=_COLUMNS,
        rows=tuple(_moment_rows(analysis, found.windows, shown)),
        configurations=_configurations(analysis),
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
                yield (*panel, moment.configuration, name, round(moment.at, 1), latency)
