"""Throughput over clients: every configuration's rates from its fewest to its most clients."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from steelyard.answers.results import CampaignAnalysis, Grounds
from steelyard.core.experiment import MANY_FIRST, RATE, RATE_UNIT, Experiment
from steelyard.core.findings import Estimate
from steelyard.core.schedule import CellKey, Load
from steelyard.report.document import (
    CONFIDENCE,
    ChartKind,
    Figure,
    Json,
    Section,
    Table,
    Value,
    bounds,
    count,
    interval,
    number,
    number_column,
    rate,
    table_of,
)

LEAST_LOADS = 5  # of fewer the table of cells shows as much
TITLE = "Throughput over clients"
_ASIDE = 1.025  # factor between two configurations' points, so that they do not cover one another


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalabilityCurve:
    """How one configuration's throughput under one workload grows with its clients (METHOD 6).

    Attributes:
        threads: Of the generator when one number is used for all these loads; None where they
            follow the clients.
        blocks: Behind it.
        measured: The rate of its cell, 1/s, by load in rising order of clients.
    """

    workload: str
    configuration: str
    threads: int | None
    blocks: int
    measured: Mapping[Load, Estimate]

    @property
    def load_label(self) -> str:
        """Return the workload, and the threads where they tell curves apart."""
        threads = "" if self.threads is None else f", {count(self.threads, 'thread')}"
        return f"{self.workload}{threads}"

    def rate_at(self, clients: int) -> str:
        """Return the rate of so many clients as a text, or a dash where they did not run."""
        rates = (tps.value for load, tps in self.measured.items() if load.clients == clients)
        return rate(next(rates, None))


def scalability_curves(grounds: Grounds) -> tuple[ScalabilityCurve, ...]:
    """Return a curve per workload, configuration and rule for threads.

    There are none of a single pass, nor where fewer than 5 different numbers of clients ran
    without a rate under one rule for the generator's threads.
    """
    experiment = grounds.record.experiment
    if not grounds.closed.blocks or experiment.is_single_pass:
        return ()
    cells = {(cell.configuration, cell.cell): cell.tps for cell in grounds.analysis.cells}
    return tuple(
        ScalabilityCurve(
            workload=workload.name,
            configuration=configuration.name,
            threads=threads,
            blocks=grounds.closed.blocks,
            measured={
                load: cells[configuration.name, CellKey(workload=workload.name, load=load)]
                for load in loads
            },
        )
        for workload in experiment.workloads
        for threads, loads in _groups(experiment)
        for configuration in experiment.configurations
    )


def _groups(experiment: Experiment) -> Iterator[tuple[int | None, Sequence[Load]]]:
    """Yield loads that differ in their clients alone; more threads are another generator."""
    closed = sorted(experiment.closed_loads)
    if len({load.clients for load in closed}) == len(closed):
        groups: dict[int | None, list[Load]] = {None: closed}
    else:
        groups = {threads: [] for threads in sorted({load.threads for load in closed})}
        for load in closed:
            groups[load.threads].append(load)
    for threads, members in groups.items():
        if len(members) >= LEAST_LOADS:
            yield threads, members


def scalability_section(
    analysis: CampaignAnalysis, curves: Sequence[ScalabilityCurve]
) -> tuple[Section, ...]:
    """Return the rates over clients as a table and a chart."""
    blocks = (_table(curves), _figure(analysis, curves))
    return (Section(anchor="scalability", title=TITLE, blocks=blocks),)


def _table(curves: Sequence[ScalabilityCurve]) -> Table:
    clients = sorted({load.clients for curve in curves for load in curve.measured})
    return table_of(
        curves,
        ("workload", lambda curve: curve.load_label),
        ("configuration", lambda curve: curve.configuration),
        *(
            (
                number_column(count(number_of, "client")),
                partial(ScalabilityCurve.rate_at, clients=number_of),
            )
            for number_of in clients
        ),
        title=TITLE,
        note=f"Medians of the table of cells, {RATE} in {RATE_UNIT}. The load generator takes its"
        " CPU from the same machine, unless the server is elsewhere.",
    )


def _figure(analysis: CampaignAnalysis, curves: Sequence[ScalabilityCurve]) -> Figure:
    return Figure(
        identity="scalability",
        kind=ChartKind.SCALABILITY,
        title=TITLE,
        caption=f"Medians of the table of cells with {CONFIDENCE} intervals over blocks, which"
        " contain what moves all loads of a block together. Clients on a logarithmic axis.",
        alt=f"{MANY_FIRST} per second over clients, by workload and configuration; the table above"
        " holds the same numbers.",
        columns=("workload", "configuration", "line", "clients", "place", "tps", "low", "high"),
        rows=tuple(row for curve in curves for row in _rows(analysis, curve)),
        configurations=analysis.names,
    )


def _rows(analysis: CampaignAnalysis, curve: ScalabilityCurve) -> Iterator[tuple[Value, ...]]:
    names = analysis.names
    aside = _ASIDE ** (names.index(curve.configuration) - (len(names) - 1) / 2)
    for is_line in (True, False):
        for load, tps in curve.measured.items():
            low, high = bounds(tps) or (None, None)
            place = round(load.clients * aside, 4)
            yield (
                *(curve.load_label, curve.configuration, is_line, load.clients, place),
                *(tps.value, low, high),
            )


def scalability_json(curves: Sequence[ScalabilityCurve]) -> dict[str, Json]:
    """Return the curves for programs."""
    return {"scalability": [_curve_json(curve) for curve in curves]}


def _curve_json(curve: ScalabilityCurve) -> dict[str, Json]:
    return {
        "workload": curve.workload,
        "configuration": curve.configuration,
        "threads": curve.threads,
        "blocks": curve.blocks,
        "measured": [
            {"clients": number(load.clients), "tps": interval(tps)}
            for load, tps in curve.measured.items()
        ],
    }
