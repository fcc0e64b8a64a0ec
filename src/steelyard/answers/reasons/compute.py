"""Why a comparison came out as it did: one sentence that says which part of the latency changed.

The sentence is from evidence alone. Named is only what is clear (``observations.is_clear``) and
weighs at least a tenth of the change. It says what changed, and what differs between the two; that
the one is because of the other is said nowhere. Of a Redis server it also says what it did for
persistence on the two sides.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from steelyard.answers import observations as obs
from steelyard.answers.budget import (
    Budget,
    BudgetChange,
    Part,
    PartChange,
    class_of,
    split_latency,
)
from steelyard.answers.cells import differing_sides
from steelyard.answers.costs import (
    Cost,
    CostChange,
    Ledger,
    LedgerChange,
    campaign_ledger,
)
from steelyard.answers.observations import watching
from steelyard.answers.results import Grounds
from steelyard.core.experiment import Experiment, Layer
from steelyard.core.findings import Estimate
from steelyard.core.measurement import Evidence, Quantity, Run
from steelyard.core.quantities import INLINE, Named
from steelyard.core.schedule import BaselineName, CellKey, ConfigurationName
from steelyard.core.target import EngineName
from steelyard.core.wording import format_bytes, format_latencies, format_percent, format_share

_LEAST_SHARE = 0.01  # of the time: less is not worth a word
# Costs that a sentence may name beside the server's CPU time, and how.
NAMED_COSTS = {
    Cost.AOF_BYTES: "bytes of the append-only file",
    Cost.AOF_DELAYED_FSYNCS: "delayed fsyncs",
    Cost.REPLICATION_BYTES: "bytes for replicas",
    Cost.DEVICE_FLUSHES: "flushes of the data device",
}
NOTABLE_SHARE = 0.1  # of the change: less is not worth a word
_GONE = 0.1  # of the baseline's part: less is called gone
_EVENTS = 2  # that are named of a class
_EVENT_SHARE = 0.1  # of a class's sessions: rarer events are not named
_AT_LIMIT = 0.9  # of the reads that a limit lets through
_BEFORE_DEVICE = 2.0  # waiting sessions per request in the device: more wait in front of it
_LOGGING = {EngineName.REDIS: (Cost.AOF_BYTES, Cost.AOF_DELAYED_FSYNCS)}
_NOTHING = "no part of the latency changed by more than its interval"
PART_NAMES = {
    Part.ON_CPU: "the server's CPU time",
    Part.CPU_WAIT: "the server's waiting for a CPU",
    Part.CPU: "the server on a CPU or waiting for one",
    Part.EXECUTING: "executing commands",
    Part.SERVING: "the main thread's other CPU time (sockets, protocol, append-only file)",
    Part.FORKING: "forking",
    Part.BLOCKED: "the main thread blocked by storage",
    Part.IO: "waiting for data files",
    Part.WAL: "WAL",
    Part.LWLOCK: "the server's internal locks",
    Part.LOCK: "locks of rows and tables",
    Part.REPLICATION: "waiting for a standby",
    Part.OTHER: "other waits",
    Part.OFF_CPU: "the main thread off the CPU (storage, or waiting for requests)",
    Part.CLIENT: "the client (round trip, generator, wake-ups)",
    Part.UNSEEN: "unseen by the samples",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a comparison came out as it did, as far as the evidence says.

    Attributes:
        sentence: To be read alone, without a full stop at its end.
        parts: Largest change first.
        costs: Of the ledger, those that it names.
    """

    baseline: BaselineName
    configuration: ConfigurationName
    cell: Annotated[CellKey, INLINE]
    sentence: Annotated[str, "The explanation, in one sentence."]
    parts: Annotated[tuple[Part, ...], "Names of the parts of the latency that explain it."] = ()
    costs: Annotated[tuple[Cost, ...], "Costs of a transaction, by name."] = ()
    differing: Annotated[tuple[str, ...], "Settings that differ."] = ()


