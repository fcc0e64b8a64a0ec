"""Waiting: for a CPU, for the device of the data, for what PostgreSQL names.

Wake-up or memory distance: how much of a statement's change can be the CPU's, at most. A CPU that
waits for memory counts as busy. So distance of memory, like the clock, the work itself
and the kernel's part of waking somebody up, shows as CPU time of server or load generator; what is
no CPU time is waiting: for a CPU, for being woken up, for the network.

Devices and wait events: the columns of ``iostat -x`` and the ranked wait events of each
configuration and cell, as the record has them. They describe; no verdict rests on them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import numpy as np

from steelyard.answers.costs import Cost, CostChange, Ledger, LedgerChange
from steelyard.answers.observations import (
    WAITS,
    Observations,
    level,
    ratio_of_sums,
    reason_among,
    subjects_of,
    watched_blocks,
)
from steelyard.answers.results import CampaignAnalysis, Grounds, cell_name
from steelyard.answers.statements.compute import (
    StatementDifference,
    StatementFit,
    fit_of_statements,
)
from steelyard.core.experiment import Experiment
from steelyard.core.findings import Estimate
from steelyard.core.linux import recorded_suspects
from steelyard.core.measurement import (
    Evidence,
    Fact,
    Quantity,
    Run,
    SustainedRun,
    WaitClass,
)
from steelyard.core.schedule import CellKey
from steelyard.core.units import KIB, MIB, format_percent, format_share
from steelyard.report.document import (
    MISSING,
    Block,
    BulletList,
    Column,
    Json,
    Paragraph,
    Row,
    Section,
    Table,
    bounds,
    ended,
    enumeration,
    interval,
    load_json,
    milliseconds,
    number,
    number_column,
    rate,
    signed_ms,
    significant,
)

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


class Device(StrEnum):
    """Whose device: of the data, or of the WAL where that lies on another one."""

    DATA = "data"
    WAL = "wal"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceColumn:
    """A column of ``iostat -x``: a counter over the seconds, or over another counter.

    Attributes:
        name: As iostat prints it.
        unit: In a table, with ``show``, which takes base units.
        key: In ``summary.json``, in base units.
        above: Of the device of the data.
        below: None: the seconds.
        spare: May be left out where a table is too wide.
    """

    name: str
    unit: str
    key: str
    above: Quantity
    below: Quantity | None
    show: Callable[[float], str]
    spare: bool = False


def _mebibytes(value: float) -> str:
    return significant(value / MIB)


def _kibibytes(value: float) -> str:
    return significant(value / KIB)


def _percent(value: float) -> str:
    return significant(100.0 * value)


_READS, _WRITES = Quantity.DEVICE_READS, Quantity.DEVICE_WRITES
_READ_BYTES, _WRITTEN_BYTES = Quantity.DEVICE_READ_BYTES, Quantity.DEVICE_WRITE_BYTES
_FLUSHES = Quantity.DEVICE_FLUSHES
# Each a name, a unit, a key, what is divided by what, how it is shown, and whether it is spare.
DEVICE_COLUMNS: Final = tuple(
    DeviceColumn(name=n, unit=u, key=k, above=a, below=b, show=show, spare=spare)
    for n, u, k, a, b, show, spare in (
        ("r/s", "", "reads_per_s", _READS, None, rate, False),
        ("w/s", "", "writes_per_s", _WRITES, None, rate, False),
        ("f/s", "", "flushes_per_s", _FLUSHES, None, rate, False),
        ("read", "MiB/s", "read_bytes_per_s", _READ_BYTES, None, _mebibytes, False),
        ("written", "MiB/s", "written_bytes_per_s", _WRITTEN_BYTES, None, _mebibytes, False),
        ("r_await", "ms", "read_s", Quantity.DEVICE_READ_S, _READS, milliseconds, False),
        ("w_await", "ms", "write_s", Quantity.DEVICE_WRITE_S, _WRITES, milliseconds, False),
        ("f_await", "ms", "flush_s", Quantity.DEVICE_FLUSH_S, _FLUSHES, milliseconds, True),
        ("aqu-sz", "", "in_flight", Quantity.DEVICE_QUEUE_S, None, significant, False),
        ("rareq-sz", "KiB", "read_size_bytes", _READ_BYTES, _READS, _kibibytes, True),
        ("wareq-sz", "KiB", "write_size_bytes", _WRITTEN_BYTES, _WRITES, _kibibytes, True),
        ("%util", "", "busy_fraction", Quantity.DEVICE_BUSY_S, None, _percent, False),
    )
)
NOT_COUNTED: Final = "not counted"
_NOT_HELD: Final = "not in the record"
_NO_READS_OF_WAL: Final = "of the WAL's device writes and flushes alone are recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFigures:
    """How a device stood in a cell or in a long run, under one configuration.

    Attributes:
        sustained: It is of a long run, which has no blocks and no intervals.
        blocks: In which it was counted; 0 of a long run.
        values: By key of ``DEVICE_COLUMNS``, medians over blocks with their intervals (none below 6
            blocks); None where it was not counted, and of a mean over no request at all.
        not_counted: By key, why not.
    """

    configuration: str
    cell: CellKey
    device: Device
    sustained: bool
    blocks: int
    values: dict[str, Estimate | None]
    not_counted: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitShare:
    """What sessions of the load generator did for a part of their time.

    Attributes:
        kind: ``wait_event_type``, or ``CPU``.
        name: ``wait_event``; empty for CPU.
        share: Of all samples of these sessions: a fraction, median over blocks with its interval.
        sessions: Mean of them, median over blocks.
    """

    kind: str
    name: str
    group: WaitClass
    share: Estimate
    sessions: float

    @property
    def label(self) -> str:
        """Return it as PostgreSQL's documentation writes it: ``IO: DataFileRead``."""
        return f"{self.kind}: {self.name}" if self.name else self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedWaits:
    """The wait events of a cell or of a long run, the largest share first.

    Attributes:
        sustained: As in ``DeviceFigures``; so is ``blocks``.
        missing: Why there are none; empty when there are.
    """

    configuration: str
    cell: CellKey
    sustained: bool
    blocks: int
    events: tuple[WaitShare, ...]
    missing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesAndWaits:
    """All cells, workload by workload, and after them the long runs."""

    devices: tuple[DeviceFigures, ...]
    waits: tuple[RankedWaits, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watched:
    """What was seen of a cell: of each block the evidence of its runs; a long run is one block."""

    configuration: str
    cell: CellKey
    blocks: tuple[tuple[Evidence, ...], ...]
    sustained: bool = False

    @property
    def all(self) -> list[Evidence]:
        return [seen for block in self.blocks for seen in block]

    def level(self, values: Iterable[float | None]) -> Estimate | None:
        """Return the median over blocks; None where no block has a value."""
        return level(np.array([np.nan if value is None else value for value in values]))


def devices_and_waits(grounds: Grounds) -> DevicesAndWaits | None:
    """Return how devices stood and what sessions waited for; None where no run was watched."""
    long = grounds.analysis.sustained
    watched = [*_of_cells(grounds.seen), *(_of_long_run(each.parts) for each in long)]
    watched = [each for each in watched if each.all]
    if not watched:
        return None
    return DevicesAndWaits(
        devices=tuple(figures for each in watched for figures in _devices_of(each)),
        waits=tuple(map(_ranked, watched)),
    )


def _of_cells(seen: Observations) -> Iterator[_Watched]:
    for cell in seen.cells:
        for name in seen.configurations:
            blocks = watched_blocks(seen, name, cell)
            yield _Watched(configuration=name, cell=cell, blocks=blocks)


def _of_long_run(parts: Sequence[SustainedRun]) -> _Watched:
    first = parts[0]
    return _Watched(
        configuration=first.configuration,
        cell=first.cell,
        blocks=(tuple(part.evidence for part in parts if part.evidence is not None),),
        sustained=True,
    )


def _devices_of(watched: _Watched) -> Iterator[DeviceFigures]:
    yield _figures(watched, Device.DATA)
    if any(seen.total(Quantity.WAL_DEVICE_WRITES) is not None for seen in watched.all):
        yield _figures(watched, Device.WAL)


def _figures(watched: _Watched, device: Device) -> DeviceFigures:
    values: dict[str, Estimate | None] = {}
    not_counted: dict[str, str] = {}
    for column in DEVICE_COLUMNS:
        above, below = _of_device(column.above, device), _of_device(column.below, device)
        blocks = [block for block in watched.blocks if _counts(block, above, below)]
        values[column.key] = watched.level(_quotient(block, above, below) for block in blocks)
        if not blocks:
            not_counted[column.key] = _why_not(watched, above)
    counted = [b for b in watched.blocks if _counts(b, _of_device(_WRITES, device), None)]
    return DeviceFigures(
        configuration=watched.configuration,
        cell=watched.cell,
        device=device,
        sustained=watched.sustained,
        blocks=0 if watched.sustained else len(counted),
        values=values,
        not_counted=not_counted,
    )


# What a counter is called of the WAL's device; of some there is none.
_OF_WAL: Final = {each.value: each for each in Quantity if each.value.startswith("wal_device_")}


def _of_device(quantity: Quantity | None, device: Device) -> Quantity | None:
    """Return the counter of a device; None where none is recorded, and for the seconds."""
    if quantity is None or device is Device.DATA:
        return quantity
    return _OF_WAL.get(f"wal_{quantity.value}")


def _counts(block: Sequence[Evidence], above: Quantity | None, below: Quantity | None) -> bool:
    needed = [each for each in (above, below) if each is not None]
    counted = all(seen.total(each) is not None for seen in block for each in needed)
    return above is not None and bool(block) and counted


def _quotient(
    block: Sequence[Evidence], above: Quantity | None, below: Quantity | None
) -> float | None:
    """Return the ratio of the sums over the runs; None where nothing is below."""
    return None if above is None else ratio_of_sums(block, above, below)


def _why_not(watched: _Watched, above: Quantity | None) -> str:
    if above is None:
        return _NO_READS_OF_WAL
    return reason_among(watched.all, subjects_of(above)) or _NOT_HELD


_Event = tuple[str, str, WaitClass]


def _ranked(watched: _Watched) -> RankedWaits:
    sampled = [found for block in watched.blocks if (found := _session_samples(block)) is not None]
    names = dict.fromkeys(event for found, _ in sampled for event in found)
    ranked = sorted(
        (_share_of(watched, event, sampled) for event in names),
        key=lambda each: (-each.share.value, -each.sessions, each.label),
    )
    missing = reason_among(watched.all, WAITS) or "wait events were not sampled"
    return RankedWaits(
        configuration=watched.configuration,
        cell=watched.cell,
        sustained=watched.sustained,
        blocks=0 if watched.sustained else len(sampled),
        events=tuple(ranked),
        missing="" if ranked else missing,
    )


def _session_samples(block: Sequence[Evidence]) -> tuple[dict[_Event, float], int] | None:
    """Return how often a session was seen with each event, and of how many samples.

    None where a run was not sampled, or nobody was there.
    """
    found: dict[_Event, float] = defaultdict(float)
    samples = 0
    for seen in block:
        if seen.waits is None or not seen.waits.samples:
            return None
        samples += seen.waits.samples
        for event in seen.waits.events:
            key = event.kind, event.name, event.group
            found[key] += event.sessions * seen.waits.samples
    return (found, samples) if sum(found.values()) > 0 else None


def _share_of(
    watched: _Watched, event: _Event, sampled: Sequence[tuple[dict[_Event, float], int]]
) -> WaitShare:
    kind, name, group = event
    shares = [found.get(event, 0.0) / sum(found.values()) for found, _ in sampled]
    sessions = [found.get(event, 0.0) / samples for found, samples in sampled]
    share = watched.level(shares) or Estimate(value=0.0)
    return WaitShare(
        kind=kind, name=name, group=group, share=share, sessions=float(np.median(sessions))
    )


DEVICES_TITLE: Final = "Devices and wait events"
_MOST_SHOWN: Final = 6  # wait events of a configuration; all are in summary.json
_MOST_TOLD: Final = 30  # there
_LEAST_SHOWN: Final = 0.01
_DEVICE_NOTE: Final = (
    "Medians over blocks, with intervals in summary.json. The columns are those of iostat -x of"
    " the block device or partition that holds the data: what others asked of it is in them. An"
    " await has the time in the queue in it. %util is the part of the time with any request in"
    " flight, no limit of a device that serves many at once. \N{EN DASH}: a mean over no request;"
    " awaits and sizes are of the blocks that had any."
)
_WAIT_NOTE: Final = (
    "Share of all samples of the load generator's sessions, the wait for the client's next command"
    " among them; CPU is on one or waiting for one. Medians over blocks, pointwise 95 % intervals."
)
_IN_TURNS: Final = (
    "In turns a run's counters are summed over its own turns and their warm-up, pauses left out;"
    " what the kernel writes back later is counted in the turns of another, or in none."
)
_IN_ONE_PIECE: Final = "Counters are of the whole run, ramp included; samples come after it."


def device_section(analysis: CampaignAnalysis) -> tuple[Section, ...]:
    """Return how devices stood and what sessions waited for; nothing where no run was watched."""
    found = analysis.answer(devices_and_waits)
    if found is None:
        return ()
    blocks: list[Block] = [
        *_device_blocks(analysis, found.devices),
        *_wait_table(analysis, found.waits),
    ]
    return (Section(anchor="devices", title=DEVICES_TITLE, blocks=tuple(blocks)),)


def _device_blocks(analysis: CampaignAnalysis, devices: Sequence[DeviceFigures]) -> Iterator[Block]:
    """Yield the table, or why there is none."""
    if all(len(each.not_counted) == len(DEVICE_COLUMNS) for each in devices):
        reasons = dict.fromkeys(why for each in devices for why in each.not_counted.values())
        yield Paragraph(text=ended(f"The device of the data: {NOT_COUNTED}: {'; '.join(reasons)}"))
        return
    with_wal = any(each.device is Device.WAL for each in devices)
    columns = (
        Column(name="workload"),
        Column(name="load", spare=True),
        Column(name="configuration"),
        *((Column(name="device"),) if with_wal else ()),
        *(number_column(each.name, each.unit, spare=each.spare) for each in DEVICE_COLUMNS),
    )
    rows = []
    for each in devices:
        device = ("WAL" if each.device is Device.WAL else "data",) if with_wal else ()
        cells = (_device_cell(each, column) for column in DEVICE_COLUMNS)
        rows.append(Row(cells=(*_place(analysis, each), *device, *cells)))
    note = " ".join((_DEVICE_NOTE, _reach(analysis), *_not_counted_words(devices)))
    yield Table(title="Devices", columns=columns, rows=tuple(rows), note=note)


def _device_cell(each: DeviceFigures, column: DeviceColumn) -> str:
    if column.key in each.not_counted:
        return NOT_COUNTED
    value = each.values[column.key]
    return MISSING if value is None else column.show(value.value)


def _place(analysis: CampaignAnalysis, each: DeviceFigures | RankedWaits) -> tuple[str, str, str]:
    load = cell_name(analysis.experiment, each.cell.load)
    load = f"{load}, long run" if each.sustained else load
    return each.cell.workload, load, each.configuration


def _reach(analysis: CampaignAnalysis) -> str:
    return _IN_TURNS if analysis.is_in_turns else _IN_ONE_PIECE


def _not_counted_words(devices: Sequence[DeviceFigures]) -> Iterator[str]:
    """Yield what was not counted and why, reason by reason."""
    by_reason: dict[str, dict[str, None]] = defaultdict(dict)
    for each in devices:
        for column in DEVICE_COLUMNS:
            if column.key in each.not_counted:
                by_reason[each.not_counted[column.key]][column.name] = None
    for reason, names in by_reason.items():
        yield ended(f"Not counted: {enumeration(tuple(names))}: {reason}")


def _wait_table(analysis: CampaignAnalysis, waits: Sequence[RankedWaits]) -> Iterator[Block]:
    """Yield the first wait events at the largest load, or why there are none."""
    largest = analysis.experiment.largest_load
    shown = [each for each in waits if each.cell.load == largest]
    if not any(each.events for each in shown):
        reasons = dict.fromkeys(each.missing for each in shown if each.missing)
        if reasons:
            yield Paragraph(text=ended(f"Wait events: {'; '.join(reasons)}"))
        return
    columns = (
        Column(name="workload"),
        Column(name="load", spare=True),
        Column(name="configuration"),
        Column(name="wait event"),
        number_column("share"),
        number_column("95 % interval"),
        number_column("sessions"),
    )
    rows = tuple(row for each in shown for row in _wait_rows(analysis, each))
    least = format_percent(_LEAST_SHOWN, signed=False)
    left = f"At most {_MOST_SHOWN} of a configuration and from {least} on, at the largest load; the"
    left += " others are in summary.json."
    yield Table(
        title="Wait events by share", columns=columns, rows=rows, note=f"{_WAIT_NOTE} {left}"
    )


def _wait_rows(analysis: CampaignAnalysis, each: RankedWaits) -> Iterator[Row]:
    place = _place(analysis, each)
    if not each.events:
        yield Row(cells=(*place, f"not sampled: {each.missing}", MISSING, MISSING, MISSING))
    for event in each.events[:_MOST_SHOWN]:
        if event.share.value < _LEAST_SHOWN:
            return
        pair = bounds(event.share)
        ends = () if pair is None else (format_percent(end, signed=False) for end in pair)
        yield Row(
            cells=(
                *place,
                event.label,
                format_percent(event.share.value, signed=False),
                " to ".join(ends) or MISSING,
                significant(event.sessions),
            )
        )
        place = ("", "", "")


def device_json(analysis: CampaignAnalysis) -> dict[str, Json]:
    """Return all figures and wait events, where runs were watched; units are in the names."""
    found = analysis.answer(devices_and_waits)
    if found is None:
        return {}
    return {
        "devices": [
            {
                **_place_json(each),
                "device": each.device.value,
                **{column.key: interval(each.values[column.key]) for column in DEVICE_COLUMNS},
                "not_counted": [
                    {"figure": key, "reason": why} for key, why in each.not_counted.items()
                ],
            }
            for each in found.devices
        ],
        "wait_events": [
            {
                **_place_json(each),
                "missing": each.missing or None,
                "events": [_event_json(event) for event in each.events[:_MOST_TOLD]],
            }
            for each in found.waits
        ],
    }


def _place_json(each: DeviceFigures | RankedWaits) -> dict[str, Json]:
    return {
        "configuration": each.configuration,
        "workload": each.cell.workload,
        **load_json(each.cell.load),
        "sustained": each.sustained,
        "blocks": each.blocks,
    }


def _event_json(event: WaitShare) -> dict[str, Json]:
    return {
        "type": event.kind,
        "event": event.name or None,
        "class": event.group.value,
        "share": interval(event.share),
        "sessions": number(event.sessions),
    }
