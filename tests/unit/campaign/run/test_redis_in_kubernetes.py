"""Assembling a campaign on Redis servers in a cluster: asked, said at once, made, taken away."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes.campaigns import an_experiment, asks_redis
from fakes.doors import fake_doors
from fakes.kubernetes_api import FakeKubernetes, FakeKubernetesApi, Said, a_cluster, run_pods
from fakes.redis_sessions import ToldSession
from steelyard.campaign.in_cluster import at_home
from steelyard.cli.kubernetes import manifest_text
from steelyard.core import experiment as model
from steelyard.core.kubernetes import NAMESPACE, POD, SECRET, SERVICE, STATEFUL_SET
from steelyard.core.outside import ServerAddress
from steelyard.core.places import ClusterService, GeneratorPods, KubernetesPlace, PodResources
from steelyard.core.schedule import Load
from steelyard.core.target import EngineName, RedisKubernetesTarget
from steelyard.core.wording import PreflightError, PrivilegeError, TargetError
from steelyard.gateways.redis import RedisDoor
from steelyard.record import registry
from steelyard.targets import kubernetes_site as kubernetes_images
from steelyard.targets import redis_kubernetes
from steelyard.targets.assembly import Assembly, assemble, moved, settled
from steelyard.targets.differences import switch_cost
from steelyard.targets.kubernetes_site import PLACEHOLDER, campaign_manifests
from support.snapshots import check_text

_GOLDEN = Path(__file__).parents[3] / "golden" / "kubernetes" / "redis-statefulset.yaml"
_SERVER = "/usr/bin/redis-server\nRedis server v=7.0.15 sha=00000000:0 malloc=jemalloc bits=64\n"
_CLIENT = "/usr/bin/redis-cli\nredis-cli 7.0.15\n"
_BENCHMARK = "/usr/bin/redis-benchmark\nredis-benchmark 7.0.15\n"
_SETTINGS = "appendonly\nno\nappendfsync\neverysec\nio-threads\n1\nsave\n3600 1 300 100 60 10000\n"


class _Closed(RedisDoor):
    """Servers that let nobody in.

    Attributes:
        came: Who asked for a session.
    """

    def __init__(self) -> None:
        self.came: list[ServerAddress] = []

    def connect(self, address: ServerAddress, *, timeout_s: float = 30.0) -> ToldSession:
        """Refuse."""
        del timeout_s
        self.came.append(address)
        raise TargetError("it refuses user and password")


@pytest.fixture
def api() -> FakeKubernetesApi:
    """Return a cluster of two nodes with two classes, and an image that answers."""
    api = a_cluster()
    api.on_run("find", "redis-server", said=_SERVER)
    api.on_run("find", "redis-cli", said=_CLIENT)
    api.on_run("find", "redis-benchmark", said=_BENCHMARK)
    api.on_run("try", said="")
    api.on_run("CONFIG", "GET", said=_SETTINGS)
    api.on_run("CONFIG", "SET", said="OK\n")
    refused = "ERR CONFIG SET failed (possibly related to argument 'io-threads') - can't set"
    api.on_run("CONFIG", "SET", "io-threads", said=f"{refused} immutable config\n")
    return api


def on(
    *targets: RedisKubernetesTarget,
    loaded: int = 1000,
    load: Load | None = None,
    **settings: str,
) -> model.Experiment:
    """Return an experiment whose second configuration has these settings, on these targets."""
    one, other = targets * 2 if len(targets) == 1 else targets
    work = model.RedisWork(space=model.KeySpace(keys=1000, loaded=loaded, value_bytes=100))
    return replace(
        an_experiment(),
        engine=EngineName.REDIS,
        generator=model.GeneratorName.REDIS_BENCHMARK,
        baseline="off",
        loads=(load or Load(clients=4, threads=1),),
        workloads=(model.Workload(name="set", builtin="set", redis=work),),
        configurations=(
            model.Configuration(name="off", target=one, settings=asks_redis(appendonly="no")),
            model.Configuration(name="on", target=other, settings=asks_redis(**settings)),
        ),
    )


def target(**keys: Any) -> RedisKubernetesTarget:
    """Return a small server."""
    return replace(RedisKubernetesTarget(image="redis:7", storage="1Gi"), **keys)


@pytest.fixture(autouse=True)
def _no_generator_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no redis-benchmark on this machine, whatever it has: that of the image is taken."""
    monkeypatch.setattr(redis_kubernetes, "find_benchmark", lambda **_: None)


def looked(
    api: FakeKubernetesApi, experiment: model.Experiment, redis: RedisDoor | None = None
) -> Assembly:
    """Return the assembly of a look."""
    kubernetes = FakeKubernetes(clusters={api.context: api})
    return assemble(
        experiment, fake_doors(api.clock, kubernetes=kubernetes, redis=redis or _Closed())
    )


