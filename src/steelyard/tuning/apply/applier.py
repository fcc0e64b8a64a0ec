"""Applying a plan and taking it back, one knob at a time, each with a snapshot and a reading back.

Everything is checked before the first knob is turned. Reverting begins with the last knob.

Invariants: what is there before the first change of a knob is durably in the ledger when ``turn``
changes it, and that snapshot is never replaced by a later one, which would be of what Steelyard
itself made. So a plan that was cut off anywhere is applied on by ``apply_all`` or taken back by
``revert_all``, and both may be repeated. A value that is neither the plan's nor the former one is
somebody's work: it is not touched before the operator says so.

The ledger of a plan is DIR/applied.jsonl, a journal like that of a campaign. It has its own copy of
the knobs, so that a revert does not depend on the plan's file, and every snapshot, each on disk
before its knob is turned. A record may come from somebody else: digests of what this account wrote
into its records are in its cache, on disk before the record has it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Final, Protocol

from steelyard.core.stack import Knob, KnobKind, Outcome, Step
from steelyard.core.wording import (
    PreflightError,
    PrivilegeError,
    RecordError,
    SteelyardError,
    TargetError,
)
from steelyard.gateways.files import Lock, add_line, cache_directory, make_directory, read_text
from steelyard.gateways.host import Clock
from steelyard.record import journal
from steelyard.tuning.apply.door import Check, KnobDoor
from steelyard.tuning.apply.doors import Selection, ordered

NAME: Final = "applied.jsonl"
_LOCK: Final = "applied.lock"
_OWN: Final = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What a record says.

    Attributes:
        begun: The last plan that was begun; None where none was.
        snapshots: Of knobs that were turned and not put back, by name, in the order of turning.
        pending: What must still happen until a turned knob is in effect, by name.
    """

    begun: journal.StackBegun | None
    snapshots: dict[str, journal.KnobKept]
    pending: dict[str, str]


def read_applied(directory: Path) -> Applied:
    """Return what the record of a plan's directory says; an absent one says nothing.

    Raises:
        RecordError: It is damaged.
    """
    path = directory / NAME
    lines = journal.read_lines(path)[0] if path.exists() else ()
    return _replayed([line.entry for line in lines])


def _replayed(entries: list[journal.Entry]) -> Applied:
    begun: journal.StackBegun | None = None
    snapshots: dict[str, journal.KnobKept] = {}
    pending: dict[str, str] = {}
    for entry in entries:
        if isinstance(entry, journal.StackBegun):
            if not snapshots and (begun is None or begun.knobs != entry.knobs):
                pending = {}  # the words of an operator about another plan
            begun = entry
        elif isinstance(entry, journal.KnobKept):
            snapshots.setdefault(entry.knob.name, entry)  # the first is what was there before
        elif isinstance(entry, journal.KnobTurned):
            pending[entry.name] = entry.pending
        elif isinstance(entry, journal.KnobPutBack):
            snapshots.pop(entry.knob.name, None)
            pending.pop(entry.knob.name, None)
    return Applied(begun=begun, snapshots=snapshots, pending=pending)


def is_ours(applied: Applied) -> bool:
    """Return whether this account wrote what a revert would rest on: the server and the values."""
    known = set((read_text(_known()) or "").splitlines())
    wrote = [applied.begun, *applied.snapshots.values()]
    return all(_digest(entry) in known for entry in wrote if entry is not None)


def _known() -> Path:
    return cache_directory() / NAME


def _digest(entry: journal.Entry) -> str:
    return sha256(journal.ENTRY.dump_json(entry)).hexdigest()


