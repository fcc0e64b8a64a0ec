"""Ping-pong, direct reads and round trips: what they give here, and how they say why not."""

import json
import os
import sys
import threading
from pathlib import Path

import pytest

from fakes.processes import Answer, FakeProcesses
from steelyard.core.schedule import LOG_WRITE_BYTES
from steelyard.core.wording import MeasurementError
from steelyard.gateways import process as own_program
from steelyard.gateways import sql as roundtrip
from steelyard.gateways import trials
from steelyard.gateways.files import largest_file
from steelyard.gateways.process import Processes
from steelyard.gateways.trials import Where, ping_pong

PYTHON = Path(sys.executable).name


def test_two_processes_play_on_one_cpu(tmp_path: Path) -> None:
    """A real game gives as many round trips as asked for, each above zero, and the CPU's number."""
    found = ping_pong(Where.SAME, processes=Processes(), directory=tmp_path, most_s=5.0, most=101)
    assert len(found.trips_s) == 100  # the first does not count
    assert all(trip > 0 for trip in found.trips_s)
    assert found.cpus[0] == found.cpus[1]
    assert found.cpus[0] in os.sched_getaffinity(0)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="only one CPU may be used here")
def test_two_processes_play_across_two_cpus(tmp_path: Path) -> None:
    """They have different CPUs, and end after their time when they do not reach the number."""
    found = ping_pong(
        Where.ACROSS, processes=Processes(), directory=tmp_path, most_s=0.05, most=10**9
    )
    assert found.cpus[0] != found.cpus[1]
    assert 0 < len(found.trips_s) < 10**6


def test_the_cpus_of_a_game_may_be_chosen(tmp_path: Path) -> None:
    """Two that are named are taken, here the same one twice; those are the ones it reports."""
    last = max(os.sched_getaffinity(0))
    found = ping_pong(
        Where.SAME,
        processes=Processes(),
        directory=tmp_path,
        most_s=0.05,
        most=50,
        cpus=(last, last),
    )
    assert found.cpus == (last, last)
    assert found.trips_s


def test_one_cpu_has_no_across(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With one CPU there is a reason in place of a game."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    trials.main(["ping-pong", "across", "0.1", "10"])
    assert json.loads(capsys.readouterr().out) == {"unknown": "only one CPU may be used here"}


def _answered(answer: Answer) -> FakeProcesses:
    processes = FakeProcesses()
    processes.on(PYTHON, answer=answer)
    return processes


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(stdout='{"unknown": "only one CPU may be used here"}'), "only one CPU"),
        (Answer(stderr="Traceback\nOSError: no\n", exit_status=1), "it said OSError: no"),
        (Answer(stdout='{"cpus": [0,'), "failed"),
        (Answer(takes_s=60.0), "did not end within"),
    ],
)
def test_a_game_that_fails_says_why(tmp_path: Path, answer: Answer, reason: str) -> None:
    """A reason, a crash, half an answer and no end are errors with words."""
    with pytest.raises(MeasurementError, match=reason):
        ping_pong(Where.SAME, processes=_answered(answer), directory=tmp_path, most_s=0.5, most=10)


def test_programs_of_ours_work_in_the_directory_by_which_they_are_found(tmp_path: Path) -> None:
    """A death leaves a process that ``clean`` recognises; nothing lying there is imported."""
    processes = _answered(Answer(stdout="{}"))
    own_program.answer_of("a.b", "x", processes=processes, directory=tmp_path, timeout_s=1.0)
    (command,) = processes.ran
    assert command.directory == tmp_path
    assert command.argv[1:] == ("-P", "-m", "a.b", "x")


def test_a_file_is_read_past_the_cache_or_the_reason_is_told(tmp_path: Path) -> None:
    """Reads take time, several readers have a rate, and the file is as it was."""
    file = tmp_path / "file"
    file.write_bytes(bytes(4 * 2**20))
    with file.open("rb") as written:
        os.fsync(written.fileno())
    try:
        found = trials.direct_reads(
            file, size_bytes=8192, processes=Processes(), directory=tmp_path, most_s=0.2
        )
    except MeasurementError as error:
        pytest.skip(f"here {error.message}")
    assert found.file_bytes == 4 * 2**20
    assert found.latencies_s
    assert all(latency > 0 for latency in found.latencies_s)
    assert found.rate_per_s > 0
    assert file.read_bytes() == bytes(4 * 2**20)


