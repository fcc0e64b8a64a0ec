"""A latency's way from the baseline to the treatment, step by step, for charts and terminals."""

from dataclasses import dataclass
from itertools import accumulate

from steelyard.analysis.budget import BudgetChange, Part
from steelyard.model.units import MS_PER_S

PART_LABELS = {
    Part.ON_CPU: "server on a CPU",
    Part.CPU_WAIT: "server waiting for a CPU",
    Part.CPU: "server on or waiting for a CPU",
    Part.IO: "data files",
    Part.WAL: "WAL",
    Part.LWLOCK: "internal locks (LWLock)",
    Part.LOCK: "row and table locks",
    Part.REPLICATION: "standby",
    Part.OTHER: "other waits",
    Part.CLIENT: "client",
    Part.UNSEEN: "unseen",
}
REMAINDER = "medians that do not add"
_BAR = 32  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One bar of a waterfall, ms.

    Attributes:
        whole: It is a whole latency, at either end of the way.
    """

    label: str
    start_ms: float
    end_ms: float
    whole: bool = False


def steps(change: BudgetChange) -> tuple[Step, ...]:
    """Return the bars from the baseline's latency to the treatment's; none where it is missing."""
    if change.start_s is None or change.end_s is None:
        return ()
    moves = [(PART_LABELS[part.part], part.change.value) for part in change.parts]
    moves.append((REMAINDER, change.remainder_s))
    levels = list(accumulate((move for _, move in moves), initial=change.start_s))
    return (
        _whole(change.baseline, change.start_s),
        *(
            Step(label=label, start_ms=level * MS_PER_S, end_ms=(level + move) * MS_PER_S)
            for (label, move), level in zip(moves, levels, strict=False)
        ),
        _whole(change.treatment, change.end_s),
    )


def _whole(label: str, seconds: float) -> Step:
    return Step(label=label, start_ms=0.0, end_ms=seconds * MS_PER_S, whole=True)


def bars(drawn: tuple[Step, ...]) -> tuple[str, ...]:
    """Return each step as characters on one common scale; one that is too small is a dot."""
    ends = [0.0, *(end for step in drawn for end in (step.start_ms, step.end_ms))]
    least, span = min(ends), max(ends) - min(ends)

    def at(value: float) -> int:
        return round((value - least) / span * _BAR) if span else 0

    told = []
    for step in drawn:
        low, high = sorted((at(step.start_ms), at(step.end_ms)))
        told.append(" " * low + ("█" * (high - low) or "·"))
    return tuple(told)
