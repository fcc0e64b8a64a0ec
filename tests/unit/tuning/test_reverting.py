"""Reverting what others have changed since, and plans that were cut off at every step."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from fakes.processes import Answer
from steelyard.core.stack import Knob, KnobKind, Outcome
from steelyard.tuning.apply.applier import Changed
from support.stack import OWN_CHECK, knob
from support.stack_world import (
    DIRTY,
    EVERY_KIND,
    GUEST,
    NEW,
    OLD,
    STEP,
    THP,
    WORK_MEM,
    Death,
    World,
)


def _edit(place: str) -> Callable[[World], None]:
    return lambda world: (world.root / place.lstrip("/")).write_text("mine\n") and None


def _remove_old(world: World) -> None:
    (world.root / OLD.place.lstrip("/")).unlink()


def _ratio(world: World) -> None:
    world.kernel.write("/proc/sys/vm/dirty_ratio", "33")  # zeroes dirty_bytes, as it was before


def _selection(world: World) -> None:
    world.kernel.files[THP.place] = "[always] madvise never\n"


def _in_file(value: str | None) -> Callable[[World], None]:
    def change(world: World) -> None:
        world.server.file.pop("work_mem")
        if value is not None:
            world.server.file["work_mem"] = value

    return change


_CHANGES = [
    (NEW, _edit(NEW.place)),
    (OLD, _edit(OLD.place)),
    (OLD, _remove_old),
    (DIRTY, _ratio),
    (THP, _selection),
    (WORK_MEM, _in_file("64MB")),
    (WORK_MEM, _in_file(None)),
]


@pytest.mark.parametrize(("changed", "change"), _CHANGES)
def test_what_somebody_changed_since_is_told_and_not_touched(
    tmp_path: Path, changed: Knob, change: Callable[[World], None]
) -> None:
    """Proves for each kind that a revert destroys nobody's work, and that either way out works."""
    for way in (Changed.KEEP, Changed.REPLACE):
        world = World(place=tmp_path / way)
        before = world.state()
        world.apply()
        change(world)
        theirs = world.state()
        outcomes = {step.knob.name: step for step in world.revert()}
        assert outcomes[changed.name].outcome is Outcome.FAILED
        assert "somebody has" in outcomes[changed.name].facts[0]
        assert "--changed keep" in outcomes[changed.name].remedy
        assert list(world.record.snapshots)[-1:] == [changed.name] or changed is OLD
        steps = {step.knob.name: step.outcome for step in world.revert(way)}
        if way is Changed.KEEP:
            assert steps[changed.name] is Outcome.KEPT
            assert _of(changed, world.state()) == _of(changed, theirs)
        else:
            assert world.state() == before
        assert not world.record.snapshots


def _of(changed: Knob, state: tuple[object, ...]) -> object:
    kinds = {KnobKind.FILE: 1, KnobKind.POSTGRES: 2}
    part = state[kinds.get(changed.kind, 0)]
    if isinstance(part, dict):
        return {path: text for path, text in part.items() if changed.place.lstrip("/") in path}
    return part


def test_the_former_value_put_back_by_hand_ends_the_plan(tmp_path: Path) -> None:
    """Proves that what is as it was before needs no word, whoever did it."""
    world = World(place=tmp_path, knobs=(DIRTY, OLD))
    before = world.state()
    world.apply()
    world.kernel.write("/proc/sys/vm/dirty_ratio", "20")
    (world.root / OLD.place.lstrip("/")).write_text("vm.swappiness = 7\n")
    assert {step.outcome for step in world.revert()} == {Outcome.RESTORED}
    assert world.state() == before


_STEP = replace(
    knob(KnobKind.MANUAL, "systemctl enable x", OWN_CHECK, after=(NEW.name,)),
    undo="systemctl disable x",
)


def _answer(world: World, status: int) -> None:
    world.processes.on("sh", answer=Answer(exit_status=status))


def test_an_enabled_unit_is_undone_before_its_file_goes(tmp_path: Path) -> None:
    """Proves that the operator is told how, that the file waits, and that it goes afterwards."""
    world = World(place=tmp_path, knobs=(NEW, _STEP))
    before = world.state()
    _answer(world, 1)
    assert [step.outcome for step in world.apply()] == [Outcome.TURNED, Outcome.PENDING]
    _answer(world, 0)
    assert [step.outcome for step in world.apply()] == [Outcome.THERE, Outcome.THERE]
    steps = world.revert()
    assert [step.outcome for step in steps] == [Outcome.PENDING, Outcome.WAITING]
    assert "systemctl disable x" in steps[0].remedy
    _answer(world, 1)
    assert [step.outcome for step in world.revert()] == [Outcome.RESTORED]
    assert world.state() == before


def test_what_was_enabled_before_the_plan_stays_so(tmp_path: Path) -> None:
    """Proves that a step that was done already is not to be undone."""
    world = World(place=tmp_path, knobs=(NEW, _STEP))
    _answer(world, 0)
    world.apply()
    assert [step.outcome for step in world.revert()] == [Outcome.RESTORED]


def test_the_word_of_the_operator_does_not_survive_a_revert(tmp_path: Path) -> None:
    """Proves that it is told what to undo, once, and that the next application asks anew."""
    word = knob(KnobKind.MANUAL, "Tell the team", "", after=(NEW.name,))
    world = World(place=tmp_path, knobs=(NEW, word), willing=True)
    assert world.apply()[-1].outcome is Outcome.TURNED
    world.willing = False
    assert world.apply()[-1].outcome is Outcome.THERE  # it was said before
    steps = world.revert()
    assert [step.outcome for step in steps] == [Outcome.YOURS, Outcome.RESTORED]
    assert "what undoes this: Tell the team" in steps[0].remedy
    assert world.revert() == ()
    asked = world.apply()[-1]
    assert asked.outcome is Outcome.PENDING
    assert "without --yes" in asked.remedy


def test_a_word_about_another_plan_counts_for_nothing(tmp_path: Path) -> None:
    """Proves that a changed plan in the same directory begins without words, also if read anew."""
    word = knob(KnobKind.MANUAL, "Tell the team", "")
    world = World(place=tmp_path, knobs=(word,), willing=True)
    world.apply()
    world.willing = False
    world.knobs = (NEW,)
    world.apply()
    assert world.record.pending == {NEW.name: ""}
    world.revert()
    world.knobs = (word, NEW)
    assert world.apply()[0].outcome is Outcome.PENDING
    assert world.record.pending[word.name] != ""


def test_a_value_that_the_kernel_made_of_ours_goes_back_unasked(tmp_path: Path) -> None:
    """Proves that what a failed turn left is the plan's, though it is neither value."""
    world = World(place=tmp_path, knobs=(DIRTY,))
    before, write = world.state(), world.kernel.write
    world.kernel.write = lambda path, _text: write(path, "8192")  # type: ignore[method-assign]
    assert world.apply()[0].outcome is Outcome.FAILED
    world.kernel.write = write  # type: ignore[method-assign]
    assert world.revert()[0].outcome is Outcome.RESTORED
    assert world.state() == before


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
