"""The table "Beside the published figures": other machines, one run each, compared by no test."""

import csv
import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.resources import files
from typing import Annotated, Final

from steelyard.answers.latency.compute import campaign_latency
from steelyard.answers.results import CampaignAnalysis
from steelyard.core.quantities import OPTIONAL
from steelyard.core.schedule import CLIENTS, ConfigurationName, Load, WorkloadName
from steelyard.core.wording import MS_PER_S
from steelyard.report import document as doc
from steelyard.report.keys import Declared, row_of

_FILES: Final = files(__package__) / "published_files"
_TEXTS: Final = tomllib.loads(_FILES.joinpath("texts.toml").read_text("utf-8"))
_TITLE: Final = "Beside the published figures"
_SCALE_FACTOR: Final = 100
_LOAD: Final = (20, 1, 1)  # clients, generators, pipeline
_KEY: Final = (1, 180_000)  # keys, bytes of a value
# The published PING is one figure, and redis-benchmark has two tests of it: which is not printed.
_COMMANDS: Final = {"set": "SET", "get": "GET", "ping_mbulk": "PING", "ping_inline": "PING"}


@dataclass(frozen=True, slots=True)
class RateRow:
    """Own and published rates of a pgbench script."""

    workload: WorkloadName
    builtin: Annotated[str, "Builtin script."]
    clients: Annotated[int, CLIENTS]
    own_tps: Annotated[Mapping[str, float | None], "Own rates by threads or configuration, 1/s."]
    published_tps: Annotated[Mapping[str, float], "Published rates by environment, 1/s."]


@dataclass(frozen=True, slots=True)
class RequestRow:
    """A command of Redis."""

    command: Annotated[str, "Redis command."]
    configuration: ConfigurationName
    held_keys: Annotated[int, "Keys that the server held."]
    requests_per_s: Annotated[float, "Requests per second."]
    of_aof_off: Annotated[
        float | None, "As a fraction of those without an append-only file on the same side."
    ]
    latency_mean_s: Annotated[float | None, "Median over runs of their mean latency, s."]
    latency_p99_s: Annotated[float | None, "99th percentile, s."]
    published: Annotated[bool, "Whether it is a published figure, not an own one."] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """Own and published figures: no program compares by them."""

    single_pass: Annotated[
        bool, OPTIONAL, "True: each cell was run once, so no difference has an interval."
    ]
    published: Annotated[tuple[RateRow, ...] | None, "Published figures and own ones."]
    published_requests: Annotated[
        tuple[RequestRow, ...], OPTIONAL, "Redis requests, own and published ones."
    ]


@cache
def _rows(name: str) -> tuple[dict[str, str], ...]:
    return tuple(csv.DictReader(_FILES.joinpath(name).read_text("utf-8").splitlines()))


def rates_beside(analysis: CampaignAnalysis) -> Iterator[RateRow]:
    """Yield the cells with published ones of the same script, scale factor and clients."""
    for workload in analysis.experiment.workloads:
        script = workload.builtin if workload.scale == _SCALE_FACTOR else None
        for clients in dict.fromkeys(load.clients for load in analysis.experiment.loads):
            published = {
                row["environment"]: float(row["tps"])
                for row in _rows("postgres_cells.csv")
                if (row["workload"], row["clients"]) == (script, str(clients))
            }
            own = _own_rates(analysis, workload.name, clients)
            if script and own and published:
                yield RateRow(workload.name, script, clients, own, published)


def _own_rates(analysis: CampaignAnalysis, workload: str, clients: int) -> dict[str, float | None]:
    rates = {
        (cell.configuration, cell.cell.load.threads): doc.number(cell.tps.value)
        for cell in analysis.cells
        if (cell.cell.workload, cell.cell.load.clients) == (workload, clients)
        and not cell.cell.load.is_open
        and math.isfinite(cell.tps.value)
    }
    if analysis.experiment.is_single_pass:
        return {str(threads): tps for (_, threads), tps in rates.items()}
    if len({threads for _, threads in rates}) == 1:
        return {name: tps for (name, _), tps in rates.items()}
    return {f"{name}, {doc.count(n, 'thread')}": tps for (name, n), tps in rates.items()}


def rate_section(analysis: CampaignAnalysis) -> Iterator[doc.Section]:
    """Yield the table of a campaign with published cells of PostgreSQL."""
    rows, experiment = [*rates_beside(analysis)], analysis.experiment
    if not rows:
        return
    single = experiment.is_single_pass
    environments = rows[0].published_tps
    lengths = {experiment.run_time_s(workload.name) for workload in experiment.workloads}
    changed = "" if lengths == {60.0} else ", not 60 s"
    runs = "one run per cell" if single else f"medians of {analysis.blocks} blocks"
    here = f"{experiment.slices} per cell{changed}, {runs}, protocol {experiment.protocol}"
    loads = sorted(row.clients for row in rows)

    def table(rows: Iterable[RateRow], brief: str = "") -> doc.Table:
        own = f"here ({'threads' if single else 'configuration'})"
        return doc.table_of(
            rows,
            doc.Cells(
                doc.Column(name="workload"),
                lambda row: row.builtin,
                lambda row: (("workload", row.workload), ("builtin", row.builtin)),
            ),
            # On any number of threads: it is no load of the campaign.
            doc.column("clients", lambda row: row.clients, doc.Form(), key="number_of_clients"),
            doc.Cells(doc.number_column(own), _own_text, _own_data),
            *(
                doc.column(
                    _TEXTS["names"][name],
                    partial(lambda name, row: row.published_tps[name], name),
                    _PUBLISHED,
                    key=name,
                    spare=place > 1,
                )
                for place, name in enumerate(environments)
            ),
            title=_TITLE,
            note=f"{_TEXTS['rates']} Here: {here}.",
            brief=brief,
        )

    ends = replace(
        table(
            (row for row in rows if row.clients in (loads[0], loads[-1])),
            brief="The least and the largest load; all others are in the whole report.",
        ),
        gist=f"{doc.count(len(rows), 'rate')} of this machine beside those of"
        f" {doc.count(len(environments), 'published environment')}, which no test compares: the"
        " table is in the report.",
    )
    brief = (ends,) if single else ()
    blocks = (table(rows),)
    yield doc.Section(anchor="published", title=_TITLE, blocks=blocks, first=single, brief=brief)


