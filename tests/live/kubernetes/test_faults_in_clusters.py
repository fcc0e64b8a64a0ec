"""An eviction in the middle of a campaign costs a block, and what a killed campaign left goes."""

import json

import pytest

from steelyard.core.kubernetes import NAMESPACE, ObjectRef
from steelyard.gateways.kubernetes.api import KubernetesApi
from support.cluster_campaigns import LASTING, campaign_ids, only_the_record
from support.kubernetes import left_of, until
from support.live import Steelyard, interrupted, redone_in_all_arms, wait_for
from support.striking import strike

pytestmark = pytest.mark.slow


def test_a_generator_evicted_in_a_run_costs_one_block(
    cluster_api: KubernetesApi, own_namespace: str, steelyard: Steelyard
) -> None:
    """The run is invalid, its block is redone in all arms with a new pod, and the campaign goes on.

    An eviction is what `kubectl drain` does with each pod of a node.
    """
    with only_the_record(cluster_api, own_namespace, steelyard) as there:
        words = ("--out", "c", "-n", own_namespace, "--yes")
        process = steelyard.start("run", steelyard.experiment(LASTING), *words)
        strike(steelyard, process, there.is_at_work, lambda: there.evict(there.generator))
        wait_for(lambda: redone_in_all_arms(steelyard), process)
        ended = interrupted(process)
        assert "was evicted" in ended.stderr
        assert "is redone" in ended.stderr
        assert "Traceback" not in ended.stderr
    summary = json.loads((steelyard.directory / "c" / "summary.json").read_text())
    assert len(summary["blocks_redone"]) >= 1
    assert summary["status"] == "interrupted"


def test_what_kill_9_left_in_a_cluster_is_cleaned(
    cluster_api: KubernetesApi, steelyard: Steelyard
) -> None:
    """Cluster, generators, Secret and the campaign's own namespace stay, and go by `clean`."""
    process = steelyard.start("run", steelyard.experiment(LASTING), "--out", "c", "--yes")
    wait_for(lambda: len(steelyard.runs) >= 1, process)
    process.kill()
    process.communicate()
    (campaign_id,) = campaign_ids(steelyard)
    left = left_of(cluster_api, campaign_id)
    assert {each.split()[0] for each in left} >= {"Cluster", "Namespace", "Pod", "Secret"}
    (namespace,) = [each.split()[1] for each in left if each.startswith("Namespace ")]

    cleaned = steelyard.run("clean", "--yes")
    assert cleaned.returncode == 0, cleaned.stderr
    until(lambda: left_of(cluster_api, campaign_id) == [], "nothing is left of the campaign")
    gone = ObjectRef(kind=NAMESPACE, name=namespace)
    until(lambda: cluster_api.read(gone) is None, "its namespace is gone")
    assert (steelyard.directory / "c" / "journal.jsonl").exists()
    again = steelyard.run("clean", "--yes")
    assert "No campaign has left anything behind." in again.stdout
