"""A cluster in memory with an operator in it, and a campaign's means to use it."""

from dataclasses import dataclass, field

from fakes.cloudnative_pg import FakeOperator, OperatorsClock
from fakes.doors import fake_doors
from fakes.kubernetes_api import FakeKubernetesApi
from fakes.processes import FakeProcesses
from fakes.programs import FakeLedger
from steelyard.core.kubernetes import NAMESPACE, SecretRef
from steelyard.core.outside import InCluster
from steelyard.core.target import CloudNativePgTarget
from steelyard.places.kubernetes.belongings import Belongings
from steelyard.places.kubernetes.made_server import MadeMeans
from steelyard.places.kubernetes.reaching import Reach, sql_knock
from steelyard.systems.postgres.cloudnative_pg.own_cluster import (
    CloudNativePgPlatform,
    ClusterOptions,
)
from support.recorded_clusters import objects


@dataclass(kw_only=True)
class World:
    """Everything that a platform in a cluster touches."""

    api: FakeKubernetesApi
    clock: OperatorsClock
    operator: FakeOperator
    ledger: FakeLedger
    processes: FakeProcesses
    means: MadeMeans
    told: list[str] = field(default_factory=list)

    def platform(
        self,
        target: CloudNativePgTarget | None = None,
        *,
        restarts: bool = True,
        provisions: bool = False,
    ) -> CloudNativePgPlatform:
        """Return the platform of a target."""
        options = ClusterOptions(
            target=target or CloudNativePgTarget(storage_class="fast"),
            campaign_id="night",
            namespace="bench",
            secret=SecretRef(namespace="bench", name="steelyard-night"),
            settings=("max_connections", "work_mem"),
            restarts=restarts,
            provisions=provisions,
        )
        return CloudNativePgPlatform(options, self.ledger, self.means)

    @property
    def left(self) -> list[InCluster]:
        """Return what the ledger holds and is not undone."""
        gone = [thing for verb, thing in self.ledger.in_cluster if verb == "taken away"]
        placed = [thing for verb, thing in self.ledger.in_cluster if verb == "placed"]
        return [thing for thing in placed if placed.count(thing) > gone.count(thing)]


def make_world() -> World:
    """Return a cluster with an operator, a namespace and a Secret."""
    clock = OperatorsClock()
    api = FakeKubernetesApi(clock=clock)
    api.put(NAMESPACE.manifest("bench"))
    for each in objects("operator"):
        api.put(each)
    operator = FakeOperator(api=api, clock=clock)
    operator.put_secret("steelyard-night", "bench")
    ledger, told = FakeLedger(), list[str]()
    processes = FakeProcesses(clock)
    means = MadeMeans(
        api=api,
        doors=fake_doors(clock, processes=processes, sql=operator),
        reach=Reach(api, sql_knock(operator), clock),
        belongings=Belongings(api, ledger, "night", "bench", clock=clock),
        told=told.append,
    )
    return World(
        api=api,
        clock=clock,
        operator=operator,
        ledger=ledger,
        processes=processes,
        means=means,
        told=told,
    )
