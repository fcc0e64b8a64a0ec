"""How the Linux machines of a plan are tuned: kernel, governor, CPUs, huge pages, memory.

Here also stands what a plan takes for granted: every gap in the facts that it went on without, in
sentences. Among them are older requests for huge pages, which come back at the next boot.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.core import stack
from steelyard.core.linux import IdleState, LinuxFacts, NumaNode
from steelyard.core.wording import GIB, KIB, MIB, format_bytes
from steelyard.tuning.plan import topology
from steelyard.tuning.plan.arithmetic import Budget, DoesNotFitError, summed
from steelyard.tuning.rules.linux import LEAST_READ_AHEAD_BYTES, MOST_READ_AHEAD_BYTES

READ_AHEAD: Final = "/sys/class/block/{device}/queue/read_ahead_kb"
THP: Final = "/sys/kernel/mm/transparent_hugepage/enabled"
IDLE: Final = "/sys/devices/system/cpu/cpu*/cpuidle/state{number}/disable"
GOVERNOR: Final = "performance"

_TUNED: Final = "tuned, profile postgresql"
_KERNEL: Final = "Linux documentation, 'sysctl/vm'"
_DIRTY_BYTES: Final = 512 * MIB
_DIRTY_BACKGROUND: Final = 64 * MIB


def hypervisor_design(
    linux: LinuxFacts, facts: stack.StackFacts, pools: tuple[stack.PoolDesign, ...]
) -> stack.MachineDesign:
    """Return how the machine below the virtual machine is tuned."""
    return stack.MachineDesign(
        pools=pools,
        sysctls=tuple(_of_every_machine(linux, bound=True)),
        sysfs=(_REQUESTED_THP, *idle_settings(linux)),
        governor=governor_of(linux),
        steps=tuple(old_requests(linux, pools, facts, "hypervisor")),
    )


def machine_design(
    linux: LinuxFacts,
    facts: stack.StackFacts,
    pools: tuple[stack.PoolDesign, ...],
    cpus: tuple[int, ...],
) -> stack.MachineDesign:
    """Return how the machine that the database runs on is tuned.

    A virtual machine has no governor and no idle states worth turning: they are the host's.
    """
    real = linux.virtualization == "none"
    return stack.MachineDesign(
        pools=pools,
        sysctls=(*_of_every_machine(linux, bound=False), *_of_databases(facts)),
        sysfs=(_REQUESTED_THP, *(idle_settings(linux) if real else ()), *_read_ahead(linux)),
        governor=governor_of(linux) if real else None,
        cpus=cpus,
        steps=tuple(old_requests(linux, pools, facts, "linux")),
    )


def deep_states(linux: LinuxFacts) -> tuple[tuple[int, IdleState], ...]:
    """Return the idle states from which a CPU wakes up late, with their numbers (rule KVM013)."""
    states = enumerate(linux.idle_states or ())
    return tuple((number, state) for number, state in states if state in linux.deep_states)


def governor_of(linux: LinuxFacts) -> str | None:
    """Return the governor to set; None where there is none to be seen."""
    return GOVERNOR if linux.governor else None


def idle_settings(linux: LinuxFacts) -> tuple[stack.PlannedSetting, ...]:
    """Return the settings that keep CPUs out of deep idle states."""
    return tuple(
        stack.PlannedSetting(
            name=IDLE.format(number=number),
            value="1",
            reason=f"{state.name} is left in {1e6 * state.exit_latency_s:.0f} µs, paid at every"
            " wake-up of an idle CPU",
            source="Linux, intel_idle; tuned, profile latency-performance",
            effect="17 to 20 µs per wake-up in a virtual machine, 85 to 170 µs of C6 on hosts; at"
            " one client a statement has 2 to 4 of them, under load it has none",
        )
        for number, state in deep_states(linux)
    )


def _planned(name: str, value: str, reason: str, source: str = _TUNED) -> stack.PlannedSetting:
    return stack.PlannedSetting(name=name, value=value, reason=reason, source=source)


_REQUESTED_THP: Final = _planned(
    THP, "madvise", "`always` gives huge pages to whoever did not ask: bloat, and long forks"
)


def _of_every_machine(linux: LinuxFacts, *, bound: bool) -> Iterator[stack.PlannedSetting]:
    yield _planned("vm.swappiness", "1", "A server's memory is not to be swapped for page cache")
    if linux.numa_balancing is not None and (bound or len(linux.nodes or ()) <= 1):
        reason = "Scanning faults without any gain where memory is bound, or on one node"
        yield _planned("kernel.numa_balancing", "0", reason, "tuned, profile network-latency")


def _of_databases(facts: stack.StackFacts) -> Iterator[stack.PlannedSetting]:
    dirty = "20 % of a large memory is a flush of gigabytes"
    early = "Writing begins early and in small pieces"
    yield _planned("vm.dirty_bytes", str(_DIRTY_BYTES), dirty)
    yield _planned("vm.dirty_background_bytes", str(_DIRTY_BACKGROUND), early)
    linux = facts.linux or LinuxFacts()
    if linux.zone_reclaim_mode:
        reason = "The page cache may use other nodes' memory"
        yield _planned("vm.zone_reclaim_mode", "0", reason, _KERNEL)
    if linux.overcommit_memory == 2 and facts.redis:
        reason = "With 2 a fork of the Redis on this machine can fail"
        source = "Redis documentation, 'Redis administration'"
        yield _planned("vm.overcommit_memory", "0", reason, source)


def _read_ahead(linux: LinuxFacts) -> Iterator[stack.PlannedSetting]:
    """Yield the bound that a disk's read-ahead is beyond, as rule OS008 has them."""
    device = linux.device
    if device is None or device.read_ahead_bytes is None:
        return
    there = device.read_ahead_bytes
    bound = min(max(there, LEAST_READ_AHEAD_BYTES), MOST_READ_AHEAD_BYTES)
    if there == bound:
        return
    why = "more rarely helps a scan" if there > bound else "sequential scans and backups want more"
    yield stack.PlannedSetting(
        name=READ_AHEAD.format(device=device.name),
        value=str(bound // KIB),
        reason=f"It is {format_bytes(there)}: {why}; where single rows are read, weigh it"
        " against 128 KiB, the kernel's default",
        source="TuneD, profile throughput-performance: 4096 KiB; rule OS008",
        scope=stack.Scope.LIVE,
    )


# Kept for the kernel and everything else on the machine; a guess.
LOCAL_SYSTEM_BYTES: Final = 1 * GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """What the place has below the server; a layer that it lacks is None."""

    hypervisor: stack.MachineDesign | None = None
    domain: stack.DomainDesign | None = None
    machine: stack.MachineDesign | None = None
    pod: stack.PodDesign | None = None
    lines: tuple[stack.ArithmeticLine, ...] = ()
    assumptions: tuple[str, ...] = ()


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


def plan_local(request: stack.StackRequest, facts: stack.StackFacts, budget: Budget) -> Layers:
    """Return the plan of the machine that the database runs on.

    Raises:
        PreflightError: It has too little memory or too few CPUs, with what would fit.
    """
    linux = facts.linux or LinuxFacts()
    threads = topology.threads_per_core(linux)
    if request.place is stack.Place.CNPG:
        topology.require_whole_cores(request, threads)
    pages = topology.pool_pages(budget, request)
    need = _Need(
        cores=-(-request.cpus // threads),
        pages=pages,
        memory_bytes=(pages * request.page_bytes or budget.reserved_bytes) + budget.beside_bytes,
    )
    lines = _machine_lines(request, facts, linux, need)
    _require_cpus(request, facts, linux)
    _require_memory(request, linux, lines)
    place = _Rooms(request, facts, linux)
    nodes = place.nodes_for(need)
    rooms = {node.number: place.room(node) for node in nodes}
    pools = _pools(request, facts, pages, rooms) if request.huge_pages else ()
    there = {cpu for node in nodes for cpu in node.cpus}
    local = [core for core in place.cores if set(core) <= there]
    in_turn = [cpu for core in (*local[1:], *local[:1]) for cpu in core]  # the first core is last
    cpus = tuple(sorted(in_turn[: request.cpus]))
    return Layers(
        machine=machine_design(linux, facts, pools, cpus),
        lines=lines,
        assumptions=of_local_machine(request, facts, nodes, pools),
    )


def system_bytes(request: stack.StackRequest) -> int:
    """Return the memory kept for a machine's own system."""
    return topology.SYSTEM_BYTES if request.place is stack.Place.CNPG else LOCAL_SYSTEM_BYTES


def _machine_lines(
    request: stack.StackRequest, facts: stack.StackFacts, linux: LinuxFacts, need: _Need
) -> tuple[stack.ArithmeticLine, ...]:
    if linux.memory_bytes is None:
        return ()
    size = request.page_bytes
    whole = NumaNode(number=0, cpus=(), memory_bytes=linux.memory_bytes, pools=linux.pools or ())
    alone = LinuxFacts(memory_bytes=linux.memory_bytes, pools=linux.pools)
    machines, own = topology.machines_here(facts), topology.own_pages(facts, size)
    others = max(
        topology.others_bytes(alone, whole, machines, size, own_pages=own),
        topology.bystander_pages(facts, size) * size,
    )
    kept = "the kernel, its daemons and everything else; a guess"
    told = "held by others, or of other sizes"
    return summed(
        (
            ("memory of the machine", linux.memory_bytes, ""),
            ("pool of huge pages", -need.pages * size, f"{need.pages} pages"),
            ("the database beside it", -(need.memory_bytes - need.pages * size), ""),
            (f"{'virtual machines and ' if machines else ''}huge pages of others", -others, told),
            ("kept for the system", -system_bytes(request), kept),
        ),
        "left on the machine",
    )


def _require_cpus(request: stack.StackRequest, facts: stack.StackFacts, linux: LinuxFacts) -> None:
    cpus = topology.cpus_of(linux)
    if not cpus:
        return
    allowed = [cpu for cpu in cpus if linux.allowed_cpus is None or cpu in linux.allowed_cpus]
    free = {cpu for core in _free_cores(facts, linux) for cpu in core}
    system = topology.threads_per_core(linux) if request.place is stack.Place.CNPG else 0
    if request.cpus <= len(free) - system:
        return
    limits = [f"{request.cpus} were asked for"]
    if system:
        limits[0] += " beside the core that the kubelet reserves"
    if len(allowed) < len(cpus):
        limits.append(f"{len(allowed)} may be used by this container or control group")
    if len(free) < len(allowed):
        limits.append(f"cores with {len(free)} of them are not pinned by virtual machines")
    raise DoesNotFitError(f"the machine has {len(cpus)} CPUs, {', '.join(limits)}")


def _free_cores(facts: stack.StackFacts, linux: LinuxFacts) -> list[topology.Core]:
    """Return the cores that may be used and on whose threads no virtual machine is pinned."""
    taken, allowed = topology.pinned_by(topology.machines_here(facts)), linux.allowed_cpus
    cores = (core for core in topology.cores_of(linux) if not taken & set(core))
    if allowed is None:
        return list(cores)
    within = (tuple(cpu for cpu in core if cpu in allowed) for core in cores)
    return [core for core in within if core]


def _require_memory(
    request: stack.StackRequest, linux: LinuxFacts, lines: Sequence[stack.ArithmeticLine]
) -> None:
    left = lines[-1].amount_bytes if lines else 0
    if left < 0:
        raise DoesNotFitError(
            f"the machine has {format_bytes(linux.memory_bytes or 0)}, of which"
            f" {format_bytes(system_bytes(request))} are kept for its system and"
            f" {format_bytes(-lines[-3].amount_bytes)} are held by others:"
            f" {format_bytes(request.memory_bytes)} for the database are"
            f" {format_bytes(-left)} too much"
        )


class _Rooms:
    def __init__(
        self, request: stack.StackRequest, facts: stack.StackFacts, linux: LinuxFacts
    ) -> None:
        self._request, self._facts, self._linux = request, facts, linux
        self._nodes = topology.nodes_of(linux)
        self.cores = _free_cores(facts, linux)

    def nodes_for(self, need: _Need) -> tuple[NumaNode, ...]:
        """Return the one node that holds the database; all nodes where none does.

        Raises:
            PreflightError: All together do not hold it, or a pod must be on one.
        """
        if len(self._nodes) == 1:
            return self._nodes
        size, least = self._request.page_bytes, need.memory_bytes + system_bytes(self._request)
        fitting = [
            (sum(pool.free for pool in node.pools if pool.page_bytes == size), -node.number, node)
            for node in self._nodes
            if self._to_be_had(node) >= least and len(self._cores_on(node)) > need.cores
        ]
        if fitting:
            return (max(fitting, key=lambda found: found[:2])[2],)
        if self._request.place is stack.Place.CNPG:
            raise self._no_node(need)
        self._require_sum(need)
        return self._nodes

    def room(self, node: NumaNode) -> int | None:
        """Return the memory that a database on several nodes can have here; None: not seen."""
        sizes = [each.memory_bytes for each in self._nodes]
        whole = sum(filter(None, sizes))
        if node.memory_bytes is None or None in sizes or not whole:
            return None
        kept = -(-system_bytes(self._request) * node.memory_bytes // whole)
        return max(self._to_be_had(node) - kept, 0)

    def _to_be_had(self, node: NumaNode) -> int:
        size = self._request.page_bytes
        machines, own = topology.machines_here(self._facts), topology.own_pages(self._facts, size)
        return (node.memory_bytes or 0) - topology.others_bytes(
            self._linux, node, machines, size, own_pages=own
        )

    def _cores_on(self, node: NumaNode) -> list[topology.Core]:
        return [core for core in self.cores if set(core) <= set(node.cpus)]

    def _require_sum(self, need: _Need) -> None:
        rooms = [self.room(node) for node in self._nodes]
        known = [room for room in rooms if room is not None]
        if len(known) == len(rooms) and sum(known) < need.memory_bytes:
            told = "; ".join(
                f"node {node.number}: {format_bytes(room)}"
                for node, room in zip(self._nodes, known, strict=True)
            )
            raise DoesNotFitError(
                f"the NUMA nodes have too little for {format_bytes(need.memory_bytes)} between"
                f" them: {told}"
            )

    def _no_node(self, need: _Need) -> DoesNotFitError:
        told = "; ".join(
            f"node {node.number}: {len(self._cores_on(node))} cores,"
            f" {format_bytes(max(self._to_be_had(node) - system_bytes(self._request), 0))}"
            for node in self._nodes
        )
        return DoesNotFitError(
            f"no NUMA node has {need.cores} cores beside the reserved one and"
            f" {format_bytes(need.memory_bytes)} for the pod, which topologyManagerPolicy"
            f" single-numa-node would not admit: {told}"
        )


def _pools(
    request: stack.StackRequest, facts: stack.StackFacts, pages: int, rooms: dict[int, int | None]
) -> tuple[stack.PoolDesign, ...]:
    """Return the pools: the database's pages by the room of its nodes, beside those of others."""
    size = request.page_bytes
    if facts.linux is None or not facts.linux.nodes:
        return (
            stack.PoolDesign(page_bytes=size, pages=pages + topology.bystander_pages(facts, size)),
        )
    nodes = [node for node in facts.linux.nodes if node.number in rooms]
    chosen = tuple(
        stack.PoolDesign(
            page_bytes=size,
            pages=part + topology.bystanders_on(facts, size, node),
            node=node.number,
        )
        for node, part in zip(nodes, _divided(pages, list(rooms.values())), strict=True)
    )
    return (*chosen, *topology.idle_elsewhere(facts, size, list(rooms)))


def _divided(pages: int, rooms: Sequence[int | None]) -> Iterator[int]:
    """Yield parts of the pages in proportion to rooms; equal ones where a room was not seen."""
    known = [room or 0 for room in rooms]
    seen = None not in rooms and sum(known) > 0
    weights = known if seen else [1] * len(rooms)
    whole = sum(weights)
    before = begun = 0
    for weight in weights:
        before += weight
        end = pages * before // whole
        yield end - begun
        begun = end


_QUOTA: Final = "Kubernetes is 1.33 or later: before, exclusive CPUs keep a CFS quota"


def of_local_machine(
    request: stack.StackRequest,
    facts: stack.StackFacts,
    nodes: Sequence[NumaNode],
    pools: Sequence[stack.PoolDesign],
) -> tuple[str, ...]:
    """Return what is taken for granted of a machine that is there."""
    linux = facts.linux or LinuxFacts()
    said = [*of_cpus(linux, "the machine")]
    if linux.nodes is None:
        said.append("nobody saw the machine's NUMA nodes: the pool is left to the kernel")
    if linux.memory_bytes is None:
        said.append("nobody saw the machine's memory: it is taken to be enough")
    if linux.pools is None:
        said.append("nobody saw the machine's huge pages: none are taken to be in use")
    if len(nodes) > 1:
        parts = {pool.node: pool.pages for pool in pools}
        told = ", ".join(f"{parts.get(node.number, 0)} on node {node.number}" for node in nodes)
        pages = f", with huge pages {told}" if pools else ""
        said.append(f"no NUMA node holds the database: it spans them{pages}")
    bystanders = topology.bystander_pages(facts, request.page_bytes)
    if bystanders and pools:
        said.append(
            f"{bystanders} huge pages are held by, or promised to, programs outside of this plan;"
            " the pool has them besides"
        )
    said += of_neighbours(topology.machines_here(facts))
    said += of_request(request)
    return tuple(said)


def of_cpus(linux: LinuxFacts, name: str) -> Iterator[str]:
    """Yield what is not known of a machine's CPUs."""
    if not topology.cpus_of(linux):
        yield f"nobody saw the CPUs of {name}: they are taken to be enough"
    elif linux.siblings is None and linux.smt is not False:
        seen = ", though SMT is on" if linux.smt else ""
        yield f"nobody saw which CPUs of {name} share a core{seen}: each is taken for a core"


def of_neighbours(domains: Sequence[stack.DomainFacts]) -> Iterator[str]:
    """Yield what the other virtual machines of the same machine may do to the plan."""
    loose = topology.floating(domains)
    if loose:
        yield (
            f"CPUs of the virtual machine(s) {', '.join(loose)} are pinned nowhere: they may run on"
            " those of this plan, too"
        )


def of_request(request: stack.StackRequest) -> Iterator[str]:
    """Yield what a request leaves open."""
    if request.place is not stack.Place.CNPG:
        if request.instances > 1:
            yield (
                f"{request.instances} instances were asked for: this is the plan of one machine,"
                " and says nothing of the others"
            )
        return
    yield _QUOTA
    if request.instances > 1:
        yield (
            f"each of the {request.instances} instances has a node like this one, planned and"
            " tuned alike: this plan tunes one"
        )


def of_volumes(
    request: stack.StackRequest, facts: stack.StackFacts, pod: stack.PodDesign | None
) -> Iterator[str]:
    """Yield what is not known of a cluster's volumes and their class."""
    if pod is None:
        return
    if request.volume_bytes is None:
        yield (
            f"volumes of {format_bytes(pod.volume_bytes)}: nobody said how large the data are"
            " (--volume-size)"
        )
    classes = facts.kubernetes.storage_classes if facts.kubernetes is not None else None
    if request.storage_class is not None and request.storage_class not in {
        each.name for each in classes or ()
    }:
        yield (
            f"the cluster has a storage class {request.storage_class!r} that binds when the pod is"
            " placed: nobody saw it"
        )


_SOURCE: Final = "Linux documentation, 'HugeTLB Pages'; sysctl.d(5)"
_PATH: Final = re.compile(r"(/[\w./@+-]+)$")
_COMMAND_LINE: Final = "/proc/cmdline"


def old_requests(
    linux: LinuxFacts, pools: tuple[stack.PoolDesign, ...], facts: stack.StackFacts, layer: str
) -> Iterator[stack.PlannedSetting]:
    """Yield the steps that end older requests for pages of the planned sizes.

    Args:
        linux: The machine that the pools are planned for.
        pools: All of them.
        facts: With the origins, which name the file.
        layer: ``hypervisor`` or ``linux``.
    """
    for size in dict.fromkeys(pool.page_bytes for pool in pools):
        planned = [pool.pages for pool in pools if pool.page_bytes == size]
        name, asked = "requested_other_pages", (linux.requested_other_pages or {}).get(size)
        if size == linux.huge_page_bytes:
            name, asked = "requested_huge_pages", linux.requested_huge_pages
        path = _path_of(facts, layer, name)
        is_ours = path == stack.UNIT_PATH or planned == [asked]
        if asked is None or is_ours or (path is None and not asked):
            continue
        what = "whatever asks for them" if path is None else f"vm.nr_hugepages in {path}"
        if path == _COMMAND_LINE:
            what = "hugepages= on the kernel's command line"
        yield stack.PlannedSetting(
            name=f"Take away {what}",
            value="" if path is None else _check(path),
            reason=f"{asked} huge pages are asked for beside this plan's {sum(planned)}: the next"
            " boot would allocate them, over all nodes, or take the plan's away",
            source=_SOURCE,
            scope=stack.Scope.REBOOT,
        )


def _path_of(facts: stack.StackFacts, layer: str, name: str) -> str | None:
    """Return the file that the request is in; None where nobody knows it."""
    origin = facts.origin(f"{layer}.{name}")
    if origin.visibility is not stack.Visibility.YES and facts.hypervisor == facts.linux:
        origin = facts.origin(f"linux.{name}")
    found = _PATH.search(origin.source)
    return found[1] if found is not None and origin.visibility is stack.Visibility.YES else None


def is_check(command: str) -> bool:
    """Return whether ``old_requests`` would write a command as the check of some file."""
    path = command.rpartition(" ")[2]
    return _PATH.fullmatch(path) is not None and command == _check(path)


def _check(path: str) -> str:
    if path == _COMMAND_LINE:
        return f"! grep -Eq '(^| )(hugepages|sysctl.vm[./]nr_hugepages)=' {path}"
    return f"! grep -Eqs '^[[:space:]]*-?[[:space:]]*vm[./]nr_hugepages' {path}"
