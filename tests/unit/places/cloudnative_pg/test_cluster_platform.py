"""Clusters of a campaign: made, changed by rollouts that are really over, and taken away whole."""

from collections.abc import Callable

import pytest

from fakes.programs import FakeProgram
from steelyard.core.kubernetes import CLAIM, CLUSTER, CONFIG_MAP, POD, STORAGE_CLASS, VOLUME
from steelyard.core.outside import ServerAddress
from steelyard.core.places import Synchronous
from steelyard.core.target import CloudNativePgTarget
from steelyard.core.wording import InputError, LeftBehindError, PreflightError, TargetError
from steelyard.places.kubernetes.undoing import undo
from steelyard.systems.postgres.cloudnative_pg import operator
from steelyard.systems.postgres.cloudnative_pg.own_cluster import CloudNativePgPlatform
from support.cluster_world import World, make_world

_PROGRAM = FakeProgram()


def _build(address: ServerAddress) -> None:
    assert (address.user, address.password) == ("postgres", "planted")
    assert address.service is not None


def _started(world: World, platform: CloudNativePgPlatform, **settings: str) -> None:
    """Prepare once and start with settings."""
    state = platform.prepare(_PROGRAM, ["data"], _build)
    assert world.operator.servers
    platform.start(state, _PROGRAM, settings)


def _server(world: World) -> dict[str, str]:
    """Return the settings that the only server runs with."""
    (server,) = world.operator.servers.values()
    return server.running


def test_a_cluster_is_made_announced_first_and_everything_goes_at_the_end(world: World) -> None:
    """It is healthy when the data are built, and Cluster, pods, claims and volumes go with it."""
    platform = world.platform()
    platform.require_ready()
    _started(world, platform, work_mem="8MB")
    verbs = [verb for verb, thing in world.ledger.in_cluster if thing.ref.kind.name == "Cluster"]
    assert verbs == ["placed"]
    assert platform.is_running
    name: str = platform.manifest(1)["metadata"]["name"]
    assert platform.address.service == (
        "steelyard-night-" + name.removeprefix("steelyard-night-") + "-rw.bench.svc",
        5432,
    )
    platform.destroy()
    for kind in (CLUSTER, POD, CLAIM, VOLUME):
        assert world.api.list(kind) == (), kind.name
    assert {thing.ref.kind.name for thing in world.left} == {"ConfigMap"}  # the anchor is shared
    assert world.ledger.open == set()
    platform.destroy()  # a second time is no error


def test_progress_is_told_without_repeating_itself(world: World) -> None:
    """Each new phase is a sentence, none comes twice in a row."""
    _started(world, world.platform(), work_mem="8MB")
    assert any("is made: a Cluster on fast" in each for each in world.told)
    assert any("Setting up primary" in each for each in world.told)
    assert all(one != other for one, other in zip(world.told, world.told[1:], strict=False))


def test_every_start_restarts_where_the_campaign_needs_it(world: World) -> None:
    """Equal settings twice are two restarts, and the server runs with what was asked for."""
    platform = world.platform()
    starts = []
    for settings in ({"work_mem": "8MB"}, {"work_mem": "8MB"}, {"max_connections": "50"}):
        _started(world, platform, **settings)
        starts.append(next(iter(world.operator.servers.values())).starts)
    assert starts == sorted(set(starts))
    assert _server(world)["max_connections"] == "50"
    assert "work_mem" not in _server(world) or not _server(world)["work_mem"]


def test_a_start_is_over_when_every_pod_is_new_and_sees_the_change(world: World) -> None:
    """Nothing is taken to be in force while a pod is the old one or a session sees the old file."""
    platform = world.platform(CloudNativePgTarget(instances=2))
    _started(world, platform, work_mem="8MB")
    before = {pod["metadata"]["uid"] for pod in world.api.list(POD, "bench")}
    _started(world, platform, work_mem="9MB")
    after = {pod["metadata"]["uid"] for pod in world.api.list(POD, "bench")}
    assert not before & after
    (server,) = world.operator.servers.values()
    change = server.loaded[operator.CHANGE]
    annotations = [pod["metadata"]["annotations"] for pod in world.api.list(POD, "bench")]
    assert [each["kubectl.kubernetes.io/restartedAt"] for each in annotations] == [change] * 2


