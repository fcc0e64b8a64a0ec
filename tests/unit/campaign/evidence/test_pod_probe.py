"""The container of a server over a made run, and in turns: totals, timeline, and reasons."""

import time

import pytest

from fakes.clock import FakeClock
from fakes.host import FakeHost
from steelyard.campaign.evidence.pods import BOOT, PodProbe
from steelyard.campaign.evidence.probe import Part
from steelyard.core.kubernetes import ContainerRef
from steelyard.core.measurement import Quantity
from steelyard.core.wording import SteelyardError, TargetError
from steelyard.places.protocol import PodSight
from support.containers import Containers, server_files

_DATABASE = ContainerRef(namespace="bench", pod="pg-1", container="postgres")


def _pod_files(second: float, boot: str) -> dict[str, str]:
    """Return a pod of half a CPU in which this process runs, throttled in 1 of 10 periods."""
    return {
        BOOT: f"{boot}\n",
        "/proc/self/cgroup": "0::/\n",
        "/sys/fs/cgroup/cpu.max": "50000 100000\n",
        "/sys/fs/cgroup/cpu.stat": f"usage_usec 1\nnr_periods {round(10 * second)}\nnr_throttled"
        f" {round(second)}\nthrottled_usec {round(50_000 * second)}\n",
    }


class _World:
    """A cluster in which a run of three seconds is watched, from a pod on another node or not."""

    def __init__(self, boot: str = "node-1") -> None:
        self.second = 0.0
        self.boot = boot
        self.clock = FakeClock()
        self.host = FakeHost(files=_pod_files(0.0, boot))
        self.api = Containers(files={"pg-1": lambda: server_files(self.second)}, clock=self.clock)
        metadata = {"name": "pg-1", "namespace": "bench"}
        self.api.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})
        self.sight = PodSight(api=self.api, database=_DATABASE)
        self.probe = PodProbe(sight=self.sight, host=self.host, clock=self.clock)

    def pass_to(self, second: float, *, told: bool = True) -> None:
        """Let time pass, in which the generator uses half a CPU; the loop tells it."""
        self.clock.advance(second - self.second)
        self.second = second
        self.host.files = _pod_files(second, self.boot)
        self.host.children_s = 0.5 * second
        if told:
            before = len(self.probe._loop.taken)
            self.api.say(server_files(second))
            for _ in range(1000):
                if len(self.probe._loop.taken) > before:
                    return
                time.sleep(0.005)
            raise AssertionError("the loop's turn was not read")

    def run(self) -> Part:
        """Return what a run of three seconds shows."""
        self.probe.begin()
        for second in (0.25, 1.25, 2.25):
            self.pass_to(second)
            self.probe.sample(second)
        self.pass_to(3.0, told=False)
        return self.probe.finish(3.0, lost=0)


def test_totals_are_differences_over_the_run() -> None:
    """Who used the CPUs of the node, without what reading itself cost: 20 ms of server and loop.

    Others have what is left of 3.6 s busy: 3.6 - (1.5 - 0.02). The generator has its pod's limit.
    """
    part = _World().run()
    expected = {
        Quantity.SERVER_CPU_S: 1.48,
        Quantity.GENERATOR_CPU_S: 1.5,
        Quantity.THROTTLED_S: 0.3,
        Quantity.THROTTLED_PERIODS: 9,
        Quantity.QUOTA_PERIODS: 30,
        Quantity.GENERATOR_QUOTA_PERIODS: 30,
        Quantity.GENERATOR_THROTTLED_PERIODS: 3,
        Quantity.GENERATOR_THROTTLED_S: 0.15,
        Quantity.OTHERS_CPU_S: 2.12,
        Quantity.DEVICE_WRITES: 300,
        Quantity.CPU_IDLE_S: 2.4,
        Quantity.SWAPPED_PAGES: 0,
    }
    assert {name: part.totals[name] for name in expected} == pytest.approx(expected)
    assert part.levels[Quantity.CPUS] == 2
    assert part.levels[Quantity.GENERATOR_CPUS] == 0.5
    assert part.levels[Quantity.GENERATORS_BESIDE] == 0
    assert part.server_cpu_s == pytest.approx(0.02)
    assert [(other.name, other.cpu_s) for other in part.others] == [("[interrupts]", 0.06)]


