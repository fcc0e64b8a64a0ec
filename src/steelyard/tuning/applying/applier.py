"""Applying a plan: everything is checked first, then one knob after the other, each verified.

Invariant: at every moment the record has a snapshot of each knob that may have been changed. So a
plan that was cut off anywhere is applied on by ``apply_all`` or taken back by ``reverting``.
"""

from collections.abc import Callable, Mapping, Sequence

from steelyard.model.errors import (
    PreflightError,
    PrivilegeError,
    RecordError,
    SteelyardError,
    TargetError,
)
from steelyard.model.stack import BY_HAND, Knob, KnobKind
from steelyard.model.stack_progress import Outcome, Step
from steelyard.tuning.applying.door import Check, KnobDoor
from steelyard.tuning.applying.manual import RenderedDoor
from steelyard.tuning.applying.order import ordered
from steelyard.tuning.applying.record import AppliedRecord
from steelyard.tuning.applying.selection import Selection
from steelyard.tuning.applying.turning import turn_now

Doors = Mapping[KnobKind, KnobDoor]
Told = Callable[[Step], None]
_ALL = Selection()
_FULFILLED = frozenset({Outcome.THERE, Outcome.TURNED, Outcome.RENDERED})


class UnprivilegedError(PrivilegeError):
    """The account may not turn some knobs; has the commands that would."""

    def __init__(self, message: str, *, hint: str, commands: Sequence[str]) -> None:
        super().__init__(message, hint=hint)
        self.commands = tuple(commands)


def require_all(knobs: Sequence[Knob], doors: Doors) -> None:
    """Check every knob that is not in effect, before anything is touched.

    Raises:
        PreflightError: Some cannot take effect; all of them are named.
        UnprivilegedError: The account may not turn some, with the commands for those left to do.
    """
    refused: list[SteelyardError] = []
    closed: list[PrivilegeError] = []
    open_knobs: list[Knob] = []
    for knob in knobs:
        try:
            if _door(knob, doors).verify(knob).holds:
                continue
            open_knobs.append(knob)
            _door(knob, doors).require(knob)
        except PrivilegeError as error:
            open_knobs += [] if knob in open_knobs else [knob]
            closed.append(error)
        except (PreflightError, TargetError) as error:
            refused.append(error)
    if refused:
        raise PreflightError(
            "; ".join(error.message for error in refused),
            hint=" ".join(dict.fromkeys(error.hint for error in refused if error.hint)),
        )
    if closed:
        raise UnprivilegedError(
            closed[0].message,
            hint="Nothing was changed. Run it as root, or give these commands to who may.",
            commands=[line for knob in open_knobs for line in _door(knob, doors).commands(knob)],
        )


def apply_all(
    knobs: Sequence[Knob],
    doors: Doors,
    record: AppliedRecord,
    *,
    selection: Selection = _ALL,
    told: Told = lambda _step: None,
    confirmed: Callable[[Knob], bool] = lambda _knob: False,
) -> tuple[Step, ...]:
    """Turn the knobs of a plan in order, and return what came of each.

    It stops at the first failure. What is pending holds back the knobs that need it.

    Args:
        knobs: All of the plan.
        doors: For every kind among them.
        record: Of the plan.
        selection: Which of them to turn; the others are only looked at, where they can be.
        told: Called after each knob.
        confirmed: Asks the operator whether a step of theirs is done.

    Raises:
        RecordError: The record cannot be written; the knob at hand was not turned, or is kept.
    """
    steps: dict[str, Step] = {}
    for knob in ordered(knobs):
        if selection.wants(knob):
            step = _applied(knob, doors, record, steps)
            if knob.kind in BY_HAND and step.outcome is Outcome.PENDING:
                step = _asked(step, doors, record, confirmed)
            told(step)
        else:
            step = _looked_at(knob, doors, selection)
        steps[knob.name] = step
        if step.outcome is Outcome.FAILED and selection.wants(knob):
            break
    return tuple(step for step in steps.values() if selection.wants(step.knob))


