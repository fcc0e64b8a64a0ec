"""What somebody else published: printed figures with their rounding, rows of tables, steps.

A printed figure is a range: ``7.48 ms`` is anything from 7.475 to 7.485 ms. What follows from it is
a range, too, so that no claim is called wrong for what rounding alone explains.
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from steelyard.core.wording import MS_PER_S, InputError

# Bounded, so that no text becomes a number that overflows.
_NUMBER: Final = re.compile(
    r"[+-]?(?:\d{1,3}(?:,\d{3}){1,4}|\d{1,15})(?:\.\d{0,12})?(?:[eE][+-]?\d{1,2})?"
)
_LARGEST: Final = 1e18
_OUTSIDE_PARENTHESES: Final = r"{}\s*(?![^()]*\))"


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """A figure as it was printed, and all that it may have been before it was rounded.

    Attributes:
        value: In the unit its owner states.
        low: Least that rounds to it; ``high`` likewise the most.
    """

    value: float
    low: float
    high: float

    def __add__(self, other: "Printed") -> "Printed":
        return Printed(
            value=self.value + other.value, low=self.low + other.low, high=self.high + other.high
        )

    def __sub__(self, other: "Printed") -> "Printed":
        return self + other.times(-1.0)

    def __mul__(self, other: "Printed") -> "Printed":
        ends = [one * two for one in (self.low, self.high) for two in (other.low, other.high)]
        return Printed(value=self.value * other.value, low=min(ends), high=max(ends))

    def __truediv__(self, other: "Printed") -> "Printed":
        """Return the quotient.

        Raises:
            InputError: The divisor may be 0.
        """
        if other.low <= 0.0 <= other.high:
            raise InputError("a figure that may be 0 divides nothing")
        ends = [one / two for one in (self.low, self.high) for two in (other.low, other.high)]
        return Printed(value=self.value / other.value, low=min(ends), high=max(ends))

    def times(self, factor: float) -> "Printed":
        """Return it in another unit, or with the other sign."""
        low, high = sorted((self.low * factor, self.high * factor))
        return Printed(value=self.value * factor, low=low, high=high)

    def may_be(self, other: "Printed") -> bool:
        """Return whether both may be roundings of one number."""
        return self.low <= other.high and other.low <= self.high


def exactly(value: float) -> Printed:
    """Return a figure that was not rounded."""
    return Printed(value=value, low=value, high=value)


def parse_printed(text: str, factor: float = 1.0) -> Printed:
    """Return a printed number: ``1,355``, ``7.48``, ``849e6``; its last digit is rounded.

    Args:
        text: As printed.
        factor: To the unit that is meant.

    Raises:
        InputError: It is no number, or one beyond all that is measured.
    """
    stripped = text.strip()
    if _NUMBER.fullmatch(stripped) is None or not stripped.isascii():
        raise InputError(f"{text!r} is not a number", hint="Write it as 1355, 7.48 or 849e6.")
    number = Decimal(stripped.replace(",", ""))
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)  # noqa: S101 - only of infinities it is none
    value, half = float(number), 0.5 * 10.0**exponent
    if abs(value) > _LARGEST or half > _LARGEST:
        raise InputError(f"{text!r} is beyond all that is measured", hint="Is it a number?")
    whole = Printed(value=value, low=value - half, high=value + half)
    return whole.times(factor)


_PLAN: Final = {
    "execution time": (r"^\s*Execution Time: (\d{1,15}(?:\.\d{1,9})?) ms", "ms"),
    "planning time": (r"^\s*Planning Time: (\d{1,15}(?:\.\d{1,9})?) ms", "ms"),
    "buffers hit": (r"Buffers: shared[^\n,]*? hit=(\d{1,15})", "pages"),
    "buffers read": (r"Buffers: shared[^\n,]*? read=(\d{1,15})", "pages"),
    "time reading": (r"I/O Timings: (?:shared(?:/local)? )?read=(\d{1,15}(?:\.\d{1,9})?)", "ms"),
    "rows": (r"actual (?:time=\S+ )?rows=(\d{1,15}(?:\.\d{1,9})?)", "rows"),
}


def parse_plan(text: str) -> dict[str, tuple[Printed, str]]:
    """Return what EXPLAIN (ANALYZE, BUFFERS) says of a whole execution, with units, by name.

    It stands first: the topmost node counts all below it. What planning took in buffers stands
    below the nodes, under a heading of its own, and is left out.
    """
    whole = re.sub(r"^([ \t]*)Planning:\n(?:\1[ \t]+.*\n)*", "", text, flags=re.MULTILINE)
    found = {
        name: (re.search(pattern, whole, re.MULTILINE), unit)
        for name, (pattern, unit) in _PLAN.items()
    }
    return {
        name: (parse_printed(match[1]), unit)
        for name, (match, unit) in found.items()
        if match is not None
    }


def parse_ratio(text: str) -> Printed:
    """Return what a change multiplies by: of ``+52%`` 1.52, of ``14.3x`` 14.3.

    Raises:
        InputError: It is neither a percentage nor a factor.
    """
    stripped = text.strip()
    if stripped.endswith("%"):
        return parse_printed(stripped[:-1].strip(), 0.01) + exactly(1.0)
    if stripped.endswith("x"):
        return parse_printed(stripped[:-1].strip())
    raise InputError(f"{text!r} is no change", hint="Write it as +52%, -75.8% or 14.3x.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A quantity of a load.

    Attributes:
        name: In rows and statements.
        title: In words.
        unit: As it is shown.
        per_shown: Base unit to the shown one.
        less_is_better: Latencies and costs.
    """

    name: str
    title: str
    unit: str
    per_shown: float = 1.0
    less_is_better: bool = True

    @property
    def in_words(self) -> str:
        """Return the unit as a sentence has it."""
        return "per second" if self.unit == "1/s" else self.unit


