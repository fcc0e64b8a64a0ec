"""Whole campaigns on Clusters, taken from here: deaths of Steelyard and of pods, and manners."""

import base64
import json
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from ruamel.yaml import YAML

from steelyard.core import kubernetes as k8s
from steelyard.gateways.kubernetes.api import KubernetesApi
from support.cluster_campaigns import BUFFERS, HERE, IN_TURNS, SETTINGS
from support.kubernetes import left_of, no_cluster, until
from support.live import LIMIT_S, Steelyard, assert_nothing_holds, interrupted, one_by_one, wait_for

if TYPE_CHECKING:
    from subprocess import Popen


@pytest.fixture
def api(cluster_api: KubernetesApi) -> KubernetesApi:
    """Return a cluster with CloudNativePG."""
    if not cluster_api.knows(k8s.CLUSTER):
        no_cluster("the cluster has no CloudNativePG")
    return cluster_api


def _all_of(
    api: KubernetesApi, kind: k8s.Kind, steelyard: Steelyard, role: str
) -> tuple[k8s.Manifest, ...]:
    return api.list(kind, labels=k8s.campaign_labels(steelyard.campaign_id, role))


def _environment(steelyard: Steelyard) -> dict[str, Any]:
    path = steelyard.directory / "c" / "environment.json"
    environment: dict[str, Any] = json.loads(path.read_text())
    return environment


def _passwords(api: KubernetesApi, namespace: str) -> list[str]:
    """Return the password of every Secret of a campaign, as the API and as a client has it."""
    found = []
    for secret in api.list(k8s.SECRET, namespace):
        encoded = (secret.get("data") or {}).get("password")
        if encoded:
            found += [encoded, base64.b64decode(encoded).decode()]
    return found


