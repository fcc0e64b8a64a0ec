"""Rules of memory and huge pages in Kubernetes."""

import re
from collections import Counter
from functools import partial
from typing import Final

from steelyard.core.findings import Severity
from steelyard.core.stack import ContainerFacts, Kubelet, KubernetesFacts, PodFacts, StackFacts
from steelyard.core.wording import GIB, MIB, InputError, format_bytes, page_bytes_of, parse_quantity
from steelyard.tuning.rules import rule

_HUGE_PAGES: Final = "Kubernetes documentation, 'Manage HugePages'"
_DEFAULT_EVICTION: Final = "100Mi"  # of the kubelet on Linux
# Guesses of the worst case: what a backend holds beside its work_mem, and the share of the limit
# that is left to the page cache.
BACKEND_BYTES: Final = 6 * MIB
LIMIT_SHARE: Final = 0.8
_SHARED_OVERHEAD: Final = 1.03  # 2.5 to 7 % were measured with 1 to 32 GB
_SYSTEM_BYTES: Final = 2 * GIB  # a guess, where the kubelet reserves nothing
RULES: Final[list[rule.StackRule]] = []
_rule = partial(rule.enter, RULES, layers=("kubernetes", "linux"))
_POOLS_AND_PODS: Final = ("linux.pools", "kubernetes.pods")


@_rule(
    code="K8S007",
    layers=("kubernetes",),
    severity=Severity.ERROR,
    title="reservedMemory is what the node reserves",
    why="with memoryManagerPolicy Static the kubelet does not start otherwise; huge pages in it"
    " can equal no reservation (KEP-6252)",
    detect="the sum of reservedMemory against kubeReserved + systemReserved + evictionHard"
    f" ({_DEFAULT_EVICTION} by default)",
    remedy="Make the sums equal, memory only.",
    source="Kubernetes documentation, 'Utilizing the NUMA-aware Memory Manager';"
    " validateReservedMemory of the kubelet 1.34",
    needs=("kubernetes.kubelet",),
)
def _reservation(facts: StackFacts) -> rule.Rulings:
    kubelet = facts.kubernetes.kubelet if facts.kubernetes is not None else None
    if kubelet is None or kubelet.memory_manager_policy != "Static":
        return rule.NOTHING
    memory_bytes = facts.linux.memory_bytes if facts.linux is not None else None
    reserved = _reserved_bytes(kubelet, memory_bytes)
    promised = sum(rule.bytes_of(each, "memory") or 0 for each in kubelet.reserved_memory)
    pages = {name for each in kubelet.reserved_memory for name in each if page_bytes_of(name)}
    told = [
        f"reservedMemory has {name}, which no reservation of the system can equal"
        for name in sorted(pages)
    ]
    if reserved is not None and promised != reserved:
        told.insert(
            0,
            f"reservedMemory is {promised / MIB:.10g} MiB, kubeReserved, systemReserved and"
            f" evictionHard are {reserved / MIB:.10g} MiB",
        )
    return (
        rule.lacking("linux.memory_bytes")
        if reserved is None and not told
        else rule.violated(*told)
    )


def _reserved_bytes(kubelet: Kubelet, memory_bytes: int | None) -> int | None:
    """Return what a kubelet keeps from pods; None where a share of unknown memory is meant."""
    threshold = kubelet.eviction_hard.get("memory.available", _DEFAULT_EVICTION)
    share = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,9})?)%", threshold)
    if share is not None and memory_bytes is None:
        return None
    if share is not None:
        eviction = int((memory_bytes or 0) * float(share[1]) / 100)
    else:
        eviction = rule.bytes_of({"memory": threshold}, "memory") or 0
    kept = (
        rule.bytes_of(each, "memory") or 0
        for each in (kubelet.kube_reserved, kubelet.system_reserved)
    )
    return eviction + sum(kept)


