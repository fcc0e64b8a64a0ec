"""What a transaction costs: the ledger of runs and its section of a report.

Totals are of the whole run with its ramp, so they are divided by all of its transactions.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import groupby
from types import MappingProxyType
from typing import Annotated, ClassVar, Final

import numpy as np

from steelyard.answers import observations as obs
from steelyard.answers.observations import change
from steelyard.answers.results import (
    CampaignAnalysis,
    Grounds,
    cell_columns,
    compared_data,
    place_name,
)
from steelyard.answers.validity.facts import rate, total, totals
from steelyard.core.experiment import ONE, RATE, Experiment, Workload
from steelyard.core.findings import Estimate
from steelyard.core.measurement import Quantity, Run
from steelyard.core.quantities import INLINE, OPTIONAL, PERCENT, SECONDS, By, Computed, Named, Unit
from steelyard.core.schedule import (
    BaselineName,
    Blocks,
    CellKey,
    ConfigurationName,
    Missing,
    Pausing,
)
from steelyard.core.target import EngineName
from steelyard.core.wording import MIB, US_PER_S, format_duration, format_share
from steelyard.report import document as doc
from steelyard.report.keys import row_of
from steelyard.report.texts import Texts
from steelyard.stats.intervals import FloatArray, robust_variation

_TEXTS: Final = Texts(__name__)


class Cost(StrEnum):
    """What a transaction or request takes, in base units of each; one is a ratio of bytes."""

    SERVER_CPU = "server_cpu_s"
    GENERATOR_CPU = "generator_cpu_s"
    SERVER_RUN_QUEUE = "server_run_queue_s"
    GENERATOR_RUN_QUEUE = "generator_run_queue_s"
    THROTTLED = "throttled_s"
    SERVER_SWITCHES = "server_switches"
    CONTEXT_SWITCHES = "context_switches"
    ROUND_TRIPS = "round_trips"
    ROWS_READ = "rows_read"
    ROWS_CHANGED = "rows_changed"
    WAL_BYTES = "wal_bytes"
    WAL_RECORDS = "wal_records"
    FULL_PAGE_IMAGES = "full_page_images"
    WAL_SYNCS = "wal_syncs"
    PAGES_HIT = "pages_hit"
    PAGES_READ = "pages_read"
    PAGES_WRITTEN = "pages_written"
    MAIN_THREAD_CPU = "main_thread_cpu_s"
    COMMAND = "command_s"
    BACKGROUND_CPU = "background_cpu_s"
    CHILDREN_CPU = "children_cpu_s"
    MAIN_THREAD_BLOCKED = "main_thread_blocked_s"
    FORK = "fork_s"
    NETWORK_IN_BYTES = "network_in_bytes"
    NETWORK_OUT_BYTES = "network_out_bytes"
    AOF_BYTES = "aof_bytes"
    AOF_DELAYED_FSYNCS = "aof_delayed_fsyncs"
    REPLICATION_BYTES = "replication_bytes"
    KEYSPACE_MISSES = "keyspace_misses"
    EVICTED_KEYS = "evicted_keys"
    DEVICE_READS = "device_reads"
    DEVICE_READ_BYTES = "device_read_bytes"
    DEVICE_WRITES = "device_writes"
    DEVICE_WRITE_BYTES = "device_write_bytes"
    DEVICE_FLUSHES = "device_flushes"
    READ_AMPLIFICATION = "read_amplification"


# What each is the sum of; the others are named as the quantity they come from.
_SUMS = {
    # PostgreSQL counts a row that an index finds as returned and as fetched.
    Cost.ROWS_READ: (Quantity.ROWS_RETURNED,),
    Cost.ROWS_CHANGED: (
        Quantity.ROWS_INSERTED,
        Quantity.ROWS_UPDATED,
        Quantity.ROWS_DELETED,
    ),
    Cost.READ_AMPLIFICATION: (Quantity.DEVICE_READ_BYTES,),
}
_OF_ALL = frozenset(
    {
        *(Cost.SERVER_CPU, Cost.GENERATOR_CPU, Cost.SERVER_RUN_QUEUE, Cost.GENERATOR_RUN_QUEUE),
        *(Cost.THROTTLED, Cost.SERVER_SWITCHES, Cost.CONTEXT_SWITCHES),
        *(Cost.DEVICE_READS, Cost.DEVICE_READ_BYTES, Cost.DEVICE_WRITES),
        *(Cost.DEVICE_WRITE_BYTES, Cost.DEVICE_FLUSHES),
    }
)
_OF_REDIS = frozenset(
    {
        *(Cost.MAIN_THREAD_CPU, Cost.COMMAND, Cost.BACKGROUND_CPU, Cost.CHILDREN_CPU),
        *(Cost.MAIN_THREAD_BLOCKED, Cost.FORK, Cost.NETWORK_IN_BYTES, Cost.NETWORK_OUT_BYTES),
        *(Cost.AOF_BYTES, Cost.AOF_DELAYED_FSYNCS, Cost.REPLICATION_BYTES),
        *(Cost.KEYSPACE_MISSES, Cost.EVICTED_KEYS),
    }
)
# Statements that the client waits for one by one, in all query modes, and commits that must be
# durable, by pgbench's builtin scripts: select-only is one SELECT; the others are BEGIN ... END
# around 3 and 5. Source: pgbench's documentation, "What Is the Transaction Actually Performed".
SCRIPTS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"select-only": (1, 0), "simple-update": (5, 1), "tpcb-like": (7, 1)}
)
_OWN_SCRIPTS = "the statements of own scripts are not counted"


_COSTS: Final = "Costs of a transaction, by name."


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLevel:
    """One cost of a configuration in a cell.

    Attributes:
        value: Median over blocks (no interval below 6 blocks); None when missing.
        variation: Robust; None below 3 blocks.
        blocks: 0 for what is known without measuring.
    """

    cost: Cost
    value: Annotated[Estimate | None, Named("estimate"), INLINE, "The value."]
    variation: Annotated[float | None, "Coefficient of variation over blocks."] = None
    blocks: Blocks
    missing: Missing = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellLedger:
    """All costs of a configuration in a cell.

    Attributes:
        tps_variation: Robust, over the same blocks.
    """

    configuration: ConfigurationName
    cell: Annotated[CellKey, INLINE]
    tps_variation: Annotated[
        float | None, "Coefficient of variation of the throughput over blocks."
    ]
    costs: Annotated[tuple[CostLevel, ...], By("cost"), _COSTS]

    def cost(self, cost: Cost) -> CostLevel:
        """Return one of them."""
        return next(each for each in self.costs if each.cost is cost)


_UNKNOWN: Final = Estimate(value=math.nan)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostChange:
    """How one cost differs between two configurations, within blocks.

    Attributes:
        baseline: None when missing, as ``configuration``.
        change: Relative where ``relative`` is set, else a difference in the cost's unit; with a
            pointwise interval, none below 6 blocks. None when missing.
        relative: Both sides are positive in every block, so that the ratio says it.
        clear: Also when all costs are looked at together.
        blocks: In which both sides have it.
    """

    cost: Cost
    baseline: Annotated[float | None, "Baseline: median over blocks."]
    configuration: Annotated[float | None, "Configuration: median over blocks."]
    change: Estimate | None
    relative: bool
    ratio: ClassVar = Computed(
        lambda cost: (cost.change or _UNKNOWN) if cost.relative else None,
        Annotated[
            Estimate | None,
            Named("change_percent"),
            PERCENT,
            INLINE,
            OPTIONAL,
            "Relative change, %.",
        ],
    )
    difference: ClassVar = Computed(
        lambda cost: None if cost.relative else (cost.change or _UNKNOWN),
        Annotated[
            Estimate | None,
            INLINE,
            OPTIONAL,
            "Difference in the unit of the name, if a ratio makes no sense.",
        ],
    )
    clear: Annotated[bool, "The interval leaves out zero."]
    blocks: Blocks
    missing: Missing = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerChange:
    """What a transaction costs more or less under a configuration than under the baseline."""

    baseline: BaselineName
    configuration: ConfigurationName
    cell: Annotated[CellKey, INLINE]
    costs: Annotated[tuple[CostChange, ...], By("cost"), _COSTS]

    def cost(self, cost: Cost) -> CostChange:
        """Return one of them."""
        return next(each for each in self.costs if each.cost is cost)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The ledger of a campaign: its cells, workload by workload, and its comparisons."""

    cells: Annotated[tuple[CellLedger, ...], "An entry for each configuration, workload and load."]
    changes: Annotated[
        tuple[LedgerChange, ...], Named("comparisons"), "Configurations against the baseline."
    ]


