"""The machine that the database runs on, where it is there already: its CPUs, pools, memory."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from steelyard.model.errors import PreflightError
from steelyard.model.linux_facts import LinuxFacts, NumaNode
from steelyard.model.stack import ArithmeticLine, MachineDesign, Place, PoolDesign, StackRequest
from steelyard.model.stack_facts import StackFacts
from steelyard.model.units import GIB, format_bytes
from steelyard.tuning.planning.arithmetic import Budget, summed
from steelyard.tuning.planning.machine import machine_design
from steelyard.tuning.planning.pods import SYSTEM_BYTES, require_whole_cores
from steelyard.tuning.planning.pools import (
    bystander_pages,
    idle_elsewhere,
    other_pools_bytes,
    pool_pages,
)
from steelyard.tuning.planning.topology import Core, cores_of, nodes_of, threads_per_core

# Kept for the kernel and everything else on the machine; a guess.
LOCAL_SYSTEM_BYTES: Final = 1 * GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPlan:
    """What is planned for a machine that is there."""

    machine: MachineDesign
    lines: tuple[ArithmeticLine, ...]
    assumptions: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Need:
    """What the database needs of one node, or of all.

    Attributes:
        cores: Whole ones, beside one for the system.
        memory_bytes: Pool and memory beside it.
    """

    cores: int
    pages: int
    memory_bytes: int


def plan_local(request: StackRequest, facts: StackFacts, budget: Budget) -> LocalPlan:
    """Return the plan of the machine that the database runs on.

    Raises:
        PreflightError: It has too little memory or too few CPUs, with what would fit.
    """
    linux = facts.linux or LinuxFacts()
    in_pod = request.place is Place.CNPG
    threads = threads_per_core(linux)
    if in_pod:
        require_whole_cores(request, threads)
    pages = pool_pages(budget, request.page_bytes, in_pod=in_pod)
    need = _Need(
        cores=-(-request.cpus // threads),
        pages=pages,
        memory_bytes=pages * request.page_bytes + budget.beside_bytes,
    )
    bystanders = bystander_pages(facts, request.page_bytes)
    lines = _machine_lines(request, linux, need, bystanders * request.page_bytes)
    _require_room(request, linux, lines)
    nodes = _nodes_for(request, linux, need)
    cpus = _cpus_on(request, linux, nodes)
    pools = _pools(request, facts, nodes, pages + bystanders)
    return LocalPlan(
        machine=machine_design(linux, facts, pools, cpus),
        lines=lines,
        assumptions=_assumptions(request, linux, nodes, bystanders),
    )


def system_bytes(request: StackRequest) -> int:
    """Return the memory kept for a machine's own system."""
    return SYSTEM_BYTES if request.place is Place.CNPG else LOCAL_SYSTEM_BYTES


def _machine_lines(
    request: StackRequest, linux: LinuxFacts, need: _Need, bystanders_bytes: int
) -> tuple[ArithmeticLine, ...]:
    if linux.memory_bytes is None:
        return ()
    pool_bytes = need.pages * request.page_bytes
    others = bystanders_bytes + other_pools_bytes(linux.pools or (), request.page_bytes)
    kept = "the kernel, its daemons and everything else; a guess"
    return summed(
        (
            ("memory of the machine", linux.memory_bytes, ""),
            ("pool of huge pages", -pool_bytes, f"{need.pages} pages"),
            ("the database beside it", -(need.memory_bytes - pool_bytes), ""),
            ("huge pages of others", -others, "held by other programs, or of other sizes"),
            ("kept for the system", -system_bytes(request), kept),
        ),
        "left on the machine",
    )


