"""A campaign over a server of this machine and a Cluster, taken here."""

import json

import pytest

from steelyard.core import kubernetes as k8s
from steelyard.gateways.kubernetes.api import KubernetesApi
from support.cluster_campaigns import HERE
from support.kubernetes import IMAGE, left_of, no_cluster
from support.live import Steelyard, whole_report

pytestmark = [pytest.mark.slow]

BESIDE = f"""\
version: 1
name: this machine and a cluster
design: alternating
baseline: here
workloads:
  - {{name: reads, builtin: select-only, scale: 1}}
load: {{clients: 2, threads: 1, protocol: simple}}
measure: {{run_time: 2s, discard_start: 0s, warm_up: 1s, max_other_load: ignore}}
stop: {{budget: 30m, width: 0.1%}}
seed: 7
configurations:
  here:
    target: {{kind: local, server: embedded}}
    postgres: {{huge_pages: "off"}}
  cluster:
    target:
      kind: kubernetes
      image: {IMAGE}
      storage: 1Gi
      resources: {{requests: {{cpu: 100m, memory: 256Mi}}, limits: {{cpu: "1", memory: 256Mi}}}}
    postgres: {{work_mem: 9MB}}
"""


def test_both_take_turns(cluster_api: KubernetesApi, steelyard: Steelyard) -> None:
    """One pgbench of this machine drives both; the report says by which way, and nothing stays."""
    if not cluster_api.knows(k8s.CLUSTER):
        no_cluster("the cluster has no CloudNativePG")
    source = steelyard.experiment(BESIDE)
    done = steelyard.until_blocks(1, "run", source, *HERE, "--dir", "c", "--yes", "--no-verdict")
    assert done.returncode == 130, done.stderr
    (plan,) = (entry["plan"] for entry in steelyard.journal if entry["kind"] == "planned")
    assert (plan["mode"], plan["pausing"]) == ("alternating", "generator")
    assert plan["restores"] == [["cluster", "template"]]
    counted = [run for run in steelyard.runs if run["validity"] != "invalid"]
    assert {run["configuration"] for run in counted} == {"here", "cluster"}
    assert all(run["turns"] for run in counted)
    terms = json.loads((steelyard.directory / "c" / "summary.json").read_text())["contract"]
    assert "version" in terms["unequal"]["cluster"]
    report = whole_report(steelyard.directory / "c")
    assert "the network of this machine is in it" in report
    assert left_of(cluster_api, steelyard.campaign_id) == []
