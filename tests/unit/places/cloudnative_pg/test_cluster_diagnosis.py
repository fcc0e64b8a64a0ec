"""What is wrong with a Cluster, its operator or its server: told from recordings of real ones."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.kubernetes_api import FakeKubernetesApi
from steelyard.core.kubernetes import CLUSTER, CRD, DEPLOYMENT, EVENT, JOB, POD, QUOTA, SecretRef
from steelyard.core.places import Synchronous
from steelyard.core.target import CloudNativePgTarget
from steelyard.core.wording import InputError, PreflightError, TargetError
from steelyard.systems.postgres.cloudnative_pg.operator import (
    Operator,
    discover,
    last_words,
    plain_log,
    require_known,
    trouble_of,
    version_of_image,
)
from steelyard.systems.postgres.cloudnative_pg.own_cluster import cluster_manifest
from steelyard.systems.postgres.cloudnative_pg.rollout import MADE_WITHIN_S, ClusterWait
from support.recorded_clusters import log, objects, recorded

_STUCK = {
    "image-not-found": 'pulled: Back-off pulling image "localhost/no-such-image:15"',
    "class-not-found": 'storageclass.storage.k8s.io "no-such-class" not found',
    "no-provisioner": "external provisioner 'example.org/nowhere'",
    "too-many-cpus": "Insufficient cpu",
    "no-such-node": "didn't match Pod's node affinity/selector",
    "quota-of-claims": "tight has 0 of 0 persistentvolumeclaims",
    "quota-of-memory": "exceeded quota: cpu, requested: limits.memory=200Mi",
    "initdb-fails": "job badinit-1-initdb failed",
    "server-ends": "the container of pod steelyard-one-1 ends again and again",
}
_HEALTHY = ("one-instance", "two-instances")


@pytest.mark.parametrize("name", _HEALTHY)
def test_a_recorded_healthy_cluster_is_healthy(name: str) -> None:
    """Phase, primary and instances of a real one are read, and nothing is found wrong."""
    api, state = recorded(name)
    assert state.is_healthy
    assert state.primary_instance is not None
    assert state.primary_instance.operator == "1.27.0"
    assert (state.primary_instance.qos, state.primary_instance.node) == ("Guaranteed", "node2")
    assert trouble_of(api, state) is None


def test_a_joining_replica_is_no_trouble() -> None:
    """A Cluster whose replica is being made is not healthy, and nothing is stuck."""
    api, state = recorded("replica-joins")
    assert not state.is_healthy
    assert (state.ready, state.asked) == (1, 2)
    assert trouble_of(api, state) is None


@pytest.mark.parametrize(("name", "said"), _STUCK.items())
def test_recorded_troubles_are_named(name: str, said: str) -> None:
    """Each recorded failure yields its reason in the cluster's own words."""
    api, state = recorded(name)
    assert not state.is_healthy
    found = trouble_of(api, state)
    assert found is not None
    assert said in found.message
    assert found.hint


def test_the_words_of_a_failed_job_are_told() -> None:
    """What initdb printed stands in the reason."""
    api, state = recorded("initdb-fails")
    failed = [p for p in api.list(POD, "cnpg-dev") if p["status"]["phase"] == "Failed"]
    api.container_logs = {pod["metadata"]["name"]: log("initdb-fails") for pod in failed}
    found = trouble_of(api, state)
    assert found is not None
    assert 'initdb: error: invalid locale name "xx_XX"' in found.message


def test_the_words_of_a_server_that_ends_are_told() -> None:
    """What the server wrote before it ended stands in the reason."""
    api, state = recorded("server-ends")
    api.container_logs = {"steelyard-one-1": log("refused-max-connections")}
    found = trouble_of(api, state)
    assert found is not None
    assert "outside the valid range" in found.message


@pytest.mark.parametrize("name", ["image-not-found", "too-many-cpus", "initdb-fails"])
def test_less_is_told_where_less_may_be_seen(name: str) -> None:
    """Without rights on events, jobs and quotas nothing fails, and pods still say why."""
    api, state = recorded(name)
    for kind in (EVENT, QUOTA, JOB):
        api.refuse("list", kind)
    found = trouble_of(api, state)
    assert found is not None
    assert "pod " in found.message


def test_a_refused_pod_that_came_later_is_no_trouble() -> None:
    """An old refusal by a quota is forgotten once the job has its pod."""
    api, state = recorded("quota-of-memory")
    job = api.get(JOB, "quota2-1-initdb", "cnpg-quota2")
    job["status"] = {"active": 1}
    assert trouble_of(api, state) is None