class AppliedRecord:
    """An open record; the ledger of one application or revert."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        # Snapshots have the content of files that not everybody may read.
        self._journal = journal.Journal(directory / NAME, clock, mode=_OWN)
        self.applied = read_applied(directory)

    def _write(self, entry: journal.StackBegun | journal.KnobKept) -> None:
        make_directory(cache_directory())
        add_line(_known(), _digest(entry))
        self._journal.append(entry)

    def begin(self, begun: journal.StackBegun) -> None:
        """Note what is about to be applied; the same plan goes on where it was.

        Raises:
            PreflightError: Another plan is applied here and not reverted.
            RecordError: It cannot be written.
        """
        before = self.applied.begun
        if not self.applied.snapshots or before is None:
            self._write(begun)
            same = before is not None and before.knobs == begun.knobs
            pending = self.applied.pending if same else {}
            self.applied = Applied(begun=begun, snapshots={}, pending=pending)
        elif not _same(before, begun):
            raise PreflightError(
                "another plan, or the same for another server, is applied from this directory",
                hint="Revert it first with `steelyard stack revert`; the record has all it needs.",
            )
        elif any(  # a part of the plan is begun whose server or cluster was not named before
            getattr(before, name) is None and getattr(begun, name) is not None
            for name in ("server", "cluster")
        ):
            merged = replace(
                begun,
                server=begun.server or before.server,
                system_identifier=begun.system_identifier or before.system_identifier,
                server_place=begun.server_place or before.server_place,
                cluster=begun.cluster or before.cluster,
            )
            self._write(merged)
            self.applied = replace(self.applied, begun=merged)

    def kept(self, knob: Knob) -> str | None:
        """Return the snapshot that was kept and not put back yet, or None."""
        kept = self.applied.snapshots.get(knob.name)
        return None if kept is None else kept.snapshot

    def keep(self, knob: Knob, snapshot: str) -> None:
        """Store a snapshot, and return once it is on disk.

        Raises:
            RecordError: The disk is full or fails.
        """
        entry = journal.KnobKept(knob=knob, snapshot=snapshot)
        self._write(entry)
        self.applied.snapshots.setdefault(knob.name, entry)

    def turned(self, knob: Knob, pending: str) -> None:
        """Note that a knob was turned, and what is pending."""
        if self.applied.pending.get(knob.name) != pending:
            self._journal.append(journal.KnobTurned(name=knob.name, pending=pending))
            self.applied.pending[knob.name] = pending

    def put_back(self, knob: Knob) -> None:
        """Note that the snapshot is in effect again."""
        self._journal.append(journal.KnobPutBack(knob=knob))
        self.applied.snapshots.pop(knob.name, None)
        self.applied.pending.pop(knob.name, None)

    def close(self) -> None:
        """Close the file."""
        self._journal.close()


def _same(first: journal.StackBegun, second: journal.StackBegun) -> bool:
    """Return whether two beginnings are of one plan, whatever part of it was asked for.

    The part may grow: a plan that was applied with ``--only`` goes on as a whole.
    """
    servers = {each.system_identifier for each in (first, second) if each.system_identifier}
    places = {each.server_place for each in (first, second) if each.server_place}
    clusters = {(c.server, c.namespace) for c in (first.cluster, second.cluster) if c is not None}
    different = max(len(servers), len(places), len(clusters))
    return first.knobs == second.knobs and different < 2


@contextmanager
def opened(directory: Path, clock: Clock) -> Iterator[AppliedRecord]:
    """Yield the record of a directory, held against other Steelyards.

    Raises:
        PreflightError: Another one works there.
        RecordError: It is damaged or cannot be written.
    """
    lock = Lock(directory / _LOCK)
    if not lock.acquire():
        raise PreflightError(
            f"another Steelyard applies or reverts the plan in {directory}",
            hint="Wait for its end.",
        )
    try:
        with closing(AppliedRecord(directory, clock)) as record:
            yield record
    finally:
        lock.release()


_NEVER_TURNED: Final = "`steelyard stack apply` has not turned this knob: apply the plan."


class SnapshotLedger(Protocol):
    """Keeps what was there before: the record of a plan, or the journal of a campaign.

    Several knobs may turn the same thing to different values, one configuration after the other:
    who keeps snapshots of those tells them by ``Knob.kind`` and ``Knob.place``, not by their names.
    """

    def kept(self, knob: Knob) -> str | None:
        """Return the snapshot that was kept and not put back yet, or None."""

    def keep(self, knob: Knob, snapshot: str) -> None:
        """Store a snapshot, and return once it is on disk."""

    def put_back(self, knob: Knob) -> None:
        """Note that the snapshot is in effect again."""


def turn(knob: Knob, door: KnobDoor, ledger: SnapshotLedger) -> Check:
    """Turn a knob that is not in effect, and return whether it is now.

    Raises:
        TargetError: It failed, succeeded in part, or did not take effect.
        RecordError: The snapshot could not be stored; nothing was changed.
    """
    if ledger.kept(knob) is None:
        ledger.keep(knob, door.snapshot(knob))
    return change(knob, door)


def change(knob: Knob, door: KnobDoor) -> Check:
    """Turn a knob whose snapshot is kept, and return whether it is in effect, or what is pending.

    Raises:
        TargetError: It failed, succeeded in part, or did not take effect.
    """
    door.apply(knob)
    after = door.verify(knob)
    if after.holds is False and not after.pending:
        raise TargetError(
            f"{knob.name} did not take effect: {' '.join(after.facts)}", hint=after.remedy
        )
    return after


def put_back(knob: Knob, door: KnobDoor, ledger: SnapshotLedger) -> bool:
    """Restore what was there before a knob was turned; return whether there was anything to.

    Raises:
        TargetError: It failed, and the ledger still has the snapshot.
    """
    snapshot = ledger.kept(knob)
    if snapshot is None:
        return False
    door.revert(knob, snapshot)
    ledger.put_back(knob)
    return True


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
            if doors[knob.kind].verify(knob).holds:
                continue
            open_knobs.append(knob)
            doors[knob.kind].require(knob)
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
            commands=[line for knob in open_knobs for line in doors[knob.kind].commands(knob)],
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
        door = doors[knob.kind]
        if selection.wants(knob):
            step = _applied(knob, door, record, steps, confirmed)
            told(step)
        elif door.only_names or not selection.sees(knob):
            step = Step(knob=knob, outcome=Outcome.RENDERED)
        else:
            step = _step(knob, _verified(knob, door), Outcome.THERE)
        steps[knob.name] = step
        if step.outcome is Outcome.FAILED and selection.wants(knob):
            break
    return tuple(step for step in steps.values() if selection.wants(step.knob))


def _applied(
    knob: Knob,
    door: KnobDoor,
    record: AppliedRecord,
    steps: Mapping[str, Step],
    confirmed: Callable[[Knob], bool],
) -> Step:
    if door.only_names:
        return Step(knob=knob, outcome=Outcome.RENDERED, commands=tuple(door.commands(knob)))
    missing = [name for name in knob.after if steps[name].outcome not in _FULFILLED]
    if missing:
        remedy = f"It comes after {', '.join(missing)}: apply again when that is in effect."
        return Step(knob=knob, outcome=Outcome.WAITING, remedy=remedy)
    if knob.kind.is_by_hand:
        return _asked(knob, door, record, confirmed)
    try:
        check = door.verify(knob)
        there = bool(check.holds)
        if not there:
            check = turn(knob, door, record)
    except RecordError:
        raise
    except SteelyardError as error:
        return Step(knob=knob, outcome=Outcome.FAILED, facts=(error.message,), remedy=error.hint)
    if record.kept(knob) is not None:
        record.turned(knob, check.pending)
    return _step(knob, check, Outcome.THERE if there else Outcome.TURNED)


def _asked(
    knob: Knob, door: KnobDoor, record: AppliedRecord, confirmed: Callable[[Knob], bool]
) -> Step:
    """Return what came of a step of the operator's; what nothing can check is their word."""
    step = _step(knob, door.verify(knob), Outcome.THERE)
    if step.outcome is not Outcome.PENDING:
        return step
    said_before = record.applied.pending.get(knob.name) == ""
    if not said_before:
        record.turned(knob, knob.place)  # what was open and is done later is told at a revert
        if not confirmed(knob):
            return step
    check = door.verify(knob)
    if check.holds is None:
        record.turned(knob, "")
        outcome = Outcome.THERE if said_before else Outcome.TURNED
        return Step(knob=knob, outcome=outcome, facts=("The operator says so.",))
    return _step(knob, check, Outcome.TURNED)


