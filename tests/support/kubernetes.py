"""A real cluster for live tests: any that ``KUBECONFIG`` names.

``cluster_api`` is the API, ``own_namespace`` a namespace that is removed after the test, which
fails where a volume of it stays. ``left_of`` finds what a campaign left anywhere.
"""

import base64
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest
from ruamel.yaml import YAML

from steelyard.core import kubernetes as k8s
from steelyard.core.wording import SteelyardError
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.kubernetes.connecting import (
    KubectlConfiguration,
    default_paths,
    read_kubeconfig,
)
from support.lacking import lacking

IMAGE = os.environ.get("STEELYARD_KUBERNETES_IMAGE", "localhost/postgresql:15")
WITHIN_S = 400.0  # a busy machine with two CPUs takes minutes to end what a namespace holds
_MADE_BY_CAMPAIGNS = (
    *(
        k8s.POD,
        k8s.JOB,
        k8s.CLUSTER,
        k8s.CLAIM,
        k8s.SECRET,
        k8s.CONFIG_MAP,
        k8s.SERVICE,
        k8s.ACCOUNT,
        k8s.NAMESPACE,
        k8s.STORAGE_CLASS,
    ),
    *(k8s.STATEFUL_SET, k8s.DEPLOYMENT),
    *(k8s.ROLE_KIND, k8s.ROLE_BINDING, k8s.CLUSTER_ROLE, k8s.CLUSTER_ROLE_BINDING),
)


def no_cluster(message: str) -> NoReturn:
    """Skip with a reason; where a cluster is required, as in CI, a missing one is a failure."""
    if os.environ.get("STEELYARD_KUBERNETES") == "required":
        pytest.fail(message)
    if not os.environ.get("KUBECONFIG"):
        pytest.skip(message)
    lacking(message)


@pytest.fixture(scope="session")
def cluster_api() -> KubernetesApi:
    """Return the API of the cluster that ``KUBECONFIG`` names."""
    if not os.environ.get("KUBECONFIG"):
        no_cluster("KUBECONFIG names no cluster")
    try:
        api = KubectlConfiguration().connect()
        api.version()
    except SteelyardError as error:
        no_cluster(f"no cluster answers: {error.message}")
    return api


@pytest.fixture
def own_namespace(cluster_api: KubernetesApi) -> Iterator[str]:
    """Yield a namespace of the test's own; afterwards it is gone with its pods and volumes."""
    with namespace_in(cluster_api) as name:
        yield name


@contextmanager
def namespace_in(api: KubernetesApi) -> Iterator[str]:
    """Yield a namespace; afterwards it is gone with its pods and volumes."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    ref = k8s.ObjectRef(kind=k8s.NAMESPACE, name=name)
    api.apply(k8s.NAMESPACE.manifest(name))
    try:
        yield name
    finally:
        _end_databases(api, name)
        api.delete(ref)
        until(lambda: api.read(ref) is None, f"{ref.label} is gone")
    until(lambda: not volumes_of(api, name), f"the volumes of {name} are gone")


def _end_databases(api: KubernetesApi, namespace: str) -> None:
    """Remove the Clusters, and wait for their pods.

    These may take half an hour to end by their word. A namespace that is removed with one in it is
    looked at again after half of that, although they end within seconds.
    """
    if not api.knows(k8s.CLUSTER):
        return
    for each in api.list(k8s.CLUSTER, namespace=namespace):
        api.delete(k8s.ref_of(each))
        of_it = {k8s.OF_CLUSTER: each["metadata"]["name"]}
        until(
            lambda of_it=of_it: not api.list(k8s.POD, namespace=namespace, labels=of_it),
            f"the pods of {k8s.ref_of(each).label} are gone",
        )


def campaign_name(test: str) -> str:
    """Return a name of a campaign that no other test has, now or later, from that of a test."""
    return f"{test.removeprefix('test_')[:17].strip('_-')}-{uuid.uuid4().hex[:6]}"


def until(holds: Callable[[], bool], what: str, *, within_s: float = WITHIN_S) -> None:
    """Wait until something holds; fail where it does not within a generous time."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, f"not within {within_s:.0f} s: {what}"
        time.sleep(0.5)


