"""Facts of a database in Kubernetes: from the API, the files of the node, and a probe in a pod.

The API tells of pods, storage classes, Clusters and kubelets. The node's own files tell of its
kubelet and of the CPUs that pods share. Of the node a container sees what the kernel shows to
everybody below ``/proc`` and ``/sys``. It sees neither the node's files nor the processes of
others.

The probe is a pod of a moment on one node. It may do nothing: no privilege, no account of the
cluster, no directory of the node, any user but root (Pod Security Standard `restricted`). Its own
CPU set says which CPUs containers share that have none of their own.
"""

import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial, reduce
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from steelyard.core import kubernetes as k8s
from steelyard.core import stack
from steelyard.core.linux import LinuxFacts, parse_cpu_list
from steelyard.core.wording import (
    InputError,
    SteelyardError,
    TargetError,
    page_bytes_of,
    parse_quantity,
)
from steelyard.gateways import host as machine
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.placed_files import FetchedHost, Wanted, new_mark, parse_fetched, script
from steelyard.places.kubernetes.pods import ReadyWait, waiting_pod
from steelyard.tuning.facts import file
from steelyard.tuning.facts.linux import CPUS, HOLDING, NODES, POOLS, SYSCTL_PLACES, outside_of_pods
from steelyard.tuning.facts.machine import DMI, VIRTIO

_QUEUE: Final = ("rotational", "read_ahead_kb", "scheduler", "write_cache")
# What the kernel shows to everybody on its machine, in containers too.
KERNEL_FILES: Final = (
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/cmdline", "/proc/pressure/cpu"),
    *("/proc/self/mountinfo", "/proc/self/mounts", "/proc/self/status", "/proc/self/smaps"),
    "/proc/self/cgroup",
    *(f"/proc/sys/kernel/{name}" for name in ("arch", "osrelease", "numa_balancing")),
    "/proc/sys/kernel/io_uring_disabled",
    *(f"/proc/sys/vm/{name}" for name in ("swappiness", "overcommit_memory", "dirty_ratio")),
    *(f"/proc/sys/vm/{name}" for name in ("dirty_bytes", "dirty_background_bytes")),
    *(f"/proc/sys/vm/{name}" for name in ("zone_reclaim_mode", "nr_overcommit_hugepages")),
    *("/sys/hypervisor/type", f"{DMI}/sys_vendor", f"{DMI}/product_name"),
    "/sys/devices/system/clocksource/clocksource0/*_clocksource",
    *(f"{CPUS}/online", f"{CPUS}/smt/active", f"{CPUS}/cpuidle/*"),
    f"{CPUS}/cpu[0-9]*/topology/thread_siblings_list",
    *(f"{CPUS}/cpu[0-9]*/cpufreq/scaling_{name}" for name in ("driver", "governor")),
    f"{CPUS}/cpu[0-9]*/cpufreq/energy_performance_preference",
    *(f"{CPUS}/cpu0/cpuidle/state*/{name}" for name in ("name", "latency", "disable")),
    *(f"{NODES}/node[0-9]*/{name}" for name in ("cpulist", "meminfo", "distance")),
    *(f"{NODES}/node[0-9]*/hugepages/*/*_hugepages", f"{POOLS}/*/*_hugepages"),
    *("/sys/module/kvm/parameters/halt_poll_ns", "/sys/module/haltpoll/parameters/*"),
    *("/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/mm/transparent_hugepage/defrag"),
    *(f"{VIRTIO}/*/device", f"{VIRTIO}/*/uevent"),
    *("/sys/fs/cgroup/cgroup.controllers", "/sys/fs/cgroup/unified/cgroup.controllers"),
)
_FILES: Final = (
    *KERNEL_FILES,
    "/proc/1/status",
    *("/etc/sysctl.conf", *(f"{place}/*.conf" for place in SYSCTL_PLACES)),
    stack.UNIT_PATH,
    *("/run/systemd/container", "/.dockerenv", "/run/.containerenv"),
    *("/var/lib/kubelet/config.yaml", "/var/lib/kubelet/cpu_manager_state"),
)