def _step(knob: Knob, check: Check, fulfilled: Outcome) -> Step:
    if check.pending:
        remedy = still_to_do(check.pending)
        if knob.kind.is_by_hand:
            how = "" if knob.value else " without --yes, and say that it is done"
            remedy = f"Do this, then apply again{how}: {check.pending}"
        return Step(knob=knob, outcome=Outcome.PENDING, facts=check.facts, remedy=remedy)
    outcome = {True: fulfilled, False: Outcome.FAILED, None: Outcome.UNSEEN}[check.holds]
    return Step(knob=knob, outcome=outcome, facts=check.facts, remedy=check.remedy)


def still_to_do(pending: str) -> str:
    """Return what must happen before a knob is in effect, as a sentence."""
    return f"Not in effect before this is done: {pending.rstrip('.')}."


def verify_all(
    knobs: Sequence[Knob], doors: Doors, applied: Applied
) -> tuple[tuple[Knob, Check], ...]:
    """Return of every knob whether it is in effect; None where nobody can see it.

    What was never turned is not in effect for that reason alone.
    """
    checked = []
    for knob in knobs:
        check = _verified(knob, doors[knob.kind])
        turned = knob.name in applied.snapshots or knob.kind.is_by_hand
        if check.holds is False and not (turned or check.pending):
            check = replace(check, remedy=_NEVER_TURNED)
        checked.append((knob, check))
    return tuple(checked)


