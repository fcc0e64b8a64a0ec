"""What tests of the tuning stack share: knobs, and a ledger in memory."""

from dataclasses import dataclass, field

from steelyard.model.errors import RecordError
from steelyard.model.stack import Knob, KnobKind


def knob(kind: KnobKind, place: str, value: str, *, after: tuple[str, ...] = ()) -> Knob:
    """Return a knob that is called like its place."""
    return Knob(
        name=f"linux:{place}", layer="linux", kind=kind, place=place, value=value, after=after
    )


@dataclass(kw_only=True)
class MemoryLedger:
    """Snapshots by place; a full one stores nothing more."""

    full: bool = False
    snapshots: dict[str, str] = field(default_factory=dict)

    def kept(self, knob: Knob) -> str | None:
        """Return the snapshot that was kept and not put back yet, or None."""
        return self.snapshots.get(knob.place)

    def keep(self, knob: Knob, snapshot: str) -> None:
        """Store a snapshot."""
        if self.full:
            raise RecordError("no space is left")
        assert knob.place not in self.snapshots, "a snapshot was overwritten"
        self.snapshots[knob.place] = snapshot

    def put_back(self, knob: Knob) -> None:
        """Forget it."""
        del self.snapshots[knob.place]