def test_a_primary_that_moved_is_followed(world: World) -> None:
    """After a switchover the way leads to the other pod, and that it moved is told."""
    platform = world.platform(CloudNativePgTarget(instances=2))
    _started(world, platform, work_mem="8MB")
    world.operator.moves = True
    _started(world, platform, work_mem="9MB")
    sight = platform.sight()
    assert sight is not None
    assert sight.database.pod.endswith("-2")
    assert platform.is_running
    codes = [finding.code for finding in platform.findings()]
    assert "database-moved" in codes
    assert len(world.api.open_forwards) == 1


def test_settings_change_without_a_restart_where_none_is_needed(world: World) -> None:
    """A reload is enough: same pods, same start, the new value in force, nothing left to read."""
    platform = world.platform(restarts=False)
    _started(world, platform, work_mem="8MB")
    (server,) = world.operator.servers.values()
    starts = server.starts
    assert platform.configure({"work_mem": "9MB"}) is False
    assert (_server(world)["work_mem"], server.starts) == ("9MB", starts)
    assert platform.is_running


def test_a_restart_by_the_operator_itself_is_waited_for(world: World) -> None:
    """Without restarts of ours a setting that needs one comes into force by the operator's."""
    platform = world.platform(restarts=False)
    _started(world, platform, max_connections="50")
    assert _server(world)["max_connections"] == "50"
    assert platform.is_running


def test_a_server_that_restarted_by_itself_is_noticed(world: World) -> None:
    """Another start time is another server, and so is none."""
    platform = world.platform()
    _started(world, platform, work_mem="8MB")
    (server,) = world.operator.servers.values()
    server.starts += 1
    assert not platform.is_running
    server.starts -= 1
    assert platform.is_running
    (pod,) = world.api.list(POD, "bench")
    world.api.lose(POD, pod["metadata"]["name"], "bench")
    assert not platform.is_running


def test_settings_that_the_server_does_not_start_with_go_back(world: World) -> None:
    """The error says what the server said, and the last settings that worked are in force."""
    platform = world.platform()
    _started(world, platform, max_connections="50")
    world.operator.refused = {"9999"}
    with pytest.raises(TargetError, match="does not take max_connections = 9999") as caught:
        _started(world, platform, max_connections="9999")
    assert "too many connections" in caught.value.message
    assert "runs with the settings before" in caught.value.hint
    assert _server(world)["max_connections"] == "50"
    assert not platform.is_running  # no configuration is in force
    _started(world, platform, max_connections="60")
    assert platform.is_running


def test_a_standby_that_starts_before_its_primary_is_waited_for(world: World) -> None:
    """With fewer connections than the primary still has it ends; that refuses nothing."""
    platform = world.platform(CloudNativePgTarget(instances=2))
    _started(world, platform, max_connections="100")
    world.operator.hurries = 40  # longer than anybody waits for the words of a refused one
    _started(world, platform, max_connections="50")
    assert not world.operator.hurries
    assert _server(world)["max_connections"] == "50"


def test_a_value_that_is_read_and_not_taken_goes_back(world: World) -> None:
    """A reload that leaves a setting as it was is no success."""
    platform = world.platform(restarts=False)
    _started(world, platform, work_mem="8MB")
    world.operator.ignored = {"abc"}
    with pytest.raises(TargetError, match="cannot apply work_mem = abc"):
        platform.configure({"work_mem": "abc"})
    assert _server(world)["work_mem"] == "8MB"


def test_settings_that_the_operator_refuses_change_nothing(world: World) -> None:
    """A webhook's refusal comes as the error of the target, with its words."""
    platform = world.platform()
    _started(world, platform, work_mem="8MB")
    world.api.reject(CLUSTER, InputError("Memory request is lower than shared_buffers"))
    with pytest.raises(TargetError, match="Memory request is lower"):
        _started(world, platform, work_mem="9MB")
    assert _server(world)["work_mem"] == "8MB"