Differing = Mapping[tuple[str, str], tuple[str, ...]]  # by baseline and configuration


def explain(
    seen: obs.Observations,
    experiment: Experiment,
    ledger: Ledger,
    budget: Budget,
    differing: Differing,
) -> tuple[Explanation, ...]:
    """Return an explanation of every comparison in every cell, cell by cell."""
    asked = {(each.baseline, each.configuration): each for each in obs.result_contrasts(experiment)}
    costs = {(each.baseline, each.configuration, each.cell): each for each in ledger.changes}
    explained = []
    for change in budget.changes:
        pair = change.baseline, change.configuration
        case = _Case(
            change=change,
            costs=costs[*pair, change.cell],
            runs=_sides(seen, asked[pair], change.cell),
            read_limits=(
                _read_limit(seen, experiment, asked[pair].negative),
                _read_limit(seen, experiment, asked[pair].positive),
            ),
            differing=differing.get(pair, ()),
            engine=experiment.engine,
            work=experiment.words.one,
        )
        explained.append(_explanation(case))
    return tuple(explained)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """Everything that is known of one comparison in one cell."""

    change: BudgetChange
    costs: LedgerChange
    runs: tuple[tuple[Run, ...], tuple[Run, ...]]
    differing: tuple[str, ...]
    read_limits: tuple[float | None, float | None]  # of the device, reads/s, asked of each side
    engine: EngineName
    work: str  # what clients ask for, as a noun

    def clear(self, *wanted: Cost) -> Iterator[CostChange]:
        """Yield those of these costs that are clear."""
        yield from (cost for cost in self.costs.costs if cost.cost in wanted and cost.clear)

    def name(self, side: int) -> str:
        """Return the name of the baseline (0) or of the configuration (1)."""
        return self.change.configuration if side else self.change.baseline

    def evidence(self, side: int) -> list[Evidence]:
        """Return what was seen around the runs of the negative (0) or the positive side (1)."""
        return [run.evidence for run in self.runs[side] if run.evidence is not None]


def _sides(
    seen: obs.Observations, asked: obs.ResultContrast, cell: CellKey
) -> tuple[tuple[Run, ...], tuple[Run, ...]]:
    def of(places: Sequence[int]) -> tuple[Run, ...]:
        return tuple(run for place in places for run in seen.runs[seen.configurations[place], cell])

    return of(asked.negative), of(asked.positive)


def _read_limit(
    seen: obs.Observations, experiment: Experiment, places: Sequence[int]
) -> float | None:
    """Return the limit of reads per second that all configurations of a side ask for, or None."""
    asked = [
        experiment.configuration(seen.configurations[place]).asked(Layer.CGROUP) for place in places
    ]
    limits = {limited.get("read_iops") for limited in asked}
    only = limits.pop() if len(limits) == 1 else None
    return float(only) if only else None


def _explanation(case: _Case) -> Explanation:
    change = case.change
    parts = notable_parts(change)
    costs = tuple(_named_costs(case, parts))
    return Explanation(
        baseline=change.baseline,
        configuration=change.configuration,
        cell=change.cell,
        sentence="; ".join([_finding(case, parts, costs), *_apart(case, parts, costs)]),
        parts=tuple(part.part for part in parts),
        costs=tuple(cost.cost for cost in costs),
        differing=case.differing,
    )


def notable_parts(change: BudgetChange) -> tuple[PartChange, ...]:
    """Return the parts that are clear and weigh at least a tenth of the change."""
    whole_s = 0.0 if change.change is None else abs(change.change.value)
    weight_s = max([whole_s, *(abs(part.change.value) for part in change.parts)])
    return tuple(
        part
        for part in change.parts
        if part.clear and abs(part.change.value) >= NOTABLE_SHARE * weight_s
    )


