"""Ways to servers in a cluster, pods that are waited for, and nodes that the load may have."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from fakes.belonging import CAMPAIGN_ID, ToldLedger, add_node
from fakes.clock import FakeClock
from fakes.kubernetes_api import FakeKubernetesApi, run_pods
from fakes.kubernetes_objects import Object
from fakes.sql import FakeSql
from steelyard.core.kubernetes import NODE, POD, SECRET, SERVICE, ContainerRef, SecretRef
from steelyard.core.outside import ServerAddress
from steelyard.core.places import ClusterService
from steelyard.core.wording import PreflightError
from steelyard.places.kubernetes.belongings import Belongings
from steelyard.places.kubernetes.nodes import require_node_apart
from steelyard.places.kubernetes.pods import image_pod
from steelyard.places.kubernetes.reaching import (
    PodBehind,
    Reach,
    find_server,
    pod_behind,
    pods_behind,
    sql_knock,
)
from steelyard.systems.postgres import pgbench

_SECRET = SecretRef(namespace="bench", name="user")


@pytest.fixture
def sql() -> FakeSql:
    """Return a server that answers."""
    return FakeSql({"SELECT 1": [(1,)]})


@pytest.fixture
def reach(api: FakeKubernetesApi, sql: FakeSql, clock: FakeClock) -> Reach:
    """Return the ways into a cluster with a Secret and two pods."""
    secret = {"username": "cG9zdGdyZXM=", "password": "Z2VoZWlt"}
    metadata = {"name": "user", "namespace": "bench"}
    api.put({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": secret})
    for name in ("pg-1", "pg-2"):
        put_pod(api, name)
    return Reach(api, sql_knock(sql), clock)


def put_pod(api: FakeKubernetesApi, name: str, *, ready: bool = True, **labels: str) -> None:
    """Put a pod of a server into a cluster."""
    api.put(
        POD.manifest(
            name,
            namespace="bench",
            labels=labels,
            spec={
                "nodeName": "node1",
                "containers": [{"name": "c", "ports": [{"name": "db", "containerPort": 5433}]}],
            },
            status={
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            },
        )
    )


def _address(reach: Reach, pod: str = "pg-1") -> ServerAddress:
    where = ContainerRef(namespace="bench", pod=pod, container="c")
    return reach.address(where, "pg-rw", "bench", _SECRET, "postgres")


def test_sessions_and_programs_go_through_a_forward(reach: Reach, api: FakeKubernetesApi) -> None:
    """From outside it is a local port with the Secret's password; messages name the Service."""
    address = _address(reach)
    assert (address.host, address.port) == ("127.0.0.1", api.open_forwards[0])
    assert (address.user, address.password, address.database) == ("postgres", "geheim", "postgres")
    told = pgbench.environment(address)
    assert (told["PGHOST"], told["PGPORT"]) == ("127.0.0.1", str(address.port))
    assert told["PGPASSWORD"] == "geheim"
    assert address.service == ("pg-rw.bench.svc", 5432)


def test_inside_the_cluster_nothing_is_forwarded(reach: Reach, api: FakeKubernetesApi) -> None:
    """A campaign that runs in a pod reaches the service itself."""
    api.is_inside = True
    address = _address(reach)
    assert (address.host, address.port) == ("pg-rw.bench.svc", 5432)
    assert address.service == (address.host, address.port)
    assert not api.forwards


def test_a_forward_is_kept_while_it_works(
    reach: Reach, api: FakeKubernetesApi, sql: FakeSql, clock: FakeClock
) -> None:
    """It is asked again only after some time, not at every statement."""
    ports = set()
    for _ in range(10):
        ports.add(_address(reach).port)
        clock.advance(1.0)
    assert len(ports) == 1
    assert 1 <= len(sql.asked) < 5


def test_a_forward_that_broke_is_made_anew(
    reach: Reach, api: FakeKubernetesApi, sql: FakeSql, clock: FakeClock
) -> None:
    """No answer through it: another one is opened, and the first is closed."""
    first = _address(reach).port
    clock.advance(60.0)
    sql.reachable = False
    second = _address(reach).port
    assert second != first
    assert api.open_forwards == [second]


@pytest.mark.parametrize("is_inside", [False, True])
def test_a_password_that_was_changed_is_read_anew(
    reach: Reach, api: FakeKubernetesApi, sql: FakeSql, clock: FakeClock, *, is_inside: bool
) -> None:
    """Once, and only where the server refuses the one that was known; the way there stays."""
    api.is_inside = is_inside
    sql.password = _address(reach).password
    clock.advance(60.0)
    way = _address(reach)
    data = api.get(SECRET, "user", "bench")["data"]
    data["password"] = "bmV1"
    clock.advance(60.0)
    assert _address(reach).password == "geheim"  # the server still takes it
    sql.password = "neu"
    clock.advance(60.0)
    assert _address(reach) == replace(way, password="neu")
    sql.password = "newer, and not in the Secret"
    clock.advance(60.0)
    asked = len(api.calls)
    assert _address(reach).password == "neu"
    assert len(api.calls) == asked + 1


