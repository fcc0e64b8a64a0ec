"""Values of a file as people write them, how they are read; marks of what is printed.

A field of a model that is a key of the experiment file says by ``key`` which quantity it takes and
what it is for. Records hold the fields themselves. A field of an answer says what programs read of
it by its annotation: a sentence, and these marks (``report.keys``).
"""

import math
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from enum import Enum, StrEnum, auto
from functools import partial
from typing import Any, Final

from steelyard.core import wording
from steelyard.core.wording import InputError

_SHOWN_LENGTH: Final = 60
_GOVERNED_INITDB: Final = re.compile(
    r"-[DUWA]|--(pgdata|username|pwprompt|pwfile|auth|auth-host|auth-local)\b"
)
_EVERYTHING: Final = re.compile(r"\s*(100\s*%|1(\.0+)?)\s*")


class WrittenInt(int):
    """An integer that remembers its spelling: PostgreSQL reads ``0700`` as octal, YAML does not."""

    text: str


class WrittenFloat(float):
    """A number that remembers its spelling: ``1.10`` stays ``1.10``."""

    text: str


def refusal(message: str, hint: str = "") -> InputError:
    """Return the error that a reader raises; the validation of a file makes it a problem."""
    return InputError(message, hint=hint)


def shown(value: object) -> str:
    """Return a value as the user wrote it, short, and never with a password in it."""
    text = written(value)
    if wording.command_holds_secret(text):
        return "a value with a password in it"
    return f"`{text if len(text) <= _SHOWN_LENGTH else text[: _SHOWN_LENGTH - 3] + '...'}`"


def written(value: object) -> str:
    """Return a value in YAML's words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, WrittenInt | WrittenFloat):
        return value.text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {written(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(written(item) for item in value) + "]"
    return str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """How a value that people write is read.

    Attributes:
        read: Returns what it means; raises an InputError where it is not understood.
        schema: JSON Schema by which editors know it; its comment is what people call it.
        unit: What fields that hold it end in, which their keys do not.
        word: For its absence; may be empty.
        items: What a list of it holds, which may be one alone or a comma list.
        names_path: Whether a value is the name of a file or directory.
    """

    read: Callable[[object], Any]
    schema: Mapping[str, Any]
    unit: str = ""
    word: str = ""
    items: "Quantity | None" = None
    names_path: Callable[[str], bool] = lambda _: False


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the experiment file.

    Attributes:
        name: Empty: that of the field, without the unit.
        takes: A quantity, the class of the section below it, or ``list`` of such a class.
        unwritten: Meaning of a file without it; None: the default, which kept keys leave out.
    """

    takes: Any
    description: str
    examples: tuple[object, ...] = ()
    name: str = ""
    unwritten: object = None


def key(
    default: object,
    takes: object,
    description: str,
    *examples: object,
    name: str = "",
    compare: bool = True,
    unwritten: object = None,
) -> Any:  # noqa: ANN401 - as of field
    """Return a field that is a key; null is taken if it may be empty and has no word for that.

    A key without which there is no section has the default MISSING.
    """
    about = Key(takes, description, examples, name, unwritten)
    return field(default=default, compare=compare, metadata={"key": about})


required = partial(key, MISSING)


def inside(kind: type, *, optional: bool = False, by: Sequence[str] = ()) -> Any:  # noqa: ANN401 - as of field
    """Return a field of a class whose keys are all in the section of the class around it.

    With ``optional`` it is None where none of them is given, or none of ``by``.
    """
    default: dict[str, Any] = {"default": None} if optional else {"default_factory": kind}
    return field(**default, metadata={"inside": kind, "by": by})


def keyed(kind: Any) -> Iterator[tuple[str, Field[Any], Key | None]]:  # noqa: ANN401 - any dataclass
    """Yield keys of a class with their fields, and fields whose class has keys, too."""
    for each in fields(kind):
        key = each.metadata.get("key")
        if key is not None:
            unit = key.takes.unit if isinstance(key.takes, Quantity) else ""
            yield key.name or each.name.removesuffix(unit), each, key
        elif "inside" in each.metadata:
            yield each.name, each, None


@dataclass(frozen=True, slots=True)
class Unit:
    """The end of a key, the factor from its field to its number, and the symbol of the unit."""

    suffix: str = ""
    factor: float = 1.0
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class Named:
    """The key has another name than the field."""

    key: str


@dataclass(frozen=True, slots=True)
class By:
    """A tuple becomes an object: this field of its items is the key."""

    field: str


