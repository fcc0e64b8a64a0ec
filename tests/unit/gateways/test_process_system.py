"""Real programs: secrets, groups, accounts, the death of the parent, and several together."""

import colorsys
import ctypes
import gc
import importlib
import logging
import os
import pwd
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import pytest

from steelyard.core.outside import Command, Completed
from steelyard.core.wording import MeasurementError, PrivilegeError, TargetError
from steelyard.gateways import process
from steelyard.gateways.process import Processes, Together, account_entry
from support.waiting import eventually

_SECRET = "planted-secret-5d41"


def _is_waiting(frame: FrameType | None) -> bool:
    """Return whether a frame lies below one that waits for a child."""
    while frame is not None and frame.f_code.co_name != "communicate":
        frame = frame.f_back
    return frame is not None


def _lives(pid: int) -> bool:
    """Return whether a process exists and is no zombie."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rsplit(")", 1)[1].split()[0] != "Z"


def test_children_do_not_inherit_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passwords in our own environment stay there; the path to programs is passed on."""
    for name in ("PGPASSWORD", "AWS_SECRET_ACCESS_KEY", "REDISCLI_AUTH"):
        monkeypatch.setenv(name, _SECRET)
    completed = Processes().run(Command(argv=("/usr/bin/env",)), timeout_s=10)
    assert _SECRET not in completed.stdout
    assert f"PATH={os.environ['PATH']}" in completed.stdout.splitlines()


def test_a_password_travels_in_the_environment_alone() -> None:
    """The child can read it; argv, the command's text and the result do not hold it."""
    script = 'test -n "$PGPASSWORD" && tr "\\0" " " </proc/self/cmdline'
    command = Command(argv=("/bin/sh", "-c", script), environment={"PGPASSWORD": _SECRET})
    completed = Processes().run(command, timeout_s=10)
    assert completed.succeeded
    assert _SECRET not in completed.stdout
    assert _SECRET not in repr(command)
    assert _SECRET not in repr(completed)


def test_standard_input_reaches_the_program() -> None:
    """Scripts are fed to psql this way; a program that does not read is no error."""
    processes = Processes()
    assert processes.run(Command(argv=("/bin/cat",)), timeout_s=10, stdin="für").stdout == "für"
    assert processes.run(Command(argv=("/bin/true",)), timeout_s=10, stdin="x" * 10**6).succeeded


def test_undecodable_output_is_replaced() -> None:
    """Bytes that are no UTF-8 do not end in a traceback."""
    command = Command(argv=("/bin/sh", "-c", r"printf 'a\377b'"))
    assert Processes().run(command, timeout_s=10).stdout == "a\N{REPLACEMENT CHARACTER}b"


def test_a_file_that_is_no_program_is_a_sentence(tmp_path: Path) -> None:
    """A binary of another machine says so instead of a traceback."""
    program = tmp_path / "postgres"
    program.write_bytes(b"\x7fELF, but for another world")
    program.chmod(0o755)
    with pytest.raises(TargetError, match="cannot be run: Exec format error") as caught:
        Processes().run(Command(argv=(str(program),)), timeout_s=10)
    assert caught.value.hint


def test_a_file_that_may_not_be_run_is_a_sentence(tmp_path: Path) -> None:
    """Permission is told apart from absence."""
    program = tmp_path / "postgres"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o644)
    with pytest.raises(TargetError, match="may not be run by this account"):
        Processes().run(Command(argv=(str(program),)), timeout_s=10)


def test_a_missing_working_directory_is_named(tmp_path: Path) -> None:
    """It is the directory that does not exist, not the program."""
    command = Command(argv=("/bin/true",), directory=tmp_path / "gone")
    with pytest.raises(TargetError, match="gone does not exist"):
        Processes().run(command, timeout_s=10)


