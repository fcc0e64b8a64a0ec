"""Which knobs of a plan are turned from here, and which are on another machine.

A plan may have knobs for two machines: a hypervisor, and the virtual machine with the database.
They have files of the same names, so each is only turned on its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from steelyard.model.errors import InputError
from steelyard.model.stack import Knob, KnobKind

HYPERVISOR: Final = frozenset({"hypervisor", "kvm"})
THROUGH_A_SERVER: Final = frozenset(
    {KnobKind.POSTGRES, KnobKind.RENDERED, KnobKind.OBJECT, KnobKind.KUBELET}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What of a plan is turned.

    Attributes:
        layers: Asked for; empty: all.
        elsewhere: Layers that are on another machine, so that nothing tells of them here.
    """

    layers: frozenset[str] = field(default_factory=frozenset)
    elsewhere: frozenset[str] = field(default_factory=frozenset)

    def wants(self, knob: Knob) -> bool:
        """Return whether a knob is to be turned."""
        return not self.layers or knob.layer in self.layers

    def sees(self, knob: Knob) -> bool:
        """Return whether a knob can be looked at from here."""
        return knob.layer not in self.elsewhere


def selection_of(knobs: Sequence[Knob], layers: Sequence[str], *, local_server: bool) -> Selection:
    """Return what of a plan is turned from here.

    Args:
        knobs: Of the plan.
        layers: Asked for; empty: all.
        local_server: The server of the plan's settings runs here, or there is none.

    Raises:
        InputError: That would be knobs of two machines.
    """
    asked = frozenset(layers)
    chosen = [knob for knob in knobs if not asked or knob.layer in asked]
    here = {k.layer in HYPERVISOR for k in chosen if k.kind not in THROUGH_A_SERVER}
    if len(here) > 1:
        raise InputError(
            "the plan has knobs for two machines: the hypervisor, and the one of the database",
            hint="On the hypervisor say --only hypervisor --only kvm, in the virtual machine"
            " --only linux --only postgres.",
        )
    if here == {True}:
        return Selection(layers=asked, elsewhere=frozenset({"linux"}))
    if here == set() and not local_server:
        return Selection(layers=asked, elsewhere=frozenset({"linux", *HYPERVISOR}))
    return Selection(layers=asked, elsewhere=HYPERVISOR)
