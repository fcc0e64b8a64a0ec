"""The probe of pods over a made run: totals, timeline, generators, and a reason for all else."""

import time
from dataclasses import replace

import pytest

from fakes.clock import FakeClock
from fakes.host import FakeHost
from steelyard.campaign.evidence.pod_script import BOOT
from steelyard.campaign.evidence.pods import PodProbe
from steelyard.campaign.evidence.watch import Part
from steelyard.core.kubernetes import ContainerRef
from steelyard.core.measurement import Quantity
from steelyard.core.wording import SteelyardError, TargetError
from steelyard.places.agent.outcomes import StartSkew
from steelyard.places.protocol import PodSight
from support.containers import Containers, generator_files, server_files

_DATABASE = ContainerRef(namespace="bench", pod="pg-1", container="postgres")
_GENERATOR = ContainerRef(namespace="bench", pod="generator-0")
_OTHER = ContainerRef(namespace="bench", pod="generator-1")


class _World:
    """A cluster in which a run of three seconds is watched."""

    def __init__(self, *generators: ContainerRef, same_node: bool = False) -> None:
        self.second = 0.0
        self.clock = FakeClock()
        self.host = FakeHost(files={BOOT: "laptop\n"})
        self.api = Containers(files={"pg-1": lambda: server_files(self.second)}, clock=self.clock)
        for name in ("pg-1", "generator-0", "generator-1"):
            self.api.put(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": name, "namespace": "bench"},
                }
            )
        self.api.files["generator-0"] = lambda: generator_files(self.second)
        self.api.files["generator-1"] = lambda: generator_files(self.second, cpus=0.1)
        self.sight = PodSight(
            api=self.api, database=_DATABASE, generators=generators, same_node=same_node
        )
        self.probe = PodProbe(sight=self.sight, host=self.host, clock=self.clock)

    def pass_to(self, second: float, *, told: bool = True) -> None:
        """Let time pass; the loop tells it."""
        self.clock.advance(second - self.second)
        self.second = second
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

    Others have what is left of 3.6 s busy: 3.6 - (1.5 - 0.02).
    """
    part = _World(_GENERATOR).run()
    expected = {
        Quantity.SERVER_CPU_S: 1.48,
        Quantity.GENERATOR_CPU_S: 1.5,
        Quantity.THROTTLED_S: 0.3,
        Quantity.THROTTLED_PERIODS: 9,
        Quantity.QUOTA_PERIODS: 30,
        Quantity.GENERATOR_THROTTLED_PERIODS: 3,
        Quantity.OTHERS_CPU_S: 2.12,
        Quantity.DEVICE_WRITES: 300,
        Quantity.CPU_IDLE_S: 2.4,
        Quantity.SWAPPED_PAGES: 0,
    }
    assert {name: part.totals[name] for name in expected} == pytest.approx(expected)
    assert part.levels[Quantity.CPUS] == 2
    assert part.levels[Quantity.GENERATOR_CPUS] == 0.5
    assert part.levels[Quantity.GENERATOR_BUSIEST_FRACTION] == pytest.approx(1.0)
    assert part.levels[Quantity.GENERATORS_BESIDE] == 0
    assert part.server_cpu_s == pytest.approx(0.02)
    assert [(other.name, other.cpu_s) for other in part.others] == [("[interrupts]", 0.06)]


def test_the_rows_of_the_timeline_add_up_to_the_totals() -> None:
    """Each second has its own row, by the node's clock; the last ends with the run."""
    part = _World(_GENERATOR).run()
    (series,) = part.series
    assert series.end_s == (0.25, 1.25, 2.25, 3.0)
    for name in (Quantity.SERVER_CPU_S, Quantity.THROTTLED_S, Quantity.DEVICE_WRITES):
        column = [row[series.names.index(name)] or 0.0 for row in series.rows]
        assert sum(column) == pytest.approx(part.totals[name])
    assert Quantity.OTHERS_CPU_S in series.names


def test_a_generator_on_the_same_node_is_no_neighbour() -> None:
    """What it used is taken off; by the second nobody knows it, so the timeline has no others."""
    world = _World(_GENERATOR)
    world.api.files["generator-0"] = lambda: generator_files(world.second) | {BOOT: "node-2\n"}
    part = world.run()
    assert part.totals[Quantity.OTHERS_CPU_S] == pytest.approx(2.12 - 1.5)
    assert part.levels[Quantity.GENERATORS_BESIDE] == 1
    assert Quantity.OTHERS_CPU_S not in part.series[0].names


def test_steelyard_on_the_node_is_no_neighbour() -> None:
    """Where the kernel is the node's own, this process's CPU is none of others."""
    world = _World()
    world.host.files = {BOOT: "node-2\n"}
    world.probe.begin()
    world.pass_to(3.0, told=False)
    world.host.own_s = 0.5
    part = world.probe.finish(3.0, lost=0)
    assert part.totals[Quantity.OTHERS_CPU_S] == pytest.approx(2.12 - 0.5)
    assert part.totals[Quantity.STEELYARD_CPU_S] == 0.5


def test_generators_are_added_up_and_the_busiest_is_told() -> None:
    """One of two at its limit is seen, though both together are far from theirs."""
    part = _World(_GENERATOR, _OTHER).run()
    assert part.totals[Quantity.GENERATOR_CPU_S] == pytest.approx(1.8)
    assert part.levels[Quantity.GENERATOR_CPUS] == 1.0
    assert part.levels[Quantity.GENERATOR_BUSIEST_FRACTION] == pytest.approx(1.0)


def test_generators_that_began_apart_are_told_with_what_is_sure() -> None:
    """Clocks are known to a half width only: so much is taken off."""
    world = _World(_GENERATOR, _OTHER)
    skew = StartSkew(seconds=0.5, half_width_s=0.1)
    world.probe._sight = replace(world.sight, start_skew=lambda: skew)
    assert world.run().levels[Quantity.GENERATORS_APART_S] == pytest.approx(0.4)
    assert Quantity.GENERATORS_APART_S not in _World(_GENERATOR).run().levels


def test_a_generator_that_cannot_be_read_is_absent_and_the_server_is_seen() -> None:
    """No sum leaves one of the generators out unsaid."""
    world = _World(_GENERATOR, _OTHER)
    del world.api.files["generator-1"]
    part = world.run()
    assert Quantity.GENERATOR_CPU_S not in part.totals
    assert Quantity.SERVER_CPU_S in part.totals
    assert "the generators' containers" in {each.subject for each in part.absent}


def test_a_loop_that_cannot_be_started_or_breaks_costs_the_timeline_alone() -> None:
    """Totals are there; the absence says why there is no timeline."""
    world = _World(_GENERATOR)
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
    world = _World(_GENERATOR)
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