@dataclass(frozen=True, slots=True)
class Computed:
    """A key without a field of its own, and a property: ``clients: ClassVar = Computed(of, hint)``.

    Attributes:
        of: Returns its value from the whole.
        hint: Its annotation.
    """

    of: Callable[[Any], Any]
    hint: Any

    def __get__(self, thing: object, kind: type | None = None) -> Any:  # noqa: ANN401 - as of `of`
        """Return its value, of a class itself."""
        return self if thing is None else self.of(thing)


class Mark(Enum):
    """Other ways to print a field of an answer."""

    OPTIONAL = auto()  # no key where the value is the default, or there is none
    EMPTY = auto()  # an empty text is written as one, and not as null
    INLINE = auto()  # not its key but its own ones; of an interval a key for each bound
    BOUNDS = auto()  # of an interval: its key, and a longer one for each bound


EMPTY: Final = Mark.EMPTY
PLAIN: Final = Unit()
PERCENT: Final = Unit("_percent", 100.0, "%")
SECONDS: Final = Unit("_s", 1.0, "s")
PER_SECOND: Final = Unit("_per_s", 1.0, "1/s")
OPTIONAL: Final = Mark.OPTIONAL
INLINE: Final = Mark.INLINE
BOUNDS: Final = Mark.BOUNDS


