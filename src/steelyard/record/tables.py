"""Parquet tables derived from the journal, for the user's own analysis; rebuilt at will.

The table of latencies has a row per run, script and bucket that holds a transaction.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from steelyard.core.campaign import CampaignRecord
from steelyard.core.measurement import (
    Evidence,
    Measurement,
    Quantity,
    Run,
    RunLatency,
    Seconds,
    SustainedRun,
)
from steelyard.core.wording import InputError, RecordError
from steelyard.gateways.files import write_bytes
from steelyard.stats.histogram import bucket_bounds, from_text

if TYPE_CHECKING:
    import pyarrow as pa

_T = TypeVar("_T")
INSTALL: Final = "pip install pyarrow"


def can_make_tables() -> bool:
    """Return whether the package of the extra ``tables`` is installed."""
    return find_spec("pyarrow") is not None


def write_tables(record: CampaignRecord, path: Path) -> None:
    """Write each table of a campaign as a Parquet file.

    Raises:
        RecordError: The disk is full or fails, or a number of the record fits into no column.
    """
    for name, parts in _parts_of(record).items():
        write = partial(_write_parts, parts)
        with _fitting(name):
            write_bytes(path / f"{name}.parquet", write, error_type=RecordError)


def _write_parts(parts: Iterator["pa.Table"], file: IO[bytes]) -> None:
    import pyarrow.parquet as pq  # noqa: PLC0415 - an extra, heavy, needed at a campaign's end

    first = next(parts)
    with pq.ParquetWriter(file, first.schema) as writer:
        for part in chain([first], parts):
            writer.write_table(part)


def tables_of(record: CampaignRecord) -> dict[str, "pa.Table"]:
    """Return a table of runs, their seconds, waits, counters, statements and latencies, of hosts.

    Raises:
        InputError: The package that makes tables is not installed.
        RecordError: A number of the record fits into no column.
    """
    import pyarrow as pa  # noqa: PLC0415

    if not can_make_tables():
        raise InputError("tables need pyarrow, which is not installed", hint=f"Run {INSTALL}.")
    tables = dict[str, "pa.Table"]()
    for name, parts in _parts_of(record).items():
        with _fitting(name):
            tables[name] = pa.concat_tables(parts).combine_chunks()
    return tables


@contextmanager
def _fitting(name: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, OverflowError) as error:  # as pyarrow's are, too
        raise RecordError(
            f"a number of the record does not fit into the table `{name}`: {error}",
            hint="Restore the journal from a copy.",
        ) from error


_Key = dict[str, Any]
# In memory at once, and in a row group of a file.
_ROWS_AT_ONCE: Final = 10_000
_RUNS_AT_ONCE: Final = 500


def _parts_of(record: CampaignRecord) -> dict[str, Iterator["pa.Table"]]:
    """Return each table in parts, at least one, that are made when they are asked for."""
    counted = {(run.place, run.attempt) for run in record.counted_runs}
    short = (_run_row(run, counted=(run.place, run.attempt) in counted) for run in record.runs)
    long = (_run_row(run, counted=False) for run in record.sustained)
    return {
        "runs": _parts(chain(short, long), _RUN_COLUMNS),
        "intervals": _interval_parts((key, run.measurement) for key, run in _keyed(record)),
        "waits": _parts(_rows(record, _wait_rows), _WAIT_COLUMNS),
        "counters": _parts(_rows(record, _counter_rows), _COUNTER_COLUMNS),
        "statements": _parts(_rows(record, _use_rows), _USE_COLUMNS),
        "host": _parts(_rows(record, _host_rows), _HOST_COLUMNS),
        "latency": _latency_parts(record),
    }


def _keyed(record: CampaignRecord) -> Iterator[tuple[_Key, Run | SustainedRun]]:
    """Yield every run with its key, long ones last."""
    runs: Iterator[Run | SustainedRun] = chain(record.runs, record.sustained)
    yield from ((_key(run), run) for run in runs)


def _rows(
    record: CampaignRecord, rows_of: Callable[[_Key, Evidence | None], list[dict[str, Any]]]
) -> Iterator[dict[str, Any]]:
    for key, run in _keyed(record):
        yield from rows_of(key, run.evidence)


def _some(every: Iterable[_T], number: int) -> Iterator[list[_T]]:
    """Yield so many at once, at least one list, which may be empty."""
    waiting = iter(every)
    some = list(islice(waiting, number))
    yield some
    while some := list(islice(waiting, number)):
        yield some


def _parts(rows: Iterable[dict[str, Any]], columns: dict[str, str]) -> Iterator["pa.Table"]:
    import pyarrow as pa  # noqa: PLC0415

    schema = _schema(columns)
    for some in _some(rows, _ROWS_AT_ONCE):
        yield pa.Table.from_pylist(some, schema=schema)


def _interval_parts(runs: Iterable[tuple[_Key, Measurement | None]]) -> Iterator["pa.Table"]:
    """Yield the seconds of some runs at once: whole columns, for there may be ten million rows."""
    import pyarrow as pa  # noqa: PLC0415

    measured = ((key, Seconds.of(taken.series)) for key, taken in runs if taken is not None)
    for some in _some(measured, _RUNS_AT_ONCE):
        keys = pa.Table.from_pylist([key for key, _ in some], schema=_schema(_KEY_COLUMNS))
        of_run = np.repeat(np.arange(len(some)), [len(series) for _, series in some])
        nothing = np.empty(0)
        numbers = np.concatenate([nothing, *(np.frombuffer(s.numbers) for _, s in some)])
        end_s, transactions, seconds, mean_s = numbers.reshape(-1, 4).T
        failed = [
            np.broadcast_to(np.frombuffer(s.failed, np.int64), len(s)) for _, s in some if s.failed
        ]
        lost = np.concatenate([np.empty(0, np.int64), *failed])
        columns = (
            *keys.take(of_run).columns,
            *(pa.array(values) for values in (end_s, seconds, transactions)),
            pa.array(mean_s, mask=np.isnan(mean_s)),
            pa.array(lost),
        )
        yield pa.Table.from_arrays(columns, schema=_schema(_INTERVAL_COLUMNS))


def _latency_parts(record: CampaignRecord) -> Iterator["pa.Table"]:
    import pyarrow as pa  # noqa: PLC0415

    parts = (part for key, run in _keyed(record) for part in _latency_columns(key, run.latency))
    schema = _schema(_LATENCY_COLUMNS)
    for some in _some(parts, _RUNS_AT_ONCE):
        tables = [schema.empty_table()]
        for part in some:  # a column that it lacks is null
            absent = [None] * len(part["count"])
            whole = {name: part.get(name, absent) for name in _LATENCY_COLUMNS}
            tables.append(pa.Table.from_pydict(whole, schema=schema))
        yield pa.concat_tables(tables).combine_chunks()


def _latency_columns(
    key: Mapping[str, Any], latency: RunLatency | None
) -> Iterator[dict[str, list[Any]]]:
    """Yield the columns of one histogram after the other; none for a run without latency.

    Columns and not rows: a campaign has hundreds of thousands of buckets. Lag and service are
    those of all scripts together, so that their script is null.
    """
    if latency is None:
        return
    for each in latency.scripts:
        yield _columns({**key, "script": each.script, "kind": "latency"}, each.latency)
    for kind, text in (("lag", latency.lag), ("service", latency.service)):
        yield _columns({**key, "script": None, "kind": kind}, text)


def _columns(key: Mapping[str, Any], text: str) -> dict[str, list[Any]]:
    counts = from_text(text).counts
    places = np.flatnonzero(counts)
    low, high = bucket_bounds(places)
    return {
        **{name: [value] * len(places) for name, value in key.items()},
        "low_us": low.tolist(),
        "high_us": high.tolist(),
        "count": counts[places].tolist(),
    }


_PLACE = ("block", "attempt", "start", "position")  # of a run that is not a long one
_KEY_COLUMNS = {
    **dict.fromkeys(_PLACE, "int32"),
    **dict.fromkeys(("configuration", "workload"), "string"),
    **dict.fromkeys(("clients", "threads"), "int32"),
    **dict.fromkeys(("rate_per_s", "rate_share"), "float64"),
    "generators": "int32",
    "sustained": "bool",
}
_RATES = ("transactions", "seconds", "tps", "latency_mean_s", "latency_stddev_s")
_MEASURED = {**dict.fromkeys(_RATES, "float64"), "failed": "int64", "connection_s": "float64"}
_RUN_COLUMNS = {
    **_KEY_COLUMNS,
    "counted": "bool",
    "started_at": "float64",
    "since_start_s": "float64",
    "validity": "string",
    **_MEASURED,
    "raw": "string",
    "checkpoint_age_s": "float64",
    "sub_block": "int32",
}
_INTERVAL_COLUMNS = {
    **_KEY_COLUMNS,
    **dict.fromkeys(("end_s", "seconds", "transactions", "latency_mean_s"), "float64"),
    "failed": "int64",
}
_LATENCY_COLUMNS = {
    **_KEY_COLUMNS,
    **dict.fromkeys(("script", "kind"), "string"),
    **dict.fromkeys(("low_us", "high_us", "count"), "int64"),
}
# What used the machine in an interval; differences over it.
HOST_QUANTITIES = (
    Quantity.SERVER_CPU_S,
    Quantity.SERVER_RUN_QUEUE_S,
    Quantity.GENERATOR_CPU_S,
    Quantity.OTHERS_CPU_S,
    Quantity.CPU_IOWAIT_S,
    Quantity.CPU_IDLE_S,
    Quantity.CPU_STEAL_S,
    Quantity.DEVICE_READS,
    Quantity.DEVICE_READ_BYTES,
    Quantity.DEVICE_READ_S,
    Quantity.DEVICE_WRITES,
    Quantity.DEVICE_WRITE_BYTES,
    Quantity.DEVICE_WRITE_S,
    Quantity.DEVICE_BUSY_S,
    Quantity.DEVICE_QUEUE_S,
    Quantity.THROTTLED_S,
)
_HOST_COLUMNS = {
    **_KEY_COLUMNS,
    "end_s": "float64",
    **dict.fromkeys((quantity.value for quantity in HOST_QUANTITIES), "float64"),
}
_WAIT_COLUMNS = {
    **_KEY_COLUMNS,
    **dict.fromkeys(("kind", "name", "class"), "string"),
    "sessions": "float64",
}
_COUNTER_COLUMNS = {**_KEY_COLUMNS, "name": "string", "total": "float64"}
_USE_COLUMNS = {
    **_KEY_COLUMNS,
    "statement": "string",
    **dict.fromkeys(("calls", "seconds", "rows"), "float64"),
    **dict.fromkeys(("pages_hit", "pages_read", "wal_bytes"), "float64"),
}


def _key(run: Run | SustainedRun) -> dict[str, Any]:
    """Return the key of a run: a long one belongs to no block; of a closed loop no rate is told."""
    load, is_long = run.cell.load, isinstance(run, SustainedRun)
    return {
        **{name: getattr(run, name) for name in (() if is_long else _PLACE)},
        "configuration": run.configuration,
        "workload": run.cell.workload,
        "clients": load.clients,
        "threads": load.threads,
        "rate_per_s": load.rate_per_s,
        "rate_share": load.share,
        "generators": load.generators,
        "sustained": is_long,
    }


def _run_row(run: Run | SustainedRun, *, counted: bool) -> dict[str, Any]:
    taken = run.measurement
    row = {
        **_key(run),
        "counted": counted,
        "started_at": run.started_at,
        "validity": run.validity.value,
        "raw": run.raw,
        **{name: None if taken is None else getattr(taken, name) for name in _MEASURED},
    }
    if isinstance(run, Run):
        row["since_start_s"] = run.since_start_s
        row["checkpoint_age_s"] = run.checkpoint and run.checkpoint.seconds
        row["sub_block"] = run.sub_block
    return row


def _host_rows(key: dict[str, Any], evidence: Evidence | None) -> list[dict[str, Any]]:
    series = evidence.series_of("host") if evidence else None
    if series is None:
        return []
    return [
        {**key, "end_s": end_s, **dict(zip(series.names, row, strict=True))}
        for end_s, row in zip(series.end_s, series.rows, strict=True)
    ]


def _wait_rows(key: dict[str, Any], evidence: Evidence | None) -> list[dict[str, Any]]:
    """Return a row per wait event; none for a run in which nobody could look."""
    if evidence is None or evidence.waits is None:
        return []
    return [
        {
            **key,
            "kind": event.kind,
            "name": event.name,
            "class": event.group.value,
            "sessions": event.sessions,
        }
        for event in evidence.waits.events
    ]


def _counter_rows(key: dict[str, Any], evidence: Evidence | None) -> list[dict[str, Any]]:
    """Return a row per quantity that was counted over the run."""
    totals = evidence.totals if evidence is not None else {}
    return [{**key, "name": str(name), "total": total} for name, total in totals.items()]


def _use_rows(key: dict[str, Any], evidence: Evidence | None) -> list[dict[str, Any]]:
    """Return a row per statement that was called; none for a run in which that was not read."""
    used = None if evidence is None else evidence.statements
    return [{**asdict(each), "statement": each.text, **key} for each in used or ()]


def _schema(columns: dict[str, str]) -> Any:  # noqa: ANN401 - pyarrow is imported when it is used
    import pyarrow as pa  # noqa: PLC0415

    types = {"string": pa.string(), "bool": pa.bool_()}
    return pa.schema(
        [(name, types.get(kind) or getattr(pa, kind)()) for name, kind in columns.items()]
    )
