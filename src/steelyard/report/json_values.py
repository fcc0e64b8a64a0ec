"""Plain values for ``summary.json``: what every part of it is made of."""

from steelyard.core.experiment import WorkWords
from steelyard.core.findings import Estimate
from steelyard.core.schedule import Load
from steelyard.report.formats import present

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