def whole(least: int = 1, most: int | None = None) -> Quantity:
    """Return whole numbers in a range, both ends included."""
    bounds = f"at least {least}" if most is None else f"from {least} to {most}"

    def read(value: object) -> int:
        # Options and comma lists hand numbers over as text.
        if isinstance(value, str) and re.fullmatch(r"\s*[0-9]{1,18}\s*", value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise refusal(f"{shown(value)} is not a whole number", f"Write a number {bounds}.")
        if value < least or (most is not None and value > most):
            raise refusal(f"{shown(value)} is out of range", f"Write a number {bounds}.")
        return int(value)

    limit = {} if most is None else {"maximum": most}
    return Quantity(read=read, schema={"type": "integer", "minimum": least, **limit})


def size(least: int, most: int | None = None) -> Quantity:
    """Return sizes in bytes within a range, both ends included."""
    bounds = f"at least {wording.format_bytes(least)}"
    if most is not None:
        bounds = f"from {wording.format_bytes(least)} to {wording.format_bytes(most)}"

    def read(value: object) -> int:
        usable = isinstance(value, str | int) and not isinstance(value, bool)
        try:
            found = wording.parse_bytes(value) if usable else -1  # type: ignore[arg-type]
        except InputError as error:
            raise refusal(f"{shown(value)} is not a size", error.hint) from error
        if found < least or (most is not None and found > most):
            raise refusal(f"{shown(value)} is out of range", f"Write a size {bounds}.")
        return found

    schema = {"type": ["string", "integer"], "$comment": "size", "examples": ["48MB", "16GiB"]}
    return Quantity(read=read, schema=schema, unit="_bytes")


def duration(least_s: float = 0.0, *, above: bool = False, whole: bool = False) -> Quantity:
    """Return durations of at least (or above) a bound, in seconds."""

    def read(value: object) -> float:
        usable = isinstance(value, str | int | float) and not isinstance(value, bool)
        try:
            seconds = wording.parse_duration_s(value) if usable else math.nan  # type: ignore[arg-type]
        except InputError as error:
            raise refusal(f"{shown(value)} is not a duration", error.hint) from error
        if not math.isfinite(seconds):
            raise refusal(f"{shown(value)} is not a duration", "Write it as 90s, 20m or 1h30m.")
        if seconds < least_s or (above and seconds == least_s):
            limit = f"{'more than' if above else 'at least'} {least_s:g} s"
            raise refusal(f"{shown(value)} is too short", f"Write {limit}.")
        if whole and seconds != int(seconds):
            hint = "The load generator counts in whole seconds: write 5s, not 5.5s."
            raise refusal(f"{shown(value)} is not a whole number of seconds", hint)
        return seconds

    schema = {
        "type": ["string", "number"],
        "$comment": "duration",
        "examples": ["5s", "20m", "1h30m"],
    }
    return Quantity(read=read, schema=schema, unit="_s")


LONG: Final = duration(5.0, whole=True)  # of runs that are more than one of many


def budget() -> Quantity:
    """Return durations above 0 with a unit: a bare number is refused."""

    def read(value: object) -> object:
        seconds = duration(above=True).read(value)
        try:
            wording.parse_budget_s(str(value))
        except InputError as error:
            raise refusal(f"{shown(value)} has no unit", error.hint) from error
        return seconds

    schema = {"type": "string", "$comment": "duration", "examples": ["20m", "90s", "1h30m"]}
    return Quantity(read=read, schema=schema, unit="_s")


def share(*, all_of_it: bool = False) -> Quantity:
    """Return fractions between 0 and 1, exclusive, but for all of it."""

    def read(value: object) -> float:
        if all_of_it and _EVERYTHING.fullmatch(str(value)):
            return 1.0
        text = value.text if isinstance(value, WrittenInt | WrittenFloat) else value
        try:
            return wording.parse_fraction(text if isinstance(text, str) else str(text))
        except InputError as error:
            message = f"{shown(value)} is not a share between 0 % and 100 %"
            raise refusal(message, error.hint) from error

    schema = {"type": ["string", "number"], "$comment": "share", "examples": ["3%", 0.03]}
    return Quantity(read=read, schema=schema)


def as_switch(value: object) -> bool:
    """Return a boolean from YAML 1.2's words and from those of YAML 1.1 that people still write."""
    words = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    raise refusal(f"{shown(value)} is neither true nor false", "Write true or false.")


def as_text(value: object) -> str:
    """Return non-empty text; numbers are taken as they are written."""
    if isinstance(value, WrittenInt | WrittenFloat):
        value = value.text
    if not isinstance(value, str) or not value.strip():
        raise refusal(f"{shown(value)} is not text", "Write some words.")
    if "\0" in value:
        raise refusal("the text holds a NUL character", "Remove it.")
    return value.strip()


def text_of(value: object) -> str | None:
    """Return a text, or a number as it is written, without blanks around; None for the rest."""
    try:
        return as_text(value)
    except InputError:
        return None


def as_name(value: object) -> str:
    """Return a name: letters, digits, hyphens and underscores."""
    name = as_text(value)
    if not wording.NAME.fullmatch(name):
        hint = "Use up to 40 letters, digits, hyphens and underscores, as in `huge-pages`."
        raise refusal(f"{shown(name)} is no name for tables and file names", hint)
    return name


def as_key(name: str) -> str:
    """Return a name that is a key of a mapping: blanks around it would make it another key."""
    if name != name.strip():
        raise refusal(f"{shown(name)} has blanks around it", "Remove them.")
    return as_name(name)


def as_command(value: object) -> tuple[str, ...]:
    """Return the words of a command from a list, or from one line in the shell's quoting."""
    try:
        words = shlex.split(value) if isinstance(value, str) else value
    except ValueError as error:
        raise refusal(
            f"{shown(value)} has an open quote", "Close it, or write a list of words."
        ) from error
    if not isinstance(words, list | tuple) or not words:
        raise refusal(f"{shown(value)} is no command", "Write a list of words.")
    return tuple(map(as_text, words))


def as_amount(value: object) -> float:
    """Return an amount, of money for example: 0 or more."""
    try:
        number = float(value) if isinstance(value, str | int | float) else math.nan
    except ValueError:
        number = math.nan
    if isinstance(value, bool) or not math.isfinite(number) or number < 0:
        raise refusal(f"{shown(value)} is no amount", "Write a number such as 0.42.")
    return number


TEXTS: Final = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
COMMAND: Final = Quantity(read=as_command, schema=TEXTS)
SWITCH: Final = Quantity(read=as_switch, schema={"type": "boolean"})
TEXT: Final = Quantity(read=as_text, schema={"type": "string"})
NAME: Final = Quantity(read=as_name, schema={"type": ["string", "integer"]})
AMOUNT: Final = Quantity(read=as_amount, schema={"type": "number", "minimum": 0})
PATH: Final = replace(TEXT, names_path=bool)
PORT: Final = whole(1, 65535)


def setting(off: str = "off", on: str = "on", several: str = "a, b") -> Quantity:
    """Return values of a server's settings as texts; None removes one."""

    def read(value: object) -> str | None:
        if isinstance(value, bool):
            return on if value else off
        if isinstance(value, WrittenInt | WrittenFloat):
            return value.text
        if isinstance(value, str | None):
            if re.search(r"[\0\r\n]", value or ""):
                raise refusal("the value has a line break or NUL in it", "Write it on one line.")
            return value
        message = f"{shown(value)} is a list or mapping, not a setting's value"
        raise refusal(message, f"Write it as one text: '{several}'.")

    return Quantity(read=read, schema={"type": ["string", "number", "boolean", "null"]})


SETTING: Final = setting()
REDIS_SETTING: Final = setting("no", "yes", "900 1 300 10")


def word(options: tuple[str, ...] | type[StrEnum]) -> Quantity:
    """Return some words, as they are or as members of their class."""
    known = [str(each) for each in options]

    def read(value: object) -> str:
        name = as_text(value)
        if name not in known:
            raise refusal(f"{shown(value)} is not known", wording.choice(name, known))
        return name if isinstance(options, tuple) else options(name)

    return Quantity(read=read, schema={"enum": known})


def either(name: str, other: Quantity, *, empty: bool = False) -> Quantity:
    """Return a quantity, or a word for its absence; an empty value may mean the same."""
    plain = other.schema
    known = [name, *plain.get("enum", ())]
    schema = {"enum": known} if "enum" in plain else {"anyOf": [{"const": name}, dict(plain)]}

    def read(value: object) -> Any:  # noqa: ANN401 - as the other's
        if value == name or (empty and value is None):
            return None
        try:
            return other.read(value)
        except InputError as error:
            hint = f"{error.hint.removesuffix('.')}, or {name}."
            if "enum" in plain:
                hint = wording.choice(str(value), known)
            raise refusal(error.message, hint) from None

    return Quantity(read=read, schema=schema, unit=other.unit, word=name)


def several(items: Quantity, least: int = 0, form: str = "") -> Quantity:
    """Return a list of a quantity, one alone, or a comma list whose texts have a form."""
    item = dict(items.schema)
    listed = {"type": "array", "items": item, **({"minItems": least} if least else {})}
    commas = {"type": "string", "pattern": rf"^\s*{form}(\s*,\s*{form})*\s*$"}

    def read(value: object) -> tuple[Any, ...]:
        found = tuple(items.read(each) for each in split_words(value))
        if len(found) < least:
            raise refusal("the list is empty", "Give at least one.")
        return found

    schema = {"anyOf": [item, listed, *([commas] if form else [])]}
    return Quantity(read=read, schema=schema, items=items)


def counts() -> Quantity:
    """Return whole numbers from 1 on, at least one of them."""
    return several(whole(), least=1, form="[0-9]+")


def split_words(value: object) -> list[object]:
    """Return a list: of the parts of a comma list, or of the single value."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    return value if isinstance(value, list) else [value]


def _initdb_option(value: object) -> str:
    option = as_text(value)
    if _GOVERNED_INITDB.match(option):
        hint = "Steelyard sets directory, user and authentication itself."
        raise refusal(f"the initdb option {shown(option)} is not yours to give", hint)
    return option


def _memory(value: object) -> int:
    """Return a server's memory; a number without a unit is hardly meant."""
    try:
        size = wording.parse_bytes(as_text(value))
    except InputError as error:
        raise refusal(f"{shown(value)} is no size of a memory", error.hint) from None
    if size < wording.MIB:
        raise refusal(f"{shown(value)} is {size} bytes of memory", "Write it as 64GiB.")
    return size


def _cpus(value: object) -> float:
    """Return how many CPUs a server has; 0.5 is half of one."""
    text = str(value) if isinstance(value, float) else as_text(value)
    is_number = re.fullmatch(r"[0-9]{1,5}(\.[0-9]{1,3})?", text)
    if not is_number or not float(text):
        raise refusal(f"{shown(value)} is no number of CPUs", "Write it as 16.")
    return float(text)


def _version(value: object) -> str:
    text = as_text(value)
    if not re.fullmatch(r"[0-9]{1,2}(\.[0-9]{1,2})?", text):
        raise refusal(f"{shown(text)} is no version of PostgreSQL", "Write 16 or 16.4.")
    return text


def _replica(value: object) -> tuple[tuple[str, str], ...]:
    """Return settings by name, which does not differ by case."""
    if not isinstance(value, dict):
        raise refusal(f"{shown(value)} is not a mapping of settings", "Write `{appendonly: yes}`.")
    read = {name: REDIS_SETTING.read(given) for name, given in value.items()}
    if removed := [name for name, given in read.items() if given is None]:
        message = f"{shown(removed[0])} of the replica is empty"
        raise refusal(message, "Write its value, or leave it out; an empty text is ''.")
    return tuple(sorted((name.lower(), given or "") for name, given in read.items()))


INITDB: Final = Quantity(read=_initdb_option, schema={"type": "string"})
MEMORY: Final = Quantity(read=_memory, schema={"type": "string", "$comment": "size"})
CPUS: Final = Quantity(read=_cpus, schema={"type": "number"})
VERSION: Final = Quantity(read=_version, schema={"type": "string"})
REPLICA: Final = Quantity(
    read=_replica,
    schema={"type": ["object", "null"], "additionalProperties": dict(REDIS_SETTING.schema)},
)
