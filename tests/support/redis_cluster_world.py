"""A cluster in memory with Redis servers in it, and a campaign's means to use them."""

from dataclasses import dataclass, field

from fakes.doors import fake_doors
from fakes.kubernetes_api import FakeKubernetesApi
from fakes.processes import FakeProcesses
from fakes.programs import FakeLedger
from fakes.stateful_sets import ControllersClock, FakeSets
from steelyard.core.kubernetes import SecretRef
from steelyard.core.outside import InCluster
from steelyard.core.target import RedisKubernetesTarget
from steelyard.places.kubernetes.belongings import Belongings
from steelyard.places.kubernetes.made_server import MadeMeans
from steelyard.places.kubernetes.reaching import Reach, make_secret, redis_knock
from steelyard.systems.redis.statefulset.own_server import (
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
    api.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"}})
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
