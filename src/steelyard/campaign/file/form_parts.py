"""The sections ``loads``, ``capacity``, ``slo``, ``measure``, and host settings of configurations.

The host settings of a configuration are what is outside its server: ``linux``, ``kvm``, ``manual``,
and ``cgroup``, the limits of the server and the load generator.

A rate is a number of transactions per second, a share of the capacity, or ``closed``: none.
"""

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Final

from annotated_types import MinLen
from pydantic import BeforeValidator, Field, PlainValidator, WithJsonSchema

from steelyard.campaign.file import form_values as values
from steelyard.campaign.file.document import WrittenFloat, WrittenInt
from steelyard.campaign.file.form_values import Form, empty_as_mapping, refusal, shown
from steelyard.core.errors import InputError
from steelyard.core.experiment import (
    DEFAULT_NEIGHBOURS,
    LATENCY_COLUMN,
    TIME_COLUMN,
    LatencyGoal,
)
from steelyard.core.linux import PARSERS
from steelyard.core.schedule import DEFAULT_TURN_S, LEAST_SETTLING_S
from steelyard.core.units import parse_fraction
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
RateValue = Annotated[Rate, PlainValidator(rate), WithJsonSchema(_RATE)]
Rates = Annotated[
    list[RateValue],
    BeforeValidator(values.split_words),
    MinLen(1),
    WithJsonSchema({"anyOf": [_RATE, {"type": "array", "items": _RATE, "minItems": 1}]}),
]
Goal = Annotated[
    LatencyGoal,
    PlainValidator(goal),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^\s*p[0-9]{1,2}(\.[0-9]+)?\s*<=?\s*[0-9.]+\s*(us|\u00b5s|\u03bcs|ms|s)",
        }
    ),
]
LatencyLimit = Annotated[
    float,
    PlainValidator(values.duration(1e-4)),
    WithJsonSchema({"type": ["string", "number"], "examples": ["100ms", "2s"]}),
]
CapacityRounds = Annotated[
    int,
    PlainValidator(values.whole_number(_LEAST_ROUNDS)),
    WithJsonSchema({"type": "integer", "minimum": _LEAST_ROUNDS}),
]


class LoadsForm(Form):
    """Loads offered to the server; every combination of clients, threads and rates is measured."""

    clients: values.ClientCounts = Field(
        description="Server sessions open at once, always the total; `8/4` pairs them with threads"
        " of the generator.",
        examples=[[1, 10, 50]],
    )
    threads: values.ThreadCounts = Field(
        default=None,
        description="Worker threads of the generator; auto is min(clients, CPUs), of"
        " redis-benchmark two processes per generator at most.",
        examples=["auto"],
    )
    rate: Rates | None = Field(
        default=None,
        description="Arrival rates of open loops: transactions per second of all generators "
        "together, a share of the capacity as `70%`, or `closed` for none.",
        examples=[[500, "70%", CLOSED]],
    )
    latency_limit: LatencyLimit | None = Field(
        default=None,
        description="Open loops only: transactions that are later than this are skipped.",
        examples=["100ms"],
    )
    generators: values.Count = Field(
        default=1,
        description="Processes of the generator, among which clients, threads and rate are "
        "divided.",
        examples=[2],
    )
    pipeline: values.Counts = Field(
        default_factory=lambda: [1],
        description="Redis: requests that a client sends before it waits for their answers.",
        examples=[1],
    )
    protocol: values.Protocol = Field(
        default="simple", description="pgbench's query mode.", examples=["prepared"]
    )


class CapacityForm(Form):
    """How the most that the server sustains is found, where loads are shares of it."""

    clients: values.Counts | None = Field(
        default=None,
        description="Of the closed loops that are tried; powers of two up to the largest number "
        "of clients when left out.",
        examples=[[1, 2, 4, 8]],
    )
    rounds: CapacityRounds = Field(
        default=6, description="Slices of each, interleaved by coin.", examples=[6]
    )


def asked_rates(form: LoadsForm, goal: LatencyGoal | None) -> tuple[Rate, ...]:
    """Return the rates of a file: its own, shares where only a goal is given, else none."""
    if form.rate:
        return tuple(form.rate)
    return tuple(Rate(share=share) for share in GOAL_SHARES) if goal else (Rate(),)


class CalibrationForm(Form):
    """How the warm-up is measured before the first block."""

    restarts: values.Count = Field(default=5, description="Starts per configuration.", examples=[5])
    run: values.LongLength = Field(
        default=90.0, description="Length of the run after each.", examples=["90s"]
    )
    at_least: values.Length = Field(
        default=20.0, description="The warm-up is never shorter than this.", examples=["20s"]
    )


