"""The sections ``loads`` and ``capacity`` and the key ``slo``: what is offered to the server.

A rate is a number of transactions per second, a share of the capacity, or ``closed``: none.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Final

from annotated_types import MinLen
from pydantic import BeforeValidator, Field, PlainValidator, WithJsonSchema

from steelyard.experiment import form_values as values
from steelyard.experiment.document import WrittenFloat, WrittenInt
from steelyard.experiment.form_values import Form, refusal
from steelyard.experiment.suggestions import shown
from steelyard.model.errors import InputError
from steelyard.model.latency import LatencyGoal
from steelyard.model.units import parse_fraction

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
        message = f"{shown(value)} is not a share between 0 % and 100 % of the capacity"
        hint = "Write at most 99%: from 100 % on the queue only grows; a number asks for more."
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

    clients: values.Counts = Field(
        description="Server sessions open at once, always the total.", examples=[[1, 10, 50]]
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