def _applied(api: FakeKubernetesApi) -> list[str]:
    return [label for label in api.labels_of("apply") if label.startswith("Pod")]


def test_a_look_leaves_nothing(api: FakeKubernetesApi) -> None:
    """One pod asks the image for server and generator; then it is gone, and nobody knows of it."""
    assembly = looked(api, on(target(), appendonly="yes", io_threads="2"))
    engine = assembly.engine
    assert engine.label("on") == "Redis 7.0.15"
    assert {"appendonly", "io-threads"} <= engine.known_settings("on")
    assert engine.tools()["redis-benchmark"].startswith("7.0.15")
    assert len(set(_applied(api))) == 1
    for kind in (POD, SECRET, STATEFUL_SET, SERVICE):
        assert api.list(kind) == (), kind.name
    assert registry.records() == []
    assert {each["metadata"]["name"] for each in api.list(NAMESPACE)} == {"default", "kube-system"}


def test_what_a_switch_costs_is_what_the_image_says(api: FakeKubernetesApi) -> None:
    """Changed at run time where the server takes it; by a new pod else; other targets are made."""
    costs = []
    for settings in ({"appendfsync": "always"}, {"appendonly": "yes"}, {"io_threads": "2"}):
        experiment = on(target(), **settings)
        base = replace(experiment.configurations[0], settings=())
        experiment = replace(experiment, configurations=(base, experiment.configurations[1]))
        costs.append(switch_cost(experiment, looked(api, experiment).engine))
    assert costs == [model.SwitchCost.RELOAD, model.SwitchCost.RESTART, model.SwitchCost.RESTART]
    others = on(target(), target(storage_class="slow"), appendonly="no")
    assert switch_cost(others, looked(api, others).engine) is model.SwitchCost.REPROVISION
    assert others.is_made_anew


def test_values_are_refused_by_the_images_own_server(api: FakeKubernetesApi) -> None:
    """Its words are a complaint about that setting, of the configuration that asks for it."""
    said = (
        "*** FATAL CONFIG FILE ERROR ***\n>>> 'appendfsync \"maybe\"'\nargument(s) must be one of\n"
    )

    def judged(ran: Any) -> None:
        del ran

    api.on_run("try", said=Said(stdout="", does=judged))
    assert looked(api, on(target(), appendfsync="always")).engine.complaints("on") == ()
    kubernetes_images._KNOWN.clear()
    run = api.run

    def refusing(where: Any, argv: Any, **keys: Any) -> Any:
        done = run(where, argv, **keys)
        if "try" in argv and "maybe" in keys.get("stdin", ""):
            return replace(done, exit_status=1, stdout=said)
        return done

    api.run = refusing  # type: ignore[method-assign]
    engine = looked(api, on(target(), appendfsync="maybe")).engine
    (complaint,) = engine.complaints("on")
    assert complaint.setting == "appendfsync"
    assert "argument(s) must be one of" in complaint.message
    assert engine.complaints("off") == ()


@pytest.mark.parametrize(
    ("broken", "keys", "words"),
    [
        (lambda _: None, {"storage_class": "fsat"}, "there is no storage class fsat"),
        (lambda _: None, {"storage": "64Mi"}, "the volume of 64Mi has no room"),
        (lambda api: api.on_run("find", said=Said(exit_status=1)), {}, "does not have redis"),
        (
            lambda api: api.on_run("find", "redis-benchmark", said=Said(exit_status=1)),
            {},
            "has no redis-benchmark",
        ),
        (
            lambda api: api.on_run("find", "redis-server", said=_SERVER.replace("7.0.15", "5.0.9")),
            {},
            "Redis 5.0.9, whose users cannot be limited",
        ),
    ],
)
def test_what_is_known_to_fail_fails_before(
    api: FakeKubernetesApi,
    broken: Callable[[FakeKubernetesApi], None],
    keys: dict[str, Any],
    words: str,
) -> None:
    """Classes, room, nodes, programs, versions: each with its name, and nothing is left."""
    broken(api)
    with pytest.raises(PreflightError, match=words):
        looked(api, on(target(**keys), loaded=500_000, appendonly="yes"))
    assert api.list(POD) == ()


def test_every_permission_that_lacks_is_said_at_once(api: FakeKubernetesApi) -> None:
    """Sets and Services are made, which needs rights of its own; nothing is made before."""
    api.refuse("patch", STATEFUL_SET)
    api.refuse("create", SERVICE)
    with pytest.raises(PrivilegeError) as refused:
        looked(api, on(target(), appendonly="yes"))
    for words in ("patch statefulsets.apps", "create services"):
        assert words in refused.value.message
    assert api.labels_of("apply") == []