def test_another_primary_gets_a_forward_of_its_own(reach: Reach, api: FakeKubernetesApi) -> None:
    """After a failover statements go to the pod that has the server now."""
    _address(reach, "pg-1")
    _address(reach, "pg-2")
    assert [where.pod for where, _, _ in api.forwards] == ["pg-1", "pg-2"]
    reach.forget(ContainerRef(namespace="bench", pod="pg-1"))
    assert len(api.open_forwards) == 1


def test_closing_closes_all(reach: Reach, api: FakeKubernetesApi) -> None:
    """No local port stays open."""
    _address(reach, "pg-1")
    _address(reach, "pg-2")
    reach.close()
    assert not api.open_forwards


def _put_service(api: FakeKubernetesApi, **spec: object) -> None:
    api.put(
        SERVICE.manifest(
            "db",
            namespace="bench",
            spec={
                "selector": {"app": "db"},
                "ports": [{"port": 5432, "targetPort": "db"}, {"port": 6000}],
                **spec,
            },
        )
    )


def test_the_pods_of_a_service_are_those_that_are_ready(api: FakeKubernetesApi) -> None:
    """The port is the pod's own, by its name or as the Service has it."""
    _put_service(api)
    put_pod(api, "one", app="db")
    put_pod(api, "two", app="db", ready=False)
    put_pod(api, "three", app="other")
    where = ContainerRef(namespace="bench", pod="one", container="c")
    assert pods_behind(api, "db", "bench") == (PodBehind(where=where, port=5433, node="node1"),)
    assert pods_behind(api, "db", "bench", 6000)[0].port == 6000


def test_a_service_with_several_pods_has_no_server(api: FakeKubernetesApi) -> None:
    """One of three would be changed and watched, and all of them loaded: their names are told."""
    _put_service(api)
    put_pod(api, "db-0", app="db")
    assert pod_behind(api, "db", "bench").where.pod == "db-0"
    put_pod(api, "db-1", app="db")
    with pytest.raises(PreflightError, match=r"2 ready pods are behind .*: db-0, db-1;") as caught:
        pod_behind(api, "db", "bench")
    assert "statefulset.kubernetes.io/pod-name" in caught.value.hint


def test_the_nodes_of_a_service_are_those_of_all_its_pods(api: FakeKubernetesApi) -> None:
    """One that is not ready now may be loaded later, and its machine is the database's, too."""
    _put_service(api)
    put_pod(api, "db-0", app="db")
    put_pod(api, "db-1", app="db", ready=False)
    api.get(POD, "db-1", "bench")["spec"]["nodeName"] = "node2"
    service = ClusterService(service="db", secret="user")
    found = find_server(api, "bench", service, _SECRET)
    assert found.nodes == ("node1", "node2")


_PROXY = {"name": "proxy", "image": "istio"}
_SERVER = {"name": "server", "image": "postgres", "ports": [{"containerPort": 5432}]}
_OTHER = {"name": "server", "image": "postgres", "ports": [{"containerPort": 6000}]}
_POOLER = {"name": "pooler", "image": "pgbouncer", "ports": [{"containerPort": 6000}]}


@pytest.mark.parametrize(
    ("containers", "image"),
    [
        ([_PROXY, _SERVER], "postgres"),
        ([_PROXY, _OTHER], "postgres"),
        ([_POOLER, _SERVER], "postgres"),
        ([{"name": "only", "image": "postgres"}], "postgres"),
        ([_PROXY, {"name": "server", "image": "postgres"}], ""),
    ],
)
def test_the_servers_container_is_the_one_at_the_port(
    api: FakeKubernetesApi, containers: list[dict[str, object]], image: str
) -> None:
    """A proxy that comes first is not it; where nobody says, no image is guessed."""
    _put_service(api)
    put_pod(api, "db-0", app="db")
    api.get(POD, "db-0", "bench")["spec"]["containers"] = containers
    assert pod_behind(api, "db", "bench", 6000).image == image


def test_a_service_that_leads_nowhere_is_refused(api: FakeKubernetesApi) -> None:
    """Each trouble has its sentence: no Service, no such port, no pods, no selector."""
    _put_service(api)
    with pytest.raises(PreflightError, match=r"Service bench/pg is not there; .* has db"):
        pods_behind(api, "pg", "bench")
    with pytest.raises(PreflightError, match="has no port 1; it has 5432, 6000"):
        pods_behind(api, "db", "bench", 1)
    with pytest.raises(PreflightError, match="no ready pod is behind"):
        pods_behind(api, "db", "bench")
    _put_service(api, selector=None)
    with pytest.raises(PreflightError, match="selects no pods"):
        pods_behind(api, "db", "bench")


def test_who_may_not_list_services_is_told_the_rest(api: FakeKubernetesApi) -> None:
    """A right that only a hint needs is not asked for."""
    api.refuse("list", SERVICE)
    with pytest.raises(PreflightError, match=r"Service bench/pg is not there$"):
        pods_behind(api, "pg", "bench")


