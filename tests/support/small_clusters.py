"""Small Clusters of CloudNativePG on a real cluster, for live tests."""

import subprocess
import sys
from typing import Any

from steelyard.core import kubernetes as k8s
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.systems.postgres.cloudnative_pg.operator import look
from support.kubernetes import IMAGE, no_cluster, until

HEALTHY_WITHIN_S = 600.0  # with a cold image on a machine that has other work


def small_cluster(namespace: str, name: str, **spec: Any) -> dict[str, Any]:
    """Return the manifest of a Cluster of one instance with little memory."""
    parameters = {"shared_buffers": "32MB", "max_connections": "20"}
    return k8s.CLUSTER.manifest(
        name,
        namespace=namespace,
        spec={
            "instances": 1,
            "imageName": IMAGE,
            "enableSuperuserAccess": True,
            "storage": {"size": "1Gi"},
            "postgresql": {"parameters": parameters},
            **spec,
        },
    )


def start_cluster(api: KubernetesApi, manifest: k8s.Manifest) -> k8s.ContainerRef:
    """Make a Cluster and wait until it is healthy; return its primary's container."""
    if not api.knows(k8s.CLUSTER):
        no_cluster("the cluster has no CloudNativePG")
    ref = k8s.ref_of(api.apply(manifest))
    until_healthy(api, ref)
    state = look(api, ref)
    assert state is not None
    return k8s.ContainerRef(
        namespace=ref.namespace, pod=state.primary, container=k8s.SERVER_CONTAINER
    )


def until_healthy(api: KubernetesApi, ref: k8s.ObjectRef) -> None:
    """Wait until a Cluster is healthy."""

    def is_healthy() -> bool:
        state = look(api, ref)
        return state is not None and state.is_healthy

    until(is_healthy, f"{ref.label} is healthy", within_s=HEALTHY_WITHIN_S)


def nodes_with(api: KubernetesApi, resource: str) -> list[str]:
    """Return the nodes that offer some of a resource."""
    return [
        str(node["metadata"]["name"])
        for node in api.list(k8s.NODE)
        if not str(node["status"]["allocatable"].get(resource, "0")).startswith("0")
    ]


def steelyard(*words: str) -> tuple[int, str]:
    """Return the exit code of ``steelyard WORDS``, and all that it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "steelyard", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
    )
    return done.returncode, done.stdout + done.stderr