def test_a_server_that_is_there_needs_less(api: FakeKubernetesApi) -> None:
    """Nobody who measures behind a Service must be allowed to make one, or a set."""
    for verb in ("create", "delete", "patch"):
        api.refuse(verb, STATEFUL_SET)
        api.refuse(verb, SERVICE)
    with pytest.raises(PreflightError, match="Service default/cache is not there"):
        looked(api, on(there(), appendonly="yes"))


def there(**keys: Any) -> RedisKubernetesTarget:
    """Return a server behind a Service."""
    return RedisKubernetesTarget(
        service=ClusterService(**{"service": "cache", "port": 6379, "secret": "", **keys})
    )


def _with_service(api: FakeKubernetesApi, **secret: str) -> None:
    port = {"port": 6379, "targetPort": 6379}
    where = {"namespace": "default"}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "cache", **where}}
    api.put({**service, "spec": {"selector": {"app": "cache"}, "ports": [port]}})
    container = {"name": "c", "image": "redis:7", "ports": [{"containerPort": 6379}]}
    pod = {"name": "cache-0", "labels": {"app": "cache"}, **where}
    made = api.put(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": pod,
            "spec": {"containers": [container], "nodeName": "node1"},
        }
    )
    run_pods()(made)
    if secret:
        metadata = {"name": "cache", **where}
        api.put({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": secret})


@pytest.mark.parametrize(
    ("kept", "user"),
    [({"password": "planted"}, ""), ({"username": "bench", "password": "planted"}, "bench")],
)
def test_who_comes_is_said_by_the_secret(
    api: FakeKubernetesApi, kept: dict[str, str], user: str
) -> None:
    """One without a user is the default user's; where it is refused, the Secret is named."""
    _with_service(api, **kept)
    redis = _Closed()
    with pytest.raises(TargetError, match=r"cache\.default:6379: it refuses") as refused:
        looked(api, on(there(secret="cache"), appendonly="yes"), redis)
    assert "in the Secret cache?" in refused.value.hint
    assert [(each.user, each.password) for each in redis.came] == [(user, "planted")]
    assert _applied(api) == []


def test_a_target_is_moved_as_a_whole(api: FakeKubernetesApi) -> None:
    """Context and namespace of the day, and those inside the cluster, are in made and found."""
    for each in (target(), there()):
        named = moved(on(each, appendonly="yes"), "lab", "bench")
        homes = {t.home for t in named.targets_of(RedisKubernetesTarget).values()}
        assert homes == {KubernetesPlace(context="lab", namespace="bench")}
        home = {t.home for t in at_home(named, "runner").targets_of(RedisKubernetesTarget).values()}
        assert home == {KubernetesPlace(context=None, namespace="bench")}
    experiment = on(target(), appendonly="yes")
    here = settled(experiment, looked(api, experiment))
    assert {t.home.context for t in here.targets_of(RedisKubernetesTarget).values()} == {"lab"}


def test_the_manifests_of_a_campaign(api: FakeKubernetesApi) -> None:
    """Word for word; ``STEELYARD_UPDATE_GOLDEN=1`` writes them anew."""
    experiment = on(
        target(
            resources=PodResources(limits=(("cpu", "1"), ("memory", "1Gi"))),
            node_selector=(("disk", "nvme"),),
        ),
        target(
            storage_class="slow",
            tolerations='[{"key":"dedicated","operator":"Exists"}]',
            place=KubernetesPlace(generators=GeneratorPods()),
        ),
        appendonly="yes",
        save="900 1 300 10",
    )
    made = list(campaign_manifests(experiment, "night-1", namespace=None))
    kinds = ["Namespace", "ConfigMap", "Secret"]
    assert [each["kind"] for each in made] == [*kinds, *["Service", "Service", "StatefulSet"] * 2]
    assert all(each["metadata"]["labels"]["steelyard/campaign"] == "night-1" for each in made)
    secret = made[2]
    assert secret["stringData"]["password"] == PLACEHOLDER
    text = manifest_text([secret, *made[3:]], head=[])
    assert text.count(PLACEHOLDER) == 1
    check_text(_GOLDEN, text)


def test_the_load_has_the_programs_of_the_baselines_image(api: FakeKubernetesApi) -> None:
    """Whichever configuration the file names first."""
    experiment = on(target(image="redis:7.0"), target(image="redis:7.2"), appendonly="yes")
    for each in experiment.configurations:
        site = looked(api, replace(experiment, baseline=each.name)).site
        assert site is not None
        assert site.plan is not None
        assert isinstance(each.target, RedisKubernetesTarget)
        assert site.plan.image == each.target.image
