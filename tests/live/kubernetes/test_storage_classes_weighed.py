"""Two storage classes weighed end to end: Clusters and volumes of every start made anew."""

import json
import uuid
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from steelyard.core.kubernetes import CLUSTER, VOLUME
from steelyard.gateways.kubernetes.api import KubernetesApi
from support.cluster_campaigns import HERE
from support.kubernetes import IMAGE, left_of, no_cluster
from support.lab_storage import slow_class
from support.live import Steelyard

BLOCKS = 1
WEIGHED = """\
version: 1
name: two storage classes
baseline: disk
workloads:
  - {name: writes, builtin: simple-update, scale: 1}
load: {clients: 2, threads: 1, protocol: simple}
measure: {run_time: 3s, discard_start: 1s, warm_up: 1s, runs_per_start: 2, machine_limits: off}
stop: {budget: 60m, width: 0.1%}
seed: 7
configurations:
  disk:
    target:
      kind: kubernetes
      image: IMAGE
      storage: 1Gi
      storage_class: local-path
      resources: {requests: {cpu: 200m, memory: 256Mi}, limits: {cpu: "1", memory: 256Mi}}
    postgres: {shared_buffers: 32MB}
  slow: {extends: disk, target: {storage_class: SLOW}}
"""


@pytest.fixture
def slow(cluster_api: KubernetesApi, tmp_path: Path) -> Iterator[str]:
    """Yield a storage class whose flushes take 20 ms longer."""
    if not cluster_api.knows(CLUSTER):
        no_cluster("the cluster has no CloudNativePG")
    below = tmp_path / "slow"
    below.mkdir()
    # Others may run this test on the same cluster at the same time.
    name = f"matrix-slow-{uuid.uuid4().hex[:8]}"
    with slow_class(cluster_api, name, below=below, flush_s=0.02):
        yield name


def test_a_slower_class_is_found_to_be_slower_and_nothing_is_left(
    slow: str, cluster_api: KubernetesApi, steelyard: Steelyard
) -> None:
    """In every block; the record tells of classes and volumes, the report of what may be lost."""
    source = steelyard.experiment(WEIGHED.replace("IMAGE", IMAGE).replace("SLOW", slow))
    steelyard.until_blocks(BLOCKS, "run", source, *HERE, "--dir", "c", "--yes", "--no-verdict")
    rates = _rates(steelyard)
    assert len(rates) >= BLOCKS
    # A commit waits for a flush of 20 ms and more: neither two clients nor a busy CPU hide it.
    assert all(block["slow"] < block["disk"] for block in rates), rates
    _assert_that_storage_is_told(steelyard, slow)
    assert left_of(cluster_api, steelyard.campaign_id) == []
    volumes = cluster_api.list(VOLUME)
    assert [each for each in volumes if each["spec"].get("storageClassName") == slow] == []


def _rates(steelyard: Steelyard) -> list[dict[str, float]]:
    """Return the transactions per second of each configuration in each complete block."""
    complete = {(b["index"], b["attempt"]) for b in steelyard.blocks if b["complete"]}
    runs = [run for run in steelyard.runs if (run["block"], run["attempt"]) in complete]
    runs.sort(key=lambda run: int(run["block"]))
    return [
        {
            str(run["configuration"]): run["measurement"]["transactions"]
            / run["measurement"]["seconds"]
            for run in of_block
        }
        for _, of_block in groupby(runs, key=lambda run: int(run["block"]))
    ]


def _assert_that_storage_is_told(steelyard: Steelyard, slow: str) -> None:
    """Classes and volumes are facts; what may be lost stands beside the latency of writes."""
    campaign = steelyard.directory / "c"
    environment = json.loads((campaign / "environment.json").read_text())
    facts = {(each["subject"], each["name"]): each["value"] for each in environment["facts"]}
    for name in ("local-path", slow):
        assert facts[f"storage class {name}", "provisioner"] == "rancher.io/local-path"
    assert {v for (s, n), v in facts.items() if s.startswith("volume of") and n == "class"} == {
        "local-path",
        slow,
    }
    summary: dict[str, Any] = json.loads((campaign / "summary.json").read_text())
    assert summary["design"]["switch"] == "reprovision"
    for each in summary["durability"]:
        lost = {name: told["what"] for name, told in each["may_lose"].items()}
        assert lost["power lost"] == "nothing"
        assert lost["node lost"] == "everything"
        (latency,) = each["write_latency"]
        assert latency["mean_s"] > 0