def test_each_start_has_a_cluster_of_its_own_where_targets_differ(world: World) -> None:
    """The last one is gone with its volumes before the next is made, under another name."""
    platform = world.platform(provisions=True, restarts=False)
    names = []
    for _ in range(3):
        platform.stop(keep_data=False)
        assert world.api.list(VOLUME) == ()
        state = platform.reprovision(_PROGRAM, ["data"], _build)
        (cluster,) = world.api.list(CLUSTER)
        names.append(cluster["metadata"]["name"])
        server = world.operator.servers[names[-1]]
        starts = server.starts
        platform.start(state, _PROGRAM, {"work_mem": "8MB"})
        assert world.operator.servers[names[-1]].starts == starts + 1  # no warm buffers
    assert len(set(names)) == 3
    platform.destroy()
    assert world.api.list(CLUSTER) == ()


def test_a_server_for_the_whole_campaign_is_left_alone_between_starts(world: World) -> None:
    """Stopping keeps the Cluster; no configuration is in force then."""
    platform = world.platform()
    _started(world, platform, work_mem="8MB")
    platform.stop(keep_data=False)
    assert len(world.api.list(CLUSTER)) == 1
    assert not platform.is_running
    with pytest.raises(TargetError, match="no configuration is in force"):
        _ = platform.address


def test_a_cluster_that_never_became_healthy_goes_as_well(world: World) -> None:
    """What was made and announced is removed, whatever became of it."""
    platform = world.platform()
    world.operator.stuck = True
    with pytest.raises(TargetError, match="is not healthy after"):
        platform.prepare(_PROGRAM, ["data"], _build)
    assert len(world.api.list(CLUSTER)) == 1
    platform.destroy()
    assert world.api.list(CLUSTER) == ()


def test_volumes_that_stay_are_told_and_left(world: World) -> None:
    """A class that retains leaves its volume: it is named, and nobody deletes it."""
    world.operator.policy = "Retain"
    platform = world.platform()
    _started(world, platform, work_mem="8MB")
    platform.destroy()
    (volume,) = world.api.list(VOLUME)
    (finding,) = [each for each in platform.findings() if each.code == "volume-retained"]
    assert volume["metadata"]["name"] in finding.message


def test_volumes_that_do_not_go_are_an_error(world: World) -> None:
    """A volume that is to be deleted and stays is named, after a while."""
    platform = world.platform()
    _started(world, platform, work_mem="8MB")
    world.operator.stuck = True
    with pytest.raises(LeftBehindError, match=r"PersistentVolume pvc-.* did not go away"):
        platform.destroy()
    assert world.ledger.open == set()


def test_an_account_without_volumes_sees_none(world: World) -> None:
    """Without the right to read volumes nothing fails, and nothing is said of them."""
    world.api.refuse("get", VOLUME)
    platform = world.platform()
    _started(world, platform, work_mem="8MB")
    platform.destroy()
    assert world.api.list(CLUSTER) == ()


def test_a_foreign_cluster_of_that_name_is_never_deleted(world: World) -> None:
    """What does not carry the campaign's label stays, and is named."""
    platform = world.platform()
    _started(world, platform, work_mem="8MB")
    (cluster,) = world.api.list(CLUSTER)
    held = world.api.get(CLUSTER, cluster["metadata"]["name"], "bench")
    held["metadata"]["labels"]["steelyard/campaign"] = "another"
    with pytest.raises(LeftBehindError, match="does not carry the label"):
        platform.destroy()
    assert len(world.api.list(CLUSTER)) == 1


def test_facts_say_where_the_server_is_and_outlive_it(world: World) -> None:
    """Operator, node, class of service, volumes and standbys are known, also after the end."""
    platform = world.platform(CloudNativePgTarget(instances=2, synchronous=Synchronous()))
    _started(world, platform, work_mem="8MB")
    platform.destroy()
    facts = {fact.name: fact.value for fact in platform.facts()}
    assert facts["operator"] == "1.27.0"
    assert (facts["node of the primary"], facts["nodes of the standbys"]) == ("node1", "node2")
    assert facts["QoS class"] == "Guaranteed"
    assert facts["standbys"] == "standby-0: streaming, quorum"
    assert facts["class"] == "fast"


