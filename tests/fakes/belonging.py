"""What tests of a campaign's things in a cluster share: a ledger that remembers, and two nodes."""

from dataclasses import dataclass, field

from fakes.kubernetes_api import FakeKubernetesApi
from steelyard.core.kubernetes import NAMESPACE, NODE
from steelyard.core.outside import InCluster

CAMPAIGN_ID = "trial-0a1b2c"


@dataclass
class ToldLedger:
    """A ledger that only remembers; ``now`` is what should be left in the cluster."""

    placements: list[str] = field(default_factory=list)
    now: dict[str, InCluster] = field(default_factory=dict)

    def created(self, thing: InCluster) -> None:
        """Remember it."""
        self.placements.append(thing.label)
        self.now[thing.label] = thing

    def removed(self, thing: InCluster) -> None:
        """Forget it."""
        del self.now[thing.label]

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"nothing here should call {name}")


def prepare(api: FakeKubernetesApi) -> None:
    """Put a namespace and two nodes into a cluster."""
    api.put(NAMESPACE.manifest("bench"))
    for name in ("node1", "node2"):
        add_node(api, name)


def add_node(api: FakeKubernetesApi, name: str, **spec: object) -> None:
    """Put a node that is ready into a cluster."""
    conditions = [{"type": "Ready", "status": "True"}]
    api.put(NODE.manifest(name, spec=spec, status={"conditions": conditions}))
