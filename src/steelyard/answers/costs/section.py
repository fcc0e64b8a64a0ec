"""What a transaction costs: names, units and digits of the ledger, and its section of a report."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from steelyard.answers.costs.compute import CellLedger, Cost, CostChange, CostLevel, LedgerChange
from steelyard.answers.reasons.compute import Reasons
from steelyard.answers.results import CampaignAnalysis
from steelyard.answers.wording import cell_name
from steelyard.core.experiment import ONE, RATE
from steelyard.core.findings import Estimate
from steelyard.core.units import US_PER_S, format_percent
from steelyard.report.document import (
    MISSING,
    Block,
    Column,
    Paragraph,
    Row,
    Section,
    Table,
    bounds,
    effect_interval,
    effect_value,
    number_column,
    significant,
)

TITLE = f"What a {ONE} costs"
POINTWISE = (
    "Intervals are pointwise at 95 %, over blocks (none below 6), and take part in no verdict."
)
_WITHIN_BLOCKS = (
    f"Differences are taken within blocks: relative where both sides are above 0. {POINTWISE}"
)
_NOTE = f"Medians over blocks, per {ONE}, of the whole runs with their ramp. {_WITHIN_BLOCKS}"
_NOTE_IN_TURNS = (
    f"Medians over blocks, per {ONE}, of all the time in which runs went on: of their turns, and of"
    " what their servers warmed up with; pauses are left out. What a server hands to the kernel in"
    " its turns may be written in those of another: writes of the device other than the WAL are"
    f" shared in part. {_WITHIN_BLOCKS}"
)
_STEADY_NOTE = (
    "Variation is 1.4826 times the median absolute deviation over blocks, over the median: what"
    " varies less shows a difference sooner. CPU time counts work, not waiting, so a busy"
    f" neighbour moves it less than {RATE}."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How a cost is called and written.

    Attributes:
        factor: From base units to the unit.
    """

    label: str
    unit: str = ""
    factor: float = 1.0


KINDS = {
    Cost.SERVER_CPU: Kind(label="CPU of the server", unit="µs", factor=US_PER_S),
    Cost.GENERATOR_CPU: Kind(label="CPU of the generator", unit="µs", factor=US_PER_S),
    Cost.SERVER_RUN_QUEUE: Kind(label="run queue of the server", unit="µs", factor=US_PER_S),
    Cost.GENERATOR_RUN_QUEUE: Kind(label="run queue of the generator", unit="µs", factor=US_PER_S),
    Cost.THROTTLED: Kind(label="stopped by the CPU quota", unit="µs", factor=US_PER_S),
    Cost.SERVER_SWITCHES: Kind(label="context switches of the server"),
    Cost.CONTEXT_SWITCHES: Kind(label="context switches of the machine"),
    Cost.ROUND_TRIPS: Kind(label="round trips (statements)"),
    Cost.ROWS_READ: Kind(label="rows and index entries read"),
    Cost.ROWS_CHANGED: Kind(label="rows changed"),
    Cost.WAL_BYTES: Kind(label="WAL", unit="bytes"),
    Cost.WAL_RECORDS: Kind(label="WAL records"),
    Cost.FULL_PAGE_IMAGES: Kind(label="full-page images"),
    Cost.WAL_SYNCS: Kind(label="WAL syncs"),
    Cost.PAGES_HIT: Kind(label="pages hit"),
    Cost.PAGES_READ: Kind(label="pages read"),
    Cost.PAGES_WRITTEN: Kind(label="pages written"),
    Cost.MAIN_THREAD_CPU: Kind(label="CPU of the main thread", unit="µs", factor=US_PER_S),
    Cost.COMMAND: Kind(label="executing commands", unit="µs", factor=US_PER_S),
    Cost.BACKGROUND_CPU: Kind(label="CPU of the other threads", unit="µs", factor=US_PER_S),
    Cost.CHILDREN_CPU: Kind(label="CPU of saving processes", unit="µs", factor=US_PER_S),
    Cost.MAIN_THREAD_BLOCKED: Kind(
        label="main thread blocked by storage", unit="µs", factor=US_PER_S
    ),
    Cost.FORK: Kind(label="forking", unit="µs", factor=US_PER_S),
    Cost.NETWORK_IN_BYTES: Kind(label="received from clients", unit="bytes"),
    Cost.NETWORK_OUT_BYTES: Kind(label="sent to clients", unit="bytes"),
    Cost.AOF_BYTES: Kind(label="append-only file", unit="bytes"),
    Cost.AOF_DELAYED_FSYNCS: Kind(label="delayed fsyncs of the append-only file"),
    Cost.REPLICATION_BYTES: Kind(label="sent to replicas", unit="bytes"),
    Cost.KEYSPACE_MISSES: Kind(label="keys that were not there"),
    Cost.EVICTED_KEYS: Kind(label="keys evicted"),
    Cost.DEVICE_READS: Kind(label="reads of the data device"),
    Cost.DEVICE_READ_BYTES: Kind(label="read from the data device", unit="bytes"),
    Cost.DEVICE_WRITES: Kind(label="writes of the data device"),
    Cost.DEVICE_WRITE_BYTES: Kind(label="written to the data device", unit="bytes"),
    Cost.DEVICE_FLUSHES: Kind(label="flushes of the data device"),
    Cost.READ_AMPLIFICATION: Kind(label="read amplification"),
}


