"""What tests of pods share: a ledger that remembers, a hasty clock, plans, and two pods."""

import time
from dataclasses import dataclass, field
from pathlib import Path

from fakes.kubernetes_api import FakeKubernetesApi
from fakes.pods_here import PodsHere
from steelyard.core.kubernetes import ContainerRef, SecretRef
from steelyard.core.outside import Command, InCluster
from steelyard.core.target import KubernetesPlace
from steelyard.gateways.host import Clock
from steelyard.places.kubernetes.generators import GeneratorPlan, GeneratorPods

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


class HastyClock(Clock):
    """The machine's clock, under which nobody waits long."""

    def sleep(self, seconds: float) -> None:
        """Wait a twentieth of what was asked."""
        time.sleep(seconds / 20)


def prepare(api: FakeKubernetesApi) -> None:
    """Put a namespace and two nodes into a cluster."""
    api.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"}})
    for name in ("node1", "node2"):
        add_node(api, name)


def add_node(api: FakeKubernetesApi, name: str, **spec: object) -> None:
    """Put a node that is ready into a cluster."""
    conditions = [{"type": "Ready", "status": "True"}]
    api.put(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name},
            "spec": spec,
            "status": {"conditions": conditions},
        }
    )


def plan_of(number: int = 1, **changed: object) -> GeneratorPlan:
    """Return a plan of generators."""
    values: dict[str, object] = {
        "place": KubernetesPlace(),
        "image": "localhost/postgresql:15",
        "number": number,
        "secret": SecretRef(namespace="bench", name="user"),
        "deadline_s": 600,
        **changed,
    }
    return GeneratorPlan(**values)  # type: ignore[arg-type]


@dataclass(kw_only=True)
class TwoPods:
    """A cluster with ready generators."""

    api: PodsHere
    generators: GeneratorPods
    told: list[str] = field(default_factory=list)


def shell(text: str, *arguments: object, **environment: str) -> Command:
    """Return a command of a few lines of shell."""
    return Command(argv=("bash", "-c", text, *map(str, arguments)), environment=environment)


def is_running(text: str) -> bool:
    """Return whether a process with these words as its command line is there."""
    wanted = text.split()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if words[:-1] == wanted:
            return True
    return False


def runs_in(two_pods: TwoPods, pod: ContainerRef) -> bool:
    """Return whether an order that was placed in a pod goes on."""
    placed = [
        ran.argv[3] for ran in two_pods.api.ran if ran.where == pod and ran.argv[2] == "place"
    ]
    orders = two_pods.api.work / "orders"
    return any(
        (orders / each / "group").exists() and not (orders / each / "status").exists()
        for each in placed
    )