def test_the_rows_of_the_timeline_add_up_to_the_totals() -> None:
    """Each second has its own row, by the node's clock; the last ends with the run."""
    part = _World().run()
    (series,) = part.series
    assert series.end_s == (0.25, 1.25, 2.25, 3.0)
    for name in (Quantity.SERVER_CPU_S, Quantity.THROTTLED_S, Quantity.DEVICE_WRITES):
        column = [row[series.names.index(name)] or 0.0 for row in series.rows]
        assert sum(column) == pytest.approx(part.totals[name])
    assert Quantity.OTHERS_CPU_S in series.names


def test_a_generator_on_the_same_node_is_no_neighbour() -> None:
    """What it and Steelyard used is taken off; by the second it is not known: no others there."""
    world = _World("node-2")
    world.probe.begin()
    world.pass_to(1.0)
    world.pass_to(3.0, told=False)
    world.host.own_s = 0.5
    part = world.probe.finish(3.0, lost=0)
    assert part.totals[Quantity.OTHERS_CPU_S] == pytest.approx(2.12 - 1.5 - 0.5)
    assert part.totals[Quantity.STEELYARD_CPU_S] == 0.5
    assert part.levels[Quantity.GENERATORS_BESIDE] == 1
    assert Quantity.OTHERS_CPU_S not in part.series[0].names


@pytest.mark.parametrize("is_shared", [False, True])
def test_in_turns_a_container_is_read_before_the_first_and_after_the_last(
    *, is_shared: bool
) -> None:
    """Its control group is of this server alone, unless all share it; its node is of everybody.

    Levels hold in either case, but for the CPUs: those of this machine go with its CPU times.
    """
    world = _World()
    probe = PodProbe(
        sight=world.sight,
        host=world.host,
        clock=world.clock,
        in_turns=True,
        is_shared=is_shared,
    )
    assert probe.interval_s is None
    probe.begin()
    world.pass_to(3.0, told=False)
    part = probe.finish(1.5, lost=0)
    probe.abandon()
    own = {
        Quantity.SERVER_CPU_S: 1.48,
        Quantity.SERVER_READ_BYTES: 3_000_000,
        Quantity.SERVER_WRITTEN_BYTES: 6_000_000,
        Quantity.QUOTA_PERIODS: 30,
        Quantity.THROTTLED_PERIODS: 9,
        Quantity.THROTTLED_S: 0.3,
    }
    assert part.totals == pytest.approx({} if is_shared else own)
    assert part.levels[Quantity.SERVER_CPUS] == 0.5
    assert part.levels[Quantity.SERVER_HUGE_BYTES] == 64 * 1024 * 1024
    assert part.levels[Quantity.GENERATORS_BESIDE] == 0
    assert Quantity.CPUS not in part.levels
    assert [each.subject for each in part.absent] == [
        "the database's node",
        "run-queue time of the server",
    ]
    assert len(world.api.scripts) == 2


def test_a_loop_that_cannot_be_started_or_breaks_costs_the_timeline_alone() -> None:
    """Totals are there; the absence says why there is no timeline."""
    world = _World()
    world.probe.begin()
    world.api.stream.end(TargetError("the connection was lost"))
    for _ in range(1000):
        if world.probe._loop.failure:
            break
        time.sleep(0.005)
    world.pass_to(3.0, told=False)
    part = world.probe.finish(3.0, lost=0)
    assert part.totals[Quantity.SERVER_CPU_S] == pytest.approx(1.48)
    told = {each.subject: each.reason for each in part.absent}
    assert told["timeline of the machine"] == "the connection was lost"
    assert part.server_cpu_s is None


def test_a_database_that_cannot_be_read_is_an_error_of_the_probe() -> None:
    """The watch makes it an absence; a container without bash is named with the way out."""
    world = _World()
    del world.api.files["pg-1"]
    with pytest.raises(SteelyardError):
        world.probe.begin()


def test_the_loop_is_ended_by_the_last_reading_and_kept_alive_in_a_long_run() -> None:
    """Its process is told now and then that it is wanted, and killed at the end."""
    world = _World()
    world.probe.begin()
    world.pass_to(1.0)
    world.probe.sample(1.0)
    sent = [text for _, text in world.api.scripts]
    assert not any("USR1 22" in text for text in sent)
    world.api.on_run("kill -USR1 22")
    world.pass_to(400.0)
    world.probe.sample(400.0)
    world.probe.finish(401.0, lost=0)
    sent = [text for _, text in world.api.scripts]
    assert sum("kill -USR1 22" in text for text in sent) == 1
    assert sum("kill 22\n" in text for text in sent) == 1
    assert world.api.stream.closed
