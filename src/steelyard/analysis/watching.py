"""What the watching of runs could not see, where its samples come from, and what it cost."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.model.evidence import Evidence, Quantity
from steelyard.model.measurement import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """Something that was not measured, for one reason, in so many runs."""

    subject: str
    reason: str
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """How the runs of a campaign were watched.

    Attributes:
        runs: That were watched.
        sources: Where the wait events come from, most frequent first.
        unseen: What was not measured, most frequent first.
        own_cpu_s: Used by the probes, over all these runs.
        server_cpu_s: Used by the server to answer them; None where it is not visible.
        share: Of both in the CPU time that server, generator and Steelyard used; None where one
            of these is not known.
    """

    runs: int
    sources: tuple[str, ...]
    unseen: tuple[Unseen, ...]
    own_cpu_s: float | None
    server_cpu_s: float | None
    share: float | None


def watching(runs: Sequence[Run]) -> Watching | None:
    """Return how the runs were watched; None where none was."""
    evidence = [run.evidence for run in runs if run.evidence is not None]
    if not evidence:
        return None
    costs = [each.cost for each in evidence if each.cost is not None]
    answering = [cost.server_cpu_s for cost in costs if cost.server_cpu_s is not None]
    own_cpu_s = sum(cost.own_cpu_s for cost in costs) if costs else None
    server_cpu_s = sum(answering) if answering else None
    sources = Counter(each.waits.source for each in evidence if each.waits is not None)
    gone = Counter((each.subject, each.reason) for seen in evidence for each in seen.absent)
    return Watching(
        runs=len(evidence),
        sources=tuple(source for source, _ in sources.most_common()),
        unseen=tuple(
            Unseen(subject=subject, reason=reason, runs=number)
            for (subject, reason), number in gone.most_common()
        ),
        own_cpu_s=own_cpu_s,
        server_cpu_s=server_cpu_s,
        share=_share(evidence, own_cpu_s, server_cpu_s),
    )


def _share(
    evidence: Sequence[Evidence], own_cpu_s: float | None, server_cpu_s: float | None
) -> float | None:
    used = [_used_s(each) for each in evidence]
    if own_cpu_s is None or any(seconds is None for seconds in used):
        return None
    whole = sum(seconds for seconds in used if seconds is not None)
    return (own_cpu_s + (server_cpu_s or 0.0)) / whole if whole else None


def _used_s(evidence: Evidence) -> float | None:
    """Return what server, generator and Steelyard used; the probes are a part of these."""
    parts = [
        evidence.total(quantity)
        for quantity in (
            Quantity.SERVER_CPU_S,
            Quantity.GENERATOR_CPU_S,
            Quantity.STEELYARD_CPU_S,
        )
    ]
    return None if None in parts else sum(part for part in parts if part is not None)
