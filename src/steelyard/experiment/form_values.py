"""The scalars of an experiment file: how each is read, refused, and described to editors."""

import math
import re
import shlex
from collections.abc import Callable
from typing import Annotated, Final, NoReturn

from annotated_types import MinLen
from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from steelyard.experiment.document import WrittenFloat, WrittenInt
from steelyard.experiment.suggestions import choice, shown
from steelyard.model.errors import InputError
from steelyard.model.turns import LEAST_SETTLING_S, SHORTEST_TURN_S
from steelyard.model.units import parse_duration_s, parse_fraction

REFUSED: Final = "refused"
SEED_LIMIT: Final = 2**31
BUILTINS: Final = ("select-only", "simple-update", "tpcb-like")
_EVERYTHING: Final = re.compile(r"\s*(100\s*%|1(\.0+)?)\s*")
PROTOCOLS: Final = ("simple", "extended", "prepared")
DESIGNS: Final = ("auto", "alternating", "one-by-one", "single-pass")


class Form(BaseModel):
    """A section of the file; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def refusal(message: str, hint: str = "") -> PydanticCustomError:
    """Return the error that a validator raises; ``validation`` makes it a problem."""
    return PydanticCustomError(REFUSED, "{message}", {"message": message, "hint": hint})


def whole_number(low: int, high: int | None = None) -> Callable[[object], int]:
    """Return a validator for whole numbers in a range, both ends included."""
    bounds = f"at least {low}" if high is None else f"from {low} to {high}"

    def read(value: object) -> int:
        # `--set` and comma lists hand numbers over as text.
        if isinstance(value, str) and re.fullmatch(r"\s*[0-9]{1,18}\s*", value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise refusal(f"{shown(value)} is not a whole number", f"Write a number {bounds}.")
        if value < low or (high is not None and value > high):
            raise refusal(f"{shown(value)} is out of range", f"Write a number {bounds}.")
        return int(value)

    return read


def version(value: object) -> int:
    """Return the version of the file format; there is one so far."""
    if isinstance(value, bool) or value != 1:
        message = f"version {shown(value)} of the file format is not known here"
        raise refusal(message, "Write `version: 1`, or use a newer Steelyard.")
    return 1


def duration(
    low_s: float, *, above: bool = False, whole: bool = False
) -> Callable[[object], float]:
    """Return a validator for durations of at least (or above) a bound, in seconds."""

    def read(value: object) -> float:
        seconds = _seconds(value)
        if seconds < low_s or (above and seconds == low_s):
            limit = f"{'more than' if above else 'at least'} {low_s:g} s"
            raise refusal(f"{shown(value)} is too short", f"Write {limit}.")
        if whole and seconds != int(seconds):
            hint = "The load generator counts in whole seconds: write 5s, not 5.5s."
            raise refusal(f"{shown(value)} is not a whole number of seconds", hint)
        return seconds

    return read


def _seconds(value: object) -> float:
    usable = isinstance(value, str | int | float) and not isinstance(value, bool)
    try:
        seconds = parse_duration_s(value) if usable else math.nan  # type: ignore[arg-type]
    except InputError as error:
        raise refusal(f"{shown(value)} is not a duration", error.hint) from error
    if not math.isfinite(seconds):
        raise refusal(f"{shown(value)} is not a duration", "Write it as 90s, 20m or 1h30m.")
    return seconds


def discard(value: object) -> float | None:
    """Return seconds, or None for ``auto``."""
    return None if value == "auto" else duration(0.0)(value)


def rounds(value: object) -> int | None:
    """Return a number of rounds, or None for ``auto``."""
    return None if value == "auto" else whole_number(1)(value)


def share(value: object) -> float:
    """Return a fraction between 0 and 1, exclusive."""
    text = value.text if isinstance(value, WrittenInt | WrittenFloat) else value
    try:
        return parse_fraction(text if isinstance(text, str) else str(text))
    except InputError as error:
        message = f"{shown(value)} is not a share between 0 % and 100 %"
        raise refusal(message, error.hint) from error


def log_sampling(value: object) -> float:
    """Return a share, or 1 for all transactions."""
    return 1.0 if _EVERYTHING.fullmatch(str(value)) else share(value)


def neighbours(value: object) -> float | None:
    """Return a share, or None for ``ignore``."""
    return None if value == "ignore" else share(value)


def switch(value: object) -> bool:
    """Return a boolean from YAML 1.2's words and from those of YAML 1.1 that people still write."""
    words = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    raise refusal(f"{shown(value)} is neither true nor false", "Write true or false.")


