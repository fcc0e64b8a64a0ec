"""Tests on the cluster that ``KUBECONFIG`` names; all are marked ``kubernetes`` and ``live``."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.core.kubernetes import ContainerRef
from steelyard.gateways.kubernetes.api import KubernetesApi
from support.kubernetes import cluster_api, namespace_in, own_namespace, start_pod, waiting_pod

__all__ = ["cluster_api", "own_namespace"]

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs the cluster, so that it is run apart."""
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker("kubernetes")
            item.add_marker("live")


@pytest.fixture(scope="module")
def waiting(cluster_api: KubernetesApi) -> Iterator[ContainerRef]:
    """Yield a container of the PostgreSQL image that waits, for all tests of a module."""
    with namespace_in(cluster_api) as namespace:
        yield start_pod(cluster_api, waiting_pod(namespace, "waiting"))
