"""Small campaigns on a cluster through the command line, and what they leave there."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

import kubernetes

from steelyard.core.kubernetes import (
    CLAIM,
    CLUSTER,
    CONFIG_MAP,
    GENERATOR,
    JOB,
    POD,
    ROLE,
    SECRET,
    SERVICE,
    ContainerRef,
    ref_of,
)
from steelyard.core.wording import SteelyardError
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
  - {{name: writes, builtin: simple-update, scale_factor: 1}}
loads: {{clients: 2, threads: 1}}
measure: {{slice: 5s, ramp: 0s, warm_up: 0s, reset: campaign}}
stop: {{budget: 60m, precision: 0.1%}}
seed: 7
configurations:
  default:
    target:
      kind: cloudnative-pg
      image: {IMAGE}
      storage: 1Gi
      resources: {{requests: {{cpu: 100m, memory: 256Mi}}, limits: {{cpu: "1", memory: 256Mi}}}}
      generators:
        resources: {{requests: {{cpu: 50m, memory: 64Mi}}, limits: {{cpu: "1", memory: 128Mi}}}}
    postgres: {{shared_buffers: 32MB}}
  other: {{extends: default, postgres: {{shared_buffers: 32MB, work_mem: 9MB}}}}
"""
_SERVICE = """\
    target:
      kind: endpoint
      dbname: postgres
      kubernetes:
        service: {service}
        secret: {secret}
        port: 6543
        generators:
          resources: {{requests: {{cpu: 50m, memory: 64Mi}}, limits: {{cpu: "1", memory: 128Mi}}}}
"""
_KINDS = (POD, CLUSTER, CLAIM, SECRET, CONFIG_MAP, SERVICE, JOB)
_EVERYWHERE = "kube-root-ca.crt"  # the ConfigMap that every namespace has
_PATIENCE_S = 10.0


def on_a_service(service: str, secret: str) -> str:
    """Return the lasting campaign on a PostgreSQL behind a Service, whoever runs it."""
    before, _, after = LASTING.partition("    target:")
    target = _SERVICE.format(service=service, secret=secret)
    text = before + target + after[after.index("    postgres: {shared_buffers") :]
    text = text.replace("    postgres: {shared_buffers: 32MB}\n", "")
    return text.replace("shared_buffers: 32MB, ", "")


@dataclass(frozen=True)
class InNamespace:
    """What stands in a namespace that a test made for a campaign."""

    api: KubernetesApi
    namespace: str

    def names(self) -> frozenset[str]:
        """Return what campaigns may make there, by its label."""
        found = (each for kind in _KINDS for each in self.api.list(kind, self.namespace))
        return frozenset(
            ref_of(each).label for each in found if each["metadata"]["name"] != _EVERYWHERE
        )

    @property
    def generator(self) -> str:
        """Return the campaign's only generator."""
        found = self.api.list(POD, self.namespace, {ROLE: GENERATOR})
        (pod,) = [each for each in found if "deletionTimestamp" not in each["metadata"]]
        return ref_of(pod).name

    @property
    def database(self) -> str:
        """Return the pod of the Cluster's only instance."""
        (pod,) = self.api.list(POD, self.namespace, {"cnpg.io/podRole": "instance"})
        return ref_of(pod).name

    def is_at_work(self) -> bool:
        """Return whether the load generator works on the database just now."""
        with suppress(SteelyardError, ValueError):  # also while the pod is made anew
            where = ContainerRef(namespace=self.namespace, pod=self.database, container="postgres")
            asked = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE '%pgbench'"
            said = self.api.run(where, ("psql", "-Atc", asked), timeout_s=_PATIENCE_S)
            return said.succeeded and int(said.stdout) > 0
        return False

    def evict(self, pod: str) -> None:
        """Do what `kubectl drain` does with each pod of a node."""
        with kubernetes.config.new_client_from_config() as client:
            metadata = {"name": pod, "namespace": self.namespace}
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
            api = kubernetes.client.CoreV1Api(client)
            api.create_namespaced_pod_eviction(pod, self.namespace, body)


@contextmanager
def only_the_record(
    api: KubernetesApi, namespace: str, steelyard: Steelyard
) -> Iterator[InNamespace]:
    """Yield what stands in a namespace; afterwards the campaign has left nothing anywhere."""
    there = InNamespace(api, namespace)
    before = there.names()
    yield there
    until(lambda: there.names() <= before, "nothing is left in the namespace")
    for campaign_id in campaign_ids(steelyard):
        until(partial(_is_gone, api, campaign_id), f"nothing is left of {campaign_id}")
    looked = steelyard.run("clean", "--dry-run")
    assert "No campaign has left anything behind." in looked.stdout


def _is_gone(api: KubernetesApi, campaign_id: str) -> bool:
    return left_of(api, campaign_id) == []


def campaign_ids(steelyard: Steelyard) -> set[str]:
    """Return the campaign of the record, if there is one."""
    return {str(e["campaign_id"]) for e in steelyard.journal if e["kind"] == "started"}
