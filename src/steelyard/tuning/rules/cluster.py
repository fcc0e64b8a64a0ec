"""Rules of a CloudNativePG cluster: its settings, storage and replication, and CPUs in Kubernetes.

Of CPUs: exclusive ones, their quota, their cores and their NUMA node.
"""

import re
from functools import partial
from itertools import starmap
from typing import Final

from steelyard.core import kubernetes as k8s
from steelyard.core.findings import Severity
from steelyard.core.linux import NumaNode, cpu_list, parse_cpu_list
from steelyard.core.stack import (
    ClusterFacts,
    ContainerFacts,
    Kubelet,
    PodFacts,
    StackFacts,
    StorageClassFacts,
)
from steelyard.core.wording import InputError, format_bytes
from steelyard.tuning.rules import rule

_CONFIGURATION: Final = "CloudNativePG documentation, 'PostgreSQL Configuration'"


def _cluster(facts: StackFacts) -> ClusterFacts | None:
    return facts.kubernetes.cluster if facts.kubernetes is not None else None


RULES: Final[list[rule.StackRule]] = []
_of_cluster = partial(rule.enter, RULES, layers=("kubernetes",), needs=("kubernetes.cluster",))
_POLICIES: Final = "Kubernetes documentation, 'Control CPU Management Policies on the Node'"
_rule = partial(rule.enter, RULES, layers=("kubernetes",))
_NODE_AND_PODS: Final = ("linux.smt", "kubernetes.kubelet", "kubernetes.pods")
_OF_STORAGE: Final = ("kubernetes.storage_classes",)
_of_class = partial(rule.enter, RULES, needs=_OF_STORAGE)
_PARAMETERS: Final = "Longhorn documentation, 'Storage Class Parameters'"


def _classes(facts: StackFacts) -> tuple[StorageClassFacts, ...]:
    classes = facts.kubernetes.storage_classes if facts.kubernetes is not None else None
    return classes or ()


@_of_cluster(
    code="CNPG001",
    layers=("kubernetes", "postgres"),
    severity=Severity.ERROR,
    title="The cluster sets none of the operator's own parameters",
    why="the webhook refuses a fixed parameter, and the schema a value that is no text",
    detect="spec.postgresql.parameters against the operator's list",
    remedy="Remove them; quote the values.",
    source="cloudnative-pg, pkg/postgres/configuration.go at b122f632,"
    " FixedConfigurationParameters",
)
def _own_parameters(facts: StackFacts) -> rule.Rulings:
    cluster = _cluster(facts)
    if cluster is None:
        return rule.NOTHING
    refused = [
        f"{name} belongs to the operator" for name in cluster.parameters if name in k8s.REFUSED
    ]
    lost = [
        f"the operator overwrites {name}" for name in cluster.parameters if name in k8s.OVERWRITTEN
    ]
    untexted = [
        f"{name}: {value!r} is no text"
        for name, value in cluster.parameters.items()
        if not isinstance(value, str)
    ]
    return rule.violated(*refused, *lost, *untexted)


@_of_cluster(
    code="CNPG002",
    layers=("kubernetes", "postgres"),
    severity=Severity.WARNING,
    title="wal_level is replica unless logical decoding is used",
    why="the operator's default is logical, which writes more WAL",
    detect="spec.postgresql.parameters.wal_level",
    remedy="Set wal_level: replica, or say that logical decoding is used.",
    source=_CONFIGURATION,
)
def _wal_level(facts: StackFacts) -> rule.Rulings:
    cluster = _cluster(facts)
    if cluster is None or facts.intent.logical_decoding:
        return rule.NOTHING
    level = cluster.parameters.get("wal_level")
    if level is None:
        return rule.violated("wal_level is left at the operator's default, logical")
    return rule.violated_if(
        level == "logical", "wal_level is logical, and nothing is known to decode it"
    )


@_of_cluster(
    code="CNPG003",
    severity=Severity.WARNING,
    title="Instances run on different nodes",
    why="the operator only prefers that by default: one node may hold them all",
    detect="spec.affinity.podAntiAffinityType",
    remedy="Set podAntiAffinityType: required.",
    source="CloudNativePG documentation, 'Scheduling'",
)
def _apart(facts: StackFacts) -> rule.Rulings:
    cluster = _cluster(facts)
    if cluster is None or cluster.instances < 2:
        return rule.NOTHING
    return rule.violated_if(
        cluster.anti_affinity != "required",
        f"{cluster.instances} instances with podAntiAffinityType {cluster.anti_affinity}",
    )


