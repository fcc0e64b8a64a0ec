"""What a Redis server did for persistence on the two sides of a comparison, in clauses."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from steelyard.analysis.block_values import median_over
from steelyard.analysis.ledger import Cost, CostChange, LedgerChange
from steelyard.model.evidence import Evidence, Quantity
from steelyard.model.units import format_bytes, format_latencies, format_percent

_LEAST_SHARE = 0.01  # of the time: less is not worth a word
# Costs that a sentence may name beside the server's CPU time, and how.
NAMED_COSTS = {
    Cost.AOF_BYTES: "bytes of the append-only file",
    Cost.AOF_DELAYED_FSYNCS: "delayed fsyncs",
    Cost.REPLICATION_BYTES: "bytes for replicas",
    Cost.DEVICE_FLUSHES: "flushes of the data device",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Persisting:
    """What is known of both sides.

    Attributes:
        names: Of the baseline and the treatment.
        evidence: Of their runs, likewise.
        costs: How the ledger differs.
    """

    names: tuple[str, str]
    evidence: tuple[Sequence[Evidence], Sequence[Evidence]]
    costs: LedgerChange

    def clear(self, *wanted: Cost) -> Iterator[CostChange]:
        """Yield those of these costs that are clear."""
        yield from (cost for cost in self.costs.costs if cost.cost in wanted and cost.clear)


def logged(persisting: Persisting) -> Iterator[str]:
    """Yield what a request writes into the log, and how often a flush goes through."""
    for cost in persisting.clear(Cost.AOF_BYTES, Cost.DEVICE_FLUSHES):
        yield cost_clause(cost)


def held_up(persisting: Persisting, side: int) -> Iterator[str]:
    """Yield what may hold the main thread up at the storage, on the side where it is held more."""
    for cost in persisting.clear(Cost.AOF_DELAYED_FSYNCS):
        yield cost_clause(cost)
    yield from _shares(persisting, side)
    worst_s = median_over(persisting.evidence[side], lambda e: e.level(Quantity.WORST_AOF_WRITE_S))
    if worst_s:
        who = persisting.names[side]
        yield f"the longest write of the log under {who} took {format_latencies([worst_s])[0]}"


def forked(persisting: Persisting, side: int) -> Iterator[str]:
    """Yield how often a side forked, how long that took, and what its children copied."""
    evidence = persisting.evidence[side]
    forks = median_over(evidence, lambda each: each.total(Quantity.FORKS))
    took_s = median_over(evidence, lambda each: each.total(Quantity.FORK_S))
    if not forks or took_s is None:
        return
    copied = median_over(evidence, lambda each: each.level(Quantity.COPIED_BYTES))
    copies = f", up to {format_bytes(copied)} copied" if copied else ""
    yield (
        f"{persisting.names[side]} forked {forks:g} times a run,"
        f" {format_latencies([took_s / forks])[0]} each{copies}"
    )


def cost_clause(cost: CostChange) -> str:
    """Return how one cost of a request differs."""
    label = NAMED_COSTS[cost.cost]
    return f"{label} per request {_number(cost.baseline)} to {_number(cost.treatment)}"


def _number(value: float | None) -> str:
    if value is None:
        return "?"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _shares(persisting: Persisting, side: int) -> Iterator[str]:
    """Yield for how much of a side's time the log was rewritten or a snapshot saved."""
    told = {
        Quantity.AOF_REWRITING_S: "the append-only file was being rewritten",
        Quantity.RDB_SAVING_S: "a snapshot was being saved",
    }
    for quantity, what in told.items():
        share = median_over(persisting.evidence[side], partial(_share, quantity))
        if share is not None and share >= _LEAST_SHARE:
            when = f"in {format_percent(share, signed=False)} of the time"
            yield f"under {persisting.names[side]} {what} {when}"


def _share(quantity: Quantity, evidence: Evidence) -> float | None:
    seconds = evidence.total(quantity)
    return None if seconds is None or evidence.seconds <= 0 else seconds / evidence.seconds
