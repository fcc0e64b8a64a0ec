"""Redis servers of a campaign: made, started anew for each configuration, and taken away whole."""

import base64
import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fakes.doors import fake_doors
from fakes.kubernetes_api import FakeKubernetesApi
from fakes.processes import FakeProcesses
from fakes.programs import FakeLedger, SmallRedis
from fakes.stateful_sets import ControllersClock, FakeSets
from steelyard.core.kubernetes import (
    CLAIM,
    NAMESPACE,
    POD,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    VOLUME,
    ContainerRef,
    SecretRef,
)
from steelyard.core.outside import InCluster, ServerAddress
from steelyard.core.target import RedisKubernetesTarget
from steelyard.core.wording import LeftBehindError, TargetError
from steelyard.places.kubernetes.belongings import Belongings
from steelyard.places.kubernetes.made_server import MadeMeans
from steelyard.places.kubernetes.reaching import Reach, make_secret, redis_knock
from steelyard.places.kubernetes.undoing import undo
from steelyard.systems.redis.statefulset.own_server import (
    CHANGE,
    RedisKubernetesPlatform,
    StatefulSetOptions,
    secret_manifest,
)


@dataclass(kw_only=True)
class RedisWorld:
    """Everything that a platform of Redis servers in a cluster touches."""

    api: FakeKubernetesApi
    sets: FakeSets
    ledger: FakeLedger
    means: MadeMeans
    secret: SecretRef
    told: list[str] = field(default_factory=list)

    def platform(
        self, target: RedisKubernetesTarget | None = None, *, provisions: bool = False
    ) -> RedisKubernetesPlatform:
        """Return the platform of a target."""
        options = StatefulSetOptions(
            target=target or RedisKubernetesTarget(storage_class="fast"),
            campaign_id="night",
            namespace="bench",
            secret=self.secret,
            provisions=provisions,
        )
        return RedisKubernetesPlatform(options, self.ledger, self.means)

    @property
    def left(self) -> list[InCluster]:
        """Return what the ledger holds and is not undone."""
        gone = [thing for verb, thing in self.ledger.in_cluster if verb == "taken away"]
        placed = [thing for verb, thing in self.ledger.in_cluster if verb == "placed"]
        return [thing for thing in placed if placed.count(thing) > gone.count(thing)]


def make_redis_world() -> RedisWorld:
    """Return a cluster with a namespace, a Secret, and a controller that runs sets."""
    clock = ControllersClock()
    api = FakeKubernetesApi(clock=clock)
    api.put(NAMESPACE.manifest("bench"))
    sets, ledger, told = FakeSets(api=api, clock=clock), FakeLedger(), list[str]()
    processes = FakeProcesses(clock)
    belongings = Belongings(api, ledger, "night", "bench", clock=clock)
    means = MadeMeans(
        api=api,
        doors=fake_doors(clock, processes=processes, redis=sets),
        reach=Reach(api, redis_knock(sets), clock),
        belongings=belongings,
        told=told.append,
    )
    secret = make_secret(belongings, secret_manifest)
    return RedisWorld(api=api, sets=sets, ledger=ledger, means=means, secret=secret, told=told)


_PROGRAM = SmallRedis()
_OWN = (STATEFUL_SET, SERVICE, POD, CLAIM, VOLUME)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RedisWorld:
    """Return a cluster with a campaign's means, whose cache is the test's own."""
    monkeypatch.setenv("STEELYARD_CACHE", str(tmp_path))
    return make_redis_world()


def _build(address: ServerAddress) -> None:
    assert address.user == "steelyard"
    assert address.service is not None


def _started(platform: RedisKubernetesPlatform, **settings: str) -> None:
    """Prepare once and start with settings, on data that were brought back."""
    state = platform.prepare(_PROGRAM, ["data"], _build)
    platform.restore(state, platform.means()[0])
    asked = {name.replace("_", "-"): value for name, value in settings.items()}
    platform.start(state, _PROGRAM, asked)


def test_a_server_is_made_announced_first_and_everything_goes_at_the_end(world: RedisWorld) -> None:
    """Set, Services, pod, claim and volume go; each was in the ledger before it was there."""
    platform = world.platform()
    _started(platform, appendonly="yes")
    kinds = [thing.ref.kind.name for verb, thing in world.ledger.in_cluster if verb == "placed"]
    assert kinds == ["ConfigMap", "Secret", "Service", "Service", "StatefulSet"]
    assert platform.is_running
    host, port = platform.address.service or ("", 0)
    assert host.startswith("steelyard-night-")
    assert (host.rpartition("-")[2], port) == ("rw.bench.svc", 6379)
    platform.destroy()
    for kind in _OWN:
        assert world.api.list(kind) == (), kind.name
    assert {thing.ref.kind.name for thing in world.left} == {"ConfigMap", "Secret"}
    assert world.ledger.open == set()
    assert world.api.open_forwards == []
    platform.destroy()  # a second time is no error