@_of_cluster(
    code="CNPG004",
    severity=Severity.INFO,
    title="A disruption budget suits the number of instances",
    why="with one instance it blocks every drain; without one, several may go at once",
    detect="spec.enablePDB, spec.instances",
    remedy="Set enablePDB: false for a single instance, true for several.",
    source="CloudNativePG documentation, 'API Reference'",
)
def _budget(facts: StackFacts) -> rule.Rulings:
    cluster = _cluster(facts)
    if cluster is None:
        return rule.NOTHING
    if cluster.instances == 1 and cluster.disruption_budget:
        return rule.violated(
            "a disruption budget for a single instance keeps its node from being drained"
        )
    if cluster.instances > 1 and not cluster.disruption_budget:
        return rule.violated(f"{cluster.instances} instances without a disruption budget")
    return rule.HOLDS


_NO_QUOTA_SINCE: Final = (1, 33)


def _wants_cpus(facts: StackFacts) -> tuple[PodFacts, ...]:
    """Return the database's pods, but none where nobody wants them to have CPUs of their own."""
    return () if facts.intent.exclusive_cpus is False else rule.database_pods(facts)


@_rule(
    code="K8S001",
    severity=Severity.ERROR,
    title="The database's pod is Guaranteed, its container asks for whole CPUs",
    why="only containers with whole CPUs in Guaranteed pods get exclusive CPUs; one container"
    " without limits, an init container too, makes the pod Burstable",
    detect="the containers' resources; status.qosClass",
    remedy="Set requests equal to limits in every container, and whole CPUs in the server's.",
    source=_POLICIES,
    needs=("kubernetes.pods",),
    among=_wants_cpus,
)
def _guaranteed(pod: PodFacts, facts: StackFacts) -> rule.Rulings:
    name, container = rule.server_of(pod)
    cpus = container.limits.get("cpu", "0")
    if not rule.is_guaranteed(pod):
        return rule.violated(f"{pod.name}: requests and limits of CPU and memory are not equal")
    if rule.exclusive_cpus(facts, pod) is not None:
        return rule.HOLDS
    if pod.pod_level:
        return rule.violated(f"{pod.name}: resources of the pod's own: shared pool")
    return rule.violated(f"{name}: {cpus} CPUs are no whole number: shared pool")


@_rule(
    code="K8S002",
    severity=Severity.ERROR,
    title="The kubelet's CPU policy is static where CPUs shall be exclusive",
    why="by default it is none, and then requests equal to limits are only a quota",
    detect="configz of the kubelet; policyName in cpu_manager_state",
    remedy="Set cpuManagerPolicy: static; drain the node, remove cpu_manager_state, restart.",
    source=_POLICIES,
    needs=("kubernetes.kubelet", "intent.exclusive_cpus"),
)
def _static(facts: StackFacts) -> rule.Rulings:
    kubelet = _kubelet(facts)
    if kubelet is None or not facts.intent.exclusive_cpus:
        return rule.NOTHING
    policy = kubelet.cpu_manager_policy
    return rule.violated_if(
        policy != "static", f"cpuManagerPolicy is {policy}: no CPU is exclusive"
    )


@_rule(
    code="K8S003",
    severity=Severity.ERROR,
    title="The container really has its own CPUs",
    why="the control group is the only proof: a pod admitted before the policy was changed"
    " stays in the shared pool",
    detect="cpuset.cpus.effective of the container against defaultCpuSet of the kubelet",
    remedy="Recreate the pod: CPUs are assigned at admission only.",
    source=f"{_POLICIES}; kernel documentation, cgroup-v2",
    needs=("kubernetes.pods",),
    among=_wants_cpus,
)
def _exclusive(pod: PodFacts, facts: StackFacts) -> rule.Rulings:
    kubelet = _kubelet(facts)
    may_not = kubelet is not None and kubelet.cpu_manager_policy != "static"
    if facts.kubernetes is None or (may_not and not facts.intent.exclusive_cpus):
        return rule.NOTHING
    shared = facts.kubernetes.shared_cpus
    whole = rule.exclusive_cpus(facts, pod)
    if whole is None:
        return rule.NOTHING  # K8S001 says it
    if pod.cpus is None:
        return rule.lacking("kubernetes.pods.cpus")
    name, cpus = rule.server_of(pod)[0], cpu_list(pod.cpus)
    told = f"{name}: may run on CPUs {cpus}, its limit is {whole}"
    counted = rule.violated_if(len(pod.cpus) != whole, told)
    if shared is None:
        return (*counted, *rule.lacking("kubernetes.shared_cpus"))
    overlap = cpu_list(sorted({*shared} & {*pod.cpus}))
    told = f"{name}: CPUs {overlap} are in the shared pool too"
    return (*counted, *rule.violated_if(bool(overlap), told))


