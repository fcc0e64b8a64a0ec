"""A campaign as a Job: what is made and removed, and the permissions that campaigns need."""

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
    DATABASE,
    EVENT,
    JOB,
    NAMESPACE,
    NODE,
    POD,
    ROLE_KIND,
    STORAGE_CLASS,
    Kind,
    ObjectRef,
    campaign_labels,
    ref_of,
)
from steelyard.core.places import PodResources
from steelyard.core.wording import (
    InputError,
    LeftBehindError,
    PreflightError,
    PrivilegeError,
    RecordError,
)
from steelyard.places.kubernetes import job as jobs
from steelyard.places.kubernetes import permissions as rbac
from steelyard.places.kubernetes.job import (
    JobLoad,
    JobPlan,
    Stand,
    plan_text,
    read_plan,
    record_files,
)
from steelyard.places.kubernetes.permissions import Purpose, needed, permissions, plural


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


def _pod(**changes: Any) -> dict[str, Any]:
    pod: dict[str, Any] = jobs.job(a_job_plan(**changes))["spec"]["template"]["spec"]
    return pod


def test_the_pods_pass_the_strictest_standard() -> None:
    """No root, no privilege, no writable root: namespaces of the level `restricted` let them in."""
    for spec in (
        _pod(load=JobLoad(image="example/postgresql:18")),
        jobs.reader(a_job_plan())["spec"],
    ):
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert not container["securityContext"]["allowPrivilegeEscalation"]
            assert container["resources"]["limits"]


def test_the_pod_has_room_for_the_load_and_for_steelyard() -> None:
    """What `generators: {resources}` asks for comes on top of Steelyard's own."""
    asked = PodResources(requests=(("cpu", "2"),), limits=(("cpu", "3500m"), ("memory", "1Gi")))
    (container,) = _pod(load=JobLoad(resources=asked))["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "2200m", "memory": str(1024**3 + 256 * 1024**2)},
        "limits": {"cpu": "4500m", "memory": str(3 * 1024**3)},
    }


def test_the_pod_goes_where_the_load_may_be() -> None:
    """Away from databases that the campaign makes, or from the nodes of those that are there."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    apart = _pod(load=JobLoad(is_apart=True, node_selector=(("disk", "fast"),)))
    (term,) = apart["affinity"]["podAntiAffinity"][required]
    labels = campaign_labels(a_job_plan().campaign_id, DATABASE)
    assert term["labelSelector"]["matchLabels"] == labels
    assert apart["nodeSelector"] == {"disk": "fast"}
    there = _pod(load=JobLoad(is_apart=True, away_from=(("cnpg.io/cluster", "pg"),)))
    (term,) = there["affinity"]["podAntiAffinity"][required]
    assert term["labelSelector"]["matchLabels"] == {"cnpg.io/cluster": "pg"}
    beside = _pod(load=JobLoad(is_apart=True, away_from_nodes=("n1", "n2", "n1")))
    (terms,) = beside["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]
    assert [each["values"] for each in terms["matchFields"]] == [["n1"], ["n2"]]
    assert "affinity" not in _pod(load=JobLoad())


def test_the_programs_of_the_load_come_from_the_databases_image() -> None:
    """They are first on the PATH; where no image is known, those of the Job's own are enough."""
    pod = _pod(load=JobLoad(image="example/postgresql:18"))
    (copying,) = pod["initContainers"]
    assert copying["image"] == "example/postgresql:18"
    assert {"pgbench", "psql", "redis-benchmark"} <= set(copying["command"])
    assert 'PATH="/programs/bin:$PATH"' in pod["containers"][0]["command"][2]
    assert "initContainers" not in _pod()


def test_an_image_without_steelyard_gets_it_first() -> None:
    """From the index that was named, with the extras that the targets need."""
    command = _pod(installs=True, extras=("aws",), index_url="https://i/s")["containers"][0]
    assert command["command"][-3:] == ["kubernetes,aws", "--index-url", "https://i/s"]
    assert "pip install" in command["command"][2]
    assert "pip install" not in _pod()["containers"][0]["command"][2]