def _started_when_there_is_room(steelyard: Steelyard, source: str) -> "Popen[str]":
    """Start a campaign of Clusters that are up together, once others leave room for it."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        process = steelyard.start("run", source, *HERE, "--dir", "c")
        while process.poll() is None and not steelyard.journal:
            time.sleep(0.2)
        if process.poll() is None:
            return process
        _, err = process.communicate()
        assert "cannot alternate" in err, err
        assert time.monotonic() < deadline, err
        time.sleep(5.0)


def test_a_settings_campaign_survives_a_kill(api: KubernetesApi, steelyard: Steelyard) -> None:
    """Two Clusters take turns under load from here; after `kill -9` all is resumed.

    What the dead session left is named by `show` and removed before the next one begins; at the
    end nothing is there but the record, which holds no password.
    """
    process = _started_when_there_is_room(steelyard, steelyard.experiment(IN_TURNS))
    wait_for(lambda: steelyard.complete_blocks >= 1, process)
    databases = _all_of(api, k8s.POD, steelyard, k8s.DATABASE)
    assert len(databases) == 2
    namespace = str(databases[0]["metadata"]["namespace"])
    passwords = _passwords(api, namespace)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    shown = steelyard.run("show", "c")
    assert f"Namespace {namespace}" in shown.stdout
    before = steelyard.blocks_left_complete
    resumed = steelyard.start("run", "--resume", "c")
    wait_for(lambda: steelyard.complete_blocks > before, resumed)
    interrupted(resumed)
    assert left_of(api, steelyard.campaign_id) == []
    assert api.read(k8s.ObjectRef(kind=k8s.NAMESPACE, name=namespace)) is None
    assert_nothing_holds(steelyard.directory / "c", passwords)
    _assert_settings_were_in_force(steelyard)
    valid = [run for run in steelyard.runs if run["validity"] != "invalid"]
    waits = [w for run in valid if (w := run["evidence"]["waits"]) is not None]  # none if late
    assert {each["source"] for each in waits} == {"pg_stat_activity in turns"}
    assert any(each["events"] for each in waits)
    assert all(run["turns"] for run in valid)
    assert all("server_cpu_s" in run["evidence"]["totals"] for run in valid)


def _assert_settings_were_in_force(steelyard: Steelyard) -> None:
    """The record says what was in force on which node and volume."""
    environment = _environment(steelyard)
    for server in environment["servers"]:
        settings = {each["name"]: each for each in server["settings"]}
        pages = int(BUFFERS[server["configuration"]].removesuffix("MB")) * 128
        assert settings["shared_buffers"]["value"] == str(pages)
    facts = {each["name"]: each["value"] for each in environment["facts"]}
    assert {"API server", "CloudNativePG", "driver"} <= facts.keys()
    summary = json.loads((steelyard.directory / "c" / "summary.json").read_text())
    assert (summary["design"]["mode"], summary["design"]["switch"]) == ("alternating", "restart")


def test_a_lost_pod_costs_a_block_and_what_a_kill_leaves_is_cleaned(
    api: KubernetesApi, steelyard: Steelyard
) -> None:
    """The database's pod is deleted in a run: its block is redone.

    After `kill -9` Cluster, Secret and the campaign's own namespace go by `clean`.
    """
    # A second run follows the first one at once: it is there when the pod goes.
    text = one_by_one(
        SETTINGS.replace("run_time: 1s", "run_time: 5s").replace("ts: 2", "ts: [2, 3]")
    )
    process = steelyard.start("run", steelyard.experiment(text), *HERE, "--dir", "c")
    wait_for(lambda: len(steelyard.runs) >= 1, process)
    (pod,) = _all_of(api, k8s.POD, steelyard, k8s.DATABASE)
    api.delete(k8s.ref_of(pod), grace_s=0)
    wait_for(lambda: any(not block["complete"] for block in steelyard.blocks), process)
    before = steelyard.complete_blocks
    wait_for(lambda: steelyard.complete_blocks > before, process)
    process.kill()
    _, err = process.communicate()
    assert "is redone" in err
    assert "Traceback" not in err
    left = left_of(api, steelyard.campaign_id)
    assert {each.split()[0] for each in left} >= {"Cluster", "Namespace", "Pod", "Secret"}
    cleaned = steelyard.run("clean", "--yes")
    assert cleaned.returncode == 0, cleaned.stderr
    until(lambda: left_of(api, steelyard.campaign_id) == [], "nothing is left of the campaign")
    assert (steelyard.directory / "c" / "journal.jsonl").exists()
    again = steelyard.run("clean", "--yes")
    assert "No campaign has left anything behind." in again.stdout


def test_a_namespace_of_others_is_asked_for(
    api: KubernetesApi, own_namespace: str, steelyard: Steelyard
) -> None:
    """Without a terminal and `--yes` no load is put there, and nothing is made."""
    source = steelyard.experiment(SETTINGS)
    refused = steelyard.run("run", source, *HERE, "--dir", "c", "-n", own_namespace)
    assert refused.returncode == 3, refused.stderr
    assert "was not made for this campaign" in refused.stderr
    assert "--yes" in refused.stderr
    assert not (steelyard.directory / "c").exists()
    assert api.list(k8s.POD, own_namespace) == ()


def test_a_dry_run_prints_what_kubectl_takes(
    api: KubernetesApi, own_namespace: str, steelyard: Steelyard
) -> None:
    """All of standard output is manifests that the server accepts; nothing is made."""
    source = steelyard.experiment(SETTINGS)
    printed = steelyard.run("run", source, *HERE, "--dry-run", "-n", own_namespace)
    assert printed.returncode == 0, printed.stderr
    manifests = list(YAML(typ="safe", pure=True).load_all(printed.stdout))
    for manifest in manifests:
        api.apply(manifest, dry_run=True)
    kinds = [manifest["kind"] for manifest in manifests]
    assert kinds == ["ConfigMap", "Secret", "Cluster", "Cluster"]
    assert api.list(k8s.CLUSTER, own_namespace) == ()
    assert api.list(k8s.POD, own_namespace) == ()