def text(value: object) -> str:
    """Return non-empty text; numbers are taken as they are written."""
    if isinstance(value, WrittenInt | WrittenFloat):
        value = value.text
    if not isinstance(value, str) or not value.strip():
        raise refusal(f"{shown(value)} is not text", "Write some words.")
    if "\0" in value:
        raise refusal("the text holds a NUL character", "Remove it.")
    return value.strip()


def word(value: object) -> str:
    """Return a name: letters, digits, hyphens and underscores."""
    name = text(value)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}", name, re.ASCII):
        hint = "Use up to 40 letters, digits, hyphens and underscores, as in `huge-pages`."
        raise refusal(f"{shown(name)} is no name for tables and file names", hint)
    return name


def one_of(*options: str) -> Callable[[object], str]:
    """Return a validator for one of some words."""

    def read(value: object) -> str:
        name = text(value)
        if name not in options:
            raise refusal(f"{shown(value)} is not known", choice(name, options))
        return name

    return read


def split_words(value: object) -> list[object]:
    """Return a list: of the parts of a comma list, or of the single value."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    return value if isinstance(value, list) else [value]


def thread_counts(value: object) -> tuple[int, ...] | None:
    """Return thread counts, or None for ``auto``."""
    if value == "auto":
        return None
    read = whole_number(1)
    return tuple(read(item) for item in split_words(value)) or _no_threads()


def _no_threads() -> NoReturn:
    raise refusal("`threads` is empty", "Write `threads: auto`.")


def setting_value(value: object) -> str | None:
    """Return the text that goes into the server's configuration, None to remove the setting."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, WrittenInt | WrittenFloat):
        return value.text
    if not isinstance(value, str):
        hint = "Write lists as text: 'a, b'."
        raise refusal(f"{shown(value)} is a list or mapping, not a setting's value", hint)
    if re.search(r"[\0\r\n]", value):
        raise refusal("the value has a line break or NUL in it", "Write it on one line.")
    return value


def command_words(value: object) -> tuple[str, ...]:
    """Return the words of a command: of a list, or of one line in the shell's quoting."""
    try:
        words = shlex.split(value) if isinstance(value, str) else value
    except ValueError as error:
        raise refusal(f"{shown(value)} has an open quote", "Write a list of words.") from error
    if not isinstance(words, list | tuple) or not words:
        raise refusal(f"{shown(value)} is no command", "Write a list of words.")
    return tuple(text(word) for word in words)


def empty_as_mapping(value: object) -> object:
    """Return an empty mapping for ``key:`` with nothing after it."""
    return {} if value is None else value


_DURATION = {"type": ["string", "number"], "examples": ["5s", "20m", "1h30m"]}
_SHARE = {"type": ["string", "number"], "examples": ["3%", 0.03]}
_ALLOWANCE = {"type": ["string", "number"], "examples": ["15%", "ignore"]}
_COUNT = {"type": "integer", "minimum": 1}
_COMMA_LIST = {"type": "string", "pattern": r"^\s*[0-9]+(\s*,\s*[0-9]+)*\s*$"}
_COUNTS = [_COUNT, _COMMA_LIST, {"type": "array", "items": _COUNT, "minItems": 1}]
TEXTS = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_SETTING = {"type": ["string", "number", "boolean", "null"]}


def _schema(**keywords: object) -> WithJsonSchema:
    return WithJsonSchema(dict(keywords))


