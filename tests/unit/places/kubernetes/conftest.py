"""Pods of a cluster in memory, and what a ledger was told."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes import generator_pods
from fakes.clock import FakeClock
from fakes.kubernetes_api import FakeKubernetesApi, run_pods
from fakes.pods_here import PodsHere
from steelyard.core.kubernetes import POD
from steelyard.places.agent.programs import AgentProcesses
from steelyard.places.kubernetes import generators
from steelyard.places.kubernetes.belongings import Belongings
from steelyard.places.kubernetes.generators import GeneratorPods


@pytest.fixture
def ledger() -> generator_pods.ToldLedger:
    """Return a ledger that remembers."""
    return generator_pods.ToldLedger()


@pytest.fixture
def clock() -> FakeClock:
    """Return a clock that stands still."""
    return FakeClock()


@pytest.fixture
def api(clock: FakeClock) -> FakeKubernetesApi:
    """Return a cluster in memory with the campaign's namespace and two nodes."""
    api = FakeKubernetesApi(clock=clock)
    generator_pods.prepare(api)
    return api


@pytest.fixture
def belongings(
    api: FakeKubernetesApi, ledger: generator_pods.ToldLedger, clock: FakeClock
) -> Belongings:
    """Return what the campaign has in the cluster in memory: nothing yet."""
    return Belongings(api, ledger, generator_pods.CAMPAIGN_ID, "bench", clock=clock)


@pytest.fixture
def pods_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PodsHere]:
    """Return a cluster whose pods run the real agent on this machine."""
    cluster = PodsHere(directory=tmp_path / "pods")
    monkeypatch.setattr(generators, "WORK", str(cluster.work))
    monkeypatch.setattr(generators, "LOGS", str(cluster.log_folder))
    generator_pods.prepare(cluster)
    cluster.react(POD, run_pods())
    cluster.serve()
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def two_pods(pods_here: PodsHere, ledger: generator_pods.ToldLedger) -> generator_pods.TwoPods:
    """Return two generators that are ready."""
    clock = generator_pods.HastyClock()
    belongings = Belongings(pods_here, ledger, generator_pods.CAMPAIGN_ID, "bench", clock=clock)
    pods = generator_pods.TwoPods(
        api=pods_here,
        generators=GeneratorPods(generator_pods.plan_of(2), belongings, pods_here, clock),
    )
    pods.generators.make(pods.told.append)
    return pods


@pytest.fixture
def roots(tmp_path: Path) -> Path:
    """Return a directory of this machine with a place for logs."""
    (tmp_path / "here" / "logs").mkdir(parents=True)
    return tmp_path / "here"


@pytest.fixture
def processes(two_pods: generator_pods.TwoPods, roots: Path) -> AgentProcesses:
    """Return what runs programs in the two pods."""
    return AgentProcesses(
        two_pods.generators,
        generator_pods.HastyClock(),
        roots=[roots],
        told=two_pods.told.append,
    )