def _latency(name: str, title: str) -> Metric:
    return Metric(name=name, title=title, unit="ms", per_shown=MS_PER_S)


METRICS: Final = {
    each.name: each
    for each in (
        Metric(name="tps", title="throughput", unit="1/s", less_is_better=False),
        _latency("latency_mean", "mean latency"),
        _latency("latency_stddev", "standard deviation of latency"),
        _latency("latency_p50", "p50"),
        _latency("latency_p95", "p95"),
        _latency("latency_p99", "p99"),
        _latency("latency_max", "longest latency"),
    )
}


def metric_of(name: str, unit: str = "") -> Metric:
    """Return a metric by name; of one that is not known, as it was printed."""
    return METRICS.get(name) or Metric(name=name, title=name, unit=unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRow:
    """What was published of one configuration under one load: one run, or a statistic of some.

    Attributes:
        source: File, or name of the table.
        line: In it, from 1; 0 where it is not from a file.
        study: Rows of one study may be compared.
        clients: None: over several, or not told.
        repeat: Which run of several; empty where it is not told.
        block: Runs of one block were taken one after the other; empty where it is not told.
        statistic: ``one run``, ``mean``, ``median``, ``max``, ``min``; empty where it is not told.
        figures: Metric and figure, in base units; of metrics not known as printed.
        unit: What one operation is, or the unit of a metric that is not known.
        rate_per_s: Offered in an open loop, where clients do not limit the load; else None.
        seconds: How long it was measured; None where it is not told.
        against: Configuration that ``changed`` and ``stated_change`` speak of.
        changed: What differs from that.
        stated_change: What its author says of the rate against that one, 1.52 for +52 %.
        equal_group: Rows of one group should be equal; empty for none.
        is_control: What was changed cannot reach this workload.
        is_burstable: Its volume or instance has a store of credits.
        cost: In any currency.
        cost_hours: What the cost pays for.
    """

    source: str = ""
    line: int = 0
    study: str = ""
    configuration: str
    workload: str = ""
    clients: int | None = None
    repeat: str = ""
    block: str = ""
    statistic: str = ""
    figures: tuple[tuple[str, Printed], ...]
    unit: str = ""
    rate_per_s: float | None = None
    seconds: float | None = None
    against: str = ""
    changed: tuple[str, ...] = ()
    stated_change: Printed | None = None
    equal_group: str = ""
    is_control: bool = False
    is_burstable: bool = False
    cost: Printed | None = None
    cost_hours: float | None = None

    def figure(self, metric: str) -> Printed | None:
        """Return the figure of a metric, or None."""
        return dict(self.figures).get(metric)

    @property
    def workloads(self) -> tuple[str, ...]:
        """Return the workloads that it is an average over, or the one."""
        return tuple(part.strip() for part in self.workload.split("+"))


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFigure:
    """A single figure of a text."""

    article: str
    name: str
    value: Printed
    unit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What an article changed from one configuration to the next.

    Attributes:
        changed: Everything at once; empty where nothing was, None where it is not told.
        measured: In the words of who read the article; None where nothing was.
        repeated: How often, in words.
    """

    article: str
    name: str
    changed: tuple[str, ...] | None
    measured: str | None
    repeated: str


def parts_of(text: str) -> tuple[str, ...]:
    """Return the items of a list in words: by semicolon, or by comma where there is none.

    What stands in parentheses belongs to its item.
    """
    for sign in (";", ","):
        parts = re.split(_OUTSIDE_PARENTHESES.format(sign), text)
        if len(parts) > 1:
            break
    return tuple(part.strip() for part in parts if part.strip())
