"""One campaign over a server of this machine, a Cluster and an instance of an emulated RDS."""

import base64
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.core.kubernetes import (
    CLUSTER,
    NODE,
    SECRET,
    SERVICE,
    ContainerRef,
    ObjectRef,
)
from steelyard.gateways.kubernetes.api import KubernetesApi
from support.aws import ACCOUNT, REGION, Account
from support.kubernetes import namespace_in, no_cluster, until
from support.live import Steelyard
from support.live_clusters import Campaign, have_somebodys
from support.rented import account, left

__all__ = ["account"]

KINDS = f"""\
version: 1
name: three places for one database
baseline: local
workloads:
  - {{name: reads, builtin: select-only, scale_factor: 1}}
loads: {{clients: 2, threads: 1}}
measure: {{slice: 1s, ramp: 1s, warm_up: 0s, rounds: 1, ceilings: off}}
stop: {{budget: 60m, precision: 0.1%}}
seed: 7
configurations:
  local:
    target: {{kind: local, bin: embedded, cost: {{per_hour: 0.05}}}}
  cluster:
    target: {{kind: endpoint, uri: CLUSTER, memory: 256MiB, cpus: 1}}
  rds:
    target:
      {{kind: rds, region: {REGION}, accounts: ['{ACCOUNT}'], version: 16,
       instance_class: db.t3.large, storage: 300Gi, storage_type: gp2}}
"""


def _listens(host: str, port: int) -> bool:
    """Return whether a port takes connections; nodes hear of a Service after a moment."""
    try:
        socket.create_connection((host, port), timeout=5.0).close()
    except OSError:
        return False
    return True


@pytest.fixture
def cluster(cluster_api: KubernetesApi) -> Iterator[str]:
    """Yield the URI of a Cluster's database, by a port of a node that this machine reaches."""
    if not cluster_api.knows(CLUSTER):
        no_cluster("the cluster has no CloudNativePG")
    with namespace_in(cluster_api) as space:
        somebody = Campaign(api=cluster_api, namespace=space, campaign_id="somebody")
        have_somebodys(somebody)
        somebody.close()
        database = ContainerRef(namespace=space, pod="pg-1", container="postgres")
        granted = cluster_api.run(database, ("psql", "-c", "ALTER ROLE app CREATEDB"), timeout_s=60)
        assert granted.succeeded, granted.stderr
        primary = {"cnpg.io/cluster": "pg", "cnpg.io/instanceRole": "primary"}
        name = {"name": "pg-outside", "namespace": space}
        cluster_api.apply(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": name,
                "spec": {"type": "NodePort", "selector": primary, "ports": [{"port": 5432}]},
            }
        )
        service = cluster_api.read(ObjectRef(kind=SERVICE, **name))
        secret = cluster_api.read(ObjectRef(kind=SECRET, name="pg-app", namespace=space))
        assert service is not None
        assert secret is not None
        password = base64.b64decode(secret["data"]["password"]).decode()
        (host, *_) = (
            address["address"]
            for node in cluster_api.list(NODE)
            for address in node["status"]["addresses"]
            if address["type"] == "InternalIP"
        )
        port = service["spec"]["ports"][0]["nodePort"]
        until(lambda: _listens(host, port), "the node takes connections to the Service")
        yield f"postgresql://app:{password}@{host}:{port}/app"


def test_three_kinds_are_weighed_in_one_campaign(
    steelyard: Steelyard,
    account: Account,
    cluster: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """One contract, one table; afterwards nothing is left on the Cluster or in the account."""
    password, _, place = cluster.removeprefix("postgresql://app:").partition("@")
    passwords = tmp_path / "pgpass"
    passwords.write_text(f"{place.removesuffix('/app')}:*:app:{password}\n")
    passwords.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    uri = f"postgresql://app@{place}"
    text = steelyard.experiment(KINDS.replace("CLUSTER", uri))
    done = steelyard.until_blocks(2, "run", text, "--out", "c", "--yes")
    assert done.returncode == 130, done.stderr
    assert {run["configuration"] for run in steelyard.runs} == {"local", "cluster", "rds"}
    told = json.loads((steelyard.directory / "c" / "summary.json").read_text())["contract"]
    assert told["unequal"].keys() == {"cluster", "rds"}
    assert left(account) == []
