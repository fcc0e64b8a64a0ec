"""The machine around runs in turns: what went by in a run's own turns is its, and nothing else."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from fakes.clock import FakeClock
from steelyard.campaign.evidence.machine import MachineInTurns
from steelyard.campaign.evidence.neighbours import Bystanders, Crowd
from steelyard.campaign.evidence.processes import parse_major_faults
from steelyard.campaign.evidence.watch import Part
from steelyard.core.measurement import Quantity, Vantage
from support.recorded_host import DATA, SERVER, process_line, recorded_files, recorded_host

_VANTAGE = Vantage(pid=SERVER, data=Path(DATA))
_OTHER_SERVER, _GENERATOR, _OTHER_GENERATOR, _NEIGHBOUR, _WRITEBACK = 8000, 900, 901, 77, 3
_OF_KERNEL = 0x00200000
_TICKS = 100
_NS = 1_000_000_000


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
        self.ended_s = 0.0
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
        kernel = process_line(_WRITEBACK, "kworker/0:1", 2, ticks=ticks[3], flags=_OF_KERNEL)
        self.host.children_s = self.ended_s
        self.host.files = {
            **recorded_files(),
            "/proc/stat": f"cpu  {sum(ticks.values())} 0 0 {round(self.idle_s * _TICKS)}"
            " 0 0 0 0 0 0\ncpu0 0\ncpu1 0\nctxt 0\n",
            f"/proc/{SERVER}/stat": server.replace("-1 0 0 0 0 0", f"-1 0 0 0 {self.faults} 0"),
            f"/proc/{SERVER}/schedstat": f"{round(self.cpu_s[SERVER] * _NS)} 0 1\n",
            f"/proc/{_GENERATOR}/task/{_GENERATOR}/schedstat": (
                f"{round(self.cpu_s[_GENERATOR] * _NS)} 0 1\n"
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

    def machine(self, vantage: Vantage | None = _VANTAGE) -> MachineInTurns:
        """Return what reads it for the first server's run."""
        ours = frozenset({SERVER, _OTHER_SERVER, _GENERATOR})
        return MachineInTurns(
            host=self.host,
            vantage=vantage,
            crowd=Crowd(host=self.host, clock=self.clock, ours=ours),
            generators=lambda: (_GENERATOR,),
            clock=self.clock,
        )


def _taken(scene: Scene, *, beside: Sequence[int] = (), elsewhere: Sequence[int] = ()) -> Part:
    """Return what a run saw: a second to connect, then four turns with turns of the other between.

    While it connects, the neighbour and a thread of the kernel are busy, so that they are known.
    """
    machine = scene.machine()
    machine.resume()
    scene.go_on(1.0, SERVER, busy=(_NEIGHBOUR, _WRITEBACK))
    machine.halt(scene.clock.monotonic())
    machine.begin_turns()
    for _ in range(4):
        machine.resume()
        scene.go_on(0.2, SERVER, busy=beside, written=4096)
        machine.settle_turn()
        scene.go_on(0.3, SERVER, busy=beside, written=512, read=1024)
        machine.halt(scene.clock.monotonic())
        scene.faults += 2
        scene.go_on(0.5, _OTHER_SERVER, busy=elsewhere, written=1 << 20, read=1 << 20)
    machine.resume()
    scene.ended_s = scene.cpu_s[_GENERATOR]
    scene.write()
    machine.halt(scene.clock.monotonic())
    return machine.finish()


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
def test_a_neighbour_is_charged_to_the_run_in_whose_turns_it_is(
    beside: int, elsewhere: int, cpu_s: float
) -> None:
    """Busy in its turns it is told with what it used there; in those of another it is not."""
    part = _taken(Scene(), beside=[_NEIGHBOUR] * beside, elsewhere=[_NEIGHBOUR] * elsewhere)
    told = {other.name: (other.cpu_s, other.io_bytes) for other in part.others}
    assert told.get("neighbour", (0.0, None))[0] == pytest.approx(cpu_s, abs=0.02)
    if cpu_s:
        assert told["neighbour"][1] == pytest.approx(cpu_s * _TICKS, abs=2)
    assert "postgres" not in told, "the other configuration is no neighbour"


def test_threads_of_the_kernel_are_told_with_what_they_did_in_own_turns() -> None:
    """They also work for the server: the rule for neighbours takes them off."""
    told = {other.name: other.cpu_s for other in _taken(Scene(), beside=(_WRITEBACK,)).others}
    assert told == {"[kworker/0:1]": pytest.approx(1.0, abs=0.02)}


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
    for name in (Quantity.SERVER_CPU_S, Quantity.CPU_IDLE_S, Quantity.DEVICE_WRITE_BYTES):
        column = series.names.index(name)
        whole = sum(row[column] or 0 for row in series.rows)
        assert whole == pytest.approx(part.totals[name], abs=0.021), name


