"""The pod of a database in a Kubernetes cluster, and what the API says around it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from steelyard.gateways.fetched import FetchedHost
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.model.errors import InputError, SteelyardError, TargetError
from steelyard.model.kubernetes import (
    CLUSTER,
    NODE,
    POD,
    STORAGE_CLASS,
    ContainerRef,
    Kind,
    Manifest,
    ObjectRef,
)
from steelyard.model.linux_facts import LinuxFacts
from steelyard.model.stack_facts import KubernetesFacts, Origin, PodFacts
from steelyard.platforms.cloudnative_pg.state import CONTAINER, OF_CLUSTER
from steelyard.tuning.facts import container_files as files
from steelyard.tuning.facts.found import Found, origins_of, parsed, seen, unknown, values_of
from steelyard.tuning.facts.pods import (
    cluster_facts,
    huge_page_owners,
    kubelet_of,
    pod_facts,
    pods_of,
    storage_classes,
)

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
        node_probe: Make a pod of a moment on the node.
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
    pod: Manifest
    container: ContainerRef
    cluster: Manifest | None = None

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
        cluster = _there(api, CLUSTER, asked.cluster, namespace)
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
    pod = _there(api, POD, name, namespace)
    if not pod["spec"].get("nodeName"):
        raise TargetError(f"Pod {namespace}/{name} is on no node yet", hint="Wait until it runs.")
    owner = (pod["metadata"].get("labels") or {}).get(OF_CLUSTER)
    if cluster is None and owner and api.knows(CLUSTER):
        cluster = api.read(ObjectRef(kind=CLUSTER, name=owner, namespace=namespace))
    names = [str(each["name"]) for each in pod["spec"]["containers"]]
    container = CONTAINER if CONTAINER in names else names[0]
    where = ContainerRef(namespace=namespace, pod=name, container=container)
    return Database(api=api, namespace=namespace, pod=pod, container=where, cluster=cluster)


def _there(api: KubernetesApi, kind: Kind, name: str, namespace: str) -> Manifest:
    ref = ObjectRef(kind=kind, name=name, namespace=namespace)
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
    shared: Found,
    linux: LinuxFacts | None,
) -> tuple[KubernetesFacts, dict[str, Origin]]:
    """Return what the API and the database's container say.

    Args:
        database: Of which pod.
        own: Files of its container, or why there are none.
        shared: CPUs of containers that have none of their own.
        linux: The node's kernel.
    """
    api, node = database.api, ObjectRef(kind=NODE, name=database.node)
    status = _asked(node.label, lambda: (api.read(node) or {})["status"])
    pods, on_node = _pods(database, own)
    finds = {
        "version": _of(status, lambda of: of["nodeInfo"]["kubeletVersion"]),
        "node": seen(database.node, "spec.nodeName of the pod"),
        "kubelet": _kubelet(database),
        "pods": pods,
        "capacity": _of(status, lambda of: _texts(of["capacity"])),
        "allocatable": _of(status, lambda of: _texts(of["allocatable"])),
        "storage_classes": _asked(
            "storage classes of the API", lambda: storage_classes(api.list(STORAGE_CLASS))
        ),
        "cluster": _cluster(database),
    }
    finds["shared_cpus"] = _shared(shared, finds["kubelet"], linux)
    finds["non_pod_huge_pages"] = _non_pod(database, on_node, own, linux)
    told = origins_of(finds, "kubernetes")
    if isinstance(own, SteelyardError):
        for name in ("cpus", "quota_cpus", "throttled_periods", "charged_huge_bytes"):
            told[f"kubernetes.pods.{name}"] = unknown(own.message).origin
    return KubernetesFacts(**values_of(finds)), told


def _asked(source: str, call: Callable[[], object]) -> Found:
    """Return what a request brings; what is refused is unknown, and it says why."""
    try:
        return seen(call(), source)
    except SteelyardError as error:
        return unknown(f"{source}: {error.message}")
    except (LookupError, TypeError, ValueError) as error:
        return unknown(f"{source} is not understood: {error}")


def _of(status: Found, choose: Callable[[Any], object]) -> Found:
    if status.value is None:
        return status
    return _asked(status.origin.source, lambda: choose(status.value))


def _texts(value: Mapping[str, object]) -> dict[str, str]:
    return {str(name): str(each) for name, each in value.items()}


def _kubelet(database: Database) -> Found:
    path = _CONFIGZ.format(node=database.node)
    answer = _asked(path, lambda: database.api.raw(path))
    return answer if answer.value is None else parsed(str(answer.value), path, kubelet_of)


def _cluster(database: Database) -> Found:
    if database.cluster is None:
        return seen(None, "the pod belongs to no Cluster of CloudNativePG")
    classes = _asked("storage classes of the API", lambda: database.api.list(STORAGE_CLASS))
    source = ObjectRef(
        kind=CLUSTER, name=database.cluster["metadata"]["name"], namespace=database.namespace
    )
    cluster = database.cluster
    return _asked(source.label, lambda: cluster_facts(cluster, classes.value or ()))


def _pods(
    database: Database, own: FetchedHost | SteelyardError
) -> tuple[Found, tuple[Manifest, ...] | None]:
    """Return the pods of the node; of the database alone where others may not be seen."""
    source = f"pods on Node {database.node}"
    found = _asked(source, lambda: pods_of(database.api.list(POD), database.node))
    on_node: tuple[Manifest, ...] | None = found.value
    if on_node is None:
        source = f"the database's pod alone; {found.origin.source}"
    facts = (_pod(pod, database, own) for pod in on_node or (database.pod,))
    return seen(tuple(facts), f"{source}; its container's control groups"), on_node


def _pod(pod: Manifest, database: Database, own: FetchedHost | SteelyardError) -> PodFacts:
    facts = pod_facts(pod, database=_is_of_database(pod, database))
    if facts.name != database.name or isinstance(own, SteelyardError):
        return facts
    return replace(
        facts,
        cpus=files.cpus_of(own),
        quota_cpus=files.quota_of(own),
        throttled_periods=files.throttled_of(own),
        charged_huge_bytes=files.huge_bytes_of(own),
    )


def _is_of_database(pod: Manifest, database: Database) -> bool:
    """Return whether PostgreSQL runs in a pod, as far as one knows: this one, or its Cluster's."""
    metadata = pod["metadata"]
    if f"{metadata['namespace']}/{metadata['name']}" == database.name:
        return True
    owner = (metadata.get("labels") or {}).get(OF_CLUSTER)
    own = database.cluster["metadata"]["name"] if database.cluster is not None else None
    return own is not None and (metadata["namespace"], owner) == (database.namespace, own)


