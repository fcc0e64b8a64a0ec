"""A campaign as a Job: what is made, found and removed, and what the cluster says of it."""

from pathlib import Path
from typing import Any

import pytest

from fakes.clock import FakeClock
from fakes.job_cluster import JobCluster, a_job_plan
from steelyard.core.kubernetes import (
    ACCOUNT,
    CLAIM,
    CLUSTER_ROLE,
    CONFIG_MAP,
    EVENT,
    JOB,
    NAMESPACE,
    POD,
    ROLE_KIND,
    ObjectRef,
    campaign_labels,
    ref_of,
)
from steelyard.core.wording import (
    InputError,
    LeftBehindError,
    PreflightError,
    PrivilegeError,
    RecordError,
)
from steelyard.places.kubernetes import job as jobs
from steelyard.places.kubernetes.job import JobPlan, Stand, plan_text, read_plan, record_files
from steelyard.places.kubernetes.permissions import Purpose


@pytest.fixture
def cluster(tmp_path: Path) -> JobCluster:
    """Return an empty cluster."""
    return JobCluster(record=tmp_path / "record")


def _made(cluster: JobCluster, **changes: Any) -> JobPlan:
    plan = a_job_plan(**changes)
    jobs.make(plan, "cGFja2Vk", cluster.api)
    return plan


def _held(cluster: JobCluster) -> set[str]:
    kinds = (JOB, POD, CLAIM, CONFIG_MAP, ACCOUNT, ROLE_KIND, CLUSTER_ROLE)
    return {ref_of(each).label for kind in kinds for each in cluster.api.list(kind)}


def test_everything_carries_the_label_and_goes_with_the_claim(cluster: JobCluster) -> None:
    """What is made can be found, and in the namespace one deletion takes it all away."""
    plan = _made(cluster, purposes=(Purpose.CLUSTERS,))
    claim = cluster.api.get(CLAIM, plan.claim, "default")
    for kind in (JOB, CONFIG_MAP, ACCOUNT, ROLE_KIND):
        (made,) = cluster.api.list(kind, "default")
        assert made["metadata"]["labels"].items() >= campaign_labels(plan.campaign_id).items()
        assert made["metadata"]["ownerReferences"][0]["uid"] == claim["metadata"]["uid"]
    (role,) = cluster.api.list(CLUSTER_ROLE)
    assert "ownerReferences" not in role["metadata"]


def test_the_job_has_a_deadline_and_an_end(cluster: JobCluster) -> None:
    """A Job that nobody watches ends by itself, is not tried again, and does not stay for ever."""
    spec = jobs.job(a_job_plan(deadline_s=1234))["spec"]
    assert (spec["backoffLimit"], spec["activeDeadlineSeconds"]) == (0, 1234)
    assert spec["ttlSecondsAfterFinished"] > 0
    (rule,) = spec["podFailurePolicy"]["rules"]
    assert rule["onPodConditions"] == [{"type": "DisruptionTarget"}]


def test_the_pods_pass_the_strictest_standard() -> None:
    """No root, no privilege, no writable root: namespaces of the level `restricted` let them in."""
    plan = a_job_plan()
    for spec in (
        jobs.job(plan)["spec"]["template"]["spec"],
        jobs.reader(plan)["spec"],
    ):
        (container,) = spec["containers"]
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert not container["securityContext"]["allowPrivilegeEscalation"]
        assert container["resources"]["limits"]


def test_a_given_account_gets_no_role(cluster: JobCluster) -> None:
    """With --service-account nothing of RBAC is made, so nobody needs the right to make it."""
    plan = a_job_plan(account="steelyard-runner")
    for kind in (ACCOUNT, ROLE_KIND, CLUSTER_ROLE):
        cluster.api.refuse("patch", kind)
        cluster.api.refuse("get", kind)
    jobs.make(plan, "cGFja2Vk", cluster.api)
    job = cluster.api.get(JOB, plan.name, "default")
    assert job["spec"]["template"]["spec"]["serviceAccountName"] == "steelyard-runner"
    jobs.remove(plan, cluster.api, FakeClock())
    assert _held(cluster) == set()


