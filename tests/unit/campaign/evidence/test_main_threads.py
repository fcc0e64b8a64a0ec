"""The one thread that serves all sessions: what looks at it add up to."""

from dataclasses import dataclass, field

import pytest

from fakes.host import FakeHost
from steelyard.campaign.evidence.processes import ServerProcesses
from steelyard.campaign.evidence.turn_watch import MainThread
from steelyard.core.measurement import Quantity

_PLACE = "/proc/7/task/7"


def _stat(state: str, name: str = "redis-server") -> str:
    return f"7 ({name}) {state} 1 7 7 0 -1 4194304 1 0\n"


@dataclass
class _Machine(FakeHost):
    """One whose files a test may change while it is watched."""

    files: dict[str, str] = field(default_factory=dict)


def _host(state: str = "S", queued_ns: int = 0, name: str = "redis-server") -> _Machine:
    files = {f"{_PLACE}/stat": _stat(state, name), f"{_PLACE}/schedstat": f"1 {queued_ns} 3\n"}
    return _Machine(files=files)


def test_a_look_stands_for_the_time_since_the_last() -> None:
    """Held up at two looks of four, a tenth of a second each; a lost look is no gap."""
    host = _host()
    thread = MainThread(host=host, pid=7)
    for at_s, state in ((0.1, "D"), (0.2, "S"), (0.4, "D"), (0.5, "R")):
        host.files[f"{_PLACE}/stat"] = _stat(state)
        thread.look(at_s)
    assert thread.totals()[Quantity.MAIN_THREAD_BLOCKED_S] == pytest.approx(0.3)


@pytest.mark.parametrize("name", ["a) D (b", "x) D ", ") D 1"])
def test_a_program_may_be_called_as_it_likes(name: str) -> None:
    """The kernel prints the name as it is: what looks like a state in it is none."""
    thread = MainThread(host=_host("S", name=name), pid=7)
    thread.look(0.1)
    assert thread.totals()[Quantity.MAIN_THREAD_BLOCKED_S] == 0.0


def test_time_in_the_queue_is_the_kernels_difference() -> None:
    """Of the main thread alone, from the beginning to the end."""
    host = _host(queued_ns=2_000_000)
    thread = MainThread(host=host, pid=7)
    host.files[f"{_PLACE}/schedstat"] = "1 5500000 9\n"
    assert thread.totals() == {Quantity.MAIN_THREAD_RUN_QUEUE_S: 0.0035}


def test_what_cannot_be_read_is_absent() -> None:
    """A process of another machine, or one that ended: no zero is made of that."""
    thread = MainThread(host=FakeHost(), pid=7)
    thread.look(0.1)
    assert thread.totals() == {}


def test_all_threads_of_a_server_count() -> None:
    """Two threads and a process that was forked: the queue is that of all three."""
    files = {
        "/proc/7/stat": _stat("S") + " ".join(["0"] * 50),
        "/proc/7/schedstat": "1000 1000 1\n",
        "/proc/7/task/7/schedstat": "1000 1000 1\n",
        "/proc/7/task/8/schedstat": "2000000000 3000000000 5\n",
        "/proc/7/task/7/children": "9 ",
        "/proc/7/task/8/children": "",
        "/proc/9/schedstat": "1000000000 500000000 2\n",
    }
    host = FakeHost(files=files)
    sampled = ServerProcesses(host=host, pid=7).sampled()
    assert sampled[Quantity.SERVER_RUN_QUEUE_S] == pytest.approx(3.500001)
