"""A Cluster as the operator reports it: phase, primary, instances."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.model.kubernetes import POD, ContainerRef, Manifest, ObjectRef
from steelyard.platforms.kubernetes.pod_state import is_ready

OF_CLUSTER: Final = "cnpg.io/cluster"  # label of everything that the operator makes for a Cluster
RESTARTED_AT: Final = "kubectl.kubernetes.io/restartedAt"
CONTAINER: Final = "postgres"
HEALTHY: Final = "Cluster in healthy state"
_POD_ROLE: Final = "cnpg.io/podRole"
_OPERATOR: Final = "cnpg.io/operatorVersion"


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """The pod of one server of a Cluster.

    Attributes:
        restarted_at: What the Cluster's annotation was when the pod was made.
        crashes: How often its container ended and was started anew.
        operator: Version of the operator that made it; empty in old ones.
        qos: Its class of service.
    """

    where: ContainerRef
    uid: str
    node: str
    is_ready: bool
    is_ending: bool
    restarted_at: str
    crashes: int
    has_ended: bool
    operator: str = ""
    qos: str = ""

    @property
    def name(self) -> str:
        """Return the pod's name: that of the instance, too."""
        return self.where.pod


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """A Cluster at one instant.

    Attributes:
        phase: In the operator's words; ``reason`` says more.
        asked: How many instances there are to be.
        primary: Name of the instance that takes writes; empty where there is none yet.
        target: Of the one that is to.
    """

    ref: ObjectRef
    phase: str
    reason: str
    asked: int
    primary: str
    target: str
    instances: tuple[Instance, ...]
    restarted_at: str = ""

    @property
    def ready(self) -> int:
        """Return how many instances are ready and stay."""
        return sum(each.is_ready and not each.is_ending for each in self.instances)

    @property
    def is_healthy(self) -> bool:
        """Return whether everything is as it is to be, and nothing is in motion."""
        return (
            self.phase == HEALTHY
            and self.ready == self.asked == len(self.instances)
            and self.primary == self.target
            and self.primary_instance is not None
        )

    @property
    def primary_instance(self) -> Instance | None:
        """Return the pod of the primary; None while it is away."""
        return next((each for each in self.instances if each.name == self.primary), None)

    @property
    def progress(self) -> str:
        """Return how far it is, for people."""
        reason = f" ({self.reason})" if self.reason else ""
        return (
            f"{self.phase or 'accepted by the operator'}{reason},"
            f" {self.ready} of {self.asked} instances ready"
        )


def look(api: KubernetesApi, ref: ObjectRef) -> ClusterState | None:
    """Return a Cluster as it is now, or None where there is none."""
    found = api.read(ref)
    return None if found is None else state_of(ref, found, instance_pods(api, ref))


def instance_pods(api: KubernetesApi, ref: ObjectRef) -> tuple[Manifest, ...]:
    """Return the pods of a Cluster's servers."""
    return api.list(POD, ref.namespace, {OF_CLUSTER: ref.name, _POD_ROLE: "instance"})


def state_of(ref: ObjectRef, cluster: Manifest, pods: tuple[Manifest, ...]) -> ClusterState:
    """Return what a Cluster's status and its pods say together."""
    status: Mapping[str, Any] = cluster.get("status") or {}
    return ClusterState(
        ref=ref,
        phase=str(status.get("phase") or ""),
        reason=str(status.get("phaseReason") or ""),
        asked=int(cluster["spec"].get("instances") or 1),
        primary=str(status.get("currentPrimary") or ""),
        target=str(status.get("targetPrimary") or ""),
        instances=tuple(sorted(map(_instance, pods), key=lambda each: each.name)),
        restarted_at=str(_annotations(cluster).get(RESTARTED_AT) or ""),
    )


def _instance(pod: Manifest) -> Instance:
    metadata, status = pod["metadata"], pod.get("status") or {}
    containers = status.get("containerStatuses") or ()
    server: Mapping[str, Any] = next((c for c in containers if c["name"] == CONTAINER), {})
    return Instance(
        where=ContainerRef(
            namespace=metadata["namespace"], pod=metadata["name"], container=CONTAINER
        ),
        uid=str(metadata.get("uid") or ""),
        node=str(pod["spec"].get("nodeName") or ""),
        is_ready=is_ready(pod),
        is_ending=bool(metadata.get("deletionTimestamp")),
        restarted_at=str(_annotations(pod).get(RESTARTED_AT) or ""),
        crashes=int(server.get("restartCount") or 0),
        has_ended="terminated" in (server.get("state") or {}),
        operator=str(_annotations(pod).get(_OPERATOR) or ""),
        qos=str(status.get("qosClass") or ""),
    )


def _annotations(manifest: Manifest) -> Mapping[str, Any]:
    return manifest["metadata"].get("annotations") or {}
