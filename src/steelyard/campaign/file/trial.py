"""The configurations of a trial: the server's own values, and those that ``--set`` names.

A setting may have several values: numbers, sizes, times, enumerations and switches as a list at
commas, and any setting by a second ``--set`` of its name. Each value is a configuration.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Final, NamedTuple

from steelyard.core.wording import LONGEST_NAME, InputError
from steelyard.systems.protocol import Engine

NOW: Final = "now"
TRIED: Final = "tried"


class Wish(NamedTuple):
    """A setting and its text on the command line: a value, or several at commas."""

    name: str
    text: str


class Tried(NamedTuple):
    """The configurations of a trial.

    Attributes:
        configurations: Settings by configuration, without ``now``.
        left_out: Values that the server has already.
    """

    configurations: Mapping[str, Mapping[str, str]]
    left_out: tuple[Wish, ...] = ()


UNCHANGED: Final = Tried({TRIED: {}})  # to ask the server, before the values are known


def wishes_of(texts: Sequence[str]) -> tuple[Wish, ...]:
    """Return what the options ``--set`` name.

    Raises:
        InputError: A text is not NAME=VALUE.
    """
    wishes = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise InputError(
                f"--set: {text!r} is no setting with its value",
                hint="Write it as random_page_cost=1.1.",
            )
        wishes.append(Wish(name.strip(), value.strip()))
    return tuple(wishes)


def may_be_several(wishes: Sequence[Wish]) -> bool:
    """Return whether the server has to say which texts are lists, or a setting is named twice."""
    names = {wish.name.lower() for wish in wishes}
    return len(names) < len(wishes) or any("," in wish.text for wish in wishes)


def tried_once(wishes: Sequence[Wish]) -> Tried:
    """Return one configuration with all settings, each text as one value."""
    return Tried({TRIED: {wish.name: wish.text for wish in wishes}})


def tried_values(wishes: Sequence[Wish], engine: Engine) -> Tried:
    """Return a configuration for each value, by the kinds that the server gives its settings.

    Args:
        wishes: What the options name.
        engine: Knows the server of the configuration ``now``.

    Raises:
        InputError: Two settings have several values, or one of the values is empty or there twice.
    """
    spelled: dict[str, str] = {}
    values: dict[str, list[str]] = {}
    for wish in wishes:
        name = spelled.setdefault(wish.name.lower(), wish.name)
        values.setdefault(name, []).extend(engine.listed(NOW, wish.name, wish.text))
    several = [name for name, found in values.items() if len(found) > 1]
    if not several:
        return tried_once([Wish(name, value) for name, (value,) in values.items()])
    _require_one_series(several, values)
    (series,) = several
    kept = [value for value in values[series] if not engine.has_now(NOW, series, value)]
    left_out = tuple(Wish(series, value) for value in values[series] if value not in kept)
    others = {name: found[0] for name, found in values.items() if name != series}
    if len(kept) < 2:
        return Tried({TRIED: {series: (kept or values[series])[0], **others}}, left_out)
    named = zip(_labels(kept), kept, strict=True)
    return Tried({label: {series: value, **others} for label, value in named}, left_out)


def _require_one_series(several: Sequence[str], values: Mapping[str, Sequence[str]]) -> None:
    if len(several) > 1:
        raise InputError(
            f"--set: {' and '.join(several)} have several values each",
            hint="Try one list of values at a time; a file of `steelyard run` can combine two"
            " settings with `factors:`.",
        )
    (name,) = several
    if "" in values[name]:
        raise InputError(
            f"--set: a value of {name} is empty", hint="Remove the comma, or write a value."
        )
    words = [value.lower() for value in values[name]]
    if twice := [value for value in words if words.count(value) > 1]:
        raise InputError(
            f"--set: {name} has the value {twice[0]} twice", hint="Write each value once."
        )


def _labels(values: Sequence[str]) -> Iterator[str]:
    """Yield a name for the configuration of each value: a name has no dot, 1.1 is ``1_1``."""
    used = {NOW, TRIED}
    for number, value in enumerate(values, start=1):
        words = re.sub(r"\A-(?=[\d.])", "minus-", value).replace(".", "_")
        label = re.sub(r"[^A-Za-z0-9_]+", "-", words).strip("-_")[:LONGEST_NAME]
        if not label or label in used:
            label = next(it for it in map("value-{}".format, count(number)) if it not in used)
        used.add(label)
        yield label


def values_of(configurations: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the values of each setting over all configurations, in one text."""
    found: dict[str, dict[str, None]] = {}
    for settings in configurations.values():
        for name, value in settings.items():
            found.setdefault(name, {})[value] = None
    return {name: " or ".join(values) for name, values in found.items()}
