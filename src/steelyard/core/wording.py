"""What users write and read: quantities with their units, names, and errors with the way out.

Every expected failure is a sentence of fact, the way out, and an exit code. Foreign errors are
translated at the gateways; ``cli`` catches ``SteelyardError`` and ``Interrupted`` once. How words
stand in such sentences is here, too: commands to paste, lists, and the known word that a misspelled
one means. Secrets have no place in what is written: the end lists the forms that are known.

Quantities are read and written with units; inside, there are base units only. Kubernetes writes
``500m`` of a CPU, ``6500Mi`` of memory. Source: Kubernetes API reference, "Quantity"
(``resource.Quantity``). Settings of PostgreSQL have units of their own, such as ``8kB``. Source:
its documentation, "Setting Parameters".
"""

import difflib
import json
import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from pydantic import TypeAdapter


class OpenWord(StrEnum):
    """A word of a list that registered database systems and targets may add to."""

    @classmethod
    def _missing_(cls, value: object) -> "OpenWord | None":
        """Return the member of another word, always the same one."""
        if not isinstance(value, str):
            return None
        member = str.__new__(cls, value)
        member._name_, member._value_ = value, value
        found = cls._value2member_map_.setdefault(value, member)
        return found if isinstance(found, OpenWord) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkWords:
    """The words of one engine and its generator; each fills the mark of its place."""

    one: str = "transaction"
    many: str = "transactions"
    many_first: str = "Transactions"
    rate: str = "tps"
    rate_unit: str = "1/s"
    generator: str = "pgbench"
    server: str = "PostgreSQL"

    def fill(self, text: str) -> str:
        """Return a text with these words at the marks of ``core.experiment``."""
        return text if text.isascii() else text.translate(_at_marks(self))


_at_marks = cache(lambda words: dict(enumerate(astuple(words), 0xE101)))  # the first mark


POSTGRES_WORDS: Final = WorkWords()
REDIS_WORDS: Final = WorkWords(
    one="request",
    many="requests",
    many_first="Requests",
    rate="ops/s",
    rate_unit="",
    generator="redis-benchmark",
    server="Redis",
)


class ExitCode(IntEnum):
    """Process exit codes; the numbers are a public interface."""

    DONE = 0
    BAD_INPUT = 2
    REFUSED = 3
    TARGET = 4
    MEASUREMENT = 5
    RECORD = 6
    LEFT_BEHIND = 7
    PRIVILEGE = 8
    GATE = 10
    INTERRUPTED = 130


class SteelyardError(Exception):
    """An expected failure: the message says what is so, the hint says the way out."""

    exit_code = ExitCode.MEASUREMENT

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InputError(SteelyardError):
    """What the user gave cannot be used as it is."""

    exit_code = ExitCode.BAD_INPUT


class UnconfiguredError(InputError):
    """Nothing says how to reach a cluster."""


class PreflightError(SteelyardError):
    """The campaign was refused before anything was started."""

    exit_code = ExitCode.REFUSED


class TargetError(SteelyardError):
    """The server, or the machine it runs on, is unreachable or refuses."""

    exit_code = ExitCode.TARGET


class SettingError(TargetError):
    """A server that runs refuses the value of a setting."""

    def __init__(self, message: str, *, hint: str, setting: str, value: str) -> None:
        super().__init__(message, hint=hint)
        self.setting = setting
        self.value = value


