"""All doors in one hand: who turns which kind of knob."""

from collections.abc import Mapping

from steelyard.gateways.host import Host
from steelyard.gateways.kernel import KernelFiles
from steelyard.model.stack import KnobKind
from steelyard.tuning.applying.door import KnobDoor
from steelyard.tuning.applying.huge_pages import HugePagesDoor
from steelyard.tuning.applying.sysctl import SysctlDoor
from steelyard.tuning.applying.sysfs import SysfsDoor


def kernel_doors(host: Host, kernel: KernelFiles) -> Mapping[KnobKind, KnobDoor]:
    """Return the doors to the kernel of this machine: sysctl, /sys and huge pages."""
    pools = HugePagesDoor(host=host, kernel=kernel)
    return {
        KnobKind.SYSCTL: SysctlDoor(host=host, kernel=kernel, pools=pools),
        KnobKind.SYSFS: SysfsDoor(host=host, kernel=kernel),
        KnobKind.HUGE_PAGES: pools,
    }