@pytest.mark.parametrize("refused", [JOB, ACCOUNT, CLUSTER_ROLE, CONFIG_MAP])
def test_what_is_refused_leaves_nothing(cluster: JobCluster, refused: Any) -> None:
    """An account that may not make one of the objects has none of the others afterwards."""
    cluster.api.refuse("patch", refused)
    with pytest.raises(PrivilegeError):
        jobs.make(a_job_plan(), "cGFja2Vk", cluster.api)
    cluster.api.permit()
    assert _held(cluster) == set()


def test_a_namespace_of_its_own_goes_with_it(cluster: JobCluster) -> None:
    """Where no namespace was named, one is made, and removed with the rest."""
    plan = _made(cluster, namespace="steelyard-fake-1", makes_namespace=True)
    assert cluster.api.get(NAMESPACE, "steelyard-fake-1")
    jobs.remove(plan, cluster.api, FakeClock())
    assert cluster.api.read(ObjectRef(kind=NAMESPACE, name="steelyard-fake-1")) is None


def test_nothing_of_others_is_removed(cluster: JobCluster) -> None:
    """An object of the same name without the label is somebody else's, and stays."""
    plan = a_job_plan()
    other = {"apiVersion": "v1", "kind": "ConfigMap"}
    cluster.api.put({**other, "metadata": {"name": plan.request, "namespace": "default"}})
    with pytest.raises(PreflightError, match="is there already"):
        jobs.make(plan, "cGFja2Vk", cluster.api)
    jobs.remove(plan, cluster.api, FakeClock())
    assert cluster.api.get(CONFIG_MAP, plan.request, "default")


def test_what_does_not_go_away_is_told_and_the_rest_removed(cluster: JobCluster) -> None:
    """A Job that hangs keeps neither the volume nor the roles."""
    plan = _made(cluster)
    cluster.api.objects.linger(JOB, 10_000)
    with pytest.raises(LeftBehindError, match="does not go away"):
        jobs.remove(plan, cluster.api, FakeClock())
    assert cluster.api.read(ObjectRef(kind=CLAIM, name=plan.claim, namespace="default")) is None


def test_a_campaign_is_found_by_its_label(cluster: JobCluster) -> None:
    """Nothing is noted on the machine that started it: any other finds it whole."""
    plan = _made(cluster, purposes=(Purpose.CLUSTERS,), storage_class="slow")
    assert jobs.find(cluster.api) == (plan,)
    assert jobs.find(cluster.api, "kube-system") == ()


def test_one_that_cannot_be_read_hides_no_other(cluster: JobCluster) -> None:
    """A campaign that another version started is passed over; alone it is said."""
    plans = (a_job_plan(campaign_id="a-1"), a_job_plan(campaign_id="b-2"))
    for plan in plans:
        jobs.make(plan, "cGFja2Vk", cluster.api)
    for plan, left in zip(plans, (plans[1:], None), strict=True):
        cluster.api.get(CONFIG_MAP, plan.request, "default")["data"]["plan.json"] = "{}"
        if left is None:
            with pytest.raises(RecordError):
                jobs.find(cluster.api)
        else:
            assert jobs.find(cluster.api) == left


def test_the_plan_of_another_version_is_said() -> None:
    """What cannot be read is no crash; and what was written is read."""
    plan = a_job_plan()
    assert read_plan(plan_text(plan), "x") == plan
    with pytest.raises(RecordError, match="ConfigMap x"):
        read_plan('{"campaign_id": 1}', "x")


def test_one_campaign_is_meant_or_a_name_is_asked_for() -> None:
    """A part of the id is enough where it means one; two are listed, none is said."""
    plans = (a_job_plan(campaign_id="tiny-a1"), a_job_plan(campaign_id="tiny-b2"))
    assert jobs.choose(plans, "b2") is plans[1]
    assert jobs.choose(plans[:1], None) is plans[0]
    with pytest.raises(InputError, match="tiny-a1"):
        jobs.choose(plans, "tiny")
    with pytest.raises(InputError, match="2 campaigns"):
        jobs.choose(plans, None)
    with pytest.raises(InputError, match="no campaign c3"):
        jobs.choose(plans, "c3")
    with pytest.raises(InputError, match="no campaign runs"):
        jobs.choose((), None)