class RefusedError(TargetError):
    """The server answered, with an error in words of its own; ``code`` is its SQLSTATE, if any."""

    def __init__(self, message: str, *, hint: str = "", code: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code


class LoginError(TargetError):
    """The server does not take user and password."""


class SilentError(TargetError):
    """A server that runs did not answer in time: what it would have said is not known."""


class MeasurementError(SteelyardError):
    """Runs failed, and repeating them did not help."""

    exit_code = ExitCode.MEASUREMENT


class RecordError(SteelyardError):
    """The campaign's directory is damaged, in use, or of an unknown format."""

    exit_code = ExitCode.RECORD


class LeftBehindError(SteelyardError):
    """Something that was made could not be removed again."""

    exit_code = ExitCode.LEFT_BEHIND


_T = TypeVar("_T")


def troubles_of(attempt: Callable[[_T], object], things: Iterable[_T]) -> list[SteelyardError]:
    """Return why attempts failed: each is made, whatever became of the others.

    Raises:
        Interrupted: Nothing more is to be tried.
        RecordError: What becomes of them cannot be noted.
    """
    troubles = []
    for thing in things:
        try:
            attempt(thing)
        except RecordError:
            raise
        except SteelyardError as error:
            troubles.append(error)
    return troubles


def raise_all(troubles: Sequence[SteelyardError]) -> None:
    """Raise what is left behind as one error; nothing happens where nothing is.

    Raises:
        LeftBehindError: With all messages, and each hint once.
    """
    if troubles:
        raise LeftBehindError(
            "; ".join(error.message for error in troubles),
            hint=" ".join(dict.fromkeys(error.hint for error in troubles if error.hint)),
        )


class PrivilegeError(SteelyardError):
    """The account may not do what was asked."""

    exit_code = ExitCode.PRIVILEGE


class Interrupted(BaseException):
    """The operator stopped the campaign; what was measured is kept.

    It can come in the middle of anything, so it is none of the failures that waiting for a server,
    trying again and libraries expect and swallow.
    """

    exit_code = ExitCode.INTERRUPTED

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing wrong with an experiment file.

    Attributes:
        message: What is wrong, with the offending value.
        hint: The way out.
        path: The place in words, such as ``configurations.buffers.postgres.shared_bufers``.
        line: 1-based line, or None where the value does not come from the file (``--override``).
        column: 1-based column, or None likewise.
    """

    message: str
    hint: str = ""
    path: str = ""
    line: int | None = None
    column: int | None = None

    def located(self, source: str) -> str:
        """Return the problem as one line that editors can jump to."""
        place = source if self.line is None else f"{source}:{self.line}:{self.column}"
        at = f" {self.path}:" if self.path else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{place}:{at} {self.message}{hint}"


class ExperimentFileError(InputError):
    """An experiment file with all its problems at once."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        count = len(self.problems)
        heading = f"{source} has {count} problem{'s' if count != 1 else ''}:"
        lines = [heading, *(f"  {problem.located(source)}" for problem in self.problems)]
        super().__init__("\n".join(lines), hint="`steelyard schema` prints the JSON Schema.")


def undo_after(error: BaseException, undo: Callable[[], None]) -> None:
    """Undo what was made before an error; that this fails, too, does not hide the error."""
    try:
        undo()
    except SteelyardError as trouble:
        if isinstance(error, SteelyardError):
            error.hint = " ".join(filter(None, [error.hint, f"Besides: {trouble.message}."]))


def quoted(word: object) -> str:
    """Return a path or a name as it stands in a command that a reader pastes into a shell."""
    return shlex.quote(str(word))


_LETTERS_PER_SLIP: Final = 3  # a guess: a third of a word may be wrong
_LEAST_BEGINNING: Final = 3  # letters that stand for the one word that begins with them


def sql_literal(text: str) -> str:
    """Return a text as SQL writes it, whatever ``standard_conforming_strings`` says."""
    inside = text.replace("\\", "\\\\").replace("'", "''")
    return f"E'{inside}'" if "\\" in inside else f"'{inside}'"


def redis_word(word: str) -> str:
    """Return a word in quotation marks, as redis.conf and redis-cli read it (sdssplitargs)."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


# Lists whose items the server quotes one by one (GUC_LIST_QUOTE): written as one literal, a list
# would become a single name.
_QUOTED_LISTS: Final = frozenset(
    {
        "local_preload_libraries",
        "search_path",
        "session_preload_libraries",
        "shared_preload_libraries",
        "temp_tablespaces",
        "unix_socket_directories",
    }
)
PRELOADS: Final = re.compile(r"(?:shared|session|local)_preload_libraries", re.IGNORECASE)
_ITEM: Final = re.compile(r'\s*("(?:[^"]|"")*"|[^,"]+)\s*(?:,|$)')


def setting_literals(name: str, value: str) -> str:
    """Return the value of a PostgreSQL setting as SET and ALTER SYSTEM take it."""
    items = [value]
    if name.lower() in _QUOTED_LISTS and value.strip():
        found = (match[1].strip() for match in _ITEM.finditer(value))
        items = [i[1:-1].replace('""', '"') if i.startswith('"') else i for i in found]
    return ", ".join(map(sql_literal, items))


def is_empty_preload(name: str, value: str) -> bool:
    """Return whether a setting is a list of libraries without any.

    ALTER SYSTEM writes that as one library without a name (seen with PostgreSQL 15): the server
    starts no more, or lets nobody in.
    """
    return PRELOADS.fullmatch(name) is not None and not value.strip()


def closest(word: str, known: Iterable[str]) -> str:
    """Return the known word that a misspelled one most likely means, or "" when none is close."""
    by_folded = {name.casefold(): name for name in known}
    folded = word.casefold()
    begun = [name for name in by_folded if name.startswith(folded)]
    if folded not in by_folded and len(folded) >= _LEAST_BEGINNING and len(begun) == 1:
        return by_folded[begun[0]]
    alike = difflib.get_close_matches(folded, by_folded, n=len(by_folded) or 1, cutoff=0.6)
    close = [
        name
        for name in alike
        if slips(folded, name) <= max(len(folded), len(name)) // _LETTERS_PER_SLIP
    ]
    return by_folded[close[0]] if close else ""


def slips(word: str, other: str) -> int:
    """Return how many letters are missing, too many, wrong, or swapped with their neighbour."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(word):
        above, before, row = before, row, [i + 1]
        for j, wanted in enumerate(other):
            cost = min(before[j] + (letter != wanted), before[j + 1] + 1, row[j] + 1)
            if i and j and (letter, word[i - 1]) == (other[j - 1], wanted):
                cost = min(cost, above[j - 1] + 1)
            row.append(cost)
    return row[-1]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return "did you mean `x`?" for the closest known word, or "" when none is close."""
    name = closest(word, known)
    return f"did you mean `{name}`?" if name else ""


def choice(word: str, known: Iterable[str]) -> str:
    """Return the closest known word as a question, or all of them when none is close."""
    names = list(known)
    return did_you_mean(word, names) or f"known: {listed(names)}"


def listed(names: Iterable[str]) -> str:
    """Return names as ``a, b or c``."""
    *first, last = [f"`{name}`" for name in names] or ["none"]
    return f"{', '.join(first)} or {last}" if first else last


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """Something an engine knows will not work, before anything is started.

    Attributes:
        setting: Name of the setting it is about; empty: of a configuration's settings together;
            None: it is about the load.
    """

    setting: str | None
    message: str
    hint: str


MS_PER_S = 1e3
US_PER_S = 1_000_000  # whole: microseconds are counted exactly
KIB = 1024
MIB = 1024**2
GIB = 1024**3

SEED_LIMIT: Final = 2**31  # the seed of an order is below it
LONGEST_NAME: Final = 40  # tables and legends are made for that
# Of configurations, workloads, factors: in files, tables and names of files.
NAME: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{LONGEST_NAME - 1}}}", re.ASCII)


def is_label(text: str) -> bool:
    """Return whether a text can stand as one in tables: a short line that shows something."""
    return bool(text.strip()) and len(text) <= LONGEST_NAME and text.isprintable()


_KEPT = "\n\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"  # no letters, and harmless
_LEAST_MS_S = 0.1e-3  # shorter times are told in microseconds

SECONDS_PER_MINUTE = 60.0
_SECONDS_PER = {
    "ms": 1e-3,
    "s": 1.0,
    "m": SECONDS_PER_MINUTE,
    "min": SECONDS_PER_MINUTE,
    "h": 3600.0,
    "d": 86400.0,
}
_BYTES_PER = {
    "": 1,
    "b": 1,
    **{
        f"{prefix}{suffix}": 1024**power
        for power, prefix in enumerate("kmgt", 1)
        for suffix in ("", "b", "ib")
    },
}
_NUMBER = r"[0-9]{1,18}(?:\.[0-9]{1,18})?"  # bounded, so that no text becomes infinite
_QUANTITY = re.compile(rf"^\s*({_NUMBER})\s*([a-zA-Z%]*)\s*$")


def parse_duration_s(text: str | float) -> float:
    """Return seconds from ``90``, ``90s``, ``1.5m``, ``2h`` or ``1h30m``; a bare number is seconds.

    Raises:
        InputError: The text is no duration.
    """
    if isinstance(text, int | float) and not isinstance(text, bool):
        return float(text)
    parts = re.findall(rf"({_NUMBER})\s*(ms|min|s|m|h|d)", str(text))
    if parts and "".join(f"{n}{u}" for n, u in parts) == re.sub(r"\s", "", str(text)):
        return sum(float(number) * _SECONDS_PER[unit] for number, unit in parts)
    if re.fullmatch(_NUMBER, str(text).strip()):
        return float(str(text).strip())
    raise InputError(f"{text!r} is not a duration", hint="Write it as 90s, 20m or 1h30m.")


def parse_budget_s(text: str | float) -> float:
    """Return seconds from ``20m``; a bare number is refused: it could be minutes or seconds.

    Raises:
        InputError: The text is no duration, or has no unit.
    """
    seconds = parse_duration_s(text)
    if re.fullmatch(_NUMBER, str(text).strip()):
        raise InputError(f"{text!r} has no unit", hint="Write 20m (minutes) or 90s.")
    return seconds


def parse_fraction(text: str | float) -> float:
    """Return a fraction from ``3%`` (0.03) or ``0.03``.

    Raises:
        InputError: The text is neither, or not between 0 and 1 exclusive.
    """
    match = _QUANTITY.match(str(text))
    if match and match[2] in ("%", ""):
        value = float(match[1]) / (100.0 if match[2] else 1.0)
        if 0.0 < value < 1.0:
            return value
    raise InputError(f"{text!r} is not a share", hint="Write it as 3% or 0.03.")


def parse_bytes(text: str | int) -> int:
    """Return bytes from ``8GB``, ``512MiB``, ``64k`` or a bare number; powers of 1024.

    Raises:
        InputError: The text is no size.
    """
    match = _QUANTITY.match(str(text))
    if match and match[2].lower() in _BYTES_PER:
        return int(float(match[1]) * _BYTES_PER[match[2].lower()])
    raise InputError(f"{text!r} is not a size", hint="Write it as 512MB or 8GB.")


def format_duration(seconds: float) -> str:
    """Return a duration as people say it: ``0.4 s``, ``45 s``, ``6 min``, ``1 h 20 min``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if rest else f"{hours} h"


def format_about(seconds: float) -> str:
    """Return a foretold time without false precision: ``50 min``, ``3 h 20 min``, ``17 h``."""
    hours = seconds / 3600.0
    if hours < 2.0:
        return format_duration(seconds)
    if hours < 10.0:
        return format_duration(round(hours * 6.0) * 600.0)
    return f"{hours:.0f} h" if hours < 72.0 else f"{hours / 24.0:,.0f} days"


def whole_minutes(seconds: float) -> int:
    """Return the fewest minutes that are as long, as a budget is written."""
    return math.ceil(seconds / SECONDS_PER_MINUTE)


def format_utc(seconds: float) -> str:
    """Return a moment since the epoch as UTC to the minute."""
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%d %H:%M UTC")


def format_bytes(count: float) -> str:
    """Return a size with a binary unit: ``512 B``, ``1.5 MiB``, ``22.4 GiB``."""
    for unit, size in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"


def format_percent(fraction: float, *, signed: bool = True) -> str:
    """Return a fraction as a percentage with a digit that suits its size: ``+2.8 %``."""
    percent = 100.0 * fraction
    digits = 0 if abs(percent) >= 99.95 else 1 if abs(percent) >= 0.95 else 2
    return f"{percent:{'+' if signed else ''}.{digits}f} %"


def format_log_ratio(log_ratio: float) -> str:
    """Return the relative difference that a log ratio stands for: ``+2.8 %`` for 0.0276."""
    return format_percent(math.expm1(log_ratio))


def format_share(fraction: float) -> str:
    """Return a share of a whole as a percentage, which needs no sign: ``2.8 %``."""
    return format_percent(fraction, signed=False)


def format_latencies(seconds: Sequence[float], *, signed: bool = False) -> tuple[str, ...]:
    """Return times of milliseconds or less in one unit and with as many digits as the largest.

    ``("-5.70 ms", "-6.10 ms")``, ``("41.0 µs", "3.2 µs")``.
    """
    largest = max(map(abs, seconds), default=0.0)
    factor, unit = (MS_PER_S, "ms") if largest >= _LEAST_MS_S else (US_PER_S, "µs")
    size = largest * factor
    digits = 0 if size >= 99.5 else 1 if size >= 9.95 else 2
    sign = "+" if signed else ""
    return tuple(f"{each * factor:{sign},.{digits}f} {unit}" for each in seconds)


def printable(text: str) -> str:
    """Return a text without what would steer a terminal: a record may come from anybody."""
    if text.isprintable():
        return text
    return "".join(
        it if it.isprintable() or it in _KEPT else it.encode("unicode_escape").decode()
        for it in text
    )


_FORMS: Final[dict[type, "TypeAdapter[Any]"]] = {}  # to make one takes milliseconds


def form_of(kind: type[_T]) -> "TypeAdapter[_T]":
    """Return pydantic's form of a class, which reads and writes its fields."""
    from pydantic import TypeAdapter  # noqa: PLC0415 - for records and files only

    if kind not in _FORMS:
        _FORMS[kind] = TypeAdapter(kind)
    return _FORMS[kind]


def printable_json(text: str) -> str:
    """Return JSON that means the same, without what would steer a terminal."""
    return _NOT_ASCII.sub(
        lambda c: c[0] if printable(c[0]) == c[0] else json.dumps(c[0])[1:-1], text
    )


_NOT_ASCII: Final = re.compile(r"[\x7f-\U0010ffff]")  # what is below is escaped in JSON already


# Bounded, so that no text becomes a number of millions of digits.
_FORM: Final = re.compile(
    r"^([+-]?)([0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})"
    r"(?:(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)|[eE]([+-]?[0-9]{1,2}))?$"
)
_FACTORS: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{prefix}i": Fraction(1024**power) for power, prefix in enumerate("KMGTPE", 1)},
}
_PREFIX: Final = "hugepages-"