@_rule(
    code="K8S009",
    severity=Severity.ERROR,
    title="Requests are well-formed, huge pages of a size that the node has",
    why="huge pages cannot be overcommitted: a request that is not the limit, no whole page, or"
    " of another size is refused or never scheduled",
    detect="the containers' resources; node.status.capacity",
    remedy="Request what you limit, in whole pages of a size that the node offers.",
    source=_HUGE_PAGES,
    needs=("kubernetes.pods",),
    among=lambda facts: (facts.kubernetes.pods if facts.kubernetes else None) or (),
)
def _well_formed(pod: PodFacts, facts: StackFacts) -> rule.Rulings:
    cluster = facts.kubernetes
    if cluster is None:
        return rule.NOTHING
    wrong, asked = [], set[str]()
    for owner, container in rule.containers_of(pod).items():
        wrong += _unreadable(owner, container)
        pages = [name for name in container.limits if name.startswith("hugepages-")]
        for name in pages:
            wrong += _wrong_pages(owner, container, name, cluster)
        asked |= {*pages}
    if not asked and not wrong:
        return rule.NOTHING
    unseen = (
        rule.lacking("kubernetes.capacity") if asked and cluster.capacity is None else rule.NOTHING
    )
    return rule.combined((rule.violated(*wrong), unseen))


def _unreadable(owner: str, container: ContainerFacts) -> list[str]:
    told = []
    for kind, resources in (("request", container.requests), ("limit", container.limits)):
        for name, text in resources.items():
            try:
                parse_quantity(text)
            except InputError:
                told.append(f"{owner}: its {kind} of {name}, {text!r}, is not a quantity")
    return told


def _wrong_pages(
    owner: str, container: ContainerFacts, name: str, cluster: KubernetesFacts
) -> list[str]:
    limits, requests = container.limits, container.requests
    page_bytes, limit = page_bytes_of(name), rule.bytes_of(limits, name)
    if page_bytes is None:
        return [f"{owner}: {name} names no page size"]
    if limit is None:
        return []  # told as unreadable
    told = []
    if limit != rule.bytes_of({name: limits[name], **requests}, name):
        told.append(f"{owner}: it requests {requests[name]} and limits {limits[name]}")
    if limit % page_bytes:
        told.append(f"{owner}: {limits[name]} are no whole pages of {name}")
    if cluster.capacity is not None and limit and not rule.bytes_of(cluster.capacity, name):
        told.append(f"{owner}: the node offers no {name}")
    return told


@_rule(
    code="K8S010",
    severity=Severity.ERROR,
    title="The node offers the huge pages that the kernel has",
    why="the kubelet reads the pool once, at its start: after a change its capacity is stale",
    detect="node.status.capacity against nr_hugepages",
    remedy="Restart the kubelet after every change of the pool.",
    source="kubernetes/kubernetes#111757 and #72307",
    needs=("linux.pools", "kubernetes.capacity"),
)
def _capacity(facts: StackFacts) -> rule.Rulings:
    linux, cluster = facts.linux, facts.kubernetes
    if linux is None or cluster is None or cluster.capacity is None or linux.pools is None:
        return rule.NOTHING
    kernel = {pool.page_bytes: pool.total * pool.page_bytes for pool in linux.pools}
    node = {
        size: rule.bytes_of(cluster.capacity, name) or 0
        for name in cluster.capacity
        if (size := page_bytes_of(name)) is not None
    }
    if not node:
        return rule.lacking("kubernetes.capacity")  # a kubelet lists every size that the kernel has
    return rule.violated(
        *(
            f"the node says {count // size} pages of {format_bytes(size)}, the kernel has"
            f" {kernel.get(size, 0) // size}"
            for size, count in sorted(node.items())
            if kernel.get(size, 0) != count
        )
    )