def wanted_at_first(directories: tuple[str, ...]) -> Wanted:
    """Return everything but what depends on it; ``directories`` of the machine are resolved."""
    return Wanted(
        files=_FILES,
        matching=(("/proc/[0-9]*/status", HOLDING), ("/proc/[0-9]*/stat", _SERVERS)),
        numbers=("/dev/cpu_dma_latency",),
        directories=directories,
    )


def wanted_later(places: tuple[str, ...], further: tuple[str, ...] = ()) -> Wanted:
    """Return what is looked at a second time, with the disk's directories and further files."""
    return Wanted(
        files=(
            "/proc/stat",
            *(f"{place}/queue/{name}" for place in places for name in _QUEUE),
            *(f"{place}/uevent" for place in places),
            *(f"{place}/device/{name}" for place in places for name in ("model", "vendor")),
            *further,
        )
    )


_PROBE_CONTAINER: Final = "probe"
_LABELS: Final = {k8s.MANAGED_BY: k8s.MANAGER, k8s.ROLE: k8s.PROBE}
_LOOK: Final = "inspect-"
_NOBODY: Final = 65534
_LASTS_S: Final = 300  # then the cluster ends it, whatever became of Steelyard; a guess


def probe_manifest(namespace: str, beside: k8s.Manifest) -> dict[str, Any]:
    """Return a probe for the node of another pod, of the image that this pod has there already."""
    spec = beside["spec"]
    name = f"{_LOOK}{secrets.token_hex(4)}"
    return waiting_pod(
        _PROBE_CONTAINER,
        spec["containers"][0]["image"],
        lasts_s=_LASTS_S,
        user=_NOBODY,
        read_only=True,
        name=f"steelyard-{name}",
        namespace=namespace,
        # As of a campaign of its own: `clean --context` finds what a death left.
        labels={**_LABELS, k8s.CAMPAIGN: name},
        # Never Guaranteed: it would not be on the CPUs that others share.
        requests={"cpu": "10m", "memory": "16Mi"},
        limits={"cpu": "500m", "memory": "64Mi"},
        node=spec["nodeName"],
        tolerations=[{"operator": "Exists"}],
        pull_secrets=spec.get("imagePullSecrets"),
    )


@contextmanager
def probe_on(
    api: KubernetesApi, namespace: str, beside: k8s.Manifest, clock: machine.Clock
) -> Iterator[k8s.ContainerRef]:
    """Yield the container of a probe on the node of a pod; it is gone afterwards.

    Raises:
        SteelyardError: It may not be made there, or does not run.
    """
    _remove_ended(api, namespace)
    manifest = probe_manifest(namespace, beside)
    ref = k8s.ref_of(manifest)
    try:
        api.apply(manifest)
        ReadyWait(api, clock, lambda _message: None).until_ready((ref,))
        yield k8s.ContainerRef(namespace=namespace, pod=ref.name, container=_PROBE_CONTAINER)
    finally:
        with suppress(SteelyardError):  # it ends by itself, and the next one removes it
            api.delete(ref, grace_s=0)


def _remove_ended(api: KubernetesApi, namespace: str) -> None:
    """Remove probes whose Steelyard died before it could."""
    for pod in api.list(k8s.POD, namespace, _LABELS):
        campaign = (pod["metadata"].get("labels") or {}).get(k8s.CAMPAIGN, _LOOK)
        if (
            campaign.startswith(_LOOK)
            and (pod["metadata"]["name"]).startswith(f"steelyard-{_LOOK}")
            and (pod.get("status") or {}).get("phase") in _ENDED
        ):
            api.delete(k8s.ref_of(pod), grace_s=0)


