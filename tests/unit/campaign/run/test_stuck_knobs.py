"""Knobs that do not go back: told, and they keep nothing else from going back."""

from pathlib import Path

import pytest

from fakes.campaigns import CAMPAIGN_ID, Killed, Stage
from fakes.clock import FakeClock
from fakes.doors import fake_doors
from fakes.stack import SWAPPINESS, Outside, asking
from steelyard.campaign.cleanup import leftovers
from steelyard.core.outside import MadeDirectory
from steelyard.core.wording import LeftBehindError
from steelyard.gateways.doors import Doors
from steelyard.record import registry
from support.left import left_knobs

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
    return fake_doors(host=outside.kernel, kernel=outside.kernel)


def test_a_knob_that_does_not_go_back_keeps_no_other_turned(outside: Outside, dead: Stage) -> None:
    """Somebody uses our huge pages; the rest goes back, and that is noted."""
    outside.kernel.hold(0, 50)
    (leftover,) = leftovers.find_leftovers(_doors(outside), [dead.path])
    with pytest.raises(LeftBehindError, match="still in use"):
        leftovers.undo(leftover, _doors(outside))
    assert outside.kernel.files[SWAPPINESS] == "60\n"
    assert [knob.label for knob in left_knobs(dead.path)] == ["sysctl vm.nr_hugepages"]


def test_a_torn_line_of_the_registry_is_of_a_knob_that_was_not_turned(
    outside: Outside, dead: Stage
) -> None:
    """The registry has it before the knob is turned; the lines before it count."""
    note = registry.directory() / CAMPAIGN_ID
    note.write_text(note.read_text() + 'knob {"knob": {"name": "lin')
    (leftover,) = leftovers.find_leftovers(_doors(outside), [dead.path])
    leftovers.undo(leftover, _doors(outside))
    assert outside.kernel.files[SWAPPINESS] == "60\n"
    assert left_knobs(dead.path) == ()


def test_one_campaign_does_not_keep_another_from_being_cleaned(
    tmp_path: Path, outside: Outside, dead: Stage
) -> None:
    """All are tried, and what is left of any is told in the end."""
    other = tmp_path / "live" / "zz"
    other.mkdir(parents=True)
    second = leftovers.Leftover(
        campaign_id="zz",
        record=None,
        things=(MadeDirectory(path=other),),
        processes=(),
        size_bytes=0,
    )
    outside.kernel.hold(0, 50)
    found = leftovers.find_leftovers(_doors(outside), [dead.path])
    with pytest.raises(LeftBehindError, match="still in use"):
        leftovers.undo_all((*found, second), _doors(outside))
    assert not other.exists()
