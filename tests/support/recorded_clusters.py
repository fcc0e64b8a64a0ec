"""Recorded Clusters of the real operator, put into a cluster in memory."""

import json
from pathlib import Path
from typing import Any

from fakes.kubernetes_api import FakeKubernetesApi
from steelyard.core.kubernetes import CLUSTER, ObjectRef
from steelyard.systems.postgres.cloudnative_pg.operator import ClusterState, look

HOME = Path(__file__).parent.parent / "recordings" / "kubernetes" / "cloudnative_pg"


def objects(name: str) -> list[dict[str, Any]]:
    """Return the objects of a recording."""
    found: list[dict[str, Any]] = json.loads((HOME / f"{name}.json").read_text())
    return found


def log(name: str) -> str:
    """Return a recorded log of a container."""
    return (HOME / f"{name}.log").read_text()


def recorded(name: str) -> tuple[FakeKubernetesApi, ClusterState]:
    """Return a cluster in memory with the objects of a recording, and the Cluster's state."""
    api = FakeKubernetesApi()
    cluster = None
    for each in objects(name):
        metadata = each["metadata"]
        if each["kind"] == CLUSTER.name:
            cluster = ObjectRef(
                kind=CLUSTER, name=metadata["name"], namespace=metadata["namespace"]
            )
        api.put(each)
    assert cluster is not None
    state = look(api, cluster)
    assert state is not None
    return api, state
