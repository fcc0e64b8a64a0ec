"""Small rules of a session: names, commands that reproduce, what a resume may not change."""

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from fakes.campaigns import Stage, an_experiment
from fakes.clock import FakeClock
from fakes.doors import fake_doors
from fakes.stack import Outside, a_kernel, asking
from steelyard.campaign.run import session
from steelyard.core.wording import ExitCode, InputError, PreflightError, RecordError
from steelyard.gateways.files import holding_cache
from steelyard.record import directory as record_directory
from steelyard.record import registry
from steelyard.record.directory import read_campaign
from steelyard.record.journal import Created, read_lines
from steelyard.targets.assembly import Assembly
from support.left import left_over
from support.stack import MemoryLedger


def test_a_default_directory_sorts_by_time_and_tells_its_experiment() -> None:
    """UTC time first, then the first words of the name without anything but letters."""
    doors = fake_doors(FakeClock(wall=1_795_297_411.0))
    name = "Huge pages & buffers: a very long title indeed, really"
    assert session.default_directory(name, doors) == Path(
        "campaigns/20261121-214331-huge-pages-buffers-a-very-long"
    )
    assert session.default_directory("../..", doors) == Path("campaigns/20261121-214331")


def test_the_command_repeats_a_campaign() -> None:
    """Seed, overrides and generator flags, quoted for a shell; approval when it was given."""
    command = session.command_line("my file.yaml", 7, ["stop.budget=20m"], ["--random-seed=1"])
    assert shlex.split(command) == [
        "steelyard",
        "run",
        "my file.yaml",
        "--seed",
        "7",
        "--set",
        "stop.budget=20m",
        "--",
        "--random-seed=1",
    ]
    assert "--yes" in session.command_line("x", 7, [], [], switches=["--yes"]).split()


def test_a_resume_changes_nothing_of_the_campaign(tmp_path: Path) -> None:
    """What was typed is named, with what is kept instead."""
    stage = Stage.new(an_experiment(), tmp_path / "c")
    session.require_resumable(stage.path, [])
    with pytest.raises(InputError, match="--budget, --seed cannot be changed") as caught:
        session.require_resumable(Path("c"), ["--budget", "--seed"])
    assert caught.value.exit_code is ExitCode.BAD_INPUT
    assert "c keeps its experiment" in caught.value.hint


def test_another_version_in_a_resumed_campaign_is_refused(tmp_path: Path) -> None:
    """Two versions are never mixed within a campaign; the same one goes on."""
    stage = Stage.new(an_experiment(), tmp_path / "campaign")
    stage.run()
    record = read_campaign(stage.path)
    engine = stage.bench()._engine
    session._require_same_versions(record, engine)
    engine.program("fast").version = "18.7"
    with pytest.raises(PreflightError, match=r"`fast` ran .*18\.6; installed now is 18\.7"):
        session._require_same_versions(record, engine)


def test_a_resumed_campaign_checks_its_stack_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory and privilege may be gone since the last session, and nothing is touched before."""
    stage = Stage.new(asking({}, {"vm.nr_hugepages": "100"}), tmp_path / "campaign")
    stage.run()
    outside = Outside(kernel=a_kernel(fits=20))
    assembly = Assembly(
        engine=stage.bench()._engine,
        platforms={},
        stack=outside.settings(stage.experiment, MemoryLedger()),
    )
    monkeypatch.setattr(session, "assemble", lambda *_, **__: assembly)
    with pytest.raises(PreflightError, match="do not fit"):
        session._require_room(read_campaign(stage.path), fake_doors(stage.clock))


def test_a_finished_campaign_is_only_shown_again(tmp_path: Path) -> None:
    """Resuming what is decided starts nothing: its record stays as it is, to the byte."""
    stage = Stage.new(an_experiment(), tmp_path / "campaign")
    analysis = stage.run()
    before = (stage.path / "journal.jsonl").read_bytes()
    again = session.resume_campaign(stage.path, fake_doors(stage.clock), stage.listener)
    assert again == analysis
    assert (stage.path / "journal.jsonl").read_bytes() == before


def test_a_death_after_the_end_leaves_nothing_once_it_is_resumed(tmp_path: Path) -> None:
    """Half-written reports and the note in the registry go, though nothing is run again."""
    stage = Stage.new(an_experiment(), tmp_path / "campaign")
    stage.run()
    record = read_campaign(stage.path)
    registry.register(record.campaign_id, stage.path, record.experiment)
    (stage.path / ".report.html.0f3a9c2d").write_text("<html>")
    session.resume_campaign(stage.path, fake_doors(stage.clock), stage.listener)
    assert [path.name for path in stage.path.rglob(".*")] == []
    assert list(registry.directory().iterdir()) == []


def test_what_the_dead_session_removed_is_noted_before_work_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between a removal and its line: the record does not list it for ever."""
    stage = Stage.new(an_experiment(), tmp_path / "campaign")
    stage.directory.journal.append(Created(resource="directory", name=str(tmp_path / "gone")))
    stage.directory.close()
    listed = []
    monkeypatch.setattr(session, "_require_room", lambda *_: None)
    monkeypatch.setattr(session, "_work", lambda *_: listed.append(left_over(stage.path)))
    session.resume_campaign(stage.path, fake_doors(stage.clock), stage.listener)
    assert listed == [()]


