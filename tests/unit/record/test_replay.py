"""From journal lines to the campaign they tell of, and to tables for the user's own analysis."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sample_entries import a_run, a_story, an_experiment

from steelyard.core import experiment as core
from steelyard.core import measurement
from steelyard.core.campaign import BlockOutcome, CampaignRecord, ServerMade, Status
from steelyard.core.findings import Fact
from steelyard.core.measurement import Environment, ProviderSeries, ServerEnvironment
from steelyard.core.schedule import Load
from steelyard.core.wording import RecordError
from steelyard.record import journal as entries
from steelyard.record.journal import IN_FLIGHT, Entry, Line, RunFinished, replay, standing
from steelyard.record.tables import HOST_QUANTITIES, write_tables
from steelyard.stats.histogram import histogram_of, to_text

_START = entries.Started(
    campaign_id="c", experiment=an_experiment(), command="steelyard run x", version="0"
)


def _lines(*story: Entry) -> tuple[Line, ...]:
    return tuple(
        Line(sequence=n, at=100.0 + n, elapsed_s=float(n), entry=entry)
        for n, entry in enumerate(story)
    )


def _started(index: int, attempt: int = 0) -> entries.BlockStarted:
    return entries.BlockStarted(index=index, attempt=attempt)


def _ended(index: int, attempt: int = 0, reason: str = "") -> entries.BlockEnded:
    return entries.BlockEnded(
        outcome=BlockOutcome(index=index, attempt=attempt, complete=not reason, reason=reason)
    )


def test_a_story_is_told_back() -> None:
    """Experiment, command, runs, tries, findings and times are those of the entries."""
    record = replay(_lines(*a_story()))
    assert record.campaign_id == "tiny-1"
    assert record.experiment == an_experiment()
    assert record.command == "steelyard run"
    assert len(record.runs) == 3
    assert [(b.index, b.attempt, b.complete) for b in record.blocks] == [
        (0, 0, False),
        (0, 1, True),
    ]
    assert record.findings[0].code == "f"
    assert (record.started_at, record.elapsed_s) == (100.0, len(a_story()) - 1)
    assert record.status is Status.BUDGET
    assert record.plan is None


def test_only_runs_of_complete_tries_count() -> None:
    """What was measured in a try that was thrown away stays in the record and out of analysis."""
    record = replay(_lines(*a_story()))
    assert record.complete_blocks == ((0, 1),)
    assert [run.configuration for run in record.counted_runs] == ["a", "b"]
    assert all(run.measurement is not None for run in record.counted_runs)


@pytest.mark.parametrize("after", [(), (entries.Resumed(version="0"), _started(2, 1))])
def test_a_block_in_flight_at_a_death_is_thrown_away(after: Sequence[Entry]) -> None:
    """A try that never ended is incomplete with the reason, whether or not work went on."""
    story = [_START, _started(1), _ended(1), _started(2), entries.RunFinished(run=a_run(2))]
    record = replay(_lines(*story, *after))
    reasons = [(b.index, b.attempt, b.complete, b.reason) for b in record.blocks]
    assert reasons[:2] == [(1, 0, True, ""), (2, 0, False, IN_FLIGHT)]
    assert reasons[2:] == ([(2, 1, False, IN_FLIGHT)] if after else [])
    assert record.complete_blocks == ((1, 0),)


@pytest.mark.parametrize(
    ("story", "status"),
    [
        ((), Status.RUNNING),
        ((entries.Ended(status=Status.DECIDED),), Status.DECIDED),
        (
            (entries.Ended(status=Status.FAILED), entries.Removed(resource="directory", name="/x")),
            Status.FAILED,
        ),
        ((entries.Ended(status=Status.INTERRUPTED), entries.Resumed(version="0")), Status.RUNNING),
        (
            (
                entries.Ended(status=Status.INTERRUPTED),
                entries.Resumed(version="0"),
                entries.Ended(status=Status.BUDGET),
            ),
            Status.BUDGET,
        ),
    ],
)
def test_the_status_is_that_of_the_last_session(story: Sequence[Entry], status: Status) -> None:
    """Clearing up after the end changes nothing; a resumed campaign runs again."""
    assert replay(_lines(_START, *story)).status is status


def test_a_later_environment_replaces_an_earlier() -> None:
    """A resumed campaign tells the facts anew."""
    first, second = (
        Environment(facts=(Fact(name="kernel", value=value),)) for value in ("6.1", "6.2")
    )
    story = [entries.EnvironmentRead(environment=e) for e in (first, second)]
    assert replay(_lines(_START, *story)).environment == second


@pytest.mark.parametrize("story", [(), (entries.Resumed(version="0"),)])
def test_what_does_not_begin_with_a_start_is_no_campaign(story: Sequence[Entry]) -> None:
    """A journal of something else is refused with a way out."""
    with pytest.raises(RecordError, match="does not begin with the start") as caught:
        replay(_lines(*story))
    assert caught.value.hint


def test_resources_are_what_was_made_and_not_removed() -> None:
    """Last made first, so that what stands on another is removed before it."""
    made = [entries.Created(resource="directory", name=name) for name in ("/a", "/b", "/c")]
    gone = [entries.Removed(resource="directory", name=name) for name in ("/b", "/never-made")]
    left = standing(_lines(_START, *made, *gone)).left
    assert [each.name for each in left] == ["/c", "/a"]
    assert standing(_lines(*a_story())).left == ()


# What a chart library ends the process for, what steers a terminal, and what takes a minute.
_WRONG = ("x\0y", "x\x1by", "x\u009by", "x\u202ey", "x\ufffey", "x\uffffy", "", "a" * 5000)
_NAMED = ("configuration", "workload", "name")  # and levels, which are labels


def _factors(**changed: str) -> core.Experiment:
    """Return an experiment that varies one factor, with a name in it changed."""
    factor = replace(core.Factor(name="f", first="off", second="on it"), **changed)
    attribution = core.Attribution(
        kind=core.AttributionKind.FACTORS, factors=(factor,), combinations=((0,), (1,))
    )
    return replace(an_experiment(), attribution=attribution)


def _named(kind: str, name: str) -> core.Experiment:
    """Return an experiment in which something of a kind has this name."""
    experiment = an_experiment()
    if kind == "configuration":
        first, second = experiment.configurations
        return replace(experiment, configurations=(first, replace(second, name=name)))
    if kind == "workload":
        return replace(experiment, workloads=(replace(experiment.workloads[0], name=name),))
    return _factors(**{kind: name})


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *((kind, name) for kind in (*_NAMED, "first", "second") for name in _WRONG),
        *((kind, "a b") for kind in _NAMED),
    ],
    ids=ascii,
)
def test_names_of_a_journal_are_those_that_files_may_give(kind: str, name: str) -> None:
    """A record may come from anybody; names of configurations, workloads and factors are short."""
    with pytest.raises(RecordError, match=r"line 1 of the journal: .* is not a valid name") as told:
        replay(_lines(replace(_START, experiment=_named(kind, name))))
    assert told.value.message.isprintable()
    assert len(told.value.message) < 300


@pytest.mark.parametrize("name", ["a", "huge-pages+buffers", "without-" + "x" * 40, "9_-"])
def test_names_that_files_and_factors_make_are_read(name: str) -> None:
    """Also those of combinations, which are longer than any of a file."""
    experiment = _named("configuration", name)
    assert replay(_lines(replace(_START, experiment=experiment))).experiment == experiment


def _speaking_of(name: str) -> dict[str, Any]:
    """Return an entry of each kind that names a configuration."""
    server = ServerEnvironment(configuration=name, version="18", settings=())
    made = ServerMade(block=0, attempt=0, start=0, configuration=name, facts=())
    series = ProviderSeries(
        server="s",
        configurations=(name,),
        metric="m",
        unit="%",
        period_s=60.0,
        starts_s=(),
        values=(),
    )
    outcome = BlockOutcome(index=0, attempt=0, complete=False, configuration=name)
    return {
        "environment": entries.EnvironmentRead(
            environment=Environment(facts=(), servers=(server,))
        ),
        "provisioned": entries.Provisioned(server=made),
        "provider": entries.ProviderRead(series=(series,)),
        "block": entries.BlockEnded(outcome=outcome),
        "run": entries.RunFinished(run=a_run(configuration=name)),
    }


@pytest.mark.parametrize("kind", list(_speaking_of("a")))
def test_a_journal_speaks_of_its_own_configurations_alone(kind: str) -> None:
    """No other name comes in by a later line."""
    replay(_lines(_START, _speaking_of("b")[kind]))
    with pytest.raises(RecordError, match="line 2 of the journal"):
        replay(_lines(_START, _speaking_of("x\x1by")[kind]))


_KEY = [
    "block",
    "attempt",
    "start",
    "position",
    "configuration",
    "workload",
    "clients",
    "threads",
    "rate_per_s",
    "rate_share",
    "generators",
    "sustained",
]


@pytest.fixture
def record() -> CampaignRecord:
    """Return a campaign with one run that has no result and two that have."""
    lines = [
        Line(sequence=n, at=float(n), elapsed_s=float(n), entry=entry)
        for n, entry in enumerate(a_story())
    ]
    return replay(lines)


def test_runs_are_rows_in_run_order(record: CampaignRecord, tmp_path: Path) -> None:
    """One row per run, with its place and whether it counts; units are in the names."""
    write_tables(record, tmp_path)
    table = pq.read_table(tmp_path / "runs.parquet")
    assert table.column_names == [
        *_KEY,
        "counted",
        "started_at",
        "since_start_s",
        "validity",
        "transactions",
        "seconds",
        "tps",
        "latency_mean_s",
        "latency_stddev_s",
        "failed",
        "connection_s",
        "raw",
        "checkpoint_age_s",
        "sub_block",
    ]
    assert table["attempt"].to_pylist() == [0, 1, 1]
    assert table["counted"].to_pylist() == [False, True, True]
    assert table["tps"].to_pylist() == [None, 1000.0, 1000.0]
    assert table["validity"].to_pylist() == ["invalid", "valid", "valid"]


def test_what_is_missing_is_null(record: CampaignRecord, tmp_path: Path) -> None:
    """Never 0 and never NaN: a mean over a column leaves missing values out by itself."""
    write_tables(record, tmp_path)
    table = pq.read_table(tmp_path / "runs.parquet")
    for name in ("transactions", "seconds", "failed", "connection_s"):
        assert table[name].null_count == 1
    assert table["failed"].to_pylist() == [None, 0, 0]
    assert table["latency_mean_s"].null_count == 3
    floats = [field.name for field in table.schema if pa.types.is_floating(field.type)]
    values = [value for name in floats for value in table[name].to_pylist()]
    assert not any(value is not None and math.isnan(value) for value in values)


def test_types_do_not_depend_on_the_content(record: CampaignRecord, tmp_path: Path) -> None:
    """A column that is null throughout has its type all the same."""
    write_tables(record, tmp_path)
    runs = pq.read_schema(tmp_path / "runs.parquet")
    empty = tmp_path / "empty"
    empty.mkdir()
    write_tables(replay([Line(sequence=0, at=0.0, elapsed_s=0.0, entry=a_story()[0])]), empty)
    assert pq.read_schema(empty / "runs.parquet") == runs
    assert pq.read_table(empty / "runs.parquet").num_rows == 0
    for name in ("intervals", "waits", "counters", "host", "latency"):
        assert pq.read_table(empty / f"{name}.parquet").num_rows == 0
    write_tables(_watched(record), tmp_path)
    assert pq.read_schema(tmp_path / "host.parquet") == pq.read_schema(empty / "host.parquet")
    types = {field.name: str(field.type) for field in runs}
    assert types["clients"] == "int32"
    assert types["latency_stddev_s"] == "double"
    assert types["configuration"] == "string"


def test_intervals_are_rows_with_their_run(record: CampaignRecord, tmp_path: Path) -> None:
    """One row per second of every run; a stalled second has 0 transactions and no latency."""
    write_tables(record, tmp_path)
    table = pq.read_table(tmp_path / "intervals.parquet")
    assert table.column_names == [
        *_KEY,
        "end_s",
        "seconds",
        "transactions",
        "latency_mean_s",
        "failed",
    ]
    assert table["configuration"].to_pylist() == ["a", "b"]
    assert table["transactions"].to_pylist() == [0.0, 0.0]
    assert table["latency_mean_s"].to_pylist() == [None, None]


def _watched(record: CampaignRecord) -> CampaignRecord:
    """Return the record with a timeline of two intervals in its last run."""
    series = measurement.Series(
        subject="host",
        names=("server_cpu_s", "cpu_steal_s"),
        end_s=(1.0, 2.03),
        rows=((0.5, None), (0.75, 0.0)),
    )
    evidence = measurement.Evidence(
        seconds=2.03, totals={}, levels={}, waits=None, series=(series,), others=(), absent=()
    )
    *earlier, last = record.runs
    return replace(record, runs=(*earlier, replace(last, evidence=evidence)))


def test_the_machine_is_rows_with_their_run(record: CampaignRecord, tmp_path: Path) -> None:
    """One row per interval; a column that a run does not have, and a value it lacks, is null."""
    write_tables(_watched(record), tmp_path)
    table = pq.read_table(tmp_path / "host.parquet")
    names = [quantity.value for quantity in HOST_QUANTITIES]
    assert table.column_names == [*_KEY, "end_s", *names]
    assert table["configuration"].to_pylist() == ["b", "b"]
    assert table["end_s"].to_pylist() == [1.0, 2.03]
    assert table["server_cpu_s"].to_pylist() == [0.5, 0.75]
    assert table["cpu_steal_s"].to_pylist() == [None, 0.0]
    assert table["device_reads"].null_count == 2
    assert {str(table.schema.field(name).type) for name in names} == {"double"}


def _with_evidence() -> CampaignRecord:
    """Return a campaign whose second run was watched, and the first not."""
    waits = measurement.Waits(
        source="pg_stat_activity at 10 Hz",
        samples=50,
        lost=0,
        events=(
            measurement.WaitEvent(
                kind="IO", name="WalSync", group=measurement.WaitClass.WAL, sessions=1.5
            ),
            measurement.WaitEvent(
                kind="CPU", name="", group=measurement.WaitClass.CPU, sessions=0.25
            ),
        ),
    )
    evidence = measurement.Evidence(
        seconds=5.0,
        totals={measurement.Quantity.COMMITS: 5003.0, measurement.Quantity.WAL_BYTES: 1e6},
        levels={measurement.Quantity.DATABASE_BYTES: 3e7},
        waits=waits,
        series=(),
        others=(),
        absent=(),
        statements=(
            measurement.StatementUse(
                text="END",
                calls=5003.0,
                seconds=1.5,
                rows=0.0,
                pages_hit=1.0,
                pages_read=0.0,
                wal_bytes=34.0,
            ),
        ),
    )
    story = [
        replace(entry, run=replace(entry.run, evidence=evidence))
        if isinstance(entry, RunFinished) and entry.run.configuration == "b"
        else entry
        for entry in a_story()
    ]
    return replay(
        [Line(sequence=n, at=float(n), elapsed_s=float(n), entry=e) for n, e in enumerate(story)]
    )


def test_wait_events_are_rows_with_their_run(tmp_path: Path) -> None:
    """One row per event of the run that was watched; no row, and not zeros, for the others."""
    write_tables(_with_evidence(), tmp_path)
    table = pq.read_table(tmp_path / "waits.parquet")
    assert table.column_names == [*_KEY, "kind", "name", "class", "sessions"]
    assert table["configuration"].to_pylist() == ["b", "b"]
    assert table["class"].to_pylist() == ["wal", "cpu"]
    assert table["name"].to_pylist() == ["WalSync", ""]
    assert table["sessions"].to_pylist() == [1.5, 0.25]


def test_statements_are_rows_with_their_run(tmp_path: Path) -> None:
    """One row per statement that was called; no row for a run in which nobody read them."""
    write_tables(_with_evidence(), tmp_path)
    (row,) = pq.read_table(tmp_path / "statements.parquet").to_pylist()
    assert row["configuration"] == "b"
    assert (row["statement"], row["calls"], row["wal_bytes"]) == ("END", 5003.0, 34.0)


def test_counters_are_rows_with_their_run(tmp_path: Path) -> None:
    """One row per quantity, as the difference over the run."""
    write_tables(_with_evidence(), tmp_path)
    table = pq.read_table(tmp_path / "counters.parquet")
    assert table.column_names == [*_KEY, "name", "total"]
    assert table["name"].to_pylist() == ["commits", "wal_bytes"]
    assert table["total"].to_pylist() == [5003.0, 1e6]


def test_tables_of_the_same_record_are_the_same_bytes(
    record: CampaignRecord, tmp_path: Path
) -> None:
    """A report that is repeated writes what was there."""
    write_tables(record, tmp_path)
    names = [f"{name}.parquet" for name in ("runs", "intervals", "waits", "counters")]
    before = [(tmp_path / name).read_bytes() for name in names]
    write_tables(record, tmp_path)
    assert [(tmp_path / name).read_bytes() for name in names] == before


def test_a_place_that_cannot_be_written_is_a_record_error(
    record: CampaignRecord, tmp_path: Path
) -> None:
    """The sentence names the file."""
    with pytest.raises(RecordError, match=r"runs\.parquet"):
        write_tables(record, tmp_path / "absent")


def test_loads_are_told_apart_by_their_rates(record: CampaignRecord, tmp_path: Path) -> None:
    """A closed loop has no rate; of an open one the asked for rate or share is there."""
    loads = (
        Load(clients=2, threads=1),
        Load(clients=2, threads=1, rate_per_s=500.0, generators=2),
        Load(clients=2, threads=1, share=0.7),
    )
    runs = tuple(
        replace(run, cell=replace(run.cell, load=load))
        for run, load in zip(record.runs, loads, strict=True)
    )
    write_tables(replace(record, runs=runs), tmp_path)
    table = pq.read_table(tmp_path / "runs.parquet")
    assert table["rate_per_s"].to_pylist() == [None, 500.0, None]
    assert table["rate_share"].to_pylist() == [None, None, 0.7]
    assert table["generators"].to_pylist() == [1, 2, 1]


def test_latencies_are_rows_by_bucket(record: CampaignRecord, tmp_path: Path) -> None:
    """Counts of every script, lag and service add up to what was logged; others have no rows."""
    logged = measurement.RunLatency(
        scripts=(
            measurement.ScriptLatency(
                script="new", latency=to_text(histogram_of([300, 301, 5000])), longest_s=1.0
            ),
            measurement.ScriptLatency(
                script="old", latency=to_text(histogram_of([7])), longest_s=1.0
            ),
        ),
        lag=to_text(histogram_of([1, 2])),
        service=to_text(histogram_of([299])),
    )
    last = replace(record.runs[-1], latency=logged)
    write_tables(replace(record, runs=(*record.runs[:-1], last)), tmp_path)
    table = pq.read_table(tmp_path / "latency.parquet")
    assert table.column_names == [*_KEY, "script", "kind", "low_us", "high_us", "count"]
    rows = table.to_pylist()
    assert {(row["block"], row["attempt"], row["position"]) for row in rows} == {
        (last.block, last.attempt, last.position)
    }
    told = [(r["script"], r["kind"], r["low_us"], r["high_us"], r["count"]) for r in rows]
    assert told == [
        ("new", "latency", 300, 301, 2),
        ("new", "latency", 4992, 5023, 1),
        ("old", "latency", 7, 7, 1),
        (None, "lag", 1, 1, 1),
        (None, "lag", 2, 2, 1),
        (None, "service", 298, 299, 1),
    ]