class MeasureForm(Form):
    """How a run is taken."""

    slice: values.Slice = Field(
        default=5.0, description="Measured length of a run.", examples=["5s"]
    )
    ramp: values.Ramp = Field(
        default=2.0,
        description="Thrown away at the start of each run; 0 for Redis.",
        examples=["2s"],
    )
    warm_up: values.WarmUp = Field(
        default=None,
        description="Thrown away after each start, the same for all configurations.",
        examples=["auto"],
    )
    calibration: CalibrationForm | None = Field(
        default=None,
        description="Measures the warm-up; only with `warm_up: auto`.",
        examples=[{"restarts": 5, "run": "90s", "at_least": "20s"}],
    )
    reset: values.ResetWord = Field(
        default="auto", description="When the data go back to the prepared state."
    )
    switch: values.SwitchWord = Field(
        default="auto",
        description="The least that is done to go from one configuration to another.",
    )
    rounds: values.Rounds = Field(
        default=None,
        description="Runs of each cell in a start; auto is one, unless the differences or the"
        " making of servers call for more.",
        examples=["auto"],
    )
    turn: values.Turn = Field(
        default=DEFAULT_TURN_S,
        description="Length of one turn where configurations alternate; 400ms where a CPU quota"
        " holds a server or a load generator back.",
        examples=["250ms"],
    )
    settling: values.Settling = Field(
        default=LEAST_SETTLING_S,
        description="Thrown away at the beginning of each turn; 200ms, two periods of the quota,"
        " where one holds a server or a load generator back.",
        examples=["100ms"],
    )
    reconnections: values.Reconnections = Field(
        default=0,
        description="How often the load generators of an alternating run are started anew.",
        examples=[5],
    )
    prewarm: values.Prewarm = Field(
        default=None,
        description="Load the data into memory after each start; auto: up to 4 GiB, on servers"
        " that Steelyard makes.",
        examples=[True],
    )
    ceilings: values.CeilingsWord = Field(
        default="auto",
        description="Measure before the first block what the place can do at most; auto leaves"
        " the device out where that costs more than 2 % of the budget.",
        examples=["on"],
    )
    neighbours: values.Neighbours = Field(
        default=DEFAULT_NEIGHBOURS,
        description="Share of the machine that other processes may use during a run before its"
        " block is redone; ignore only notes it.",
        examples=["15%", "ignore"],
    )
    log: values.LogWord = Field(
        default="histograms",
        description="What becomes of the generator's log of every transaction: counted, counted "
        "and kept, or not written.",
        examples=["keep"],
    )
    log_sampling: values.LogSampling = Field(
        default=1.0, description="Share of the transactions that are logged.", examples=["10%"]
    )


