"""A program of the user's as load generator: what it is told, and how its figures are found.

The contract is in ``docs/generators.md``. A command is started without a shell; what it is told
stands as names in braces in its words and, once more, in its environment.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from steelyard.core.errors import MeasurementError
from steelyard.core.experiment import Figure, LoadCommand, Workload
from steelyard.core.measurement import Measurement
from steelyard.core.outside import Completed, ServerAddress
from steelyard.systems.protocol import RunRequest

OF_THE_SERVER: Final = ("host", "port", "user", "database")
OF_A_RUN: Final = ("workload", "clients", "threads", "seconds", "ramp", "slice", "configuration")
_NAMED: Final = re.compile(r"\{([a-z_]+)\}")
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[\"([^\"]+)\"\]")


def command_of(workload: Workload) -> LoadCommand:
    """Return the command of a workload that has one."""
    assert workload.command is not None  # noqa: S101 - who asks has chosen by it
    return workload.command


def names_in(words: Sequence[str]) -> tuple[str, ...]:
    """Return the names in braces in the words of a command, each once."""
    return tuple(dict.fromkeys(name for word in words for name in _NAMED.findall(word)))


def filled(words: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words of a command with values for the names in braces."""
    return tuple(_NAMED.sub(lambda found: values.get(found[1], found[0]), word) for word in words)


def values_of_server(address: ServerAddress) -> dict[str, str]:
    """Return what a command is told of the server, by name; never a password."""
    host, port = address.inside or (address.host, address.port)
    return {
        "host": host,
        "port": str(port),
        "user": address.user,
        "database": address.database,
    }


def values_of_run(request: RunRequest, address: ServerAddress, ramp_s: float) -> dict[str, str]:
    """Return what a command is told of one run, by name."""
    return {
        **values_of_server(address),
        "workload": request.workload.name,
        "clients": str(request.load.clients),
        "threads": str(request.load.threads),
        "seconds": str(request.seconds),
        "ramp": f"{ramp_s:g}",
        "slice": f"{request.seconds - ramp_s:g}",
        "configuration": request.configuration,
    }


def in_environment(values: Mapping[str, str]) -> dict[str, str]:
    """Return the same values as environment variables."""
    return {f"STEELYARD_{name.upper()}": value for name, value in values.items()}


def complaint(place: str) -> str:
    """Return what is wrong with the place of a figure; empty where nothing is."""
    if place.startswith("$"):
        rest = _STEP.sub("", place[1:])
        return f"{rest!r} of the JSON path is not understood" if rest or place == "$" else ""
    try:
        pattern = re.compile(place, re.MULTILINE)
    except re.error as error:
        return f"it is no regular expression: {error}"
    return "" if pattern.groups else "the regular expression has no group"


def figure_in(text: str, figure: Figure) -> float | None:
    """Return the last number at a place in a text, in our unit; None where there is none."""
    found = (
        _by_path(text, figure.place)
        if figure.place.startswith("$")
        else _by_pattern(text, figure.place)
    )
    numbers = [number * figure.factor for number in map(_number, found) if number is not None]
    return numbers[-1] if numbers else None


def _by_pattern(text: str, place: str) -> Iterator[object]:
    pattern = re.compile(place, re.MULTILINE)
    for found in pattern.finditer(text):
        yield next(iter(found.groupdict().values()), found[1])


def _by_path(text: str, path: str) -> Iterator[object]:
    """Yield what stands at a path of each JSON object that begins a line of a text."""
    decoder = json.JSONDecoder()
    at = 0
    while (found := re.compile(r"^[ \t]*[{\[]", re.MULTILINE).search(text, at)) is not None:
        start = found.end() - 1
        try:
            value, at = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            at = start + 1
            continue
        for step in _STEP.finditer(path):
            value = _within(value, step)
        yield value


def _within(value: Any, step: re.Match[str]) -> object:  # noqa: ANN401 - any JSON
    """Return what is one step deeper in a value; None where nothing is."""
    name, index, quoted = step.groups()
    if index is not None:
        within = isinstance(value, list) and int(index) < len(value)
        return value[int(index)] if within else None
    return value.get(name or quoted) if isinstance(value, dict) else None


def _number(given: object) -> float | None:
    """Return a number that a measurement can be; None where it is none."""
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        return None
    try:
        number = float(given)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and number >= 0 else None


def parse_run(
    command: LoadCommand, completed: Completed, *, seconds: float, ramp_s: float
) -> Measurement:
    """Return what a program measured, by its own words.

    Args:
        command: Says where its figures are.
        completed: What it printed.
        seconds: The length it was asked for, ramp included.
        ramp_s: Of them, left out at the start.

    Raises:
        MeasurementError: It failed, or it printed no rate.
    """
    if not completed.succeeded:
        raise MeasurementError(
            f"{command.name} exited with {completed.exit_status}: {completed.tail(3)}"
        )
    text = f"{completed.stdout}\n{completed.stderr}"
    rate = figure_in(text, command.rate)
    if rate is None:
        raise MeasurementError(
            f"{command.name} printed no rate: nothing matches {command.rate.place!r}",
            hint="Its output is in the campaign's raw/ directory; correct `generator.rate`.",
        )
    length_s = max(seconds - ramp_s, 1e-3)
    known = ((share, figure_in(text, figure)) for share, figure in command.percentiles)
    return Measurement(
        transactions=rate * length_s,
        seconds=length_s,
        latency_mean_s=None if command.mean is None else figure_in(text, command.mean),
        latency_stddev_s=None,
        failed=0,
        connection_s=None,
        series=(),
        percentiles=tuple((share, value) for share, value in known if value is not None),
    )