_TIMEOUT_S: Final = 60.0
# Of version 2, and of version 1 under each name that it is mounted by.
_PLACES: Final = ("", "/cpu", "/cpu,cpuacct", "/cpuset", "/hugetlb")
_GROUP_FILES: Final = (
    *("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.stat"),
    *("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"),
    *("hugetlb.*.current", "hugetlb.*.usage_in_bytes"),
)
_OF_GROUP: Final = tuple(
    f"{machine.GROUPS}{place}/{name}" for place in _PLACES for name in _GROUP_FILES
)
_CHARGED: Final = re.compile(r"/hugetlb\.[^/]+?\.(rsvd\.)?(?:current|usage_in_bytes)$")
_SERVERS: Final = r"^[0-9]* (postgres)"  # as grep writes it, of /proc/PID/stat
_SERVER: Final = re.compile(r"^([0-9]+) \(postgres\) \S ([0-9]+) ")
_SIZE: Final = re.compile(r"size=([0-9]{1,15})k")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodMachine:
    """A container whose files are read by a shell in it."""

    api: KubernetesApi
    where: k8s.ContainerRef

    def fetch(self, wanted: Wanted) -> FetchedHost:
        """Return what is wanted.

        Raises:
            SteelyardError: The account may not run commands there, or nothing runs there.
            TargetError: There is no shell for us.
        """
        mark = new_mark()
        done = self.api.run(
            self.where, ("sh", "-s"), timeout_s=_TIMEOUT_S, stdin=script(wanted, mark)
        )
        host = parse_fetched(done.stdout, mark)
        if host is None:
            reason = done.tail(1) or f"exit status {done.exit_status}"
            raise TargetError(
                f"the container {self.where.container} of {self.where.pod} did not run a shell"
                f" script to its end: {reason}",
                hint="Its image needs a POSIX shell with cat, grep and od.",
            )
        return host


def wanted_of_container() -> Wanted:
    """Return what says how a container is limited, and where its server is."""
    return Wanted(
        files=(*_OF_GROUP, "/proc/self/mountinfo", "/proc/meminfo"),
        matching=(("/proc/[0-9]*/stat", _SERVERS),),
    )


def wanted_of_kernel() -> Wanted:
    """Return what the kernel of the node shows in any container of it, with its own limits."""
    return Wanted(files=(*KERNEL_FILES, *_OF_GROUP))


def with_files(host: FetchedHost, other: FetchedHost, paths: Iterable[str]) -> FetchedHost:
    """Return a machine with these files of another look, where that has them."""
    taken = {path: text for path in paths if (text := other.read(path)) is not None}
    return host.with_more(FetchedHost(files=taken))


def cpus_of(host: FetchedHost) -> tuple[int, ...] | None:
    """Return the CPUs that a container may run on; None where its CPU set is not visible."""
    return machine.group_cpus(partial(_of_group, host))


def quota_of(host: FetchedHost) -> float | None:
    """Return how many CPUs a container's quota is worth; None without one."""
    return machine.group_quota(partial(_of_group, host))


def throttled_of(host: FetchedHost) -> int | None:
    """Return in how many periods the quota held a container back; None where it is not visible."""
    return machine.named_numbers(_of_group(host, "cpu.stat")).get("nr_throttled")


def huge_bytes_of(host: FetchedHost) -> int | None:
    """Return the huge pages charged to a container, promised ones too; None where not counted."""
    charged: dict[bool, int] = {}
    for path, text in host.files.items():
        kind = _CHARGED.search(path)
        if kind and path.startswith(machine.GROUPS) and text.strip().isdecimal():
            reserved = bool(kind[1])
            charged[reserved] = charged.get(reserved, 0) + int(text)
    return max(charged.values(), default=None)


def servers_of(host: machine.Host) -> tuple[int, ...]:
    """Return the first process of each server, as its machine or container counts them."""
    texts = (host.read(f"/proc/{name}/stat") or "" for name in host.names("/proc"))
    parents = {int(m[1]): int(m[2]) for m in map(_SERVER.match, texts) if m}
    return tuple(pid for pid, parent in parents.items() if parent not in parents)


