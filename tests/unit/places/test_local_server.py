"""One server process: its account, its start, its end by ever stronger means, its logs."""

import os
import pwd
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fakes.clock import FakeClock
from fakes.processes import Answer, FakeProcess, FakeProcesses
from fakes.programs import FakeLedger, FakeProgram
from steelyard.core.outside import Command
from steelyard.core.wording import (
    ExitCode,
    PreflightError,
    PrivilegeError,
    SilentError,
    TargetError,
)
from steelyard.places.local import server as account
from steelyard.places.local import server as log_place
from steelyard.places.local import server as staging
from steelyard.places.local.server import LocalServer, LogPlace, server_account


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
    """It runs with its settings then."""
    server = _server(processes, FakeProgram(ready_after_polls=5), tmp_path)
    server.start({"work_mem": "8MB"}, port=5433)
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
    assert server.address.port > 1024  # a free one is taken where none is named


@pytest.mark.parametrize(
    ("status", "text"), [(-9, "ended by signal 9"), (1, "its log is empty, exit status 1")]
)
def test_a_server_that_ends_without_a_word_says_how(
    processes: FakeProcesses, tmp_path: Path, status: int, text: str
) -> None:
    """Nothing is left open behind the colon: a signal leaves no line in a log."""
    processes.begun = lambda process: process.finish(status)
    server = _server(processes, FakeProgram(ready=False), tmp_path)
    with pytest.raises(TargetError) as caught:
        server.start({}, port=5433)
    assert caught.value.message.endswith(f"did not start:\n{text}")


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
    _server(processes, slow, tmp_path).start({}, port=1)
    assert sum(processes.clock.slept) == pytest.approx(600.0)
    server = _server(processes, FakeProgram(ready=False, loading=True), tmp_path)
    with pytest.raises(TargetError, match="did not answer within 3600 s"):
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


@pytest.fixture
def ledger() -> FakeLedger:
    """Return a ledger that keeps what it is told."""
    return FakeLedger()


@pytest.fixture
def place(
    ledger: FakeLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LogPlace]:
    """Return a place whose memory is a directory of this test."""
    monkeypatch.setattr(log_place, "is_in_memory", lambda path: path.is_dir())
    made = LogPlace(
        ledger, account=None, beside=lambda: tmp_path / "live", memory=tmp_path / "memory"
    )
    yield made
    made.remove()


def test_logs_go_into_memory_privately(place: LogPlace, ledger: FakeLedger, tmp_path: Path) -> None:
    """One directory for all runs, told before it is made, closed to everybody else."""
    (tmp_path / "memory").mkdir()
    made = place.directory()
    assert made.parent == tmp_path / "memory"
    assert made.stat().st_mode & 0o777 == 0o700
    assert place.directory() == made
    assert [(verb, existed) for verb, _, existed in ledger.notes] == [("created", False)]
    assert ledger.open == {made}


