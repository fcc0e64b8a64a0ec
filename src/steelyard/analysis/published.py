"""Published figures beside a single pass: another machine, one run each, no comparison."""

import csv
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

import numpy as np

from steelyard.analysis.published_results import PublishedFigures, PublishedRow
from steelyard.analysis.results import CellSummary
from steelyard.model.experiment import Experiment
from steelyard.model.units import MS_PER_S

SCALE_FACTOR = 100
_CELLS = "published_files/postgres_cells.csv"


def beside_published(
    experiment: Experiment, cells: Sequence[CellSummary]
) -> PublishedFigures | None:
    """Return a single pass beside the published figures; None where none is of the same work.

    The same work is the same pgbench script at scale factor 100 with the same number of clients.
    The publication does not print its figures by threads.
    """
    if not experiment.is_single_pass:
        return None
    published = _published()
    environments = tuple(dict.fromkeys(environment for environment, _, _ in published))
    rows = []
    for workload in experiment.workloads:
        if workload.builtin is None or workload.scale_factor != SCALE_FACTOR:
            continue
        for clients in dict.fromkeys(load.clients for load in experiment.loads):
            keys = [(environment, workload.builtin, clients) for environment in environments]
            figures = tuple(published.get(key) for key in keys)
            own = _own(cells, workload.name, clients)
            if own and any(figure is not None for figure in figures):
                row = PublishedRow(
                    workload=workload.name,
                    builtin=workload.builtin,
                    clients=clients,
                    own_tps=own,
                    published_tps=figures,
                )
                rows.append(row)
    return PublishedFigures(environments=environments, rows=tuple(rows)) if rows else None


def _own(
    cells: Sequence[CellSummary], workload: str, clients: int
) -> tuple[tuple[int, float], ...]:
    return tuple(
        (summary.cell.load.threads, summary.tps.value)
        for summary in cells
        if summary.cell.workload == workload
        and summary.cell.load.clients == clients
        and not summary.cell.load.is_open
        and np.isfinite(summary.tps.value)
    )


def published_latencies(scripts: Sequence[str], *, clients: int) -> dict[str, tuple[float, ...]]:
    """Return mean latencies, in seconds, of the environments that have all these scripts."""
    found: dict[str, dict[str, float]] = {}
    for row in _rows():
        if int(row["clients"]) == clients:
            latency_s = float(row["latency_ms"]) / MS_PER_S
            found.setdefault(row["environment"], {})[row["workload"]] = latency_s
    return {
        environment: tuple(latencies[script] for script in scripts)
        for environment, latencies in found.items()
        if set(scripts) <= set(latencies)
    }


@cache
def _rows() -> tuple[dict[str, str], ...]:
    text = files(__package__).joinpath(_CELLS).read_text("utf-8")
    return tuple(csv.DictReader(text.splitlines()))


@cache
def _published() -> dict[tuple[str, str, int], float]:
    """Return transactions per second by environment, pgbench script and clients."""
    return {
        (row["environment"], row["workload"], int(row["clients"])): float(row["tps"])
        for row in _rows()
    }
