"""Accounts of a cluster that may do just what Steelyard prints, and ways to its API."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ruamel.yaml import YAML

from steelyard.core.kubernetes import CLUSTER_ROLE, ObjectRef
from steelyard.gateways.kubernetes.api import KubernetesApi
from support.kubernetes import IMAGE, own_user_and_cluster, token_of, write_kubeconfig
from support.lacking import lacking
from support.live import Steelyard

_ACCOUNT = "weigher"


# A reload is all that the configurations need, so a block takes seconds; twelve are enough. Writes
# wait for the disk: of reads the generator itself could be the limit.
_RELOADING = """\
version: 1
name: reloading
workloads:
  - {{name: writes, builtin: simple-update, scale: 1}}
load: {{clients: 2, threads: 1, protocol: simple}}
measure:
  run_time: {run_time_s}s
  discard_start: 0s
  warm_up: 0s
  reset: campaign
  max_other_load: ignore
  machine_limits: {ceilings}
stop: {{budget: 60m, width: 99%}}
seed: 7
configurations:
  default:
    target:
      kind: kubernetes
      image: {image}
      storage: 1Gi
      resources: {{requests: {{cpu: 200m, memory: 256Mi}}}}
    postgres: {{work_mem: 4MB}}
  other:
    extends: default
    postgres: {{work_mem: 8MB}}
"""


def reloading(run_time_s: int, ceilings: str = "off") -> str:
    """Return an experiment on one Cluster that ends by itself after some blocks."""
    return _RELOADING.format(image=IMAGE, run_time_s=run_time_s, ceilings=ceilings)


@contextmanager
def least_rights(
    api: KubernetesApi,
    namespace: str,
    steelyard: Steelyard,
    *options: str,
    denied: tuple[str, str] | None = None,
) -> Iterator[str]:
    """Make an account with what ``kubernetes rbac`` prints; give a token of it.

    What of it is cluster-wide is removed afterwards. ``denied`` is a verb and a resource that the
    account may not have.
    """
    words = ("kubernetes", "rbac", "-n", namespace, "--account", _ACCOUNT, *options)
    printed = steelyard.run(*words)
    assert printed.returncode == 0, printed.stderr
    manifests = [each for each in YAML(typ="safe").load_all(printed.stdout) if each]
    if denied:
        _deny(manifests, *denied)
    made = [api.apply(manifest) for manifest in manifests]
    try:
        yield token_of(api, namespace, _ACCOUNT)
    finally:
        for manifest in made:
            if manifest["kind"].startswith(CLUSTER_ROLE.name):
                kind = replace(CLUSTER_ROLE, name=manifest["kind"])
                api.delete(ObjectRef(kind=kind, name=manifest["metadata"]["name"]))


def _deny(manifests: list[Any], verb: str, resource: str) -> None:
    rules = [rule for manifest in manifests for rule in manifest.get("rules", ())]
    having = [rule for rule in rules if resource in rule["resources"] and verb in rule["verbs"]]
    assert having
    for rule in having:
        rule["verbs"].remove(verb)


def api_port() -> int:
    """Return the port of the API on the loopback interface."""
    server = urlsplit(own_user_and_cluster()[1]["server"])
    if server.hostname not in {"127.0.0.1", "localhost"} or server.port is None:
        lacking("the API is not on the loopback interface, so nothing can be put before it")
    return server.port


def account_kubeconfig(path: Path, *, token: str, namespace: str, port: int | None = None) -> Path:
    """Write a kubeconfig of one account; the API may be behind another port of this machine."""
    _, cluster = own_user_and_cluster()
    if port is not None:
        cluster["server"] = f"https://127.0.0.1:{port}"
    return write_kubeconfig(path, cluster, {"token": token}, namespace)
