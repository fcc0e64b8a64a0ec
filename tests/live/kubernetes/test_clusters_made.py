"""Real Clusters: made, changed by rollouts, and taken away with their volumes; failures named."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.core.kubernetes import CLAIM, NODE, POD
from steelyard.core.places import Synchronous
from steelyard.core.wording import TargetError
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.systems.postgres.cloudnative_pg.own_cluster import CloudNativePgPlatform
from support.kubernetes import campaign_name, left_of, namespace_in, volumes_of
from support.live_clusters import PROGRAM, Campaign, nothing, target_of, values


@pytest.fixture(scope="module")
def space(cluster_api: KubernetesApi) -> Iterator[str]:
    """Yield a namespace for all tests here."""
    with namespace_in(cluster_api) as name:
        yield name


@pytest.fixture
def campaign(
    cluster_api: KubernetesApi,
    space: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[Campaign]:
    """Yield a campaign of its own; afterwards nothing is left of it in the cluster."""
    monkeypatch.setenv("STEELYARD_CACHE", str(tmp_path))
    name = campaign_name(str(request.node.name))
    campaign = Campaign(api=cluster_api, namespace=space, campaign_id=name)
    yield campaign
    campaign.close()
    assert left_of(cluster_api, name) == []
    assert cluster_api.list(POD, space) == ()
    assert volumes_of(cluster_api, space) == []


def _started(platform: CloudNativePgPlatform, **settings: str) -> None:
    state = platform.prepare(PROGRAM, ["data"], nothing)
    platform.start(state, PROGRAM, settings)
    assert platform.is_running


def test_rollouts_of_one_cluster(campaign: Campaign) -> None:
    """Two configurations by restarts, a refused one that goes back, a reload; then all is gone."""
    platform = campaign.platform(target_of())
    platform.require_ready()
    _started(platform, max_connections="50", work_mem="8MB")
    assert values(campaign, platform.address, "max_connections", "work_mem") == ["50", "8MB"]
    first = platform.sight()
    _started(platform, work_mem="9MB")
    assert values(campaign, platform.address, "max_connections", "work_mem") == ["100", "9MB"]
    assert first is not None
    assert first.database == platform.sight().database  # type: ignore[union-attr]
    with pytest.raises(TargetError, match="outside the valid range") as caught:
        _started(platform, max_connections="99999999")
    assert "max_connections = 99999999" in caught.value.message
    _started(platform, work_mem="9MB")
    assert platform.configure({"work_mem": "7MB"}) is False
    assert values(campaign, platform.address, "max_connections", "work_mem") == ["100", "7MB"]
    assert platform.is_running
    assert "database system is ready" in platform.logs()
    facts = {fact.name for fact in platform.facts()}
    assert {"operator", "node of the primary", "QoS class", "driver", "provisioner"} <= facts
    platform.destroy()
    assert campaign.api.list(CLAIM, campaign.namespace) == ()
    assert any("Setting up primary" in each for each in campaign.told)


def test_a_synchronous_standby(campaign: Campaign) -> None:
    """Two instances are restarted one by one, and in force means that the standby streams."""
    node = max(each["metadata"]["name"] for each in campaign.api.list(NODE))
    target = target_of(
        instances=2, synchronous=Synchronous(), node_selector=(("kubernetes.io/hostname", node),)
    )
    platform = campaign.platform(target)
    _started(platform, max_connections="50")
    facts = {fact.name: fact.value for fact in platform.facts()}
    assert "streaming, quorum" in facts["standbys"]
    assert facts["nodes of the standbys"] == node
    assert "instances-share-node" in [each.code for each in platform.findings()]
    _started(platform, max_connections="40")  # less than a standby may have
    assert values(campaign, platform.address, "max_connections") == ["40"]
    statement = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'quorum'"
    assert campaign.sql.rows(platform.address, statement) == [(1,)]
    platform.destroy()
