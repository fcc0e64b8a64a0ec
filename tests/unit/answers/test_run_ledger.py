"""The ledger: what a transaction costs, how that differs, and why a cost is missing."""

from dataclasses import replace

import pytest
from watched_records import DEFAULT, a_watched_record, reasons_of, the_experiment, with_totals

from steelyard.answers.costs import Cost, Ledger
from steelyard.answers.observations import whole_transactions
from steelyard.core.experiment import Workload
from steelyard.core.measurement import Absence, Quantity

DEVICE = {
    Quantity.DEVICE_READ_BYTES: 16384.0,
    Quantity.RELATION_READ_BYTES: 8192.0,
    Quantity.DEVICE_READ_S: 0.001,
}


def ledger(baseline: dict[Quantity, float], configuration: dict[Quantity, float]) -> Ledger:
    """Return the ledger of two configurations with such totals of a transaction."""
    sides = (with_totals(DEFAULT, totals) for totals in (baseline, configuration))
    return reasons_of(a_watched_record(*sides)).ledger


def test_totals_are_divided_by_all_transactions_of_the_run() -> None:
    """The ramp's are in the totals, so they are in the divisor."""
    kept = ledger({}, {})
    cpu = kept.cells[0].cost(Cost.SERVER_CPU)
    assert cpu.value is not None
    assert cpu.value.value == pytest.approx(0.0008, rel=0.01)
    assert cpu.blocks == 12
    run = a_watched_record(DEFAULT, DEFAULT).runs[0]
    assert run.measurement is not None
    whole = whole_transactions(run, 2.0)
    assert whole == pytest.approx(1.4 * run.measurement.transactions)
    no_ramp = replace(run, measurement=replace(run.measurement, series=()))
    assert whole_transactions(no_ramp, 2.0) is None


def test_a_cost_that_changed_by_a_known_ratio_is_found() -> None:
    """20 % more CPU lies in the interval and is clear; an equal cost is not."""
    (change,) = ledger({}, {Quantity.SERVER_CPU_S: 0.00096}).changes
    cpu, wal = change.cost(Cost.SERVER_CPU), change.cost(Cost.WAL_BYTES)
    assert cpu.relative
    assert cpu.clear
    assert cpu.change is not None
    assert cpu.change.low is not None
    assert cpu.change.high is not None
    assert cpu.change.low < 0.2 < cpu.change.high
    assert not wal.clear


def test_a_cost_of_zero_is_a_difference_not_a_ratio() -> None:
    """No full-page image on one side: pages per transaction, not percent."""
    images = {Quantity.FULL_PAGE_IMAGES: 0.25}
    (change,) = ledger({Quantity.FULL_PAGE_IMAGES: 0.0}, images).changes
    found = change.cost(Cost.FULL_PAGE_IMAGES)
    assert not found.relative
    assert found.baseline == 0.0
    assert found.change is not None
    assert found.change.value == pytest.approx(0.25, rel=0.02)


def test_the_read_amplification_is_no_cost_per_transaction() -> None:
    """Bytes of the device over bytes that PostgreSQL asked for."""
    kept = ledger(DEVICE, DEVICE)
    amplification = kept.cells[0].cost(Cost.READ_AMPLIFICATION)
    assert amplification.value is not None
    assert amplification.value.value == pytest.approx(2.0)
    none_asked = ledger(DEVICE | {Quantity.RELATION_READ_BYTES: 0.0}, DEVICE)
    lacking = none_asked.cells[0].cost(Cost.READ_AMPLIFICATION)
    assert (lacking.value, lacking.missing) == (None, "PostgreSQL read nothing from its files")
    trifling = ledger(DEVICE | {Quantity.DEVICE_READ_S: 0.0}, DEVICE)
    rare = trifling.cells[0].cost(Cost.READ_AMPLIFICATION)
    assert (rare.value, rare.missing) == (None, "reads took less than 1 % of the device's time")


def test_rows_are_summed_over_their_kinds() -> None:
    """Inserted, updated and deleted; one that is missing makes the sum missing."""
    rows = {Quantity.ROWS_INSERTED: 1.0, Quantity.ROWS_UPDATED: 3.0, Quantity.ROWS_DELETED: 0.0}
    changed = ledger(rows, rows).cells[0].cost(Cost.ROWS_CHANGED)
    assert changed.value is not None
    assert changed.value.value == pytest.approx(4.0, rel=0.02)
    del rows[Quantity.ROWS_DELETED]
    lacking = ledger(rows, rows).cells[0].cost(Cost.ROWS_CHANGED)
    assert (lacking.value, lacking.missing) == (None, "rows_deleted not measured")


def test_a_missing_cost_says_why() -> None:
    """The run's own reason; on one side alone it is enough to have no difference."""
    gone = Absence(subject=Quantity.PAGES_HIT, reason="the role may not read pg_stat_io")
    there = with_totals(DEFAULT, {Quantity.PAGES_HIT: 9.0})
    kept = reasons_of(a_watched_record(there, replace(DEFAULT, absent=(gone,)))).ledger
    hit, lacking = (cell.cost(Cost.PAGES_HIT) for cell in kept.cells)
    assert hit.value is not None
    assert (lacking.value, lacking.missing) == (None, gone.reason)
    change = kept.changes[0].cost(Cost.PAGES_HIT)
    assert (change.change, change.missing) == (None, gone.reason)


@pytest.mark.parametrize(
    ("subject", "cost"),
    [
        ("device of the data directory", Cost.DEVICE_READS),
        ("flushes of the data device", Cost.DEVICE_FLUSHES),
        ("run-queue time of the generator", Cost.GENERATOR_RUN_QUEUE),
        ("throttling", Cost.THROTTLED),
        ("the machine", Cost.CONTEXT_SWITCHES),
        ("counters", Cost.PAGES_HIT),
        ("server", Cost.ROWS_READ),
    ],
)
def test_the_reason_of_a_source_is_that_of_its_costs(subject: str, cost: Cost) -> None:
    """An absence may name a quantity, its source or the whole probe; a value needs no reason."""
    gone = Absence(subject=subject, reason="It is not there.")
    seen = replace(DEFAULT, absent=(gone,))
    kept = reasons_of(a_watched_record(seen, seen)).ledger
    assert kept.cells[0].cost(cost).missing == "It is not there"
    assert kept.cells[0].cost(Cost.WAL_BYTES).missing == ""


@pytest.mark.parametrize(
    ("builtin", "trips"), [("select-only", 1), ("simple-update", 5), ("tpcb-like", 7), (None, None)]
)
def test_round_trips_are_known_of_builtin_scripts(builtin: str | None, trips: int | None) -> None:
    """Statements of pgbench's own scripts; of others none is claimed."""
    record = a_watched_record(DEFAULT, DEFAULT)
    workload = Workload(name="w0", builtin=builtin)
    experiment = replace(the_experiment(), workloads=(workload,))
    found = reasons_of(replace(record, experiment=experiment)).ledger.cells[0]
    level = found.cost(Cost.ROUND_TRIPS)
    assert (None if level.value is None else level.value.value) == trips
    assert bool(level.missing) is (trips is None)


def test_cpu_per_transaction_is_shown_to_be_steadier_than_tps() -> None:
    """Both variations are over the same blocks; the made CPU time moves a fifth as much."""
    cell = ledger({}, {}).cells[0]
    variation = cell.cost(Cost.SERVER_CPU).variation
    assert variation is not None
    assert cell.tps_variation is not None
    assert variation == pytest.approx(0.2 * cell.tps_variation, rel=0.1)
