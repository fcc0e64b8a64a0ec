"""What keeps a Cluster from becoming healthy is named: from recordings of the real operator."""

import pytest

from steelyard.core.kubernetes import EVENT, JOB, POD, QUOTA
from steelyard.core.wording import TargetError
from steelyard.systems.postgres.cloudnative_pg.operator import trouble_of
from steelyard.systems.postgres.cloudnative_pg.rollout import MADE_WITHIN_S, ClusterWait
from support.recorded_clusters import log, recorded

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
