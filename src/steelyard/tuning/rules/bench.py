"""Rules of what was compared and how."""

from functools import partial
from typing import Final

import numpy as np

from steelyard.core.findings import Severity
from steelyard.core.stack import BenchFacts, ScriptLatencies, StackFacts
from steelyard.core.units import MIB, format_bytes, format_latencies
from steelyard.stats.intervals import FloatArray
from steelyard.stats.scalability import REMOTE_ACCESS_S, WaitChange, change_of_waits
from steelyard.tuning.facts.machine import wake_ups
from steelyard.tuning.rules.rule import (
    HOLDS,
    NOTHING,
    Rulings,
    StackRule,
    combined,
    cpus_of_database,
    lacking,
    memory_of_database,
    size_of,
    violated,
    violated_if,
)

_UNEQUAL: Final = 1.1
_SCALE_BYTES: Final = 15.1 * MIB  # of pgbench's data per unit of scale, measured
_LEAST_REPEATS: Final = 3
_NOTABLE_S: Final = 20e-6  # a guess: below, one run each tells nothing
_NOTABLE_SHARE: Final = 0.1  # of a statement, likewise
# Statements of select-only, simple-update and tpcb-like that a client waits for one by one.
_STATEMENTS: Final = (1.0, 5.0, 7.0)


def _equal(facts: StackFacts) -> Rulings:
    bench = facts.bench
    if bench is None or (bench.reference_cpus is None and bench.reference_memory_bytes is None):
        return lacking("bench.reference_cpus", "bench.reference_memory_bytes")
    return combined((_equal_cpus(facts, bench), _equal_memory(facts, bench)))


def _equal_cpus(facts: StackFacts, bench: BenchFacts) -> Rulings:
    reference, ours = bench.reference_cpus, cpus_of_database(facts)
    if not reference or not ours:
        return lacking("linux.cpus" if reference else "bench.reference_cpus")
    return violated_if(
        not _alike(ours, reference),
        f"the database may use {ours:g} CPUs, what it is compared with has {reference}",
    )


def _equal_memory(facts: StackFacts, bench: BenchFacts) -> Rulings:
    reference, ours = bench.reference_memory_bytes, memory_of_database(facts)
    if not reference or not ours:
        return lacking("linux.memory_bytes" if reference else "bench.reference_memory_bytes")
    return violated_if(
        not _alike(ours, reference),
        f"the database may use {format_bytes(ours)}, what it is compared with has"
        f" {format_bytes(reference)}",
    )


def _alike(ours: float, reference: float) -> bool:
    return reference / _UNEQUAL <= ours <= reference * _UNEQUAL


def _one_knob(facts: StackFacts) -> Rulings:
    if facts.bench is None or facts.bench.steps is None:
        return NOTHING
    return violated(
        *(
            f"{step.name} changes {len(step.knobs)} things at once: {', '.join(step.knobs)}"
            for step in facts.bench.steps
            if len(step.knobs) > 1
        )
    )


def _beyond_cache(facts: StackFacts) -> Rulings:
    scale = facts.bench.scale_factor if facts.bench is not None else None
    buffers = size_of(facts, "shared_buffers")
    if scale is None or buffers is None:
        return NOTHING
    size = scale * _SCALE_BYTES
    if size >= buffers:
        return HOLDS
    told = f"scale {scale} is {format_bytes(size)}, shared_buffers {format_bytes(buffers)}"
    return violated(told)


def _explained(facts: StackFacts) -> Rulings:
    bench = facts.bench
    if bench is None or bench.before is None or bench.after is None:
        return NOTHING
    before, after = _latencies(bench.before), _latencies(bench.after)
    change = change_of_waits(before, after, np.array(_STATEMENTS))
    was = float(before[2] - before[1]) / (_STATEMENTS[2] - _STATEMENTS[1])
    notable = abs(change.per_statement) > max(_NOTABLE_S, _NOTABLE_SHARE * was)
    if not notable or not change.is_alike:
        return HOLDS
    return violated(_told(facts, change, was))


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


def _repeated(facts: StackFacts) -> Rulings:
    repeats = facts.bench.repeats if facts.bench is not None else None
    if repeats is None:
        return NOTHING
    if repeats >= _LEAST_REPEATS:
        return HOLDS
    return violated("every figure is of a single run" if repeats == 1 else f"{repeats} runs each")


_rule = partial(StackRule, layers=("bench",))

RULES: Final[tuple[StackRule, ...]] = (
    _rule(
        code="BEN001",
        severity=Severity.ERROR,
        title="What is compared has equal CPUs and memory",
        why="more of either is another configuration; a limit of memory and one of huge pages"
        " add up",
        detect="the pod's limits, huge pages included, else the machine's CPUs and memory, against"
        " the instance class, within 10 %",
        remedy="Give both the same budget.",
        source="the published series, part 2: 12 GiB against 8",
        needs=(),
        judge=_equal,
    ),
    _rule(
        code="BEN002",
        severity=Severity.ERROR,
        title="Every step changes one thing",
        why="an effect of several changes at once belongs to none of them",
        detect="the steps of the journey",
        remedy="Take them apart: one at a time, or all combinations (a factorial), interleaved.",
        source='the published series, part 2: "Three changes applied simultaneously"',
        needs=("bench.steps",),
        judge=_one_knob,
    ),
    _rule(
        code="BEN003",
        severity=Severity.WARNING,
        title="The data are larger than the cache where storage is judged",
        why="what fits into shared_buffers is read from storage once",
        detect="scale x 15.1 MiB against shared_buffers",
        remedy="Use a scale beyond the memory for claims about storage.",
        source="PostgreSQL 18 documentation, 'pgbench', option --scale; the size of its tables was"
        " measured",
        needs=("bench.scale_factor", "postgres.settings"),
        judge=_beyond_cache,
    ),
    _rule(
        code="BEN004",
        severity=Severity.ERROR,
        title="A change at one client is no wait taken for memory distance",
        why="distance of memory grows with a statement's work; a wake-up, or the network, is the"
        " same at every wait",
        detect="latencies of select-only, simple-update and tpcb-like at one client, before and"
        " after: the change per statement of the writing scripts against that of the read-only one",
        remedy="Measure wake-ups (inspect's ping-pong), change idle states, pinning and clock one"
        " at a time, and attribute only then.",
        source="the published latencies at one client, which a cost per statement and one of the"
        " commit fit within 0.02 ms",
        needs=("bench.before", "bench.after"),
        judge=_explained,
    ),
    _rule(
        code="BEN005",
        severity=Severity.WARNING,
        title="Every figure was measured three times or more",
        why="a single run hides how much it varies",
        detect="repeats",
        remedy="Repeat in interleaved blocks; reject runs with steal or CPU pressure.",
        source="measured on a machine with neighbours: single runs differed by 12 to 20 times",
        needs=("bench.repeats",),
        judge=_repeated,
    ),
)