def cost_section(analysis: CampaignAnalysis) -> tuple[Section, ...]:
    """Return the ledger; nothing where no run was watched."""
    reasons = analysis.reasons
    if reasons is None:
        return ()
    changes = [change for change in reasons.ledger.changes if is_largest(analysis, change)]
    tables = [change_table(analysis, change) for change in changes]
    if not changes:
        tables = [_level_table(analysis, each) for each in reasons.ledger.cells]
    tables = [table for table in tables if table.rows]
    if not tables:
        return ()
    told = (Paragraph(text=cost_note(analysis)),) if changes else ()
    blocks: tuple[Block, ...] = (*tables, *told, *_steadiness(reasons))
    return (Section(anchor="costs", title=TITLE, blocks=blocks),)


def cost_note(analysis: CampaignAnalysis) -> str:
    """Return what the figures are of."""
    return _NOTE_IN_TURNS if analysis.is_in_turns else _NOTE


def is_largest(analysis: CampaignAnalysis, change: LedgerChange) -> bool:
    """Return whether a comparison is one at the largest load."""
    return change.cell.load == analysis.experiment.largest_load


def change_table(analysis: CampaignAnalysis, change: LedgerChange) -> Table:
    """Return every cost of both sides with its difference; what is missing stands in the note."""
    columns = (
        Column(name=f"per {ONE}"),
        Column(name="unit"),
        number_column(change.baseline),
        number_column(change.configuration),
        number_column("difference"),
        number_column("95 % interval"),
    )
    told = [each for each in change.costs if each.change is not None]
    place = f"{change.cell.workload}, {cell_name(analysis.experiment, change.cell.load)}"
    return Table(
        title=f"{place}: {change.configuration} against {change.baseline}",
        columns=columns,
        rows=tuple(_change_row(each) for each in told),
        note=" ".join(_missing(change.costs)),
    )


def _change_row(change: CostChange) -> Row:
    kind = KINDS[change.cost]
    relative = change.relative
    return Row(
        cells=(
            kind.label,
            kind.unit,
            _written(kind, change.baseline),
            _written(kind, change.configuration),
            effect_value(change.change) if relative else _difference(kind, change.change),
            effect_interval(change.change) if relative else _interval(kind, change.change),
        )
    )


def _written(kind: Kind, value: float | None) -> str:
    return MISSING if value is None else significant(value * kind.factor)


def _difference(kind: Kind, change: Estimate | None) -> str:
    return MISSING if change is None else significant(change.value * kind.factor, signed=True)


def _interval(kind: Kind, change: Estimate | None) -> str:
    pair = bounds(change)
    if pair is None:
        return MISSING
    low, high = (significant(end * kind.factor, signed=True) for end in pair)
    return f"[{low}, {high}]"


def _missing(costs: Iterable[CostChange | CostLevel]) -> tuple[str, ...]:
    """Return what is not in the table, by reason."""
    reasons: dict[str, list[str]] = {}
    for each in costs:
        if each.missing:
            # What is only known by name needs no reason beside it.
            reason = "" if each.missing.endswith("not measured") else f" ({each.missing})"
            reasons.setdefault(reason, []).append(KINDS[each.cost].label)
    if not reasons:
        return ()
    told = "; ".join(f"{', '.join(labels)}{reason}" for reason, labels in reasons.items())
    return (f"Not measured: {told}.",)


def _level_table(analysis: CampaignAnalysis, ledger: CellLedger) -> Table:
    columns = (
        Column(name=f"per {ONE}"),
        Column(name="unit"),
        number_column(ledger.configuration),
        number_column("95 % interval"),
    )
    rows = tuple(
        Row(
            cells=(
                KINDS[each.cost].label,
                KINDS[each.cost].unit,
                _written(KINDS[each.cost], each.value.value),
                _level_interval(KINDS[each.cost], each.value),
            )
        )
        for each in ledger.costs
        if each.value is not None
    )
    place = f"{ledger.cell.workload}, {cell_name(analysis.experiment, ledger.cell.load)}"
    note = " ".join([POINTWISE, *_missing(ledger.costs)])
    return Table(title=place, columns=columns, rows=rows, note=note)


def _level_interval(kind: Kind, value: Estimate | None) -> str:
    pair = bounds(value)
    if pair is None:
        return MISSING
    low, high = (significant(end * kind.factor) for end in pair)
    return f"{low} to {high}"


def _steadiness(reasons: Reasons) -> Sequence[Table]:
    """Return the CPU time of all cells beside what varies in tps; nothing where it is missing."""
    cells = [each for each in reasons.ledger.cells if each.cost(Cost.SERVER_CPU).value is not None]
    if not cells:
        return ()
    columns = (
        Column(name="workload"),
        Column(name="configuration"),
        number_column("clients"),
        number_column("CPU of the server", "µs"),
        number_column("95 % interval", "µs"),
        number_column("its variation"),
        number_column(f"variation of {RATE}"),
        number_column("CPU of the generator", "µs", spare=True),
    )
    rows = tuple(_steadiness_row(each) for each in cells)
    title = f"CPU per {ONE}, and how steady it is"
    return (Table(title=title, columns=columns, rows=rows, note=_STEADY_NOTE),)


def _steadiness_row(ledger: CellLedger) -> Row:
    server, generator = ledger.cost(Cost.SERVER_CPU), ledger.cost(Cost.GENERATOR_CPU)
    kind = KINDS[Cost.SERVER_CPU]
    return Row(
        cells=(
            ledger.cell.workload,
            ledger.configuration,
            str(ledger.cell.load.clients),
            _written(kind, None if server.value is None else server.value.value),
            _level_interval(kind, server.value),
            _variation(server.variation),
            _variation(ledger.tps_variation),
            _written(kind, None if generator.value is None else generator.value.value),
        )
    )


def _variation(value: float | None) -> str:
    return MISSING if value is None else format_percent(value, signed=False)
