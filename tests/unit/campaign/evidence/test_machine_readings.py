"""The machine probe over a made run: totals, timeline, neighbours, and a reason for all else."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.host import FakeHost
from steelyard.campaign.evidence.machine import MachineProbe
from steelyard.campaign.evidence.watch import Part
from steelyard.core.measurement import Quantity, Vantage
from steelyard.record.tables import HOST_QUANTITIES
from support.recorded_host import (
    DATA,
    SERVER,
    STEELYARD,
    process_line,
    recorded_files,
    recorded_host,
)

_VANTAGE = Vantage(pid=SERVER, data=Path(DATA))
_S = 1_000_000_000


def _at(second: int, **changed: str) -> dict[str, str]:
    """Return two CPUs after some seconds: 1.2 s busy in each, of that 0.5 server, 0.4 pgbench."""
    files = recorded_files()
    user, idle = 1000 + 120 * second, 5000 + 80 * second
    files |= {
        "/proc/stat": f"cpu  {user} 0 0 {idle} 0 0 0 0 0 0\ncpu0 0\ncpu1 0\nctxt {9 * second}\n",
        f"/proc/{SERVER}/stat": process_line(SERVER, "postgres", 1, ticks=50 * second),
        f"/proc/{SERVER}/schedstat": f"{second * _S // 2} {second * _S} {40 * second}\n",
        f"/proc/{STEELYARD}/task/{STEELYARD}/children": "900" if 0 < second < 3 else "",
        "/proc/900/task/900/schedstat": f"{second * _S * 4 // 10} {second * _S // 10} 1\n",
        "/proc/77/stat": process_line(77, "neighbour", 1, ticks=30 * second),
        "/sys/dev/block/254:0/stat": " ".join(
            str(n * second) for n in (10, 0, 160, 40, 5, 0, 80, 30, 0, 100, 70, 0, 0, 0, 0, 4, 0)
        ),
    }
    return {**files, **changed}


def _run(host: FakeHost, vantage: Vantage | None) -> Part:
    """Return what a run of three seconds shows, whose generator ended at 2.9 s."""
    probe = MachineProbe(host=host, vantage=vantage)
    host.files = _at(0)
    probe.begin()
    for second in (1, 2):
        host.files = _at(second)
        host.own_s = 0.01 * second
        probe.sample(float(second))
    host.files = _at(3)
    host.own_s, host.children_s = 0.03, 1.2
    return probe.finish(3.0, lost=0)


def test_totals_are_differences_over_the_run() -> None:
    """CPU by who used it, the device, and what is left for others: 3.6 - 1.5 - 1.2 - 0.03 s."""
    part = _run(recorded_host(), _VANTAGE)
    expected = {
        Quantity.CPU_USER_S: 3.6,
        Quantity.CPU_IDLE_S: 2.4,
        Quantity.SERVER_CPU_S: 1.5,
        Quantity.SERVER_RUN_QUEUE_S: 3.0,
        Quantity.SERVER_SWITCHES: 120,
        Quantity.GENERATOR_CPU_S: 1.2,
        Quantity.GENERATOR_RUN_QUEUE_S: 0.2,
        Quantity.STEELYARD_CPU_S: 0.03,
        Quantity.OTHERS_CPU_S: 0.87,
        Quantity.CONTEXT_SWITCHES: 27,
        Quantity.DEVICE_READS: 30,
        Quantity.DEVICE_READ_BYTES: 3 * 160 * 512,
        Quantity.DEVICE_READ_S: 0.12,
        Quantity.DEVICE_FLUSHES: 12,
        Quantity.DEVICE_BUSY_S: 0.3,
        Quantity.DEVICE_QUEUE_S: 0.21,
        Quantity.CPU_PRESSURE_S: 0,
        Quantity.SWAPPED_PAGES: 0,
    }
    for quantity, value in expected.items():
        assert part.totals[quantity] == pytest.approx(value), quantity
    assert part.levels[Quantity.CPUS] == 2
    assert part.levels[Quantity.MEMORY_BYTES] == 24731708 * 1024
    assert [(other.name, other.cpu_s) for other in part.others] == [("neighbour", 0.9)]


def test_rows_of_the_timeline_add_up_to_the_totals() -> None:
    """Also what the generator used after the last sample is in the last row."""
    part = _run(recorded_host(), _VANTAGE)
    series = part.series[0]
    assert series.subject == "host"
    assert series.end_s == (1.0, 2.0, 3.0)
    for name in (Quantity.SERVER_CPU_S, Quantity.GENERATOR_CPU_S, Quantity.DEVICE_WRITES):
        column = series.names.index(name)
        whole = sum(row[column] or 0 for row in series.rows)
        assert whole == pytest.approx(part.totals[name])
    others = [row[series.names.index(Quantity.OTHERS_CPU_S)] for row in series.rows]
    assert others == pytest.approx([0.29, 0.29, 0.29])
    assert set(series.names) <= set(HOST_QUANTITIES)


def test_a_sample_just_before_the_end_makes_no_row_of_its_own() -> None:
    """A rate over the last hundredths of a second would be noise; the row before is longer."""
    host = recorded_host()
    host.files = _at(0)
    probe = MachineProbe(host=host, vantage=_VANTAGE)
    probe.begin()
    for second, at_s in ((1, 1.0), (2, 2.0)):
        host.files = _at(second)
        probe.sample(at_s)
    part = probe.finish(2.03, lost=0)
    assert part.series[0].end_s == (1.0, 2.03)


def test_what_there_is_none_of_is_no_absence() -> None:
    """No quota and one memory node are facts, as on most machines. Nothing is missing."""
    part = _run(recorded_host(), _VANTAGE)
    assert part.absent == ()
    assert Quantity.THROTTLED_S not in part.totals
    assert Quantity.WAL_DEVICE_WRITES not in part.totals, "it is the same device"


def test_sessions_that_no_sample_saw_leave_no_figure() -> None:
    """A session for every transaction: CPU is complete, its run-queue time unknown and not 0."""
    probe = MachineProbe(host=(host := recorded_host()), vantage=_VANTAGE)
    host.files = _at(0)
    probe.begin()
    reaped = process_line(SERVER, "postgres", 1, ticks=50, reaped=100)
    host.files = _at(1, **{f"/proc/{SERVER}/stat": reaped})
    host.children_s = 1.0  # of which samples saw 0.4
    part = probe.finish(1.0, lost=0)
    assert part.totals[Quantity.SERVER_CPU_S] == pytest.approx(1.5)
    unknown = {
        Quantity.SERVER_RUN_QUEUE_S: "server run queue",
        Quantity.SERVER_SWITCHES: "server switches",
        Quantity.GENERATOR_RUN_QUEUE_S: "generator run queue",
    }
    reasons = {absence.subject: absence.reason for absence in part.absent}
    for quantity, subject in unknown.items():
        assert quantity not in part.totals
        assert quantity not in part.series[0].names
        assert "before a sample" in reasons[subject]


def test_an_endpoint_shows_the_generators_machine() -> None:
    """Generator, steal and other processes; nothing of a server, and the report can say so."""
    part = _run(recorded_host(), None)
    assert part.totals[Quantity.GENERATOR_CPU_S] == pytest.approx(1.2)
    assert part.totals[Quantity.OTHERS_CPU_S] == pytest.approx(3.6 - 1.2 - 0.03)
    assert part.totals[Quantity.CPU_STEAL_S] == 0
    assert not [name for name in (*part.totals, *part.levels) if "server" in name]
    assert not [
        name for name in (*part.totals, *part.levels) if name.startswith(("device", "disk"))
    ]
    assert Quantity.HUGE_PAGES not in part.levels
    assert [absence.subject for absence in part.absent] == ["the server's machine"]


def test_the_wals_own_device_is_told_apart() -> None:
    """With pg_wal on another device both have their counters."""
    host = FakeHost(devices={"/": (254, 0), f"{DATA}/pg_wal/": (8, 3)})
    stat = "0 0 0 0 {} 0 800 0 0 0 0 0 0 0 0 9 0"
    probe = MachineProbe(host=host, vantage=_VANTAGE)
    host.files = _at(0, **{"/sys/dev/block/8:3/stat": stat.format(100)})
    probe.begin()
    host.files = _at(1, **{"/sys/dev/block/8:3/stat": stat.format(150)})
    part = probe.finish(1.0, lost=0)
    assert part.totals[Quantity.WAL_DEVICE_WRITES] == 50
    assert part.totals[Quantity.DEVICE_WRITES] == 5


def test_a_quota_shows_its_periods() -> None:
    """Periods, those that were cut short, and the seconds, in totals and timeline."""
    host, group = recorded_host(), "/sys/fs/cgroup/cpu"
    stat = "nr_periods {}\nnr_throttled {}\nthrottled_time {}\n"
    probe = MachineProbe(host=host, vantage=_VANTAGE)
    quota = {f"{group}/cpu.cfs_quota_us": "60000\n", f"{group}/cpu.cfs_period_us": "100000\n"}
    host.files = _at(0, **quota, **{f"{group}/cpu.stat": stat.format(100, 20, 5 * _S)})
    probe.begin()
    host.files = _at(1, **quota, **{f"{group}/cpu.stat": stat.format(110, 28, 6 * _S)})
    part = probe.finish(1.0, lost=0)
    assert part.totals[Quantity.QUOTA_PERIODS] == 10
    assert part.totals[Quantity.THROTTLED_PERIODS] == 8
    assert part.totals[Quantity.THROTTLED_S] == 1.0
    series = part.series[0]
    assert series.rows[0][series.names.index(Quantity.THROTTLED_S)] == 1.0


def test_a_machine_that_says_nothing_is_absent_with_reasons() -> None:
    """Without any file there are no figures but our own, no series, and a reason for each part."""
    probe = MachineProbe(host=FakeHost(), vantage=_VANTAGE)
    probe.begin()
    probe.sample(1.0)
    part = probe.finish(2.0, lost=0)
    assert set(part.totals) == {Quantity.STEELYARD_CPU_S, Quantity.GENERATOR_CPU_S}
    assert part.levels == {}
    assert part.series == ()
    assert len(part.absent) >= 8
    assert all(absence.reason for absence in part.absent)
    assert len({absence.subject for absence in part.absent}) == len(part.absent)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from(sorted(_at(1))), max_size=12),
    st.sampled_from(["", "odd", "1 2", "cpu 1 2\n", "9" * 40]),
)
def test_odd_files_never_raise(names: list[str], text: str) -> None:
    """Whatever files turn odd during a run, there is a part, without a figure below 0."""
    host = recorded_host()
    probe = MachineProbe(host=host, vantage=_VANTAGE)
    host.files = _at(0)
    probe.begin()
    host.files = {**_at(1), **dict.fromkeys(names, text)}
    probe.sample(1.0)
    part = probe.finish(2.0, lost=1)
    assert all(value >= 0 for value in part.totals.values())
    rows = [value for series in part.series for row in series.rows for value in row]
    assert all(value is None or value >= 0 for value in rows)


def test_a_replica_beside_the_server_is_no_neighbour() -> None:
    """Its CPU is counted for itself: not the server's, not that of others, not in their list."""
    beside = Vantage(pid=SERVER, data=Path(DATA), beside=(77,))
    part = _run(recorded_host(), beside)
    assert part.totals[Quantity.REPLICA_CPU_S] == pytest.approx(0.9)
    assert part.totals[Quantity.SERVER_CPU_S] == pytest.approx(1.5)
    assert part.totals[Quantity.OTHERS_CPU_S] == pytest.approx(0.0)  # 0.87 s, but for the ticks
    assert part.others == ()
    assert Quantity.REPLICA_CPU_S not in _run(recorded_host(), _VANTAGE).totals