def _require_room(
    request: StackRequest, linux: LinuxFacts, lines: Sequence[ArithmeticLine]
) -> None:
    cpus = len(linux.cpus or ())
    system = threads_per_core(linux) if request.place is Place.CNPG else 0
    if cpus and request.cpus > cpus - system:
        beside = " beside the core that the kubelet reserves" if system else ""
        raise PreflightError(
            f"the machine has {cpus} CPUs, {request.cpus} were asked for{beside}",
            hint=f"At most {max(cpus - system, 0)} fit.",
        )
    left = lines[-1].amount_bytes if lines else 0
    if left < 0:
        raise PreflightError(
            f"the machine has {format_bytes(linux.memory_bytes or 0)}, of which"
            f" {format_bytes(system_bytes(request))} are kept for its system:"
            f" {format_bytes(request.memory_bytes)} for the database are"
            f" {format_bytes(-left)} too much",
            hint=f"About {format_bytes(max(request.memory_bytes + left, 0))} would fit.",
        )


def _nodes_for(request: StackRequest, linux: LinuxFacts, need: _Need) -> tuple[NumaNode, ...]:
    """Return the one node that holds the database; all nodes where none does.

    Raises:
        PreflightError: A pod must be on one node, and none holds it.
    """
    nodes = nodes_of(linux)
    if len(nodes) == 1:
        return nodes
    fitting = [node for node in nodes if _holds(node, linux, need)]
    if fitting:
        return (max(fitting, key=lambda node: (_free_pages(node, request), -node.number)),)
    if request.place is not Place.CNPG:
        return nodes
    largest = max(nodes, key=lambda node: node.memory_bytes or 0)
    raise PreflightError(
        f"no NUMA node has {need.cores} cores beside the reserved one and"
        f" {format_bytes(need.memory_bytes)} for the pod: the largest, node {largest.number}, has"
        f" {len(largest.cpus)} CPUs and {format_bytes(largest.memory_bytes or 0)}",
        hint="With topologyManagerPolicy single-numa-node the pod would fail its admission: ask"
        " for less.",
    )


def _holds(node: NumaNode, linux: LinuxFacts, need: _Need) -> bool:
    cores = [core for core in cores_of(linux) if set(core) <= set(node.cpus)]
    memory = node.memory_bytes or 0
    return len(cores) > need.cores and memory - LOCAL_SYSTEM_BYTES >= need.memory_bytes


def _free_pages(node: NumaNode, request: StackRequest) -> int:
    return sum(pool.free for pool in node.pools if pool.page_bytes == request.page_bytes)


def _cpus_on(
    request: StackRequest, linux: LinuxFacts, nodes: Sequence[NumaNode]
) -> tuple[int, ...]:
    """Return CPUs in whole cores for the database; those of the first core come last."""
    there = {cpu for node in nodes for cpu in node.cpus}
    cores: list[Core] = [core for core in cores_of(linux) if set(core) <= there]
    ordered = cores[1:] + cores[:1]
    return tuple(sorted([cpu for core in ordered for cpu in core][: request.cpus]))


def _pools(
    request: StackRequest, facts: StackFacts, nodes: Sequence[NumaNode], pages: int
) -> tuple[PoolDesign, ...]:
    size = request.page_bytes
    if facts.linux is None or not facts.linux.nodes:
        return (PoolDesign(page_bytes=size, pages=pages),)
    each, more = divmod(pages, len(nodes))
    chosen = tuple(
        PoolDesign(page_bytes=size, pages=each + (place < more), node=node.number)
        for place, node in enumerate(nodes)
    )
    return (*chosen, *idle_elsewhere(facts, size, [node.number for node in nodes]))


def _assumptions(
    request: StackRequest, linux: LinuxFacts, nodes: Sequence[NumaNode], bystanders: int
) -> tuple[str, ...]:
    said = []
    if linux.nodes is None:
        said.append("nobody saw the machine's NUMA nodes: the pool is left to the kernel")
    if linux.memory_bytes is None:
        said.append("nobody saw the machine's memory: it is taken to be enough")
    if len(nodes) > 1:
        numbers = ", ".join(str(node.number) for node in nodes)
        said.append(
            f"no NUMA node holds the database: it spans nodes {numbers}, its huge pages in equal"
            " parts"
        )
    if bystanders:
        said.append(
            f"{bystanders} huge pages are held by programs outside of this plan; the pool has"
            " them besides"
        )
    if request.place is Place.CNPG:
        said.append("Kubernetes is 1.33 or later: before, exclusive CPUs keep a CFS quota")
    return tuple(said)
