"""Devices and wait events: against recorded output of iostat, shares, and what is missing."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from made_records import an_experiment, compared
from turned_records import in_turns
from watched import both, seen

from steelyard.answers.campaign import analyse
from steelyard.answers.devices import (
    DEVICE_COLUMNS,
    DEVICES_TITLE,
    NOT_COUNTED,
    Device,
    DevicesAndWaits,
    device_section,
    devices_and_waits,
)
from steelyard.answers.report import build_document, summary
from steelyard.answers.results import CampaignAnalysis
from steelyard.answers.sustained.section import sustained_section
from steelyard.core.campaign import CampaignRecord
from steelyard.core.findings import Validity
from steelyard.core.measurement import (
    Absence,
    Evidence,
    Quantity,
    Series,
    SustainedRun,
    WaitClass,
    WaitEvent,
    Waits,
)
from steelyard.core.schedule import Mode
from steelyard.report.document import MISSING, Figure, Paragraph, Section, Table
from support.recorded_iostat import SECONDS, printed_by_iostat, used_as_recorded

ONE_LOAD = an_experiment(loads=1)
_PRINTED = {"read": ("rkB/s", 1024.0), "written": ("wkB/s", 1024.0)}
_SHOWN_PER = {"ms": 1e3, "KiB": 1 / 1024, "MiB/s": 1 / 1024}
_FLUSHES = (Quantity.DEVICE_FLUSHES, Quantity.DEVICE_FLUSH_S)


def counted(**changes: float) -> Evidence:
    """Return evidence with the device's counters of the recorded report of iostat."""
    totals: dict[str, float] = {**used_as_recorded()}
    totals |= {Quantity(name): value for name, value in changes.items()}
    return replace(seen(totals), seconds=SECONDS)


def without(evidence: Evidence, *quantities: Quantity, why: str = "") -> Evidence:
    """Return it without some counters, for a reason."""
    totals = {name: total for name, total in evidence.totals.items() if name not in quantities}
    gone = Absence(subject="flushes of the data device", reason=why)
    return replace(evidence, totals=totals, absent=(gone,) if why else ())


def waiting(events: Mapping[str, float], samples: int = 50) -> Evidence:
    """Return evidence of sessions by event, of PostgreSQL's type IO; ``CPU`` is one."""
    made = tuple(
        WaitEvent(
            kind="CPU" if name == "CPU" else "IO",
            name="" if name == "CPU" else name,
            group=WaitClass.CPU if name == "CPU" else WaitClass.IO,
            sessions=sessions,
        )
        for name, sessions in events.items()
    )
    waits = Waits(source="made", samples=samples, lost=0, events=made)
    return replace(counted(), waits=waits)


def told(record: CampaignRecord) -> tuple[CampaignAnalysis, DevicesAndWaits]:
    """Return the analysis of a record with its answer."""
    analysis = analyse(record)
    found = analysis.answer(devices_and_waits)
    assert found is not None
    return analysis, found


def section_of(analysis: CampaignAnalysis) -> Section:
    """Return the section of an analysis that has one."""
    found = analysis.answer(devices_and_waits)
    assert found is not None
    (section,) = device_section(analysis, found)
    return section


def table(analysis: CampaignAnalysis, title: str) -> Table:
    """Return a table of the section."""
    section = section_of(analysis)
    return next(b for b in section.blocks if isinstance(b, Table) and b.title == title)


def told_programs(analysis: CampaignAnalysis, key: str) -> list[Any]:
    """Return a list of ``summary.json``."""
    found = summary(analysis)[key]
    assert isinstance(found, list)
    return found


def words(analysis: CampaignAnalysis) -> str:
    """Return the paragraphs of the section."""
    blocks = section_of(analysis).blocks
    return " ".join(block.text for block in blocks if isinstance(block, Paragraph))


