"""Load generators in pods: made, diagnosed, and made anew."""

import pytest

from fakes.clock import FakeClock
from fakes.generator_pods import CAMPAIGN_ID, ToldLedger, add_node, plan_of
from fakes.kubernetes_api import FakeKubernetesApi, run_pods
from fakes.kubernetes_objects import Object
from steelyard.core.kubernetes import NODE, POD, ContainerRef
from steelyard.core.target import GeneratorPods as Asked
from steelyard.core.target import KubernetesPlace
from steelyard.core.wording import MeasurementError, PreflightError, TargetError
from steelyard.places.kubernetes.belongings import Belongings
from steelyard.places.kubernetes.generators import GeneratorPods

_AWAY = {"away_from": {"cnpg.io/cluster": "c"}}


def _generators(belongings: Belongings, clock: FakeClock, number: int = 1, **changed: object):  # noqa: ANN202 - obvious
    return GeneratorPods(plan_of(number, **changed), belongings, belongings.api, clock)


def _waiting(reason: str, message: str = ""):  # noqa: ANN202 - a reaction
    def react(pod: Object) -> None:
        state = {"waiting": {"reason": reason, "message": message}}
        pod["status"] = {
            "phase": "Pending",
            "containerStatuses": [{"name": "generator", "state": state}],
        }

    return react


def _unschedulable(message: str):  # noqa: ANN202 - a reaction
    def react(pod: Object) -> None:
        pod["status"] = {
            "phase": "Pending",
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": message,
                }
            ],
        }

    return react


def test_pods_are_ready_in_the_order_of_their_commands(
    belongings: Belongings, api: FakeKubernetesApi, clock: FakeClock
) -> None:
    """Each has its node, and progress is told."""
    api.react(POD, run_pods("node2"))
    told: list[str] = []
    generators = _generators(belongings, clock, 2)
    generators.make(told.append)
    names = [f"steelyard-{CAMPAIGN_ID}-generator-{number}" for number in (0, 1)]
    assert [pod.pod for pod in generators.pods] == names
    assert isinstance(generators.pods[0], ContainerRef)
    assert generators.nodes == ("node2", "node2")
    assert told == ["starting 2 load generators in pods"]


def test_a_pod_that_takes_its_time_is_waited_for(
    belongings: Belongings, api: FakeKubernetesApi, clock: FakeClock
) -> None:
    """An image that is pulled for two minutes is no failure."""
    api.react(POD, _waiting("ContainerCreating"))
    name = f"steelyard-{CAMPAIGN_ID}-generator-0"

    def sleep(seconds: float) -> None:
        clock.advance(seconds)
        if clock.monotonic() > 1120:
            run_pods()(api.get(POD, name, "bench"))

    clock.sleep = sleep  # type: ignore[method-assign]
    generators = _generators(belongings, clock)
    generators.make(lambda _: None)
    assert len(generators.pods) == 1
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
    reaction: object,
    message: str,
    hint: str,
) -> None:
    """The cluster's own words are in the error, and the pod is removed."""
    api.react(POD, reaction)  # type: ignore[arg-type]
    told: list[str] = []
    with pytest.raises(PreflightError, match="does not run") as caught:
        _generators(belongings, clock).make(told.append)
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
            "containerStatuses": [{"name": "generator", "state": ended}],
        }

    api.react(POD, fail)
    api.container_logs[f"steelyard-{CAMPAIGN_ID}-generator-0"] = "first\nbash: no such file\n"
    with pytest.raises(PreflightError, match=r"ended with status 1.*no such file"):
        _generators(belongings, clock).make(lambda _: None)


def test_an_image_without_a_numeric_user_is_started_as_one(
    belongings: Belongings, api: FakeKubernetesApi, clock: FakeClock
) -> None:
    """The kubelet refuses a user that it cannot know not to be root; then the pod says one."""

    def react(pod: Object) -> None:
        if "runAsUser" in pod["spec"]["securityContext"]:
            run_pods()(pod)
        else:
            why = "container has runAsNonRoot and image will run as root"
            _waiting("CreateContainerConfigError", why)(pod)

    api.react(POD, react)
    generators = _generators(belongings, clock)
    generators.make(lambda _: None)
    (pod,) = api.list(POD, "bench")
    assert pod["spec"]["securityContext"]["runAsUser"] == 26
    assert pod["metadata"]["name"] == generators.pods[0].pod


def test_one_node_is_refused_before_anything_is_made(
    belongings: Belongings, api: FakeKubernetesApi, ledger: ToldLedger, clock: FakeClock
) -> None:
    """Database and load need two nodes; the way out is in the hint."""
    api.lose(NODE, "node2")
    with pytest.raises(PreflightError, match="one usable node only: node1") as caught:
        _generators(belongings, clock, **_AWAY).make(lambda _: None)
    assert "same_node: true" in caught.value.hint
    assert not ledger.placements