def _shared(by_probe: Found, kubelet: Found, linux: LinuxFacts | None) -> Found:
    """Return the shared pool: the probe's own CPUs; all of them where no policy takes any away."""
    if by_probe.value is not None or linux is None or linux.cpus is None:
        return by_probe
    policy = kubelet.value.cpu_manager_policy if kubelet.value is not None else ""
    return seen(linux.cpus, "cpuManagerPolicy none") if policy == "none" else by_probe


def _non_pod(
    database: Database,
    on_node: tuple[Manifest, ...] | None,
    own: FetchedHost | SteelyardError,
    linux: LinuxFacts | None,
) -> Found:
    """Return the huge pages that no pod holds: those in use or promised without the database's.

    What other pods hold is not visible from here.
    """
    pool = linux.pool() if linux is not None else None
    if pool is None or on_node is None:
        return unknown("the node's pool or its pods are not visible")
    owners = huge_page_owners(on_node) - {database.name}
    if owners:
        return unknown(f"what other pods hold is not visible: {', '.join(sorted(owners))}")
    charged = None if isinstance(own, SteelyardError) else files.huge_bytes_of(own)
    if charged is None:
        return unknown("what the database's container holds is not visible")
    used = pool.total - pool.free + (pool.reserved or 0)
    pages = max(used - charged // pool.page_bytes, 0)
    return seen(pages, "huge pages in use or promised, without those charged to the container")
