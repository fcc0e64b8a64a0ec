"""One server process: its start, its failures, its end by ever stronger means."""

import signal
from pathlib import Path

import pytest

from fakes.clock import FakeClock
from fakes.processes import FakeProcess, FakeProcesses
from fakes.programs import FakeProgram
from steelyard.core.wording import SilentError, TargetError
from steelyard.places.local.server import LocalServer


@pytest.fixture
def processes() -> FakeProcesses:
    """Return processes among which the server program exists."""
    made = FakeProcesses(FakeClock())
    made.on_start("fake-server")
    return made


def _server(processes: FakeProcesses, program: FakeProgram, home: Path) -> LocalServer:
    (home / "data").mkdir(exist_ok=True)
    return LocalServer(
        program, home, home / "sockets", account=None, processes=processes, clock=processes.clock
    )


def test_a_start_takes_until_the_first_answer(processes: FakeProcesses, tmp_path: Path) -> None:
    """The seconds returned are those waited, and the server runs with its settings."""
    server = _server(processes, FakeProgram(ready_after_polls=5), tmp_path)
    seconds = server.start({"work_mem": "8MB"}, port=5433)
    assert seconds == pytest.approx(sum(processes.clock.slept))
    assert len(processes.clock.slept) == 5
    assert server.is_running
    assert server.address.port == 5433
    assert server.address.host == str(tmp_path / "sockets")
    configuration = (tmp_path / "data" / "fake.conf").read_text()
    assert configuration == f"port=5433 in {tmp_path}/sockets\nwork_mem=8MB\n"


def test_a_server_that_dies_slowly_is_not_taken_for_a_living_one(
    processes: FakeProcesses, tmp_path: Path
) -> None:
    """It is waited for; one that was never started is no trouble."""
    server = _server(processes, FakeProgram(), tmp_path)
    server.let_die()
    server.start({}, port=None)
    server.let_die()
    assert processes.started[0].waits
    assert server.is_running


def test_without_a_port_a_free_one_is_taken(processes: FakeProcesses, tmp_path: Path) -> None:
    """Two servers of one machine do not meet."""
    server = _server(processes, FakeProgram(), tmp_path)
    server.start({}, port=None)
    assert server.address.port > 1024


def test_a_server_that_ends_at_once_says_why(processes: FakeProcesses, tmp_path: Path) -> None:
    """The message holds the end of its log: that is where the reason stands."""
    lines = [f"line {number}" for number in range(20)] + ["FATAL:  could not map memory"]

    def fail(process: FakeProcess) -> None:
        process.log("\n".join(lines) + "\n")
        process.finish(1)

    processes.begun = fail
    server = _server(processes, FakeProgram(ready=False), tmp_path)
    with pytest.raises(TargetError, match="FATAL:  could not map memory") as caught:
        server.start({}, port=1)
    assert "18.6" in caught.value.message
    assert "line 19" in caught.value.message
    assert "line 3\n" not in caught.value.message
    assert caught.value.hint
    assert not server.is_running


def test_a_server_that_reads_its_data_may_take_longer(
    processes: FakeProcesses, tmp_path: Path
) -> None:
    """Ten minutes of loading end with an answer; one that loads for ever is ended after an hour."""
    slow = FakeProgram(ready_after_polls=30_000, loading=True)
    assert _server(processes, slow, tmp_path).start({}, port=1) == pytest.approx(600.0)
    for loading, most_s in ((True, 3600), (False, 120)):
        server = _server(processes, FakeProgram(ready=False, loading=loading), tmp_path)
        with pytest.raises(TargetError, match=f"did not answer within {most_s} s"):
            server.start({}, port=1)
        assert not server.is_running


def test_a_server_that_never_answers_is_ended(processes: FakeProcesses, tmp_path: Path) -> None:
    """After two minutes it is stopped, and the message holds its log."""
    processes.begun = lambda process: process.log("recovering\n")
    server = _server(processes, FakeProgram(ready=False), tmp_path)
    with pytest.raises(SilentError, match="did not answer within 120 s:\nrecovering"):
        server.start({}, port=1)
    (process,) = processes.started
    assert process.exit_status() is not None
    assert not server.is_running


@pytest.mark.parametrize(("keep_data", "first"), [(True, signal.SIGINT), (False, signal.SIGQUIT)])
def test_data_that_are_needed_are_shut_down_in_order(
    processes: FakeProcesses, tmp_path: Path, *, keep_data: bool, first: int
) -> None:
    """A fast shutdown writes a checkpoint; data to be thrown away need none."""
    server = _server(processes, FakeProgram(), tmp_path)
    server.start({}, port=1)
    (process,) = processes.started
    server.stop(keep_data=keep_data)
    assert process.signals == [first]
    assert not server.is_running
    server.stop(keep_data=keep_data)
    assert process.signals == [first]


@pytest.mark.parametrize("keep_data", [True, False])
def test_a_stop_escalates_until_the_process_is_gone(
    processes: FakeProcesses, tmp_path: Path, *, keep_data: bool
) -> None:
    """A server that heeds nothing is killed, and continued in case it was suspended."""
    server = _server(processes, FakeProgram(), tmp_path)
    server.start({}, port=1)
    (process,) = processes.started
    process.ends_by = frozenset({signal.SIGKILL})
    server.stop(keep_data=keep_data)
    assert process.exit_status() == -signal.SIGKILL
    order = [number for number in process.signals if number != signal.SIGCONT]
    first = signal.SIGINT if keep_data else signal.SIGQUIT
    assert order == [first, signal.SIGQUIT, signal.SIGKILL]
    assert process.signals.count(signal.SIGCONT) == 2
    assert process.waits[0] == (120.0 if keep_data else 10.0)


def test_a_server_that_died_is_stopped_without_a_word(
    processes: FakeProcesses, tmp_path: Path
) -> None:
    """The dead take no signals, and stopping them takes no time."""
    server = _server(processes, FakeProgram(), tmp_path)
    server.start({}, port=1)
    (process,) = processes.started
    process.finish(-9)
    assert not server.is_running
    before = processes.clock.monotonic()
    server.stop(keep_data=True)
    assert processes.clock.monotonic() == before
    assert process.signals == []


def test_a_missing_program_is_a_target_error(tmp_path: Path) -> None:
    """A server program that is gone says so."""
    server = _server(FakeProcesses(), FakeProgram(), tmp_path)
    with pytest.raises(TargetError, match="fake-server does not exist"):
        server.start({}, port=1)
    assert not server.is_running