@pytest.mark.parametrize(("name", "said"), _STUCK.items())
def test_waiting_ends_with_the_reason(name: str, said: str) -> None:
    """A stuck Cluster is given up long before the time that a slow one has, with the reason."""
    api, state = recorded(name)
    told: list[str] = []
    wait = ClusterWait(api, api.clock, told.append)
    begun = api.clock.monotonic()
    with pytest.raises(TargetError, match="does not become healthy") as caught:
        wait.until(state.ref, lambda state: state.is_healthy, most_s=MADE_WITHIN_S)
    assert said in caught.value.message
    assert api.clock.monotonic() - begun < MADE_WITHIN_S / 10
    assert any(said in each for each in told)


def test_a_slow_join_is_told_and_named_at_the_end() -> None:
    """A replica that joins slowly is told of, and named when nobody waits any more."""
    api, state = recorded("replica-joins")
    told: list[str] = []
    with pytest.raises(TargetError, match="steelyard-one-2-join goes on") as caught:
        ClusterWait(api, api.clock, told.append).until(
            state.ref, lambda state: state.is_healthy, most_s=MADE_WITHIN_S
        )
    assert "1 of 2 instances ready" in caught.value.message
    assert any("begins with a checkpoint" in each for each in told)


def test_who_may_not_list_jobs_is_told_what_the_cluster_says() -> None:
    """A right that only says more does not take the place of the reason."""
    api, state = recorded("replica-joins")
    api.refuse("list", JOB)
    with pytest.raises(TargetError, match="1 of 2 instances ready"):
        ClusterWait(api, api.clock, lambda _: None).until(
            state.ref, lambda state: state.is_healthy, most_s=MADE_WITHIN_S
        )


def test_a_trouble_that_passes_is_borne() -> None:
    """What is there for a moment and then not is told and ends nothing."""
    api, state = recorded("class-not-found")
    told: list[str] = []
    looks = iter(range(1000))

    def is_over(_: object) -> bool:
        turn = next(looks)
        if turn == 8:
            for event in api.list(EVENT, "cnpg-dev"):
                api.lose(EVENT, event["metadata"]["name"], "cnpg-dev")
            api.lose(POD, api.list(POD, "cnpg-dev")[0]["metadata"]["name"], "cnpg-dev")
        return turn == 100

    ClusterWait(api, api.clock, told.append).until(state.ref, is_over, most_s=MADE_WITHIN_S)
    assert any("no-such-class" in each for each in told)


def test_a_cluster_that_vanishes_ends_the_waiting() -> None:
    """Who waits for a Cluster that somebody deleted is told so at once."""
    api, state = recorded("replica-joins")
    api.lose(state.ref.kind, state.ref.name, state.ref.namespace)
    with pytest.raises(TargetError, match="is not there"):
        ClusterWait(api, api.clock, lambda _: None).until(
            state.ref, lambda state: state.is_healthy, most_s=MADE_WITHIN_S
        )


def _installed() -> FakeKubernetesApi:
    api = FakeKubernetesApi()
    for each in objects("operator"):
        api.put(each)
    return api


def _manifest(**target: object) -> dict[str, object]:
    secret = SecretRef(namespace="bench", name="superuser")
    made = CloudNativePgTarget(**target)  # type: ignore[arg-type]
    return dict(cluster_manifest(made, name="pg", namespace="bench", secret=secret, settings={}))


def test_an_absent_operator_is_refused_with_the_way_out() -> None:
    """A cluster without the kind is refused before anything is made."""
    api = _installed()
    api.kinds.discard(CLUSTER)
    with pytest.raises(PreflightError, match="CloudNativePG is not installed") as caught:
        discover(api)
    assert "Install its operator" in caught.value.hint


def test_version_and_fields_of_the_recorded_operator() -> None:
    """The version comes from the image of the deployment, the fields from the definition."""
    operator = discover(_installed())
    assert (operator.version, operator.definition) == ("1.27.0", "v1")
    assert operator.knows("postgresql", "synchronous")
    assert not operator.knows("postgresql", "synchronos")


def test_what_may_not_be_read_is_no_error() -> None:
    """Without rights on deployments and definitions the reason is known, and nothing is refused."""
    api = _installed()
    api.refuse("list", DEPLOYMENT)
    api.refuse("get", CRD)
    operator = discover(api)
    assert operator.version is None
    assert "may not read" in operator.unseen
    require_known(_manifest(affinity='{"podAntiAfinityType": "required"}'), operator)


