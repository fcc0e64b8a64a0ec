"""The operator at a terminal: asked in words, heard within the time."""

import os
import pty
import threading

import pytest

from steelyard.cli import progress as operator
from steelyard.cli.progress import TerminalOperator


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