def test_instances_on_one_node_are_a_finding(world: World) -> None:
    """Two instances that share a node share its fate: that is told."""
    platform = world.platform(CloudNativePgTarget(instances=2))
    _started(world, platform, work_mem="8MB")
    assert "instances-share-node" not in [each.code for each in platform.findings()]
    for pod in world.api.list(POD, "bench"):
        world.api.get(POD, pod["metadata"]["name"], "bench")["spec"]["nodeName"] = "node1"
    state = platform.prepare(_PROGRAM, ["data"], _build)
    platform.start(state, _PROGRAM, {"work_mem": "9MB"})
    assert "instances-share-node" in [each.code for each in platform.findings()]


def test_a_class_that_binds_early_is_a_finding(world: World) -> None:
    """A class of node-bound volumes that does not wait for the pod decides where it runs."""
    for binding, found in (("Immediate", True), ("WaitForFirstConsumer", False)):
        world.api.put(
            STORAGE_CLASS.manifest(
                "fast", provisioner="rancher.io/local-path", volumeBindingMode=binding
            )
        )
        codes = [each.code for each in world.platform().findings()]
        assert ("volume-before-pod" in codes) == found


def test_what_can_be_known_before_is_refused_before(world: World) -> None:
    """An absent operator, a misspelt field and a setting of the operator's own make nothing."""
    target = CloudNativePgTarget(affinity='{"podAntiAfinity": 1}')
    with pytest.raises(InputError, match="podAntiAfinity"):
        world.platform(target).require_ready()
    world.api.kinds.discard(CLUSTER)
    with pytest.raises(PreflightError, match="not installed"):
        world.platform().require_ready()
    assert world.ledger.in_cluster == []


def test_data_come_back_on_the_running_server(world: World) -> None:
    """The engine's templates are the only means, and a copy is there once it was built."""
    platform = world.platform()
    state = platform.prepare(_PROGRAM, ["data"], _build)
    assert platform.means() == ("template",)
    assert platform.has_live_copy(state)
    assert platform.find(_PROGRAM, ["data"]) == state
    assert (state.size_bytes, platform.restore(state, "template")) == (42, 0.0)
    platform.destroy()
    assert not platform.has_live_copy(state)


class _Died(BaseException):
    """Stands for ``kill -9`` between two requests."""


def _die_after(world: World, changes: int) -> None:
    """Let the process die before a request that changes something."""
    left = [changes]

    def deadly(real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **named: object) -> object:
            if left[0] == 0:
                raise _Died
            left[0] -= 1
            return real(*args, **named)

        return call

    for verb in ("apply", "patch", "delete"):
        setattr(world.api, verb, deadly(getattr(world.api, verb)))


def _live_through(world: World) -> bool:
    """Go through a campaign's steps; return whether nobody died."""
    platform = world.platform()
    try:
        _started(world, platform, work_mem="8MB")
        _started(world, platform, work_mem="9MB")
        platform.destroy()
    except _Died:
        return False
    return True


@pytest.mark.usefixtures("world")  # for its cache
def test_a_death_before_any_change_leaves_only_what_the_ledger_names() -> None:
    """Killed before any request that changes something, the ledger is enough to undo it all."""
    for step in range(60):
        world = make_world()
        _die_after(world, step)
        survived = _live_through(world)
        for verb in ("apply", "patch", "delete"):
            delattr(world.api, verb)  # the next session lives
        for thing in reversed(world.left):
            undo(thing, world.api, clock=world.clock)
            undo(thing, world.api, clock=world.clock)  # a second time is no error
        world.means.reach.close()
        for kind in (CLUSTER, POD, CLAIM, CONFIG_MAP):
            assert world.api.list(kind) == (), (step, kind.name)
        if survived:
            assert step > 3
            return
    pytest.fail("it never came to an end")
