"""The doors to knobs that treatments may turn: the kernel of this machine, and its libvirt."""

from collections.abc import Mapping

from steelyard.experiment.doors import Doors
from steelyard.gateways.virsh import Virsh
from steelyard.model.stack import KnobKind
from steelyard.tuning.applying.domain import DomainDoor
from steelyard.tuning.applying.door import KnobDoor
from steelyard.tuning.applying.doors import kernel_doors


def stack_doors(doors: Doors) -> Mapping[KnobKind, KnobDoor]:
    """Return the door to each kind of knob; nothing is asked yet."""
    domains = DomainDoor(domains=Virsh(processes=doors.processes), host=doors.host)
    return {**kernel_doors(doors.host, doors.kernel), KnobKind.DOMAIN: domains}
