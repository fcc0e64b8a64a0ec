"""Whether a lasting drop is that of neighbours who came, and not of credits that ran out.

Both look alike in the rates. Beside a long run stands what used the machine second by second: who
took the CPU time that the server and the generator no longer had.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steelyard.model.evidence import Quantity, WaitClass
from steelyard.model.measurement import SustainedRun
from steelyard.stats.cliff import SKIPPED_S, CliffScan

# A guess, and in each of the three questions the same: the larger part decides.
LARGER_PART = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sides:
    """Means per second before and after a drop, by name; what was not seen is not there."""

    before: dict[str, float]
    after: dict[str, float]

    def rise(self, *names: str) -> float:
        """Return how much more there is of them after the drop; 0 of what was not seen."""
        return sum(self.after.get(name, 0.0) - self.before.get(name, 0.0) for name in names)

    def has(self, *names: str) -> bool:
        """Return whether all of them were seen on both sides."""
        return all(name in self.before and name in self.after for name in names)


def taken_by_neighbours(parts: Sequence[SustainedRun], at_s: float, scan: CliffScan) -> bool:
    """Return whether other processes took what server and generator have less after a drop.

    Yes, when they use more CPU time by the larger part of it, the server was not held back by a
    quota or by the hypervisor instead (which leaves the CPUs to others, too), and waiting for data
    files and the WAL is not the larger part of what a transaction takes longer. No, where this was
    not seen: then the drop stands.

    Args:
        parts: Of the long run, with their evidence.
        at_s: The drop, in seconds from the start of the run.
        scan: The rates on both sides of it.
    """
    host = _sides(parts, "host", at_s)
    own = (Quantity.SERVER_CPU_S, Quantity.GENERATOR_CPU_S)
    if not host.has(*own, Quantity.OTHERS_CPU_S):
        return False
    lost = -host.rise(*own)
    held_back = host.rise(Quantity.THROTTLED_S, Quantity.CPU_STEAL_S)
    return (
        lost > 0.0
        and host.rise(Quantity.OTHERS_CPU_S) >= LARGER_PART * lost
        and held_back < LARGER_PART * lost
        and not _waits_for_devices(parts, at_s, scan)
    )


def _waits_for_devices(parts: Sequence[SustainedRun], at_s: float, scan: CliffScan) -> bool:
    waits = _sides(parts, "waits", at_s)
    devices = (WaitClass.IO, WaitClass.WAL)
    if not waits.has(*devices):
        return False
    clients = parts[0].cell.load.clients
    longer_s = clients / scan.sustained - clients / scan.burst
    waiting_s = (
        sum(waits.after[name] for name in devices) / scan.sustained
        - sum(waits.before[name] for name in devices) / scan.burst
    )
    return waiting_s >= LARGER_PART * longer_s


def _sides(parts: Sequence[SustainedRun], subject: str, at_s: float) -> _Sides:
    """Return the means of a subject's columns on both sides, without the settling at the start."""
    seen: dict[str, list[tuple[float, float]]] = {}
    for part in parts:
        later_s = part.started_at - parts[0].started_at
        for series in part.evidence.series if part.evidence is not None else ():
            for end_s, row in zip(series.end_s, series.rows, strict=True):
                for name, value in zip(series.names, row, strict=True):
                    if series.subject == subject and value is not None:
                        seen.setdefault(name, []).append((later_s + end_s, value))
    before = {
        name: [v for end_s, v in pairs if SKIPPED_S < end_s <= at_s] for name, pairs in seen.items()
    }
    after = {name: [v for end_s, v in pairs if end_s > at_s] for name, pairs in seen.items()}
    return _Sides(
        before={name: float(np.mean(values)) for name, values in before.items() if values},
        after={name: float(np.mean(values)) for name, values in after.items() if values},
    )
