"""Errors: a sentence, the way out, and an exit code that is a public interface."""

from contextlib import suppress

import pytest

from steelyard.core import errors
from steelyard.core.errors import ExitCode, ExperimentFileError, Problem, SteelyardError


def test_exit_codes_are_those_of_the_manual() -> None:
    """Scripts rely on the numbers: they never change."""
    assert {code.name: int(code) for code in ExitCode} == {
        "DONE": 0,
        "BAD_INPUT": 2,
        "REFUSED": 3,
        "TARGET": 4,
        "MEASUREMENT": 5,
        "RECORD": 6,
        "LEFT_BEHIND": 7,
        "PRIVILEGE": 8,
        "GATE": 10,
        "INTERRUPTED": 130,
    }


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.InputError, 2),
        (errors.PreflightError, 3),
        (errors.TargetError, 4),
        (errors.MeasurementError, 5),
        (errors.RecordError, 6),
        (errors.LeftBehindError, 7),
        (errors.PrivilegeError, 8),
    ],
)
def test_every_kind_has_its_code_message_and_hint(kind: type[SteelyardError], code: int) -> None:
    """One base for all, caught once."""
    error = kind("it is so", hint="do this")
    assert isinstance(error, SteelyardError)
    assert (int(error.exit_code), error.message, error.hint) == (code, "it is so", "do this")
    assert str(error) == "it is so"


def test_an_interruption_is_no_failure_that_anybody_expects() -> None:
    """It has words and a code, and neither our retries nor those of libraries swallow it."""
    stop = errors.Interrupted("stopped", hint="go on")
    assert (int(stop.exit_code), stop.message, stop.hint) == (130, "stopped", "go on")
    with pytest.raises(errors.Interrupted), suppress(Exception):
        raise stop


def test_a_problem_is_a_line_that_editors_can_jump_to() -> None:
    """File, line and column, the path in words, the fact and the way out."""
    problem = Problem(message="unknown", hint="did you mean `b`?", path="a.c", line=3, column=7)
    assert problem.located("x.yaml") == "x.yaml:3:7: a.c: unknown (did you mean `b`?)"


def test_a_problem_from_the_command_line_has_no_line() -> None:
    """What --set brought in is located by its path alone."""
    assert Problem(message="too small", path="stop.budget").located("--set") == (
        "--set: stop.budget: too small"
    )


def test_all_problems_of_a_file_come_at_once() -> None:
    """The message counts them and lists each on its line."""
    problems = [Problem(message=f"wrong {n}", line=n, column=1) for n in (1, 2)]
    error = ExperimentFileError("x.yaml", problems)
    assert error.message == ("x.yaml has 2 problems:\n  x.yaml:1:1: wrong 1\n  x.yaml:2:1: wrong 2")
    assert error.exit_code is ExitCode.BAD_INPUT
    assert "steelyard schema" in error.hint
    assert ExperimentFileError("x", problems[:1]).message.startswith("x has 1 problem:")