@pytest.mark.parametrize(
    "spec",
    [{"unschedulable": True}, {"taints": [{"key": "a", "effect": "NoSchedule"}]}],
)
def test_a_node_that_takes_no_pods_does_not_count(
    belongings: Belongings, api: FakeKubernetesApi, clock: FakeClock, spec: dict[str, object]
) -> None:
    """A control plane beside one worker is one node."""
    api.lose(NODE, "node2")
    add_node(api, "node2", **spec)
    with pytest.raises(PreflightError, match="one usable node only"):
        _generators(belongings, clock, **_AWAY).make(lambda _: None)


def test_a_server_on_all_nodes_leaves_none(belongings: Belongings, clock: FakeClock) -> None:
    """Nodes of a server that is there already are not for its load."""
    nodes = ("node1", "node2")
    with pytest.raises(PreflightError, match="all usable nodes are: node1, node2"):
        _generators(belongings, clock, away_from_nodes=nodes).make(lambda _: None)


def test_one_node_is_enough_where_it_is_asked_for(
    belongings: Belongings, api: FakeKubernetesApi, clock: FakeClock
) -> None:
    """With `same_node: true` nobody counts nodes."""
    api.lose(NODE, "node2")
    api.react(POD, run_pods())
    place = KubernetesPlace(generators=Asked(same_node=True))
    generators = _generators(belongings, clock, place=place, **_AWAY)
    generators.make(lambda _: None)
    assert len(generators.pods) == 1


def test_who_may_not_list_nodes_lets_the_scheduler_say_it(
    belongings: Belongings, api: FakeKubernetesApi, clock: FakeClock
) -> None:
    """An account of one namespace sees no nodes, and is not refused for that."""
    api.lose(NODE, "node2")
    api.refuse("list", NODE)
    api.react(POD, run_pods())
    generators = _generators(belongings, clock, **_AWAY)
    generators.make(lambda _: None)
    assert len(generators.pods) == 1


def test_a_lost_pod_is_made_anew_under_another_name(
    belongings: Belongings, api: FakeKubernetesApi, clock: FakeClock
) -> None:
    """One of two is replaced in its place, the other stays."""
    api.react(POD, run_pods())
    generators = _generators(belongings, clock, 2)
    generators.make(lambda _: None)
    first, second = generators.pods
    api.lose(POD, first.pod, "bench")
    told: list[str] = []
    generators.renew(told.append)
    anew, same = generators.pods
    assert same == second
    assert anew.pod not in {first.pod, second.pod}
    assert "was deleted; it is made anew" in told[0]


def test_nothing_is_made_while_all_are_there(
    belongings: Belongings, api: FakeKubernetesApi, clock: FakeClock
) -> None:
    """Looking costs a read of each pod."""
    api.react(POD, run_pods())
    generators = _generators(belongings, clock)
    generators.make(lambda _: None)
    before = len(api.labels_of("apply"))
    generators.renew(lambda _: None)
    assert len(api.labels_of("apply")) == before


def test_a_pod_that_cannot_be_made_anew_is_a_failed_run(
    belongings: Belongings, api: FakeKubernetesApi, clock: FakeClock
) -> None:
    """A drained node invalidates runs; the campaign tries again, and may be resumed."""
    api.react(POD, run_pods())
    generators = _generators(belongings, clock)
    generators.make(lambda _: None)
    api.lose(POD, generators.pods[0].pod, "bench")
    api.react(POD, _unschedulable("0/1 nodes are available"))
    with pytest.raises(MeasurementError, match="cannot be made anew"):
        generators.renew(lambda _: None)


def test_renewing_before_making_is_an_error(belongings: Belongings, clock: FakeClock) -> None:
    """Nobody runs anything in pods that were never asked for."""
    with pytest.raises(TargetError, match="no load generator"):
        _generators(belongings, clock).renew(lambda _: None)


def test_closing_removes_the_pods(
    belongings: Belongings, api: FakeKubernetesApi, ledger: ToldLedger, clock: FakeClock
) -> None:
    """The agent stays for other generators of the campaign; with that all is gone."""
    api.react(POD, run_pods())
    generators = _generators(belongings, clock, 2)
    generators.make(lambda _: None)
    generators.close()
    assert not api.list(POD, "bench")
    belongings.remove_all()
    assert not ledger.now


def test_two_kinds_of_generators_of_one_campaign_do_not_meet(
    belongings: Belongings, api: FakeKubernetesApi, clock: FakeClock
) -> None:
    """A pod of a moment, to look into an image, has a name of its own."""
    api.react(POD, run_pods())
    generators = [_generators(belongings, clock), _generators(belongings, clock)]
    for each in generators:
        each.make(lambda _: None)
    first, second = (each.pods[0] for each in generators)
    assert first != second
    generators[0].close()
    assert [each["metadata"]["name"] for each in api.list(POD, "bench")] == [second.pod]