def _finding(case: _Case, parts: Sequence[PartChange], costs: Sequence[CostChange]) -> str:
    """Return what changed, in one clause."""
    change = case.change
    work = case.work
    alone = [cost for cost in costs if not parts or cost.cost is Cost.SERVER_CPU]
    told = [_cost_clause(cost, work) for cost in alone]
    if change.missing:
        return "; ".join([f"the latency was not split: {change.missing}", *told])
    if change.change is None or change.change.low is None:
        return "too few blocks for an interval, so nothing is named"
    if parts:
        named = " and ".join(_part_clause(case, part) for part in parts)
        return "; ".join([f"of {format_change(change.change)} per {work}, {named}", *told])
    if change.clear:
        whole = f"the latency changed by {format_change(change.change)}"
        return "; ".join([f"{whole}, but no part of it by more than its interval", *told])
    return "; ".join([_NOTHING, *told])


def format_change(seconds: Estimate) -> str:
    """Return a change of a time with its interval: ``-4.90 ms [-5.20, -4.60]``."""
    if seconds.low is None or seconds.high is None:
        return format_latencies([seconds.value], signed=True)[0]
    told = format_latencies([seconds.value, seconds.low, seconds.high], signed=True)
    value, low, high = told[0], *(end.split(" ")[0] for end in told[1:])
    return f"{value} [{low}, {high}]"


def _part_clause(case: _Case, part: PartChange) -> str:
    details = "; ".join(_DETAILS.get(part.part, _events)(case, part))
    remark = f" ({details})" if details else ""
    gone = part.configuration_s < _GONE * part.baseline_s and part.baseline_s > 0.0
    left = " (almost gone)" if gone else ""
    return f"{format_change(part.change)} is {_name(case, part)}{remark}{left}"


def _name(case: _Case, part: PartChange) -> str:
    if part.part is Part.WAL and "sync" in " ".join(_top_events(case, part)).lower():
        return "WAL sync"
    return PART_NAMES[part.part]


def _events(case: _Case, part: PartChange) -> Iterator[str]:
    """Yield the names of the events that make up a part, the most frequent first."""
    events = _top_events(case, part)
    if events:
        yield ", ".join(events)


def _top_events(case: _Case, part: PartChange) -> list[str]:
    """Return them of the side where the part is larger."""
    group = class_of(part.part)
    sessions: dict[str, float] = defaultdict(float)
    for evidence in case.evidence(_larger_side(part)):
        events = () if evidence.waits is None else evidence.waits.events
        for event in events:
            if event.group is group and event.name:
                sessions[event.name] += event.sessions
    whole = sum(sessions.values())
    frequent = sorted(sessions, key=lambda name: (-sessions[name], name))[:_EVENTS]
    return [name for name in frequent if sessions[name] >= _EVENT_SHARE * whole]


def _larger_side(part: PartChange) -> int:
    return int(part.configuration_s > part.baseline_s)


def _wal(case: _Case, part: PartChange) -> Iterator[str]:
    yield from _events(case, part)
    syncs = case.costs.cost(Cost.WAL_SYNCS)
    if syncs.clear and syncs.baseline is not None and syncs.configuration is not None:
        yield f"WAL syncs per transaction {syncs.baseline:.3g} to {syncs.configuration:.3g}"


def _io(case: _Case, part: PartChange) -> Iterator[str]:
    """Yield the events, and how the data device stood where more was waited for it."""
    yield from _events(case, part)
    yield from _device(case, part)
    side = _larger_side(part)
    evidence = case.evidence(side)
    reads, limit = obs.median_over(evidence, obs.reads_per_s), case.read_limits[side]
    if reads is not None and limit is not None and reads >= _AT_LIMIT * limit:
        yield f"its {reads:,.0f} reads/s are all that the limit of {limit:,.0f} lets through"
    elif found := obs.device_limit(evidence):
        yield f"second by second the same {found.words}: a limit of the storage"
    waiting, queued = (
        obs.median_over(evidence, _io_sessions),
        obs.median_over(evidence, obs.queue_length),
    )
    if waiting and queued is not None and waiting > _BEFORE_DEVICE * queued:
        yield (
            f"{waiting:.1f} sessions waited while {queued:.1f} requests were in it, so most of"
            " this wait is in front of the device"
        )


