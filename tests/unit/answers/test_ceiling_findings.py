"""Figures above what their place can do: each rule on both sides of its threshold."""

from dataclasses import replace

import numpy as np
import pytest
from made_records import a_record, a_run, an_experiment

from steelyard.answers.campaign import analyse
from steelyard.answers.ceilings import (
    MARGIN,
    ceiling_findings,
    ceiling_tables,
    device_read_findings,
    log_findings,
    log_rates,
    logs,
    read_findings,
)
from steelyard.answers.results import CellSummary
from steelyard.core.experiment import Experiment, Layer, Script, Setting, Workload
from steelyard.core.findings import Estimate, Finding, Severity, Validity
from steelyard.core.measurement import Environment, Evidence, Quantity, Run
from steelyard.core.schedule import LOG_WRITE_BYTES, Ceiling, CeilingKind, CellKey, Load

SYNC = Ceiling(
    kind=CeilingKind.SYNC,
    subject="fdatasync",
    rate_per_s=1000.0,
    how="a test",
    configurations=("t0",),
)
TRIP = Ceiling(
    kind=CeilingKind.ROUND_TRIP,
    subject="PostgreSQL, socket",
    latency_s=30e-6,
    fastest_s=20e-6,
    p99_s=90e-6,
    configurations=("t0",),
)
READS = Ceiling(
    kind=CeilingKind.DIRECT_READ, subject="4 KiB", rate_per_s=3000.0, configurations=("t0",)
)


def an_experiment_of(builtin: str | None) -> Experiment:
    """Return an experiment with one workload."""
    scripts = () if builtin else (Script(name="own.sql", text="SELECT 1;"),)
    workload = Workload(name="w", builtin=builtin, scripts=scripts)
    return replace(an_experiment(), workloads=(workload,))


def a_cell(
    *,
    tps: float = 500.0,
    low: float | None = None,
    latency_s: float | None = 1e-3,
    clients: int = 1,
    configuration: str = "t0",
) -> CellSummary:
    """Return a cell as it was measured."""
    return CellSummary(
        configuration=configuration,
        cell=CellKey(workload="w", load=Load(clients=clients, threads=1)),
        runs=8,
        tps=Estimate(value=tps, low=low, high=None if low is None else 2 * tps - low),
        latency_mean_s=latency_s,
        validity=Validity.VALID,
        stalled=0,
    )


def found(cell: CellSummary, builtin: str | None, *ceilings: Ceiling) -> list[Finding]:
    """Return the findings about one cell."""
    return list(ceiling_findings(ceilings, [cell], an_experiment_of(builtin)))


@pytest.mark.parametrize("builtin", ["simple-update", "tpcb-like"])
@pytest.mark.parametrize(("tps", "above"), [(1199.0, False), (1201.0, True)])
def test_commits_of_one_client_against_the_method_in_force(
    builtin: str, tps: float, *, above: bool
) -> None:
    """20 % above the rate are let pass, no more; values, method and remedy are told."""
    told = found(a_cell(tps=tps), builtin, SYNC)
    assert [finding.code for finding in told] == (["above-sync-ceiling"] if above else [])
    assert pytest.approx(0.2) == MARGIN
    for finding in told:
        assert finding.severity is Severity.WARNING
        assert (
            "1,201 commits/s by one client in w, and fdatasync reached 1,000/s" in finding.message
        )
        assert "above its ceiling: a write cache or the clock lies" in finding.message
        assert "fsync is not reaching the device" in finding.message
        assert finding.remedy
        assert finding.source == "a test"
        assert finding.subject == "t0"


def test_what_is_surely_reached_counts() -> None:
    """With an interval its lower bound is compared, not the median."""
    assert found(a_cell(tps=5000.0, low=1100.0), "simple-update", SYNC) == []
    assert len(found(a_cell(tps=5000.0, low=1300.0), "simple-update", SYNC)) == 1


@pytest.mark.parametrize(
    ("cell", "builtin", "ceiling"),
    [
        (a_cell(tps=9e9, clients=2), "simple-update", SYNC),
        (a_cell(tps=9e9), "select-only", SYNC),
        (a_cell(tps=9e9), None, SYNC),
        (a_cell(tps=9e9, configuration="t1"), "simple-update", SYNC),
        (a_cell(tps=9e9), "simple-update", replace(SYNC, rate_per_s=None, unknown="refused")),
        (replace(a_cell(tps=9e9), runs=0), "simple-update", SYNC),
        (a_cell(latency_s=1e-9, clients=2), "select-only", TRIP),
        (a_cell(latency_s=1e-9), "simple-update", TRIP),
        (a_cell(latency_s=1e-9, configuration="t1"), "select-only", TRIP),
        (a_cell(latency_s=None), "select-only", TRIP),
        (a_cell(latency_s=1e-9), "select-only", replace(TRIP, fastest_s=None)),
    ],
)
def test_what_no_ceiling_speaks_of(cell: CellSummary, builtin: str, ceiling: Ceiling) -> None:
    """Clients that share flushes, reads, own scripts, others, absent values: nothing."""
    assert found(cell, builtin, ceiling) == []


