"""A latency's way from the baseline to the treatment, step by step, for charts and terminals."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from steelyard.analysis.budget import BudgetChange
from steelyard.analysis.latency_parts import Part
from steelyard.analysis.results import CampaignAnalysis
from steelyard.model.units import MS_PER_S
from steelyard.model.work_words import ONE
from steelyard.report.document import ChartKind, Figure, Value
from steelyard.report.formats import part_ms
from steelyard.report.wording import cell_name

PART_LABELS = {
    Part.ON_CPU: "server on a CPU",
    Part.CPU_WAIT: "server waiting for a CPU",
    Part.CPU: "server on or waiting for a CPU",
    Part.EXECUTING: "executing commands",
    Part.SERVING: "sockets, protocol, log",
    Part.FORKING: "forking",
    Part.BLOCKED: "blocked by storage",
    Part.IO: "data files",
    Part.WAL: "WAL",
    Part.LWLOCK: "internal locks (LWLock)",
    Part.LOCK: "row and table locks",
    Part.REPLICATION: "standby",
    Part.OTHER: "other waits",
    Part.OFF_CPU: "main thread off the CPU",
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


def waterfall_figure(analysis: CampaignAnalysis, changes: Sequence[BudgetChange]) -> Figure | None:
    """Return the ways of several comparisons, a panel each; None where there is none."""
    drawn = [change for change in changes if change.parts]
    if not drawn:
        return None
    told = "; ".join(_in_words(analysis, change) for change in drawn)
    return Figure(
        identity="waterfall",
        kind=ChartKind.WATERFALL,
        title="From the baseline's latency to the treatment's",
        caption=f"Mean latency of a {ONE} in ms, medians over blocks at the largest load; each"
        " bar is the change of one part within blocks, the largest first. The table has the"
        " intervals.",
        alt=f"Waterfall of the parts of the latency. {told}.",
        columns=("workload", "treatment", "row", "start", "end", "whole", "text"),
        rows=tuple(row for change in drawn for row in _rows(change)),
        treatments=(analysis.experiment.baseline, *analysis.experiment.contenders),
    )


def _rows(change: BudgetChange) -> Iterator[tuple[Value, ...]]:
    panel = change.cell.workload, f"{change.treatment} against {change.baseline}"
    for step in steps(change):
        moved = step.end_ms - step.start_ms
        text = part_ms(moved / MS_PER_S) if step.whole else part_ms(moved / MS_PER_S, signed=True)
        ends = round(step.start_ms, 6), round(step.end_ms, 6)
        yield (*panel, step.label, *ends, step.whole, f"{text} ms")


def _in_words(analysis: CampaignAnalysis, change: BudgetChange) -> str:
    place = f"{change.cell.workload}, {cell_name(analysis.experiment, change.cell.load)}"
    first, *_, last = steps(change)
    return f"{place}: from {first.end_ms:.3g} ms to {last.end_ms:.3g} ms"
