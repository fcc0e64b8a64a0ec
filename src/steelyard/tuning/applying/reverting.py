"""Putting back what a plan turned: the last knob first, each only where it is still the plan's.

Invariant: what is neither the plan's value nor the former one is somebody's work. It is not
touched before the operator says so.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from steelyard.model.errors import RecordError, SteelyardError
from steelyard.model.stack import BY_HAND, Knob, KnobKind
from steelyard.model.stack_progress import Outcome, Step
from steelyard.tuning.applying.applier import still_to_do
from steelyard.tuning.applying.door import Discerning, KnobDoor
from steelyard.tuning.applying.order import ordered
from steelyard.tuning.applying.record import Applied, AppliedRecord
from steelyard.tuning.applying.turning import put_back

GONE = frozenset({Outcome.RESTORED, Outcome.KEPT, Outcome.YOURS})
_WAY_OUT = (
    "To leave it so, revert with --changed keep; to put back what was there before the plan, with"
    " --changed replace."
)


class Changed(StrEnum):
    """What becomes of what somebody has changed since it was turned."""

    ASK = "ask"
    KEEP = "keep"
    REPLACE = "replace"


def revert_all(
    doors: Mapping[KnobKind, KnobDoor],
    record: AppliedRecord,
    *,
    changed: Changed = Changed.ASK,
    told: Callable[[Step], None] = lambda _step: None,
) -> tuple[Step, ...]:
    """Put back every knob that was turned, the last first, and return what came of each.

    The knobs are the record's own. One that cannot be put back holds back those it came after. A
    step of the operator's that was done since the plan began is theirs to undo.

    Raises:
        RecordError: The record cannot be written.
    """
    steps: dict[str, Step] = {}
    for knob in to_put_back(record.applied):
        holding = [
            step.knob.name
            for step in steps.values()
            if knob.name in step.knob.after and step.outcome not in GONE
        ]
        step = _reverted(knob, doors, record, changed, holding)
        if step is not None:
            steps[knob.name] = step
            told(step)
    return tuple(steps.values())


def to_put_back(applied: Applied) -> tuple[Knob, ...]:
    """Return the knobs that were turned, and the operator's steps, in the order of a revert."""
    kept = {name: entry.knob for name, entry in applied.snapshots.items()}
    order = applied.begun.knobs if applied.begun else tuple(kept.values())
    return tuple(
        kept.get(knob.name, knob)
        for knob in reversed(ordered(order))
        if knob.name in kept or (knob.kind in BY_HAND and knob.name in applied.pending)
    )


def _reverted(
    knob: Knob,
    doors: Mapping[KnobKind, KnobDoor],
    record: AppliedRecord,
    changed: Changed,
    holding: Sequence[str],
) -> Step | None:
    if holding:
        remedy = f"It goes back after {', '.join(holding)}: revert again."
        return Step(knob=knob, outcome=Outcome.WAITING, remedy=remedy)
    if knob.kind not in doors:
        facts = ("its server cannot be reached",)
        return Step(knob=knob, outcome=Outcome.FAILED, facts=facts, remedy="Start it.")
    door = doors[knob.kind]
    try:
        if knob.kind in BY_HAND:
            return _undone(knob, door, record)
        strange = _altered(knob, door, record)
        if strange and changed is not Changed.REPLACE:
            return _left(knob, record, strange, changed)
        put_back(knob, door, record)
        return _restored(knob, door)
    except RecordError:
        raise
    except SteelyardError as error:
        return Step(knob=knob, outcome=Outcome.FAILED, facts=(error.message,), remedy=error.hint)


def _altered(knob: Knob, door: KnobDoor, record: AppliedRecord) -> str:
    """Return what somebody has changed since a knob was turned.

    Where the turn did not come to its end, what is there may be half of it: that is the plan's.
    """
    snapshot = record.kept(knob)
    if snapshot is None or knob.name not in record.applied.pending:
        return ""
    return door.altered(knob, snapshot) if isinstance(door, Discerning) else ""


def _left(knob: Knob, record: AppliedRecord, strange: str, changed: Changed) -> Step:
    if changed is Changed.KEEP:
        record.put_back(knob)
        return Step(knob=knob, outcome=Outcome.KEPT, facts=(f"{strange}.",))
    return Step(knob=knob, outcome=Outcome.FAILED, facts=(strange,), remedy=_WAY_OUT)


def _undone(knob: Knob, door: KnobDoor, record: AppliedRecord) -> Step | None:
    """Return what came of a step of the operator's; their word about it is forgotten."""
    how = knob.undo or f"what undoes this: {knob.place}"
    said = record.applied.pending[knob.name] == ""
    check = door.verify(knob)
    if check.holds:
        remedy = f"Undo it, then revert again: {how}"
        return Step(knob=knob, outcome=Outcome.PENDING, facts=check.facts, remedy=remedy)
    record.put_back(knob)
    if check.holds is None and said:
        return Step(knob=knob, outcome=Outcome.YOURS, remedy=f"Undo it: {how}")
    return None


def _restored(knob: Knob, door: KnobDoor) -> Step:
    seen = door.seen(knob)
    fact = f"{knob.place} is {seen.value}."
    if knob.kind is KnobKind.FILE:
        fact = f"{knob.place} is as it was."
    remedy = still_to_do(seen.pending) if seen.pending else ""
    return Step(knob=knob, outcome=Outcome.RESTORED, facts=(fact,), remedy=remedy)
