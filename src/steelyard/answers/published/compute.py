"""Published figures beside a single pass: another machine, one run each, no comparison.

A Redis campaign beside the published figures of the same work: another machine, one run each.

The rates of two machines say nothing of one another. What a configuration costs against the one
without an append-only file, on the same machine, may be laid side by side, and no test does more.
"""

import csv
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Final

import numpy as np

from steelyard.answers.latency.results import LatencyAnalysis
from steelyard.answers.published.results import (
    PublishedFigures,
    PublishedRequests,
    PublishedRow,
    RequestFigures,
)
from steelyard.answers.results import CellSummary
from steelyard.core.experiment import Experiment, GeneratorName, Layer, Workload
from steelyard.core.schedule import Load
from steelyard.core.units import MS_PER_S

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
    for row in _rows(_CELLS):
        if int(row["clients"]) == clients:
            latency_s = float(row["latency_ms"]) / MS_PER_S
            found.setdefault(row["environment"], {})[row["workload"]] = latency_s
    return {
        environment: tuple(latencies[script] for script in scripts)
        for environment, latencies in found.items()
        if set(scripts) <= set(latencies)
    }


@cache
def _rows(name: str) -> tuple[dict[str, str], ...]:
    text = files(__package__).joinpath(name).read_text("utf-8")
    return tuple(csv.DictReader(text.splitlines()))


@cache
def _published() -> dict[tuple[str, str, int], float]:
    """Return transactions per second by environment, pgbench script and clients."""
    return {
        (row["environment"], row["workload"], int(row["clients"])): float(row["tps"])
        for row in _rows(_CELLS)
    }


CLIENTS: Final = 20
VALUE_BYTES: Final = 180_000
OFF: Final = "local-aof-off"
_REDIS_CELLS: Final = "published_files/redis_cells.csv"
_P99: Final = 0.99
# The published PING is one figure, and redis-benchmark has two tests of it: which is not printed.
_COMMANDS: Final = {"set": "SET", "get": "GET", "ping_mbulk": "PING", "ping_inline": "PING"}


def requests_beside_published(
    experiment: Experiment, cells: Sequence[CellSummary], latency: LatencyAnalysis | None
) -> PublishedRequests | None:
    """Return a campaign beside the published figures; None where none is of the same work.

    The same work is a test of redis-benchmark with 20 clients and no pipeline on one key of 180,000
    bytes. How many requests were made differs: 50,000 there, here as many as fill a slice.
    """
    rows: list[RequestFigures] = []
    for workload in experiment.workloads:
        own = _own_requests(experiment, workload, cells, latency)
        if own:
            rows += [*own, *_published_requests(own[0].command)]
    return PublishedRequests(rows=tuple(rows)) if rows else None


def _own_requests(
    experiment: Experiment,
    workload: Workload,
    cells: Sequence[CellSummary],
    latency: LatencyAnalysis | None,
) -> list[RequestFigures]:
    command = _command(experiment, workload)
    found = {
        each.treatment: each
        for each in cells
        if command and each.cell.workload == workload.name and _is_published(each.cell.load)
    }
    off = found.get(_without_aof(experiment) or "")
    rows = []
    for name in (t.name for t in experiment.treatments if t.name in found):
        cell = found[name]
        levels = latency.of(name, cell.cell) if latency is not None else None
        p99 = levels.at(_P99) if levels is not None else None
        rows.append(
            RequestFigures(
                command=command,
                configuration=name,
                published=False,
                held_keys=_held(experiment),
                per_s=cell.tps.value,
                of_off=None if off is None else cell.tps.value / off.tps.value,
                mean_s=cell.latency_mean_s,
                p99_s=None if p99 is None or p99.value_s is None else p99.value_s.value,
            )
        )
    return rows


def _command(experiment: Experiment, workload: Workload) -> str:
    """Return the published command that a workload is; empty where it is none."""
    work = workload.redis
    if work is None or experiment.generator is not GeneratorName.REDIS_BENCHMARK:
        return ""
    command = _COMMANDS.get(workload.builtin or "", "")
    alike = work.space.keys == 1 and work.space.value_bytes == VALUE_BYTES
    return command if alike or command == "PING" else ""  # PING has no value


def _is_published(load: Load) -> bool:
    # Whether one process has the 20 clients or two share them, the server has the same work.
    alone = load.generators == load.pipeline == 1
    return load.clients == CLIENTS and alone and not load.is_open


def _without_aof(experiment: Experiment) -> str | None:
    """Return the first treatment that asks for no append-only file, the baseline before others."""
    baseline = experiment.treatment(experiment.baseline)
    for treatment in (baseline, *experiment.treatments):
        asked = treatment.asked(Layer.REDIS)
        if {name.lower(): value for name, value in asked.items()}.get("appendonly") == "no":
            return treatment.name
    return None


def _held(experiment: Experiment) -> int:
    """Return how many keys a server holds before a run, in all its databases."""
    spaces = {each.redis.space for each in experiment.workloads if each.redis is not None}
    return sum(space.loaded for space in spaces)


def _published_requests(command: str) -> list[RequestFigures]:
    rows = [row for row in _rows(_REDIS_CELLS) if row["command"] == command]
    off = next((float(row["rps"]) for row in rows if row["configuration"] == OFF), None)
    return [
        RequestFigures(
            command=command,
            configuration=row["configuration"],
            published=True,
            held_keys=int(row["dataset_keys"]),
            per_s=float(row["rps"]),
            of_off=None if off is None else float(row["rps"]) / off,
            mean_s=_seconds(row["avg_latency_ms"]),
            p99_s=_seconds(row["p99_latency_ms"]),
        )
        for row in rows
    ]


def _seconds(printed_ms: str) -> float | None:
    return float(printed_ms) / MS_PER_S if printed_ms else None
