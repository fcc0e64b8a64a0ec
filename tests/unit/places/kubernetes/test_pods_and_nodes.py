"""Pods that are waited for, with what keeps them from running; and nodes that the load may have."""

from collections.abc import Callable, Sequence

import pytest

from fakes.belonging import CAMPAIGN_ID, ToldLedger, add_node
from fakes.clock import FakeClock
from fakes.kubernetes_api import FakeKubernetesApi, run_pods
from fakes.kubernetes_objects import Object
from steelyard.core.kubernetes import NODE, POD
from steelyard.core.wording import PreflightError
from steelyard.places.kubernetes.belongings import Belongings
from steelyard.places.kubernetes.nodes import require_node_apart
from steelyard.places.kubernetes.pods import image_pod

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
    "spec",
    [None, {"unschedulable": True}, {"taints": [{"key": "a", "effect": "NoSchedule"}]}],
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
