"""This machine as a platform: prepared states, one live server, one beside it, nothing left."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fakes.clock import FakeClock
from fakes.processes import Answer, FakeProcess, FakeProcesses
from fakes.programs import FakeLedger, FakeProgram
from steelyard.core.outside import Command, Companion, Outside, ServerAddress
from steelyard.core.wording import LeftBehindError, PreflightError, TargetError
from steelyard.places.local.platform import LocalOptions, LocalPlatform
from steelyard.places.local.server import state_key
from steelyard.places.protocol import PreparedState

_CONTENT = ("pgbench", 10)


def _copy(command: Command) -> None:
    source, target = map(Path, command.argv[-2:])
    copy = shutil.copytree if source.is_dir() else shutil.copyfile
    copy(source, target)


@pytest.fixture
def processes() -> FakeProcesses:
    """Return processes that make, copy, sync and serve data directories."""
    made = FakeProcesses(FakeClock())
    made.on("fake-init", answer=Answer(does=lambda c: Path(c.argv[1]).mkdir()))
    made.on("cp", answer=Answer(does=_copy, takes_s=2.0))
    made.on("sync", answer=Answer(takes_s=0.5))
    made.on("work")
    made.on_start("fake-server")
    return made


class _Bench:
    """A platform with everything a test looks at."""

    def __init__(self, root: Path, processes: FakeProcesses) -> None:
        self.root = root
        self.processes = processes
        self.ledger = FakeLedger()
        self.program = FakeProgram()
        options = LocalOptions(root=root, campaign_id="c-1", account=None, port=None)
        self.platform = LocalPlatform(options, self.ledger, processes, processes.clock)
        self.built: list[ServerAddress] = []

    def prepare(self, build: Callable[[ServerAddress], None] | None = None) -> PreparedState:
        return self.platform.prepare(self.program, _CONTENT, build or self._build)

    def started(self) -> PreparedState:
        """Start a server on a copy of a prepared state."""
        state = self.prepare()
        self.platform.restore(state, "copy")
        self.platform.start(state, self.program, {})
        return state

    def stranger(self, state: PreparedState) -> FakeProcess:
        """Start a server on the live copy that is no child of the platform."""
        data = self.live(state)
        command = Command(argv=("fake-server", str(data)), directory=data)
        return self.processes.start(command, output=data.parent / "other.log")

    def live(self, state: PreparedState) -> Path:
        """Return where the live copy of a state is."""
        return self.root / "live" / "c-1" / state.key / "data"

    def _build(self, address: ServerAddress) -> None:
        self.built.append(address)
        (Path(self.processes.started[-1].command.argv[1]) / "table").write_text("rows")


@pytest.fixture
def bench(tmp_path: Path, processes: FakeProcesses) -> Iterator[_Bench]:
    """Return a platform, and remove its socket directory afterwards."""
    made = _Bench(tmp_path / "cache", processes)
    yield made
    made.platform.destroy()


def test_the_ledger_is_told_before_a_directory_is_made(bench: _Bench) -> None:
    """What a death leaves behind is always listed already."""
    bench.started()
    assert [verb for verb, _, _ in bench.ledger.notes] == ["created", "created"]
    assert not any(existed for _, _, existed in bench.ledger.notes)
    assert all(path.exists() for path in bench.ledger.open)


def test_destroying_removes_everything_and_notes_it(bench: _Bench) -> None:
    """Live data and sockets are gone, the server is stopped; the prepared state stays."""
    state = bench.started()
    made = bench.ledger.open
    bench.platform.destroy()
    assert len(made) == 2
    assert not any(path.exists() for path in made)
    assert bench.ledger.open == set()
    assert all(process.exit_status() is not None for process in bench.processes.started)
    assert state.data.exists()
    bench.platform.destroy()
    assert len(bench.ledger.notes) == 4


def test_a_ledger_that_fails_does_not_keep_data_alive(bench: _Bench) -> None:
    """With the journal on a full disk, live data and sockets still go."""
    bench.started()
    made = bench.ledger.open

    class _FullError(Exception):
        pass

    def full(thing: Outside) -> None:
        raise _FullError(thing)

    bench.ledger.removed = full
    with pytest.raises(_FullError):
        bench.platform.destroy()
    assert not any(path.exists() for path in made)


def test_equal_content_is_prepared_once(bench: _Bench) -> None:
    """The second campaign finds the state; nothing is built again."""
    assert bench.platform.find(bench.program, _CONTENT) is None
    first = bench.prepare()
    assert bench.platform.find(bench.program, _CONTENT) == first
    assert bench.prepare() == first
    assert len(bench.built) == 1
    assert (first.data / "table").read_text() == "rows"
    assert sorted(path.name for path in first.data.parent.iterdir()) == ["data", "ready.json"]


def test_a_state_that_was_being_made_at_a_death_is_made_anew(bench: _Bench) -> None:
    """Half a data directory is never used: only a completed one has its marker."""
    key = state_key(bench.program.identity, _CONTENT)
    unfinished = bench.root / "prepared" / f"{key}.unfinished"
    (unfinished / "data").mkdir(parents=True)
    (unfinished / "data" / "half").write_text("x")
    state = bench.prepare()
    assert not (state.data / "half").exists()
    assert not unfinished.exists()


@pytest.mark.parametrize("made_anew", [False, True])
def test_a_failed_build_leaves_no_state_and_no_server(bench: _Bench, *, made_anew: bool) -> None:
    """The error goes on; the next try starts afresh."""
    make = bench.platform.reprovision if made_anew else bench.platform.prepare

    def fail(_address: ServerAddress) -> None:
        raise TargetError("a prepare script failed")

    with pytest.raises(TargetError, match="a prepare script failed"):
        make(bench.program, _CONTENT, fail)
    assert bench.platform.find(bench.program, _CONTENT) is None
    assert all(process.exit_status() is not None for process in bench.processes.started)
    assert (make(bench.program, _CONTENT, bench._build).data / "table").exists()


def test_a_failed_initdb_is_a_sentence(bench: _Bench) -> None:
    """Its own words are in the message."""
    bench.processes.on("fake-init", answer=Answer(exit_status=1, stderr="no space\n"))
    with pytest.raises(TargetError, match="making a data directory failed: no space"):
        bench.prepare()


def test_restoring_replaces_what_was_written(bench: _Bench) -> None:
    """The live copy is the state again, whatever a start did to it."""
    state = bench.prepare()
    seconds = bench.platform.restore(state, "copy")
    assert seconds == 2.5
    live = bench.live(state)
    (live / "table").write_text("changed")
    (live / "more").write_text("x")
    assert bench.platform.has_live_copy(state)
    bench.platform.restore(state, "copy")
    assert (live / "table").read_text() == "rows"
    assert not (live / "more").exists()
    assert "--reflink=never" in bench.processes.ran[-2].argv


def test_a_copy_that_fails_is_a_sentence(bench: _Bench) -> None:
    """A full disk during a restore says so."""
    state = bench.prepare()
    bench.processes.on("cp", answer=Answer(exit_status=1, stderr="cp: No space left on device\n"))
    with pytest.raises(TargetError, match="No space left on device") as caught:
        bench.platform.restore(state, "copy")
    assert caught.value.hint


def test_reflink_is_tried_with_a_file(bench: _Bench) -> None:
    """A file system that cannot share blocks says no, and nothing of the probe stays."""
    state = bench.prepare()
    assert bench.platform.copies_by_reflink(state)
    bench.processes.on("cp", "--reflink=always", answer=Answer(exit_status=1))
    assert not bench.platform.copies_by_reflink(state)
    assert list((bench.root / "live" / "c-1").iterdir()) == []


def test_there_is_no_server_before_the_start_and_after_a_death(bench: _Bench) -> None:
    """Asking for it is an error that holds the log of the one that died."""
    with pytest.raises(TargetError, match=r"^the server is not running$"):
        _ = bench.platform.address
    bench.started()
    assert bench.platform.is_running
    process: FakeProcess = bench.processes.started[-1]
    process.log("PANIC:  disk on fire\n")
    process.finish(-6)
    assert not bench.platform.is_running
    with pytest.raises(TargetError, match="PANIC:  disk on fire"):
        bench.platform.configure({})


def test_commands_run_beside_the_server(bench: _Bench) -> None:
    """The generator works in the live directory, so that a leftover one is recognised."""
    command = Command(argv=("work",), environment={"PGHOST": "/run"}, parent_death_signal=9)
    bench.platform.begin_together([command, command], timeout_s=1)
    for ran in bench.processes.ran[-2:]:
        assert ran.directory == bench.root / "live" / "c-1"
        assert (ran.environment, ran.parent_death_signal) == ({"PGHOST": "/run"}, 9)


def test_logs_of_all_servers_are_kept_in_order(bench: _Bench) -> None:
    """What every server said can be stored after the campaign."""
    state = bench.prepare()
    for number in range(3):
        bench.platform.restore(state, "copy")
        bench.platform.start(state, bench.program, {})
        bench.processes.started[-1].log(f"server {number}\n")
    assert bench.platform.logs() == "server 0\nserver 1\nserver 2\n"
    bench.platform.stop(keep_data=False)
    assert bench.platform.logs() == "server 0\nserver 1\nserver 2\n"


def test_a_server_is_made_from_nothing_each_time(bench: _Bench) -> None:
    """Built anew, synced, never in the cache, and nothing of the last one is kept."""
    first = bench.platform.reprovision(bench.program, _CONTENT, bench._build)
    bench.platform.start(first, bench.program, {})
    (first.data / "bloat").write_text("x")
    again = bench.platform.reprovision(bench.program, _CONTENT, bench._build)
    assert not bench.platform.is_running
    assert again.data == first.data
    assert (again.data / "table").read_text() == "rows"
    assert not (again.data / "bloat").exists()
    assert len(bench.built) == 2
    assert not (bench.root / "prepared").exists()
    assert again.data.is_relative_to(bench.root / "live")


def test_a_made_server_is_in_the_ledger_first_and_gone_at_the_end(bench: _Bench) -> None:
    """Its directory is listed before it is made."""
    state = bench.platform.reprovision(bench.program, _CONTENT, bench._build)
    bench.platform.start(state, bench.program, {})
    assert not any(existed for _, _, existed in bench.ledger.notes)
    made = bench.ledger.open
    assert any(state.data.is_relative_to(directory) for directory in made)
    bench.platform.destroy()
    assert not any(path.exists() for path in made)
    assert bench.ledger.open == set()


def test_a_server_that_somebody_else_started_on_our_data_is_ended(bench: _Bench) -> None:
    """After a foreign restart, stopping ends the one that is not our child, too."""
    state = bench.started()
    bench.processes.started[-1].finish(0)
    stranger = bench.stranger(state)
    bench.platform.stop(keep_data=True)
    assert stranger.status is not None
    assert bench.processes.within(bench.live(state)) == ()


def test_one_that_does_not_end_is_told_and_its_data_are_left_alone(bench: _Bench) -> None:
    """What waits for a disk that hangs would meet other data below its feet."""
    state = bench.started()
    stranger = bench.stranger(state)
    stranger.ends_by = frozenset()
    with pytest.raises(LeftBehindError, match=f"{stranger.pid} .*do not end"):
        bench.platform.stop(keep_data=False)
    assert not bench.platform.is_running
    for _ in range(2):  # the runner does so at its end
        with pytest.raises(LeftBehindError, match="do not end"):
            bench.platform.destroy()
    assert bench.live(state).exists()
    assert bench.ledger.open
    stranger.finish(0)


def test_a_log_that_a_full_disk_does_not_take_is_kept_and_stops_nothing(
    bench: _Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server on a full disk can be stopped, and what it said is still there for the record."""
    bench.started()
    bench.processes.started[-1].log("PANIC:  No space left on device\n")

    def full(*_: object) -> None:
        raise PreflightError("no space is left on the device")

    monkeypatch.setattr("steelyard.places.local.server.append_text", full)
    bench.platform.stop(keep_data=False)
    assert bench.platform.logs() == "PANIC:  No space left on device\n"
    bench.platform.destroy()
    assert not bench.ledger.open