def _verified(knob: Knob, door: KnobDoor) -> Check:
    try:
        return door.verify(knob)
    except SteelyardError as error:
        return Check(holds=None, facts=(error.message,), remedy=error.hint)


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
    doors: Doors,
    record: AppliedRecord,
    *,
    changed: Changed = Changed.ASK,
    told: Told = lambda _step: None,
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
        step = _reverted(knob, doors[knob.kind], record, changed, holding)
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
        if knob.name in kept or (knob.kind.is_by_hand and knob.name in applied.pending)
    )


def _reverted(
    knob: Knob, door: KnobDoor, record: AppliedRecord, changed: Changed, holding: Sequence[str]
) -> Step | None:
    if holding:
        remedy = f"It goes back after {', '.join(holding)}: revert again."
        return Step(knob=knob, outcome=Outcome.WAITING, remedy=remedy)
    try:
        if knob.kind.is_by_hand:
            return _undone(knob, door, record)
        # Where the turn did not come to its end, what is there may be half of it, and the plan's.
        snapshot, strange = record.kept(knob), ""
        if snapshot is not None and knob.name in record.applied.pending:
            strange = door.altered(knob, snapshot)
        if strange and changed is not Changed.REPLACE:
            if changed is Changed.KEEP:
                record.put_back(knob)
                return Step(knob=knob, outcome=Outcome.KEPT, facts=(f"{strange}.",))
            return Step(knob=knob, outcome=Outcome.FAILED, facts=(strange,), remedy=_WAY_OUT)
        put_back(knob, door, record)
        seen = door.seen(knob)
    except RecordError:
        raise
    except SteelyardError as error:
        return Step(knob=knob, outcome=Outcome.FAILED, facts=(error.message,), remedy=error.hint)
    value = "as it was" if knob.kind is KnobKind.FILE else seen.value
    return Step(
        knob=knob,
        outcome=Outcome.RESTORED,
        facts=(f"{knob.place} is {value}.",),
        remedy=still_to_do(seen.pending) if seen.pending else "",
    )


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
