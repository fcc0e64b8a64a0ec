"""Wake-up or memory distance: what one costs here, and which facts may be behind it.

A wake-up is what it takes until a waiting thread runs again: the CPU leaves its idle state, a
halted virtual CPU is started by the hypervisor, somebody else gives up the CPU. A statement of one
client waits for two of them at least. Memory of another node costs 0.1 µs more per access, which
adds up only where much work is done.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from steelyard.model.linux_facts import LinuxFacts, PingPong
from steelyard.model.stack_facts import StackFacts, Visibility
from steelyard.model.units import format_latencies, format_share
from steelyard.model.waking import (
    PRESSED_FRACTION,
    WAITED_FRACTION,
    halt_suspects,
    idle_suspects,
)

_PER_TRIP: Final = 2  # wake-ups in a round trip of one byte
_SLICE_S: Final = 1e-3  # a guess: about a time slice of the scheduler, which is 3 ms by default


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeUps:
    """What wake-ups cost on a machine.

    Attributes:
        each_s: What waking up a thread on another CPU of the same node takes beyond a switch on one
            CPU; None where it was not measured.
        farther_s: What a wake-up takes more where it crosses NUMA nodes; None likewise.
        suspects: Facts that make wake-ups slow, a sentence each.
        unseen: Facts that might, and that cannot be seen from here, with the reason.
        one_node: Nothing is far: there is one NUMA node, seen from the hypervisor too.
    """

    each_s: float | None
    farther_s: float | None
    suspects: tuple[str, ...]
    unseen: tuple[str, ...]
    one_node: bool | None


def wake_ups(facts: StackFacts) -> WakeUps:
    """Return what is known of the wake-ups of a stack."""
    measured = facts.linux.ping_pong if facts.linux is not None else None
    return WakeUps(
        each_s=_each(measured),
        farther_s=_farther(measured),
        suspects=(*_idle(facts), *_halted(facts), *_contended(facts)),
        unseen=tuple(_unseen(facts)),
        one_node=_has_one_node(facts),
    )


def _each(measured: PingPong | None) -> float | None:
    if measured is None or measured.across_s is None or measured.same_cpu_s is None:
        return None
    return max(0.0, measured.across_s - measured.same_cpu_s) / _PER_TRIP


def _farther(measured: PingPong | None) -> float | None:
    if measured is None or measured.other_node_s is None or measured.across_s is None:
        return None
    return (measured.other_node_s - measured.across_s) / _PER_TRIP


def _machines(facts: StackFacts) -> Iterator[tuple[str, LinuxFacts]]:
    """Yield each machine once: on bare metal the hypervisor is the database's own."""
    if facts.hypervisor is not None and facts.hypervisor != facts.linux:
        yield "the hypervisor", facts.hypervisor
    if facts.linux is not None:
        yield "this machine", facts.linux


def _idle(facts: StackFacts) -> Iterator[str]:
    for name, machine in _machines(facts):
        yield from idle_suspects(machine, name)


def _halted(facts: StackFacts) -> Iterator[str]:
    host = facts.hypervisor
    polls = host is None or host.halt_poll_s != 0.0
    either = "" if polls else ", and the hypervisor does not poll either (halt_poll_ns = 0)"
    for told in halt_suspects(facts.linux or LinuxFacts()):
        yield told + either


def _contended(facts: StackFacts) -> Iterator[str]:
    for domain in facts.domains or ():
        waited = domain.vcpu_delay_fraction
        if waited is not None and waited > WAITED_FRACTION:
            yield f"virtual CPUs of {domain.name} waited {format_share(waited)} of the time for one"
    linux = facts.linux
    if linux is None:
        return
    if linux.steal_fraction is not None and linux.steal_fraction > WAITED_FRACTION:
        yield f"the hypervisor took {format_share(linux.steal_fraction)} of CPU time (steal)"
    pressed = linux.cpu_pressure_fraction
    if pressed is not None and pressed > PRESSED_FRACTION:
        yield f"in {format_share(pressed)} of the time a task waited for a CPU"
    slow = linux.ping_pong.across_p99_s if linux.ping_pong is not None else None
    if slow is not None and slow > _SLICE_S:
        (p99,) = format_latencies([slow])
        yield f"1 round trip in 100 takes {p99}, a time slice of somebody else"


def _unseen(facts: StackFacts) -> Iterator[str]:
    linux = facts.linux
    if linux is None or linux.virtualization in (None, "none"):
        return
    names = {
        "hypervisor.idle_states": "the idle states of the hypervisor",
        "hypervisor.halt_poll_s": "its halt polling",
        "domains": "how long virtual CPUs wait for one",
    }
    for path, name in names.items():
        part, _, rest = path.partition(".")
        whole = getattr(facts, part)
        if whole is None or (rest and getattr(whole, rest) is None):
            origin = facts.origin(path)
            why = origin.source if origin.visibility is not Visibility.YES else "nobody looked"
            yield f"{name} ({why})"


def _has_one_node(facts: StackFacts) -> bool | None:
    nodes = facts.linux.nodes if facts.linux is not None else None
    if nodes is None:
        return None
    if len(nodes) > 1:
        return False
    if facts.linux is not None and facts.linux.virtualization == "none":
        return True
    spread = [len(domain.memory_nodes) for domain in facts.domains or ()]
    return max(spread) == 1 if spread and min(spread) > 0 else None