Text = Annotated[str, PlainValidator(text), _schema(type="string")]
Name = Annotated[str, PlainValidator(word), _schema(type=["string", "integer"])]
Count = Annotated[int, PlainValidator(whole_number(1)), _schema(**_COUNT)]
Port = Annotated[
    int, PlainValidator(whole_number(1, 65535)), _schema(type="integer", minimum=1, maximum=65535)
]
Seed = Annotated[
    int,
    PlainValidator(whole_number(0, SEED_LIMIT - 1)),
    _schema(type="integer", minimum=0, maximum=SEED_LIMIT - 1),
]
Version = Annotated[int, PlainValidator(version), _schema(const=1)]
Counts = Annotated[list[Count], BeforeValidator(split_words), MinLen(1), _schema(anyOf=_COUNTS)]
ThreadCounts = Annotated[
    tuple[int, ...] | None,
    PlainValidator(thread_counts),
    _schema(anyOf=[{"const": "auto"}, *_COUNTS]),
]
Slice = Annotated[float, PlainValidator(duration(1.0, whole=True)), _schema(**_DURATION)]
Ramp = Annotated[float, PlainValidator(duration(0.0, whole=True)), _schema(**_DURATION)]
Length = Annotated[float, PlainValidator(duration(0.0)), _schema(**_DURATION)]
Turn = Annotated[float, PlainValidator(duration(SHORTEST_TURN_S)), _schema(**_DURATION)]
Settling = Annotated[float, PlainValidator(duration(LEAST_SETTLING_S)), _schema(**_DURATION)]
Reconnections = Annotated[
    int, PlainValidator(whole_number(0, 100)), _schema(type="integer", minimum=0)
]
LongLength = Annotated[float, PlainValidator(duration(5.0, whole=True)), _schema(**_DURATION)]
Budget = Annotated[float, PlainValidator(duration(0.0, above=True)), _schema(**_DURATION)]
Discard = Annotated[float | None, PlainValidator(discard), _schema(**_DURATION)]
Share = Annotated[float, PlainValidator(share), _schema(**_SHARE)]
LogSampling = Annotated[float, PlainValidator(log_sampling), _schema(**_SHARE)]
Neighbours = Annotated[float | None, PlainValidator(neighbours), _schema(**_ALLOWANCE)]
Switch = Annotated[bool, PlainValidator(switch), _schema(type="boolean")]
Texts = Annotated[list[Text], BeforeValidator(split_words), _schema(**TEXTS)]
SettingValue = Annotated[str | None, PlainValidator(setting_value), _schema(**_SETTING)]
Protocol = Annotated[str, PlainValidator(one_of(*PROTOCOLS)), _schema(enum=list(PROTOCOLS))]
Connection = Annotated[
    str, PlainValidator(one_of("socket", "tcp")), _schema(enum=["socket", "tcp"])
]
Restore = Annotated[
    str,
    PlainValidator(one_of("reflink", "copy", "template", "vacuum")),
    _schema(enum=["reflink", "copy", "template", "vacuum"]),
]
DesignWord = Annotated[
    str,
    PlainValidator(one_of(*DESIGNS)),
    _schema(enum=list(DESIGNS)),
]
ResetWord = Annotated[
    str,
    PlainValidator(one_of("auto", "visit", "block", "campaign")),
    _schema(enum=["auto", "visit", "block", "campaign"]),
]
SwitchWord = Annotated[
    str,
    PlainValidator(one_of("auto", "session", "reload", "restart", "reprovision")),
    _schema(enum=["auto", "session", "reload", "restart", "reprovision"]),
]
CeilingsWord = Annotated[
    str,
    PlainValidator(one_of("auto", "on", "off")),
    _schema(enum=["auto", "on", "off"]),
]
LogWord = Annotated[
    str,
    PlainValidator(one_of("histograms", "keep", "off")),
    _schema(enum=["histograms", "keep", "off"]),
]
Rounds = Annotated[int | None, PlainValidator(rounds), _schema(anyOf=[{"const": "auto"}, _COUNT])]