def shm_bytes_of(host: FetchedHost) -> int | None:
    """Return the size of a container's ``/dev/shm``; None where its mount names none or is torn."""
    try:
        mount = machine.mount_of(host, "/dev/shm")  # noqa: S108 - it is looked at
    except (ValueError, LookupError):
        return None
    sizes = map(_SIZE.fullmatch, mount.options if mount and mount.at == "/dev/shm" else ())  # noqa: S108
    return next((int(size[1]) * 1024 for size in sizes if size), None)


def _of_group(host: FetchedHost, name: str) -> str:
    found = (host.read(f"{machine.GROUPS}{place}/{name}") for place in _PLACES)
    return next((text.strip() for text in found if text and text.strip()), "")


CONFIGURATION: Final = "/var/lib/kubelet/config.yaml"
CPU_STATE: Final = "/var/lib/kubelet/cpu_manager_state"
_TEXTS: Final = {
    "cpuManagerPolicy": "cpu_manager_policy",
    "topologyManagerPolicy": "topology_manager_policy",
    "topologyManagerScope": "topology_manager_scope",
    "memoryManagerPolicy": "memory_manager_policy",
    "reservedSystemCPUs": "reserved_system_cpus",
}
_MAPPINGS: Final = {
    "cpuManagerPolicyOptions": "cpu_manager_options",
    "kubeReserved": "kube_reserved",
    "systemReserved": "system_reserved",
    "evictionHard": "eviction_hard",
}
_API: Final = "only the API of the cluster tells it"


def collect_kubernetes(
    host: machine.Host, linux: LinuxFacts
) -> tuple[stack.KubernetesFacts | None, dict[str, stack.Origin]]:
    """Return what the node's files tell; None where no kubelet is seen on this machine."""
    if host.read(CONFIGURATION) is None and host.read(CPU_STATE) is None:
        reason = f"no kubelet is seen here: there is no {CONFIGURATION} that we may read"
        return None, {"kubernetes": file.hidden(reason).origin}
    named = (("kubelet", CONFIGURATION, parse_kubelet), ("shared_cpus", CPU_STATE, _shared))
    finds = {
        name: file.unknown(f"{path} is not there, or root alone may read it")
        if (found := host.read(path)) is None
        else file.parsed(found, path, parse)
        for name, path, parse in named
    }
    finds["non_pod_huge_pages"] = _non_pod(host, linux)
    return stack.KubernetesFacts(**file.values_of(finds)), {
        "kubernetes": file.hidden(_API).origin,
        **file.origins_of(finds, "kubernetes"),
    }


def parse_kubelet(text: str) -> stack.Kubelet:
    """Return a kubelet's configuration from its file.

    Raises:
        ValueError: It is no such file.
    """
    try:
        given: Any = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, LookupError, AttributeError, TypeError, AssertionError) as error:
        raise ValueError(str(error)) from error
    given = _mapping(given)
    quota = given.get("cpuCFSQuota")
    texts: dict[str, Any] = {f: str(given[n]) for n, f in _TEXTS.items() if given.get(n)}
    maps: dict[str, Any] = {f: _texts(given[n]) for n, f in _MAPPINGS.items() if given.get(n)}
    return stack.Kubelet(
        **texts,
        **maps,
        reserved_memory=tuple(map(_reserved, given.get("reservedMemory") or ())),
        cpu_cfs_quota=quota is not False,
    )


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("no mapping")  # noqa: TRY004 - what the callers of a parser expect
    return value


def _texts(value: object) -> Mapping[str, str]:
    given = _mapping(value).items()
    texts = ((str(name), str(text), isinstance(text, bool)) for name, text in given)
    return {name: text.lower() if is_switch else text for name, text, is_switch in texts}


def _reserved(entry: object) -> Mapping[str, str]:
    flat = dict(entry) if isinstance(entry, dict) else {}
    limits = flat.pop("limits", None)
    return _texts({**flat, **(limits if isinstance(limits, dict) else {})})


def _shared(text: str) -> tuple[int, ...]:
    return parse_cpu_list(str(_mapping(json.loads(text))["defaultCpuSet"]))


