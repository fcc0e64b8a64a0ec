"""Throughput over clients, and the number of clients above which more bring no clear gain."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Annotated, ClassVar, Final

from steelyard.answers.observations import Observations
from steelyard.answers.results import CampaignAnalysis, Grounds
from steelyard.core.experiment import MANY_FIRST, RATE, RATE_UNIT, Experiment
from steelyard.core.findings import Estimate
from steelyard.core.quantities import Computed, Named
from steelyard.core.schedule import (
    CLIENTS,
    THREADS,
    Blocks,
    CellKey,
    ConfigurationName,
    Load,
    WorkloadName,
)
from steelyard.report import document as doc
from steelyard.report.keys import row_of
from steelyard.stats.capacity import LEAST_GAIN_BLOCKS, fewest_without_gain
from steelyard.stats.spending import FIXED_ALPHA

LEAST_LOADS = 5  # of fewer the table of cells shows as much
TITLE = "Throughput over clients"
_NOTE = (
    f"Medians of the table of cells, {RATE} in {RATE_UNIT}. A gain is clear when its interval"
    f" within blocks lies wholly above zero ({doc.CONFIDENCE} for all rows together). Above the"
    " clients"
    " of the last column no such gain was seen; a smaller one is possible. That column needs"
    f" {LEAST_GAIN_BLOCKS} blocks. The load generator takes its CPU from the same machine, unless"
    " the server is elsewhere."
)
_ASIDE = 1.025  # factor between two configurations' points, so that they do not cover one another


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """The rate of a cell."""

    load: Load
    clients: ClassVar = Computed(lambda point: point.load.clients, Annotated[int, CLIENTS])
    tps: Annotated[Estimate, "Rate, 1/s."]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalabilityCurve:
    """How one configuration's throughput under one workload grows with its clients (METHOD 6).

    Attributes:
        threads: Of the generator when one number is used for all these loads; None where they
            follow the clients.
        measured: In rising order of clients.
        enough: The fewest clients above which more bring no clear gain; None below 6 blocks.
    """

    workload: WorkloadName
    configuration: ConfigurationName
    threads: Annotated[int | None, THREADS]
    blocks: Blocks
    enough: Load | None
    gain_until: ClassVar = Computed(
        lambda curve: curve.enough and curve.enough.clients,
        Annotated[
            int | None,
            Named("no_gain_above_clients"),
            "Fewest clients above which no larger number has clearly more throughput; null below 6"
            " blocks.",
        ],
    )
    still_rises: ClassVar = Computed(
        lambda curve: curve.enough == curve.measured[-1].load,
        Annotated[
            bool,
            "That number is the largest that ran: it has clearly more throughput than all smaller"
            " ones.",
        ],
    )
    reason: ClassVar = Computed(
        lambda curve: (
            None
            if curve.enough
            else f"{doc.count(curve.blocks, 'block')}; the number needs {LEAST_GAIN_BLOCKS}"
        ),
        Annotated[str | None, "Why there is no such number; may be null."],
    )
    measured: Annotated[tuple[CurvePoint, ...], "The points that were measured."]

    @property
    def load_label(self) -> str:
        """Return the workload, and the threads where they tell curves apart."""
        threads = "" if self.threads is None else f", {doc.count(self.threads, 'thread')}"
        return f"{self.workload}{threads}"

    @property
    def gain_ends(self) -> str:
        """Return above which number of clients there is no clear gain, or a dash."""
        if self.enough is None:
            return doc.MISSING
        clients = doc.count(self.enough.clients, "client")
        return f"still rising at {clients}" if self.still_rises else clients

    def rate_at(self, clients: int) -> Estimate | None:
        """Return the rate of so many clients; None where they did not run."""
        return next((point.tps for point in self.measured if point.clients == clients), None)


def scalability_curves(grounds: Grounds) -> tuple[ScalabilityCurve, ...]:
    """Return a curve per workload, configuration and rule for threads.

    There are none of a single pass, nor where fewer than 5 different numbers of clients ran
    without a rate under one rule for the generator's threads.
    """
    experiment, seen = grounds.record.experiment, grounds.closed
    if not seen.blocks or experiment.is_single_pass:
        return ()
    rates = {(cell.configuration, cell.cell): cell.tps for cell in grounds.analysis.cells}
    series = [
        (workload.name, configuration.name, threads, loads)
        for workload in experiment.workloads
        for threads, loads in _groups(experiment)
        for configuration in experiment.configurations
    ]
    return tuple(
        ScalabilityCurve(
            workload=workload,
            configuration=name,
            threads=threads,
            blocks=seen.blocks,
            measured=tuple(
                CurvePoint(load=load, tps=rates[name, CellKey(workload=workload, load=load)])
                for load in loads
            ),
            enough=_enough(seen, workload, name, loads, FIXED_ALPHA / len(series)),
        )
        for workload, name, threads, loads in series
    )


def _enough(
    seen: Observations, workload: str, configuration: str, loads: Sequence[Load], level: float
) -> Load | None:
    columns = [seen.cells.index(CellKey(workload=workload, load=load)) for load in loads]
    log_tps = seen.log_tps[:, seen.configurations.index(configuration)][:, columns]
    place = fewest_without_gain(log_tps, level)
    return None if place is None else loads[place]


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


def gain_answers(analysis: CampaignAnalysis) -> tuple[doc.BulletList, ...]:
    """Return where the gain of more clients ends, for the place of the results."""
    curves = [curve for curve in analysis.answer(scalability_curves) or () if curve.enough]
    items = tuple(
        f"{label}: {', '.join(f'{curve.gain_ends} ({curve.configuration})' for curve in group)}"
        for label, group in groupby(curves, lambda curve: curve.load_label)
    )
    lead = "Clients above which more bring no clear gain"
    return (doc.BulletList(lead=lead, items=items),) if items else ()


def scalability_section(
    analysis: CampaignAnalysis, curves: Sequence[ScalabilityCurve]
) -> tuple[doc.Section, ...]:
    """Return the rates over clients as a table and a chart."""
    blocks = (_table(curves), _figure(analysis, curves))
    return (doc.Section(anchor="scalability", title=TITLE, blocks=blocks),)


def _table(curves: Sequence[ScalabilityCurve]) -> doc.Table:
    clients = sorted({point.clients for curve in curves for point in curve.measured})
    return doc.table_of(
        curves,
        ("workload", lambda curve: curve.load_label),
        ("configuration", lambda curve: curve.configuration),
        *(
            doc.column(
                doc.count(number_of, "client"),
                partial(lambda number_of, curve: curve.rate_at(number_of), number_of),
                _RATE,
                key=f"tps_at_{number_of}",
            )
            for number_of in clients
        ),
        (doc.number_column("no clear gain above"), lambda curve: curve.gain_ends),
        title=TITLE,
        note=_NOTE,
        data=_data,
    )


def _data(curve: ScalabilityCurve) -> tuple[doc.Datum, ...]:
    # Threads alone are no load of the campaign: a curve is of many.
    named = {"threads": "threads_of_all"}
    return tuple((named.get(key, key), value) for key, value in row_of(curve))


_RATE: Final = doc.Form(show=lambda tps: doc.rate(tps.value))


def _figure(analysis: CampaignAnalysis, curves: Sequence[ScalabilityCurve]) -> doc.Figure:
    return doc.figure_of(
        (row for curve in curves for row in _rows(analysis, curve)),
        identity="scalability",
        kind=doc.ChartKind.SCALABILITY,
        title=TITLE,
        caption=f"Medians of the table of cells with {doc.CONFIDENCE} intervals over blocks, which"
        " contain what moves all loads of a block together. Clients on a logarithmic axis.",
        alt=f"{MANY_FIRST} per second over clients, by workload and configuration; the table above"
        " holds the same numbers.",
        configurations=analysis.names,
    )


def _rows(analysis: CampaignAnalysis, curve: ScalabilityCurve) -> Iterator[dict[str, doc.Value]]:
    names = analysis.names
    aside = _ASIDE ** (names.index(curve.configuration) - (len(names) - 1) / 2)
    for is_line in (True, False):
        for point in curve.measured:
            yield {
                "workload": curve.load_label,
                "configuration": curve.configuration,
                "line": is_line,
                "clients": point.clients,
                "place": round(point.clients * aside, 4),
                **doc.ends("tps", point.tps),
            }
