"""Throughput over clients, and the number of clients above which more bring no clear gain."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from steelyard.answers.observations import Observations
from steelyard.answers.results import CampaignAnalysis, Grounds
from steelyard.core.experiment import MANY_FIRST, RATE, RATE_UNIT, Experiment
from steelyard.core.findings import Estimate
from steelyard.core.schedule import CellKey, Load
from steelyard.report import document as doc
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
class ScalabilityCurve:
    """How one configuration's throughput under one workload grows with its clients (METHOD 6).

    Attributes:
        threads: Of the generator when one number is used for all these loads; None where they
            follow the clients.
        blocks: Behind it.
        measured: The rate of its cell, 1/s, by load in rising order of clients.
        enough: The fewest clients above which more bring no clear gain; None below 6 blocks.
    """

    workload: str
    configuration: str
    threads: int | None
    blocks: int
    measured: Mapping[Load, Estimate]
    enough: Load | None

    @property
    def load_label(self) -> str:
        """Return the workload, and the threads where they tell curves apart."""
        threads = "" if self.threads is None else f", {doc.count(self.threads, 'thread')}"
        return f"{self.workload}{threads}"

    @property
    def still_rises(self) -> bool:
        """Return whether the most clients that ran have a clear gain over all fewer ones."""
        return self.enough == list(self.measured)[-1]

    @property
    def gain_ends(self) -> str:
        """Return above which number of clients there is no clear gain, or a dash."""
        if self.enough is None:
            return doc.MISSING
        clients = doc.count(self.enough.clients, "client")
        return f"still rising at {clients}" if self.still_rises else clients

    def rate_at(self, clients: int) -> str:
        """Return the rate of so many clients as a text, or a dash where they did not run."""
        rates = (tps.value for load, tps in self.measured.items() if load.clients == clients)
        return doc.rate(next(rates, None))


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
            measured={load: rates[name, CellKey(workload=workload, load=load)] for load in loads},
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
    lead = "More clients bring no clear gain above"
    return (doc.BulletList(lead=lead, items=items),) if items else ()


def scalability_section(
    analysis: CampaignAnalysis, curves: Sequence[ScalabilityCurve]
) -> tuple[doc.Section, ...]:
    """Return the rates over clients as a table and a chart."""
    blocks = (_table(curves), _figure(analysis, curves))
    return (doc.Section(anchor="scalability", title=TITLE, blocks=blocks),)


def _table(curves: Sequence[ScalabilityCurve]) -> doc.Table:
    clients = sorted({load.clients for curve in curves for load in curve.measured})
    return doc.table_of(
        curves,
        ("workload", lambda curve: curve.load_label),
        ("configuration", lambda curve: curve.configuration),
        *(
            (
                doc.number_column(doc.count(number_of, "client")),
                partial(ScalabilityCurve.rate_at, clients=number_of),
            )
            for number_of in clients
        ),
        (doc.number_column("no clear gain above"), lambda curve: curve.gain_ends),
        title=TITLE,
        note=_NOTE,
    )


def _figure(analysis: CampaignAnalysis, curves: Sequence[ScalabilityCurve]) -> doc.Figure:
    return doc.Figure(
        identity="scalability",
        kind=doc.ChartKind.SCALABILITY,
        title=TITLE,
        caption=f"Medians of the table of cells with {doc.CONFIDENCE} intervals over blocks, which"
        " contain what moves all loads of a block together. Clients on a logarithmic axis.",
        alt=f"{MANY_FIRST} per second over clients, by workload and configuration; the table above"
        " holds the same numbers.",
        columns=("workload", "configuration", "line", "clients", "place", "tps", "low", "high"),
        rows=tuple(row for curve in curves for row in _rows(analysis, curve)),
        configurations=analysis.names,
    )


def _rows(analysis: CampaignAnalysis, curve: ScalabilityCurve) -> Iterator[tuple[doc.Value, ...]]:
    names = analysis.names
    aside = _ASIDE ** (names.index(curve.configuration) - (len(names) - 1) / 2)
    for is_line in (True, False):
        for load, tps in curve.measured.items():
            low, high = doc.bounds(tps) or (None, None)
            place = round(load.clients * aside, 4)
            yield (
                *(curve.load_label, curve.configuration, is_line, load.clients, place),
                *(tps.value, low, high),
            )


def scalability_json(curves: Sequence[ScalabilityCurve]) -> dict[str, doc.Json]:
    """Return the curves for programs."""
    return {"scalability": [_curve_json(curve) for curve in curves]}


def _curve_json(curve: ScalabilityCurve) -> dict[str, doc.Json]:
    return {
        **doc.attributes(curve, "workload", "configuration", "threads", "blocks"),
        "no_gain_above_clients": None if curve.enough is None else curve.enough.clients,
        "still_rises": curve.still_rises,
        "reason": None if curve.enough else _too_few(curve.blocks),
        "measured": [
            {"clients": doc.number(load.clients), "tps": doc.interval(tps)}
            for load, tps in curve.measured.items()
        ],
    }


def _too_few(blocks: int) -> str:
    return f"{doc.count(blocks, 'block')}; the number needs {LEAST_GAIN_BLOCKS}"