def parse_quantity(text: str) -> Fraction:
    """Return the exact number that a quantity means: ``500m`` is one half, ``1Ki`` is 1024.

    Raises:
        InputError: The text is no quantity, or a negative one.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None or match[1] == "-":
        raise InputError(
            f"{text!r} is not a quantity of Kubernetes", hint="Write it as 500m, 2, 6500Mi or 8Gi."
        )
    factor = _FACTORS[match[3]] if match[3] else Fraction(10) ** int(match[4] or 0)
    return Fraction(match[2]) * factor


def parse_quantity_bytes(text: str) -> int:
    """Return whole bytes; a fraction of a byte is rounded up, as Kubernetes does.

    Raises:
        InputError: The text is no quantity.
    """
    return math.ceil(parse_quantity(text))


def page_bytes_of(resource: str) -> int | None:
    """Return the page size that a resource such as ``hugepages-2Mi`` names; None for others."""
    if not resource.startswith(_PREFIX):
        return None
    try:
        return parse_quantity_bytes(resource.removeprefix(_PREFIX)) or None
    except InputError:
        return None


_MEMORY_BYTES: Final = {"B": 1, "kB": KIB, "MB": MIB, "GB": GIB, "TB": 1024 * GIB}
_TIME_US: Final = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_WRITTEN_OUT: Final = 1e15  # beyond it nobody counts digits
_OF_SETTING: Final = re.compile(r"^\s*([+-]?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([a-zA-Z]*)\s*$")


def in_unit(text: str, unit: str | None) -> float | None:
    """Return what a PostgreSQL setting's text means in a unit of the server; None: no number.

    Args:
        text: As written in a configuration file: ``2GB``, ``0.5``, ``5min``.
        unit: The server's unit for the setting: ``8kB``, ``kB``, ``ms``; None for plain numbers.
    """
    if re.fullmatch(r"\s*0[xX][0-9a-fA-F]+\s*", text):
        return float(int(text, 16))
    match = _OF_SETTING.match(text)
    if not match:
        return None
    number, suffix = float(match[1]), match[2]
    if not suffix:
        return number
    table, base, _ = _scale(unit)
    return number * table[suffix] / base if suffix in table else None


def _scale(unit: str | None) -> tuple[Mapping[str, int], int, str]:
    """Return the units beside a server's unit, how much of the least it is, and its word.

    No units, 1 and "" where it is no unit of memory or time.
    """
    parts = re.match(r"^([0-9]*)([a-zA-Z]+)$", unit or "")
    for table in (_MEMORY_BYTES, _TIME_US) if parts else ():
        if parts and parts[2] in table:
            return table, int(parts[1] or 1) * table[parts[2]], parts[2]
    return {}, 1, ""


def with_unit(number: float, unit: str | None) -> str:
    """Return a number in a unit of a PostgreSQL server as a configuration file has it."""
    table, base, word = _scale(unit)
    if not table or number <= 0.0:
        whole = abs(number) < _WRITTEN_OUT and number == int(number)
        return f"{number:.0f}" if whole else f"{number:g}"
    amount = number * base
    fitting = [each for each, size in table.items() if abs(amount) >= 0.9995 * size]
    largest = max(fitting, key=lambda each: table[each], default=word)
    return f"{amount / table[largest]:.4g}{largest}"


# A value that is a reference keeps the secret itself elsewhere: in a variable, a file, a program.
_REFERENCE: Final = (
    r"""(?!["']?(?:\$|@|`|\*{3}|<\(|(?:file|env|fd|id)[:=]|(?:\.{0,2}|~)/[\w.-]+/"""
    r"""|(?:yes|no|true|false|none|null|on|off)\b))"""
)
_WORD: Final = _REFERENCE + r"""(?:"[^"\n]+"|'[^'\n]+'|[^\s"']+)"""
_LITERAL: Final = r"(?:E|U&)?(?:'(?:[^']|'')+'|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)"
_NAMED: Final = (
    r"(?:password|passwd|passphrase|secret|token|api[-_]?key"
    r"|(?:access|account|auth|encryption|master|secret|shared|storage)[-_]?key)"
)
_NO_VALUE: Final = r"(?!--?(?:no|ask|prompt|force|require|read|generate)-)"
_HEADER: Final = (
    r"\b(?:(?:proxy-)?authorization|private-token|api-?key"
    r"|x-[\w-]{0,60}?(?:token|key|auth|secret)[\w-]{0,60})"
    r"\s*:\s*(?:(?:bearer|basic|token|digest|apikey)\s+)?+"
)
# Programs, and the flag that a secret follows; curl's, lftp's and smbclient's follows a name.
_FLAGS: Final = (
    (r"(?:redis|valkey|keydb)-(?:cli|benchmark)|memtier_benchmark", r"-a\s*"),
    (r"(?:mysql|mariadb)[\w-]*|7za?", r"-p(?=\S)"),
    (r"ipmi-[a-z]+|ipmipower|ipmiconsole|fence_\w+|racadm|redfishtool|ilorest", r"-p\s*"),
    (r"mongo[a-z]*|cqlsh|(?:docker|podman|buildah|helm)(?:\s+registry)?\s+login", r"-p\s*"),
    (r"ipmitool|sqlcmd|bcp|mosquitto_(?:pub|sub)|(?:un)?zip", r"-P\s*"),
    (r"ldap[a-z]+", r"-w\s*"),
    (r"curl", r"""(?:-[A-Za-z]*[uU]\s*|--(?:proxy-)?user[\s=]+)["']?[^\s:"']+:"""),
    (r"lftp", r"""-u\s*["']?[^\s,"']+,"""),
    (r"smbclient", r"""-U\s*["']?[^\s%"']+%"""),
)
_IN_VALUES: Final = (
    re.compile(rf"(?P<kept>://[^\s/:@]*:){_REFERENCE}[^\s/@]+(?=@)"),
    re.compile(rf"(?P<kept>\b(?:ssl)?password\s*=\s*)(?!&){_WORD}", re.IGNORECASE),
)
_IN_SCRIPTS: Final = tuple(  # they may go over several lines
    re.compile(rf"(?P<kept>{form}){value}", re.IGNORECASE | re.MULTILINE | re.DOTALL)
    for form, value in (
        (r"\b(?:create|alter)\s+(?:role|user|group|server)\b[^;]{0,2000}?\bpassword\s+", _LITERAL),
        (r"\bpgp_sym_\w+\s*\((?:[^()',]|'[^']*'|\((?:[^()]|\([^()]*\))*\))*,\s*", _LITERAL),
        (rf"^\s*\\setenv\s+\w{{0,60}}?(?:{_NAMED}|pwd|_auth|pass)\s+", _WORD),
        (r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----", r"[^*-][^-]+"),
    )
)
_IN_COMMANDS: Final = (
    re.compile(rf"(?P<kept>(?<![\w-])(?:\w{{1,60}}_(?:PASS|AUTH|PWD)|SSHPASS)=){_WORD}"),
    re.compile(rf"(?P<kept>(?<![\w-])pass:){_WORD}"),  # openssl
    *(
        re.compile(
            rf"(?P<kept>(?:^|[\s;|&(\"'`$]|bin/)(?:{program})(?![\w-])"
            rf"(?:[^|;&\n]|&(?!&)){{0,500}}?\s{flag}){_WORD}",
            re.MULTILINE,
        )
        for program, flag in _FLAGS
    ),
    *(
        re.compile(rf"(?P<kept>{form}){_WORD}", re.IGNORECASE)
        for form in (
            rf"(?<![\w-]){_NO_VALUE}(?:[\w.-]{{0,60}}?{_NAMED}|--?pass)=",
            rf"(?<!\S){_NO_VALUE}--?(?:[\w-]{{0,60}}?{_NAMED}|pass)\s+(?!-)",
            r"\bsshpass\s+(?:-[^p\s]\S*\s+)*-p\s*",
            _HEADER,
            rf"""["'][\w-]{{0,60}}?{_NAMED}["']\s*:\s*(?=["'])""",
            r"""\b(?:requirepass|masterauth|tls-(?:client-)?key-file-pass)["']?[\s=]+(?!"")""",
            r"(?:redis|valkey|keydb)-cli\b[^|;\n]{0,500}?\sauth\s+",
        )
    ),
)
# In what programs print a secret may stand in a sentence; it has a digit, unlike the next word.
_IN_SENTENCES: Final = re.compile(
    rf"(?P<kept>\b(?:{_NAMED}|bearer)\s*(?:is|:|=)?\s+['\"]?)(?=\S{{6}})(?=\S*\d){_WORD}",
    re.IGNORECASE,
)
_HINT: Final = re.compile(
    "pass|secret|token|key|auth|bearer|pwd|://|-cli|memtier|mysql|mariadb|7z|ipmi|fence|racadm"
    "|redfish|ilorest|mongo|cqlsh|login|sqlcmd|bcp|mosquitto|zip|ldap|curl|lftp|smbclient",
    re.IGNORECASE,
)
_SHELLS: Final = re.compile(
    r"^\s*\\.*$|`[^`\n]*`|\bPROGRAM\s+" + _LITERAL, re.IGNORECASE | re.MULTILINE | re.DOTALL
)
_SECRET_SETTING: Final = re.compile(
    r"(?:conninfo|passphrase|_command|requirepass|masterauth)$"
    r"|(?:^|[._-])(?:pass|passwd|password|secret|token|salt|credentials?|dsn|key)$",
    re.IGNORECASE,
)


def value_holds_secret(text: str) -> bool:
    """Return whether a URI or the keywords of a connection in a text have a password."""
    return any(form.search(text) for form in _IN_VALUES)


def command_holds_secret(words: str) -> bool:
    """Return whether a command has a secret in one of the known forms; no reference is one."""
    return any(form.search(words) for form in (*_IN_VALUES, *_IN_SCRIPTS, *_IN_COMMANDS))


def script_holds_secret(text: str) -> bool:
    """Return whether a script has one: in its SQL, or in what it gives to a shell.

    A column called ``token`` is none of our business.
    """
    shells = (command_holds_secret(part[0]) for part in _SHELLS.finditer(text))
    return any(form.search(text) for form in (*_IN_VALUES, *_IN_SCRIPTS)) or any(shells)


def is_secret_setting(name: str) -> bool:
    """Return whether a server's setting of this name may hold a secret, whatever its form."""
    return _SECRET_SETTING.search(name) is not None


def redacted(text: str) -> str:
    """Return a text that goes into a record or an error, without secrets in any known form."""
    for form in _IN_SCRIPTS:
        text = form.sub(r"\g<kept>***", text)
    lines = text.split("\n")
    for place, line in enumerate(lines):
        if _HINT.search(line):  # the forms take twenty times as long, and a log has many lines
            for form in (*_IN_VALUES, *_IN_COMMANDS, _IN_SENTENCES):
                lines[place] = form.sub(r"\g<kept>***", lines[place])
    return "\n".join(lines)