def keep_ledger(seen: obs.Observations, experiment: Experiment) -> Ledger | None:
    """Return the ledger of a campaign; None where no run has evidence."""
    if not seen.blocks or not any(run.evidence for runs in seen.runs.values() for run in runs):
        return None
    ramp_s = experiment.measure.discard_start_s
    values: dict[Cost, FloatArray] = {
        cost: obs.by_block(seen, partial(_value, cost=cost, ramp_s=ramp_s))
        for cost in costs_of(experiment)
        if cost is not Cost.ROUND_TRIPS
    }
    amplifications = values.get(Cost.READ_AMPLIFICATION)
    if amplifications is not None:
        for side, column in np.ndindex(amplifications.shape[1:]):
            if not obs.reads_weigh(seen.runs[seen.configurations[side], seen.cells[column]]):
                amplifications[:, side, column] = np.nan
    columns = range(len(seen.cells))
    return Ledger(
        cells=tuple(
            _cell(seen, values, (side, column), experiment)
            for column in columns
            for side in range(len(seen.configurations))
        ),
        changes=tuple(
            _changes(seen, values, column, asked)
            for column in columns
            for asked in obs.result_contrasts(experiment)
        ),
    )


def costs_of(experiment: Experiment) -> tuple[Cost, ...]:
    """Return the costs that an experiment's server has, in the order to tell them."""
    own = {
        EngineName.POSTGRES: frozenset(Cost) - _OF_REDIS,
        EngineName.REDIS: _OF_ALL | _OF_REDIS,
    }.get(experiment.engine, _OF_ALL)
    return tuple(cost for cost in Cost if cost in own)