def test_columns_are_those_of_iostat() -> None:
    """Every column to the digits that iostat prints, in the unit that the table shows."""
    printed = printed_by_iostat()
    _, found = told(both(counted(), counted(), blocks=2, experiment=ONE_LOAD))
    for column in DEVICE_COLUMNS:
        value = found.devices[0].values[column.key]
        assert value is not None, column.name
        name, per = _PRINTED.get(column.name, (column.name, 1.0))
        shown = value.value * _SHOWN_PER.get(column.unit, 100.0 if column.name == "%util" else 1.0)
        shown = value.value / per if column.name in _PRINTED else shown
        assert shown == pytest.approx(printed[name], abs=0.0051), column.name


def test_a_missing_counter_says_so_and_is_no_zero() -> None:
    """In the cell, with the reason below; of the other configuration the figure is there."""
    lacking = without(counted(), *_FLUSHES, why="it is a partition")
    analysis, found = told(both(counted(), lacking, blocks=2, experiment=ONE_LOAD))
    there, gone = found.devices
    assert not there.not_counted
    assert gone.not_counted == dict.fromkeys(("flushes_per_s", "flush_s"), "it is a partition")
    assert gone.values["flushes_per_s"] is gone.values["flush_s"] is None
    assert gone.values["writes_per_s"] == there.values["writes_per_s"]
    shown = table(analysis, "Devices")
    place = next(n for n, column in enumerate(shown.columns) if column.name == "f/s")
    assert shown.rows[1].cells[place] == NOT_COUNTED
    assert shown.rows[0].cells[place] not in (NOT_COUNTED, MISSING)
    assert "Not counted: f/s and f_await: it is a partition." in shown.note
    entry = told_programs(analysis, "devices")[1]
    assert entry["flush_s"] is None
    assert entry["not_counted"] == [
        {"figure": "flushes_per_s", "reason": "it is a partition"},
        {"figure": "flush_s", "reason": "it is a partition"},
    ]


def test_a_mean_over_no_request_is_a_dash() -> None:
    """It was counted: the rate is 0, and there is nothing that an await could be the mean of."""
    none = dict.fromkeys(("device_reads", "device_read_bytes", "device_read_s"), 0.0)
    analysis, found = told(both(counted(**none), counted(**none), blocks=2, experiment=ONE_LOAD))
    first = found.devices[0]
    assert not first.not_counted
    assert first.values["reads_per_s"] is not None
    assert first.values["reads_per_s"].value == 0.0
    assert first.values["read_s"] is first.values["read_size_bytes"] is None
    cells = table(analysis, "Devices").rows[0].cells
    assert cells.count(MISSING) == 2


def test_without_a_device_there_is_a_reason_and_no_table() -> None:
    """A file system of memory has none: nothing is told in figures."""
    gone = Absence(subject="device of the data directory", reason="it has no block device")
    nothing = seen(absent=(gone,))
    analysis, found = told(both(nothing, nothing, blocks=2, experiment=ONE_LOAD))
    assert {each.blocks for each in found.devices} == {0}
    assert all(set(each.values.values()) == {None} for each in found.devices)
    assert "The device of the data: not counted: it has no block device." in words(analysis)
    assert not any(isinstance(block, Table) for block in section_of(analysis).blocks)


@pytest.mark.parametrize(("blocks", "bounded"), [(1, False), (5, False), (6, True), (12, True)])
def test_intervals_need_enough_blocks(blocks: int, bounded: bool) -> None:  # noqa: FBT001
    """None below six, for figures of the device and for shares alike."""
    watched = waiting({"DataFileRead": 3.0, "CPU": 1.0})
    analysis, found = told(both(watched, watched, blocks=blocks, experiment=ONE_LOAD))
    figure, event = found.devices[0].values["writes_per_s"], found.waits[0].events[0].share
    assert figure is not None
    assert found.devices[0].blocks == found.waits[0].blocks == blocks
    for each in (figure, event):
        assert (each.low is not None, each.high is not None) == (bounded, bounded)
    interval = table(analysis, "Wait events by share").rows[0].cells[5]
    assert (interval == MISSING) is not bounded


