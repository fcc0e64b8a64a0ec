"""The operator at a terminal: asked in words, told of progress, and heard at any moment."""

import errno
import io
import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent
from types import SimpleNamespace

import pytest
from command_line import a_campaign
from rich.console import Console

from fakes.campaigns import Stage, an_experiment
from fakes.servers import generator_fails
from steelyard.answers.campaign import analyse
from steelyard.campaign.run.runner import Progress
from steelyard.cli import progress as operator
from steelyard.cli import questions
from steelyard.cli.options import at_terminal
from steelyard.cli.progress import (
    LiveProgress,
    PlainProgress,
    TerminalOperator,
    progress_for,
    standing,
)
from steelyard.core.campaign import BlockOutcome
from steelyard.gateways.doors import Doors
from steelyard.record.directory import read_campaign


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
    options = SimpleNamespace(budget=None, place="17")
    monkeypatch.setattr(questions, "replace", lambda given, **_: given)
    with pytest.raises(_SeenError):
        getattr(questions, verb)(options, *((None,) if verb == "measure_noise" else ()))


def test_a_closed_standard_input_is_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """`<&-` leaves none at all: nobody can be asked."""
    monkeypatch.setattr(sys, "stdin", None)
    assert not at_terminal()


_SCRIPT = dedent(
    """
    import os, signal, subprocess, time
    from steelyard.cli.main import _stop_in_order
    from steelyard.core.wording import Interrupted

    signal.signal(signal.SIGINT, signal.default_int_handler)
    _stop_in_order()
    {before}
    try:
        subprocess.run(["true"], preexec_fn=lambda: None)
        print("the child was started", flush=True)
        {after}
        time.sleep(60)
    except Interrupted:
        print("stopped in order", flush=True)
    """
)


def _stopped(before: str, after: str) -> str:
    script = _SCRIPT.format(before=before, after=after)
    completed = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=50, check=False
    )
    assert "Exception ignored" not in completed.stderr
    return completed.stdout


def test_a_signal_between_programs_stops_at_once() -> None:
    """The ordinary case: the signal raises where it falls."""
    said = _stopped("pass", "signal.raise_signal(signal.SIGINT)")

    assert said.splitlines() == ["the child was started", "stopped in order"]


def test_a_signal_in_a_callback_around_fork_comes_again() -> None:
    """Python swallows what such a callback raises, so the stop must be raised after it."""
    said = _stopped(
        "os.register_at_fork(after_in_parent=lambda: signal.raise_signal(signal.SIGINT))", "pass"
    )

    assert said.splitlines() == ["the child was started", "stopped in order"]


def test_a_signal_in_a_finaliser_comes_again() -> None:
    """A connection that is collected makes a call just then; the campaign must not go on, deaf."""
    dying = "lambda _: signal.raise_signal(signal.SIGINT)"
    said = _stopped(f"Connection = type('Connection', (), {{'__del__': {dying}}})", "Connection()")

    assert said.splitlines() == ["the child was started", "stopped in order"]


def _watched(path: Path, progress: Progress) -> None:
    """Run a campaign with a block that is redone, told to a listener."""
    stage = Stage.new(an_experiment(loads=2), path)
    stage.world.faults = {1: generator_fails}
    campaign = stage.campaign()
    campaign.progress = progress
    campaign.run()
    stage.directory.close()


def test_plain_progress_is_lines_on_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every step, a line per block with the time and all results, and why a block is redone."""
    with PlainProgress() as progress:
        _watched(tmp_path / "one", progress)
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert any("starting every configuration once ..." in line for line in lines)
    assert "warm-up" not in err
    assert any("block 1 is redone: the generator exited with 2" in line for line in lines)
    looks = [line for line in lines if " of up to " in line]
    assert re.fullmatch(r"  block 1 of up to \d+ · \d+:\d\d · reads fast \S+ % so far", looks[0])
    assert looks[-1].endswith("so far, interim: faster")
    assert "\x1b" not in err


def test_how_blocks_are_made_is_shown_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``--verbose`` adds the warm-up and its origin to the line before the first block."""
    with PlainProgress(verbose=True) as progress:
        _watched(tmp_path / "one", progress)
    assert "warm-up 2.0 s (declared)" in capsys.readouterr().err


@pytest.mark.parametrize(("width", "between"), [(100, " · "), (70, r"\n")])
def test_live_progress_draws_and_leaves_what_was_redone(width: int, between: str) -> None:
    """A line is drawn anew, two where one is too narrow; what is redone leaves its own."""
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=width)
    with TemporaryDirectory() as folder, LiveProgress(console) as progress:
        _watched(Path(folder, "one"), progress)
    drawn = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    assert "block 1 is redone" in drawn
    told = rf"block 2 of up to \d+ · \d+:\d\d · reads fast \S+ % so far{between}reads, "
    assert re.search(told, drawn)
    assert max(map(len, re.split(r"[\r\n]", drawn))) <= width


def test_words_of_a_generator_are_shown_as_they_are() -> None:
    """Brackets in them are no markup: not swallowed, and nothing that ends a campaign."""
    stream = io.StringIO()
    said = "the generator exited with 1: [local] no such file [/tmp/x]"
    with LiveProgress(Console(file=stream, force_terminal=True, width=100)) as progress:
        progress.block_ended(BlockOutcome(index=0, attempt=0, complete=False, reason=said))
    assert said in stream.getvalue()


def test_a_terminal_that_is_gone_ends_no_campaign(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a line that is left above nor the end of the drawn one."""
    stream = io.StringIO()

    def gone(_: str) -> int:
        raise OSError(errno.EIO, "Input/output error")

    with LiveProgress(Console(file=stream, force_terminal=True, width=100)) as progress:
        monkeypatch.setattr(stream, "write", gone)
        progress.stage("starting every configuration once")
        progress.block_ended(BlockOutcome(index=0, attempt=0, complete=False, reason="void"))


def test_a_pipe_gets_lines_and_a_terminal_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream decides."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert type(progress_for(io.StringIO())) is PlainProgress
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(progress_for(io.StringIO()), LiveProgress)
    monkeypatch.setenv("TERM", "dumb")
    assert type(progress_for(io.StringIO())) is PlainProgress


def test_silence_says_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--quiet`` is quiet."""
    with Progress() as progress:
        _watched(tmp_path / "one", progress)
    assert capsys.readouterr() == ("", "")


def test_a_standing_is_one_phrase(tmp_path: Path) -> None:
    """Workload, configuration, effect and verdict."""
    analysis = analyse(read_campaign(a_campaign(tmp_path / "one")))
    (result,) = analysis.results
    assert re.fullmatch(r"reads fast \+\S+ % so far, interim: faster", standing(result))
