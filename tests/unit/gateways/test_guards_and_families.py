"""A real guard, and real processes with their descendants."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.core.wording import TargetError
from steelyard.gateways import cgroups as guard
from steelyard.gateways.cgroups import Families, Guards
from support.waiting import eventually

_STARTS_ONE = """
import sys, time
from pathlib import Path
from steelyard.gateways.cgroups import Guards
guard = Guards().start([Path(sys.argv[1])], [Path(sys.argv[2])])
print(guard.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def group(tmp_path: Path) -> Path:
    """Return a frozen group with the files of both versions."""
    made = tmp_path / "a group's"
    made.mkdir()
    (made / "freezer.state").write_text("FROZEN\n")
    (made / "cgroup.freeze").write_text("1\n")
    return made


def _is_frozen(group: Path) -> bool:
    state, freeze = ((group / name).read_text() for name in ("freezer.state", "cgroup.freeze"))
    assert (state, freeze) in {("FROZEN\n", "1\n"), ("THAWED\n", "0\n")}
    return freeze == "1\n"


@pytest.fixture
def live(tmp_path: Path) -> Path:
    """Return a directory whose name a shell could take for something else."""
    made = tmp_path / "live *[a-z]$HOME -> '"
    made.mkdir()
    return made


@pytest.fixture
def stopped(live: Path) -> Iterator[tuple[int, int]]:
    """Return two processes that are stopped: one works below the directory, one beside it."""
    (live / "data").mkdir()
    beside = live.with_name(f"{live.name}2")
    beside.mkdir()
    started = [subprocess.Popen(["/bin/sleep", "60"], cwd=at) for at in (live / "data", beside)]
    first, second = (process.pid for process in started)
    try:
        for process in started:
            process.send_signal(signal.SIGSTOP)
        assert eventually(lambda: Families().stopped((first, second)) == (first, second))
        yield first, second
    finally:
        for process in started:
            process.kill()
            process.wait()


def _lives(pid: int) -> bool:
    return any(Families().of([pid]).values())


def test_a_guard_that_is_let_go_lets_everything_go_on(
    group: Path, live: Path, stopped: tuple[int, int]
) -> None:
    """Groups of both versions are thawed, processes below the directory continued, others not."""
    first, second = stopped
    absent = group.with_name("removed")
    made = Guards().start([absent, group], [live])
    assert made.stands()
    assert _is_frozen(group)
    assert Families().stopped(stopped) == stopped
    made.close()
    made.close()
    assert not made.stands()
    assert not _is_frozen(group)
    assert not absent.exists()
    assert Families().stopped((first, second)) == (second,)


def test_a_guard_acts_when_whoever_started_it_is_killed(
    group: Path, live: Path, stopped: tuple[int, int]
) -> None:
    """SIGKILL leaves nobody who could close the pipe but the kernel."""
    process = subprocess.Popen(
        [sys.executable, "-c", _STARTS_ONE, str(group), str(live)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    assert _is_frozen(group)
    process.kill()
    process.communicate()
    assert eventually(lambda: not _lives(pid))
    assert not _is_frozen(group)
    assert stopped[0] not in Families().stopped(stopped)


def test_nothing_but_a_kill_ends_a_guard_early(group: Path) -> None:
    """Ctrl-C, the end of a session and of a service reach every process but this one."""
    made = Guards().start([group], [])
    pid = made.pid  # type: ignore[attr-defined] # of a real one
    try:
        assert os.getsid(pid) == pid != os.getsid(0)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            os.kill(pid, number)
        time.sleep(0.2)
        assert made.stands()
        assert _is_frozen(group)
        os.kill(pid, signal.SIGKILL)
        assert eventually(lambda: not made.stands())
    finally:
        made.close()
    assert _is_frozen(group)


def test_a_guard_inherits_nothing_and_others_do_not_inherit_its_pipe(tmp_path: Path) -> None:
    """An open file of ours would stay locked by it; its pipe in another's hands never ends."""
    with (tmp_path / "ours").open("w") as ours:
        os.set_inheritable(ours.fileno(), True)  # noqa: FBT003 - that is its form
        made = Guards().start([], [])
        other = subprocess.Popen(["/bin/sleep", "60"], close_fds=False)
        try:
            pid = made.pid  # type: ignore[attr-defined] # of a real one
            held = {link.readlink().name for link in Path(f"/proc/{pid}/fd").iterdir()}
            assert "ours" not in held
            assert Path(f"/proc/{pid}/cwd").readlink() == Path("/")
            made.close()
            assert not made.stands()
        finally:
            other.kill()
            other.wait()
            made.close()


def test_a_guard_that_does_not_start_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be paused then."""
    monkeypatch.setattr(guard, "_SHELL", "/nonexistent")
    with pytest.raises(TargetError, match="cannot be run"):
        Guards().start([], [])
    monkeypatch.setattr(guard, "_SHELL", "/bin/false")
    with pytest.raises(TargetError, match="did not start"):
        Guards().start([], [])


# A first process with a child that has one, too.
_FAMILY = "sh -c 'sleep 60 & wait' & wait"
_THREADS = "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start()"


@pytest.fixture
def first() -> Iterator[int]:
    """Return the first of three processes, each the parent of the next."""
    process = subprocess.Popen(["/bin/sh", "-c", _FAMILY], start_new_session=True)
    try:
        assert eventually(lambda: len(Families().of([process.pid])) == 3)
        yield process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        os.killpg(process.pid, signal.SIGCONT)
        process.wait()


def test_parents_come_before_their_children(first: int) -> None:
    """Whoever stops them in this order stops those first that could start others."""
    family = Families().of([first])
    parents = [int(_stat(pid).split()[1]) for pid in family]
    assert parents == [os.getpid(), *list(family)[:2]]
    assert all(family.values())
    assert list(Families().of([list(family)[1]])) == list(family)[1:]


def _stat(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]


def test_one_that_is_stopped_does_not_run(first: int) -> None:
    """Until it is continued; the others go on."""
    families = Families()
    pids = list(families.of([first]))
    os.kill(pids[1], signal.SIGSTOP)
    assert eventually(
        lambda: families.of([first]) == dict(zip(pids, (True, False, True), strict=True))
    )
    assert families.stopped(pids) == (pids[1],)
    os.kill(pids[1], signal.SIGCONT)
    assert eventually(lambda: all(families.of([first]).values()))
    assert families.stopped(pids) == ()


def test_what_is_gone_is_not_there() -> None:
    """Nor is it stopped; one that nobody has waited for does not run."""
    process = subprocess.Popen(["/bin/sh", "-c", "exit"])
    families = Families()
    assert eventually(lambda: families.of([process.pid]) == {process.pid: False})
    assert families.stopped([process.pid]) == ()
    process.wait()
    assert families.of([process.pid]) == {}
    assert families.stopped([process.pid]) == ()


def test_a_process_runs_as_long_as_one_of_its_threads(tmp_path: Path) -> None:
    """The first may be stopped while another still is on its way there."""
    proc = tmp_path / "proc" / "7"
    _thread(proc, 7, "T", threads=2)
    _thread(proc / "task" / "7", 7, "T", threads=2)
    _thread(proc / "task" / "8", 8, "D", threads=2)
    assert Families(tmp_path).of([7]) == {7: True}
    _thread(proc / "task" / "8", 8, "T", threads=2)
    assert Families(tmp_path).of([7]) == {7: False}
    assert Families(tmp_path).stopped([7]) == (7,)


def _thread(place: Path, number: int, state: str, *, threads: int) -> None:
    """Write what the kernel tells of a thread; its name is as odd as a name can be."""
    place.mkdir(parents=True, exist_ok=True)
    rest = " ".join(["0"] * 15)
    (place / "stat").write_text(f"{number} (a) b (c) {state} 1 {rest} {threads} 0 0\n")


def test_real_threads_are_looked_at() -> None:
    """A program with two of them is stopped when both are."""
    process = subprocess.Popen([sys.executable, "-c", _THREADS])
    families = Families()
    try:
        tasks = Path(f"/proc/{process.pid}/task")
        assert eventually(lambda: len(list(tasks.iterdir())) == 2)
        assert families.of([process.pid]) == {process.pid: True}
        process.send_signal(signal.SIGSTOP)
        assert eventually(lambda: families.stopped([process.pid]) == (process.pid,))
    finally:
        process.kill()
        process.wait()


def test_nobody_has_no_family() -> None:
    """An empty question is no look at the machine's other processes."""
    assert Families().of([]) == {}
