"""The sections ``load``, ``capacity``, ``slo``, ``measure``, and host settings of configurations.

The host settings of a configuration are what is outside its server: ``linux``, ``manual``, and
``cgroup``, the limits of the server and the load generator.

A rate is a number of transactions per second, a share of the capacity, or ``closed``: none.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Final

from annotated_types import MinLen
from pydantic import BeforeValidator, Field, WithJsonSchema

from steelyard.campaign.file import form_values as values
from steelyard.campaign.file.form_values import Form
from steelyard.core.experiment import LatencyGoal
from steelyard.core.linux import PARSERS
from steelyard.core.quantities import (
    COMMAND,
    WrittenFloat,
    WrittenInt,
    as_text,
    duration,
    refusal,
    shown,
    split_words,
)
from steelyard.core.schedule import LATENCY_COLUMN, TIME_COLUMN
from steelyard.core.wording import InputError, parse_fraction
from steelyard.systems.postgres.load_programs import complaint

CLOSED: Final = "closed"
GOAL_SHARES: Final = (0.5, 0.6, 0.7, 0.8, 0.9)  # of the capacity, where only `slo` is given
_MOST_PER_S: Final = 1_000_000.0  # pgbench counts in microseconds
_DECIMAL: Final = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]{1,3})?", re.ASCII)
_RATE_FORMS: Final = "Write transactions per second, a share of the capacity as `70%`, or `closed`."
_GOAL_FORM: Final = "Write it as `p99 < 10ms`: p50 to p99.99, then us, ms or s."
_GOAL: Final = re.compile(
    r"\s*p([0-9]{1,2}(?:\.[0-9]{1,4})?)\s*<=?\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(us|\u00b5s|\u03bcs|ms|s)\s*",
    re.ASCII,  # the two letters are the micro sign and the Greek mu
)
_SECONDS_PER: Final = {"us": 1e-6, "\u00b5s": 1e-6, "\u03bcs": 1e-6, "ms": 1e-3, "s": 1.0}
_LEAST_GOAL, _MOST_GOAL = 50.0, 99.99
_LEAST_ROUNDS: Final = 3  # a median of two is a mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A rate as the file gives it: one of the two, neither for a closed loop.

    Attributes:
        per_s: Transactions per second, all generators together.
        share: Of the capacity.
    """

    per_s: float | None = None
    share: float | None = None

    @property
    def is_closed(self) -> bool:
        """Return whether no rate is asked for."""
        return self.per_s is None and self.share is None

    def __str__(self) -> str:
        if self.per_s is not None:
            return f"{self.per_s:.10g}"
        return CLOSED if self.share is None else f"{100.0 * self.share:g}%"


def rate(value: object) -> Rate:
    """Return a rate of a number, a percentage or ``closed``."""
    text = value.text if isinstance(value, WrittenInt | WrittenFloat) else value
    if isinstance(value, bool) or not isinstance(text, str | int | float):
        raise refusal(f"{shown(value)} is not a rate", _RATE_FORMS)
    text = str(text).strip()
    if text == CLOSED:
        return Rate()
    if text.endswith("%"):
        return Rate(share=_share_of_capacity(value, text))
    if not _DECIMAL.fullmatch(text):
        raise refusal(f"{shown(value)} is not a rate", _RATE_FORMS)
    per_s = float(text)
    if not 0.0 < per_s <= _MOST_PER_S:
        hint = f"Write more than 0 and at most {_MOST_PER_S:.0f} per second."
        raise refusal(f"{shown(value)} is out of range", hint)
    return Rate(per_s=per_s)


def _share_of_capacity(value: object, text: str) -> float:
    try:
        return parse_fraction(text)
    except InputError:
        message = f"rates are below 100 % of the capacity, and {shown(value)} is not"
        hint = "Write at most 99%, or an absolute number to overload on purpose."
        raise refusal(message, hint) from None


def goal(value: object) -> LatencyGoal:
    """Return the goal of ``p99 < 10ms``."""
    match = _GOAL.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise refusal(f"{shown(value)} is not a goal of latency", _GOAL_FORM)
    percent = float(match[1])
    if not _LEAST_GOAL <= percent <= _MOST_GOAL:
        raise refusal(f"p{match[1]} is out of range", _GOAL_FORM)
    limit_s = float(match[2]) * _SECONDS_PER[match[3]]
    if not limit_s > 0.0:
        raise refusal(f"{shown(value)} can never be met", "Write a latency above 0.")
    return LatencyGoal(share=round(percent / 100.0, 8), limit_s=round(limit_s, 12))


