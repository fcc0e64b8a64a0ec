"""A second server beside the live one: started after it, ended before it, never mistaken for it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.clock import FakeClock
from fakes.processes import Answer, FakeProcesses
from fakes.programs import FakeLedger, FakeProgram
from steelyard.core.outside import Command, Companion
from steelyard.core.wording import TargetError
from steelyard.places.local.platform import LocalOptions, LocalPlatform
from steelyard.places.protocol import PreparedState


def _copy(command: Command) -> None:
    source, target = map(Path, command.argv[-2:])
    copy = shutil.copytree if source.is_dir() else shutil.copyfile
    copy(source, target)


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
