"""Wake-up or memory distance: what is measured, what is suspected, what cannot be seen."""

from dataclasses import replace
from typing import Any

import pytest

from steelyard.core.linux import IdleState, LinuxFacts, NumaNode, PingPong
from steelyard.core.stack import DomainFacts, Origin, StackFacts, Visibility
from steelyard.core.wording import GIB
from steelyard.tuning.rules.bench import wake_ups
from support.judged_rules import HOLDS, NOTHING, judged, said

SLOW = PingPong(same_cpu_s=5e-6, across_s=40e-6, across_p99_s=135e-6)
FAST = PingPong(same_cpu_s=5e-6, across_s=5.2e-6, across_p99_s=20e-6)
C6 = IdleState(name="C6", exit_latency_s=133e-6)
C1 = IdleState(name="C1", exit_latency_s=2e-6)
NODES = tuple(NumaNode(number=number, cpus=(number,)) for number in (0, 1))
DOMAIN = DomainFacts(name="vm", vcpus=2, memory_bytes=4 * GIB, memory_nodes=(1,))


def metal(ping_pong: PingPong | None = SLOW, **linux: Any) -> StackFacts:
    """Return the facts of bare metal, where the hypervisor is the database's own machine."""
    machine = LinuxFacts(virtualization="none", ping_pong=ping_pong, **linux)
    return StackFacts(hypervisor=machine, linux=machine)


def guest(hypervisor: LinuxFacts | None = None, **linux: Any) -> StackFacts:
    """Return the facts of a virtual machine."""
    known = {"virtualization": "kvm", "ping_pong": SLOW, **linux}
    return StackFacts(hypervisor=hypervisor, linux=LinuxFacts(**known))


def between(seconds: float) -> PingPong:
    """Return a probe whose round trips between nodes take this long."""
    return replace(SLOW, other_node_s=seconds)


@pytest.mark.parametrize(
    ("probe", "told"),
    [
        (FAST, HOLDS),
        (replace(SLOW, across_s=24.9e-6), HOLDS),  # 9.95 µs per wake-up
        (replace(SLOW, across_s=25.1e-6), "takes 10.1 µs"),
        (SLOW, "waking up a thread on another CPU takes 17.5 µs"),
        (replace(SLOW, same_cpu_s=None), NOTHING),
        (None, NOTHING),
    ],
)
def test_a_wake_up_is_weighed_against_memory_distance(probe: PingPong | None, told: str) -> None:
    """WAK001: a round trip has two of them; above 10 µs each they are told."""
    assert told in said("WAK001", metal(probe))


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        (metal(idle_states=(C1, C6)), ("this machine enter C6, which takes 0.13 ms",)),
        (metal(idle_states=(C1,)), ()),
        (metal(idle_states=(replace(C6, disabled=True),)), ()),
        (metal(idle_states=(C6,), dma_latency_s=2e-6), ()),
        (metal(idle_states=(C6,), dma_latency_s=200e-6), ("enter C6",)),
        (guest(LinuxFacts(idle_states=(C6,))), ("idle CPUs of the hypervisor enter C6",)),
        (guest(guest_halt_poll_s=0.0), ("halts at once (guest_halt_poll_ns = 0)",)),
        (
            guest(LinuxFacts(halt_poll_s=0.0), guest_halt_poll_s=0.0),
            ("the hypervisor does not poll either",),
        ),
        (guest(guest_halt_poll_s=200e-6), ()),
        (guest(guest_halt_poll_s=0.0, dma_latency_s=0.0), ()),
        (metal(guest_halt_poll_s=0.0), ()),
        (guest(idle_driver="none"), ("halts at once (no idle driver",)),
        (guest(idle_driver="none", dma_latency_s=0.0), ("halts at once (no idle driver",)),
        (guest(idle_driver="haltpoll", guest_halt_poll_s=200e-6), ()),
        (metal(idle_driver="none"), ()),
        (
            replace(guest(), domains=(replace(DOMAIN, vcpu_delay_fraction=0.03),)),
            ("virtual CPUs of vm waited 3.0 % of the time",),
        ),
        (replace(guest(), domains=(replace(DOMAIN, vcpu_delay_fraction=0.01),)), ()),
        (guest(steal_fraction=0.02), ("took 2.0 % of CPU time",)),
        (metal(cpu_pressure_fraction=0.2), ("in 20.0 % of the time a task waited",)),
        (metal(cpu_pressure_fraction=0.1), ()),
        (metal(replace(SLOW, across_p99_s=3e-3)), ("1 round trip in 100 takes 3.00 ms",)),
    ],
)
def test_suspects_are_facts(facts: StackFacts, told: tuple[str, ...]) -> None:
    """Idle states, halting and contention: named where they are seen, once, and only then."""
    suspects = wake_ups(facts).suspects
    assert len(suspects) == len(told)
    for suspect, words in zip(suspects, told, strict=True):
        assert words in suspect
        assert suspect in said("WAK001", facts)


def test_what_a_guest_cannot_see_is_said() -> None:
    """A virtual machine does not know its hypervisor: not seen is not absent."""
    origin = Origin(source="inside of a virtual machine", visibility=Visibility.NO)
    facts = replace(guest(), origins={"hypervisor": origin})
    told = said("WAK001", facts)
    assert "not visible from here: the idle states of the hypervisor" in told
    assert "(inside of a virtual machine)" in told
    seen = guest(LinuxFacts(idle_states=(C1,), halt_poll_s=200e-6))
    assert "not visible" not in said("WAK001", replace(seen, domains=(DOMAIN,)))
    assert "not visible" not in said("WAK001", metal())


@pytest.mark.parametrize(
    ("facts", "one"),
    [
        (metal(nodes=NODES[:1]), True),
        (metal(nodes=NODES), False),
        (guest(nodes=NODES[:1]), None),  # its memory may be spread below
        (replace(guest(nodes=NODES[:1]), domains=(DOMAIN,)), True),
        (replace(guest(nodes=NODES[:1]), domains=(replace(DOMAIN, memory_nodes=(0, 1)),)), False),
        (replace(guest(nodes=NODES[:1]), domains=(replace(DOMAIN, memory_nodes=()),)), None),
        (metal(), None),
    ],
)
def test_one_node_leaves_nothing_far(facts: StackFacts, *, one: bool | None) -> None:
    """Then no latency is a distance; in a guest only where its memory is bound to one node."""
    assert wake_ups(facts).one_node is one
    assert ("no memory is far" in said("WAK001", facts)) is (one is True)


@pytest.mark.parametrize(
    ("probe", "told"),
    [
        (between(40e-6), HOLDS),
        (between(43.9e-6), HOLDS),
        (between(44.1e-6), "takes 2.0 µs more than one on the same node, less than the 17.5 µs"),
        (between(90e-6), "takes 25.0 µs more than one on the same node, more than the 17.5 µs"),
        (SLOW, NOTHING),
    ],
)
def test_crossing_nodes_is_told_apart(probe: PingPong, told: str) -> None:
    """WAK002: what distance adds to a wake-up, beside what the wake-up is anyway."""
    assert told in said("WAK002", metal(probe, nodes=NODES))


def test_one_node_has_no_other() -> None:
    """WAK002 lacks nothing where there is one node; where there are two it lacks the probe."""
    assert judged("WAK002", metal(nodes=NODES[:1])).missing == ()
    assert "other_node_s" in judged("WAK002", metal(nodes=NODES)).missing[0]
