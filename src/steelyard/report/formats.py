"""Numbers as readers and programs see them: with interval and unit, never a made-up value."""

import math

from steelyard.core.findings import Estimate
from steelyard.core.schedule import Load
from steelyard.core.target import WorkWords
from steelyard.core.units import MS_PER_S, US_PER_S, format_duration, format_percent, format_utc

MISSING = "–"  # noqa: RUF001 - a dash for "nothing here", not a minus

# METHOD.md 3.3: the levels used keep the promise of 95 % with a margin, over all results.
CONFIDENCE = "95 %"
_S_PER_H = 3600.0


def present(value: float | None) -> float | None:
    """Return the value if it is a finite number, else None."""
    return value if value is not None and math.isfinite(value) else None


def bounds(estimate: Estimate | None) -> tuple[float, float] | None:
    """Return the interval, or None when there is none."""
    if estimate is None:
        return None
    low, high = present(estimate.low), present(estimate.high)
    return None if low is None or high is None else (low, high)


def effect_range(low: float, high: float) -> str:
    """Return an interval as people say it: ``+8.1 % to +16.9 %``."""
    return f"{format_percent(low)} to {format_percent(high)}"


def effect_interval(estimate: Estimate | None) -> str:
    """Return an interval in brackets, ``[+8.1 %, +16.9 %]``, or a dash."""
    pair = bounds(estimate)
    if pair is None:
        return MISSING
    return f"[{format_percent(pair[0])}, {format_percent(pair[1])}]"


def effect_value(estimate: Estimate | None) -> str:
    """Return a relative effect with its sign and unit, or a dash."""
    value = None if estimate is None else present(estimate.value)
    return MISSING if value is None else format_percent(value)


def share(fraction: float) -> str:
    """Return a threshold as the user wrote it: ``3 %``, ``0.5 %``."""
    return f"{100 * fraction:g} %"


def rate(value: float | None) -> str:
    """Return a rate with thousands separators and about four significant digits."""
    if present(value) is None or value is None:
        return MISSING
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2
    return f"{value:,.{digits}f}"


def rate_interval(estimate: Estimate) -> str:
    """Return the interval of a rate, ``4,273 to 10,083``, or a dash."""
    pair = bounds(estimate)
    return MISSING if pair is None else f"{rate(pair[0])} to {rate(pair[1])}"


def milliseconds(seconds: float | None) -> str:
    """Return a duration in ms with three significant digits, or a dash."""
    if present(seconds) is None or seconds is None:
        return MISSING
    value = seconds * MS_PER_S
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:,.{digits}f}"


def signed_ms(estimate: Estimate, *, plus: bool = False) -> str:
    """Return milliseconds with their interval: ``0.41 [0.39, 0.43]``."""
    value, pair = _ms(estimate.value, plus=plus), bounds(estimate)
    if pair is None:
        return value
    return f"{value} [{_ms(pair[0], plus=plus)}, {_ms(pair[1], plus=plus)}]"


def _ms(seconds: float, *, plus: bool) -> str:
    sign = "-" if seconds < 0 else "+" if plus else ""
    return sign + milliseconds(abs(seconds))


def microseconds(seconds: float | None) -> str:
    """Return a duration in µs with two significant digits or more, or a dash."""
    if present(seconds) is None or seconds is None:
        return MISSING
    value = seconds * US_PER_S
    return f"{value:,.{0 if value >= 10 else 1 if value >= 1 else 2}f}"


def p_value(value: float) -> str:
    """Return a probability without false precision."""
    return "p < 0.001" if value < 0.001 else f"p = {value:.2g}"


def count(number: int, noun: str) -> str:
    """Return a counted noun: ``1 block``, ``9 blocks``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def utc(seconds: float) -> str:
    """Return a moment since the epoch as UTC to the minute."""
    return format_utc(seconds)


def ended(text: str) -> str:
    """Return a sentence with its full stop."""
    stripped = text.strip()
    return stripped if not stripped or stripped[-1] in ".!?…" else f"{stripped}."


def enumeration(names: tuple[str, ...]) -> str:
    """Return names as a list in words: ``a``, ``a and b``, ``a, b and c``."""
    return ", ".join(names) if len(names) < 2 else f"{', '.join(names[:-1])} and {names[-1]}"


def significant(value: float, *, signed: bool = False) -> str:
    """Return a number of any size with three significant digits: ``1,230``, ``0.0123``, ``0``."""
    size = abs(value)
    sign = "+" if signed else ""
    if not size:
        return "0"
    if size >= 1000:
        return f"{value:{sign},.0f}"
    digits = min(8, max(0, 2 - math.floor(math.log10(size))))
    return f"{value:{sign}.{digits}f}"


def part_ms(seconds: float, *, signed: bool = False) -> str:
    """Return a part of a latency in ms, with four decimals at most; what is less is 0."""
    value = seconds * MS_PER_S
    size = abs(value)
    if size < 0.00005:
        return "0"
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3 if size >= 0.1 else 4
    return f"{value:{'+' if signed else ''},.{digits}f}"


def about(seconds: float) -> str:
    """Return a foretold time without false precision: ``50 min``, ``3 h 20 min``, ``17 h``."""
    hours = seconds / _S_PER_H
    if hours < 2.0:
        return format_duration(seconds)
    if hours < 10.0:
        return format_duration(round(hours * 6.0) / 6.0 * _S_PER_H)
    return f"{hours:.0f} h" if hours < 72.0 else f"{hours / 24.0:,.0f} days"


_SIGNIFICANT = 12

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def number(value: float | None) -> float | None:
    """Return a finite number with 12 significant digits, or None."""
    finite = present(value)
    return None if finite is None else float(f"{finite:.{_SIGNIFICANT}g}")


def percent(value: float | None) -> float | None:
    """Return a fraction in percent, or None."""
    return None if value is None else number(100.0 * value)


def interval(estimate: Estimate | None) -> dict[str, Json] | None:
    """Return an estimate with its bounds, null where there are none."""
    if estimate is None:
        return None
    return {
        "estimate": number(estimate.value),
        "low": number(estimate.low),
        "high": number(estimate.high),
    }


def worded(value: dict[str, Json], words: WorkWords) -> dict[str, Json]:
    """Return an object with an engine's words in all its texts; its keys are the same for all."""
    return {key: _worded(each, words) for key, each in value.items()}


def _worded(value: Json, words: WorkWords) -> Json:
    if isinstance(value, str):
        return words.fill(value)
    if isinstance(value, list):
        return [_worded(each, words) for each in value]
    return worded(value, words) if isinstance(value, dict) else value


def load_json(load: Load) -> dict[str, Json]:
    """Return the keys by which a load is told everywhere; the last ones where there is need."""
    return {
        "clients": load.clients,
        "threads": load.threads,
        "rate_per_s": number(load.rate_per_s),
        **({} if load.share is None else {"capacity_share": load.share}),
        **({} if load.generators == 1 else {"generators": load.generators}),
        **({} if load.pipeline == 1 else {"pipeline": load.pipeline}),
    }
