"""Pods of a cluster in memory, and what a ledger was told."""

import pytest

from fakes import belonging
from fakes.clock import FakeClock
from fakes.kubernetes_api import FakeKubernetesApi
from steelyard.places.kubernetes.belongings import Belongings


@pytest.fixture
def ledger() -> belonging.ToldLedger:
    """Return a ledger that remembers."""
    return belonging.ToldLedger()


@pytest.fixture
def clock() -> FakeClock:
    """Return a clock that stands still."""
    return FakeClock()


@pytest.fixture
def api(clock: FakeClock) -> FakeKubernetesApi:
    """Return a cluster in memory with the campaign's namespace and two nodes."""
    api = FakeKubernetesApi(clock=clock)
    belonging.prepare(api)
    return api


@pytest.fixture
def belongings(
    api: FakeKubernetesApi, ledger: belonging.ToldLedger, clock: FakeClock
) -> Belongings:
    """Return what the campaign has in the cluster in memory: nothing yet."""
    return Belongings(api, ledger, belonging.CAMPAIGN_ID, "bench", clock=clock)