_PUBLISHED: Final = doc.Form(show="{:,.0f}".format)


def _own_text(row: RateRow) -> str:
    return " · ".join(f"{doc.rate(tps)} ({name})" for name, tps in row.own_tps.items())


def _own_data(row: RateRow) -> tuple[doc.Datum, ...]:
    return tuple(
        (re.sub(r"[^\w-]+", "_", f"here_{name}"), tps) for name, tps in row.own_tps.items()
    )


def requests_beside(analysis: CampaignAnalysis) -> Iterator[RequestRow]:
    """Yield own rows, then published ones, of each command that is the published work."""
    experiment, latency = analysis.experiment, analysis.answer(campaign_latency)
    held = sum(space.loaded for space in {w.redis.space for w in experiment.workloads if w.redis})
    wanted = {side.name: side.asked_folded() for side in experiment.configurations}
    names = (experiment.baseline, *wanted)
    off = next((name for name in names if wanted[name].get("appendonly") == "no"), "")
    for workload in experiment.workloads:
        command, work = _COMMANDS.get(workload.builtin or ""), workload.redis
        key = work and (work.space.keys, work.space.value_bytes)
        if command is None or key is None or (key != _KEY and command != "PING"):
            continue
        alike = (cell for cell in analysis.cells if _is_alike(cell.cell.load))
        cells = {cell.configuration: cell for cell in alike if cell.cell.workload == workload.name}
        for name, cell in cells.items():
            rate, mean_s = cell.tps.value, cell.latency_mean_s
            ratio = rate / cells[off].tps.value if off in cells else None
            p99_s = latency.percentile_s(name, cell.cell, 0.99) if latency else None
            yield RequestRow(command, name, held, rate, ratio, mean_s, p99_s)
        yield from _printed(command) if cells else ()


def _is_alike(load: Load) -> bool:
    # Whether one process has the 20 clients or two share them, the server has the same work.
    return (load.clients, load.generators, load.pipeline) == _LOAD and not load.is_open


def _printed(command: str) -> Iterator[RequestRow]:
    rows = [row for row in _rows("redis_cells.csv") if row["command"] == command]
    for row in rows:
        rate, off = float(row["rps"]), float(rows[0]["rps"])  # the first has no append-only file
        times = (row["avg_latency_ms"], row["p99_latency_ms"])
        mean_s, p99_s = (float(ms) / MS_PER_S if ms else None for ms in times)
        name, held, ratio = row["configuration"], int(row["dataset_keys"]), rate / off
        yield RequestRow(command, name, held, rate, ratio, mean_s, p99_s, published=True)


def request_section(analysis: CampaignAnalysis) -> Iterator[doc.Section]:
    """Yield the table of a campaign with published cells of Redis."""
    rows, names = [*requests_beside(analysis)], _TEXTS["names"]
    processes = max(load.threads for load in analysis.experiment.loads)
    by = "" if processes == 1 else f"; {processes} processes of the generator sent them, not one"
    here = f"medians of {analysis.experiment.slices} runs in blocks ordered by coin"
    table = doc.table_of(
        rows,
        ("command", lambda row: row.command),
        ("where", lambda row: "published" if row.published else "here"),
        ("configuration", lambda r: names[r.configuration] if r.published else r.configuration),
        (doc.number_column("keys held", spare=True), lambda row: f"{row.held_keys:,}"),
        (doc.number_column("requests", unit="1/s"), lambda row: doc.rate(row.requests_per_s)),
        (
            doc.number_column("of AOF off"),
            lambda row: (
                doc.MISSING if row.of_aof_off is None else f"{100.0 * row.of_aof_off:.1f} %"
            ),
        ),
        (doc.number_column("mean", unit="ms"), lambda row: doc.milliseconds(row.latency_mean_s)),
        (doc.number_column("p99", unit="ms"), lambda row: doc.milliseconds(row.latency_p99_s)),
        data=row_of,
        title=_TITLE,
        note=f"{_TEXTS['requests']} Here: {here}, not 50,000 requests{by}.",
    )
    if rows:
        yield doc.Section(anchor="published", title=_TITLE, blocks=(table,))


PUBLISHED: Final = Declared(Beside)


def published_json(analysis: CampaignAnalysis) -> dict[str, doc.Json]:
    """Return both tables for programs, and that a single pass is one."""
    beside = Beside(
        single_pass=analysis.experiment.is_single_pass,
        published=tuple(rates_beside(analysis)) or None,
        published_requests=tuple(requests_beside(analysis)),
    )
    keys = PUBLISHED(beside)
    return keys if beside.single_pass else {key: rows for key, rows in keys.items() if rows}