def test_a_job_stands_as_the_cluster_says(cluster: JobCluster) -> None:
    """Running with its pod, done or failed with its exit code, gone when it expired."""
    plan = _made(cluster)
    now = jobs.standing(plan, cluster.api)
    assert now.stand is Stand.RUNNING
    assert now.pod is not None
    cluster.end(plan, exit_code=5, reason="DeadlineExceeded")
    failed = jobs.standing(plan, cluster.api)
    assert (failed.stand, failed.exit_code) == (Stand.FAILED, 5)
    assert "deadline" in failed.reason
    cluster.end(plan)
    assert jobs.standing(plan, cluster.api).stand is Stand.DONE
    cluster.expire(plan)
    assert jobs.standing(plan, cluster.api).stand is Stand.GONE


def test_why_a_pod_waits_is_said_in_the_clusters_words(cluster: JobCluster) -> None:
    """An image that cannot be pulled, a node that is full: the reason is what the API gives."""
    plan = _made(cluster)
    pod = cluster.pod_of(plan)
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    pod["status"] = {"phase": "Pending", "containerStatuses": [{"state": {"waiting": waiting}}]}
    now = jobs.standing(plan, cluster.api)
    assert now.stand is Stand.WAITING
    assert now.reason.endswith("its image cannot be pulled: no such image")
    full = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}
    pod["status"] = {"phase": "Pending", "conditions": [full]}
    assert jobs.standing(plan, cluster.api).reason.endswith("no node takes it: full")


def test_a_job_without_a_pod_says_what_keeps_it(cluster: JobCluster) -> None:
    """A quota keeps the Job from making a pod; only an event says so, if it may be seen."""
    cluster.runs = False
    plan = _made(cluster)
    uid = cluster.api.get(JOB, plan.name, "default")["metadata"]["uid"]
    cluster.api.put(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "e", "namespace": "default"},
            "involvedObject": {"uid": uid},
            "type": "Warning",
            "message": "exceeded quota",
        }
    )
    assert jobs.standing(plan, cluster.api).reason == "exceeded quota"
    cluster.api.refuse("list", EVENT)
    assert jobs.standing(plan, cluster.api).reason == ""


def test_the_record_is_read_in_the_jobs_own_pod_while_that_runs(cluster: JobCluster) -> None:
    """No second pod is made for what the first can do."""
    plan = _made(cluster)
    cluster.record.mkdir()
    (cluster.record / "journal.jsonl").write_text("{}\n")
    with record_files(plan, cluster.api, FakeClock(), print) as files:
        assert [each.name for each in files.listed()] == ["journal.jsonl"]
        assert len(cluster.api.list(POD)) == 1


def test_a_reader_comes_and_goes_when_the_pod_is_gone(cluster: JobCluster) -> None:
    """The record outlives its pod, and what reads it leaves nothing, an old reader included."""
    plan = _made(cluster)
    cluster.end(plan)
    cluster.expire(plan)
    cluster.record.mkdir()
    cluster.api.apply(jobs.reader(plan))
    with record_files(plan, cluster.api, FakeClock(), print) as files:
        assert files.listed() == ()
        (reader,) = cluster.api.list(POD)
        assert reader["metadata"]["name"] == plan.reader
    assert cluster.api.list(POD) == ()


def test_a_new_job_takes_the_place_of_one_that_failed(cluster: JobCluster) -> None:
    """The volume and the account stay; the Job is made anew."""
    plan = _made(cluster)
    before = cluster.api.get(CLAIM, plan.claim, "default")["metadata"]["uid"]
    cluster.end(plan, exit_code=137)
    jobs.make_again(plan, cluster.api, FakeClock())
    assert jobs.standing(plan, cluster.api).stand is Stand.RUNNING
    assert cluster.api.get(CLAIM, plan.claim, "default")["metadata"]["uid"] == before