class _Place:
    """A platform whose server has another beside it."""

    def __init__(self, root: Path) -> None:
        self.processes = FakeProcesses(FakeClock())
        self.processes.on("fake-init", answer=Answer(does=lambda c: Path(c.argv[1]).mkdir()))
        self.processes.on("cp", answer=Answer(does=_copy))
        self.processes.on("sync")
        self.processes.on_start("fake-server")
        self.second = FakeProgram()
        self.program = FakeProgram(
            beside=Companion(program=self.second, settings={"follows": "the first"})
        )
        options = LocalOptions(root=root, campaign_id="c-1", account=None, port=None)
        self.platform = LocalPlatform(options, FakeLedger(), self.processes, self.processes.clock)

    def started(self) -> PreparedState:
        state = self.platform.prepare(self.program, ("content",), lambda _: None)
        self.platform.restore(state, "copy")
        self.platform.start(state, self.program, {})
        return state


@pytest.fixture
def place(tmp_path: Path) -> Iterator[_Place]:
    """Return a platform, and remove its socket directory afterwards."""
    made = _Place(tmp_path / "cache")
    yield made
    made.platform.destroy()


def test_it_is_started_after_the_server_and_is_no_part_of_the_state(place: _Place) -> None:
    """Preparing takes one server; a start two, each on its own data, the second with empty ones."""
    place.started()
    prepared, server, beside = place.processes.started
    assert prepared.exit_status() is not None
    homes = [Path(process.command.argv[1]) for process in (server, beside)]
    assert homes[0] != homes[1]
    assert homes[1].is_relative_to(homes[0].parent)
    assert "follows=the first" in (homes[1] / "fake.conf").read_text()
    assert place.second.polls == 1


