"""The database's pod, the kubelet below it, and the huge pages of the machine that it takes.

Here also stands what no plan is made of: a request that contradicts itself, or that no layer would
accept.
"""

import re
from collections.abc import Collection
from typing import Final

from steelyard.core.errors import InputError
from steelyard.core.linux import LinuxFacts, NumaNode
from steelyard.core.stack import Place, PodDesign, PoolDesign, StackFacts, StackRequest
from steelyard.core.units import GIB, KIB, MIB, format_bytes
from steelyard.systems.postgres.settings import in_unit
from steelyard.tuning.plan.arithmetic import POOL_MARGIN, Budget, DoesNotFitError, pages_with_margin
from steelyard.tuning.plan.postgres_settings import NEWEST, OLDEST, volume_bytes
from steelyard.tuning.plan.topology import (
    cores_of,
    machines_here,
    nodes_of,
    pages_to_come,
    pool_of,
    promised_pages,
    threads_per_core,
)

_LEAST_BUFFERS: Final = 128 * KIB  # of the server
# More than superuser_reserved_connections, whose default is 3: with fewer it does not start.
_FEWEST_CONNECTIONS: Final = 4
_LEAST_HUGE_PAGE: Final = 64 * KIB  # of any architecture
_LONGEST_BRIDGE: Final = 15  # characters that Linux takes
_BRIDGE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*")
# Of an object of Kubernetes whose name is a label of its services; CloudNativePG takes 50.
_OF_CLUSTER: Final = re.compile(r"[a-z](?:[-a-z0-9]{0,48}[a-z0-9])?")
_OF_GROUP: Final = re.compile(r"[A-Za-z](?:-?[A-Za-z0-9]){0,120}")
_OF_FILE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_NAMES: Final = {
    Place.LOCAL: (_OF_FILE, "letters, digits, `.`, `_` and `-`"),
    Place.KVM: (_OF_FILE, "letters, digits, `.`, `_` and `-`"),
    Place.CNPG: (_OF_CLUSTER, "50 small letters, digits and `-` at most, a letter first"),
    Place.RDS: (_OF_GROUP, "letters, digits and single `-`, a letter first"),
}


def require_sense(request: StackRequest) -> None:
    """Refuse what contradicts itself, whatever the machine.

    Raises:
        InputError: With what would be taken.
    """
    if not OLDEST <= request.postgres_version <= NEWEST:
        raise InputError(
            f"PostgreSQL {request.postgres_version} is not in the catalogue of settings",
            hint=f"It has {OLDEST} to {NEWEST}.",
        )
    if request.cpus < 1 or request.memory_bytes < 1 or request.instances < 1:
        raise InputError(
            "CPUs, memory and instances must be at least 1", hint="As in --cpus 2 --memory 8GiB."
        )
    _require_name(request)
    _require_server(request)
    _require_layers(request)


def _require_name(request: StackRequest) -> None:
    form, words = _NAMES[request.place]
    if not form.fullmatch(request.name):
        raise InputError(
            f"{request.name!r} is no name that every layer of {request.place.value} takes",
            hint=f"--name has {words}.",
        )


def _require_server(request: StackRequest) -> None:
    buffers, connections = request.shared_buffers_bytes, request.max_connections
    if buffers is not None and buffers < _LEAST_BUFFERS:
        raise InputError(
            f"shared_buffers of {format_bytes(buffers)} is less than any server takes",
            hint=f"The least is {format_bytes(_LEAST_BUFFERS)}; leave the option out for a quarter"
            " of the memory.",
        )
    if connections is not None and connections < _FEWEST_CONNECTIONS:
        raise InputError(
            f"with max_connections = {connections} a server does not start: 3 are reserved for"
            " superusers",
            hint=f"The least is {_FEWEST_CONNECTIONS}.",
        )
    size = request.page_bytes
    if request.place is not Place.RDS and (size < _LEAST_HUGE_PAGE or size & (size - 1)):
        raise InputError(
            f"{format_bytes(size)} is no size of huge pages", hint="As in --page-size 2MiB."
        )


def _require_layers(request: StackRequest) -> None:
    """Refuse options of a layer that the place does not have, and names that it cannot read."""
    if request.place is not Place.CNPG:
        for option, given in (
            ("--volume-size", request.volume_bytes),
            ("--storage-class", request.storage_class),
        ):
            if given is not None:
                raise InputError(
                    f"{option} is of a cluster, and this plan is for {request.place.value}",
                    hint="Say --for cnpg, or leave it out.",
                )
    if request.place in (Place.LOCAL, Place.RDS) and (request.disks or request.bridge):
        raise no_domain(request)
    for path in request.disks:
        if not path.startswith("/"):
            raise InputError(f"{path!r} is no path of a disk", hint="As in --disk /dev/vg0/pg.")
    bridge = request.bridge
    if bridge is not None and (len(bridge) > _LONGEST_BRIDGE or not _BRIDGE.fullmatch(bridge)):
        raise InputError(f"{bridge!r} is no name of a bridge", hint="As in --bridge br0.")


def no_domain(request: StackRequest) -> InputError:
    """Return the refusal of disks or a bridge where there is no virtual machine to have them."""
    option = "--disk" if request.disks else "--bridge"
    return InputError(
        f"{option} is of a virtual machine, and this plan has none",
        hint="Say --for kvm, give --host-facts of the hypervisor, or leave it out.",
    )


_ON: Final = "on"