@_rule(
    code="K8S004",
    severity=Severity.WARNING,
    title="No CFS quota throttles the database",
    why="before Kubernetes 1.33 the quota stays on exclusive CPUs and can stop a container"
    " that uses no more than its own",
    detect="nr_throttled of the container; where nobody saw it, whether the kubelet sets a"
    " quota at all, and on exclusive CPUs its version",
    remedy="Use Kubernetes 1.33 or later, or cpuCFSQuota: false.",
    source="kubernetes/kubernetes#70585 and #127525; feature"
    " DisableCPUQuotaWithExclusiveCPUs, on since 1.33",
    needs=("kubernetes.pods",),
)
def _no_quota(facts: StackFacts) -> rule.Rulings:
    cluster, pods = facts.kubernetes, rule.database_pods(facts)
    if cluster is None or not pods:
        return rule.NOTHING
    kubelet, version = cluster.kubelet, re.match(r"v?([0-9]+)\.([0-9]+)", cluster.version or "")
    may_keep = kubelet and kubelet.cpu_manager_policy == "static" and kubelet.cpu_cfs_quota
    exclusive = [pod for pod in pods if may_keep and rule.exclusive_cpus(facts, pod) is not None]
    if kubelet is None:
        kept = rule.lacking("kubernetes.kubelet")
    elif not exclusive:
        kept = rule.HOLDS
    elif version is None:
        kept = rule.lacking("kubernetes.version")
    else:
        told = f"Kubernetes {cluster.version} keeps the CFS quota on exclusive CPUs"
        kept = rule.violated_if((int(version[1]), int(version[2])) < _NO_QUOTA_SINCE, told)
    shared = [_unthrottled(kubelet, pod, is_exclusive=pod in exclusive) for pod in pods]
    return rule.combined((*shared, kept))


def _unthrottled(kubelet: Kubelet | None, pod: PodFacts, *, is_exclusive: bool) -> rule.Rulings:
    """Judge by the count of periods; without one only where nothing can throttle the server."""
    if pod.throttled_periods is not None:
        told = f"{pod.name}: throttled in {pod.throttled_periods} periods"
        return rule.violated_if(pod.throttled_periods > 0, told)
    _, container = rule.server_of(pod)
    limited = kubelet is None or (kubelet.cpu_cfs_quota and "cpu" in container.limits)
    if limited and not is_exclusive:
        return rule.lacking("kubernetes.pods.throttled_periods")
    return rule.HOLDS


@_rule(
    code="K8S005",
    layers=("kubernetes", "linux"),
    severity=Severity.WARNING,
    title="Exclusive CPUs are whole cores",
    why="without full-pcpus-only another pod may get the sibling thread of a core; with it, a"
    " request of half a core ends in SMTAlignmentError",
    detect="cpuManagerPolicyOptions; /sys/devices/system/cpu/smt/active; the CPU limit of each"
    " container",
    remedy="Set full-pcpus-only and ask for a multiple of the threads of a core.",
    source="Kubernetes documentation, 'Node Resource Managers'",
    needs=_NODE_AND_PODS,
)
def _whole_cores(facts: StackFacts) -> rule.Rulings:
    kubelet, linux = _kubelet(facts), facts.linux
    if kubelet is None or linux is None or kubelet.cpu_manager_policy != "static":
        return rule.NOTHING
    if not linux.smt:
        return rule.HOLDS if rule.database_pods(facts) else rule.NOTHING
    threads = max((len(core) for core in linux.siblings or ()), default=2)
    full = kubelet.cpu_manager_options.get("full-pcpus-only", "").lower() == "true"

    def check(pod: PodFacts) -> rule.Rulings:
        server, _ = rule.server_of(pod)
        cpus = {name: rule.whole_cpus(pod, each) for name, each in rule.containers_of(pod).items()}
        cpus[server] = rule.exclusive_cpus(facts, pod)
        if not full and cpus[server] is not None:
            return rule.violated(
                f"{pod.name}: full-pcpus-only is off, another pod may get a sibling thread"
            )
        odd = [
            f"{name}: {count} CPUs are no whole cores of {threads} threads"
            for name, count in cpus.items()
            if full and count is not None and count % threads
        ]
        if odd:
            return rule.violated(*odd)
        if cpus[server] is None:
            return rule.NOTHING
        return rule.HOLDS if linux.siblings is not None else rule.lacking("linux.siblings")

    return rule.of_each(_wants_cpus(facts), check)