def test_a_file_shorter_than_a_read_is_told(tmp_path: Path) -> None:
    """There is no random place in it."""
    file = tmp_path / "file"
    file.write_bytes(bytes(4096))
    told = trials.take_reads(str(file), 8192, 0.1)
    assert told == {"unknown": "the largest file of the data has only 4096 bytes"}


def test_a_file_system_that_refuses_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EINVAL, which tmpfs gives before Linux 6.6, is a reason and no crash."""
    file = tmp_path / "file"
    file.write_bytes(bytes(8192))
    real = os.open

    def refuse(path: str, flags: int, *more: int) -> int:
        if flags & os.O_DIRECT:
            raise OSError(22, "Invalid argument")
        return real(path, flags, *more)

    monkeypatch.setattr(os, "open", refuse)
    told = trials.take_reads(str(file), 4096, 0.1)
    assert told == {"unknown": "the file system refuses O_DIRECT: Invalid argument"}


def test_reads_that_no_device_served_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the kernel counts no read of a device, the rate of the memory is no ceiling."""
    file = tmp_path / "file"
    file.write_bytes(bytes(8192))
    monkeypatch.setattr(trials, "_reads", lambda *_: iter([1000] * 50))
    monkeypatch.setattr(trials, "_rate", lambda *_: 1e6)
    for counted, known in ((0, False), (49 * 4096 // 2, False), (25 * 4096, True)):
        counters = iter([7, 7 + counted])
        monkeypatch.setattr(trials, "_device_bytes", lambda c=counters: next(c))
        told = trials.take_reads(str(file), 4096, 0.1)
        assert ("rate_per_s" in told) is known
        assert ("came from memory" in str(told.get("unknown"))) is not known
    monkeypatch.setattr(trials, "_device_bytes", lambda: None)  # nobody counts: it is believed
    assert "rate_per_s" in trials.take_reads(str(file), 4096, 0.1)


def test_the_largest_file_of_a_tree(tmp_path: Path) -> None:
    """Found at any depth; of an empty tree there is none."""
    assert largest_file(tmp_path) is None
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "small").write_text("x")
    (tmp_path / "a" / "b" / "large").write_text("xxx")
    assert largest_file(tmp_path) == tmp_path / "a" / "b" / "large"


def test_a_server_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait for an answer ends with libpq's error, and an answer ends it before."""
    monkeypatch.setattr(roundtrip, "_PATIENCE_MS", 1)
    receive, send = os.pipe()
    try:
        with pytest.raises(roundtrip.psycopg.OperationalError, match="it hangs"):
            roundtrip._wait(receive, roundtrip.select.POLLIN)
        monkeypatch.setattr(roundtrip, "_PATIENCE_MS", 60_000)
        threading.Timer(0.05, os.write, (send, b"x")).start()
        roundtrip._wait(receive, roundtrip.select.POLLIN)
    finally:
        os.close(receive)
        os.close(send)


def test_long_writes_are_forced_out_and_timed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is 16 MiB, in a file that ends at eight of them; the first one makes it, uncounted."""
    file = tmp_path / "log"
    trials.main(["writes", str(file), "0.0"])
    processes = _answered(Answer(stdout=capsys.readouterr().out))
    found = trials.log_writes(file, processes=processes, most_s=0.0)
    assert len(found.latencies_s) == 1
    assert found.latencies_s[0] > 0
    assert found.rate_per_s == pytest.approx(1.0 / found.latencies_s[0])
    assert file.stat().st_size == 2 * LOG_WRITE_BYTES
    assert processes.ran[0].argv[-4:] == ("steelyard.gateways.trials", "writes", str(file), "0.0")


def test_a_log_without_room_says_why(tmp_path: Path) -> None:
    """An existing file is never written over, and a full disk is a reason, no crash."""
    there = tmp_path / "there"
    there.write_text("mine")
    assert trials.take_writes(str(there), 0.0) == {"unknown": "writing failed: File exists"}
    assert there.read_text() == "mine"
    assert "writing failed" in str(trials.take_writes("/dev/full/log", 0.0)["unknown"])