_RATE: Final = {
    "anyOf": [
        {"type": "number", "exclusiveMinimum": 0, "maximum": _MOST_PER_S},
        {"type": "string", "examples": ["70%", CLOSED]},
    ]
}
RateValue = Annotated[Rate, values.ReadBy(rate, **_RATE)]
Rates = Annotated[
    list[RateValue],
    BeforeValidator(split_words),
    MinLen(1),
    WithJsonSchema({"anyOf": [_RATE, {"type": "array", "items": _RATE, "minItems": 1}]}),
]
Goal = Annotated[
    LatencyGoal,
    values.ReadBy(
        goal,
        type="string",
        pattern=r"^\s*p[0-9]{1,2}(\.[0-9]+)?\s*<=?\s*[0-9.]+\s*(us|\u00b5s|\u03bcs|ms|s)",
    ),
]
LatencyLimit = Annotated[float, values.ReadBy(duration(1e-4))]


class LoadForm(Form):
    """Loads offered to the server; every combination of clients, threads and rates is measured."""

    clients: values.ClientCounts = Field(
        description="Server sessions open at once, always the total; `8/4` pairs them with threads"
        " of the generator.",
        examples=[[1, 10, 50]],
    )
    threads: values.ThreadCounts = values.key(
        "Worker threads of the generator; auto is min(clients, CPUs), of redis-benchmark two"
        " processes per generator at most.",
        "auto",
    )
    rate: Rates | None = values.key(
        "Arrival rates of open loops: transactions per second of all generators together, a share"
        " of the capacity as `70%`, or `closed` for none.",
        [500, "70%", CLOSED],
    )
    latency_limit: LatencyLimit | None = values.key(
        "Open loops only: transactions that are later than this are skipped.", "100ms"
    )
    generators: values.Count = values.key(
        "Processes of the generator, among which clients, threads and rate are divided.",
        2,
        default=1,
    )
    pipeline: values.Counts = values.key(
        "Redis: requests that a client sends before it waits for their answers.",
        1,
        default_factory=lambda: [1],
    )
    protocol: values.Protocol = values.key("pgbench's query mode.", "simple", default="prepared")


def asked_rates(form: LoadForm, goal: LatencyGoal | None) -> tuple[Rate, ...]:
    """Return the rates of a file: its own, shares where only a goal is given, else none."""
    if form.rate:
        return tuple(form.rate)
    return tuple(Rate(share=share) for share in GOAL_SHARES) if goal else (Rate(),)


HookCommand = Annotated[tuple[str, ...] | None, values.ReadBy(COMMAND)]


def _place(value: object) -> str:
    place = as_text(value)
    if wrong := complaint(place):
        raise refusal(
            f"{shown(place)} finds no number: {wrong}",
            "Write a regular expression such as `tps = (?P<rate>[0-9.]+)`, or a JSON path such as"
            " `$.results.rate`.",
        )
    return place


