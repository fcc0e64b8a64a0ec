"""Running programs: the same promises from the real gateway and the fake."""

import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fakes.processes import Answer, FakeProcesses
from steelyard.core.outside import Command, Completed
from steelyard.core.wording import ExitCode, MeasurementError, TargetError
from steelyard.gateways.process import Processes

_TALK = ("/bin/sh", "-c", "echo out; echo err >&2; exit 3")
_SLEEP = ("/bin/sleep", "30")
_TRUE = ("/bin/true",)


def _fake() -> FakeProcesses:
    processes = FakeProcesses()
    processes.on("sh", answer=Answer(stdout="out\n", stderr="err\n", exit_status=3))
    processes.on("sleep", answer=Answer(takes_s=30.0))
    processes.on("true")
    processes.on_start("sleep")
    return processes


@pytest.fixture(params=[Processes, _fake], ids=["real", "fake"])
def processes(request: pytest.FixtureRequest) -> Processes:
    """Return each implementation in turn."""
    make: Callable[[], Processes] = request.param
    return make()


def test_output_and_status_come_back(processes: Processes) -> None:
    """What a program prints on both streams and how it ends is returned, with its argv."""
    completed = processes.run(Command(argv=_TALK), timeout_s=10)
    assert (completed.stdout, completed.stderr, completed.exit_status) == ("out\n", "err\n", 3)
    assert completed.argv == _TALK
    assert not completed.succeeded


def test_a_secret_word_is_not_in_what_is_told(processes: Processes) -> None:
    """Neither of a program that ran nor of one that is not there."""
    script = '[ "$0" = hunter2 ] && [ "$1" = me:hunter2 ] && echo out; echo err >&2; exit 3'
    argv = ("/bin/sh", "-c", script.replace("hunter2", "hun''ter2"), "{word}", "me:{word}")
    command = Command(argv=argv, secrets={"{word}": "hunter2"})
    completed = processes.run(command, timeout_s=10)
    assert (completed.stdout, completed.argv) == ("out\n", argv)
    assert "hunter2" not in repr(command) + repr(completed)


@pytest.mark.parametrize("verb", ["run", "start"])
def test_a_missing_program_is_a_target_error_with_a_way_out(
    processes: Processes, verb: str, tmp_path: Path
) -> None:
    """Absence is a sentence that names the program, with exit code 4 and a hint."""
    command = Command(argv=("/nonexistent/postgres", "--version"))
    calls = {
        "run": lambda: processes.run(command, timeout_s=10),
        "start": lambda: processes.start(command, output=tmp_path / "log"),
    }
    with pytest.raises(TargetError, match="/nonexistent/postgres") as caught:
        calls[verb]()
    assert caught.value.hint
    assert caught.value.exit_code is ExitCode.TARGET


def test_a_program_that_does_not_end_is_a_measurement_error(processes: Processes) -> None:
    """A timeout names the program and the seconds."""
    with pytest.raises(MeasurementError, match=r"/bin/sleep did not end within 0 s"):
        processes.run(Command(argv=_SLEEP), timeout_s=0.05)


def test_a_started_process_runs_until_a_signal_ends_it(
    processes: Processes, tmp_path: Path
) -> None:
    """It has an id, no status while it runs, and a negative one after a signal."""
    running = processes.start(Command(argv=_SLEEP), output=tmp_path / "log")
    try:
        assert running.pid > 0
        assert running.exit_status() is None
        assert not running.wait(0.01)
    finally:
        running.signal(signal.SIGKILL)
    assert running.wait(10)
    assert running.exit_status() == -signal.SIGKILL


def test_signals_to_the_dead_do_nothing(processes: Processes, tmp_path: Path) -> None:
    """A process that is gone takes signals without an error, by handle and by id."""
    running = processes.start(Command(argv=_SLEEP), output=tmp_path / "log")
    running.signal(signal.SIGTERM)
    assert running.wait(10)
    running.signal(signal.SIGTERM)
    processes.signal(running.pid, signal.SIGTERM)
    assert running.exit_status() == -signal.SIGTERM


def test_processes_are_found_by_their_directory(processes: Processes, tmp_path: Path) -> None:
    """Leftovers are recognised by where they work, below it too, and only while they live."""
    inside, other = tmp_path / "live" / "state", tmp_path / "live-2"
    inside.mkdir(parents=True)
    other.mkdir()
    running = processes.start(Command(argv=_SLEEP, directory=inside), output=tmp_path / "log")
    try:
        assert processes.within(tmp_path / "live") == (running.pid,)
        assert processes.within(inside) == (running.pid,)
        assert processes.within(other) == ()
    finally:
        processes.signal(running.pid, signal.SIGKILL)
    assert running.wait(10)
    assert processes.within(tmp_path / "live") == ()


def _together(
    processes: Processes, commands: Sequence[Command], *, timeout_s: float
) -> tuple[Completed, ...]:
    """Run commands at the same time and return what came of each."""
    with processes.begin_together(commands, timeout_s=timeout_s) as running:
        return running.completed()


def test_what_runs_together_comes_back_in_order(processes: Processes) -> None:
    """Each has its own output and end, in the order they were asked for."""
    commands = [Command(argv=_TRUE), Command(argv=_TRUE)]
    assert all(each.succeeded for each in _together(processes, commands, timeout_s=10))
    (only,) = _together(processes, [Command(argv=_TALK)], timeout_s=10)
    assert (only.stdout, only.stderr, only.exit_status) == ("out\n", "err\n", 3)
    assert only.argv == _TALK


def test_what_runs_together_ends_in_time_or_fails_together(processes: Processes) -> None:
    """One that hangs is the error of all; one that does not exist, too."""
    hanging = [Command(argv=_TRUE), Command(argv=_SLEEP)]
    with pytest.raises(MeasurementError, match="sleep did not end within"):
        _together(processes, hanging, timeout_s=0.3)
    with pytest.raises(TargetError, match="does not exist"):
        _together(processes, [Command(argv=("/nonexistent/pgbench",))], timeout_s=1)