def test_no_manifest_but_the_secret_holds_the_password(world: RedisWorld) -> None:
    """What the server's pod gets is the digest, in a file; no object says the password in clear."""
    _started(world.platform(), appendonly="yes")
    kept = world.api.get(SECRET, world.secret.name, "bench")["data"]
    password = base64.b64decode(kept["password"]).decode()
    users = base64.b64decode(kept["users.acl"]).decode()
    assert len(password) > 20
    assert password not in users
    others = [call.body for call in world.api.calls if not call.label.startswith("Secret")]
    assert password not in json.dumps(others, default=str)
    lines = users.splitlines()
    assert lines[0].startswith("user default on nopass ")
    assert "-@admin" in lines[0]
    assert lines[1].startswith("user steelyard on #")


def test_each_start_is_a_new_pod_with_its_own_settings_and_the_data_brought_back(
    world: RedisWorld,
) -> None:
    """What a configuration does not ask is as by default; a word for a restore comes once."""
    platform = world.platform()
    _started(platform, appendonly="yes", appendfsync="always")
    first = world.api.list(POD, "bench")[0]["metadata"]["uid"]
    _started(platform, save="")
    (pod,) = world.api.list(POD, "bench")
    assert pod["metadata"]["uid"] != first
    made, one, two = world.sets.starts
    assert 'appendonly "no"' in made["STEELYARD_SETTINGS"].splitlines()
    assert 'appendfsync "always"' in one["STEELYARD_SETTINGS"].splitlines()
    lines = two["STEELYARD_SETTINGS"].splitlines()
    assert 'save ""' in lines
    assert not [line for line in lines if line.startswith("append")]
    words = [each["STEELYARD_RESTORE"] for each in (made, one, two)]
    assert words[0] == ""
    assert len(set(words)) == 3
    assert pod["metadata"]["annotations"][CHANGE] == words[2]
    assert len(world.api.list(VOLUME)) == 1


def test_a_start_without_a_restore_keeps_the_data(world: RedisWorld) -> None:
    """Data that no workload changed are carried along: the second start brings nothing back."""
    platform = world.platform()
    _started(platform)
    state = platform.prepare(_PROGRAM, ["data"], _build)
    assert platform.has_live_copy(state)
    platform.start(state, _PROGRAM, {"appendonly": "yes"})
    assert world.sets.starts[-1]["STEELYARD_RESTORE"] == ""


def test_a_pod_of_an_older_state_of_the_set_is_not_taken(world: RedisWorld) -> None:
    """The cluster may make the pod as the set was before: that one is deleted, too."""
    platform = world.platform()
    _started(platform, appendonly="no")
    world.sets.stale = 1
    _started(platform, appendonly="yes")
    (pod,) = world.api.list(POD, "bench")
    assert pod["metadata"]["annotations"][CHANGE] == world.sets.starts[-1]["STEELYARD_RESTORE"]
    assert 'appendonly "yes"' in world.sets.starts[-1]["STEELYARD_SETTINGS"].splitlines()


def test_a_server_that_came_up_again_by_itself_is_not_the_one_in_force(world: RedisWorld) -> None:
    """A crash is noticed though the pod is ready again: the program says which start it is."""
    platform = world.platform()
    _started(platform)
    assert platform.is_running
    world.sets.crash()
    assert not platform.is_running


def test_a_refused_setting_is_told_in_the_servers_words_and_the_next_start_works(
    world: RedisWorld,
) -> None:
    """The line and the reason are in the message; no pod waits out the pauses of a crash loop."""
    world.sets.refused.add('maxmemory "much"')
    platform = world.platform()
    with pytest.raises(TargetError, match="argument must be a memory value") as caught:
        _started(platform, maxmemory="much")
    assert "'maxmemory \"much\"'" in caught.value.message
    assert not platform.is_running
    _started(platform, maxmemory="100mb")
    assert platform.is_running


