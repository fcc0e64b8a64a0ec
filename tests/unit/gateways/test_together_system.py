"""Real programs that run together: none outlives what ended another."""

import signal
import threading
import time
from pathlib import Path

import pytest

from steelyard.gateways.process import SystemProcesses
from steelyard.model.command import Command
from steelyard.model.errors import MeasurementError, TargetError

_LONG = ("/bin/sh", "-c", "echo begun; sleep 60 & sleep 60")


def _left(directory: Path) -> tuple[int, ...]:
    """Return what still works in a directory, once what was killed had the time to go."""
    processes = SystemProcesses()
    deadline = time.monotonic() + 20
    while processes.within(directory) and time.monotonic() < deadline:
        time.sleep(0.02)
    return processes.within(directory)


def test_they_run_at_the_same_time(tmp_path: Path) -> None:
    """Each waits for a file that the other makes: one after the other they would never end."""
    script = "touch {mine}; while ! [ -e {other} ]; do sleep 0.01; done; echo {mine}"
    names = [("a", "b"), ("b", "a")]
    commands = [
        Command(argv=("/bin/sh", "-c", script.format(mine=mine, other=other)), directory=tmp_path)
        for mine, other in names
    ]
    done = SystemProcesses().run_together(commands, timeout_s=60)
    assert [each.stdout for each in done] == ["a\n", "b\n"]


def test_the_failure_of_one_ends_the_others_with_what_they_printed(tmp_path: Path) -> None:
    """Two generators are one load: half of it is no measurement, and is not waited for."""
    fails = Command(argv=("/bin/sh", "-c", "sleep 0.3; echo no >&2; exit 2"), directory=tmp_path)
    begun = time.monotonic()
    long, failed = SystemProcesses().run_together(
        [Command(argv=_LONG, directory=tmp_path), fails], timeout_s=60
    )
    assert time.monotonic() - begun < 50
    assert (failed.exit_status, failed.stderr) == (2, "no\n")
    assert (long.exit_status, long.stdout) == (-signal.SIGKILL, "begun\n")
    assert _left(tmp_path) == ()


def test_one_that_hangs_ends_all(tmp_path: Path) -> None:
    """After the time limit nothing is left, children of children included."""
    command = Command(argv=_LONG, directory=tmp_path)
    with pytest.raises(MeasurementError, match="did not end within"):
        SystemProcesses().run_together([command, command], timeout_s=0.3)
    assert _left(tmp_path) == ()


def test_one_that_cannot_be_started_ends_those_before(tmp_path: Path) -> None:
    """The first does not go on alone."""
    commands = [Command(argv=_LONG, directory=tmp_path), Command(argv=("/nonexistent",))]
    with pytest.raises(TargetError):
        SystemProcesses().run_together(commands, timeout_s=10)
    assert _left(tmp_path) == ()


def test_an_interruption_ends_all(tmp_path: Path) -> None:
    """Ctrl-C in the middle of a run leaves no generator behind."""
    command = Command(argv=_LONG, directory=tmp_path)
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.4, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        SystemProcesses().run_together([command, command], timeout_s=60)
    timer.join()
    assert _left(tmp_path) == ()


def test_much_output_of_several_does_not_block_them() -> None:
    """Pipes hold 64 KiB; both streams of all are read all the time."""
    line = "head -c 300000 /dev/zero | tr '\\0' x"
    command = Command(argv=("/bin/sh", "-c", f"{line}; {line} >&2"))
    done = SystemProcesses().run_together([command, command, command], timeout_s=60)
    assert [(len(each.stdout), len(each.stderr)) for each in done] == [(300_000, 300_000)] * 3
