"""What a wake-up costs on this machine, measured by a byte that goes back and forth."""

from itertools import combinations
from pathlib import Path
from statistics import quantiles
from typing import Final

from steelyard.gateways import pingpong
from steelyard.gateways.host import Host
from steelyard.gateways.pingpong import Where
from steelyard.gateways.process import Processes
from steelyard.model.cgroup import cpu_list
from steelyard.model.environment import Fact
from steelyard.model.errors import SteelyardError
from steelyard.model.linux_facts import LinuxFacts, PingPong
from steelyard.model.stack_facts import Visibility
from steelyard.model.waking import wake_up_facts
from steelyard.tuning.facts.cpus import cpu_facts
from steelyard.tuning.facts.found import Found, seen, unknown, values_of
from steelyard.tuning.facts.identity import virtualization

_MOST_S: Final = 0.25  # so that the three of them take less than a second
_MOST: Final = 5_000
_LEAST: Final = 100  # fewer round trips have no 99th percentile

Pair = tuple[int, int]


def recorded_wakeups(host: Host) -> tuple[Fact, ...]:
    """Return what a campaign's record says of the wake-ups of the machine that it runs on."""
    kind = virtualization(host).value
    finds = cpu_facts(host, virtual=None if kind is None else kind != "none")
    limit = finds["dma_latency_s"].origin.visibility
    machine = LinuxFacts(virtualization=kind, **values_of(finds))
    return wake_up_facts(machine, limit_seen=limit is Visibility.YES)


def measure_wakeups(linux: LinuxFacts, processes: Processes) -> Found:
    """Return the round trips between two processes on one CPU, on two, on two NUMA nodes."""
    allowed = linux.allowed_cpus or ()
    if not allowed:
        return unknown("which CPUs may be used is not visible")
    pairs = {
        "same_cpu": (allowed[0], allowed[0]),
        "across": _across(linux, allowed),
        "other_node": _other_node(linux, allowed),
    }
    try:
        trips = {name: _trips(pair, processes) for name, pair in pairs.items() if pair}
    except SteelyardError as error:
        return unknown(f"the ping-pong failed: {error.message}")
    across = trips.get("across")
    facts = PingPong(
        same_cpu_s=_quantile(trips["same_cpu"], 50),
        across_s=_quantile(across, 50),
        across_p99_s=_quantile(across, 99),
        other_node_s=_quantile(trips.get("other_node"), 50),
    )
    on = "; ".join(f"CPUs {cpu_list(set(pair))}" for pair in pairs.values() if pair)
    return seen(facts, f"a byte back and forth over pipes, {_MOST_S} s each: {on}")


def _across(linux: LinuxFacts, allowed: tuple[int, ...]) -> Pair | None:
    """Return two CPUs of one node, of two cores where there are two."""
    pairs = list(combinations(allowed, 2))
    near = [pair for pair in pairs if len({_node(linux, cpu) for cpu in pair}) == 1]
    apart = [pair for pair in near if not any(set(pair) <= set(c) for c in linux.siblings or ())]
    return next(iter((*apart, *near)), None)


def _other_node(linux: LinuxFacts, allowed: tuple[int, ...]) -> Pair | None:
    far = (cpu for cpu in allowed if _node(linux, cpu) != _node(linux, allowed[0]))
    return next(((allowed[0], cpu) for cpu in far), None)


def _node(linux: LinuxFacts, cpu: int) -> int | None:
    return next((node.number for node in linux.nodes or () if cpu in node.cpus), None)


def _trips(pair: Pair, processes: Processes) -> tuple[float, ...]:
    return pingpong.ping_pong(
        Where.SAME if pair[0] == pair[1] else Where.ACROSS,
        processes=processes,
        directory=Path("/"),
        most_s=_MOST_S,
        most=_MOST,
        cpus=pair,
    ).trips_s


def _quantile(trips_s: tuple[float, ...] | None, percent: int) -> float | None:
    if trips_s is None or len(trips_s) < _LEAST:
        return None
    return quantiles(trips_s, n=100)[percent - 1]
