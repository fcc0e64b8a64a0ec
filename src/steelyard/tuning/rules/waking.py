"""Rules that tell the cost of a wake-up from that of distant memory."""

from typing import Final

from steelyard.core.findings import Severity
from steelyard.core.stack_facts import StackFacts
from steelyard.core.units import format_latencies
from steelyard.stats.waits import REMOTE_ACCESS_S
from steelyard.tuning.facts.machine import WakeUps, wake_ups
from steelyard.tuning.rules.rule import Outcome, Rule, lacking

# A guess between what was measured on one machine: 17 to 20 µs where idle CPUs halt, below 1 µs
# where they poll.
_DEAR_S: Final = 10e-6
_FARTHER_S: Final = 2e-6  # a guess: a cache line between sockets takes 0.1 to 0.2 µs


def _cheap(facts: StackFacts) -> Outcome:
    known = wake_ups(facts)
    if known.each_s is None:
        return lacking("linux.ping_pong.same_cpu_s", "linux.ping_pong.across_s")
    return (_told(known, known.each_s),) if known.each_s > _DEAR_S else ()


def _told(known: WakeUps, each_s: float) -> str:
    (latency,) = format_latencies([each_s])
    cost = (
        f"waking up a thread on another CPU takes {latency}, twice or more in every statement of a"
        f" single client; that is {each_s / REMOTE_ACCESS_S:,.0f} times what memory of another node"
        " costs more per access"
    )
    parts = [cost]
    if known.one_node:
        parts.append("there is one NUMA node, so no memory is far")
    parts += known.suspects
    if known.unseen:
        parts.append(f"not visible from here: {', '.join(known.unseen)}")
    return "; ".join(parts)


def _near(facts: StackFacts) -> Outcome:
    known = wake_ups(facts)
    if known.farther_s is None or known.each_s is None:
        return None if known.one_node else lacking("linux.ping_pong.other_node_s")
    if known.farther_s <= _FARTHER_S:
        return ()
    farther, each = format_latencies([known.farther_s, known.each_s])
    larger = "more" if known.farther_s > known.each_s else "less"
    told = (
        f"a wake-up on another NUMA node takes {farther} more than one on the same node, {larger}"
        f" than the {each} that the latter takes beyond a switch on one CPU"
    )
    return (told,)


RULES: Final[tuple[Rule, ...]] = (
    Rule(
        code="WAK001",
        layers=("hypervisor", "kvm", "linux"),
        severity=Severity.WARNING,
        title="Waking up another CPU costs little",
        why="at one client it is in every statement, reads and writes alike, and is easily taken"
        " for the distance of memory",
        detect="round trips of one byte between two threads, on one CPU and across two; idle"
        " states, halt polling, run-queue delay. More than"
        f" {_DEAR_S * 1e6:.0f} µs per wake-up is a guess",
        remedy="Change one thing at a time and repeat the probe: hold the latency down (tuned"
        " latency-performance or /dev/cpu_dma_latency), poll before halting (haltpoll), give"
        " virtual CPUs their own; memory placement does not help here.",
        source="measured between two virtual CPUs of one node: 40 µs a round trip, 5 µs with halt"
        " polling; Linux, Documentation/virt/guest-halt-polling.rst",
        needs=("linux.ping_pong",),
        check=_cheap,
    ),
    Rule(
        code="WAK002",
        layers=("linux",),
        severity=Severity.INFO,
        title="Crossing NUMA nodes adds little to a wake-up",
        why="then the node of the load generator, pooler or client shows in every statement",
        detect="the same between nodes;"
        f" more than {_FARTHER_S * 1e6:.0f} µs per wake-up is a guess",
        remedy="Keep server and client on one node, or on other machines; say in reports which.",
        source="the published series does not say on which node its load generator ran",
        needs=("linux.ping_pong",),
        check=_near,
    ),
)
