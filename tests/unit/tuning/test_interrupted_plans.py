"""Plans with a knob of every kind, cut off before, in and after every step in turn."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from support.stack_world import EVERY_KIND, GUEST, STEP, Death, World


def _worlds(tmp_path: Path) -> Iterator[World]:
    """Yield a world for each step that it may die at."""
    for number in count():
        world = World(place=tmp_path / f"w{number}", knobs=EVERY_KIND, willing=True)
        world.dies_at = number
        yield world
        world.dies_at = None


def _died(world: World, verb: str) -> bool:
    try:
        getattr(world, verb)()
    except Death:
        world.dies_at = None
        return True
    return False


@pytest.mark.slow
def test_a_plan_that_dies_anywhere_can_be_applied_on(tmp_path: Path) -> None:
    """Proves for every step that the planned state is reached, and the original one after it."""
    world = World(place=tmp_path / "whole", knobs=EVERY_KIND, willing=True)
    before = world.state()
    world.apply()
    planned, said = world.state(), world.record.pending
    assert said[STEP.name] == ""
    assert "virsh start guest" in said[GUEST.name]
    deaths = 0
    for mortal in _worlds(tmp_path):
        if not _died(mortal, "apply"):
            break
        deaths += 1
        mortal.apply()
        assert mortal.state() == planned
        assert mortal.record.pending == said
        mortal.revert()
        assert mortal.state() == before
        assert not mortal.record.pending
    assert deaths > 5 * len(EVERY_KIND)


@pytest.mark.slow
def test_a_plan_that_dies_anywhere_can_be_reverted(tmp_path: Path) -> None:
    """Proves for every step that the exact original state comes back."""
    before = World(place=tmp_path / "whole", knobs=EVERY_KIND, willing=True).state()
    for mortal in _worlds(tmp_path):
        if not _died(mortal, "apply"):
            break
        mortal.revert()
        assert mortal.state() == before
        assert not mortal.record.snapshots
        assert not mortal.record.pending


@pytest.mark.slow
def test_a_revert_that_dies_anywhere_can_be_repeated(tmp_path: Path) -> None:
    """Proves for every step of a revert that a second one finishes it."""
    before = World(place=tmp_path / "whole", knobs=EVERY_KIND, willing=True).state()
    deaths = 0
    for mortal in _worlds(tmp_path):
        dies_at, mortal.dies_at = mortal.dies_at, None
        mortal.apply()
        mortal.steps, mortal.dies_at = count(), dies_at
        if not _died(mortal, "revert"):
            break
        deaths += 1
        mortal.revert()
        assert mortal.state() == before
        assert not mortal.record.pending
    assert deaths > 3 * len(EVERY_KIND)
