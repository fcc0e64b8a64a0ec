"""Pods of workers: like the Job's own pod, without its account, and gone with the campaign."""

import base64
from dataclasses import dataclass
from typing import Any

import pytest

from fakes.belonging import ToldLedger
from fakes.kubernetes_api import FakeKubernetes, FakeKubernetesApi
from steelyard.core import kubernetes as k8s
from steelyard.places.kubernetes.job import JobLoad, JobPlan, job
from steelyard.places.kubernetes.workers import PodsOfWorkers, pods_beside_job

CAMPAIGN = "20261129-120000-mine"
FILES = {"certificate.pem": "CERTIFICATE", "key.pem": "KEY", "scheduler.json": "{}"}


@dataclass
class _Inside:
    """A cluster in which this process is the pod of a Job."""

    api: FakeKubernetesApi
    ledger: ToldLedger

    def pods(self, campaign_id: str = CAMPAIGN) -> PodsOfWorkers | None:
        configuration: Any = FakeKubernetes(clusters={"in-cluster": self.api})
        return pods_beside_job(configuration, self.ledger, campaign_id, self.api.clock)


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> _Inside:
    """Return a cluster with the Job's pod, as the API completes it."""
    api = FakeKubernetesApi(is_inside=True)
    monkeypatch.setenv("HOSTNAME", "mine-job-x")
    plan = JobPlan(
        campaign_id=CAMPAIGN,
        namespace="default",
        image="steelyard:1",
        load=JobLoad(image="postgres:18", node_selector=(("disk", "fast"),)),
        deadline_s=60,
    )
    template = job(plan)["spec"]["template"]
    spec = template["spec"]
    for container in (*spec["initContainers"], *spec["containers"]):
        container["volumeMounts"].append({"name": "kube-api-access", "mountPath": "/var/run"})
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": plan.name, "uid": "1"}
    metadata = {
        "name": "mine-job-x",
        "namespace": "default",
        "labels": template["metadata"]["labels"],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    api.put({**pod, "status": {"podIP": "10.1.1.7"}})["metadata"]["ownerReferences"] = [owner]
    return _Inside(api, ToldLedger())


def test_they_are_made_like_the_pod_of_the_job_and_removed(inside: _Inside) -> None:
    """Image, programs and nodes are its own; they get a certificate, and no account."""
    pods = inside.pods()
    assert pods is not None
    assert pods.address == "10.1.1.7"
    pods.begin(3, FILES)
    labels = k8s.campaign_labels(CAMPAIGN, "worker")
    (made,) = inside.api.list(k8s.DEPLOYMENT, "default", labels)
    (secret,) = inside.api.list(k8s.SECRET, "default", labels)
    assert {each["metadata"]["ownerReferences"][0]["kind"] for each in (made, secret)} == {"Job"}
    assert {n: base64.b64decode(t).decode() for n, t in secret["data"].items()} == FILES
    assert made["spec"]["replicas"] == 3
    spec = made["spec"]["template"]["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["nodeSelector"] == {"disk": "fast"}
    (programs,), (worker,) = spec["initContainers"], spec["containers"]
    assert (programs["image"], worker["image"]) == ("postgres:18", "steelyard:1")
    volumes = {each["name"] for each in spec["volumes"]}
    mounts = {m["name"] for each in (programs, worker) for m in each["volumeMounts"]}
    assert mounts <= volumes
    assert worker["securityContext"]["readOnlyRootFilesystem"] is True
    assert "KEY" not in str(made)
    pods.end()
    pods.end()
    assert inside.api.list(k8s.DEPLOYMENT, "default") == ()
    assert inside.api.list(k8s.SECRET, "default") == ()
    assert len(inside.ledger.placements) == 2
    assert inside.ledger.now == {}


def test_only_the_pod_of_this_campaign_has_pods_of_workers(inside: _Inside) -> None:
    """Neither a pod of somebody else, nor of another campaign, nor a machine outside."""
    assert inside.pods("another") is None
    inside.api.is_inside = False
    assert inside.pods() is None


def test_a_pod_that_does_not_run_says_why(inside: _Inside) -> None:
    """As long as there is none, nothing is known."""
    pods = inside.pods()
    assert pods is not None
    assert pods.trouble() == ""
    metadata = {
        "name": "w",
        "namespace": "default",
        "labels": k8s.campaign_labels(CAMPAIGN, "worker"),
    }
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    status = {"phase": "Pending", "conditions": [{**condition, "message": "0/2 nodes"}]}
    inside.api.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status})
    assert "pod w: " in pods.trouble()
    assert "0/2 nodes" in pods.trouble()