def _latencies(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not value:
        raise refusal(f"{shown(value)} is not a mapping", "Write `{p95: 'p95: ([0-9.]+)'}`.")
    for name in value:
        if name != "mean" and share_of(str(name)) is None:
            message = f"{shown(name)} is neither `mean` nor a percentile"
            raise refusal(message, "Write `mean`, `p50`, `p95`, `p99` or `p99.9`.")
    return {str(name): _place(given) for name, given in value.items()}


def share_of(name: str) -> float | None:
    """Return the share of ``p99.9``; None where it names no percentile."""
    found = re.fullmatch(r"p(\d{1,2}(\.\d{1,3})?)", name)
    return round(float(found[1]) / 100.0, 6) if found and float(found[1]) else None


_PLACE: Final = {"type": "string"}
Place = Annotated[str, values.ReadBy(_place, **_PLACE)]
Latencies = Annotated[
    dict[str, str], values.ReadBy(_latencies, type="object", additionalProperties=_PLACE)
]


def _log(value: object) -> str | tuple[str, ...]:
    if value == PGBENCH_LOG:
        return PGBENCH_LOG
    columns = [as_text(column) for column in split_words(value)]
    for column in columns:
        if column not in (TIME_COLUMN, LATENCY_COLUMN, _OTHER_COLUMN):
            message = f"{shown(column)} is no column that is read"
            hint = f"Write `time`, `latency`, and `{_OTHER_COLUMN}` for every other column;"
            raise refusal(message, f"{hint} `pgbench` alone stands for pgbench's own lines.")
    if columns.count(TIME_COLUMN) != 1 or columns.count(LATENCY_COLUMN) > 1:
        message = "each line needs one time, and at most one latency"
        raise refusal(message, "Write `[time]`, or `[time, latency]`.")
    return tuple(columns)


PGBENCH_LOG: Final = "pgbench"
_OTHER_COLUMN: Final = "skip"
LogColumns = Annotated[
    str | tuple[str, ...],
    values.ReadBy(
        _log,
        anyOf=[
            {"const": PGBENCH_LOG},
            {
                "type": "array",
                "items": {"enum": [TIME_COLUMN, LATENCY_COLUMN, _OTHER_COLUMN]},
                "minItems": 1,
            },
        ],
    ),
]
RATE_UNITS: Final = {"1/s": 1.0, "1/min": 1.0 / 60.0, "1/h": 1.0 / 3600.0}
LATENCY_UNITS: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
TIME_UNITS: Final = {**LATENCY_UNITS, "ns": 1e-9}


class CommandForm(Form):
    """A program of the user's that puts the load on."""

    command: HookCommand = values.key(
        "Any program that puts load on PostgreSQL and prints a rate or logs its transactions,"
        " started without a shell for each run; names in braces stand for what it is told.",
        ["sysbench", "{workload}", "--threads={clients}", "--time={seconds}", "run"],
    )
    prepare_command: HookCommand = values.key(
        "Program that makes the command's data once; they are part of the prepared state.",
        ["sysbench", "oltp_read_only", "--pgsql-db={database}", "prepare"],
    )
    log: LogColumns | None = values.key(
        "The command writes a line for each transaction to the file `{log}`, by which it is"
        " counted, in turns, too: the columns of a line, or `pgbench`.",
        ["time", "latency"],
        "pgbench",
    )
    log_time_unit: Annotated[str, values.words(*TIME_UNITS)] = values.key(
        "Unit of the times in the log, which count from the epoch.", "us", default="s"
    )
    rate: Place | None = values.key(
        "Where the command's output has its rate: a regular expression with a group, or a JSON"
        " path that begins with `$`; the last match counts.",
        "transactions: .*\\((?P<rate>[0-9.]+) per sec",
    )
    rate_unit: Annotated[str, values.words(*RATE_UNITS)] = values.key(
        "Unit of the printed rate.", "1/min", default="1/s"
    )
    latency: Latencies | None = values.key(
        "Where the output has latencies: `mean`, `p95` and so on, each as `rate` is written.",
        {"p95": "95th percentile: +(?P<latency>[0-9.]+)"},
    )
    latency_unit: Annotated[str, values.words(*LATENCY_UNITS)] = values.key(
        "Unit of printed or logged latencies.", "us", default="ms"
    )
    grace: values.LongLength = values.key(
        "How much longer than it was asked for the command may run, until it is killed.",
        "2m",
        default=60.0,
    )


def _limit(key: str) -> Callable[[object], str | None]:
    """Return a validator for one limit: its text as written, None to remove an inherited one."""

    def read(value: object) -> str | None:
        if value is None:
            return None
        if isinstance(value, list | dict):
            raise refusal(f"{shown(value)} is a list or mapping", "Write it as text: '0,2-3'.")
        text = as_text(value)
        try:
            PARSERS[key](text)
        except InputError as error:
            raise refusal(error.message, error.hint) from None
        return text

    return read


_TYPES: Final = ["string", "integer", "null"]
Cpus = Annotated[
    str | None, values.ReadBy(_limit("cpus"), type=["number", "string", "null"], exclusiveMinimum=0)
]
CpuList = Annotated[
    str | None, values.ReadBy(_limit("cpuset"), type=_TYPES, examples=["0", "0-1", "0,2-3"])
]
CgroupMemory = Annotated[
    str | None, values.ReadBy(_limit("memory"), type=_TYPES, examples=["512MB"])
]
Iops = Annotated[
    str | None, values.ReadBy(_limit("read_iops"), type=["integer", "string", "null"], minimum=1)
]
CgroupRate = Annotated[
    str | None, values.ReadBy(_limit("read_bytes_per_s"), type=_TYPES, examples=["20MB"])
]


class CgroupForm(Form):
    """Limits of server and generator; null removes an inherited one."""

    cpus: Cpus = values.key("CPU time of the server, in CPUs.", 0.6)
    cpuset: CpuList = values.key("CPUs that the server may run on.", "0-1")
    generator_cpuset: CpuList = values.key("CPUs that the load generator may run on.", "0")
    memory: CgroupMemory = values.key(
        "Memory of the server, what is cached of its files included.", "512MB"
    )
    read_iops: Iops = values.key("Reads per second from the disk of the data.", 200)
    write_iops: Iops = values.key("Writes per second to the disk of the data.", 200)
    read_bytes_per_s: CgroupRate = values.key("Bytes per second from the disk.", "20MB")
    write_bytes_per_s: CgroupRate = values.key("Bytes per second to the disk.", "20MB")
