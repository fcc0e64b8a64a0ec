"""Real processes and their descendants: who there is, who runs, who is stopped."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.gateways.cgroups import SystemFamilies
from support.waiting import eventually

# A first process with a child that has one, too.
_FAMILY = "sh -c 'sleep 60 & wait' & wait"
_THREADS = "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start()"


@pytest.fixture
def first() -> Iterator[int]:
    """Return the first of three processes, each the parent of the next."""
    process = subprocess.Popen(["/bin/sh", "-c", _FAMILY], start_new_session=True)
    try:
        assert eventually(lambda: len(SystemFamilies().of([process.pid])) == 3)
        yield process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        os.killpg(process.pid, signal.SIGCONT)
        process.wait()


def test_parents_come_before_their_children(first: int) -> None:
    """Whoever stops them in this order stops those first that could start others."""
    family = SystemFamilies().of([first])
    parents = [int(_stat(pid).split()[1]) for pid in family]
    assert parents == [os.getpid(), *list(family)[:2]]
    assert all(family.values())
    assert list(SystemFamilies().of([list(family)[1]])) == list(family)[1:]


def _stat(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]


def test_one_that_is_stopped_does_not_run(first: int) -> None:
    """Until it is continued; the others go on."""
    families = SystemFamilies()
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
    families = SystemFamilies()
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
    assert SystemFamilies(tmp_path).of([7]) == {7: True}
    _thread(proc / "task" / "8", 8, "T", threads=2)
    assert SystemFamilies(tmp_path).of([7]) == {7: False}
    assert SystemFamilies(tmp_path).stopped([7]) == (7,)


def _thread(place: Path, number: int, state: str, *, threads: int) -> None:
    """Write what the kernel tells of a thread; its name is as odd as a name can be."""
    place.mkdir(parents=True, exist_ok=True)
    rest = " ".join(["0"] * 15)
    (place / "stat").write_text(f"{number} (a) b (c) {state} 1 {rest} {threads} 0 0\n")


def test_real_threads_are_looked_at() -> None:
    """A program with two of them is stopped when both are."""
    process = subprocess.Popen([sys.executable, "-c", _THREADS])
    families = SystemFamilies()
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
    assert SystemFamilies().of([]) == {}