@_rule(
    code="K8S006",
    layers=("kubernetes", "linux"),
    severity=Severity.ERROR,
    title="A pod that must be on one NUMA node fits one",
    why="it fails admission with TopologyAffinityError: Failed, not Pending",
    detect="topologyManagerPolicy and topologyManagerScope: each container, or the pod; CPUs,"
    " memory and huge pages of each NUMA node",
    remedy="Make the pod smaller, or use the policy best-effort.",
    source="Kubernetes documentation, 'Utilizing the NUMA-aware Memory Manager'",
    needs=("kubernetes.kubelet", "kubernetes.pods", "linux.nodes"),
)
def _one_node(facts: StackFacts) -> rule.Rulings:
    kubelet, linux = _kubelet(facts), facts.linux
    if kubelet is None or kubelet.topology_manager_policy != "single-numa-node":
        return rule.NOTHING
    if linux is None or not linux.nodes:
        return rule.NOTHING
    reserved = _reserved_cpus(kubelet)

    def check(pod: PodFacts) -> rule.Rulings:
        whole = kubelet.topology_manager_scope == "pod"
        owners = {pod.name: pod} if whole else rule.containers_of(pod)
        return rule.combined(starmap(alone, owners.items()))

    def alone(name: str, owner: PodFacts | ContainerFacts) -> rule.Rulings:
        fits = [_fits(owner, node, reserved) for node in linux.nodes or ()]
        if any(fits):
            return rule.HOLDS
        if None in fits:
            return rule.lacking("linux.nodes.memory_bytes", "linux.nodes.pools")
        return rule.violated(f"{name}: no NUMA node has {_wanted(owner)}")

    return rule.of_each(rule.database_pods(facts), check)


def _fits(
    owner: PodFacts | ContainerFacts, node: NumaNode, reserved: frozenset[int]
) -> bool | None:
    """Return whether a node could hold a pod or container; None where that is not known."""
    cpus, memory_bytes = rule.amount(owner.limits, "cpu"), rule.bytes_of(owner.limits, "memory")
    pages = rule.huge_pages_of(owner)
    if cpus is not None and cpus > len(set(node.cpus) - reserved):
        return False
    if node.memory_bytes is None or (pages and not node.pools):
        return None
    pools = {pool.page_bytes: pool.page_bytes * pool.total for pool in node.pools}
    if any(size > pools.get(page, 0) for page, size in pages.items()):
        return False
    return memory_bytes is None or memory_bytes <= node.memory_bytes - sum(pools.values())


def _wanted(owner: PodFacts | ContainerFacts) -> str:
    parts = []
    if "cpu" in owner.limits:
        parts.append(f"{owner.limits['cpu']} CPUs")
    memory_bytes = rule.bytes_of(owner.limits, "memory")
    if memory_bytes is not None:
        parts.append(f"{format_bytes(memory_bytes)} of memory")
    parts += [
        f"{format_bytes(size)} of {format_bytes(page)} pages"
        for page, size in rule.huge_pages_of(owner).items()
    ]
    return " + ".join(parts)


def _reserved_cpus(kubelet: Kubelet) -> frozenset[int]:
    try:
        return frozenset(parse_cpu_list(kubelet.reserved_system_cpus or ""))
    except InputError:
        return frozenset()


