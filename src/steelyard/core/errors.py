"""Every expected failure: a sentence of fact, the way out, and an exit code.

Foreign errors are translated at the gateways; ``cli`` catches ``SteelyardError`` and
``Interrupted`` once. How words stand in such sentences is here, too: commands to paste, lists, and
the known word that a misspelled one means.
"""

import difflib
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final


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
        line: 1-based line, or None where the value does not come from the file (``--set``).
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


def raise_together(wrong: Sequence[InputError]) -> None:
    """Raise all that is wrong in several inputs as one error; nothing happens where nothing is.

    Raises:
        InputError: A line each, with the first one's way out.
    """
    if wrong:
        raise InputError("\n".join(error.message for error in wrong), hint=wrong[0].hint)


def quoted(word: object) -> str:
    """Return a path or a name as it stands in a command that a reader pastes into a shell."""
    return shlex.quote(str(word))


_LETTERS_PER_SLIP: Final = 3  # a guess: a third of a word may be wrong
_LEAST_BEGINNING: Final = 3  # letters that stand for the one word that begins with them


def closest(word: str, known: Iterable[str]) -> str:
    """Return the known word that a misspelled one most likely means, or "" when none is close."""
    by_folded = {name.casefold(): name for name in known}
    folded = word.casefold()
    begun = [name for name in by_folded if name.startswith(folded)]
    if folded not in by_folded and len(folded) >= _LEAST_BEGINNING and len(begun) == 1:
        return by_folded[begun[0]]
    alike = difflib.get_close_matches(folded, by_folded, n=len(by_folded) or 1, cutoff=0.6)
    close = [name for name in alike if slips(folded, name) <= _most_slips(folded, name)]
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


def _most_slips(word: str, other: str) -> int:
    return max(len(word), len(other)) // _LETTERS_PER_SLIP


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
        setting: Name of the setting it is about, or None when it is about the load.
    """

    setting: str | None
    message: str
    hint: str