@pytest.mark.parametrize(("latency_s", "below"), [(16.1e-6, False), (15.9e-6, True)])
def test_a_latency_below_the_round_trip(latency_s: float, *, below: bool) -> None:
    """20 % less than the fastest of the round trips: another client, at another moment."""
    told = found(a_cell(latency_s=latency_s), "select-only", TRIP)
    assert [finding.code for finding in told] == (["below-round-trip"] if below else [])
    for finding in told:
        assert "16 µs per transaction of one client in w" in finding.message
        assert finding.remedy


@pytest.mark.parametrize(("reads_per_s", "above"), [(3599.0, False), (3601.0, True)])
def test_reads_of_the_device(reads_per_s: float, *, above: bool) -> None:
    """The fastest size is the ceiling, and 20 % above it are let pass."""
    slower = replace(READS, subject="8 KiB", rate_per_s=2000.0)
    told = list(read_findings([slower, READS], "t0", reads_per_s))
    assert [finding.code for finding in told] == (["above-read-ceiling"] if above else [])
    assert all("direct reads of 4 KiB reached 3,000/s" in finding.message for finding in told)


def test_reads_without_a_ceiling() -> None:
    """Where direct reads were refused, or were of another's device, nothing is said."""
    absent = replace(READS, rate_per_s=None, unknown="refused")
    assert list(read_findings([absent], "t0", 9e9)) == []
    assert list(read_findings([READS], "t1", 9e9)) == []
    assert list(read_findings([], "t0", 9e9)) == []


def a_reader(reads: float | None, size_bytes: float = 8192.0) -> Run:
    """Return a run of ten seconds in which the device served so many reads."""
    totals = {}
    if reads is not None:
        totals = {
            Quantity.DEVICE_READS: reads,
            Quantity.DEVICE_READ_BYTES: reads * size_bytes,
        }
    seen = Evidence(
        seconds=10.0, totals=totals, levels={}, waits=None, series=(), others=(), absent=()
    )
    return replace(
        a_run(1.0, configuration="t0", cell=a_cell().cell, place=(0, 0, 0)), evidence=seen
    )


def test_the_median_run_is_held_against_the_device() -> None:
    """One run above the ceiling is a moment; half of them are a finding about the configuration."""
    assert list(device_read_findings([READS], [a_reader(99000.0), a_reader(100.0)] * 2)) != []
    quiet = [a_reader(99000.0), a_reader(100.0), a_reader(100.0)]
    assert list(device_read_findings([READS], quiet)) == []
    (told,) = device_read_findings([READS], [a_reader(36010.0)])
    assert (told.code, told.subject) == ("above-read-ceiling", "t0")
    assert "3,601 reads/s" in told.message


@pytest.mark.parametrize(
    "run",
    [
        a_reader(99000.0, size_bytes=4095.0),
        a_reader(0.0),
        a_reader(None),
        replace(a_reader(99000.0), evidence=None),
    ],
)
def test_reads_that_no_ceiling_is_of(run: Run) -> None:
    """Smaller than the smallest measured, none, not counted, not watched: nothing is said."""
    assert list(device_read_findings([READS], [run])) == []
    assert len(list(device_read_findings([READS], [a_reader(99000.0, size_bytes=4096.0)]))) == 1


def test_the_analysis_has_ceilings_and_their_findings() -> None:
    """From the record's environment; a record without them, as old ones are, has none."""
    experiment = replace(
        an_experiment(loads=1), workloads=(Workload(name="w0", builtin="simple-update"),)
    )
    record = a_record(np.full((8, 2, 1), np.log(5000.0)), experiment)
    assert analyse(record).ceilings == ()
    environment = Environment(facts=(), ceilings=(SYNC,))
    analysis = analyse(replace(record, environment=environment))
    assert analysis.ceilings == (SYNC,)
    fast = tuple(
        replace(run, evidence=a_reader(99000.0).evidence if run.configuration == "t0" else None)
        for run in record.runs
    )
    device = replace(environment, ceilings=(READS,))
    found = analyse(replace(record, environment=device, runs=fast)).findings
    assert [finding.code for finding in found].count("above-read-ceiling") == 1
    codes = [finding.code for finding in analysis.findings]
    assert codes.count("above-sync-ceiling") == 1  # of t0, whose commits wait
    assert "above-sync-ceiling" not in [f.code for f in analyse(record).findings]