def _non_pod(host: machine.Host, linux: LinuxFacts) -> file.Found:
    if linux.pool_users is None or not linux.huge_page_bytes:
        return file.unknown("who holds huge pages is not visible")
    pages = outside_of_pods(host, linux.pool_users, linux.huge_page_bytes)
    return file.seen(pages, "HugetlbPages and cgroup in /proc/*")


DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"
_SERVER_PORTS: Final = {5432, 6379}  # of PostgreSQL and Redis
_RESTARTS: Final = "Always"  # of an init container that stays beside the others


def pods_of(pods: Iterable[k8s.Manifest], node: str) -> tuple[k8s.Manifest, ...]:
    """Return the pods that hold something of a node."""
    return tuple(
        pod
        for pod in pods
        if pod["spec"].get("nodeName") == node
        and (pod.get("status") or {}).get("phase") not in _ENDED
    )


def pod_facts(pod: k8s.Manifest, *, database: bool = False) -> stack.PodFacts:
    """Return what the API says of a pod: containers' requests and limits added up, and each's.

    CPU and memory that one of the containers has no limit of are not limited; of huge pages it has
    none then. If the pod has resources of its own they count, also for containers without any.
    """
    metadata, spec = pod["metadata"], pod["spec"]
    own = {kind: _resources(spec, kind) for kind in ("requests", "limits")}
    server = server_container(pod)
    each = sorted(
        (*spec["containers"], *(spec.get("initContainers") or ())),
        key=lambda container: container["name"] != server,
    )
    containers = tuple(
        stack.ContainerFacts(
            name=str(container["name"]),
            requests=_resources(container, "requests"),
            limits={**own["limits"], **_resources(container, "limits")},
        )
        for container in each
    )
    return stack.PodFacts(
        name=f"{metadata['namespace']}/{metadata['name']}",
        database=database,
        requests={**_together(spec, "requests"), **own["requests"]},
        limits={**_together(spec, "limits"), **own["limits"]},
        containers=containers if len(containers) > 1 else (),
        pod_level=any(own.values()),
        qos_class=(pod.get("status") or {}).get("qosClass"),
    )


def server_container(pod: k8s.Manifest) -> str:
    """Return the container of the server: the operator's, or the one that kubectl takes.

    Kubectl's is the annotated one or the first. A container that declares a server's port goes
    before the first: injected proxies are often that.
    """
    ports = {
        str(container["name"]): {port.get("containerPort") for port in container.get("ports") or ()}
        for container in pod["spec"]["containers"]
    }
    default = (pod["metadata"].get("annotations") or {}).get(_DEFAULT_CONTAINER)
    serving = (name for name, numbers in ports.items() if numbers & _SERVER_PORTS)
    wanted = (k8s.SERVER_CONTAINER, default, *serving)
    return next((name for name in wanted if name in ports), next(iter(ports)))


def _resources(owner: Mapping[str, Any], kind: str) -> dict[str, str]:
    found = (owner.get("resources") or {}).get(kind) or {}
    return {name: str(text) for name, text in found.items()}


def _together(spec: Mapping[str, Any], kind: str) -> dict[str, str]:
    """Return the effective resources of a pod.

    Source: Kubernetes documentation, 'Sidecar Containers', "Resource sharing within containers".
    """
    staying: list[dict[str, str]] = []
    passing = []
    for each in spec.get("initContainers") or ():
        if each.get("restartPolicy") == _RESTARTS:
            staying.append(_resources(each, kind))
        else:
            passing.append([_resources(each, kind), *staying])
    lasting = [*(_resources(each, kind) for each in spec["containers"]), *staying]
    names = {name for group in (lasting, *passing) for text in group for name in text}
    if kind == "limits":
        names = {n for n in names if page_bytes_of(n) or all(n in text for text in lasting)}
    found = {}
    for name in sorted(names):
        sums = [
            _sum(texts, name)
            for group in (lasting, *passing)
            if (texts := [text[name] for text in group if name in text])
        ]
        found[name] = reduce(_larger, sums)
    return found