def test_a_pod_that_may_not_be_made_is_told_with_the_clusters_reason(world: RedisWorld) -> None:
    """A quota shows in no pod, because there is none; the set's events say it."""
    world.sets.stuck = "exceeded quota: tight, requested: limits.memory=1Gi"
    platform = world.platform()
    with pytest.raises(TargetError, match="exceeded quota: tight"):
        platform.prepare(_PROGRAM, ["data"], _build)
    platform.destroy()
    assert world.api.list(STATEFUL_SET) == ()


def test_a_server_for_each_start_has_a_volume_of_its_own(world: RedisWorld) -> None:
    """Where targets differ the last server is gone, volume and all, before the next is made."""
    platform = world.platform(provisions=True)
    seen = []
    for _ in range(2):
        platform.stop(keep_data=False)
        assert world.api.list(VOLUME) == ()
        state = platform.reprovision(_PROGRAM, ["data"], _build)
        platform.start(state, _PROGRAM, {"appendonly": "yes"})
        assert world.sets.starts[-1]["STEELYARD_RESTORE"]  # as the other arms: on copied data
        seen.append(world.api.list(VOLUME)[0]["metadata"]["name"])
    assert len(set(seen)) == 2
    assert len(set(_names(world))) == 2


def _names(world: RedisWorld) -> list[str]:
    applied = [call for call in world.api.calls if call.verb == "apply"]
    return [call.label for call in applied if call.label.startswith("StatefulSet")]


def test_a_volume_that_its_class_keeps_is_told(world: RedisWorld) -> None:
    """It is not waited for, and the finding says how to remove it."""
    world.sets.policy = "Retain"
    platform = world.platform()
    _started(platform)
    platform.destroy()
    (finding,) = platform.findings()
    assert finding.code == "volume-retained"
    assert "kubectl delete pv pvc-1" in finding.remedy


def test_what_a_dead_campaign_left_is_undone_by_its_ledger(world: RedisWorld) -> None:
    """Set, Services, pod, claim and volume go by what was noted before the death."""
    _started(world.platform(), appendonly="yes")
    for thing in reversed(world.left):
        undo(thing, world.api, clock=world.means.doors.clock)
    world.sets.step()
    for kind in (*_OWN, SECRET):
        assert world.api.list(kind, "bench" if kind.namespaced else "") == (), kind.name


def test_a_set_without_the_label_is_left_alone(world: RedisWorld) -> None:
    """Somebody else's set of that name is not deleted, and that is told."""
    platform = world.platform()
    _started(platform)
    (name,) = {each["metadata"]["name"] for each in world.api.list(STATEFUL_SET)}
    del world.api.get(STATEFUL_SET, name, "bench")["metadata"]["labels"]
    with pytest.raises(LeftBehindError, match="does not carry the label"):
        platform.destroy()
    assert world.api.list(STATEFUL_SET) != ()


def test_the_pods_of_a_run_can_be_watched(world: RedisWorld) -> None:
    """The database's container is the server's, on its node; without a server there is none."""
    platform = world.platform()
    assert platform.sight() is None
    _started(platform)
    sight = platform.sight()
    assert sight is not None
    (pod,) = world.api.list(POD, "bench")
    name = pod["metadata"]["name"]
    assert sight.database == ContainerRef(namespace="bench", pod=name, container="redis")
    facts = {fact.name: fact.value for fact in platform.facts()}
    assert (facts["node"], facts["class"]) == ("node1", "fast")


def test_logs_of_pods_that_are_gone_stay(world: RedisWorld) -> None:
    """What a server logged is kept when its pod is replaced."""
    platform = world.platform()
    _started(platform)
    (pod,) = world.api.list(POD, "bench")
    world.api.container_logs[pod["metadata"]["name"]] = "1:M ready\n"
    _started(platform)
    platform.destroy()
    assert platform.logs().count("1:M ready\n") >= 1


def test_where_and_how_is_the_targets(world: RedisWorld) -> None:
    """Class, size, resources, selector and tolerations of a target are in the set."""
    target = RedisKubernetesTarget(
        image="localhost/redis:7",
        storage="3Gi",
        storage_class="replicated",
        node_selector=(("disk", "nvme"),),
        tolerations='[{"key":"dedicated","operator":"Exists"}]',
    )
    _started(world.platform(target))
    (made,) = world.api.list(STATEFUL_SET)
    pod = made["spec"]["template"]["spec"]
    (claim,) = made["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "replicated"
    assert claim["spec"]["resources"]["requests"] == {"storage": "3Gi"}
    assert pod["nodeSelector"] == {"disk": "nvme"}
    assert pod["tolerations"] == [{"key": "dedicated", "operator": "Exists"}]
    assert pod["containers"][0]["image"] == "localhost/redis:7"
