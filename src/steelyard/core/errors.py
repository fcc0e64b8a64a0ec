"""Every expected failure: a sentence of fact, the way out, and an exit code.

Foreign errors are translated at the gateways; ``cli`` catches ``SteelyardError`` and
``Interrupted`` once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum


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
    """The server answered, with an error in words of its own."""


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