def quantities_of(cost: Cost) -> tuple[Quantity, ...]:
    """Return what has to be measured for a cost; the divisor of the read amplification last."""
    if cost is Cost.READ_AMPLIFICATION:
        return (Quantity.DEVICE_READ_BYTES, Quantity.RELATION_READ_BYTES)
    return _SUMS.get(cost) or (Quantity(cost.value),)


def _value(runs: obs.RunsOfBlock, *, cost: Cost, ramp_s: float) -> float | None:
    """Return a cost of one block: sums over its rounds, then their ratio."""
    parts = _SUMS.get(cost) or (Quantity(cost.value),)
    dividend = obs.sum_of([obs.total_of(runs, part) for part in parts])
    if cost is Cost.READ_AMPLIFICATION:
        divisor = obs.total_of(runs, Quantity.RELATION_READ_BYTES)
    else:
        divisor = obs.sum_of([obs.whole_transactions(run, ramp_s) for run in runs])
    return dividend / divisor if dividend is not None and divisor else None


def _cell(
    seen: obs.Observations,
    values: dict[Cost, FloatArray],
    place: tuple[int, int],
    experiment: Experiment,
) -> CellLedger:
    side, column = place
    key = seen.configurations[side], seen.cells[column]
    runs = seen.runs[key]
    return CellLedger(
        configuration=key[0],
        cell=key[1],
        costs=tuple(
            _round_trips(experiment.workload(key[1].workload))
            if cost is Cost.ROUND_TRIPS
            else _level(cost, values[cost][:, side, column], runs)
            for cost in costs_of(experiment)
        ),
        tps_variation=robust_variation(np.exp(seen.log_tps[:, side, column])),
    )


def _round_trips(workload: Workload) -> CostLevel:
    known = SCRIPTS.get(workload.builtin or "")
    return CostLevel(
        cost=Cost.ROUND_TRIPS,
        value=None if known is None else Estimate(value=float(known[0])),
        blocks=0,
        missing=_OWN_SCRIPTS if known is None else "",
    )


def _level(cost: Cost, values: FloatArray, runs: Sequence[Run]) -> CostLevel:
    known = values[np.isfinite(values)]
    return CostLevel(
        cost=cost,
        value=obs.level(values),
        blocks=len(known),
        variation=robust_variation(known),
        missing="" if len(known) else _why_missing(cost, runs),
    )