@_rule(
    code="K8S008",
    severity=Severity.ERROR,
    title="A static CPU policy comes with reserved CPUs",
    why="the kubelet does not start otherwise",
    detect="reservedSystemCPUs, kubeReserved.cpu, systemReserved.cpu",
    remedy='Set reservedSystemCPUs: "0,1", or reserve CPU for the system.',
    source=_POLICIES,
    needs=("kubernetes.kubelet",),
)
def _reserves_cpus(facts: StackFacts) -> rule.Rulings:
    kubelet = _kubelet(facts)
    if kubelet is None or kubelet.cpu_manager_policy != "static":
        return rule.NOTHING
    reserved = (
        rule.amount(kubelet.kube_reserved, "cpu"),
        rule.amount(kubelet.system_reserved, "cpu"),
    )
    if _reserved_cpus(kubelet) or any(reserved):
        return rule.HOLDS
    return rule.violated("the policy is static and no CPU is reserved for the system")


def _kubelet(facts: StackFacts) -> Kubelet | None:
    return facts.kubernetes.kubelet if facts.kubernetes is not None else None


@_of_class(
    code="LH001",
    layers=("storage",),
    severity=Severity.ERROR,
    title="A strict-local volume has exactly one replica",
    why="its creation fails otherwise",
    detect="dataLocality and numberOfReplicas (3 by default) of the storage class",
    remedy='Set numberOfReplicas: "1".',
    source=_PARAMETERS,
    of=_classes,
)
def _one_replica(each: StorageClassFacts) -> rule.Rulings:
    if not k8s.is_strict(each):
        return rule.NOTHING
    number = k8s.replicas(each)
    return rule.violated_if(number != "1", f"{each.name}: strict-local with {number} replicas")


@_of_class(
    code="LH002",
    layers=("storage", "kubernetes"),
    severity=Severity.WARNING,
    title="Data are replicated once, by the database or by the storage",
    why="3 instances on 3 replicas are 9 copies, and every commit crosses the network twice",
    detect="the cluster's instances times the replicas of its storage class",
    remedy="Use strict-local volumes of one replica below a replicated database.",
    source="Longhorn documentation, 'Best Practices'",
    needs=(*_OF_STORAGE, "kubernetes.cluster"),
    among=_classes,
)
def _replicated_once(each: StorageClassFacts, facts: StackFacts) -> rule.Rulings:
    cluster = _cluster(facts)
    if cluster is None:
        return rule.NOTHING
    number = k8s.replicas(each)
    is_its = each.name == cluster.storage_class and k8s.is_longhorn(each)
    if not is_its or not number.isdecimal():
        return rule.NOTHING
    copies = cluster.instances * int(number)
    if cluster.instances == 1 or int(number) == 1:
        return rule.HOLDS
    return rule.violated(f"{cluster.instances} instances x {number} replicas = {copies} copies")


@_of_class(
    code="LH003",
    layers=("storage", "kubernetes"),
    severity=Severity.WARNING,
    title="Volumes that live on one node bind late",
    why="bound at once, the volume chooses a node before the scheduler knows the pod",
    detect="volumeBindingMode of strict-local and node-local storage classes",
    remedy=f"Set volumeBindingMode: {k8s.LATE}.",
    source=f"Kubernetes documentation, 'Storage Classes'; {_PARAMETERS}",
    of=_classes,
)
def _late_binding(each: StorageClassFacts) -> rule.Rulings:
    if not k8s.is_strict(each) and not k8s.is_node_bound(each):
        return rule.NOTHING
    return rule.violated_if(
        each.binding != k8s.LATE, f"{each.name}: volumeBindingMode {each.binding}"
    )


@_of_class(
    code="LH004",
    layers=("storage", "linux"),
    severity=Severity.WARNING,
    title="Longhorn's V2 engine does not compete with the database",
    why="it polls one core at 100 % and holds 2 GiB of huge pages on every node",
    detect="dataEngine of the storage class",
    remedy="Add 1024 pages to the pool and reserve a core, or use dataEngine: v1.",
    source="Longhorn documentation, 'V2 Data Engine: Prerequisites'",
    of=_classes,
)
def _second_engine(each: StorageClassFacts) -> rule.Rulings:
    if not k8s.is_longhorn(each):
        return rule.NOTHING
    return rule.violated_if(
        each.parameters.get("dataEngine") == "v2",
        f"{each.name}: its engine takes 1024 pages of 2 MiB and one core of every node",
    )
