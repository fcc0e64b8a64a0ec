"""Rules of what was compared and how, and of wake-ups, which are taken for distant memory.

A wake-up is what it takes until a waiting thread runs again: the CPU leaves its idle state, a
halted virtual CPU is started by the hypervisor, somebody else gives up the CPU. A statement of one
client waits for two of them at least. Memory of another node costs 0.1 µs more per access, which
adds up only where much work is done.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from steelyard.core.findings import Severity
from steelyard.core.linux import (
    PRESSED_FRACTION,
    WAITED_FRACTION,
    LinuxFacts,
    PingPong,
    halt_suspects,
    idle_suspects,
)
from steelyard.core.stack import BenchFacts, ScriptLatencies, StackFacts, Visibility
from steelyard.core.wording import MIB, format_bytes, format_latencies, format_share
from steelyard.stats.intervals import FloatArray
from steelyard.stats.statements import REMOTE_ACCESS_S, WaitChange, change_of_waits
from steelyard.tuning.rules import rule

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
    machine, host = facts.linux or LinuxFacts(), facts.hypervisor
    trips = machine.ping_pong or PingPong()
    each_s = farther_s = None
    if trips.across_s is not None and trips.same_cpu_s is not None:
        each_s = max(0.0, trips.across_s - trips.same_cpu_s) / _PER_TRIP
    if trips.across_s is not None and trips.other_node_s is not None:
        farther_s = (trips.other_node_s - trips.across_s) / _PER_TRIP
    polls = host is None or host.halt_poll_s != 0.0
    either = "" if polls else ", and the hypervisor does not poll either (halt_poll_ns = 0)"
    return WakeUps(
        each_s=each_s,
        farther_s=farther_s,
        suspects=(
            # On bare metal the hypervisor is the database's own machine.
            *(idle_suspects(host, "the hypervisor") if host and host != facts.linux else ()),
            *idle_suspects(machine, "this machine"),
            *(told + either for told in halt_suspects(machine)),
            *_contended(facts),
        ),
        unseen=tuple(_unseen(facts)),
        one_node=_has_one_node(facts),
    )


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


# A guess between what was measured on one machine: 17 to 20 µs where idle CPUs halt, below 1 µs
# where they poll.
_DEAR_S: Final = 10e-6
_FARTHER_S: Final = 2e-6  # a guess: a cache line between sockets takes 0.1 to 0.2 µs
RULES: Final[list[rule.StackRule]] = []
_waking = partial(rule.enter, RULES, needs=("linux.ping_pong",))
_rule = partial(rule.enter, RULES, layers=("bench",))


@_waking(
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
)
def _cheap(facts: StackFacts) -> rule.Rulings:
    known = wake_ups(facts)
    if known.each_s is None:
        return rule.lacking("linux.ping_pong.same_cpu_s", "linux.ping_pong.across_s")
    return rule.violated(_costs(known, known.each_s)) if known.each_s > _DEAR_S else rule.HOLDS


def _costs(known: WakeUps, each_s: float) -> str:
    (latency,) = format_latencies([each_s])
    cost = (
        f"waking up a thread on another CPU takes {latency}, twice or more in every statement of a"
        " single client"
    )
    parts = [cost]
    if known.one_node:
        parts.append("there is one NUMA node, so no memory is far")
    parts += known.suspects
    if known.unseen:
        parts.append(f"not visible from here: {', '.join(known.unseen)}")
    return "; ".join(parts)


@_waking(
    code="WAK002",
    layers=("linux",),
    severity=Severity.INFO,
    title="Crossing NUMA nodes adds little to a wake-up",
    why="then the node of the load generator, pooler or client shows in every statement",
    detect=f"the same between nodes; more than {_FARTHER_S * 1e6:.0f} µs per wake-up is a guess",
    remedy="Keep server and client on one node, or on other machines; say in reports which.",
    source=f"{rule.TUNING_ARTICLE}, does not say on which node its load generator ran",
)
def _near(facts: StackFacts) -> rule.Rulings:
    known = wake_ups(facts)
    if known.farther_s is None or known.each_s is None:
        return rule.NOTHING if known.one_node else rule.lacking("linux.ping_pong.other_node_s")
    if known.farther_s <= _FARTHER_S:
        return rule.HOLDS
    farther, each = format_latencies([known.farther_s, known.each_s])
    larger = "more" if known.farther_s > known.each_s else "less"
    told = (
        f"a wake-up on another NUMA node takes {farther} more than one on the same node, {larger}"
        f" than the {each} that the latter takes beyond a switch on one CPU"
    )
    return rule.violated(told)


_UNEQUAL: Final = 1.1
_SCALE_BYTES: Final = 15.1 * MIB  # of pgbench's data per unit of scale, measured
_LEAST_REPEATS: Final = 3
_NOTABLE_S: Final = 20e-6  # a guess: below, one run each tells nothing
_NOTABLE_SHARE: Final = 0.1  # of a statement, likewise
# Statements of select-only, simple-update and tpcb-like that a client waits for one by one.
_STATEMENTS: Final = (1.0, 5.0, 7.0)


@_rule(
    code="BEN001",
    severity=Severity.ERROR,
    title="What is compared has equal CPUs and memory",
    why="more of either is another configuration; a limit of memory and one of huge pages add up",
    detect="limits of pod or process, huge pages included, else the machine's CPUs and memory,"
    " against the instance class, within 10 %",
    remedy="Give both the same budget.",
    source=f"{rule.TUNING_ARTICLE}: 12 GiB against 8",
    needs=(),
)
def _equal(facts: StackFacts) -> rule.Rulings:
    bench = facts.bench
    if bench is None or (bench.reference_cpus is None and bench.reference_memory_bytes is None):
        return rule.lacking("bench.reference_cpus", "bench.reference_memory_bytes")
    return rule.combined((_equal_cpus(facts, bench), _equal_memory(facts, bench)))


def _equal_cpus(facts: StackFacts, bench: BenchFacts) -> rule.Rulings:
    reference, ours = bench.reference_cpus, rule.cpus_of_database(facts)
    if not reference or not ours:
        ours_path = rule.limits_path(facts, "cpus")
        return rule.lacking(ours_path if reference else "bench.reference_cpus")
    return rule.violated_if(
        not _alike(ours, reference),
        f"the database may use {ours:g} CPUs, what it is compared with has {reference}",
    )


def _equal_memory(facts: StackFacts, bench: BenchFacts) -> rule.Rulings:
    reference, ours = bench.reference_memory_bytes, rule.memory_of_database(facts)
    if not reference or not ours:
        ours_path = rule.limits_path(facts, "memory_bytes")
        return rule.lacking(ours_path if reference else "bench.reference_memory_bytes")
    return rule.violated_if(
        not _alike(ours, reference),
        f"the database may use {format_bytes(ours)}, what it is compared with has"
        f" {format_bytes(reference)}",
    )


def _alike(ours: float, reference: float) -> bool:
    return reference / _UNEQUAL <= ours <= reference * _UNEQUAL


@_rule(
    code="BEN002",
    severity=Severity.ERROR,
    title="Every step changes one thing",
    why="an effect of several changes at once belongs to none of them",
    detect="the steps of the journey",
    remedy="Take them apart: one at a time, or all combinations (a factorial), interleaved.",
    source=f'{rule.TUNING_ARTICLE}: "Three changes applied simultaneously"',
    needs=("bench.steps",),
)
def _one_knob(facts: StackFacts) -> rule.Rulings:
    if facts.bench is None or facts.bench.steps is None:
        return rule.NOTHING
    return rule.violated(
        *(
            f"{step.name} changes {len(step.knobs)} things at once: {', '.join(step.knobs)}"
            for step in facts.bench.steps
            if len(step.knobs) > 1
        )
    )


@_rule(
    code="BEN003",
    severity=Severity.WARNING,
    title="The data are larger than the cache where storage is judged",
    why="what fits into shared_buffers is read from storage once",
    detect="scale x 15.1 MiB against shared_buffers",
    remedy="Use a scale beyond the memory for claims about storage.",
    source="PostgreSQL 18 documentation, 'pgbench', option --scale; the size of its tables was"
    " measured",
    needs=("bench.scale", "postgres.settings"),
)
def _beyond_cache(facts: StackFacts) -> rule.Rulings:
    scale = facts.bench.scale if facts.bench is not None else None
    buffers = rule.size_of(facts, "shared_buffers")
    if scale is None or buffers is None:
        return rule.NOTHING
    size = scale * _SCALE_BYTES
    if size >= buffers:
        return rule.HOLDS
    told = f"scale {scale} is {format_bytes(size)}, shared_buffers {format_bytes(buffers)}"
    return rule.violated(told)


@_rule(
    code="BEN004",
    severity=Severity.ERROR,
    title="A change at one client is no wait taken for memory distance",
    why="distance of memory grows with a statement's work; a wake-up, or the network, is the"
    " same at every wait",
    detect="latencies of select-only, simple-update and tpcb-like at one client, before and"
    " after: the change per statement of the writing scripts against that of the read-only one",
    remedy="Measure wake-ups (inspect's ping-pong), change idle states, pinning and clock one"
    " at a time, and attribute only then.",
    source=f"{rule.TUNING_ARTICLE}: its latencies at one client, which a cost per statement and"
    " one of the commit fit within 0.02 ms",
    needs=("bench.before", "bench.after"),
)
def _explained(facts: StackFacts) -> rule.Rulings:
    bench = facts.bench
    if bench is None or bench.before is None or bench.after is None:
        return rule.NOTHING
    before, after = _latencies(bench.before), _latencies(bench.after)
    change = change_of_waits(before, after, np.array(_STATEMENTS))
    was = float(before[2] - before[1]) / (_STATEMENTS[2] - _STATEMENTS[1])
    notable = abs(change.per_statement) > max(_NOTABLE_S, _NOTABLE_SHARE * was)
    if not notable or not change.is_alike:
        return rule.HOLDS
    return rule.violated(_told(facts, change, was))


def _latencies(each: ScriptLatencies) -> FloatArray:
    return np.array([each.select_only_s, each.simple_update_s, each.tpcb_like_s])


def _told(facts: StackFacts, change: WaitChange, was: float) -> str:
    first, then = format_latencies([was, was + change.per_statement])
    each, read, commit = format_latencies(
        [change.per_statement, change.read_only, change.per_commit], signed=True
    )
    accesses = abs(change.per_statement) / REMOTE_ACCESS_S
    told = (
        f"every statement of the writing scripts changed alike, {first} to {then} ({each}), the"
        f" read-only one by {read}, the commit by {commit}: a cost of waiting for the other side,"
        f" not of memory distance, which would take {accesses:,.0f} remote accesses one after"
        " another in each statement, BEGIN included"
    )
    known = wake_ups(facts)
    if known.each_s is not None:
        (measured,) = format_latencies([known.each_s])
        told += f"; waking up a thread on another CPU takes {measured} here"
    return "; ".join([told, *known.suspects])


@_rule(
    code="BEN005",
    severity=Severity.WARNING,
    title="Every figure was measured three times or more",
    why="a single run hides how much it varies",
    detect="repeats",
    remedy="Repeat in interleaved blocks; reject runs with steal or CPU pressure.",
    source="measured on a machine with neighbours: single runs differed by 12 to 20 times",
    needs=("bench.repeats",),
)
def _repeated(facts: StackFacts) -> rule.Rulings:
    repeats = facts.bench.repeats if facts.bench is not None else None
    if repeats is None:
        return rule.NOTHING
    if repeats >= _LEAST_REPEATS:
        return rule.HOLDS
    return rule.violated(
        "every figure is of a single run" if repeats == 1 else f"{repeats} runs each"
    )