def test_a_deployment_may_be_visible_in_its_own_namespace_only() -> None:
    """An account that may read cnpg-system only finds the version there."""
    api = _installed()
    api.refuse("list", DEPLOYMENT, namespace="nowhere")
    assert discover(api).version == "1.27.0"


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("ghcr.io/cloudnative-pg/cloudnative-pg:1.27.0", "1.27.0"),
        ("localhost:5000/cnpg:v1.25.1@sha256:abc", "1.25.1"),
        ("localhost:5000/cnpg", None),
        ("ghcr.io/cloudnative-pg/cloudnative-pg@sha256:abc", None),
    ],
)
def test_versions_of_images(image: str, version: str | None) -> None:
    """The tag is the version; a port or a digest is none."""
    assert version_of_image(image) == version


def test_every_field_that_is_written_is_known() -> None:
    """A target with everything in it has no field that the recorded definition lacks."""
    manifest = _manifest(
        image="postgresql:17",
        wal_storage="1Gi",
        wal_storage_class="fast",
        storage_class="slow",
        instances=2,
        synchronous=Synchronous(),
        node_selector=(("disk", "nvme"),),
        tolerations='[{"key": "db", "operator": "Exists"}]',
        affinity='{"podAntiAffinityType": "required"}',
    )
    require_known(manifest, discover(_installed()))


def test_unknown_fields_are_named_with_what_was_meant() -> None:
    """A misspelt key of `affinity` fails before the apply, and the right one is offered."""
    manifest = _manifest(affinity='{"podAntiAfinityType": "required", "zone": {"a": 1}}')
    with pytest.raises(InputError) as caught:
        require_known(manifest, discover(_installed()))
    assert "spec.affinity.podAntiAfinityType (did you mean podAntiAffinityType?)" in str(
        caught.value
    )
    assert "spec.affinity.zone" in str(caught.value)


def test_unknown_fields_in_lists_are_found() -> None:
    """Items of a list are compared with the schema of its items."""
    manifest = _manifest(tolerations='[{"key": "a"}, {"kye": "b"}]')
    with pytest.raises(InputError, match=r"spec.affinity.tolerations\[1\].kye"):
        require_known(manifest, discover(_installed()))


def test_synchronous_replication_needs_an_operator_that_has_it() -> None:
    """An operator with minSyncReplicas only is refused, and its version is named."""
    schema = {"properties": {"postgresql": {"properties": {"parameters": {}}}}}
    operator = Operator(version="1.23.1", spec=schema)
    with pytest.raises(PreflightError, match=r"CloudNativePG 1.23.1 has no .*minSyncReplicas"):
        require_known(_manifest(instances=2, synchronous=Synchronous()), operator)


def _record(severity: str, message: str, code: str = "00000") -> str:
    record = {"error_severity": severity, "message": message, "sql_state_code": code}
    return json.dumps({"logger": "postgres", "msg": "record", "record": record}) + "\n"


def test_a_refused_setting_is_named_out_of_the_recorded_log() -> None:
    """The line before the grave one names the setting and its range; both are told."""
    words = last_words(log("refused-max-connections"))
    assert '999999999 is outside the valid range for parameter "max_connections"' in words
    assert "contains errors" in words


def test_what_initdb_printed_is_told_out_of_the_recorded_log() -> None:
    """Of a job that failed before there was a server, the program's own error is told."""
    assert last_words(log("initdb-fails")) == 'initdb: error: invalid locale name "xx_XX"'


def test_the_last_grave_record_counts() -> None:
    """Once the server logs records, the last FATAL among them is the reason."""
    text = _record("FATAL", "first") + _record("LOG", "started") + _record("PANIC", "no space")
    assert last_words(text) == "no space"


def test_refused_connections_are_no_reason() -> None:
    """Who came while the server was starting, or with a wrong password, did not end it."""
    text = _record("FATAL", "the database system is starting up", "57P03")
    assert last_words(text + _record("FATAL", "password authentication failed", "28P01")) == ""


def test_the_server_alone_is_in_the_plain_log() -> None:
    """Messages of the instance manager are left out."""
    manager = json.dumps({"logger": "instance-manager", "msg": "All workers finished"}) + "\n"
    assert plain_log(manager + _record("LOG", "ready")) == "LOG: ready\n"


@given(st.text() | st.lists(st.text()).map("\n".join))
def test_any_text_is_read(text: str) -> None:
    """Cut lines, foreign lines and garbage raise nothing."""
    assert isinstance(last_words(text), str)
    assert isinstance(plain_log(text), str)


@given(st.dictionaries(st.sampled_from(["logger", "msg", "record", "level", "pipe"]), st.text()))
def test_any_object_is_read(line: dict[str, str]) -> None:
    """Keys with other values than expected raise nothing."""
    assert isinstance(last_words(json.dumps(line)), str)
