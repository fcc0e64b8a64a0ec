"""Wake-up or memory distance: how much of a statement's change can be the CPU's, at most.

A CPU that waits for memory counts as busy. So distance of memory, like the clock, the work itself
and the kernel's part of waking somebody up, shows as CPU time of server or load generator; what is
no CPU time is waiting: for a CPU, for being woken up, for the network.

How the device of the data stood in a run is told by the figures that iostat makes of its counters:
None where a counter is missing, and of a mean over nothing. Source: iostat(1) of sysstat 12,
columns of ``-x``.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from steelyard.answers.costs import Cost, CostChange, Ledger, LedgerChange
from steelyard.answers.results import Grounds
from steelyard.answers.statements.compute import (
    StatementDifference,
    StatementFit,
    fit_of_statements,
)
from steelyard.core.experiment import Experiment
from steelyard.core.findings import Estimate
from steelyard.core.linux import recorded_suspects
from steelyard.core.measurement import Evidence, Fact, Quantity, Run
from steelyard.core.schedule import CellKey
from steelyard.core.units import format_share
from steelyard.report.document import BulletList, milliseconds, signed_ms

# Guesses: below the first the CPU is called no cause, from the second on the main one.
LITTLE_FRACTION = 0.25
MOST_FRACTION = 0.5
_ONE_STATEMENT = "select-only"
_ON_CPU = (Cost.SERVER_CPU, Cost.GENERATOR_CPU)
_QUEUED = (Cost.SERVER_RUN_QUEUE, Cost.GENERATOR_RUN_QUEUE)


class WaitCause(StrEnum):
    """What a change of every statement's latency is."""

    WAITING = "waiting"  # wake-ups, the queue for a CPU, the network
    CPU = "cpu"  # work, clock, distance of memory, the kernel waking somebody up
    BOTH = "both"
    UNDECIDED = "undecided"  # the range of CPU time reaches from one to another
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitReasoning:
    """What is behind a sure change of every statement's latency, between two configurations.

    Attributes:
        per_statement_s: The change.
        cpu_s: Change of the CPU time of server and load generator per transaction of select-only,
            which is one statement: the range from one end of both intervals to the other, the
            value alone where there are none; None when it is not known.
        run_queue_s: Change of their waiting for a CPU of this machine; None likewise.
        missing: Why the CPU time is not known; empty when it is.
        one_node: The server's machine shows one memory node: nothing can be far; None: unknown.
        suspects: What the record shows of the machine that makes wake-ups slow, a clause each.
    """

    baseline: str
    configuration: str
    cause: WaitCause
    per_statement_s: Estimate
    cpu_s: tuple[float, float] | None = None
    run_queue_s: float | None = None
    missing: str = ""
    one_node: bool | None = None
    suspects: tuple[str, ...] = ()

    @property
    def cpu_shares(self) -> tuple[float, float] | None:
        """Return the least and the largest share of the change that CPU time can be."""
        if self.cpu_s is None:
            return None
        shares = sorted(bound / self.per_statement_s.value for bound in self.cpu_s)
        least, most = (min(1.0, max(0.0, share)) for share in shares)
        return least, most


def waits_of(grounds: Grounds) -> tuple[WaitReasoning, ...]:
    """Return the same for a campaign; nothing where its statements were not fitted."""
    analysis = grounds.analysis
    return reason_waits(
        analysis.answer(fit_of_statements),
        None if analysis.reasons is None else analysis.reasons.ledger,
        analysis.experiment,
        analysis.runs,
        analysis.facts,
    )


def reason_waits(
    fit: StatementFit | None,
    ledger: Ledger | None,
    experiment: Experiment,
    runs: Iterable[Run] = (),
    facts: Iterable[Fact] = (),
) -> tuple[WaitReasoning, ...]:
    """Return a reasoning for each comparison in which the cost of a statement surely differs.

    Args:
        fit: Costs of statements and commits; None: there is nothing to reason about.
        ledger: Of the campaign; None where no run was watched.
        experiment: That was measured.
        runs: That count: they say on which memory nodes the server's pages were.
        facts: Of the campaign's machine; a record of an older version has none of wake-ups.
    """
    if fit is None:
        return ()
    changes = tuple(_at_one_client(ledger.changes if ledger is not None else (), experiment))
    node, suspects = _has_one_node(runs), recorded_suspects(facts)
    return tuple(
        replace(_reasoning(each, changes), one_node=node, suspects=suspects)
        for each in fit.differences
        if each.is_of_round_trips
    )