@pytest.mark.parametrize("edge", ["resume", "halt"])
def test_what_cannot_be_read_at_one_edge_is_in_no_sum(edge: str) -> None:
    """A device that is gone for a moment: a sum with a hole in it would be too small."""
    scene = Scene()
    machine = scene.machine()
    machine.resume()
    scene.go_on(1.0, SERVER, written=4096)
    machine.halt(scene.clock.monotonic())
    for now in ("resume", "halt"):
        scene.more = {"/sys/dev/block/254:0/stat": ""} if edge == now else {}
        if now == "resume":
            scene.write()
            machine.resume()
        else:
            scene.go_on(1.0, SERVER, written=4096)
            machine.halt(scene.clock.monotonic())
    scene.more = {}
    scene.write()
    machine.resume()
    machine.halt(scene.clock.monotonic())
    totals = machine.finish().totals
    assert Quantity.DEVICE_WRITE_BYTES not in totals
    assert totals[Quantity.CPU_USER_S] == pytest.approx(1.5, abs=0.011)


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

    seen = Bystanders()
    at(0.0, 0.0)
    crowd.now()
    at(1.0, 0.1)
    before = crowd.now()
    at(2.0, 0.1)
    seen.add(before, after := crowd.now(), most_s=2.0)
    at(None, 3.1)  # it used one second more before its end
    crowd.now()  # here it is missed
    seen.add(after, crowd.now(), most_s=2.0)
    told = {other.name: other.cpu_s for other in seen.heaviest()}
    assert told == {"cc1": 1.0, "make": pytest.approx(1.0)}


def test_a_parent_has_no_more_than_a_turn_gives() -> None:
    """It waited for a child that nobody followed and that ran long before."""
    scene = Scene()
    crowd = Crowd(host=scene.host, clock=scene.clock, ours=frozenset())
    seen = Bystanders()
    for used_s in (0.0, 0.2, 0.3):
        scene.more = {"/proc/400/stat": process_line(400, "make", 1, ticks=round(used_s * 100))}
        scene.clock.sleep(1.0)
        scene.write()
        before = crowd.now()
    line = process_line(400, "make", 1, ticks=30, reaped=4000)
    scene.more = {"/proc/400/stat": line}
    scene.write()
    seen.add(before, crowd.now(), most_s=0.5)
    assert [(other.name, other.cpu_s) for other in seen.heaviest()] == [("make", 0.5)]


def test_what_a_turn_gives_is_the_time_of_its_cpus() -> None:
    """A turn of half a second on two CPUs: no process can have used more than a second in it."""
    scene = Scene()
    machine = scene.machine()
    machine.resume()
    scene.go_on(1.0, SERVER, busy=(_NEIGHBOUR,))
    machine.halt(scene.clock.monotonic())
    machine.resume()
    line = process_line(_NEIGHBOUR, "neighbour", 1, ticks=50, reaped=4000)
    scene.more = {f"/proc/{_NEIGHBOUR}/stat": line}
    scene.go_on(0.5, SERVER)
    machine.halt(scene.clock.monotonic())
    assert [other.cpu_s for other in machine.finish().others] == [1.0]


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
    machine = scene.machine(None)
    for _ in range(3):
        machine.resume()
        through(0.5, 0.5)
        machine.halt(scene.clock.monotonic())
        through(0.5, 1.0)
    part = machine.finish()
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
    machine = scene.machine(None)
    for _ in range(3):
        machine.resume()
        go_on(SERVER, 4)
        machine.halt(scene.clock.monotonic())
        go_on(_OTHER_SERVER, 20)
    part = machine.finish()
    assert part.levels[Quantity.GENERATOR_CPUS] == 1.5
    assert part.totals[Quantity.GENERATOR_QUOTA_PERIODS] == 12
    assert part.totals[Quantity.GENERATOR_THROTTLED_PERIODS] == 6
    assert part.totals[Quantity.GENERATOR_THROTTLED_S] == pytest.approx(0.012)
    assert Quantity.QUOTA_PERIODS not in part.totals


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("12 (a (b) c) S 1 1 1 0 -1 0 5 6 7 8 0 0 0 0 20 0 1 0 77", 15),
        ("12 (a) S 1 1 1 0 -1 0 5 6 7", None),
        ("12 (a) S 1 1 1 0 -1 0 5 6 x 8 0 0", None),
        ("", None),
        (None, None),
    ],
)
def test_major_faults_are_the_tenth_and_eleventh_field_after_the_name(
    text: str | None, faults: int | None
) -> None:
    """Of the process and of its ended children; a torn line has none. Source: proc_pid_stat(5)."""
    assert parse_major_faults(text) == faults
