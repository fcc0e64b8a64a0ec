"""The operator at a terminal: asked in words, heard within the time."""

import os
import pty
import sys
import threading
from types import SimpleNamespace

import pytest

from steelyard.cli import progress as operator
from steelyard.cli import questions
from steelyard.cli.options import at_terminal
from steelyard.cli.progress import TerminalOperator
from steelyard.gateways.doors import Doors


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the other side of a terminal that the operator sits at."""
    ours, theirs = pty.openpty()
    monkeypatch.setattr(operator, "_TERMINAL", os.ttyname(theirs))
    return ours


def test_enter_confirms(terminal: int) -> None:
    """The request is shown with its time; Enter ends the waiting."""
    answers = threading.Timer(0.2, lambda: os.write(terminal, b"\n"))
    answers.start()
    assert TerminalOperator().is_there
    assert TerminalOperator().confirms("Switch SMT off.", timeout_s=60.0)
    answers.join()
    shown = os.read(terminal, 4096).decode()
    assert "Switch SMT off." in shown
    assert "within 60 s" in shown


def test_what_was_typed_before_the_question_is_no_answer(terminal: int) -> None:
    """An Enter that ended an earlier line does not say that the machine was power-cycled."""
    os.write(terminal, b"\n\n")
    assert not TerminalOperator().confirms("Power-cycle the VM.", timeout_s=0.3)


def test_silence_is_no_confirmation(terminal: int) -> None:
    """After the time the step counts as not done."""
    assert not TerminalOperator().confirms("Anybody?", timeout_s=0.05)
    assert b"Anybody?" in os.read(terminal, 4096)


def test_without_a_terminal_nobody_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job of a scheduler has none; it is told before anything starts."""
    monkeypatch.setattr(operator, "_TERMINAL", "/nonexistent/tty")
    assert not TerminalOperator().is_there
    assert not TerminalOperator().confirms("Anybody?", timeout_s=60.0)


@pytest.mark.parametrize("verb", ["measure_noise", "measure_capacity"])
def test_every_verb_that_measures_can_ask(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step by hand is asked for as under `run`, not refused for want of a terminal."""

    class _SeenError(Exception):
        pass

    def seen(*given: object) -> None:
        (doors,) = (each for each in given if isinstance(each, Doors))
        assert isinstance(doors.operator, TerminalOperator)
        raise _SeenError

    monkeypatch.setattr(questions, "load", seen)
    monkeypatch.setattr(questions, "_of_server", seen)
    monkeypatch.setattr(questions, "_is_file", lambda _: False)
    options = SimpleNamespace(budget=None)
    monkeypatch.setattr(questions, "replace", lambda given, **_: given)
    with pytest.raises(_SeenError):
        getattr(questions, verb)(options, *((None,) if verb == "measure_noise" else ()))


def test_a_closed_standard_input_is_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """`<&-` leaves none at all: nobody can be asked."""
    monkeypatch.setattr(sys, "stdin", None)
    assert not at_terminal()