@pytest.mark.parametrize("reason", ["no such memory", "no room"])
def test_without_room_in_memory_they_lie_beside_the_scripts(
    place: LogPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    """A container's 64 MB may be in use, and some machines have none; disk is the next best."""
    if reason == "no room":
        (tmp_path / "memory").mkdir()
        least = log_place.LEAST_FREE_BYTES
        monkeypatch.setattr(log_place, "free_bytes", lambda _: least - 1)
    made = place.directory()
    assert made == tmp_path / "live" / "logs"
    assert made.stat().st_mode & 0o777 == 0o700
    assert place.remove() is None


@pytest.mark.parametrize("closed", [PreflightError("read-only"), PreflightError("no inodes")])
def test_memory_that_takes_no_directory_is_passed_over(
    place: LogPlace,
    ledger: FakeLedger,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    closed: PreflightError,
) -> None:
    """Room alone is not enough; the disk is taken, and the ledger owes nothing."""
    (tmp_path / "memory").mkdir()

    def refused(
        prefix: str, *, account: str | None, announce: Callable[[Path], None], parent: Path
    ) -> Path:
        assert account is None
        announce(parent / prefix)
        raise closed

    monkeypatch.setattr(log_place, "short_directory", refused)
    assert place.directory() == tmp_path / "live" / "logs"
    assert not place.in_memory
    assert ledger.open == set()


@pytest.mark.parametrize("first", [True, False])
def test_all_runs_of_a_session_have_one_place(
    place: LogPlace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """Room that comes or goes moves no arm: the logs of all lie in memory, or of none."""
    (tmp_path / "memory").mkdir()
    rooms = {True: log_place.LEAST_FREE_BYTES, False: log_place.LEAST_FREE_BYTES - 1}
    monkeypatch.setattr(log_place, "free_bytes", lambda _: rooms[first])
    made = place.directory()
    monkeypatch.setattr(log_place, "free_bytes", lambda _: rooms[not first])
    assert place.directory() == made
    assert place.in_memory is first


def test_what_dies_while_it_is_noted_leaves_nothing_unknown(
    place: LogPlace, ledger: FakeLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the note there is no directory; after it there is a note."""
    (tmp_path / "memory").mkdir()

    def dies(_path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ledger, "created", dies)
    with pytest.raises(KeyboardInterrupt):
        place.directory()
    assert list((tmp_path / "memory").iterdir()) == []


def test_removing_takes_the_logs_along(place: LogPlace, tmp_path: Path) -> None:
    """At the end of a campaign nothing is in memory; a second time changes nothing."""
    (tmp_path / "memory").mkdir()
    made = place.directory()
    (made / "log.17").write_text("0 1 2\n")
    assert place.remove() == made
    assert not made.exists()
    assert place.remove() is None


def test_memory_is_known_by_its_mount() -> None:
    """A directory that is no mount of its own is not taken for memory."""
    from steelyard.gateways.files import is_in_memory  # noqa: PLC0415 - the name is replaced above

    assert not is_in_memory(Path("/"))
    assert not is_in_memory(Path("/dev/shm/none"))  # noqa: S108


def test_an_ordinary_user_runs_servers_as_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing to change, and another account cannot be had."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert server_account([]) is None
    with pytest.raises(PrivilegeError, match="only root") as caught:
        server_account(["postgres"])
    assert caught.value.exit_code is ExitCode.PRIVILEGE


def test_root_takes_the_first_unprivileged_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL refuses root: what is named counts, else its own account, else ``nobody``."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    there = {entry.pw_name for entry in pwd.getpwall()}
    assert server_account([]) == ("postgres" if "postgres" in there else "nobody")
    monkeypatch.setattr(account, "_ACCOUNTS", ("no-such-account", "nobody"))
    assert server_account([]) == "nobody"
    assert server_account(["nobody"]) == "nobody"


@pytest.mark.parametrize("asked", ["root", "no-such-account"])
def test_an_account_that_will_not_do_is_refused(
    monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    """Root itself and absent accounts, with the key that sets another."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(PrivilegeError, match=f"there is no account {asked}") as caught:
        server_account([asked])
    assert "run_as" in caught.value.hint


def test_two_accounts_in_one_experiment_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prepared data belong to one account."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(PreflightError, match="daemon, nobody"):
        server_account(["nobody", "daemon"])


def _copies(command: Command) -> None:
    *parts, target = command.argv[2:]
    for part in parts:
        shutil.copytree(part, Path(target) / Path(part).name)


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Return the parts of a wheel, with a cache beside them and nobody who can reach them."""
    monkeypatch.setenv("STEELYARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(staging, "reachable_by", lambda _path, account: account is None)
    parts = (tmp_path / "site" / "pg", tmp_path / "site" / "pg.libs")
    for part in parts:
        (part / "bin").mkdir(parents=True)
    (parts[0] / "bin" / "postgres").touch()
    return parts


def test_programs_within_reach_stay_where_they_are(wheel: tuple[Path, Path]) -> None:
    """Nothing is copied without need."""
    programs = wheel[0] / "bin"
    found = staging.staged(programs, wheel, "pg-18.6", account=None, processes=FakeProcesses())
    assert found == programs


def test_programs_out_of_reach_are_copied_once_with_their_libraries(
    wheel: tuple[Path, Path], tmp_path: Path
) -> None:
    """The copy has the same shape, and the next campaign finds it."""
    processes = FakeProcesses()
    processes.on("cp", answer=Answer(does=_copies))
    processes.on("sync")
    for _ in range(2):
        found = staging.staged(
            wheel[0] / "bin", wheel, "pg-18.6", account="nobody", processes=processes
        )
        assert found == tmp_path / "cache" / "programs" / "pg-18.6" / "pg" / "bin"
        assert (found / "postgres").exists()
        assert (found.parents[1] / "pg.libs").is_dir()
    assert [command.argv[0] for command in processes.ran] == ["cp", "sync"]


def test_a_copy_has_its_name_when_it_is_on_disk(wheel: tuple[Path, Path], tmp_path: Path) -> None:
    """After a power cut a copy that is there is whole: it is flushed under another name."""
    home = tmp_path / "cache" / "programs" / "pg-18.6"
    unfinished = home.with_name("pg-18.6.unfinished")
    seen: list[tuple[tuple[str, ...], bool]] = []
    processes = FakeProcesses()
    processes.on("cp", answer=Answer(does=_copies))
    processes.on("sync", answer=Answer(does=lambda c: seen.append((c.argv[1:], home.exists()))))
    staging.staged(wheel[0] / "bin", wheel, "pg-18.6", account="nobody", processes=processes)
    assert seen == [(("--file-system", str(unfinished)), False)]
    assert home.exists()


def test_a_copy_that_failed_or_was_broken_off_is_made_anew(
    wheel: tuple[Path, Path], tmp_path: Path
) -> None:
    """Half a copy is never used, and the failure is a sentence."""
    processes = FakeProcesses()
    processes.on("sync")
    processes.on("cp", answer=Answer(exit_status=1, stderr="cp: No space left on device\n"))
    home = tmp_path / "cache" / "programs"
    (home / "pg-18.6.unfinished" / "half").mkdir(parents=True)

    def stage() -> Path:
        return staging.staged(
            wheel[0] / "bin", wheel, "pg-18.6", account="nobody", processes=processes
        )

    with pytest.raises(PreflightError, match="No space left on device") as caught:
        stage()
    assert "STEELYARD_CACHE" in caught.value.hint
    assert not (home / "pg-18.6").exists()
    processes.on("cp", answer=Answer(does=_copies))
    assert (stage() / "postgres").exists()
    assert not (home / "pg-18.6" / "half").exists()
