"""What tests of the tuning stack share: knobs, and a ledger in memory."""

from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from steelyard.core import stack
from steelyard.core.wording import GIB, RecordError
from steelyard.tuning.apply import applier
from steelyard.tuning.apply.door import Check, KnobDoor

# A check that Steelyard writes itself: nothing in this file asks for huge pages.
OWN_CHECK = "! grep -Eqs '^[[:space:]]*-?[[:space:]]*vm[./]nr_hugepages' /etc/sysctl.d/x.conf"


def knob(
    kind: stack.KnobKind, place: str, value: str, *, after: tuple[str, ...] = ()
) -> stack.Knob:
    """Return a knob that is called like its place."""
    return stack.Knob(
        name=f"linux:{place}", layer="linux", kind=kind, place=place, value=value, after=after
    )


@dataclass(kw_only=True)
class MemoryLedger:
    """Snapshots by place; a full one stores nothing more."""

    full: bool = False
    snapshots: dict[str, str] = field(default_factory=dict)

    def kept(self, knob: stack.Knob) -> str | None:
        """Return the snapshot that was kept and not put back yet, or None."""
        return self.snapshots.get(knob.place)

    def keep(self, knob: stack.Knob, snapshot: str) -> None:
        """Store a snapshot."""
        if self.full:
            raise RecordError("no space is left")
        assert knob.place not in self.snapshots, "a snapshot was overwritten"
        self.snapshots[knob.place] = snapshot

    def put_back(self, knob: stack.Knob) -> None:
        """Forget it."""
        del self.snapshots[knob.place]


def turn(knob: stack.Knob, door: KnobDoor, ledger: MemoryLedger) -> Check:
    """Turn a knob and return whether it is in effect; what is in effect already is left alone."""
    before = door.verify(knob)
    return before if before.holds else applier.turn(knob, door, ledger)


def stack_plan(*knobs: stack.Knob, huge_pages: int = 0) -> stack.StackPlan:
    """Return a plan of these knobs, for a server that takes so many huge pages."""
    return stack.StackPlan(
        design=stack.StackDesign(
            request=stack.StackRequest(cpus=2, memory_bytes=8 * GIB),
            arithmetic=(),
            postgres=stack.PostgresDesign(
                version=18, settings=(), huge_pages=huge_pages, counted_by="counted by the test"
            ),
        ),
        knobs=knobs,
        files=(),
    )


def write_plan(directory: Path, plan: stack.StackPlan) -> None:
    """Write a plan as ``stack plan`` does."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "plan.json").write_bytes(TypeAdapter(stack.StackPlan).dump_json(plan, indent=2))
