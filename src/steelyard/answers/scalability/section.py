"""Throughput over clients: the law's numbers, its curve and the points it was fitted to."""

from collections.abc import Iterator

from steelyard.answers.drawing import specification
from steelyard.answers.results import CampaignAnalysis, ScalabilityCurve
from steelyard.core.experiment import MANY_FIRST, RATE, RATE_UNIT
from steelyard.core.findings import Estimate
from steelyard.core.units import format_percent
from steelyard.report.document import (
    ChartKind,
    Column,
    Figure,
    Row,
    Section,
    Table,
    Tone,
    Value,
    number_column,
)
from steelyard.report.formats import CONFIDENCE, MISSING, bounds, rate

TITLE = "Scalability"
NO_PEAK = "no peak in range"
_NOTE = (
    "The Universal Scalability Law: X(N) = gamma N / (1 + alpha (N - 1) + beta N (N - 1)). Alpha is"
    " the share of the work that is done one client at a time, beta the price of each pair of"
    " clients that must agree, N* the clients of the highest throughput. Jackknife intervals over"
    f" blocks, {CONFIDENCE} each, taken alone. A curve fits when it misses no load by more than 5 %"
    " and by no more than noise explains (p of 5 % or more); where noise explains a larger miss it"
    " is too noisy to tell. N* is told of a curve that fits alone. Falling is"
    " measured against the best load, not read from the curve: the findings say by how much. The"
    " load generator takes its CPU from the same machine, unless the server is elsewhere."
)
_ASIDE = 1.025  # factor between two treatments' points, so that they do not cover one another


def scalability_section(analysis: CampaignAnalysis) -> tuple[Section, ...]:
    """Return the curves with their numbers; nothing where loads or blocks are too few."""
    if not analysis.scalability:
        return ()
    blocks = (_table(analysis), _figure(analysis))
    return (Section(anchor="scalability", title=TITLE, blocks=blocks),)


def _table(analysis: CampaignAnalysis) -> Table:
    columns = (
        Column(name="workload"),
        Column(name="treatment"),
        number_column("alpha", "%"),
        number_column("beta", "%"),
        number_column("N*", "clients"),
        number_column(f"{RATE} at N*", RATE_UNIT, spare=True),
        number_column("largest miss", spare=True),
        Column(name="fit"),
        number_column("falls from", "clients"),
    )
    rows = tuple(_row(curve) for curve in analysis.scalability)
    return Table(title=TITLE, columns=columns, rows=rows, tone_column=7, note=_NOTE)


def _row(curve: ScalabilityCurve) -> Row:
    peak = NO_PEAK if curve.fits and curve.peak_clients is None else _clients(curve.peak_clients)
    return Row(
        cells=(
            _workload(curve),
            curve.treatment,
            _ranged(curve.alpha, 1),
            _ranged(curve.beta, 3),
            peak,
            _rate(curve.peak_tps),
            format_percent(curve.max_error, signed=False),
            _fit(curve),
            "not seen" if curve.falling is None else str(curve.falling.load.clients),
        ),
        tone=Tone.PLAIN if curve.fits else Tone.WARNING,
    )


def _fit(curve: ScalabilityCurve) -> str:
    if curve.fits:
        return "fits"
    return "does not fit" if curve.refuted else "too noisy"


def _workload(curve: ScalabilityCurve) -> str:
    return curve.workload if curve.threads is None else f"{curve.workload}, {curve.threads} threads"


def _ranged(estimate: Estimate, digits: int) -> str:
    """Return a parameter in percent with its interval; without an upper bound none was seen."""
    pair = bounds(estimate)
    if pair is None:
        return "none seen"
    value, low, high = (f"{100 * part:.{digits}f}" for part in (estimate.value, *pair))
    return f"{value} [{low}, {high}]"


def _clients(estimate: Estimate | None) -> str:
    if estimate is None or estimate.low is None:
        return MISSING
    if estimate.high is None:
        return f"{estimate.value:.0f}, at least {estimate.low:.0f}"
    return f"{estimate.value:.0f} [{estimate.low:.0f}, {estimate.high:.0f}]"


def _rate(estimate: Estimate | None) -> str:
    pair = bounds(estimate)
    if estimate is None or pair is None:
        return MISSING
    return f"{rate(estimate.value)} [{rate(pair[0])}, {rate(pair[1])}]"


def _figure(analysis: CampaignAnalysis) -> Figure:
    experiment = analysis.experiment
    return Figure(
        specify=specification,
        identity="scalability",
        kind=ChartKind.SCALABILITY,
        title="Throughput over clients with the fitted law",
        caption="Points are means over blocks, each block's own level taken out, with "
        f"{CONFIDENCE} intervals; the line is the fitted law, the band where it lies if the law "
        f"holds, at {CONFIDENCE} for each number of clients. Clients on a logarithmic axis.",
        alt=f"{MANY_FIRST} per second over clients, measured and fitted, by workload and "
        "treatment; the table above holds the parameters.",
        columns=("workload", "treatment", "fitted", "clients", "place", "tps", "low", "high"),
        rows=tuple(row for curve in analysis.scalability for row in _rows(analysis, curve)),
        treatments=(experiment.baseline, *experiment.contenders),
    )


def _rows(analysis: CampaignAnalysis, curve: ScalabilityCurve) -> Iterator[tuple[Value, ...]]:
    experiment = analysis.experiment
    names = (experiment.baseline, *experiment.contenders)
    aside = _ASIDE ** (names.index(curve.treatment) - (len(names) - 1) / 2)
    for points, factor in ((curve.fitted, 1.0), (curve.measured, aside)):
        for point in points:
            low, high = bounds(point.tps) or (None, None)
            yield (
                *(_workload(curve), curve.treatment, point.load is None),
                *(round(point.clients, 4), round(point.clients * factor, 4)),
                *(point.tps.value, low, high),
            )