def _has_one_node(runs: Iterable[Run]) -> bool | None:
    """Return whether no run could have pages on another node; None where nobody could look."""
    watched = [run.evidence for run in runs if run.evidence is not None]
    local = [each for each in watched if each.levels.get(Quantity.SERVER_HUGE_BYTES) is not None]
    if not local or any("memory nodes" in gone.subject for each in local for gone in each.absent):
        return None
    return all(each.levels.get(Quantity.SERVER_REMOTE_NODE_FRACTION) is None for each in local)


def _at_one_client(
    changes: Iterable[LedgerChange], experiment: Experiment
) -> Iterator[LedgerChange]:
    for change in changes:
        if _is_one_statement(change.cell, experiment):
            yield change


def _is_one_statement(cell: CellKey, experiment: Experiment) -> bool:
    builtin = experiment.workload(cell.workload).builtin
    return builtin == _ONE_STATEMENT and cell.load.clients == 1 and not cell.load.is_open


def _reasoning(each: StatementDifference, changes: Sequence[LedgerChange]) -> WaitReasoning:
    pair = each.baseline, each.configuration
    found = next((c for c in changes if (c.baseline, c.configuration) == pair), None)
    parts = [found.cost(cost) for cost in _ON_CPU] if found is not None else []
    queued = [found.cost(cost) for cost in _QUEUED] if found is not None else []
    told = WaitReasoning(
        baseline=each.baseline,
        configuration=each.configuration,
        cause=WaitCause.UNKNOWN,
        per_statement_s=each.per_statement_s,
        cpu_s=_range(parts),
        run_queue_s=_value(queued),
        missing=_why_missing(parts),
    )
    return _with_cause(told)


def _with_cause(told: WaitReasoning) -> WaitReasoning:
    shares = told.cpu_shares
    if shares is None:
        return told
    cause = WaitCause.UNDECIDED
    if shares[1] <= LITTLE_FRACTION:
        cause = WaitCause.WAITING
    elif shares[0] >= MOST_FRACTION:
        cause = WaitCause.CPU
    elif shares[0] > LITTLE_FRACTION and shares[1] < MOST_FRACTION:
        cause = WaitCause.BOTH
    return replace(told, cause=cause)


def _range(parts: Sequence[CostChange]) -> tuple[float, float] | None:
    """Return the sum of all lower and of all upper bounds, in seconds."""
    ranges = [bounds for part in parts if (bounds := _bounds(part)) is not None]
    if not ranges or len(ranges) < len(parts):
        return None
    return sum(low for low, _ in ranges), sum(high for _, high in ranges)


def _bounds(part: CostChange) -> tuple[float, float] | None:
    if part.change is None or part.baseline is None:
        return None
    unit = part.baseline if part.relative else 1.0
    value, low, high = part.change.value, part.change.low, part.change.high
    return unit * (value if low is None else low), unit * (value if high is None else high)


def _value(parts: Sequence[CostChange]) -> float | None:
    """Return the sum of the changes, in seconds."""
    values = [
        part.change.value * (part.baseline if part.relative else 1.0)
        for part in parts
        if part.change is not None and part.baseline is not None
    ]
    return sum(values) if values and len(values) == len(parts) else None


def _why_missing(parts: Sequence[CostChange]) -> str:
    if not parts:
        return "no run was watched"
    return next((part.missing for part in parts if part.missing), "")


def busy_fraction(seen: Evidence) -> float | None:
    """Return %util; of a device that serves many requests at once it says little."""
    return _per(seen.total(Quantity.DEVICE_BUSY_S), seen.seconds)


def queue_length(seen: Evidence) -> float | None:
    """Return aqu-sz, the mean requests in flight."""
    return _per(seen.total(Quantity.DEVICE_QUEUE_S), seen.seconds)