def _command(value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    if isinstance(value, list):
        words = [values.as_text(word) for word in value]
    else:
        try:
            words = shlex.split(values.as_text(value))
        except ValueError as error:
            raise refusal(f"{shown(value)} is no command: {error}", "Close the quote.") from None
    if not words:
        raise refusal("the command is empty", "Name a program, or leave `command` out.")
    return tuple(words)


HookCommand = Annotated[
    tuple[str, ...] | None,
    PlainValidator(_command),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
LinuxSettings = Annotated[dict[str, values.SettingValue], BeforeValidator(empty_as_mapping)]


class KvmForm(Form):
    """The virtual machine that the configuration's server runs in."""

    domain: values.Text | None = Field(
        default=None,
        description="File with the XML of its libvirt domain, relative to the experiment file.",
        examples=["pg-node.xml"],
    )


class ManualForm(Form):
    """What must be done by hand or by a command of the user's before the server is measured."""

    text: values.Text | None = Field(
        default=None,
        description="What the operator is asked to do; it waits until that is confirmed.",
        examples=["Power-cycle the VM pg-node-1."],
    )
    command: HookCommand = Field(
        default=None,
        description="Run on this machine without a shell instead of asking; it must end with 0.",
        examples=["./power-cycle pg-node-1"],
    )
    timeout: values.LongLength = Field(
        default=600.0,
        description="How long the operator or the command may take.",
        examples=["10m"],
    )


def _place(value: object) -> str:
    place = values.as_text(value)
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
Place = Annotated[str, PlainValidator(_place), WithJsonSchema(_PLACE)]
Latencies = Annotated[
    dict[str, str],
    PlainValidator(_latencies),
    WithJsonSchema({"type": "object", "additionalProperties": _PLACE}),
]


def _log(value: object) -> str | tuple[str, ...]:
    if value == PGBENCH_LOG:
        return PGBENCH_LOG
    columns = [values.as_text(column) for column in values.split_words(value)]
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
    PlainValidator(_log),
    WithJsonSchema(
        {
            "anyOf": [
                {"const": PGBENCH_LOG},
                {
                    "type": "array",
                    "items": {"enum": [TIME_COLUMN, LATENCY_COLUMN, _OTHER_COLUMN]},
                    "minItems": 1,
                },
            ]
        }
    ),
]
RATE_UNITS: Final = {"1/s": 1.0, "1/min": 1.0 / 60.0, "1/h": 1.0 / 3600.0}
LATENCY_UNITS: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
TIME_UNITS: Final = {**LATENCY_UNITS, "ns": 1e-9}


class CommandForm(Form):
    """A program of the user's that puts the load on."""

    command: HookCommand = Field(
        default=None,
        description="Any program that puts load on PostgreSQL and prints a rate or logs its"
        " transactions, started without a shell for each run; names in braces stand for what it is"
        " told.",
        examples=[["sysbench", "{workload}", "--threads={clients}", "--time={seconds}", "run"]],
    )
    prepare_command: HookCommand = Field(
        default=None,
        description="Program that makes the command's data once; they are part of the prepared"
        " state.",
        examples=[["sysbench", "oltp_read_only", "--pgsql-db={database}", "prepare"]],
    )
    log: LogColumns | None = Field(
        default=None,
        description="The command writes a line for each transaction to the file `{log}`, by which"
        " it is counted, in turns, too: the columns of a line, or `pgbench`.",
        examples=[["time", "latency"], "pgbench"],
    )
    log_time_unit: Annotated[
        str, PlainValidator(values.one_of(*TIME_UNITS)), WithJsonSchema({"enum": [*TIME_UNITS]})
    ] = Field(
        default="s",
        description="Unit of the times in the log, which count from the epoch.",
        examples=["us"],
    )
    rate: Place | None = Field(
        default=None,
        description="Where the command's output has its rate: a regular expression with a"
        " group, or a JSON path that begins with `$`; the last match counts.",
        examples=["transactions: .*\\((?P<rate>[0-9.]+) per sec"],
    )
    rate_unit: Annotated[
        str, PlainValidator(values.one_of(*RATE_UNITS)), WithJsonSchema({"enum": [*RATE_UNITS]})
    ] = Field(default="1/s", description="Unit of the printed rate.", examples=["1/min"])
    latency: Latencies | None = Field(
        default=None,
        description="Where the output has latencies: `mean`, `p95` and so on, each as `rate` is"
        " written.",
        examples=[{"p95": "95th percentile: +(?P<latency>[0-9.]+)"}],
    )
    latency_unit: Annotated[
        str,
        PlainValidator(values.one_of(*LATENCY_UNITS)),
        WithJsonSchema({"enum": [*LATENCY_UNITS]}),
    ] = Field(default="ms", description="Unit of printed or logged latencies.", examples=["us"])
    grace: values.LongLength = Field(
        default=60.0,
        description="How much longer than it was asked for the command may run, until it is"
        " killed.",
        examples=["2m"],
    )


def _limit(key: str) -> Callable[[object], str | None]:
    """Return a validator for one limit: its text as written, None to remove an inherited one."""

    def read(value: object) -> str | None:
        if value is None:
            return None
        if isinstance(value, list | dict):
            raise refusal(f"{shown(value)} is a list or mapping", "Write it as text: '0,2-3'.")
        text = values.as_text(value)
        try:
            PARSERS[key](text)
        except InputError as error:
            raise refusal(error.message, error.hint) from None
        return text

    return read


_CPU_LIST: Final = {"type": ["string", "integer", "null"], "examples": ["0", "0-1", "0,2-3"]}
_MEMORY_LIMIT: Final = {"type": ["string", "integer", "null"], "examples": ["512MB"]}
_BYTE_RATE: Final = {"type": ["string", "integer", "null"], "examples": ["20MB"]}
_IOPS: Final = {"type": ["integer", "string", "null"], "minimum": 1}
Cpus = Annotated[
    str | None,
    PlainValidator(_limit("cpus")),
    WithJsonSchema({"type": ["number", "string", "null"], "exclusiveMinimum": 0}),
]
CpuList = Annotated[str | None, PlainValidator(_limit("cpuset")), WithJsonSchema(_CPU_LIST)]
CgroupMemory = Annotated[
    str | None, PlainValidator(_limit("memory")), WithJsonSchema(_MEMORY_LIMIT)
]
Iops = Annotated[str | None, PlainValidator(_limit("read_iops")), WithJsonSchema(_IOPS)]
CgroupRate = Annotated[
    str | None, PlainValidator(_limit("read_bytes_per_s")), WithJsonSchema(_BYTE_RATE)
]


class CgroupForm(Form):
    """Limits of server and generator; null removes an inherited one."""

    cpus: Cpus = Field(default=None, description="CPU time of the server, in CPUs.", examples=[0.6])
    cpuset: CpuList = Field(
        default=None, description="CPUs that the server may run on.", examples=["0-1"]
    )
    generator_cpuset: CpuList = Field(
        default=None, description="CPUs that the load generator may run on.", examples=["0"]
    )
    memory: CgroupMemory = Field(
        default=None,
        description="Memory of the server, what is cached of its files included.",
        examples=["512MB"],
    )
    read_iops: Iops = Field(
        default=None, description="Reads per second from the disk of the data.", examples=[200]
    )
    write_iops: Iops = Field(
        default=None, description="Writes per second to the disk of the data.", examples=[200]
    )
    read_bytes_per_s: CgroupRate = Field(
        default=None, description="Bytes per second from the disk.", examples=["20MB"]
    )
    write_bytes_per_s: CgroupRate = Field(
        default=None, description="Bytes per second to the disk.", examples=["20MB"]
    )