_NAME = f"steelyard-{CAMPAIGN_ID}-image"


def _make(belongings: Belongings, clock: FakeClock, told: Callable[[str], None]) -> None:
    with image_pod(belongings, "localhost/postgresql:15", clock, told):
        pass


def _waiting(reason: str, message: str = "") -> Callable[[Object], None]:
    def react(pod: Object) -> None:
        state = {"waiting": {"reason": reason, "message": message}}
        pod["status"] = {
            "phase": "Pending",
            "containerStatuses": [{"name": "image", "state": state}],
        }

    return react


def _unschedulable(message: str) -> Callable[[Object], None]:
    def react(pod: Object) -> None:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        pod["status"] = {"phase": "Pending", "conditions": [{**condition, "message": message}]}

    return react


def test_a_pod_that_takes_its_time_is_waited_for(
    belongings: Belongings, api: FakeKubernetesApi, clock: FakeClock
) -> None:
    """An image that is pulled for two minutes is no failure."""
    api.react(POD, _waiting("ContainerCreating"))

    def sleep(seconds: float) -> None:
        clock.advance(seconds)
        if clock.monotonic() > 1120:
            run_pods()(api.get(POD, _NAME, "bench"))

    clock.sleep = sleep  # type: ignore[method-assign]
    _make(belongings, clock, lambda _: None)
    assert clock.monotonic() > 1120


@pytest.mark.parametrize(
    ("reaction", "message", "hint"),
    [
        (_waiting("ImagePullBackOff", "not found"), "cannot be pulled: not found", "image's name"),
        (_waiting("InvalidImageName"), "cannot be pulled: InvalidImageName", "image's name"),
        (
            _waiting("CreateContainerConfigError", 'secret "user" not found'),
            'secret "user" not found',
            "",
        ),
        (
            _unschedulable("0/1 nodes are available: 1 didn't match pod anti-affinity rules"),
            "no node takes it",
            "same_node: true",
        ),
        (
            _unschedulable("0/2 nodes are available: 2 Insufficient cpu"),
            "Insufficient",
            "resources",
        ),
        (
            _unschedulable("pod has unbound immediate PersistentVolumeClaims"),
            "unbound immediate PersistentVolumeClaims",
            "kubectl describe pvc",
        ),
    ],
)
def test_what_keeps_a_pod_from_running_is_told_with_the_way_out(
    belongings: Belongings,
    api: FakeKubernetesApi,
    ledger: ToldLedger,
    clock: FakeClock,
    *,
    reaction: Callable[[Object], None],
    message: str,
    hint: str,
) -> None:
    """The cluster's own words are in the error, and the pod is removed."""
    api.react(POD, reaction)
    told: list[str] = []
    with pytest.raises(PreflightError, match="does not run") as caught:
        _make(belongings, clock, told.append)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert message in told[-1]
    assert not api.list(POD, "bench")
    belongings.remove_all()
    assert not ledger.now


def test_a_pod_that_failed_is_told_with_its_last_lines(
    belongings: Belongings, api: FakeKubernetesApi, clock: FakeClock
) -> None:
    """What the container printed last says why."""

    def fail(pod: Object) -> None:
        ended = {"terminated": {"exitCode": 1}}
        pod["status"] = {
            "phase": "Failed",
            "containerStatuses": [{"name": "image", "state": ended}],
        }

    api.react(POD, fail)
    api.container_logs[_NAME] = "first\nbash: no such file\n"
    with pytest.raises(PreflightError, match=r"ended with status 1.*no such file"):
        _make(belongings, clock, lambda _: None)


@pytest.mark.parametrize(
    "spec", [None, {"unschedulable": True}, {"taints": [{"key": "a", "effect": "NoSchedule"}]}]
)
def test_one_node_is_refused(api: FakeKubernetesApi, spec: dict[str, object] | None) -> None:
    """Database and load need two that take pods: a control plane beside one worker is one node."""
    api.lose(NODE, "node2")
    if spec is not None:
        add_node(api, "node2", **spec)
    with pytest.raises(PreflightError, match="one usable node only: node1") as caught:
        require_node_apart(api, (), tolerant=False)
    assert "same_node: true" in caught.value.hint


@pytest.mark.parametrize("taken", [(), ("node1",)])
def test_two_nodes_are_enough(api: FakeKubernetesApi, taken: Sequence[str]) -> None:
    """For a server that gets one, and for one that has one."""
    require_node_apart(api, taken, tolerant=False)


def test_a_server_on_all_nodes_leaves_none(api: FakeKubernetesApi) -> None:
    """Nodes of a server that is there already are not for its load."""
    with pytest.raises(PreflightError, match="all usable nodes are: node1, node2"):
        require_node_apart(api, ("node1", "node2"), tolerant=False)


def test_who_may_not_list_nodes_lets_the_scheduler_say_it(api: FakeKubernetesApi) -> None:
    """An account of one namespace sees no nodes, and is not refused for that."""
    api.lose(NODE, "node2")
    api.refuse("list", NODE)
    require_node_apart(api, (), tolerant=False)
