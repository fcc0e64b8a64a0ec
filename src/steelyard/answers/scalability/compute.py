"""Throughput over clients: the scalability law of every treatment, and where throughput falls."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from steelyard.answers.observations import Observations
from steelyard.answers.result.stopping import FIXED_ALPHA
from steelyard.answers.results import CurvePoint, FallingLoad, ScalabilityCurve
from steelyard.core.experiment import Experiment
from steelyard.core.findings import Estimate, Finding, Severity
from steelyard.core.schedule import CellKey, Load
from steelyard.core.units import format_percent
from steelyard.stats.scalability import (
    Scalability,
    fit_scalability,
    fitted_curve,
    levelled,
    retrograde,
)
from steelyard.stats.student import FloatArray, Interval, student_interval

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
class _Series:
    """One curve to be: who, and under which loads in rising order of clients."""

    workload: str
    treatment: str
    threads: int | None
    loads: tuple[Load, ...]


def scalability_curves(seen: Observations, experiment: Experiment) -> tuple[ScalabilityCurve, ...]:
    """Return a curve per workload, treatment and rule for threads.

    There are none below 6 blocks, nor where fewer than 5 different numbers of clients ran without
    a rate under one rule for the generator's threads.
    """
    if seen.blocks < LEAST_BLOCKS:
        return ()
    every = tuple(_series(experiment))
    return tuple(_curve(seen, one, FIXED_ALPHA / len(every)) for one in every)


def scalability_findings(curves: Sequence[ScalabilityCurve]) -> Iterator[Finding]:
    """Yield where throughput falls as clients are added, and which curves do not fit."""
    for curve in curves:
        if curve.falling is not None:
            yield _falls(curve, curve.falling)
    for curve in curves:
        if not curve.fits:
            yield _misfit(curve)


def _series(experiment: Experiment) -> Iterator[_Series]:
    for workload in experiment.workloads:
        for threads, loads in _groups(experiment.loads):
            for treatment in experiment.treatments:
                yield _Series(
                    workload=workload.name, treatment=treatment.name, threads=threads, loads=loads
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
        treatment=series.treatment,
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
    return np.asarray(seen.log_tps[:, seen.treatments.index(series.treatment)][:, columns])


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
    threads = "" if curve.threads is None else f", {curve.threads} threads"
    return f"{curve.treatment}, {curve.workload}{threads}"


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
        subject=curve.treatment,
    )


def _misfit(curve: ScalabilityCurve) -> Finding:
    explained = "which noise does not explain" if curve.refuted else "which noise may explain"
    return Finding(
        code="scalability-does-not-fit" if curve.refuted else "scalability-not-precise",
        severity=Severity.INFO,
        message=(
            f"{_name(curve)}: the scalability law misses by up to "
            f"{format_percent(curve.max_error, signed=False)}, {explained} "
            f"(p = {curve.lack_of_fit_p:.2g}); the curve is drawn, N* is not told"
        ),
        remedy=_BENT if curve.refuted else "More blocks make the points of the curve more precise.",
        source="METHOD 6, lack-of-fit test at 5 % and misses above 5 %",
        subject=curve.treatment,
    )
