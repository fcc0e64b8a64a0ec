"""Small campaigns on a cluster through the command line, and what they leave there."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from steelyard.core import kubernetes as k8s
from steelyard.gateways.kubernetes.api import KubernetesApi
from support.kubernetes import IMAGE, left_of, until
from support.live import Steelyard

# Sessions are all that the configurations need, so one Cluster serves to the end, which is the
# test's.
LASTING = f"""\
version: 1
name: faults
baseline: default
workloads:
  - {{name: writes, builtin: simple-update, scale: 1}}
load: {{clients: 2, threads: 1, protocol: simple}}
measure: {{run_time: 5s, discard_start: 0s, warm_up: 0s, reset: campaign}}
stop: {{budget: 60m, width: 0.1%}}
seed: 7
configurations:
  default:
    target:
      kind: kubernetes
      image: {IMAGE}
      storage: 1Gi
      resources: {{requests: {{cpu: 100m, memory: 256Mi}}, limits: {{cpu: "1", memory: 256Mi}}}}
    postgres: {{shared_buffers: 32MB}}
  other: {{extends: default, postgres: {{shared_buffers: 32MB, work_mem: 9MB}}}}
"""
# The campaign is taken here, through forwarded ports.
HERE = ("--here",)
BUFFERS = {"default": "32MB", "more": "48MB"}
SETTINGS = f"""\
version: 1
name: buffers of a Cluster
workloads:
  - {{name: writes, builtin: simple-update, scale: 1}}
load: {{clients: 2, threads: 1, protocol: simple}}
measure: {{run_time: 1s, discard_start: 1s, warm_up: 0s, runs_per_start: 1, machine_limits: off}}
stop: {{budget: 60m, width: 0.1%}}
seed: 7
configurations:
  default:
    target:
      kind: kubernetes
      image: {IMAGE}
      storage: 1Gi
      resources: {{requests: {{cpu: 200m, memory: 256Mi}}, limits: {{cpu: "1", memory: 256Mi}}}}
    postgres: {{shared_buffers: {BUFFERS["default"]}}}
  more: {{extends: default, postgres: {{shared_buffers: {BUFFERS["more"]}}}}}
"""
# Where other pods leave no room for two Clusters, or writes take long, `auto` takes no turns.
IN_TURNS = SETTINGS.replace("workloads:", "design: alternating\nworkloads:").replace(
    "simple-update", "select-only"
)
_SERVICE = """\
    target:
      kind: existing
      dbname: postgres
      kubernetes:
        service: {service}
        secret: {secret}
        port: 6543
"""
_KINDS = (k8s.POD, k8s.CLUSTER, k8s.CLAIM, k8s.SECRET, k8s.CONFIG_MAP, k8s.SERVICE, k8s.JOB)
_EVERYWHERE = "kube-root-ca.crt"  # the ConfigMap that every namespace has


def on_a_service(service: str, secret: str) -> str:
    """Return the lasting campaign on a PostgreSQL behind a Service, whoever runs it."""
    before, _, after = LASTING.partition("    target:")
    target = _SERVICE.format(service=service, secret=secret)
    text = before + target + after[after.index("    postgres: {shared_buffers") :]
    text = text.replace("    postgres: {shared_buffers: 32MB}\n", "")
    return text.replace("shared_buffers: 32MB, ", "")


def evict(pod: k8s.ObjectRef) -> None:
    """Do what `kubectl drain` does with each pod of a node."""
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction"
    metadata = {"name": pod.name, "namespace": pod.namespace}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    argv = ["/usr/bin/env", "kubectl", "create", "--raw", path, "-f", "-"]
    done = subprocess.run(argv, input=json.dumps(body), text=True, capture_output=True, check=False)
    # One that somebody else has deleted since it was listed is drained, too.
    assert done.returncode == 0 or "NotFound" in done.stderr, done.stderr


@contextmanager
def only_the_record(api: KubernetesApi, namespace: str, steelyard: Steelyard) -> Iterator[None]:
    """Have a campaign in a namespace; afterwards it has left nothing anywhere."""
    before = _names(api, namespace)
    yield
    until(lambda: _names(api, namespace) <= before, "nothing is left in the namespace")
    for campaign_id in {e["campaign_id"] for e in steelyard.journal if e["kind"] == "started"}:
        until(partial(_is_gone, api, campaign_id), f"nothing is left of {campaign_id}")
    looked = steelyard.run("clean", "--dry-run")
    assert "No campaign has left anything behind." in looked.stdout


def _names(api: KubernetesApi, namespace: str) -> frozenset[str]:
    """Return what stands there of the kinds that campaigns make."""
    found = (each for kind in _KINDS for each in api.list(kind, namespace))
    return frozenset(
        k8s.ref_of(each).label for each in found if each["metadata"]["name"] != _EVERYWHERE
    )


def _is_gone(api: KubernetesApi, campaign_id: str) -> bool:
    return left_of(api, campaign_id) == []
