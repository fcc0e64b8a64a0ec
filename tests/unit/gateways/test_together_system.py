"""Real programs that run together: none outlives what ended another."""

import signal
import threading
import time
from pathlib import Path

import pytest

from steelyard.core.outside import Command
from steelyard.core.wording import MeasurementError, TargetError
from steelyard.gateways.process import SystemProcesses, Together
from support.waiting import eventually

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


def test_much_that_is_printed_does_not_block_one_that_is_only_asked_whether_it_runs(
    tmp_path: Path,
) -> None:
    """A pipe holds 64 KiB, and a load of many turns is not waited for until its end."""
    script = "head -c 300000 /dev/zero; touch printed; sleep 0.3; printf end"
    command = Command(argv=("/bin/sh", "-c", script), directory=tmp_path)
    running = SystemProcesses().begin_together([command], timeout_s=60)
    deadline = time.monotonic() + 30
    while not (tmp_path / "printed").exists() and time.monotonic() < deadline:
        assert running.all_run()
        time.sleep(0.01)
    assert (tmp_path / "printed").exists()
    while running.all_run():
        time.sleep(0.01)
    (done,) = running.completed()
    running.close()
    assert done.stdout == "\0" * 300000 + "end"


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


def test_the_id_of_one_that_has_ended_is_not_told(tmp_path: Path) -> None:
    """It may be somebody else's by now, and whoever asks wants to send it signals."""
    scripts = ("exec sleep 60", "read -r line; exit")  # its input ends at once
    commands = [Command(argv=("/bin/sh", "-c", each), directory=tmp_path) for each in scripts]
    running = SystemProcesses().begin_together(commands, timeout_s=60)
    try:
        first = SystemProcesses().within(tmp_path)[0]
        deadline = time.monotonic() + 20
        while len(running.pids) > 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert running.pids == (first,)
        assert not running.all_run()
    finally:
        running.close()
    assert _left(tmp_path) == ()


_GOES_ON = "n=0; while :; do n=$((n + 1)); sleep 0.01; done"
_COUNTS = f"trap 'echo $n; exit 0' ALRM; {_GOES_ON}"


def _begun(directory: Path, *scripts: str) -> Together:
    commands = [Command(argv=("/bin/sh", "-c", each), directory=directory) for each in scripts]
    return SystemProcesses().begin_together(commands, timeout_s=60)


def test_begun_programs_run_until_they_are_told_to_end(tmp_path: Path) -> None:
    """The caller goes on at once; at a signal each tells its sums and ends well."""
    running = _begun(tmp_path, _COUNTS, _COUNTS)
    assert eventually(lambda: set(running.pids) <= set(SystemProcesses().within(tmp_path)))
    assert running.all_run()
    time.sleep(0.1)
    running.signal(signal.SIGALRM)
    done = running.completed()
    assert [each.exit_status for each in done] == [0, 0]
    assert all(int(each.stdout) > 0 for each in done)
    assert not running.all_run()
    running.close()
    assert _left(tmp_path) == ()


def test_closing_ends_what_runs_whatever_it_would_have_said(tmp_path: Path) -> None:
    """Children of children too; a second time changes nothing."""
    running = _begun(tmp_path, _LONG[-1], f"trap '' TERM; {_COUNTS}")
    assert eventually(lambda: len(SystemProcesses().within(tmp_path)) >= 3)
    running.close()
    assert _left(tmp_path) == ()
    running.close()
    running.signal(signal.SIGALRM)
    assert not running.all_run()


def test_one_that_ended_by_itself_is_seen(tmp_path: Path) -> None:
    """Nobody waits for the others; asking for what they printed ends them."""
    running = _begun(tmp_path, _LONG[-1], "echo no >&2; exit 3")
    assert eventually(lambda: not running.all_run())
    long, failed = running.completed()
    assert (failed.exit_status, failed.stderr) == (3, "no\n")
    assert long.exit_status == -signal.SIGKILL
    running.close()
    assert _left(tmp_path) == ()


def test_one_that_cannot_be_begun_leaves_none(tmp_path: Path) -> None:
    """The first does not go on alone."""
    commands = [Command(argv=_LONG, directory=tmp_path), Command(argv=("/nonexistent",))]
    with pytest.raises(TargetError):
        SystemProcesses().begin_together(commands, timeout_s=10)
    assert _left(tmp_path) == ()


def test_one_that_does_not_end_when_it_is_told_to_is_not_waited_for(tmp_path: Path) -> None:
    """The time that it has to end is counted from then on, not from its beginning."""
    running = _begun(tmp_path, f"trap '' ALRM; {_GOES_ON}")
    time.sleep(0.3)
    running.signal(signal.SIGALRM)
    with pytest.raises(MeasurementError, match="did not end within 1 s"):
        running.completed(within_s=1.0)
    running.close()
    assert _left(tmp_path) == ()