def test_a_round_trip_on_other_cpus_is_no_ceiling() -> None:
    """The generator of a limited configuration may have been bound to the server's CPU."""
    experiment = an_experiment_of("select-only")
    first, *others = experiment.configurations
    limit = Setting(layer=Layer.CGROUP, name="generator_cpuset", value="0")
    limited = replace(experiment, configurations=(replace(first, settings=(limit,)), *others))
    cells = [a_cell(latency_s=1e-9)]
    assert len(list(ceiling_findings([TRIP], cells, experiment))) == 1
    assert list(ceiling_findings([TRIP], cells, limited)) == []


LOG = Ceiling(
    kind=CeilingKind.LOG_WRITE,
    subject="16 MiB",
    rate_per_s=10.0,
    how="a test",
    configurations=("t0",),
)
DEVICE_BYTES_PER_S = 10.0 * LOG_WRITE_BYTES


def a_logger(
    share: float, quantity: Quantity = Quantity.WAL_BYTES, configuration: str = "t0"
) -> Run:
    """Return a run of ten seconds whose log took such a part of the device."""
    seen = Evidence(
        seconds=10.0,
        totals={quantity: 10.0 * share * DEVICE_BYTES_PER_S},
        levels={},
        waits=None,
        series=(),
        others=(),
        absent=(),
    )
    run = a_run(1.0, configuration=configuration, cell=a_cell().cell, place=(0, 0, 0))
    return replace(run, evidence=seen)


@pytest.mark.parametrize("quantity", [Quantity.WAL_BYTES, Quantity.AOF_BYTES])
@pytest.mark.parametrize(("share", "limited"), [(0.79, False), (0.81, True)])
def test_a_log_near_what_the_device_takes_is_limited_by_bytes(
    quantity: Quantity, share: float, *, limited: bool
) -> None:
    """The rate of WAL or append-only file stands beside the ceiling, and above 80 % it warns."""
    (rate,) = log_rates([LOG], [a_logger(share, quantity)])
    assert rate.share == pytest.approx(share)
    assert rate.most_bytes_per_s == DEVICE_BYTES_PER_S
    told = list(log_findings([rate]))
    assert [(each.code, each.severity) for each in told] == (
        [("log-limited-by-bytes", Severity.WARNING)] if limited else []
    )
    assert all("limited by bytes per second, not by flushes" in each.message for each in told)
    assert all("81.0 % of the 160.0 MiB/s" in each.message for each in told)


def test_the_load_that_writes_most_counts_and_by_its_median() -> None:
    """One run above the threshold is a moment; a load that writes little hides nothing."""
    moment = [a_logger(0.9), a_logger(0.1), a_logger(0.1)]
    (rate,) = log_rates([LOG], moment)
    assert rate.share == pytest.approx(0.1)
    key = CellKey(workload="w", load=Load(clients=9, threads=1))
    busy = replace(a_logger(0.9), cell=key)
    (rate,) = log_rates([LOG], [*moment, busy])
    assert rate.share == pytest.approx(0.9)


def test_without_a_ceiling_the_reason_stands_there() -> None:
    """Not taken, elsewhere, or of another configuration's device: the log is told, and no share."""
    absent = replace(LOG, rate_per_s=None, unknown="not taken: it takes long", configurations=())
    (rate,) = log_rates([absent], [a_logger(0.9)])
    assert (rate.share, rate.absent) == (None, "not taken: it takes long")
    (other,) = log_rates([LOG], [a_logger(0.9, configuration="t1")])
    assert (other.share, other.absent) == (None, "not measured where its log is")
    assert list(log_findings([rate, other])) == []


def test_where_nobody_asked_or_nothing_was_written_nothing_is_told() -> None:
    """An old record has no such ceiling; reads write no log; a run may not have been watched."""
    assert log_rates([SYNC], [a_logger(0.9)]) == ()
    assert log_rates([LOG], [a_logger(0.0), replace(a_logger(0.9), evidence=None)]) == ()


def test_the_report_puts_the_log_beside_its_device() -> None:
    """A table below the ceilings, the same in JSON, and the finding."""
    record = a_record(np.full((8, 2, 1), np.log(5000.0)), an_experiment(loads=1))
    runs = tuple(
        replace(run, evidence=a_logger(0.9 if run.configuration == "t0" else 0.1).evidence)
        for run in record.runs
    )
    environment = Environment(facts=(), ceilings=(replace(LOG, configurations=("t0", "t1")),))
    analysis = analyse(replace(record, runs=runs, environment=environment))
    assert [f.subject for f in analysis.findings if f.code == "log-limited-by-bytes"] == ["t0"]
    _, table = ceiling_tables(analysis)
    assert [row.cells[:5] for row in table.rows] == [
        ("t0", "w0", "144.0", "160.0", "90.0 %"),
        ("t1", "w0", "16.00", "160.0", "10.0 %"),
    ]
    assert len(analysis.answer(logs) or ()) == 2
