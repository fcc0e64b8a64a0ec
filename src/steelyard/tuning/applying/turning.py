"""Turning one knob and putting it back, for whoever keeps the snapshots.

Invariant: what is there before the first change of a knob is durably in the ledger when ``turn``
changes it. A snapshot that the ledger has is never replaced by a later one, which would be of
what Steelyard itself made. Both calls may be interrupted anywhere and repeated.
"""

from typing import Protocol

from steelyard.model.errors import TargetError
from steelyard.model.stack import Knob
from steelyard.tuning.applying.door import Check, KnobDoor


class SnapshotLedger(Protocol):
    """Keeps what was there before: the record of a plan, or the journal of a campaign.

    Several knobs may turn the same thing to different values, one treatment after the other: who
    keeps snapshots of those tells them by ``Knob.kind`` and ``Knob.place``, not by their names.
    """

    def kept(self, knob: Knob) -> str | None:
        """Return the snapshot that was kept and not put back yet, or None."""
        ...

    def keep(self, knob: Knob, snapshot: str) -> None:
        """Store a snapshot, and return once it is on disk."""
        ...

    def put_back(self, knob: Knob) -> None:
        """Note that the snapshot is in effect again."""
        ...


def turn(knob: Knob, door: KnobDoor, ledger: SnapshotLedger) -> Check:
    """Turn a knob and return whether it is in effect; what is in effect already is left alone.

    Raises:
        TargetError: It failed, succeeded in part, or did not take effect.
        RecordError: The snapshot could not be stored; nothing was changed.
    """
    before = door.verify(knob)
    return before if before.holds else turn_now(knob, door, ledger)


def turn_now(knob: Knob, door: KnobDoor, ledger: SnapshotLedger) -> Check:
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