def _why_missing(cost: Cost, runs: Sequence[Run]) -> str:
    """Return the reason that the runs give, or the general one."""
    wanted = quantities_of(cost)
    watched = [run.evidence for run in runs if run.evidence is not None]
    if not watched:
        return "the runs were not watched"
    for quantity in wanted:
        told = obs.reason_among(watched, obs.subjects_of(quantity))
        if told and any(each.total(quantity) is None for each in watched):
            return told
    if cost is Cost.READ_AMPLIFICATION and all(q in watched[0].totals for q in wanted):
        if obs.reads_weigh(runs):
            return "PostgreSQL read nothing from its files"
        return "reads took less than 1 % of the device's time"
    lacking = [q.value for q in wanted if all(each.total(q) is None for each in watched)]
    return f"{' and '.join(lacking)} not measured" if lacking else "not measured in a whole block"


def _changes(
    seen: obs.Observations, values: dict[Cost, FloatArray], column: int, asked: obs.ResultContrast
) -> LedgerChange:
    places = [*asked.negative, *asked.positive]
    runs = [run for p in places for run in seen.runs[seen.configurations[p], seen.cells[column]]]
    shared = {cost: _shared(of_cost[:, :, column], places) for cost, of_cost in values.items()}
    family = max(1, sum(bool(len(of_cost)) for of_cost in shared.values()))
    return LedgerChange(
        baseline=asked.baseline,
        configuration=asked.configuration,
        cell=seen.cells[column],
        costs=tuple(
            _change(cost, of_cost, asked, family)
            if len(of_cost)
            else _no_change(cost, _why_missing(cost, runs))
            for cost, of_cost in shared.items()
        ),
    )


def _shared(values: FloatArray, places: Sequence[int]) -> FloatArray:
    """Return the blocks in which both sides have the value, shape (blocks, configurations)."""
    return values[np.isfinite(values[:, list(places)]).all(axis=1)]


def _no_change(cost: Cost, missing: str) -> CostChange:
    return CostChange(
        cost=cost,
        baseline=None,
        configuration=None,
        change=None,
        relative=False,
        clear=False,
        blocks=0,
        missing=missing,
    )


def _change(cost: Cost, values: FloatArray, asked: obs.ResultContrast, family: int) -> CostChange:
    places = [*asked.negative, *asked.positive]
    relative = bool((values[:, places] > 0.0).all())
    negative, positive = obs.side_means(values, asked)
    if relative:
        weights = np.asarray(asked.weights)[places]
        differences = np.asarray(np.log(values[:, places]) @ weights)
    else:
        differences = positive - negative
    return CostChange(
        cost=cost,
        baseline=float(np.median(negative)),
        configuration=float(np.median(positive)),
        change=obs.as_ratio(change(differences)) if relative else change(differences),
        relative=relative,
        clear=obs.is_clear(differences, family),
        blocks=len(values),
    )


