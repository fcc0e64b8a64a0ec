"""Knobs of a record that this account's cache does not know: told, never turned or forgotten."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from fakes.campaigns import CAMPAIGN_ID, Killed, Stage
from fakes.clock import FakeClock
from fakes.processes import FakeProcesses
from fakes.sql import FakeSql
from fakes.stack import SWAPPINESS, Outside, asking
from steelyard.cli.main import cli
from steelyard.experiment import doors as doors_module
from steelyard.experiment import ledger, registry, session
from steelyard.experiment.doors import Doors
from steelyard.model.errors import ExitCode, LeftBehindError
from steelyard.record.directory import left_knobs

ASKED = {"vm.swappiness": "33", "transparent_huge_pages": "never", "vm.nr_hugepages": "90"}


@pytest.fixture
def outside() -> Outside:
    """Return a machine."""
    return Outside()


@pytest.fixture
def dead(tmp_path: Path, outside: Outside) -> Stage:
    """Return a campaign that died with its knobs turned."""
    stage = Stage.new(asking(ASKED, ASKED), tmp_path / "c", FakeClock())
    stage.stacked = lambda noted: outside.settings(stage.experiment, noted)
    stage.dying(18, "after")
    with pytest.raises(Killed):
        stage.campaign().run()
    stage.directory.close()
    assert len(left_knobs(stage.path)) == 3
    outside.kernel.files[SWAPPINESS] = "33\n"  # a kill has no end that puts the last one back
    return stage


def _doors(outside: Outside) -> Doors:
    processes = FakeProcesses(FakeClock())
    return Doors(
        processes=processes,
        sql=FakeSql(),
        clock=processes.clock,
        host=outside.kernel,
        cgroups=None,  # type: ignore[arg-type]
        kernel=outside.kernel,
    )


def _forget_the_knobs() -> None:
    """Leave the registry as another account's: it knows the campaign, and none of its knobs."""
    note = registry.directory() / CAMPAIGN_ID
    note.write_text(note.read_text().splitlines()[0] + "\n")


def test_a_knob_that_only_the_record_knows_is_left_behind(outside: Outside, dead: Stage) -> None:
    """It is not turned, what was there is said, and the exit code is that of things left."""
    _forget_the_knobs()
    written = list(outside.kernel.written)
    (leftover,) = ledger.find_leftovers(_doors(outside), [dead.path])
    assert leftover.knobs == ()
    with pytest.raises(LeftBehindError, match=r'it was \{"vm\.swappiness": "60"\}') as left:
        ledger.undo(leftover, _doors(outside))
    assert left.value.exit_code is ExitCode.LEFT_BEHIND
    assert "by hand" in left.value.hint
    assert outside.kernel.written == written
    assert len(left_knobs(dead.path)) == 3


def test_once_it_was_put_back_by_hand_it_is_left_behind_no_more(
    outside: Outside, dead: Stage
) -> None:
    """Each is looked at; the record lists only what is still not as it was."""
    _forget_the_knobs()
    outside.kernel.files[SWAPPINESS] = "60\n"
    (leftover,) = ledger.find_leftovers(_doors(outside), [dead.path])
    with pytest.raises(LeftBehindError):
        ledger.undo(leftover, _doors(outside))
    labels = [knob.label for knob in left_knobs(dead.path)]
    assert len(labels) == 2
    assert "sysctl vm.swappiness" not in labels


def test_a_resume_does_not_take_turned_values_for_those_before(
    outside: Outside, dead: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused before anything is done: the end would restore what the dead session made."""
    _forget_the_knobs()
    monkeypatch.setattr(session, "_require_room", lambda *_: pytest.fail("it went on"))
    journal = (dead.path / "journal.jsonl").read_bytes()
    with pytest.raises(LeftBehindError, match=r"vm\.swappiness is not as it was"):
        session.resume_campaign(dead.path, _doors(outside), dead.listener)
    assert (dead.path / "journal.jsonl").read_bytes() == journal


def test_clean_names_it_and_fails(
    outside: Outside, dead: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not "nothing left behind": it is listed with what was there, and the others are undone."""
    _forget_the_knobs()
    monkeypatch.setattr(doors_module, "system_doors", lambda: _doors(outside))
    result = CliRunner().invoke(cli, ["clean", str(dead.path), "--yes"])
    assert isinstance(result.exception, LeftBehindError)
    assert "knob sysctl vm.swappiness, which this account's cache does not know" in result.output
    assert '{"vm.swappiness": "60"}' in result.output


def test_a_knob_that_does_not_go_back_keeps_no_other_turned(outside: Outside, dead: Stage) -> None:
    """Somebody uses our huge pages; the rest goes back, and that is noted."""
    outside.kernel.hold(0, 50)
    (leftover,) = ledger.find_leftovers(_doors(outside), [dead.path])
    with pytest.raises(LeftBehindError, match="still in use"):
        ledger.undo(leftover, _doors(outside))
    assert outside.kernel.files[SWAPPINESS] == "60\n"
    assert [knob.label for knob in left_knobs(dead.path)] == ["sysctl vm.nr_hugepages"]


def test_a_torn_line_of_the_registry_is_of_a_knob_that_was_not_turned(
    outside: Outside, dead: Stage
) -> None:
    """The registry has it before the knob is turned; the lines before it count."""
    note = registry.directory() / CAMPAIGN_ID
    note.write_text(note.read_text() + 'knob {"knob": {"name": "lin')
    (leftover,) = ledger.find_leftovers(_doors(outside), [dead.path])
    ledger.undo(leftover, _doors(outside))
    assert outside.kernel.files[SWAPPINESS] == "60\n"
    assert left_knobs(dead.path) == ()


def test_one_campaign_does_not_keep_another_from_being_cleaned(
    tmp_path: Path, outside: Outside, dead: Stage
) -> None:
    """All are tried, and what is left of any is told in the end."""
    other = tmp_path / "live" / "zz"
    other.mkdir(parents=True)
    second = ledger.Leftover(
        campaign_id="zz", record=None, directories=(other,), processes=(), size_bytes=0
    )
    _forget_the_knobs()
    found = ledger.find_leftovers(_doors(outside), [dead.path])
    with pytest.raises(LeftBehindError, match="swappiness"):
        ledger.undo_all((*found, second), _doors(outside))
    assert not other.exists()