def test_the_vantage_tells_it_apart_from_other_processes(place: _Place) -> None:
    """The server's own process and the one beside it: neither is a neighbour."""
    place.started()
    _, server, beside = place.processes.started
    seen = place.platform.vantage()
    assert seen is not None
    assert (seen.pid, seen.beside) == (server.pid, (beside.pid,))


def test_both_end_and_its_data_are_gone(place: _Place) -> None:
    """Stopping ends the second, too; the next start gives it empty data again."""
    state = place.started()
    data = Path(place.processes.started[-1].command.argv[1])
    (data / "table").write_text("rows")
    place.platform.stop(keep_data=True)
    assert all(process.exit_status() is not None for process in place.processes.started)
    assert not data.exists()
    assert place.platform.has_live_copy(state)
    place.platform.start(state, place.program, {})
    assert not (data / "table").exists()
    place.platform.destroy()
    assert all(process.exit_status() is not None for process in place.processes.started)
    assert not data.parent.exists()


def test_when_it_dies_the_server_is_no_good_any_more(place: _Place) -> None:
    """What would be measured then is another thing than what was asked for."""
    place.started()
    beside = place.processes.started[-1]
    beside.log("out of memory\n")
    beside.finish(1)
    with pytest.raises(TargetError, match="the replica is not running:\nout of memory"):
        place.platform.address  # noqa: B018 - the property is asked


def test_one_that_does_not_start_is_told_as_the_second(place: _Place) -> None:
    """The message says which of the two it was, and stopping still ends the first."""
    place.second.ready = False
    with pytest.raises(TargetError, match="the replica beside the server"):
        place.started()
    place.platform.stop(keep_data=False)
    assert all(process.exit_status() is not None for process in place.processes.started)


def test_its_log_is_kept(place: _Place) -> None:
    """What it said is in the campaign's log beside what the server said."""
    place.started()
    _, server, beside = place.processes.started
    server.log("first\n")
    beside.log("second\n")
    place.platform.stop(keep_data=False)
    assert {"first", "second"} <= set(place.platform.logs().split())