def _sum(texts: Sequence[str], name: str) -> str:
    if len(texts) == 1:
        return texts[0]
    try:
        amount = sum(map(parse_quantity, texts), Fraction(0))
    except InputError:
        return texts[0]  # rules tell of what is no quantity
    if name == "cpu" and amount.denominator != 1:
        return f"{-(-amount.numerator * 1000 // amount.denominator)}m"
    return str(-(-amount.numerator // amount.denominator))


def _larger(one: str, other: str) -> str:
    try:
        return one if parse_quantity(one) >= parse_quantity(other) else other
    except InputError:
        return one


def huge_page_owners(pods: Iterable[k8s.Manifest]) -> frozenset[str]:
    """Return which pods may use huge pages, by ``namespace/name``."""
    return frozenset(
        fact.name
        for fact in map(pod_facts, pods)
        if any(name.startswith("hugepages-") for name in fact.limits)
    )


def storage_classes(classes: Iterable[k8s.Manifest]) -> tuple[stack.StorageClassFacts, ...]:
    """Return the facts of storage classes."""
    return tuple(
        stack.StorageClassFacts(
            name=str(each["metadata"]["name"]),
            provisioner=str(each.get("provisioner") or ""),
            binding=str(each.get("volumeBindingMode") or "Immediate"),
            parameters=_texts(each.get("parameters") or {}),
        )
        for each in classes
    )


def default_class(classes: Iterable[k8s.Manifest]) -> str | None:
    """Return the class of volumes that name none."""
    for each in classes:
        if (each["metadata"].get("annotations") or {}).get(DEFAULT_CLASS) == "true":
            return str(each["metadata"]["name"])
    return None


def cluster_facts(
    cluster: k8s.Manifest, classes: Iterable[k8s.Manifest] = ()
) -> stack.ClusterFacts:
    """Return the facts of a Cluster that is there.

    What the operator alone may set is its own, whatever stands in the object: it writes its
    defaults there, and refuses anybody else's.
    """
    spec: Mapping[str, Any] = cluster["spec"]
    parameters = (spec.get("postgresql") or {}).get("parameters") or {}
    budget = spec.get("enablePDB")
    return stack.ClusterFacts(
        instances=int(spec.get("instances") or 1),
        disruption_budget=budget is not False,
        anti_affinity=str((spec.get("affinity") or {}).get("podAntiAffinityType") or "preferred"),
        parameters={name: value for name, value in parameters.items() if name not in k8s.REFUSED},
        storage_class=(spec.get("storage") or {}).get("storageClass") or default_class(classes),
    )


def kubelet_of(configz: str) -> stack.Kubelet:
    """Return a kubelet's configuration from what it answers at ``/configz``.

    Raises:
        ValueError: It is no such answer.
    """
    return parse_kubelet(json.dumps(_mapping(_mapping(json.loads(configz)).get("kubeletconfig"))))


_CONFIGZ: Final = "/api/v1/nodes/{node}/proxy/configz"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedCluster:
    """Which database in which cluster, and how far to look.

    Attributes:
        context: Of the kubeconfig; None: the current one.
        namespace: None: that of the context.
        cluster: Name of a Cluster of CloudNativePG: its primary is looked at.
        pod: Name of a pod instead.
        dsn: URI of the server, without a password; None: it is reached through its pod.
        node_probe: Start a short-lived probe pod on the node.
    """

    context: str | None = None
    namespace: str | None = None
    cluster: str | None = None
    pod: str | None = None
    dsn: str | None = None
    node_probe: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """A database's pod and what it belongs to.

    Attributes:
        container: Of the server.
        cluster: None where no operator that is known runs it.
    """

    api: KubernetesApi
    namespace: str
    pod: k8s.Manifest
    container: k8s.ContainerRef
    cluster: k8s.Manifest | None = None

    @property
    def node(self) -> str:
        """Return where it runs."""
        return str(self.pod["spec"]["nodeName"])

    @property
    def name(self) -> str:
        """Return the pod as facts name it."""
        return f"{self.namespace}/{self.pod['metadata']['name']}"


def find_database(api: KubernetesApi, asked: AskedCluster) -> Database:
    """Return the pod that is asked for.

    Raises:
        InputError: Nothing names it.
        TargetError: It is not there, or does not run.
    """
    namespace = asked.namespace or api.namespace
    cluster = None
    if asked.cluster is not None:
        cluster = _there(api, k8s.CLUSTER, asked.cluster, namespace)
    name = asked.pod or str(((cluster or {}).get("status") or {}).get("currentPrimary") or "")
    if not name and asked.cluster is not None:
        raise TargetError(
            f"Cluster {namespace}/{asked.cluster} has no primary yet",
            hint="Wait until it is healthy.",
        )
    if not name:
        raise InputError(
            "nothing names the database in the cluster",
            hint="Name it with --cluster NAME (CloudNativePG) or --pod NAME.",
        )
    pod = _there(api, k8s.POD, name, namespace)
    if not pod["spec"].get("nodeName"):
        raise TargetError(f"Pod {namespace}/{name} is on no node yet", hint="Wait until it runs.")
    owner = (pod["metadata"].get("labels") or {}).get(k8s.OF_CLUSTER)
    if cluster is None and owner and api.knows(k8s.CLUSTER):
        cluster = api.read(k8s.ObjectRef(kind=k8s.CLUSTER, name=owner, namespace=namespace))
    where = k8s.ContainerRef(namespace=namespace, pod=name, container=server_container(pod))
    return Database(api=api, namespace=namespace, pod=pod, container=where, cluster=cluster)


def _there(api: KubernetesApi, kind: k8s.Kind, name: str, namespace: str) -> k8s.Manifest:
    ref = k8s.ObjectRef(kind=kind, name=name, namespace=namespace)
    found = api.read(ref)
    if found is not None:
        return found
    there = ", ".join(each["metadata"]["name"] for each in api.list(kind, namespace))
    raise TargetError(
        f"{ref.label} is not there; the namespace has {there or 'none'}",
        hint="Name another namespace with -n, or another context with --context.",
    )


def kubernetes_facts(
    database: Database,
    own: FetchedHost | SteelyardError,
    shared: file.Found,
    linux: LinuxFacts | None,
) -> tuple[stack.KubernetesFacts, dict[str, stack.Origin]]:
    """Return what the API and the database's container say.

    Args:
        database: Of which pod.
        own: Files of its container, or why there are none.
        shared: CPUs of containers that have none of their own.
        linux: The node's kernel.
    """
    api, node = database.api, k8s.ObjectRef(kind=k8s.NODE, name=database.node)
    status = _asked(node.label, lambda: (api.read(node) or {})["status"])
    pods, on_node = _pods(database, own)
    path = _CONFIGZ.format(node=database.node)
    kubelet = _asked(path, lambda: api.raw(path))
    if kubelet.value is not None:
        kubelet = file.parsed(str(kubelet.value), path, kubelet_of)
    takes_none = kubelet.value is not None and kubelet.value.cpu_manager_policy == "none"
    if takes_none and shared.value is None and linux is not None and linux.cpus is not None:
        shared = file.seen(linux.cpus, "cpuManagerPolicy none")
    finds = {
        "version": _of(status, lambda of: of["nodeInfo"]["kubeletVersion"]),
        "node": file.seen(database.node, "spec.nodeName of the pod"),
        "kubelet": kubelet,
        "pods": pods,
        "capacity": _of(status, lambda of: _texts(of["capacity"])),
        "allocatable": _of(status, lambda of: _texts(of["allocatable"])),
        "storage_classes": _asked(
            "storage classes of the API", lambda: storage_classes(api.list(k8s.STORAGE_CLASS))
        ),
        "cluster": _cluster(database),
        "shared_cpus": shared,
        "non_pod_huge_pages": _huge_pages_beside_pods(database, on_node, own, linux),
    }
    told = file.origins_of(finds, "kubernetes")
    if isinstance(own, SteelyardError):
        for name in ("cpus", "quota_cpus", "throttled_periods", "charged_huge_bytes"):
            told[f"kubernetes.pods.{name}"] = file.unknown(own.message).origin
    return stack.KubernetesFacts(**file.values_of(finds)), told


def _asked(source: str, call: Callable[[], object]) -> file.Found:
    """Return what a request brings; what is refused is unknown, and it says why."""
    try:
        return file.seen(call(), source)
    except SteelyardError as error:
        return file.unknown(f"{source}: {error.message}")
    except (LookupError, TypeError, ValueError) as error:
        return file.unknown(f"{source} is not understood: {error}")


def _of(status: file.Found, choose: Callable[[Any], object]) -> file.Found:
    if status.value is None:
        return status
    return _asked(status.origin.source, lambda: choose(status.value))


def _cluster(database: Database) -> file.Found:
    if database.cluster is None:
        return file.seen(None, "the pod belongs to no Cluster of CloudNativePG")
    classes = _asked("storage classes of the API", lambda: database.api.list(k8s.STORAGE_CLASS))
    source = k8s.ObjectRef(
        kind=k8s.CLUSTER, name=database.cluster["metadata"]["name"], namespace=database.namespace
    )
    cluster = database.cluster
    return _asked(source.label, lambda: cluster_facts(cluster, classes.value or ()))


def _pods(
    database: Database, own: FetchedHost | SteelyardError
) -> tuple[file.Found, tuple[k8s.Manifest, ...] | None]:
    """Return the pods of the node; of the database alone where others may not be seen."""
    source = f"pods on Node {database.node}"
    found = _asked(source, lambda: pods_of(database.api.list(k8s.POD), database.node))
    on_node: tuple[k8s.Manifest, ...] | None = found.value
    if on_node is None:
        source = f"the database's pod alone; {found.origin.source}"
    facts = (_pod(pod, database, own) for pod in on_node or (database.pod,))
    return file.seen(tuple(facts), f"{source}; its container's control groups"), on_node


def _pod(
    pod: k8s.Manifest, database: Database, own: FetchedHost | SteelyardError
) -> stack.PodFacts:
    metadata, cluster = pod["metadata"], database.cluster
    owner = (metadata.get("labels") or {}).get(k8s.OF_CLUSTER)
    is_of_cluster = cluster is not None and (metadata["namespace"], owner) == (
        database.namespace,
        cluster["metadata"]["name"],
    )
    is_asked = f"{metadata['namespace']}/{metadata['name']}" == database.name
    facts = pod_facts(pod, database=is_asked or is_of_cluster)
    if facts.name != database.name or isinstance(own, SteelyardError):
        return facts
    return replace(
        facts,
        cpus=cpus_of(own),
        quota_cpus=quota_of(own),
        throttled_periods=throttled_of(own),
        charged_huge_bytes=huge_bytes_of(own),
    )


def _huge_pages_beside_pods(
    database: Database,
    on_node: tuple[k8s.Manifest, ...] | None,
    own: FetchedHost | SteelyardError,
    linux: LinuxFacts | None,
) -> file.Found:
    """Return the huge pages that no pod holds: those in use or promised without the database's.

    What other pods hold is not visible from here.
    """
    pool = linux.pool() if linux is not None else None
    if pool is None or on_node is None:
        return file.unknown("the node's pool or its pods are not visible")
    owners = huge_page_owners(on_node) - {database.name}
    if owners:
        return file.unknown(f"what other pods hold is not visible: {', '.join(sorted(owners))}")
    charged = None if isinstance(own, SteelyardError) else huge_bytes_of(own)
    if charged is None:
        return file.unknown("what the database's container holds is not visible")
    used = pool.total - pool.free + (pool.reserved or 0)
    pages = max(used - charged // pool.page_bytes, 0)
    return file.seen(pages, "huge pages in use or promised, without those charged to the container")
