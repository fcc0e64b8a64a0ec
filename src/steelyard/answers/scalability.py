"""Throughput over clients: every configuration's scalability law, and where throughput falls."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from steelyard.answers.observations import Observations
from steelyard.answers.results import CampaignAnalysis, Grounds
from steelyard.core.experiment import MANY_FIRST, RATE, RATE_UNIT, Experiment
from steelyard.core.findings import Estimate, Finding, Severity
from steelyard.core.schedule import CellKey, Load
from steelyard.core.wording import format_percent, format_share
from steelyard.report.document import (
    CONFIDENCE,
    MISSING,
    ChartKind,
    Figure,
    Json,
    Section,
    Table,
    Tone,
    Value,
    bounds,
    count,
    interval,
    number,
    number_column,
    percent,
    percent_interval,
    rate,
    table_of,
    with_interval,
)
from steelyard.stats.intervals import FloatArray, Interval, student_interval
from steelyard.stats.scalability import (
    Scalability,
    fit_scalability,
    fitted_curve,
    levelled,
    retrograde,
)
from steelyard.stats.spending import FIXED_ALPHA

LEAST_LOADS = 5
LEAST_BLOCKS = 6
LEVEL = 0.05
POINTS = 41  # of a drawn curve
_BENT = (
    "Read the measured points. More CPUs than clients at the first loads, a full machine, or a "
    "generator that runs out of CPU bend a curve that no such law has."
)
MOST_ERROR = 0.05  # relative miss at a load beyond which a curve is not believed


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """Throughput at a number of clients, 1/s, the level of the blocks taken out.

    Attributes:
        load: The load that was measured; None for a point of the fitted curve.
    """

    clients: float
    tps: Estimate
    load: Load | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FallingLoad:
    """The first load at which throughput is surely lower than at the best one.

    Attributes:
        change: Relative to the best load, with an interval that holds with those of all loads.
    """

    load: Load
    best: Load
    change: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalabilityCurve:
    """How one configuration's throughput under one workload grows with its clients (METHOD 6).

    Attributes:
        threads: Of the generator when one number is used for all these loads; None where they
            follow the clients.
        blocks: Behind it.
        measured: One point per load, rising.
        fitted: The law's curve with a pointwise band.
        alpha: Contention, a fraction.
        beta: Coherency per pair of clients; no upper bound where it cannot be told from none.
        peak_clients: N*; None when the law does not fit or the peak is outside the loads.
        peak_tps: Throughput there, 1/s; None likewise.
        peak_in_range: Whether the fitted peak lies within the loads.
        max_error: Largest relative miss of the curve at a load.
        lack_of_fit_p: Of the test that the loads miss the curve by noise alone.
        fits: The curve may be believed.
        refuted: Noise does not explain how it misses the loads; else a curve that does not fit is
            one that is not known well enough.
        falling: Retrograde scaling as it was measured, whatever the law says; None if not seen.
    """

    workload: str
    configuration: str
    threads: int | None
    blocks: int
    measured: tuple[CurvePoint, ...]
    fitted: tuple[CurvePoint, ...]
    alpha: Estimate
    beta: Estimate
    peak_clients: Estimate | None
    peak_tps: Estimate | None
    peak_in_range: bool
    max_error: float
    lack_of_fit_p: float
    fits: bool
    refuted: bool
    falling: FallingLoad | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Series:
    """One curve to be: who, and under which loads in rising order of clients."""

    workload: str
    configuration: str
    threads: int | None
    loads: tuple[Load, ...]


def scalability_curves(grounds: Grounds) -> tuple[ScalabilityCurve, ...]:
    """Return a curve per workload, configuration and rule for threads.

    There are none below 6 blocks, nor where fewer than 5 different numbers of clients ran without
    a rate under one rule for the generator's threads.
    """
    seen = grounds.closed
    if seen.blocks < LEAST_BLOCKS:
        return ()
    every = tuple(_series(grounds.record.experiment))
    return tuple(_curve(seen, one, FIXED_ALPHA / len(every)) for one in every)


def scalability_findings(analysis: CampaignAnalysis) -> Iterator[Finding]:
    """Yield where throughput falls as clients are added, and which curves do not fit."""
    curves = analysis.answer(scalability_curves) or ()
    for curve in curves:
        if curve.falling is not None:
            yield _falls(curve, curve.falling)
    for curve in curves:
        if not curve.fits:
            yield _misfit(curve)


def _series(experiment: Experiment) -> Iterator[_Series]:
    for workload in experiment.workloads:
        for threads, loads in _groups(experiment.loads):
            for configuration in experiment.configurations:
                yield _Series(
                    workload=workload.name,
                    configuration=configuration.name,
                    threads=threads,
                    loads=loads,
                )


def _groups(loads: Sequence[Load]) -> Iterator[tuple[int | None, tuple[Load, ...]]]:
    """Yield loads that differ in their clients alone; more threads are another generator."""
    closed = sorted(load for load in loads if not load.is_open)
    if len({load.clients for load in closed}) == len(closed):
        groups: dict[int | None, list[Load]] = {None: closed}
    else:
        groups = {count: [] for count in sorted({load.threads for load in closed})}
        for load in closed:
            groups[load.threads].append(load)
    for threads, members in groups.items():
        if len(members) >= LEAST_LOADS:
            yield threads, tuple(members)


def _curve(seen: Observations, series: _Series, level: float) -> ScalabilityCurve:
    clients = np.array([float(load.clients) for load in series.loads])
    log_tps = _values(seen, series)
    fit = fit_scalability(clients, log_tps, LEVEL)
    refuted = fit.lack_of_fit_p < LEVEL
    fits = not refuted and fit.max_error <= MOST_ERROR
    told = fits and fit.peak_in_range
    return ScalabilityCurve(
        workload=series.workload,
        configuration=series.configuration,
        threads=series.threads,
        blocks=len(log_tps),
        measured=_measured(series.loads, log_tps),
        fitted=_fitted(fit, clients),
        alpha=_estimate(fit.alpha),
        beta=_estimate(fit.beta),
        peak_clients=_estimate(fit.peak_clients) if told else None,
        peak_tps=_estimate(fit.peak_rate) if told else None,
        peak_in_range=fit.peak_in_range,
        max_error=fit.max_error,
        lack_of_fit_p=fit.lack_of_fit_p,
        fits=fits,
        refuted=refuted,
        falling=_falling(series.loads, log_tps, level),
    )


def _values(seen: Observations, series: _Series) -> FloatArray:
    """Return ln(1/s), shape (blocks, loads), of one series."""
    cells = [CellKey(workload=series.workload, load=load) for load in series.loads]
    columns = [seen.cells.index(cell) for cell in cells]
    return np.asarray(seen.log_tps[:, seen.configurations.index(series.configuration)][:, columns])


def _measured(loads: Sequence[Load], log_tps: FloatArray) -> tuple[CurvePoint, ...]:
    taken = levelled(log_tps)
    return tuple(
        CurvePoint(
            clients=float(load.clients), load=load, tps=_rate(student_interval(column, LEVEL))
        )
        for load, column in zip(loads, taken.T, strict=True)
    )


def _fitted(fit: Scalability, clients: FloatArray) -> tuple[CurvePoint, ...]:
    at = np.geomspace(clients[0], clients[-1], POINTS)
    curve = zip(at, fitted_curve(fit, at, LEVEL), strict=True)
    return tuple(CurvePoint(clients=float(x), tps=_estimate(tps)) for x, tps in curve)


def _falling(loads: Sequence[Load], log_tps: FloatArray, level: float) -> FallingLoad | None:
    seen = retrograde(log_tps, level)
    if seen.first is None:
        return None
    fall = seen.above[seen.first - seen.best - 1]
    low, value, high = (float(np.expm1(x)) for x in (fall.low, fall.estimate, fall.high))
    return FallingLoad(
        load=loads[seen.first],
        best=loads[seen.best],
        change=Estimate(value=value, low=low, high=high),
    )


def _estimate(interval: Interval) -> Estimate:
    return Estimate(
        value=interval.estimate,
        low=interval.low,
        high=interval.high if np.isfinite(interval.high) else None,
    )


def _rate(interval: Interval) -> Estimate:
    low, value, high = (float(np.exp(x)) for x in (interval.low, interval.estimate, interval.high))
    return Estimate(value=value, low=low, high=high)


def _name(curve: ScalabilityCurve) -> str:
    threads = "" if curve.threads is None else f", {count(curve.threads, 'thread')}"
    return f"{curve.configuration}, {curve.workload}{threads}"


def _falls(curve: ScalabilityCurve, falling: FallingLoad) -> Finding:
    change, best = falling.change, falling.best.clients
    low, high = change.low or 0.0, change.high or 0.0
    return Finding(
        code="retrograde-scaling",
        severity=Severity.INFO,
        message=(
            f"{_name(curve)}: throughput falls from {falling.load.label} on: "
            f"{format_percent(change.value)} [{format_percent(low)}, {format_percent(high)}] "
            f"against {falling.best.label}, the best load"
        ),
        remedy=(
            f"Serve more clients than {best} through a connection pool of about {best} sessions; "
            "the load generator's share of the CPUs is part of this."
        ),
        source="METHOD 6; paired within blocks, Bonferroni over all pairs of loads",
        subject=curve.configuration,
    )


def _misfit(curve: ScalabilityCurve) -> Finding:
    explained = "which noise does not explain" if curve.refuted else "which noise may explain"
    return Finding(
        code="scalability-does-not-fit" if curve.refuted else "scalability-not-precise",
        severity=Severity.INFO,
        message=(
            f"{_name(curve)}: the scalability law misses by up to {format_share(curve.max_error)},"
            f" {explained} (p = {curve.lack_of_fit_p:.2g}); the curve is drawn, N* is not told"
        ),
        remedy=_BENT if curve.refuted else "More blocks make the points of the curve more precise.",
        source="METHOD 6, lack-of-fit test at 5 % and misses above 5 %",
        subject=curve.configuration,
    )


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
_ASIDE = 1.025  # factor between two configurations' points, so that they do not cover one another


def scalability_section(
    analysis: CampaignAnalysis, curves: Sequence[ScalabilityCurve]
) -> tuple[Section, ...]:
    """Return the curves with their numbers."""
    blocks = (_table(curves), _figure(analysis, curves))
    return (Section(anchor="scalability", title=TITLE, blocks=blocks),)


def _table(curves: Sequence[ScalabilityCurve]) -> Table:
    return table_of(
        curves,
        ("workload", _workload),
        ("configuration", lambda curve: curve.configuration),
        (number_column("alpha", "%"), lambda curve: _ranged(curve.alpha, 1)),
        (number_column("beta", "%"), lambda curve: _ranged(curve.beta, 3)),
        (number_column("N*", "clients"), _peak),
        (
            number_column(f"{RATE} at N*", RATE_UNIT, spare=True),
            lambda curve: _rate_with_interval(curve.peak_tps),
        ),
        (number_column("largest miss", spare=True), lambda curve: format_share(curve.max_error)),
        ("fit", _fit),
        (
            number_column("falls from", "clients"),
            lambda curve: "not seen" if curve.falling is None else str(curve.falling.load.clients),
        ),
        title=TITLE,
        note=_NOTE,
        tone=lambda curve: Tone.PLAIN if curve.fits else Tone.WARNING,
        tone_column=7,
    )


def _fit(curve: ScalabilityCurve) -> str:
    if curve.fits:
        return "fits"
    return "does not fit" if curve.refuted else "too noisy"


def _workload(curve: ScalabilityCurve) -> str:
    threads = "" if curve.threads is None else f", {count(curve.threads, 'thread')}"
    return f"{curve.workload}{threads}"


def _ranged(estimate: Estimate, digits: int) -> str:
    """Return a parameter in percent with its interval; without an upper bound none was seen."""
    pair = bounds(estimate)
    if pair is None:
        return "none seen"
    value, low, high = (f"{100 * part:.{digits}f}" for part in (estimate.value, *pair))
    return f"{value} [{low}, {high}]"


def _peak(curve: ScalabilityCurve) -> str:
    estimate = curve.peak_clients
    if curve.fits and estimate is None:
        return NO_PEAK
    if estimate is None or estimate.low is None:
        return MISSING
    if estimate.high is None:
        return f"{estimate.value:.0f}, at least {estimate.low:.0f}"
    return f"{estimate.value:.0f} [{estimate.low:.0f}, {estimate.high:.0f}]"


def _rate_with_interval(estimate: Estimate | None) -> str:
    if estimate is None or bounds(estimate) is None:
        return MISSING
    return with_interval(estimate, rate)


def _figure(analysis: CampaignAnalysis, curves: Sequence[ScalabilityCurve]) -> Figure:
    return Figure(
        identity="scalability",
        kind=ChartKind.SCALABILITY,
        title="Throughput over clients with the fitted law",
        caption="Points are means over blocks, each block's own level taken out, with "
        f"{CONFIDENCE} intervals; the line is the fitted law, the band where it lies if the law "
        f"holds, at {CONFIDENCE} for each number of clients. Clients on a logarithmic axis.",
        alt=f"{MANY_FIRST} per second over clients, measured and fitted, by workload and "
        "configuration; the table above holds the parameters.",
        columns=("workload", "configuration", "fitted", "clients", "place", "tps", "low", "high"),
        rows=tuple(row for curve in curves for row in _rows(analysis, curve)),
        configurations=analysis.names,
    )


def _rows(analysis: CampaignAnalysis, curve: ScalabilityCurve) -> Iterator[tuple[Value, ...]]:
    names = analysis.names
    aside = _ASIDE ** (names.index(curve.configuration) - (len(names) - 1) / 2)
    for points, factor in ((curve.fitted, 1.0), (curve.measured, aside)):
        for point in points:
            low, high = bounds(point.tps) or (None, None)
            yield (
                *(_workload(curve), curve.configuration, point.load is None),
                *(round(point.clients, 4), round(point.clients * factor, 4)),
                *(point.tps.value, low, high),
            )


def scalability_json(curves: Sequence[ScalabilityCurve]) -> dict[str, Json]:
    """Return the curves for programs."""
    return {"scalability": [_curve_json(curve) for curve in curves]}


def _curve_json(curve: ScalabilityCurve) -> dict[str, Json]:
    falling = curve.falling
    return {
        "workload": curve.workload,
        "configuration": curve.configuration,
        "threads": curve.threads,
        "blocks": curve.blocks,
        "alpha": interval(curve.alpha),
        "beta": interval(curve.beta),
        "peak_clients": interval(curve.peak_clients),
        "peak_tps": interval(curve.peak_tps),
        "peak_in_range": curve.peak_in_range,
        "fits": curve.fits,
        "refuted": curve.refuted,
        "max_error_percent": percent(curve.max_error),
        "lack_of_fit_p": number(curve.lack_of_fit_p),
        "falls_from_clients": None if falling is None else falling.load.clients,
        "best_clients": None if falling is None else falling.best.clients,
        "fall_percent": None if falling is None else percent_interval(falling.change),
        "measured": [
            {"clients": number(point.clients), "tps": interval(point.tps)}
            for point in curve.measured
        ],
    }