def test_secrets_are_named_and_not_read(cluster: JobCluster) -> None:
    """The kubelet gives their keys as variables; the reader of the record gets none."""
    (container,) = _pod(secrets=("aws", "password"))["containers"]
    assert container["envFrom"] == [
        {"secretRef": {"name": "aws"}},
        {"secretRef": {"name": "password"}},
    ]
    (other,) = jobs.reader(a_job_plan(secrets=("aws",)))["spec"]["containers"]
    assert "envFrom" not in other
    _made(cluster, secrets=("aws",))
    assert not [call for call in cluster.api.calls if "Secret" in call.label]


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
        EVENT.manifest(
            "e",
            namespace="default",
            involvedObject={"kind": "Job", "name": plan.name, "uid": uid},
            type="Warning",
            message="exceeded quota",
        )
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


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (POD, "pods"),
        (STORAGE_CLASS, "storageclasses"),
        (Kind(api_version="v1", name="Endpoints"), "endpoints"),
        (JOB, "jobs"),
    ],
)
def test_a_kind_is_named_as_in_the_apis_paths(kind: Kind, path: str) -> None:
    """RBAC knows resources, not kinds; a wrong plural would allow nothing and say nothing."""
    assert plural(kind) == path


def test_each_resource_has_one_line_for_a_purpose() -> None:
    """Two lines for one thing could contradict each other; every one has verbs and a reason."""
    keys = [(each.purpose, each.group, each.resource, each.optional) for each in permissions()]
    assert len(keys) == len(set(keys))
    assert all(each.verbs and each.why for each in permissions())


def test_what_has_no_namespace_is_allowed_cluster_wide() -> None:
    """A Role cannot allow nodes; a namespace itself is the exception, it lies in itself."""
    for each in permissions():
        if not each.kind.namespaced and each.kind.name != "Namespace":
            assert each.cluster_wide, each.resource


def test_only_what_is_asked_for_is_needed() -> None:
    """Jobs and the kubelets' configuration are for those that ask; pods are for all."""
    resources = {each.resource for each in needed([])}
    assert "pods/exec" in resources
    assert not resources & {"jobs", "nodes/proxy", "pods/portforward", "clusters"}
    assert "nodes/proxy" in {each.resource for each in needed([Purpose.INSPECT])}


def _grant(*purposes: Purpose) -> rbac.Grant:
    return rbac.Grant(
        name="runner",
        account_namespace="bench",
        namespaces=("bench", "prod"),
        permissions=needed(purposes),
        labels=campaign_labels("c-1"),
    )


def test_the_roles_allow_exactly_the_table() -> None:
    """What the objects allow is what the table says: no verb more, none less, no wildcard."""
    grant = _grant(Purpose.CLUSTERS, Purpose.INSPECT)
    made = rbac.grants(grant)
    allowed = {
        (rule["apiGroups"][0], resource, verb, role["kind"] == "ClusterRole")
        for role in made
        if role["kind"].endswith("Role")
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    asked = {
        (each.group, each.resource, verb, each.cluster_wide)
        for each in grant.permissions
        for verb in each.verbs
    }
    assert allowed == asked


def test_each_namespace_gets_a_role_for_the_one_account() -> None:
    """The account works in two namespaces and lives in one; every binding names it there."""
    made = rbac.grants(_grant())
    namespaces = [each["metadata"].get("namespace") for each in made if each["kind"] == "Role"]
    assert namespaces == ["bench", "prod"]
    for each in made:
        assert each["metadata"]["labels"] == campaign_labels("c-1")
        if each["kind"].endswith("Binding"):
            assert each["subjects"] == [
                {"kind": "ServiceAccount", "name": "runner", "namespace": "bench"}
            ]


def test_a_resource_of_two_purposes_has_one_rule() -> None:
    """A namespace is read by all, and made by some: one rule with all verbs, in order."""
    found = rbac.rules(rbac.everywhere(needed([Purpose.OWN_NAMESPACE])))
    namespaces = [rule for rule in found if rule["resources"] == ["namespaces"]]
    assert [rule["verbs"] for rule in namespaces] == [["get", "create", "patch", "delete"]]


def test_what_is_cluster_wide_is_named_after_the_accounts_namespace() -> None:
    """Two accounts of the same name in two namespaces must not share a ClusterRole."""
    roles = [each for each in rbac.grants(_grant()) if each["kind"] == "ClusterRole"]
    assert [each["metadata"]["name"] for each in roles] == ["runner-bench"]
    assert any(rule["resources"] == [plural(NODE)] for rule in roles[0]["rules"])


def test_what_is_withheld_is_optional() -> None:
    """Who may not list the pods of all namespaces still gives the Job those of its own."""
    plan = a_job_plan(purposes=(Purpose.CLUSTERS,), withheld=("pods", "services"))
    kept = [each for each in plan.permissions if each.resource in plan.withheld]
    assert {each.resource for each in kept} == {"pods", "services"}
    assert not any(each.optional for each in kept)