TITLE = f"What a {ONE} costs"
_WITHIN_BLOCKS = (
    f"Differences are taken within blocks: relative where both sides are above 0. {doc.POINTWISE}"
)
_NOTE = f"Medians over blocks, per {ONE}, of the whole runs with their ramp. {_WITHIN_BLOCKS}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How a cost is called and written.

    Attributes:
        factor: From base units to the unit.
    """

    label: str
    unit: str = ""
    factor: float = 1.0

    @property
    def heading(self) -> str:
        """Return the label with its unit."""
        return f"{self.label}, {self.unit}" if self.unit else self.label


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


def campaign_ledger(grounds: Grounds) -> Ledger | None:
    """Return what work costs under each configuration; None where no run was watched."""
    return keep_ledger(grounds.seen, grounds.record.experiment)


def cost_section(analysis: CampaignAnalysis) -> tuple[doc.Section, ...]:
    """Return the ledger; nothing where no run was watched."""
    ledger = analysis.answer(campaign_ledger)
    if ledger is None:
        return ()
    largest = analysis.experiment.largest_load
    changes = [change for change in ledger.changes if change.cell.load == largest]
    absent = _in_none([each.costs for each in changes or ledger.cells])
    tables = [change_table(analysis, change, absent) for change in changes]
    tables += _level_tables(analysis, ledger, absent)
    tables = [table for table in tables if table.rows]
    if not tables:
        return ()
    told = [*_missing(absent), *([cost_note(analysis)] if changes else [])]
    notes = [doc.Paragraph(text=text) for text in told]
    counts = analysis.answer(server_counts) or ()
    shown = [each for each in counts if each.cell.load == largest]
    others = _counted(analysis, [each for each in counts if each not in shown], "; other loads")
    steady = _steadiness(ledger, analysis.experiment)
    more: tuple[doc.Block, ...] = (*tables, *notes, *steady, *others)
    blocks = tuple(_clear_table(changes)) + _counted(analysis, shown)
    return (doc.Section(anchor="costs", title=TITLE, blocks=blocks, more=more),)


# What a DBA knows of his server; the other counters explain these.
_KNOWN: Final = frozenset(
    {
        *(Cost.SERVER_CPU, Cost.THROTTLED, Cost.WAL_BYTES, Cost.WAL_SYNCS, Cost.PAGES_HIT),
        Cost.PAGES_READ,
        *(Cost.DEVICE_READ_BYTES, Cost.DEVICE_WRITE_BYTES, Cost.DEVICE_FLUSHES),
        *(Cost.MAIN_THREAD_CPU, Cost.AOF_BYTES, Cost.READ_AMPLIFICATION),
    }
)
_MOST_CLEAR: Final = 12  # rows of all comparisons together
_LEAST_VALUE: Final = 0.001  # in the unit of the table


def _clear_table(changes: Sequence[LedgerChange]) -> Iterator[doc.Table]:
    """Yield the known counters that clearly changed, the largest changes of each comparison."""
    rows: list[tuple[LedgerChange, CostChange]] = []
    for compared in changes:
        clear = [each for each in compared.costs if each.cost in _KNOWN and _is_notable(each)]
        clear.sort(key=lambda each: -abs(each.change.value) if each.change else 0.0)
        rows += [(compared, each) for each in clear[: max(1, _MOST_CLEAR // len(changes))]]
    if rows:
        yield doc.table_of(
            rows,
            ("workload", lambda row: row[0].cell.workload),
            ("configuration", lambda row: row[0].configuration),
            (f"per {ONE}", lambda row: KINDS[row[1].cost].heading),
            doc.numbers("baseline", lambda row: _written(row[1].cost, row[1].baseline)),
            doc.numbers("here", lambda row: _written(row[1].cost, row[1].configuration)),
            doc.numbers("difference", lambda row: _difference(row[1])),
            title="Counters that clearly changed",
            data=lambda row: (*compared_data(row[0]), *_change_data(row[1])),
        )


def _is_notable(cost: CostChange) -> bool:
    most = max(cost.baseline or 0.0, cost.configuration or 0.0) * KINDS[cost.cost].factor
    return cost.clear and most >= _LEAST_VALUE


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCounts:
    """What the server of a configuration counted in all runs of a cell together.

    Attributes:
        seconds: Of these runs, ramps included.
    """

    configuration: ConfigurationName
    cell: Annotated[CellKey, INLINE]
    seconds: Annotated[float, Named("counted_s"), "Seconds of the runs, ramps included."]
    hit_fraction: Annotated[
        float | None,
        Named("buffer_hits_percent"),
        PERCENT,
        "Pages found in shared buffers, of all that were asked for, %; may be null.",
    ]
    wal_bytes_per_s: Annotated[float | None, "WAL, bytes per second; may be null."]
    temporary_bytes_per_s: Annotated[
        float | None, "Written to temporary files, bytes per second; may be null."
    ]
    checkpoints: Annotated[float | None, "Checkpoints in these seconds; may be null."]
    deadlocks: Annotated[float | None, "Deadlocks in these seconds; may be null."]


def server_counts(grounds: Grounds) -> tuple[ServerCounts, ...]:
    """Return the counts of PostgreSQL servers in the order of the cells."""
    found: dict[tuple[CellKey, str], list[Run]] = {}
    for run in grounds.analysis.runs:
        if run.evidence is not None and run.evidence.total(Quantity.PAGES_HIT) is not None:
            found.setdefault((run.cell, run.configuration), []).append(run)
    cells = ((each.cell, each.configuration) for each in grounds.analysis.cells)
    return tuple(_counts(*each, found[each]) for each in cells if each in found)


def _counts(cell: CellKey, configuration: str, runs: Sequence[Run]) -> ServerCounts:
    def whole(quantity: Quantity) -> float | None:
        known = [run for run in runs if run.evidence and run.evidence.total(quantity) is not None]
        return total(runs, quantity) if len(known) == len(runs) else None

    pages = totals(runs, Quantity.PAGES_HIT, Quantity.PAGES_READ)
    return ServerCounts(
        configuration=configuration,
        cell=cell,
        seconds=sum(run.evidence.seconds for run in runs if run.evidence is not None),
        hit_fraction=pages[0] / sum(pages) if pages and sum(pages) else None,
        wal_bytes_per_s=rate(runs, Quantity.WAL_BYTES),
        temporary_bytes_per_s=rate(runs, Quantity.TEMPORARY_BYTES),
        checkpoints=whole(Quantity.CHECKPOINTS),
        deadlocks=whole(Quantity.DEADLOCKS),
    )


_RATE: Final = doc.Form(show=lambda per_s: doc.significant(per_s / MIB), heading="MiB/s")
_COUNT: Final = doc.Form(show="{:,.0f}".format)
_HITS: Final = doc.Form(show=format_share, unit=PERCENT)
_TIME: Final = doc.Form(show=format_duration, unit=SECONDS)


def _counted(
    analysis: CampaignAnalysis, rows: Sequence[ServerCounts], which: str = ""
) -> tuple[doc.Table, ...]:
    """Return counts as a table, if a server told them."""
    if not rows:
        return ()
    table = doc.table_of(
        rows,
        *cell_columns(analysis.experiment),
        doc.column("buffer hits", lambda each: each.hit_fraction, _HITS),
        doc.column("WAL", lambda each: each.wal_bytes_per_s, _RATE, key="wal_bytes_per_s"),
        doc.column("temporary files", lambda each: each.temporary_bytes_per_s, _RATE),
        doc.column("checkpoints", lambda each: each.checkpoints, _COUNT),
        doc.column("deadlocks", lambda each: each.deadlocks, _COUNT),
        doc.column("in", lambda each: each.seconds, _TIME, key="counted"),
        title=f"What the servers counted{which}",
    )
    return (table,)


def cost_note(analysis: CampaignAnalysis) -> str:
    """Return what the figures are of."""
    if not analysis.is_in_turns:
        return _NOTE
    plan = analysis.plan
    goes_on = plan is not None and plan.pausing is Pausing.GENERATOR
    return _TEXTS.in_turns(goes_on=goes_on, pointwise=doc.POINTWISE)


def _in_none(every: Sequence[Sequence[CostChange | CostLevel]]) -> Sequence[CostChange | CostLevel]:
    """Return what no table has, for the same reason: it is told once, below all of them."""
    if len(every) == 1:
        return ()
    missing = [{(each.cost, each.missing) for each in costs if each.missing} for costs in every]
    return [each for each in every[0] if all((each.cost, each.missing) in one for one in missing)]


def change_table(
    analysis: CampaignAnalysis,
    change: LedgerChange,
    absent: Sequence[CostChange | CostLevel] = (),
) -> doc.Table:
    """Return every cost of both sides with its difference.

    What is missing stands in the note, but for what is ``absent`` from all tables.
    """
    place = place_name(analysis.experiment, change.cell)
    return doc.table_of(
        [each for each in change.costs if each.change is not None],
        (f"per {ONE}", lambda each: KINDS[each.cost].label),
        ("unit", lambda each: KINDS[each.cost].unit),
        doc.numbers(change.baseline, lambda each: _written(each.cost, each.baseline)),
        doc.numbers(change.configuration, lambda each: _written(each.cost, each.configuration)),
        doc.numbers("difference", _difference),
        doc.numbers("95 % interval", _interval),
        title=f"{place}: {doc.versus(change.configuration, change.baseline)}",
        note=" ".join(_missing(change.costs, absent)),
        common=compared_data(change),
        data=_change_data,
    )


def _change_data(each: CostChange) -> tuple[doc.Datum, ...]:
    form = doc.Form(unit=PERCENT) if each.relative else doc.WHOLE
    sides = {"value_baseline": each.baseline, "value_configuration": each.configuration}
    values = ((name, doc.number(value)) for name, value in sides.items())
    return (("cost", each.cost.value), *values, *form.data("change", each.change))


def _difference(each: CostChange) -> str:
    if each.relative or each.change is None:
        return doc.effect_value(each.change)
    return _moved(each.cost, each.change.value)


def _interval(each: CostChange) -> str:
    if each.relative:
        return doc.effect_interval(each.change)
    return doc.in_brackets(each.change, partial(_moved, each.cost))


def _moved(cost: Cost, value: float) -> str:
    """Return a difference in the unit of a cost, with its sign."""
    return doc.significant(value * KINDS[cost].factor, signed=True)


def _written(cost: Cost, value: float | None) -> str:
    return doc.MISSING if value is None else doc.significant(value * KINDS[cost].factor)


def _level_text(each: CostLevel) -> str:
    return _written(each.cost, None if each.value is None else each.value.value)


def _level_interval(each: CostLevel) -> str:
    return doc.between(each.value, partial(_written, each.cost))


def _missing(
    costs: Iterable[CostChange | CostLevel], absent: Sequence[CostChange | CostLevel] = ()
) -> tuple[str, ...]:
    """Return what is not in the table, by reason, without what is absent from all."""
    reasons: dict[str, list[str]] = {}
    elsewhere = {each.cost for each in absent}
    for each in costs:
        if each.missing and each.cost not in elsewhere:
            # What is only known by name needs no reason beside it.
            reason = "" if each.missing.endswith("not measured") else f" ({each.missing})"
            reasons.setdefault(reason, []).append(KINDS[each.cost].label)
    if not reasons:
        return ()
    told = "; ".join(f"{', '.join(labels)}{reason}" for reason, labels in reasons.items())
    return (f"Not measured: {told}.",)


def _level_tables(
    analysis: CampaignAnalysis, ledger: Ledger, absent: Sequence[CostChange | CostLevel]
) -> Iterator[doc.Table]:
    """Yield every cost under each configuration, a table for each workload and load."""
    for cell, group in groupby(ledger.cells, key=lambda each: each.cell):
        sides = tuple(group)
        missing = {each.cost: each for side in sides for each in side.costs if each.missing}
        told = (doc.POINTWISE, *_missing(tuple(missing.values()), absent))
        yield doc.table_of(
            [cost for cost in Cost if any(_value_of(side, cost) for side in sides)],
            (f"per {ONE}", lambda cost: KINDS[cost].label),
            ("unit", lambda cost: KINDS[cost].unit),
            *(doc.numbers(side.configuration, partial(_level_in_full, side)) for side in sides),
            title=f"{place_name(analysis.experiment, cell)}: each configuration",
            note="" if ledger.changes else " ".join(told),
            common=row_of(cell),
            data=partial(_level_data, sides),
        )


def _value_of(side: CellLedger, cost: Cost) -> Estimate | None:
    return next((each.value for each in side.costs if each.cost is cost), None)


def _level_in_full(side: CellLedger, cost: Cost) -> str:
    value = _value_of(side, cost)
    return doc.MISSING if value is None else doc.with_interval(value, partial(_written, cost))


def _level_data(sides: Sequence[CellLedger], cost: Cost) -> tuple[doc.Datum, ...]:
    values = ((side.configuration, _value_of(side, cost)) for side in sides)
    levels = (doc.WHOLE.data(f"value_{name}", value) for name, value in values)
    return (("cost", cost.value), *(datum for level in levels for datum in level))


_PART: Final = doc.Form(show=format_share, unit=Unit("_variation"))


def _steadiness(ledger: Ledger, experiment: Experiment) -> Sequence[doc.Table]:
    """Return the CPU time of all cells beside what varies in tps; nothing where it is missing."""
    if all(each.cost(Cost.SERVER_CPU).value is None for each in ledger.cells):
        return ()

    def server(cell: CellLedger) -> CostLevel:
        return cell.cost(Cost.SERVER_CPU)

    def generator(cell: CellLedger) -> CostLevel:
        return cell.cost(Cost.GENERATOR_CPU)

    table = doc.table_of(
        ledger.cells,
        *cell_columns(experiment),
        doc.numbers("CPU of the server", lambda cell: _level_text(server(cell)), "µs"),
        doc.numbers("95 % interval", lambda cell: _level_interval(server(cell)), "µs"),
        doc.column("its variation", lambda cell: server(cell).variation, _PART, key="server_cpu"),
        doc.column(
            f"variation of {RATE}", lambda cell: cell.tps_variation, _PART, key="throughput"
        ),
        doc.numbers(
            "CPU of the generator", lambda cell: _level_text(generator(cell)), "µs", spare=True
        ),
        title=f"CPU per {ONE}, and how steady it is",
        note=_TEXTS.steadiness(),
        data=lambda cell: (
            *doc.WHOLE.data("server_cpu_s", server(cell).value),
            *doc.WHOLE.data("generator_cpu_s", generator(cell).value),
        ),
    )
    return (table,)
