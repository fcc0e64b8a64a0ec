"""A signal that stops Steelyard is heard wherever it falls."""

import subprocess
import sys
from textwrap import dedent

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