def _device(case: _Case, part: PartChange) -> Iterator[str]:
    """Yield how the data device stood on the side where the part is larger."""
    side = _larger_side(part)
    evidence = case.evidence(side)
    busy = obs.median_over(evidence, obs.busy_fraction)
    requests = obs.median_over(evidence, obs.requests_per_s)
    if busy is None or requests is None:
        return
    await_s = obs.median_over(evidence, obs.wait_s)
    each = "" if await_s is None else f", {format_latencies([await_s])[0]} each"
    yield (
        f"under {case.name(side)} the data device was {format_share(busy)} busy with"
        f" {requests:,.0f} requests/s{each}"
    )


def _blocked(case: _Case, part: PartChange) -> Iterator[str]:
    """Yield what the storage was asked for where the main thread was held up more."""
    yield from _held_up(case, _larger_side(part))
    yield from _device(case, part)


def _cpu_wait(case: _Case, part: PartChange) -> Iterator[str]:
    """Yield how often a quota stopped the server, where it did."""
    side = _larger_side(part)
    share = partial(_per, above=Quantity.THROTTLED_PERIODS, below=Quantity.QUOTA_PERIODS)
    periods = obs.median_over(case.evidence(side), share)
    if periods:
        yield (
            f"a CPU quota stopped the server of {case.name(side)} in {format_share(periods)} of"
            " its periods"
        )


def _logged(case: _Case) -> Iterator[str]:
    """Yield what a request writes into the log, and how often a flush goes through."""
    for cost in case.clear(Cost.AOF_BYTES, Cost.DEVICE_FLUSHES):
        yield cost_clause(cost)


def _held_up(case: _Case, side: int) -> Iterator[str]:
    """Yield what may hold the main thread up at the storage, on the side where it is held more."""
    for cost in case.clear(Cost.AOF_DELAYED_FSYNCS):
        yield cost_clause(cost)
    yield from _shares(case, side)
    worst_s = obs.median_over(case.evidence(side), lambda e: e.level(Quantity.WORST_AOF_WRITE_S))
    if worst_s:
        took = format_latencies([worst_s])[0]
        yield f"the longest write of the log under {case.name(side)} took {took}"


def _forked(case: _Case, side: int) -> Iterator[str]:
    """Yield how often a side forked, how long that took, and what its children copied."""
    evidence = case.evidence(side)
    forks = obs.median_over(evidence, lambda each: each.total(Quantity.FORKS))
    took_s = obs.median_over(evidence, lambda each: each.total(Quantity.FORK_S))
    if not forks or took_s is None:
        return
    copied = obs.median_over(evidence, lambda each: each.level(Quantity.COPIED_BYTES))
    copies = f", up to {format_bytes(copied)} copied" if copied else ""
    yield (
        f"{case.name(side)} forked {forks:g} times a run,"
        f" {format_latencies([took_s / forks])[0]} each{copies}"
    )


def cost_clause(cost: CostChange) -> str:
    """Return how one cost of a request differs."""
    label = NAMED_COSTS[cost.cost]
    return f"{label} per request {_number(cost.baseline)} to {_number(cost.configuration)}"


def _number(value: float | None) -> str:
    if value is None:
        return "?"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _shares(case: _Case, side: int) -> Iterator[str]:
    """Yield for how much of a side's time the log was rewritten or a snapshot saved."""
    told = {
        Quantity.AOF_REWRITING_S: "the append-only file was being rewritten",
        Quantity.RDB_SAVING_S: "a snapshot was being saved",
    }
    for quantity, what in told.items():
        share = obs.median_over(case.evidence(side), partial(_per, above=quantity, below=None))
        if share is not None and share >= _LEAST_SHARE:
            when = f"in {format_share(share)} of the time"
            yield f"under {case.name(side)} {what} {when}"