def test_a_timeout_ends_the_whole_group(tmp_path: Path) -> None:
    """A grandchild that ignores SIGTERM and closed its output does not survive a timeout."""
    pid_file = tmp_path / "pid"
    stubborn = f"trap '' TERM; echo $$ >{pid_file}; while :; do sleep 0.05; done"
    script = f'sh -c "$0" >/dev/null 2>&1 & while [ ! -s {pid_file} ]; do sleep 0.01; done; sleep 9'
    with pytest.raises(MeasurementError):
        Processes().run(Command(argv=("/bin/sh", "-c", script, stubborn)), timeout_s=2.0)
    pid = int(pid_file.read_text())
    assert eventually(lambda: not _lives(pid))


def test_an_interruption_ends_the_whole_group(tmp_path: Path) -> None:
    """Ctrl-C while a program runs ends it before the exception goes on."""
    pid_file = tmp_path / "pid"
    script = f"echo $$ >{pid_file}; exec sleep 30"

    def interrupt_once_it_runs(_number: int, frame: FrameType | None) -> None:
        # Not while the parent is still in the fork: Python swallows what its hooks raise.
        if _is_waiting(frame) and pid_file.exists() and pid_file.read_text().endswith("\n"):
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt_once_it_runs)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        with pytest.raises(KeyboardInterrupt):
            Processes().run(Command(argv=("/bin/sh", "-c", script)), timeout_s=20)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not _lives(int(pid_file.read_text()))


def test_children_are_out_of_reach_of_the_terminal() -> None:
    """A program leads a session of its own, so Ctrl-C reaches Steelyard alone."""
    script = "import os; print(os.getsid(0) == os.getpid())"
    completed = Processes().run(Command(argv=(sys.executable, "-c", script)), timeout_s=20)
    assert completed.stdout == "True\n"


def test_output_of_a_started_program_is_appended(tmp_path: Path) -> None:
    """Both streams go to the log, after what stands there already."""
    log = tmp_path / "log"
    log.write_text("before\n")
    command = Command(argv=("/bin/sh", "-c", "echo out; echo err >&2"))
    assert Processes().start(command, output=log).wait(10)
    assert log.read_text() == "before\nout\nerr\n"


_PARENT = """
import sys, time
from pathlib import Path
from steelyard.gateways.process import Processes
from steelyard.core.outside import Command, Completed
command = Command(argv=("/bin/sleep", "60"), parent_death_signal=int(sys.argv[2]))
running = Processes().start(command, output=Path("/dev/null"))
Path(sys.argv[1]).write_text(f"{running.pid}\\n")
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGQUIT, signal.SIGKILL])
def test_kill_9_of_the_parent_ends_the_child(tmp_path: Path, number: signal.Signals) -> None:
    """The kernel itself sends the death signal: nothing is left when Steelyard cannot act."""
    pid_file = tmp_path / "pid"
    with subprocess.Popen([sys.executable, "-c", _PARENT, str(pid_file), str(number)]) as parent:
        try:
            assert eventually(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"))
            child = int(pid_file.read_text())
            assert _lives(child)
        finally:
            parent.kill()
    assert eventually(lambda: not _lives(child))


def test_an_unknown_account_is_a_privilege_error() -> None:
    """The sentence names the account and the key that sets it."""
    with pytest.raises(PrivilegeError, match="no account 'nobody-of-that-name'") as caught:
        account_entry("nobody-of-that-name")
    assert "run_as" in caught.value.hint


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the account of a child")
def test_root_runs_a_program_as_another_account() -> None:
    """User, group and home are the account's; no group of root's stays."""
    command = Command(argv=("/bin/sh", "-c", "id -u; id -G; echo $HOME $USER"), account="nobody")
    lines = Processes().run(command, timeout_s=10).stdout.splitlines()
    entry = account_entry("nobody")
    assert lines == [str(entry.pw_uid), str(entry.pw_gid), f"{entry.pw_dir} nobody"]
    assert entry.pw_gid != pwd.getpwnam("nobody").pw_gid  # which others have, too
    assert account_entry("daemon") == pwd.getpwnam("daemon")


@pytest.mark.skipif(os.geteuid() == 0, reason="root can change the account of a child")
def test_an_ordinary_user_keeps_its_account() -> None:
    """An account asked for changes nothing where it cannot be changed."""
    command = Command(argv=("/bin/sh", "-c", "id -u"), account="nobody")
    assert Processes().run(command, timeout_s=10).stdout == f"{os.getuid()}\n"


def test_a_child_heeds_what_its_parent_ignores() -> None:
    """A background job ignores Ctrl-C; its servers must not, or they cannot be stopped."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        command = Command(argv=("/bin/sh", "-c", "kill -INT $$; echo survived"))
        completed = Processes().run(command, timeout_s=20)
    finally:
        signal.signal(signal.SIGINT, before)
    assert completed.exit_status == -signal.SIGINT
    assert "survived" not in completed.stdout


