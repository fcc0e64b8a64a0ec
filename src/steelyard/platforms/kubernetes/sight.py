"""What of a server in a Kubernetes cluster can be watched during a run: its pod's own account."""

from collections.abc import Callable
from dataclasses import dataclass

from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.model.errors import SteelyardError
from steelyard.model.kubernetes import POD, ContainerRef, ObjectRef
from steelyard.platforms.kubernetes.pod_runs import StartSkew


def unknown_skew() -> StartSkew | None:
    """Return None: nobody knows how far apart generators began, or there is only one."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSight:
    """The containers of a run.

    Attributes:
        database: The container of the server that is under load.
        generators: Those that put the load on it, in the order of their commands.
        same_node: One of the generators' pods is on the database's node.
        start_skew: Tells how far apart the generators of the last run began.
    """

    api: KubernetesApi
    database: ContainerRef
    generators: tuple[ContainerRef, ...] = ()
    same_node: bool = False
    start_skew: Callable[[], StartSkew | None] = unknown_skew


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPods:
    """The pods that put the load on, which may be made anew.

    Attributes:
        pods: As they are now.
        start_skew: Tells how far apart they began in the last run.
    """

    pods: Callable[[], tuple[ContainerRef, ...]] = tuple
    start_skew: Callable[[], StartSkew | None] = unknown_skew

    def sight(self, api: KubernetesApi, database: ContainerRef, node: str) -> PodSight:
        """Return what can be watched of a server on a node, and of its generators."""
        pods = self.pods()
        return PodSight(
            api=api,
            database=database,
            generators=pods,
            same_node=bool(node) and node in {_node_of(api, pod) for pod in pods},
            start_skew=self.start_skew,
        )


def _node_of(api: KubernetesApi, pod: ContainerRef) -> str:
    """Return the node of a pod; empty where it cannot be seen."""
    try:
        found = api.read(ObjectRef(kind=POD, name=pod.pod, namespace=pod.namespace))
    except SteelyardError:
        return ""
    return "" if found is None else str(found["spec"].get("nodeName") or "")
