"""Published figures beside a campaign's own: other machines, one run each, never compared.

The rates of two machines say nothing of one another. What a configuration of Redis costs against
the one without an append-only file, on the same machine, may be laid side by side, and no test does
more.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

import numpy as np

from steelyard.answers.latency.compute import campaign_latency
from steelyard.answers.latency.results import LatencyAnalysis
from steelyard.answers.results import CampaignAnalysis, CellSummary, Grounds
from steelyard.core.experiment import Experiment, GeneratorName, Layer, Workload
from steelyard.core.schedule import Load
from steelyard.core.wording import MS_PER_S
from steelyard.report.document import (
    MISSING,
    Json,
    Section,
    count,
    milliseconds,
    number,
    number_column,
    rate,
    table_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRow:
    """One workload under one number of clients, here and as published.

    Attributes:
        workload: Name in the experiment.
        builtin: The pgbench script behind it.
        own_tps: Measured here, 1/s: of a single pass by number of threads, else by configuration.
        published_tps: By environment, in the order of ``PublishedFigures.environments``, 1/s;
            None where nothing was published.
    """

    workload: str
    builtin: str
    clients: int
    own_tps: tuple[tuple[str, float], ...]
    published_tps: tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFigures:
    """A campaign's cells beside the published ones of the same work."""

    environments: tuple[str, ...]
    rows: tuple[PublishedRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFigures:
    """How one configuration answered one command, here or as published.

    Attributes:
        command: ``SET``, ``GET`` or ``PING``.
        configuration: Name of the configuration, or of the publication.
        published: It is not from here.
        held_keys: Keys of the server before it; None where it was not asked for.
        per_s: Requests per second; here the median of the runs.
        of_off: ``per_s`` over that of the configuration without an append-only file, on the same
            side; None where there is none.
        mean_s: Mean latency; None where it is not known, as the next.
        p99_s: Latency of the 99th percentile.
    """

    command: str
    configuration: str
    published: bool
    held_keys: int | None
    per_s: float
    of_off: float | None
    mean_s: float | None
    p99_s: float | None


SCALE_FACTOR = 100
_CELLS = "published_files/postgres_cells.csv"


def beside_published(
    experiment: Experiment, cells: Sequence[CellSummary]
) -> PublishedFigures | None:
    """Return a campaign beside the published figures; None where none is of the same work.

    The same work is the same pgbench script at scale factor 100 with the same number of clients.
    The publication does not print its figures by threads.
    """
    published = _published()
    environments = tuple(dict.fromkeys(environment for environment, _, _ in published))
    rows = []
    for workload in experiment.workloads:
        if workload.builtin is None or workload.scale_factor != SCALE_FACTOR:
            continue
        for clients in dict.fromkeys(load.clients for load in experiment.loads):
            keys = [(environment, workload.builtin, clients) for environment in environments]
            figures = tuple(published.get(key) for key in keys)
            own = _own(experiment, cells, workload.name, clients)
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
    experiment: Experiment, cells: Sequence[CellSummary], workload: str, clients: int
) -> tuple[tuple[str, float], ...]:
    found = [
        summary
        for summary in cells
        if summary.cell.workload == workload
        and summary.cell.load.clients == clients
        and not summary.cell.load.is_open
        and np.isfinite(summary.tps.value)
    ]
    if experiment.is_single_pass:
        return tuple((str(each.cell.load.threads), each.tps.value) for each in found)
    several = len({each.cell.load.threads for each in found}) > 1
    return tuple(
        (
            f"{each.configuration}, {count(each.cell.load.threads, 'thread')}"
            if several
            else each.configuration,
            each.tps.value,
        )
        for each in found
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


def published_rates(environment: str, builtin: str) -> tuple[tuple[int, float], ...]:
    """Return (clients, transactions per second) of a script in an environment, by clients."""
    found = _published().items()
    return tuple(sorted((key[2], tps) for key, tps in found if key[:2] == (environment, builtin)))


CLIENTS: Final = 20
VALUE_BYTES: Final = 180_000
OFF: Final = "local-aof-off"
_REDIS_CELLS: Final = "published_files/redis_cells.csv"
_P99: Final = 0.99
# The published PING is one figure, and redis-benchmark has two tests of it: which is not printed.
_COMMANDS: Final = {"set": "SET", "get": "GET", "ping_mbulk": "PING", "ping_inline": "PING"}


def published_requests(grounds: Grounds) -> tuple[RequestFigures, ...]:
    """Return a campaign beside the published figures of Redis; nothing where none is its work."""
    analysis = grounds.analysis
    latency = analysis.answer(campaign_latency)
    return requests_beside_published(analysis.experiment, analysis.cells, latency)


def requests_beside_published(
    experiment: Experiment, cells: Sequence[CellSummary], latency: LatencyAnalysis | None
) -> tuple[RequestFigures, ...]:
    """Return a campaign beside the published figures; nothing where none is of the same work.

    Command by command: first those of here in order, then those published.

    The same work is a test of redis-benchmark with 20 clients and no pipeline on one key of 180,000
    bytes. How many requests were made differs: 50,000 there, here as many as fill a slice.
    """
    rows: list[RequestFigures] = []
    for workload in experiment.workloads:
        own = _own_requests(experiment, workload, cells, latency)
        if own:
            rows += [*own, *_published_requests(own[0].command)]
    return tuple(rows)


def _own_requests(
    experiment: Experiment,
    workload: Workload,
    cells: Sequence[CellSummary],
    latency: LatencyAnalysis | None,
) -> list[RequestFigures]:
    command = _command(experiment, workload)
    found = {
        each.configuration: each
        for each in cells
        if command and each.cell.workload == workload.name and _is_published(each.cell.load)
    }
    off = found.get(_without_aof(experiment) or "")
    rows = []
    for name in (t.name for t in experiment.configurations if t.name in found):
        cell = found[name]
        rows.append(
            RequestFigures(
                command=command,
                configuration=name,
                published=False,
                held_keys=_held(experiment),
                per_s=cell.tps.value,
                of_off=None if off is None else cell.tps.value / off.tps.value,
                mean_s=cell.latency_mean_s,
                p99_s=None if latency is None else latency.percentile_s(name, cell.cell, _P99),
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
    """Return the first that asks for no append-only file, the baseline before others."""
    baseline = experiment.configuration(experiment.baseline)
    for configuration in (baseline, *experiment.configurations):
        asked = configuration.asked(Layer.REDIS)
        if {name.lower(): value for name, value in asked.items()}.get("appendonly") == "no":
            return configuration.name
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


_TITLE = "Beside the published figures (published, other machine)"
_NOTE = (
    "Published, other machine: redis-benchmark -n 50000 -c 20 -d 180000 on Redis 7, one run per"
    " configuration, one key, one thread; Longhorn is replicated storage. Which of the two PINGs of"
    " the program was printed is not known, nor what the two tunings set. Standing beside each"
    " other is no comparison: machine, storage, network, version and time all differ. `of AOF off`"
    " is the rate over that without an append-only file on the same side, and the only column that"
    " may be laid beside the other; of the published rows with data, too, it is over the one"
    " without any (none with data was published), here over one that held as many keys as the row."
)
# The keys are those of the published figures.
_CONFIGURATIONS = {
    "local-aof-off": "local SSD, AOF off",
    "local-aof-on-baseline": "local SSD, AOF on",
    "local-aof-on-tuning-1": "local SSD, AOF on, tuning 1",
    "local-aof-on-tuning-2": "local SSD, AOF on, tuning 2",
    "local-aof-on-tuning-2-data": "local SSD, AOF on, tuning 2, with data",
    "longhorn-aof-on-empty": "Longhorn, AOF on",
    "longhorn-aof-on-data": "Longhorn, AOF on, with data",
}


def requests_section(
    analysis: CampaignAnalysis, figures: Sequence[RequestFigures]
) -> tuple[Section, ...]:
    """Return the table beside the published figures of Redis."""
    table = table_of(
        figures,
        ("command", lambda row: row.command),
        ("where", lambda row: "published" if row.published else "here"),
        ("configuration", _name),
        (
            number_column("keys held", spare=True),
            lambda row: MISSING if row.held_keys is None else f"{row.held_keys:,}",
        ),
        (number_column("requests", unit="1/s"), lambda row: rate(row.per_s)),
        (
            number_column("of AOF off"),
            lambda row: MISSING if row.of_off is None else f"{100.0 * row.of_off:.1f} %",
        ),
        (number_column("mean", unit="ms"), lambda row: milliseconds(row.mean_s)),
        (number_column("p99", unit="ms"), lambda row: milliseconds(row.p99_s)),
        title=_TITLE,
        note=f"{_NOTE} {_here(analysis)}",
    )
    return (Section(anchor="published", title=_TITLE, blocks=(table,)),)


def _here(analysis: CampaignAnalysis) -> str:
    """Return what was done otherwise here; a worker of redis-benchmark is a process."""
    most = max(load.threads for load in analysis.experiment.loads)
    by = "" if most == 1 else f"; {most} processes of the generator sent them, not one"
    slices = analysis.experiment.slices
    return f"Here: medians of {slices} runs in blocks ordered by coin, not 50,000 requests{by}."


def _name(row: RequestFigures) -> str:
    name = row.configuration
    return _CONFIGURATIONS.get(name, name) if row.published else name


def requests_json(figures: Sequence[RequestFigures]) -> dict[str, Json]:
    """Return the same table for programs."""
    rows: list[Json] = [
        {
            "command": row.command,
            "configuration": row.configuration,
            "published": row.published,
            "held_keys": row.held_keys,
            "requests_per_s": number(row.per_s),
            "of_aof_off": number(row.of_off),
            "latency_mean_s": number(row.mean_s),
            "latency_p99_s": number(row.p99_s),
        }
        for row in figures
    ]
    return {"published_requests": rows}


def beside_json(analysis: CampaignAnalysis) -> dict[str, Json]:
    """Return what stands beside, and that a single pass is one, so that nobody compares by it."""
    figures = beside_published(analysis.experiment, analysis.cells)
    rows: Json = None if figures is None else _published_json(figures)
    if analysis.experiment.is_single_pass:
        return {"single_pass": True, "published": rows}
    return {} if rows is None else {"published": rows}


def _published_json(figures: PublishedFigures) -> list[Json]:
    """Return the same table for programs."""
    return [
        {
            "workload": row.workload,
            "builtin": row.builtin,
            "clients": row.clients,
            "own_tps": {name: number(tps) for name, tps in row.own_tps},
            "published_tps": {
                name: number(tps)
                for name, tps in zip(figures.environments, row.published_tps, strict=True)
            },
        }
        for row in figures.rows
    ]