@pytest.mark.parametrize("configurations", [1, 2, 5])
def test_each_configuration_workload_and_load_has_a_row(configurations: int) -> None:
    """In the order of the file, of devices and of wait events alike."""
    experiment = an_experiment(configurations=configurations, workloads=2, loads=3)
    watched = waiting({"DataFileRead": 3.0, "CPU": 1.0})
    analysis, found = told(both(watched, watched, blocks=2, experiment=experiment))
    names = [each.name for each in experiment.configurations]
    assert [each.configuration for each in found.devices] == names * 6
    assert len(table(analysis, "Devices").rows) == len(found.waits) == 6 * configurations
    shown = table(analysis, "Wait events by share")
    assert len(shown.rows) == 2 * 6 * configurations
    assert {row.cells[1] for row in shown.rows} == {"1 client", "2 clients", "3 clients", ""}


def test_runs_of_a_block_are_one_ratio_of_sums() -> None:
    """Two rounds: their requests over their seconds, not the mean of two rates."""
    record = both(counted(), counted(), blocks=2, experiment=ONE_LOAD)
    again = [
        replace(run, evidence=replace(counted(device_writes=0.0), seconds=3 * SECONDS))
        for run in record.runs
    ]
    _, once = told(record)
    _, twice = told(replace(record, runs=(*record.runs, *again)))
    one, both_of_them = (found.devices[0].values["writes_per_s"] for found in (once, twice))
    assert one is not None
    assert both_of_them is not None
    assert both_of_them.value == pytest.approx(one.value / 4)


def test_a_wal_elsewhere_has_a_row_of_its_own() -> None:
    """Its reads are not recorded, which is said."""
    wal = {f"wal_device_{name}": 60.0 for name in ("writes", "write_bytes", "write_s", "flushes")}
    analysis, found = told(both(counted(**wal), counted(), blocks=2, experiment=ONE_LOAD))
    assert [each.device for each in found.devices] == [Device.DATA, Device.WAL, Device.DATA]
    of_wal = found.devices[1]
    assert of_wal.values["writes_per_s"] is not None
    assert of_wal.values["writes_per_s"].value == 10.0
    assert {"reads_per_s", "read_s", "in_flight", "flush_s"} <= of_wal.not_counted.keys()
    assert "flushes_per_s" not in of_wal.not_counted
    assert [row.cells[3] for row in table(analysis, "Devices").rows] == ["data", "WAL", "data"]


def test_wait_events_are_ranked_by_share() -> None:
    """Of all samples; an event that one block lacks has 0 there."""
    record = both(None, None, blocks=7, experiment=ONE_LOAD)
    usual, odd = {"CPU": 1.0, "DataFileRead": 3.0}, {"CPU": 1.0, "WalSync": 1.0}
    runs = tuple(
        replace(run, evidence=waiting(odd if run.block == 0 else usual)) for run in record.runs
    )
    analysis, found = told(replace(record, runs=runs))
    first = found.waits[0]
    assert [each.label for each in first.events] == ["IO: DataFileRead", "CPU", "IO: WalSync"]
    shares = [each.share.value for each in first.events]
    assert shares == pytest.approx([0.75, 0.25, 0.0])
    assert [each.sessions for each in first.events] == pytest.approx([3.0, 1.0, 0.0])
    # What is below a percent is in the summary alone.
    assert [row.cells[3] for row in table(analysis, "Wait events by share").rows[:3]] == [
        "IO: DataFileRead",
        "CPU",
        "IO: DataFileRead",
    ]
    events = told_programs(analysis, "wait_events")[0]["events"]
    assert [each["event"] for each in events] == ["DataFileRead", None, "WalSync"]


def test_what_was_not_sampled_says_why() -> None:
    """A run without a sample tells nothing of its block; a role that may not look, why."""
    gone = Absence(subject="wait events", reason="the role may not see them")
    blind = replace(counted(), absent=(gone,))
    analysis, found = told(both(waiting({"CPU": 1.0}), blind, blocks=2, experiment=ONE_LOAD))
    assert (found.waits[0].missing, found.waits[1].missing) == ("", "the role may not see them")
    last = table(analysis, "Wait events by share").rows[-1].cells
    assert last[3:5] == ("not sampled: the role may not see them", MISSING)
    never = waiting({"CPU": 1.0}, samples=0)
    analysis, found = told(both(never, never, blocks=2, experiment=ONE_LOAD))
    assert found.waits[0].events == ()
    assert "Wait events: wait events were not sampled." in words(analysis)