@_rule(
    code="K8S011",
    severity=Severity.ERROR,
    title="The pool holds the huge pages of all pods and of those outside of pods",
    why="a server outside of Kubernetes with huge_pages = try, or Longhorn's V2 engine, takes"
    " pages that the kubelet has promised",
    detect="the pods' limits; the pool; processes that hold huge pages",
    remedy="Enlarge the pool, or set huge_pages = off for bystanders.",
    source="Kubernetes documentation, 'Manage HugePages'; met while measuring: a neighbour with"
    " huge_pages = try took the pages",
    needs=_POOLS_AND_PODS,
)
def _enough_pages(facts: StackFacts) -> rule.Rulings:
    linux, cluster = facts.linux, facts.kubernetes
    if linux is None or cluster is None or linux.pools is None or not cluster.pods:
        return rule.NOTHING
    wanted: Counter[int] = Counter()
    for pod in cluster.pods:
        wanted.update(rule.huge_pages_of(pod))
    if not wanted:
        return rule.NOTHING
    default, others = linux.huge_page_bytes, cluster.non_pod_huge_pages
    told = []
    for size, count in sorted(wanted.items()):
        pool = linux.pool(size)
        there = pool.total if pool is not None else 0
        beside = (others or 0) if size == default else 0
        if -(-count // size) + beside > there:
            told.append(
                f"pods need {-(-count // size)} pages of {format_bytes(size)} and others hold"
                f" {beside}, the pool has {there}"
            )
    if not told and default is None:
        return rule.lacking("linux.huge_page_bytes")  # the others' pages are of this size
    unsure = not told and others is None and default in wanted
    return rule.lacking("kubernetes.non_pod_huge_pages") if unsure else rule.violated(*told)


@_rule(
    code="K8S012",
    layers=("kubernetes", "postgres"),
    severity=Severity.ERROR,
    title="The container's huge pages hold the server's shared memory",
    why="too few: FATAL with huge_pages = on; under a runtime that sets no reservation limit it"
    " starts and dies of SIGBUS later",
    detect="the container's limit against postgres -C shared_memory_size_in_huge_pages",
    remedy="Limit = that many pages, rounded up.",
    source="docker-library/postgres#946; tried with PostgreSQL 15 and 18 in a hugetlb control"
    " group of less than they need",
    needs=("kubernetes.pods", "postgres.huge_pages_needed"),
    among=rule.database_pods,
)
def _holds_the_server(pod: PodFacts, facts: StackFacts) -> rule.Rulings:
    needed = facts.postgres.huge_pages_needed if facts.postgres is not None else None
    if needed is None or rule.huge_pages_asked(facts) in (None, "off"):
        return rule.NOTHING
    page_bytes = rule.huge_page_of_server(facts)
    name, container = rule.server_of(pod)
    pages = rule.huge_pages_of(container)
    if page_bytes is None:
        return rule.lacking("linux.huge_page_bytes") if pages else rule.NOTHING
    limit = pages.get(page_bytes)
    if limit is None:
        return rule.NOTHING
    return rule.violated_if(
        limit < needed * page_bytes, f"{name}: {limit // page_bytes} pages, {needed} are needed"
    )


@_rule(
    code="K8S013",
    layers=("kubernetes", "postgres"),
    severity=Severity.ERROR,
    title="A container without huge pages has huge_pages = off",
    why="the kubelet limits it to 0 pages; with a free pool and a runtime that sets no"
    " reservation limit, initdb and postgres die of SIGBUS (exit code 135)",
    detect="the container's limits; the node's pool; huge_pages",
    remedy="Set huge_pages = off, request pages, or use runc 1.1.10, 1.2 or later.",
    source="CloudNativePG documentation, 'Troubleshooting'; opencontainers/runc#4073; tried"
    " with hugetlb.max = 0 and no reservation limit: exit code 135",
    needs=_POOLS_AND_PODS,
)
def _off_without_pages(facts: StackFacts) -> rule.Rulings:
    asked = rule.huge_pages_asked(facts)
    pools = facts.linux.pools if facts.linux is not None else None
    if asked is None or pools is None:
        return rule.lacking("postgres.settings")
    there = sum(pool.total for pool in pools)

    def check(pod: PodFacts) -> rule.Rulings:
        name, container = rule.server_of(pod)
        return rule.violated_if(
            asked != "off" and there > 0 and not any(rule.huge_pages_of(container).values()),
            f"{name}: huge_pages = {asked}, no limit of huge pages, and the node has {there}",
        )

    return rule.of_each(rule.database_pods(facts), check)


@_rule(
    code="K8S014",
    layers=("kubernetes", "postgres"),
    severity=Severity.WARNING,
    title="The memory limit covers what is not on huge pages",
    why="huge pages count apart: the limit holds backends, work_mem, maintenance and the page"
    " cache, and beyond it the kernel kills",
    detect="the limit against connections x (6 MiB + work_mem x hash_mem_multiplier) +"
    " autovacuum workers x maintenance_work_mem; the 6 MiB and 20 % for the page cache are"
    " guesses",
    remedy="Raise the limit, or lower max_connections or work_mem.",
    source=f"PostgreSQL documentation, 'Resource Consumption'; {_HUGE_PAGES}",
    needs=("kubernetes.pods", "postgres.settings"),
    among=rule.database_pods,
)
def _limit_covers(pod: PodFacts, facts: StackFacts) -> rule.Rulings:
    shared = rule.size_of(facts, "shared_buffers")
    private = _private_bytes(facts)
    if shared is None or private is None:
        return rule.NOTHING
    name, container = rule.server_of(pod)
    limit = rule.bytes_of(container.limits, "memory")
    if limit is None:
        return rule.NOTHING
    on_huge_pages = any(rule.huge_pages_of(container).values())
    worst = private + (0 if on_huge_pages else shared * _SHARED_OVERHEAD)
    return rule.violated_if(
        worst > limit * LIMIT_SHARE,
        f"{name}: {format_bytes(worst)} in the worst case and the page cache, the limit is"
        f" {format_bytes(limit)}",
    )


def _private_bytes(facts: StackFacts) -> float | None:
    """Return what all backends and autovacuum workers may hold at once; None where unseen."""
    connections = rule.number_of(facts, "max_connections", 100)
    multiplier = rule.number_of(facts, "hash_mem_multiplier", 2)
    workers = rule.number_of(facts, "autovacuum_max_workers", 3)
    work, maintenance = rule.size_of(facts, "work_mem"), rule.size_of(facts, "maintenance_work_mem")
    if connections is None or multiplier is None or workers is None:
        return None
    if work is None or maintenance is None:
        return None
    return connections * (BACKEND_BYTES + work * multiplier) + workers * maintenance


@_rule(
    code="K8S015",
    severity=Severity.WARNING,
    title="The node has memory for its pods beside the huge pages",
    why="the kubelet takes all huge pages from the allocatable memory, used or not",
    detect="node.status.allocatable, else memory less pools less reservations",
    remedy="Give the node memory = pool + pods + reservations, or make the pool smaller.",
    source="Kubernetes source, memorymanager/policy_static.go",
    needs=("kubernetes.pods",),
)
def _memory_left(facts: StackFacts) -> rule.Rulings:
    cluster = facts.kubernetes
    if cluster is None or not cluster.pods:
        return rule.NOTHING
    left = _left_bytes(facts, cluster)
    if left is None:
        return rule.lacking(
            "kubernetes.allocatable", "kubernetes.kubelet", "linux.memory_bytes", "linux.pools"
        )
    wanted = sum(
        rule.bytes_of({**pod.limits, **pod.requests}, "memory") or 0 for pod in cluster.pods
    )
    told = f"pods ask for {format_bytes(wanted)}, {format_bytes(left)} are left beside huge pages"
    return rule.violated_if(wanted > left, told)


def _left_bytes(facts: StackFacts, cluster: KubernetesFacts) -> int | None:
    """Return what pods may have: what the node says, else what its memory and pools leave."""
    allocatable = rule.bytes_of(cluster.allocatable or {}, "memory")
    if allocatable is not None:
        return allocatable
    linux = facts.linux
    if linux is None or linux.memory_bytes is None or linux.pools is None:
        return None
    if cluster.kubelet is None:
        return None
    reserved = None
    if cluster.kubelet.kube_reserved.get("memory"):
        reserved = _reserved_bytes(cluster.kubelet, linux.memory_bytes)
    pages = sum(pool.total * pool.page_bytes for pool in linux.pools)
    return max(0, linux.memory_bytes - pages - (_SYSTEM_BYTES if reserved is None else reserved))