def test_a_program_joins_its_groups_before_it_runs(tmp_path: Path) -> None:
    """It writes the kernel's word for itself into each group's file; both are plain files here."""
    groups = (tmp_path / "one", tmp_path / "other")
    for group in groups:
        group.mkdir()
        (group / "cgroup.procs").touch()
    argv = ("cat", *(str(group / "cgroup.procs") for group in groups))
    done = Processes().run(Command(argv=argv, groups=groups), timeout_s=10)
    assert done.stdout == "00"


def test_a_group_that_is_gone_is_told(tmp_path: Path) -> None:
    """The program is not started at all."""
    group = tmp_path / "gone"
    with pytest.raises(TargetError, match="gone cannot be joined: No such file"):
        Processes().run(Command(argv=("true",), groups=(group,)), timeout_s=10)


def test_a_group_that_refuses_is_told(tmp_path: Path) -> None:
    """A write that fails between fork and exec keeps the program from running."""
    group = tmp_path / "full"
    group.mkdir()
    (group / "cgroup.procs").symlink_to("/dev/full")
    with pytest.raises(TargetError, match=r"true could not join .*full"):
        Processes().run(Command(argv=("true",), groups=(group,)), timeout_s=10)


def test_a_child_whose_parent_died_before_it_could_be_told_dies_too() -> None:
    """The kernel tells of a death that is yet to come; of one before that nobody does."""
    reader, writer = os.pipe()
    parent = os.fork()
    if parent == 0:
        prepare, ours = process._in_child(signal.SIGKILL), os.getpid()
        if os.fork() == 0:
            while os.getppid() == ours:
                time.sleep(0.001)
            prepare()
            os.write(writer, b"survived")
        os._exit(0)
    os.close(writer)
    os.waitpid(parent, 0)
    with os.fdopen(reader) as said:
        assert said.read() == ""


def test_programs_start_while_threads_are_at_work() -> None:
    """No lock that one of them holds is waited for in the child: every program comes to its end."""
    over = threading.Event()

    def work() -> None:
        log = logging.getLogger("steelyard.test")
        while not over.is_set():
            log.warning("x")
            importlib.reload(colorsys)
            ctypes.CDLL(None).getpid()
            gc.collect(0)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for number in range(20):
            command = Command(argv=("/bin/echo", str(number)))
            assert Processes().run(command, timeout_s=60).stdout == f"{number}\n"
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_nothing_is_looked_up_between_fork_and_exec() -> None:
    """A thread that is not there may hold the loader's lock: what is called is known before."""
    assert {"signal", "prctl"} <= vars(process._LIBC).keys()


_LONG = ("/bin/sh", "-c", "echo begun; sleep 60 & sleep 60")


def _left(directory: Path) -> tuple[int, ...]:
    """Return what still works in a directory, once what was killed had the time to go."""
    processes = Processes()
    deadline = time.monotonic() + 20
    while processes.within(directory) and time.monotonic() < deadline:
        time.sleep(0.02)
    return processes.within(directory)


def _together(commands: Sequence[Command], *, timeout_s: float) -> tuple[Completed, ...]:
    """Run commands at the same time and return what came of each."""
    with Processes().begin_together(commands, timeout_s=timeout_s) as running:
        return running.completed()


