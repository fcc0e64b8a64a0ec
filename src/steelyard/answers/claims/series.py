"""The article series as data: its tables, single figures, steps, and what it claims."""

import csv
from dataclasses import replace
from functools import cache
from importlib.resources import files

from steelyard.answers.claims.statements import Publication, read_claims
from steelyard.answers.claims.tables import read_table
from steelyard.core.published import (
    NamedFigure,
    PublishedRow,
    Step,
    parse_printed,
    parts_of,
)
from steelyard.core.units import MS_PER_S

_REDIS_CLIENTS = 20  # redis-benchmark -c 20
_RUN_S = 60.0  # pgbench -T 60
_ALL = "select-only + simple-update + tpcb-like"
_NOT_TOLD = "not told"


@cache
def article_series() -> Publication:
    """Return the published series."""
    articles, claims = read_claims(_shipped("claims.toml"), "claims.toml")
    return Publication(
        rows=(*_postgres(), *_averages(), *_redis()),
        figures=tuple(
            NamedFigure(
                article=row["article"],
                name=row["figure"],
                value=parse_printed(row["value"]),
                unit=row["unit"],
            )
            for row in _records("figures.csv")
        ),
        steps=tuple(map(_step, _records("changes.csv"))),
        articles=articles,
        claims=claims,
    )


def _shipped(name: str) -> str:
    return files("steelyard.answers").joinpath("published_files", name).read_text("utf-8")


def _records(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(_shipped(name).splitlines()))


def _postgres() -> tuple[PublishedRow, ...]:
    rows = read_table(_shipped("postgres_cells.csv"), "postgres_cells.csv").rows
    return tuple(replace(row, seconds=_RUN_S) for row in rows)


def _redis() -> tuple[PublishedRow, ...]:
    rows = read_table(_shipped("redis_cells.csv"), "redis_cells.csv").rows
    return tuple(replace(row, study="redis", clients=_REDIS_CLIENTS) for row in rows)


def _averages() -> list[PublishedRow]:
    """Return the printed averages: rows without a number of clients."""
    found = []
    for place, record in enumerate(_records("postgres_averages.csv"), start=2):
        latency = parse_printed(record["avg_rw_latency_ms"], 1.0 / MS_PER_S)
        by_workload = {
            "select-only": (("tps", parse_printed(record["avg_ro_tps"])),),
            "simple-update": (
                ("tps", parse_printed(record["avg_rw_tps"])),
                ("latency_mean", latency),
            ),
            _ALL: (("tps", parse_printed(record["overall_avg_tps"])),),
        }
        for workload, figures in by_workload.items():
            row = PublishedRow(
                source="postgres_averages.csv",
                line=place,
                study=record["article"],
                configuration=record["environment"],
                workload=workload,
                figures=figures,
            )
            found.append(row)
    return found


def _step(record: dict[str, str]) -> Step:
    changed, measured = record["changed_at_once"], record["measured"]
    told = () if changed == "nothing" else parts_of(changed)
    nothing = measured == "nothing" or measured.startswith("no ")
    return Step(
        article=record["article"],
        name=record["step"],
        changed=None if changed == _NOT_TOLD else told,
        measured=None if nothing else measured,
        repeated=record["repeated"],
    )