def volumes_of(api: KubernetesApi, namespace: str) -> list[str]:
    """Return the volumes that claims of a namespace hold or held and that go with them."""
    return [
        each["metadata"]["name"]
        for each in api.list(k8s.VOLUME)
        if each["spec"].get("persistentVolumeReclaimPolicy") == "Delete"
        and (each["spec"].get("claimRef") or {}).get("namespace") == namespace
    ]


def left_of(api: KubernetesApi, campaign_id: str) -> list[str]:
    """Return what carries a campaign's label, anywhere in the cluster."""
    labels = k8s.campaign_labels(campaign_id)
    return [
        k8s.ref_of(each).label
        for kind in _MADE_BY_CAMPAIGNS
        if api.knows(kind)
        for each in api.list(kind, labels=labels)
    ]


def waiting_pod(namespace: str, name: str, **spec: object) -> k8s.Manifest:
    """Return the manifest of a pod of the PostgreSQL image that waits to be told what to do."""
    container = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "3600"],
    }
    return k8s.POD.manifest(
        name,
        namespace=namespace,
        spec={
            "containers": [container],
            "terminationGracePeriodSeconds": 0,
            "activeDeadlineSeconds": 3600,
            "restartPolicy": "Never",
            **spec,
        },
    )


def start_pod(api: KubernetesApi, manifest: k8s.Manifest) -> k8s.ContainerRef:
    """Make a pod and wait until it runs; return its first container."""
    ref = k8s.ref_of(api.apply(manifest))

    def runs() -> bool:
        there = api.read(ref) or {}
        return bool(there.get("status", {}).get("phase") == "Running")

    until(runs, f"{ref.label} runs")
    container = manifest["spec"]["containers"][0]["name"]
    return k8s.ContainerRef(namespace=ref.namespace, pod=ref.name, container=container)


def kubeconfig_of(
    api: KubernetesApi,
    namespace: str,
    rules: Sequence[Mapping[str, Any]],
    directory: Path,
) -> Path:
    """Return a kubeconfig (context ``limited``) of a new account with these rules of a Role."""
    made = {"namespace": namespace, "name": "limited"}
    api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": made})
    group = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": made, "rules": list(rules)}
    api.apply(role)
    api.apply(
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": made,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "limited"},
            "subjects": [{"kind": "ServiceAccount", "name": "limited", "namespace": namespace}],
        }
    )
    user = {"token": token_of(api, namespace, "limited")}
    _, cluster = own_user_and_cluster()
    return write_kubeconfig(directory / "limited.kubeconfig", cluster, user, namespace)


def write_kubeconfig(
    path: Path, cluster: Mapping[str, Any], user: Mapping[str, Any], namespace: str = "default"
) -> Path:
    """Write a kubeconfig of one context, ``limited``; return its path."""
    name = "limited"
    context = {"cluster": name, "user": name, "namespace": namespace}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": dict(cluster)}],
        "users": [{"name": name, "user": dict(user)}],
        "contexts": [{"name": name, "context": context}],
    }
    with path.open("w") as file:
        YAML(typ="safe", pure=True).dump(document, file)
    return path


def token_of(api: KubernetesApi, namespace: str, account: str) -> str:
    """Return a token of an account, as long as its namespace is there."""
    annotations = {"kubernetes.io/service-account.name": account}
    metadata = {"namespace": namespace, "name": f"{account}-token", "annotations": annotations}
    kind = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token"}
    ref = k8s.ref_of(api.apply({**kind, "metadata": metadata}))

    def content() -> dict[str, str]:
        return (api.read(ref) or {}).get("data") or {}

    until(lambda: "token" in content(), f"the token of {account} is there")
    return base64.b64decode(content()["token"]).decode()


def own_user_and_cluster() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the current context of ``KUBECONFIG`` says of its user and its cluster."""
    config = read_kubeconfig(default_paths(os.environ))
    context = config.contexts[config.current]
    found = []
    for what, name in (("users", context.get("user")), ("clusters", context["cluster"])):
        entries = [each for each in config.named(what) if each["name"] == name]
        found.append(dict(entries[0][what[:-1]]) if entries else {})
    return found[0], found[1]