class _Given:
    """A campaign that only does one thing."""

    def __init__(self, does: Callable[[], None], clears: Callable[[], None] = lambda: None) -> None:
        self._does, self._clears = does, clears

    def run(self) -> None:
        """Do it."""
        self._does()

    def close(self) -> None:
        """Clear up."""
        self._clears()


def _session(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    does: Callable[[], None],
    clears: Callable[[], None] = lambda: None,
) -> None:
    """Run a session of a new campaign whose work is ``does``."""
    stage_listener = Stage.new(an_experiment(), path.with_name("other")).listener
    monkeypatch.setattr(session, "assemble", lambda *_, **__: _Given(does, clears))
    monkeypatch.setattr(session, "_campaign", lambda *_: _Given(does))
    request = session.Request(
        experiment=an_experiment(), text="", command="steelyard run", campaign_id="night-1"
    )
    session.new_campaign(request, path, fake_doors(FakeClock()), stage_listener)


def test_the_end_of_a_session_reads_the_journal_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left behind is known by one reading: a journal may have megabytes."""
    read: list[Path] = []

    def listen() -> None:
        def heard(path: Path) -> object:
            read.append(path)
            return read_lines(path)

        monkeypatch.setattr(record_directory, "read_lines", heard)

    _session(tmp_path / "c", monkeypatch, listen)
    assert read == [tmp_path / "c" / "journal.jsonl"]
    assert (registry.directory() / "night-1").exists()  # it may go on


@pytest.mark.parametrize("resumed", [False, True])
def test_the_cache_stays_while_a_session_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, resumed: bool
) -> None:
    """From before its first step: who asked whether a campaign runs just before removes nothing."""
    held = []

    def look(*_: object, **__: object) -> None:
        with pytest.raises(PreflightError, match="uses the cache"), holding_cache(alone=True):
            pytest.fail("the cache could be removed")
        held.append(True)

    if resumed:
        stage = Stage.new(an_experiment(), tmp_path / "c")
        stage.directory.close()
        monkeypatch.setattr(session, "_require_room", look)
        monkeypatch.setattr(session, "_work", look)
        session.resume_campaign(stage.path, fake_doors(stage.clock), stage.listener)
        assert len(held) == 2
    else:
        _session(tmp_path / "c", monkeypatch, look, look)
        assert held == [True, True]  # the work, and the clearing up after it
    with holding_cache(alone=True):
        pass  # at its end it is given back


@pytest.mark.parametrize("failed", [False, True])
def test_a_campaign_whose_record_cannot_be_read_at_its_end_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, failed: bool
) -> None:
    """Nobody knows what it left: `clean` finds it by the registry."""

    def lose_the_record() -> None:
        (tmp_path / "c" / "journal.jsonl").unlink()
        if failed:
            raise PreflightError("the disk is gone")

    with pytest.raises(PreflightError if failed else RecordError):
        _session(tmp_path / "c", monkeypatch, lose_the_record)
    assert (registry.directory() / "night-1").exists()