def test_it_is_told_what_the_counters_are_of() -> None:
    """Of a whole run, or of its own turns."""
    one_piece, _ = told(both(counted(), counted(), blocks=2, experiment=ONE_LOAD))
    record = in_turns(6)
    assert record.plan is not None
    runs = tuple(replace(run, evidence=counted()) for run in record.runs)
    plan = replace(record.plan, mode=Mode.ALTERNATING)
    turned, _ = told(replace(record, runs=runs, plan=plan))
    assert "ramp included" in table(one_piece, "Devices").note
    assert turned.is_in_turns
    assert "its own turns" in table(turned, "Devices").note
    assert DEVICES_TITLE in [section.title for section in build_document(one_piece).sections]


HOST = (
    *(Quantity.DEVICE_READS, Quantity.DEVICE_WRITES, Quantity.DEVICE_QUEUE_S),
    Quantity.DEVICE_READ_S,
)


def long_run(
    configuration: str, evidence: Evidence, *, seconds: int, names: tuple[Quantity, ...] = HOST
) -> SustainedRun:
    """Return a long run, a row per second: 100 reads of 4 ms, 50 writes, a half in flight."""
    rows = ((100.0, 50.0, 0.5, 0.4)[: len(names)],) * seconds
    series = Series(
        subject="host", names=names, end_s=tuple(float(s + 1) for s in range(seconds)), rows=rows
    )
    return SustainedRun(
        configuration=configuration,
        cell=compared(1, experiment=ONE_LOAD).runs[0].cell,
        started_at=10_000.0,
        ramp_s=2.0,
        measurement=None,
        validity=Validity.VALID,
        evidence=replace(evidence, series=(series,)),
    )


def test_a_long_run_has_a_row_and_lines_over_time() -> None:
    """Without an interval; means of so many seconds that a line has at most 240 steps."""
    record = both(counted(), counted(), blocks=6, experiment=ONE_LOAD)
    runs = tuple(long_run(name, waiting({"CPU": 1.0}), seconds=600) for name in ("t0", "t1"))
    analysis, found = told(replace(record, sustained=runs))
    row = found.devices[-1]
    assert (row.sustained, row.blocks) == (True, 0)
    assert row.values["writes_per_s"] is not None
    assert row.values["writes_per_s"].low is None
    assert "1 client, long run" in [r.cells[1] for r in table(analysis, "Devices").rows]
    (section,) = sustained_section(analysis)
    figure = next(
        b for b in section.blocks if isinstance(b, Figure) and b.identity == "sustained-device"
    )
    values = [row for row in figure.rows if row[3] == "value"]
    tracks = {"requests/s", "ms per read", "in flight"}
    assert {row[1] for row in values} == tracks, "what the record holds"
    assert {row[6] for row in values if row[1] == "ms per read"} == {4.0}
    reads = [row for row in values if row[1:3] == ("requests/s", "t0") and row[5] == "reads"]
    assert len(reads) == 201
    assert {row[6] for row in reads} == {100.0}
    assert (reads[0][4], reads[-1][4]) == (0.0, 600.0)
    assert "Each step is the mean of about 3 s." in figure.caption


def test_a_long_run_without_the_counters_has_no_lines() -> None:
    """Other quantities by second make no figure of a device."""
    record = both(counted(), counted(), blocks=6, experiment=ONE_LOAD)
    run = long_run("t0", counted(), seconds=30, names=(Quantity.SERVER_CPU_S,))
    analysis, _ = told(replace(record, sustained=(run,)))
    (section,) = sustained_section(analysis)
    figures = [b.identity for b in section.blocks if isinstance(b, Figure)]
    assert "sustained-device" not in figures
