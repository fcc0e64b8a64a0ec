"""What must have been measured of a run before its rules can judge it."""

from collections.abc import Mapping
from typing import Final

from steelyard.model.evidence import Evidence, Quantity
from steelyard.model.rules import FOREIGN_DISK, GENERATOR_SATURATED, NEIGHBOUR_CPU, STEAL

RUN_NEEDS: Final[Mapping[str, tuple[Quantity, ...]]] = {
    NEIGHBOUR_CPU: (Quantity.OTHERS_CPU_S, Quantity.CPUS),
    STEAL: (Quantity.CPU_STEAL_S, Quantity.CPUS),
    FOREIGN_DISK: (
        Quantity.DEVICE_BUSY_S,
        Quantity.DEVICE_READ_BYTES,
        Quantity.DEVICE_WRITE_BYTES,
        Quantity.SERVER_READ_BYTES,
        Quantity.SERVER_WRITTEN_BYTES,
    ),
    GENERATOR_SATURATED: (Quantity.GENERATOR_CPU_S, Quantity.CPUS),
}
OTHERS_IO: Final = "io_bytes of other processes"


def missing_for(code: str, evidence: Evidence) -> tuple[str, ...]:
    """Return what a rule for runs lacks; empty when it can judge, or needs nothing measured."""
    needed = RUN_NEEDS.get(code, ())
    missing = [
        quantity.value
        for quantity in needed
        if evidence.total(quantity) is None and evidence.level(quantity) is None
    ]
    if code == FOREIGN_DISK and all(other.io_bytes is None for other in evidence.others):
        missing.append(OTHERS_IO)
    return tuple(missing)