def pool_pages(budget: Budget, page_bytes: int, *, in_pod: bool) -> int:
    """Return the pages of a pool for the database alone, margin included."""
    pages = budget.reserved_bytes // page_bytes
    return pages_with_margin(pages, POOL_MARGIN) if in_pod else pages


def bystander_pages(facts: StackFacts, page_bytes: int) -> int:
    """Return the pages that others hold, or were promised, or will take when they are started.

    A server that was looked at itself is the plan's own: it gives its pages back at its restart,
    and only those. Pages that processes share count once, as the pool counts them.
    """
    linux = facts.linux or LinuxFacts()
    held = max(_held_pages(linux, page_bytes) - own_pages(facts, page_bytes), 0)
    nodes = linux.nodes or ()
    return held + sum(
        pages_to_come(machines_here(facts), each, nodes, page_bytes) for each in nodes
    )


def bystanders_on(facts: StackFacts, page_bytes: int, node: NumaNode) -> int:
    """Return how many of those pages may be on one node, at most."""
    linux, machines = facts.linux or LinuxFacts(), machines_here(facts)
    nodes, pool = linux.nodes or (node,), pool_of(node.pools, page_bytes)
    to_come = pages_to_come(machines, node, nodes, page_bytes)
    everywhere = sum(pages_to_come(machines, each, nodes, page_bytes) for each in nodes)
    held = bystander_pages(facts, page_bytes) - everywhere
    if len(nodes) > 1 and pool is not None and _is_used(linux, page_bytes):
        used = pool.total - pool.free + promised_pages(linux, node, page_bytes)
        held = min(held, used)
    return held + to_come


def _is_used(linux: LinuxFacts, page_bytes: int) -> bool:
    pool = linux.pool(page_bytes)
    return pool is not None and pool.total > pool.available


def _held_pages(linux: LinuxFacts, page_bytes: int) -> int:
    """Return the pages in use or promised; what processes hold where the pool does not tell."""
    pool = linux.pool(page_bytes)
    if pool is not None and _is_used(linux, page_bytes):
        return pool.total - pool.available
    return -(-sum(user.held_bytes for user in linux.pool_users or ()) // page_bytes)


def own_pages(facts: StackFacts, page_bytes: int) -> int:
    """Return the pages that the server holds which the plan makes anew."""
    server, linux = facts.postgres, facts.linux or LinuxFacts()
    if server is None or server.running is False:
        return 0
    size = in_unit((server.settings or {}).get("huge_page_size", "0"), "kB")
    if (int(size * KIB) if size else linux.huge_page_bytes) != page_bytes:
        return 0
    if server.huge_page_mapping_bytes is not None:
        return server.huge_page_mapping_bytes // page_bytes
    return server.huge_pages_needed or 0 if server.huge_pages_status == _ON else 0


def idle_elsewhere(
    facts: StackFacts, page_bytes: int, chosen: Collection[int]
) -> tuple[PoolDesign, ...]:
    """Return the pools of other nodes that are to shrink to what is in use (rule OS002).

    Where virtual machines are defined nothing is taken away: they may be started later. Nor is
    what was promised to a program that has not touched it yet.
    """
    linux = facts.linux or LinuxFacts()
    if machines_here(facts):
        return ()
    found = (
        (node, pool, promised_pages(linux, node, page_bytes))
        for node in linux.nodes or ()
        if node.number not in chosen
        for pool in node.pools
        if pool.page_bytes == page_bytes
    )
    return tuple(
        PoolDesign(page_bytes=page_bytes, pages=pool.total - pool.free + promised, node=node.number)
        for node, pool, promised in found
        if pool.free > promised
    )


# kubeReserved, systemReserved, evictionHard: a guess for a node that does nothing else.
RESERVED: Final = (1 * GIB, 512 * MIB, 500 * MIB)
# Of a node beside its pods' huge pages and the database's memory: what is reserved, and a gibibyte
# for the cluster's own pods, a guess. Rule K8S015 wants 2 GiB.
SYSTEM_BYTES: Final = 3 * GIB


def pod_design(
    request: StackRequest, budget: Budget, node: LinuxFacts, shm_bytes: int
) -> PodDesign:
    """Return the pod: requests equal to limits, whole CPUs, its huge pages beside its memory."""
    threads = threads_per_core(node)
    return PodDesign(
        cpus=request.cpus,
        memory_bytes=budget.beside_bytes // MIB * MIB,
        huge_pages_bytes=budget.reserved_bytes,
        page_bytes=request.page_bytes,
        reserved_cpus=cores_of(node)[0] if cores_of(node) else (0,),
        reserved_memory_bytes=RESERVED,
        numa_nodes=tuple(each.number for each in nodes_of(node)),
        smt=threads > 1,
        instances=request.instances,
        storage_class=request.storage_class,
        shm_bytes=shm_bytes,
        full_cores=request.exclusive_cpus and threads > 1,
        volume_bytes=volume_bytes(request, budget.shared_buffers_bytes),
    )


def require_whole_cores(request: StackRequest, threads: int) -> None:
    """Refuse exclusive CPUs that are no whole cores.

    Raises:
        DoesNotFitError: With how many make a core.
    """
    if request.exclusive_cpus and request.cpus % threads:
        raise DoesNotFitError(
            f"{request.cpus} exclusive CPUs are no whole cores of {threads} threads: the kubelet"
            " admits such a pod with SMTAlignmentError, or gives a core to two pods"
        )
