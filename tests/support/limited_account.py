"""Accounts of a cluster that may do just what Steelyard prints, and ways to its API."""

import base64
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ruamel.yaml import YAML

from steelyard.core.kubernetes import CLUSTER_ROLE, SECRET, Manifest, ObjectRef
from steelyard.gateways.kubernetes.api import KubernetesApi
from support.kubernetes import IMAGE, until
from support.lacking import lacking
from support.live import Steelyard

_ACCOUNT = "weigher"
_YAML = YAML(typ="safe")


# A reload is all that the configurations need, so a block takes seconds; twelve are enough. Writes
# wait for the disk: of reads the generator itself, with the CPU that it has there, could be the
# limit.
_RELOADING = """\
version: 1
name: reloading
workloads:
  - {{name: writes, builtin: simple-update, scale_factor: 1}}
loads: {{clients: 2, threads: 1}}
measure:
  slice: {slice_s}s
  ramp: 0s
  warm_up: 0s
  reset: campaign
  neighbours: ignore
  ceilings: {ceilings}
stop: {{budget: 60m, precision: 99%}}
seed: 7
configurations:
  default:
    target:
      kind: cloudnative-pg
      image: {image}
      storage: 1Gi
      resources: {{requests: {{cpu: 200m, memory: 256Mi}}}}
      generators:
        image: {image}
        resources: {{requests: {{cpu: 100m, memory: 128Mi}}, limits: {{cpu: "1", memory: 128Mi}}}}
    postgres: {{work_mem: 4MB}}
  other:
    extends: default
    postgres: {{work_mem: 8MB}}
"""


def reloading(slice_s: int, ceilings: str = "off") -> str:
    """Return an experiment on one Cluster that ends by itself after some blocks."""
    return _RELOADING.format(image=IMAGE, slice_s=slice_s, ceilings=ceilings)


@contextmanager
def least_rights(
    api: KubernetesApi, namespace: str, steelyard: Steelyard, *options: str
) -> Iterator[str]:
    """Make an account with just what ``kubernetes rbac`` prints; give a token of it.

    What of it is cluster-wide is removed afterwards.
    """
    words = ("kubernetes", "rbac", "-n", namespace, "--account", _ACCOUNT, *options)
    printed = steelyard.run(*words)
    assert printed.returncode == 0, printed.stderr
    made = [api.apply(manifest) for manifest in documents(printed.stdout)]
    try:
        yield token_of(api, namespace, _ACCOUNT)
    finally:
        for manifest in made:
            if manifest["kind"].startswith(CLUSTER_ROLE.name):
                kind = replace(CLUSTER_ROLE, name=manifest["kind"])
                api.delete(ObjectRef(kind=kind, name=manifest["metadata"]["name"]))


def cluster_entry() -> dict[str, Any]:
    """Return the entry of the current cluster in the kubeconfig."""
    config = _YAML.load(Path(os.environ["KUBECONFIG"]).read_text())
    named = {each["name"]: each["context"] for each in config["contexts"]}
    name = named[config["current-context"]]["cluster"]
    found: dict[str, Any] = next(e["cluster"] for e in config["clusters"] if e["name"] == name)
    return found


def api_port() -> int:
    """Return the port of the API on the loopback interface."""
    server = urlsplit(cluster_entry()["server"])
    if server.hostname not in {"127.0.0.1", "localhost"} or server.port is None:
        lacking("the API is not on the loopback interface, so nothing can be put before it")
    return server.port


def documents(text: str) -> list[Manifest]:
    """Return the objects of a text for kubectl."""
    return [each for each in _YAML.load_all(text) if each]


def token_of(api: KubernetesApi, namespace: str, account: str) -> str:
    """Return a token of an account, as long as its namespace is there."""
    name = f"{account}-token"
    api.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "annotations": {"kubernetes.io/service-account.name": account},
            },
            "type": "kubernetes.io/service-account-token",
        }
    )
    ref = ObjectRef(kind=SECRET, name=name, namespace=namespace)

    def content() -> dict[str, str]:
        return (api.read(ref) or {}).get("data") or {}

    until(lambda: "token" in content(), f"the token of {account} is there")
    return base64.b64decode(content()["token"]).decode()


def write_kubeconfig(path: Path, *, token: str, namespace: str, port: int | None = None) -> Path:
    """Write a kubeconfig of one account; the API may be behind another port of this machine."""
    cluster = dict(cluster_entry())
    if port is not None:
        cluster["server"] = f"https://127.0.0.1:{port}"
    context = {"cluster": "lab", "user": "limited", "namespace": namespace}
    with path.open("w") as file:
        _YAML.dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "limited",
                "clusters": [{"name": "lab", "cluster": cluster}],
                "users": [{"name": "limited", "user": {"token": token}}],
                "contexts": [{"name": "limited", "context": context}],
            },
            file,
        )
    return path