def reads_per_s(seen: Evidence) -> float | None:
    """Return r/s."""
    return _per(seen.total(Quantity.DEVICE_READS), seen.seconds)


def requests_per_s(seen: Evidence) -> float | None:
    """Return r/s and w/s together."""
    return _per(_requests(seen), seen.seconds)


def read_size_bytes(seen: Evidence) -> float | None:
    """Return rareq-sz, the mean size of a read."""
    return _per(seen.total(Quantity.DEVICE_READ_BYTES), seen.total(Quantity.DEVICE_READS))


def wait_s(seen: Evidence) -> float | None:
    """Return r_await and w_await together: the mean time of a request, queue included."""
    return _per(_sum(seen, Quantity.DEVICE_READ_S, Quantity.DEVICE_WRITE_S), _requests(seen))


def _requests(seen: Evidence) -> float | None:
    return _sum(seen, Quantity.DEVICE_READS, Quantity.DEVICE_WRITES)


def _sum(seen: Evidence, one: Quantity, other: Quantity) -> float | None:
    first, second = seen.total(one), seen.total(other)
    return None if first is None or second is None else first + second


def _per(dividend: float | None, divisor: float | None) -> float | None:
    return None if dividend is None or divisor is None or divisor <= 0 else dividend / divisor


WAITS_TITLE = "Wake-up or memory distance"
_LEAD = (
    f"{WAITS_TITLE}. A CPU that waits for memory counts as busy: distance of memory shows as CPU"
    " time of server and load generator, as do the clock, the statement's work and the kernel's"
    " part of waking up another CPU. What is none is waiting:"
)
_SUSPECTS = (
    "What the record shows of the campaign's machine, as it was found at the start, that makes"
    " wake-ups slow. A configuration that changes one of them can be the cause:"
)
_WAITING = (
    "so it is waiting: being woken up (idle states, halted virtual CPUs, the hypervisor's"
    " scheduler) or the network, and not distance of memory"
)
_VERDICTS = {
    WaitCause.WAITING: _WAITING,
    WaitCause.CPU: "so it is mainly work of the CPU, of whatever kind",
    WaitCause.BOTH: "so part of it is waiting, and part work of the CPU, of whatever kind",
    WaitCause.UNDECIDED: "so these runs do not tell whether it is waiting or work of the CPU",
}
_ONE_NODE = (
    "; this machine shows one memory node, so none of it is distance of memory, unless a hypervisor"
    " below spreads that over several"
)


def wait_blocks(waits: Sequence[WaitReasoning]) -> tuple[BulletList, ...]:
    """Return a sentence for every comparison whose statements surely cost more or less.

    And what the record shows of wake-ups, unless all of them are work of the CPU.
    """
    if not waits:
        return ()
    told = BulletList(lead=_LEAD, items=tuple(_sentence(each) for each in waits))
    open_ones = (each for each in waits if each.cause is not WaitCause.CPU)
    suspects = tuple(dict.fromkeys(clause for each in open_ones for clause in each.suspects))
    return (told, BulletList(lead=_SUSPECTS, items=suspects)) if suspects else (told,)


def _sentence(each: WaitReasoning) -> str:
    change = signed_ms(each.per_statement_s, plus=True)
    begun = f"{each.configuration} against {each.baseline}: each statement {change} ms"
    shares = each.cpu_shares
    if shares is None:
        return f"{begun}; how much of it is CPU time is not known ({each.missing})."
    least, most = (format_share(share) for share in shares)
    told = f"at most {most}" if shares[0] <= 0.0 else f"{least} to {most}"
    node = _ONE_NODE if each.one_node else ""
    return f"{begun}, of which {told} is CPU time{_queue(each)}; {_VERDICTS[each.cause]}{node}."


def _queue(each: WaitReasoning) -> str:
    queued = each.run_queue_s
    if queued is None:
        return ""
    sign = "-" if queued < 0 else "+"
    return f", and {sign}{milliseconds(abs(queued))} ms is the queue for a CPU of this machine"
