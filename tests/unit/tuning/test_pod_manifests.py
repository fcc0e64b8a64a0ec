"""What manifests and containers say of pods: effective resources, both control group versions."""

from typing import Any

import pytest

from steelyard.gateways.placed_files import FetchedHost
from steelyard.tuning.facts import kubernetes as files
from steelyard.tuning.facts.kubernetes import (
    cluster_facts,
    kubelet_of,
    pod_facts,
    pods_of,
    server_container,
)
from steelyard.tuning.rules.rule import is_guaranteed, whole_cpus
from support.database_in_cluster import cluster


def _pod(*containers: dict[str, Any], inits: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    """Return a pod of containers with these requests and limits."""

    def named(number: int, resources: dict[str, Any]) -> dict[str, Any]:
        policy = resources.pop("restartPolicy", None)
        return {"name": f"c{number}", "resources": resources, "restartPolicy": policy}

    return {
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {
            "nodeName": "node1",
            "containers": [named(*each) for each in enumerate(map(dict, containers))],
            "initContainers": [named(*each) for each in enumerate(map(dict, inits))],
        },
        "status": {"phase": "Running", "qosClass": "Burstable"},
    }


@pytest.mark.parametrize(
    ("pod", "requests", "limits"),
    [
        (_pod({"requests": {"cpu": "100m"}}), {"cpu": "100m"}, {}),
        (_pod({"limits": {"cpu": "500m"}}, {"limits": {"cpu": "1"}}), {}, {"cpu": "1500m"}),
        # One container without a limit leaves the pod without one.
        (_pod({"limits": {"memory": "1Gi"}}, {}), {}, {}),
        (
            _pod({"requests": {"memory": "1Gi"}}, {"requests": {"memory": "1Mi"}}),
            {"memory": "1074790400"},
            {},
        ),
        # What runs before the others counts by its largest, what stays beside them is added.
        (_pod({"requests": {"cpu": "1"}}, inits=({"requests": {"cpu": "2"}},)), {"cpu": "2"}, {}),
        (
            _pod(
                {"requests": {"cpu": "1"}},
                inits=({"requests": {"cpu": "2"}, "restartPolicy": "Always"},),
            ),
            {"cpu": "3"},
            {},
        ),
        (_pod({"limits": {"cpu": "much"}}, {"limits": {"cpu": "1"}}), {}, {"cpu": "much"}),
        # A container without huge pages has none; one without memory has no limit of it.
        (
            _pod({"limits": {"memory": "1Gi", "hugepages-2Mi": "1Gi"}}, {}),
            {},
            {"hugepages-2Mi": "1Gi"},
        ),
        # Beside a container that passes are those that stay and were started before it.
        (
            _pod(
                {"requests": {"cpu": "1"}},
                inits=(
                    {"requests": {"cpu": "1"}, "restartPolicy": "Always"},
                    {"requests": {"cpu": "3"}},
                    {"requests": {"cpu": "500m"}, "restartPolicy": "Always"},
                ),
            ),
            {"cpu": "4"},
            {},
        ),
    ],
)
def test_resources_are_those_of_the_whole_pod(
    pod: dict[str, Any], requests: dict[str, str], limits: dict[str, str]
) -> None:
    """As the scheduler counts them; what is no quantity is kept for the rule that tells of it."""
    facts = pod_facts(pod)
    assert (facts.requests, facts.limits, facts.qos_class) == (requests, limits, "Burstable")


def _equal(name: str, cpu: str, **more: Any) -> dict[str, Any]:
    """Return a container that requests what it is limited to."""
    limits = {"cpu": cpu, "memory": "1Gi", **more.pop("limits", {})}
    return {"name": name, "resources": {"requests": limits, "limits": limits}, **more}


_EXPORTER = _equal("exporter", "100m")
_PROXY = _equal("proxy", "250m", restartPolicy="Always")
_FREE = {"name": "free"}


@pytest.mark.parametrize(
    ("containers", "inits", "exclusive"),
    [
        ([_equal("postgres", "2")], [], 2),
        ([_equal("postgres", "2000m")], [], 2),
        ([_equal("postgres", "1500m")], [], None),
        ([_equal("postgres", "1500m"), _equal("exporter", "500m")], [], None),
        ([_equal("postgres", "2"), _EXPORTER], [], 2),
        ([_EXPORTER, _equal("postgres", "2")], [], 2),
        ([_equal("postgres", "4")], [_PROXY], 4),
        ([_equal("postgres", "2")], [_equal("setup", "3500m")], 2),
        ([_equal("postgres", "3"), _equal("exporter", "1")], [], 3),
        ([_equal("postgres", "2"), _FREE], [], None),
        ([_equal("postgres", "2")], [_FREE], None),  # the pod is Burstable
        ([_equal("postgresql", "2"), _EXPORTER], [], 2),
        ([_EXPORTER, _equal("app", "2")], [], 2),  # by its annotation
        ([_equal("postgres", "0")], [], None),
    ],
)
def test_the_cpus_are_those_of_the_servers_container(
    containers: list[dict[str, Any]], inits: list[dict[str, Any]], exclusive: int | None
) -> None:
    """The kubelet gives CPUs to containers, in pods that are Guaranteed as a whole."""
    pod: dict[str, Any] = _pod()
    pod["metadata"]["annotations"] = {"kubectl.kubernetes.io/default-container": "app"}
    pod["spec"].update(containers=containers, initContainers=inits)
    for quality in (None, "Burstable" if _FREE in (*containers, *inits) else "Guaranteed"):
        pod["status"] = {"qosClass": quality}
        facts = pod_facts(pod)
        assert whole_cpus(facts) == exclusive
        assert len(facts.containers) in (0, len(containers) + len(inits))


def test_a_servers_port_names_its_container() -> None:
    """A proxy that is injected before it, and an exporter with a port, are passed over."""
    pod: dict[str, Any] = _pod()
    exporter = {**_EXPORTER, "ports": [{"containerPort": 9187}]}
    for port in (5432, 6379):
        server = {**_equal("main", "2"), "ports": [{"containerPort": 80}, {"containerPort": port}]}
        pod["spec"]["containers"] = [_equal("proxy", "1"), exporter, server]
        assert server_container(pod) == "main"
        annotated = {"kubectl.kubernetes.io/default-container": "proxy"}
        pod["metadata"]["annotations"] = annotated
        assert server_container(pod) == "proxy"
        pod["metadata"]["annotations"] = {}


def test_resources_of_the_pod_itself_are_for_all_of_its_containers() -> None:
    """They count whatever the containers have; the kubelet gives none of them a CPU for itself."""
    pod: dict[str, Any] = _pod()
    own = {"cpu": "4", "memory": "8Gi"}
    pod["spec"]["containers"] = [_equal("postgres", "2"), _FREE]
    pod["spec"]["resources"] = {"requests": own, "limits": own}
    del pod["status"]
    facts = pod_facts(pod)
    assert (facts.requests, facts.limits, facts.pod_level) == (own, own, True)
    assert [each.limits["cpu"] for each in facts.containers] == ["2", "4"]
    assert (is_guaranteed(facts), whole_cpus(facts)) == (True, None)


def test_pods_that_ended_hold_nothing_of_a_node() -> None:
    """Neither do those of other nodes."""
    ended, elsewhere = _pod({}), _pod({})
    ended["status"]["phase"] = "Succeeded"
    elsewhere["spec"]["nodeName"] = "node2"
    living = _pod({})
    assert pods_of((ended, elsewhere, living), "node1") == (living,)


def test_a_live_cluster_says_its_own_parameters() -> None:
    """The operator writes its own into the object, which is no fault of the user's."""
    parameters = {"archive_mode": "on", "log_destination": "csvlog", "work_mem": "4MB"}
    facts = cluster_facts(
        cluster(postgresql={"parameters": parameters}, enablePDB=False, instances=3)
    )
    assert facts.parameters == {"work_mem": "4MB"}
    assert (facts.instances, facts.disruption_budget, facts.storage_class) == (3, False, None)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"kubeletconfig": 3}'])