def _applied(knob: Knob, doors: Doors, record: AppliedRecord, steps: Mapping[str, Step]) -> Step:
    door = _door(knob, doors)
    if isinstance(door, RenderedDoor):
        commands = tuple(door.commands(knob))
        return Step(knob=knob, outcome=Outcome.RENDERED, commands=commands)
    missing = [name for name in knob.after if steps[name].outcome not in _FULFILLED]
    if missing:
        remedy = f"It comes after {', '.join(missing)}: apply again when that is in effect."
        return Step(knob=knob, outcome=Outcome.WAITING, remedy=remedy)
    if knob.kind in BY_HAND:
        return _step(knob, door.verify(knob), Outcome.THERE)
    try:
        check = door.verify(knob)
        there = bool(check.holds)
        if not there:
            check = turn_now(knob, door, record)
    except RecordError:
        raise
    except SteelyardError as error:
        return Step(knob=knob, outcome=Outcome.FAILED, facts=(error.message,), remedy=error.hint)
    if record.kept(knob) is not None:
        record.turned(knob, check.pending)
    return _step(knob, check, Outcome.THERE if there else Outcome.TURNED)


def _asked(
    step: Step, doors: Doors, record: AppliedRecord, confirmed: Callable[[Knob], bool]
) -> Step:
    """Return what came of a step of the operator's; what nothing can check is their word."""
    knob = step.knob
    said_before = record.applied.pending.get(knob.name) == ""
    if not said_before:
        record.turned(knob, knob.place)  # what was open and is done later is told at a revert
        if not confirmed(knob):
            return step
    check = _door(knob, doors).verify(knob)
    if check.holds is None:
        record.turned(knob, "")
        outcome = Outcome.THERE if said_before else Outcome.TURNED
        return Step(knob=knob, outcome=outcome, facts=("The operator says so.",))
    return _step(knob, check, Outcome.TURNED)


def _step(knob: Knob, check: Check, fulfilled: Outcome) -> Step:
    if check.pending:
        remedy = still_to_do(check.pending)
        if knob.kind in BY_HAND:
            how = "" if knob.value else " without --yes, and say that it is done"
            remedy = f"Do this, then apply again{how}: {check.pending}"
        return Step(knob=knob, outcome=Outcome.PENDING, facts=check.facts, remedy=remedy)
    outcome = {True: fulfilled, False: Outcome.FAILED, None: Outcome.UNSEEN}[check.holds]
    return Step(knob=knob, outcome=outcome, facts=check.facts, remedy=check.remedy)


def still_to_do(pending: str) -> str:
    """Return what must happen before a knob is in effect, as a sentence."""
    return f"Not in effect before this is done: {pending.rstrip('.')}."


def _looked_at(knob: Knob, doors: Doors, selection: Selection) -> Step:
    if isinstance(doors.get(knob.kind), RenderedDoor) or not selection.sees(knob):
        return Step(knob=knob, outcome=Outcome.RENDERED)
    if knob.kind not in doors:
        return Step(knob=knob, outcome=Outcome.WAITING)
    return _step(knob, doors[knob.kind].verify(knob), Outcome.THERE)


def verify_all(knobs: Sequence[Knob], doors: Doors) -> tuple[tuple[Knob, Check], ...]:
    """Return of every knob whether it is in effect; None where nobody can see it."""
    return tuple((knob, _verified(knob, doors)) for knob in knobs)


def _verified(knob: Knob, doors: Doors) -> Check:
    if knob.kind not in doors:
        unseen = f"There is no way to its {knob.kind} from here."
        return Check(holds=None, facts=(unseen,), remedy="Name its server with --dsn.")
    try:
        return doors[knob.kind].verify(knob)
    except SteelyardError as error:
        return Check(holds=None, facts=(error.message,), remedy=error.hint)


def _door(knob: Knob, doors: Doors) -> KnobDoor:
    if knob.kind not in doors:
        raise PreflightError(
            f"{knob.name} cannot be turned here: there is no way to its {knob.kind}",
            hint="Leave it out with --only, or name its server with --dsn.",
        )
    return doors[knob.kind]