def _per(evidence: Evidence, above: Quantity, below: Quantity | None) -> float | None:
    return obs.ratio_of_sums((evidence,), above, below)


_DETAILS: Mapping[Part, Callable[[_Case, PartChange], Iterator[str]]] = {
    Part.WAL: _wal,
    Part.IO: _io,
    Part.CPU_WAIT: _cpu_wait,
    Part.CPU: _cpu_wait,
    Part.SERVING: lambda case, _part: _logged(case),
    Part.FORKING: lambda case, part: _forked(case, _larger_side(part)),
    Part.BLOCKED: _blocked,
    Part.OFF_CPU: _blocked,
    # Its one event says nothing that its name does not say.
    Part.CLIENT: lambda _case, _part: iter(()),
}


def _named_costs(case: _Case, parts: Sequence[PartChange]) -> Iterator[CostChange]:
    """Yield the costs that the sentence rests on."""
    named = {part.part for part in parts}
    wanted = []
    if not named or named & {Part.ON_CPU, Part.CPU}:
        wanted.append(Cost.SERVER_CPU)  # steadier than tps: told even where no part is
    if Part.WAL in named:
        wanted.append(Cost.WAL_SYNCS)
    if named & {Part.CPU, Part.CPU_WAIT}:
        wanted.append(Cost.THROTTLED)
    for cost in map(case.costs.cost, wanted):
        if cost.clear:
            yield cost
    yield from case.clear(*_LOGGING.get(case.engine, ()))


def _cost_clause(cost: CostChange, work: str) -> str:
    """Return how a cost that stands alone changed: the server's CPU time, or what it logs."""
    if cost.cost in NAMED_COSTS:
        return cost_clause(cost)
    if cost.change is None or not cost.relative:
        return f"the server's CPU per {work} changed"
    low, high = cost.change.low or 0.0, cost.change.high or 0.0
    interval = f"[{format_percent(low)}, {format_percent(high)}]"
    return f"CPU per {work} of the server {format_percent(cost.change.value)} {interval}"


def _apart(case: _Case, parts: Sequence[PartChange], costs: Sequence[CostChange]) -> Iterator[str]:
    """Yield what differs between the two, where something changed at all."""
    names = case.differing
    if not names or not (parts or costs or case.change.clear):
        return
    if len(names) == 1:
        yield f"what differs is {names[0]}"
        return
    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    yield f"{listed} differ at once and are not separated by this comparison"


def _io_sessions(evidence: Evidence) -> float | None:
    group = class_of(Part.IO)
    if evidence.waits is None or group is None:
        return None
    return evidence.waits.sessions_in(group)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasons:
    """Where the time of transactions goes, what they cost, and how both differ.

    Attributes:
        explanations: One per comparison and cell; empty for a single configuration.
        watching: What could not be seen, and what the watching cost.
    """

    explanations: Annotated[
        tuple[Explanation, ...], "Why latency changed, one sentence for each comparison."
    ]
    budget: Annotated[Budget, Named("latency_budget"), "Parts of the time of a transaction."]
    ledger: Annotated[Ledger, "Costs of a transaction: CPU, WAL, pages, device."]
    watching: Annotated[obs.Watching, "Cost of the probes."]


def campaign_reasons(grounds: Grounds) -> Reasons | None:
    """Return the reasons; None where no run that counts has evidence."""
    seen, experiment = grounds.seen, grounds.record.experiment
    ledger, budget = grounds.analysis.answer(campaign_ledger), split_latency(seen, experiment)
    watched = watching(grounds.record.counted_runs)
    if ledger is None or budget is None or watched is None:
        return None
    differing = {
        (contrast.baseline, contrast.configuration): differing_sides(
            grounds.analysis.settings, contrast
        )
        for contrast in obs.result_contrasts(experiment)
    }
    return Reasons(
        ledger=ledger,
        budget=budget,
        explanations=explain(seen, experiment, ledger, budget, differing),
        watching=watched,
    )