def test_what_is_no_configuration_of_a_kubelet_is_refused(text: str) -> None:
    """A parser says so by ValueError, whatever the kubelet answers."""
    with pytest.raises(ValueError, match=r".*"):
        kubelet_of(text)


def test_a_container_of_version_1_says_the_same_as_one_of_version_2() -> None:
    """Recorded paths of both: CPU set, quota, throttling, huge pages."""
    old = FetchedHost(
        files={
            "/sys/fs/cgroup/cpuset/cpuset.effective_cpus": "1\n",
            "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "100000\n",
            "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "/sys/fs/cgroup/cpu/cpu.stat": "nr_periods 9\nnr_throttled 4\nthrottled_time 7\n",
            "/sys/fs/cgroup/hugetlb/hugetlb.2MB.usage_in_bytes": "0\n",
            "/sys/fs/cgroup/hugetlb/hugetlb.2MB.rsvd.usage_in_bytes": "44040192\n",
        }
    )
    assert files.cpus_of(old) == (1,)
    assert files.quota_of(old) == 1.0
    assert files.throttled_of(old) == 4
    assert files.huge_bytes_of(old) == 44040192


@pytest.mark.parametrize("quota", ["max 100000", "-1", "0 100000", ""])
def test_no_quota_is_none(quota: str) -> None:
    """Neither version's word for none is a number of CPUs."""
    assert files.quota_of(FetchedHost(files={"/sys/fs/cgroup/cpu.max": quota})) is None
    old = {
        "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": quota,
        "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
    }
    assert files.quota_of(FetchedHost(files=old)) is None


def test_a_container_that_shows_nothing_says_nothing() -> None:
    """No fact is 0 or empty that nobody saw."""
    empty = FetchedHost()
    assert files.cpus_of(empty) is None
    assert files.throttled_of(empty) is None
    assert files.huge_bytes_of(empty) is None
    assert files.servers_of(empty) == ()
    assert files.shm_bytes_of(empty) is None
    torn = FetchedHost(files={"/proc/self/mountinfo": "735 720 0:45 / /dev"})
    assert files.shm_bytes_of(torn) is None