def test_they_run_at_the_same_time(tmp_path: Path) -> None:
    """Each waits for a file that the other makes: one after the other they would never end."""
    script = "touch {mine}; while ! [ -e {other} ]; do sleep 0.01; done; echo {mine}"
    names = [("a", "b"), ("b", "a")]
    commands = [
        Command(argv=("/bin/sh", "-c", script.format(mine=mine, other=other)), directory=tmp_path)
        for mine, other in names
    ]
    done = _together(commands, timeout_s=60)
    assert [each.stdout for each in done] == ["a\n", "b\n"]


def test_the_failure_of_one_ends_the_others_with_what_they_printed(tmp_path: Path) -> None:
    """Two generators are one load: half of it is no measurement, and is not waited for."""
    fails = Command(argv=("/bin/sh", "-c", "sleep 0.3; echo no >&2; exit 2"), directory=tmp_path)
    begun = time.monotonic()
    long, failed = _together([Command(argv=_LONG, directory=tmp_path), fails], timeout_s=60)
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
    running = Processes().begin_together([command], timeout_s=60)
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
        _together([command, command], timeout_s=0.3)
    assert _left(tmp_path) == ()


def test_one_that_cannot_be_started_ends_those_before(tmp_path: Path) -> None:
    """The first does not go on alone."""
    commands = [Command(argv=_LONG, directory=tmp_path), Command(argv=("/nonexistent",))]
    with pytest.raises(TargetError):
        Processes().begin_together(commands, timeout_s=10)
    assert _left(tmp_path) == ()


def test_an_interruption_ends_all(tmp_path: Path) -> None:
    """Ctrl-C in the middle of a run leaves no generator behind."""
    command = Command(argv=_LONG, directory=tmp_path)
    main = threading.main_thread().ident
    assert main is not None

    def interrupt_once_they_run() -> None:
        eventually(lambda: len(Processes().within(tmp_path)) >= 6)
        time.sleep(0.4)  # the second has children, and is waited for a moment later
        signal.pthread_kill(main, signal.SIGINT)

    interrupting = threading.Thread(target=interrupt_once_they_run)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        _together([command, command], timeout_s=60)
    interrupting.join()
    assert _left(tmp_path) == ()


def test_much_output_of_several_does_not_block_them() -> None:
    """Pipes hold 64 KiB; both streams of all are read all the time."""
    line = "head -c 300000 /dev/zero | tr '\\0' x"
    command = Command(argv=("/bin/sh", "-c", f"{line}; {line} >&2"))
    done = _together([command, command, command], timeout_s=60)
    assert [(len(each.stdout), len(each.stderr)) for each in done] == [(300_000, 300_000)] * 3


def test_the_id_of_one_that_has_ended_is_not_told(tmp_path: Path) -> None:
    """It may be somebody else's by now, and whoever asks wants to send it signals."""
    scripts = ("exec sleep 60", "read -r line; exit")  # its input ends at once
    commands = [Command(argv=("/bin/sh", "-c", each), directory=tmp_path) for each in scripts]
    running = Processes().begin_together(commands, timeout_s=60)
    try:
        first = Processes().within(tmp_path)[0]
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
    return Processes().begin_together(commands, timeout_s=60)


def test_begun_programs_run_until_they_are_told_to_end(tmp_path: Path) -> None:
    """The caller goes on at once; at a signal each tells its sums and ends well."""
    running = _begun(tmp_path, _COUNTS, _COUNTS)
    assert eventually(lambda: set(running.pids) <= set(Processes().within(tmp_path)))
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
    assert eventually(lambda: len(Processes().within(tmp_path)) >= 3)
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


def test_one_that_does_not_end_when_it_is_told_to_is_not_waited_for(tmp_path: Path) -> None:
    """The time that it has to end is counted from then on, not from its beginning."""
    running = _begun(tmp_path, f"trap '' ALRM; {_GOES_ON}")
    time.sleep(0.3)
    running.signal(signal.SIGALRM)
    with pytest.raises(MeasurementError, match="did not end within 1 s"):
        running.completed(within_s=1.0)
    running.close()
    assert _left(tmp_path) == ()
