"""The machine around a run, in one piece and in turns: what went by, and a reason for all else."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.clock import FakeClock
from fakes.host import FakeHost
from steelyard.campaign.evidence.machine import MachineProbe
from steelyard.campaign.evidence.neighbours import Bystanders, Crowd
from steelyard.campaign.evidence.probe import Part
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


def _begun(host: FakeHost, vantage: Vantage | None = _VANTAGE) -> MachineProbe:
    """Return what reads a run in one piece that begins now, at 0 s."""
    probe = MachineProbe(host=host, vantage=vantage)
    probe.begin()
    probe.look_around()
    probe.resume(0.0)
    return probe


def _ended(probe: MachineProbe, at_s: float) -> Part:
    probe.halt(at_s)
    return probe.finish(at_s, lost=0)


def _run(host: FakeHost, vantage: Vantage | None) -> Part:
    """Return what a run of three seconds shows, whose generator ended at 2.9 s."""
    host.files = _at(0)
    probe = _begun(host, vantage)
    for second in (1, 2):
        host.files = _at(second)
        host.own_s = 0.01 * second
        probe.sample(float(second))
    host.files = _at(3)
    host.own_s, host.children_s = 0.03, 1.2
    return _ended(probe, 3.0)


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
    probe = _begun(host)
    for second, at_s in ((1, 1.0), (2, 2.0)):
        host.files = _at(second)
        probe.sample(at_s)
    part = _ended(probe, 2.03)
    assert part.series[0].end_s == (1.0, 2.03)


def test_what_there_is_none_of_is_no_absence() -> None:
    """No quota and one memory node are facts, as on most machines. Nothing is missing."""
    part = _run(recorded_host(), _VANTAGE)
    assert part.absent == ()
    assert Quantity.THROTTLED_S not in part.totals
    assert Quantity.WAL_DEVICE_WRITES not in part.totals, "it is the same device"


def test_sessions_that_no_sample_saw_leave_no_figure() -> None:
    """A session for every transaction: CPU is complete, its run-queue time unknown and not 0."""
    host = recorded_host()
    host.files = _at(0)
    probe = _begun(host)
    reaped = process_line(SERVER, "postgres", 1, ticks=50, reaped=100)
    host.files = _at(1, **{f"/proc/{SERVER}/stat": reaped})
    host.children_s = 1.0  # of which samples saw 0.4
    part = _ended(probe, 1.0)
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
    host.files = _at(0, **{"/sys/dev/block/8:3/stat": stat.format(100)})
    probe = _begun(host)
    host.files = _at(1, **{"/sys/dev/block/8:3/stat": stat.format(150)})
    part = _ended(probe, 1.0)
    assert part.totals[Quantity.WAL_DEVICE_WRITES] == 50
    assert part.totals[Quantity.DEVICE_WRITES] == 5


def test_a_quota_shows_its_periods() -> None:
    """Periods, those that were cut short, and the seconds, in totals and timeline."""
    host, group = recorded_host(), "/sys/fs/cgroup/cpu"
    stat = "nr_periods {}\nnr_throttled {}\nthrottled_time {}\n"
    quota = {f"{group}/cpu.cfs_quota_us": "60000\n", f"{group}/cpu.cfs_period_us": "100000\n"}
    host.files = _at(0, **quota, **{f"{group}/cpu.stat": stat.format(100, 20, 5 * _S)})
    probe = _begun(host)
    host.files = _at(1, **quota, **{f"{group}/cpu.stat": stat.format(110, 28, 6 * _S)})
    part = _ended(probe, 1.0)
    assert part.totals[Quantity.QUOTA_PERIODS] == 10
    assert part.totals[Quantity.THROTTLED_PERIODS] == 8
    assert part.totals[Quantity.THROTTLED_S] == 1.0
    series = part.series[0]
    assert series.rows[0][series.names.index(Quantity.THROTTLED_S)] == 1.0


def test_a_machine_that_says_nothing_is_absent_with_reasons() -> None:
    """Without any file there are no figures but our own, no series, and a reason for each part."""
    probe = _begun(FakeHost())
    probe.sample(1.0)
    part = _ended(probe, 2.0)
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
    host.files = _at(0)
    probe = _begun(host)
    host.files = {**_at(1), **dict.fromkeys(names, text)}
    probe.sample(1.0)
    part = _ended(probe, 2.0)
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


_OTHER_SERVER, _GENERATOR, _OTHER_GENERATOR, _NEIGHBOUR, _WRITEBACK = 8000, 900, 901, 77, 3
_OF_KERNEL = 0x00200000
_TICKS = 100


class Scene:
    """A machine of two CPUs by hand: who has the turn uses half of one, generators a quarter."""

    def __init__(self) -> None:
        self.host = recorded_host()
        self.clock = FakeClock()
        self.cpu_s = dict.fromkeys(
            (SERVER, _OTHER_SERVER, _GENERATOR, _OTHER_GENERATOR, _NEIGHBOUR, _WRITEBACK), 0.0
        )
        self.idle_s = 0.0
        self.moved = {"read": 0, "written": 0}
        self.faults = 0
        self.ended_s = self.ran_s = 0.0
        self.more: dict[str, str] = {}
        self.write()

    def go_on(
        self,
        seconds: float,
        server: int,
        *,
        busy: Sequence[int] = (),
        read: int = 0,
        written: int = 0,
    ) -> None:
        """Let one server work for so long; each of the busy processes uses half a CPU, too."""
        generator = _GENERATOR if server == SERVER else _OTHER_GENERATOR
        used = {server: seconds / 2, generator: seconds / 4, **dict.fromkeys(busy, seconds / 2)}
        for pid, cpu_s in used.items():
            self.cpu_s[pid] += cpu_s
        self.idle_s += 2 * seconds - sum(used.values())
        self.moved = {
            "read": self.moved["read"] + read,
            "written": self.moved["written"] + written,
        }
        self.clock.sleep(seconds)
        self.write()

    def write(self) -> None:
        """Write the machine's files as they are now."""
        ticks = {pid: round(cpu_s * _TICKS) for pid, cpu_s in self.cpu_s.items()}
        sectors = {name: moved // 512 for name, moved in self.moved.items()}
        server = process_line(SERVER, "postgres", 1, ticks=ticks[SERVER])
        kernel = process_line(_WRITEBACK, "kw", 2, ticks=ticks[3], flags=_OF_KERNEL)
        self.host.children_s = self.ended_s
        self.host.files = {
            **recorded_files(),
            "/proc/stat": f"cpu  {sum(ticks.values())} 0 0 {round(self.idle_s * _TICKS)}"
            " 0 0 0 0 0 0\ncpu0 0\ncpu1 0\nctxt 0\n",
            f"/proc/{SERVER}/stat": server.replace("-1 0 0 0 0 0", f"-1 0 0 0 {self.faults} 0"),
            f"/proc/{SERVER}/schedstat": f"{round(self.cpu_s[SERVER] * _S)} 0 1\n",
            f"/proc/{_GENERATOR}/task/{_GENERATOR}/schedstat": (
                f"{round(self.cpu_s[_GENERATOR] * _S)} 0 1\n"
            ),
            f"/proc/{_OTHER_SERVER}/stat": process_line(
                _OTHER_SERVER, "postgres", 1, ticks=ticks[_OTHER_SERVER]
            ),
            f"/proc/{_NEIGHBOUR}/stat": process_line(
                _NEIGHBOUR, "neighbour", 1, ticks=ticks[_NEIGHBOUR]
            ),
            f"/proc/{_NEIGHBOUR}/io": f"read_bytes: {ticks[_NEIGHBOUR]}\nwrite_bytes: 0\n",
            f"/proc/{_WRITEBACK}/stat": kernel,
            "/sys/dev/block/254:0/stat": (
                f"0 0 {sectors['read']} 0 0 0 {sectors['written']} 0 0 0 0 0 0 0 0 0 0\n"
            ),
            **self.more,
        }

    def begin(self, vantage: Vantage | None = _VANTAGE) -> None:
        """Let it be read for the first server's run."""
        ours = frozenset({SERVER, _OTHER_SERVER, _GENERATOR})
        self.probe = MachineProbe(
            host=self.host,
            vantage=vantage,
            crowd=Crowd(host=self.host, clock=self.clock, ours=ours),
            generators=lambda: (_GENERATOR,),
        )
        self.probe.begin()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Let the first server run meanwhile."""
        self.probe.look_around()
        self.probe.resume(self.clock.monotonic())
        began_at = self.clock.monotonic()
        yield
        self.probe.halt(self.clock.monotonic())
        self.ran_s += self.clock.monotonic() - began_at

    def part(self) -> Part:
        """Return what was seen."""
        return self.probe.finish(self.ran_s, lost=0)


def _taken(scene: Scene, *, beside: Sequence[int] = (), elsewhere: Sequence[int] = ()) -> Part:
    """Return what a run saw: a second to connect, then four turns with turns of the other between.

    While it connects, the neighbour and a thread of the kernel are busy, so that they are known.
    """
    scene.begin()
    with scene.turn():
        scene.go_on(1.0, SERVER, busy=(_NEIGHBOUR, _WRITEBACK))
    scene.probe.warm()
    for _ in range(4):
        with scene.turn():
            scene.go_on(0.2, SERVER, busy=beside, written=4096)
            scene.probe.settle_turn(scene.clock.monotonic())
            scene.go_on(0.3, SERVER, busy=beside, written=512, read=1024)
        scene.faults += 2
        scene.go_on(0.5, _OTHER_SERVER, busy=elsewhere, written=1 << 20, read=1 << 20)
    with scene.turn():
        scene.ended_s = scene.cpu_s[_GENERATOR]
        scene.write()
    return scene.part()


def test_what_goes_by_in_turns_of_another_is_not_of_this_run() -> None:
    """CPU and device are of its three seconds, and what is left for others is none of theirs."""
    scene = Scene()
    part = _taken(scene, elsewhere=(_NEIGHBOUR,))
    expected = {
        Quantity.CPU_USER_S: 3 * 0.75 + 1.0,
        Quantity.CPU_IDLE_S: 3 * 1.25 - 1.0,
        Quantity.SERVER_CPU_S: 1.5,
        Quantity.GENERATOR_CPU_S: 0.75,
        Quantity.OTHERS_CPU_S: 1.0,
        Quantity.DEVICE_WRITE_BYTES: 4 * (4096 + 512),
        Quantity.DEVICE_READ_BYTES: 4 * 1024,
        Quantity.SETTLING_S: 4 * 0.2,
        Quantity.SETTLED_S: 4 * 0.3,
        Quantity.SETTLING_WRITE_BYTES: 4 * 4096,
        Quantity.SETTLED_WRITE_BYTES: 4 * 512,
        Quantity.SETTLED_READ_BYTES: 4 * 1024,
    }
    for quantity, value in expected.items():
        assert part.totals[quantity] == pytest.approx(value, abs=0.021), quantity


@pytest.mark.parametrize(("beside", "elsewhere", "cpu_s"), [(1, 0, 1.0), (0, 1, 0.0), (1, 1, 1.0)])
@pytest.mark.parametrize(
    ("pid", "name", "bytes_per_s"), [(_NEIGHBOUR, "neighbour", _TICKS), (_WRITEBACK, "[kw]", None)]
)
def test_a_neighbour_is_charged_to_the_run_in_whose_turns_it_is(
    pid: int, name: str, bytes_per_s: float | None, *, beside: int, elsewhere: int, cpu_s: float
) -> None:
    """Busy in its turns it is told with what it used there; in those of another it is not.

    So is a thread of the kernel, which also works for the server: the rule for neighbours takes
    it off. The other configuration is no neighbour.
    """
    part = _taken(Scene(), beside=[pid] * beside, elsewhere=[pid] * elsewhere)
    told = {other.name: (other.cpu_s, other.io_bytes) for other in part.others}
    assert told.keys() == ({name} if cpu_s else set())
    if cpu_s:
        assert told[name] == (
            pytest.approx(cpu_s, abs=0.02),
            None if bytes_per_s is None else pytest.approx(cpu_s * bytes_per_s, abs=2),
        )


def test_faults_of_a_server_that_warmed_up_are_not_told() -> None:
    """Only those of its turns: a cold server has to read."""
    scene = Scene()
    scene.faults = 500
    part = _taken(scene)
    assert part.totals[Quantity.TURNS_MAJOR_FAULTS] == 8


def test_rows_of_the_timeline_are_of_own_seconds_and_add_up() -> None:
    """Pauses are in no row: four of them lie in these three seconds."""
    part = _taken(Scene(), elsewhere=(_NEIGHBOUR,))
    (series,) = part.series
    assert series.end_s == pytest.approx((1.0, 2.0, 3.0))
    used = (Quantity.SERVER_CPU_S, Quantity.GENERATOR_CPU_S, Quantity.OTHERS_CPU_S)
    for name in (*used, Quantity.CPU_IDLE_S, Quantity.DEVICE_WRITE_BYTES):
        column = series.names.index(name)
        whole = sum(row[column] or 0 for row in series.rows)
        assert whole == pytest.approx(part.totals[name], abs=0.021), name


@pytest.mark.parametrize("edge", ["resume", "halt"])
def test_what_cannot_be_read_at_one_edge_is_in_no_sum(edge: str) -> None:
    """A device that is gone for a moment: a sum with a hole in it would be too small."""
    scene = Scene()
    scene.begin()
    for lacking in ("", edge, ""):
        scene.more = {"/sys/dev/block/254:0/stat": ""} if lacking == "resume" else {}
        scene.write()
        with scene.turn():
            scene.more = {"/sys/dev/block/254:0/stat": ""} if lacking == "halt" else {}
            scene.go_on(1.0, SERVER, written=4096)
    totals = scene.part().totals
    assert Quantity.DEVICE_WRITE_BYTES not in totals
    assert totals[Quantity.CPU_USER_S] == pytest.approx(3 * 0.75, abs=0.011)


def test_children_are_waited_for_once_and_count_where_they_ran() -> None:
    """Who waits for the end of a followed child has its time then, which was counted already."""
    scene = Scene()
    crowd = Crowd(host=scene.host, clock=scene.clock, ours=frozenset())
    child, parent = 401, 400

    def at(child_s: float | None, reaped_s: float) -> None:
        line = process_line(parent, "make", 1, ticks=10, reaped=round(reaped_s * _TICKS))
        scene.more = {f"/proc/{parent}/stat": line}
        if child_s is not None:
            ticks = round(child_s * _TICKS)
            scene.more[f"/proc/{child}/stat"] = process_line(child, "cc1", parent, ticks=ticks)
        scene.clock.sleep(1.0)
        scene.write()

    seen = Bystanders(host=scene.host, ours=frozenset(), crowd=crowd)
    at(0.0, 0.0)
    crowd.now()
    at(1.0, 0.1)
    seen.begin()
    at(2.0, 0.1)
    seen.end(most_s=2.0)
    seen.begin()
    at(None, 3.1)  # it used one second more before its end
    crowd.now()  # here it is missed
    seen.end(most_s=2.0)
    told = {other.name: other.cpu_s for other in seen.heaviest()}
    assert told == {"cc1": 1.0, "make": pytest.approx(1.0)}


def test_what_a_turn_gives_is_the_time_of_its_cpus() -> None:
    """A turn of half a second on two CPUs: no process can have used more than a second in it."""
    scene = Scene()
    scene.begin()
    with scene.turn():
        scene.go_on(1.0, SERVER, busy=(_NEIGHBOUR,))
    line = process_line(_NEIGHBOUR, "neighbour", 1, ticks=50, reaped=4000)
    with scene.turn():
        scene.more = {f"/proc/{_NEIGHBOUR}/stat": line}
        scene.go_on(0.5, SERVER)
    assert [other.cpu_s for other in scene.part().others] == [1.0]


def test_through_a_network_what_goes_through_in_own_turns_counts() -> None:
    """A server elsewhere: its link is half full in its turns, and full in those of another."""
    scene = Scene()
    place, full = "/sys/class/net/eth0", 125_000_000

    def through(seconds: float, share: float) -> None:
        nonlocal moved
        moved += round(share * full * seconds)
        scene.more = {
            f"{place}/speed": "1000\n",
            f"{place}/statistics/rx_bytes": f"{moved}\n",
            f"{place}/statistics/tx_bytes": "0\n",
        }
        scene.go_on(seconds, SERVER)

    moved = 0
    through(0.0, 0.0)
    scene.begin(None)
    for _ in range(3):
        with scene.turn():
            through(0.5, 0.5)
        through(0.5, 1.0)
    part = scene.part()
    assert part.levels[Quantity.LINK_BUSIEST_FRACTION] == pytest.approx(0.5)
    assert Quantity.SERVER_CPU_S not in part.totals


def test_the_limit_of_a_pod_binds_the_generator_in_its_own_turns() -> None:
    """What held other configurations back in the same pod is none of this run's."""
    scene = Scene()

    def go_on(server: int, periods: int) -> None:
        counted[0] += periods
        scene.more = {
            "/proc/self/cgroup": "0::/\n",
            "/proc/self/mountinfo": "30 24 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup ro\n",
            "/sys/fs/cgroup/cpu.max": "150000 100000\n",
            "/sys/fs/cgroup/cpu.stat": f"nr_periods {counted[0]}\nnr_throttled {counted[0] // 2}\n"
            f"throttled_usec {counted[0] * 1000}\n",
        }
        scene.go_on(0.5, server)

    counted = [0]
    go_on(SERVER, 10)
    scene.begin(None)
    for _ in range(3):
        with scene.turn():
            go_on(SERVER, 4)
        go_on(_OTHER_SERVER, 20)
    part = scene.part()
    assert part.levels[Quantity.GENERATOR_CPUS] == 1.5
    assert part.totals[Quantity.GENERATOR_QUOTA_PERIODS] == 12
    assert part.totals[Quantity.GENERATOR_THROTTLED_PERIODS] == 6
    assert part.totals[Quantity.GENERATOR_THROTTLED_S] == pytest.approx(0.012)
    assert Quantity.QUOTA_PERIODS not in part.totals
