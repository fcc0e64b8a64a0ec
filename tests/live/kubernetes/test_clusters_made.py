"""Real Clusters: made, changed by rollouts, and taken away with their volumes; failures named."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.core.kubernetes import CLAIM, NODE, POD
from steelyard.core.target import PodResources, Synchronous
from steelyard.core.wording import TargetError
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.systems.postgres.cloudnative_pg.own_cluster import CloudNativePgPlatform
from support.kubernetes import campaign_name, left_of, namespace_in, no_cluster, volumes_of
from support.live_clusters import PROGRAM, Campaign, nothing, target_of, values

_HUGE = "hugepages-2Mi"


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


def test_a_cluster_for_each_start(campaign: Campaign) -> None:
    """The second start has another Cluster on another volume, and the first one's is gone."""
    platform = campaign.platform(target_of(wal_storage="1Gi"), provisions=True)
    seen = []
    for _ in range(2):
        platform.stop(keep_data=False)
        assert volumes_of(campaign.api, campaign.namespace) == []
        state = platform.reprovision(PROGRAM, ["data"], nothing)
        platform.start(state, PROGRAM, {"work_mem": "8MB"})
        assert values(campaign, platform.address, "work_mem") == ["8MB"]
        seen.append(set(volumes_of(campaign.api, campaign.namespace)))
    assert len(seen[0]) == len(seen[1]) == 2
    assert not seen[0] & seen[1]
    platform.destroy()


def test_a_synchronous_standby(campaign: Campaign) -> None:
    """Two instances are restarted one by one, and in force means that the standby streams."""
    node = max(each["metadata"]["name"] for each in campaign.api.list(NODE))
    target = target_of(
        instances=2,
        synchronous=Synchronous(),
        node_selector=(("kubernetes.io/hostname", node),),
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


def test_an_image_that_is_nowhere(campaign: Campaign) -> None:
    """Its name and what the registry said are told, and what was made goes."""
    platform = campaign.platform(target_of(image="localhost/no-such-image:15"))
    with pytest.raises(TargetError, match="image cannot be pulled") as caught:
        platform.prepare(PROGRAM, ["data"], nothing)
    assert "localhost/no-such-image:15" in caught.value.message
    platform.destroy()


def test_a_class_that_is_not_there(campaign: Campaign) -> None:
    """The claim gets no volume, because its class is not there: that is what is told."""
    platform = campaign.platform(target_of(storage_class="no-such-class"))
    with pytest.raises(TargetError, match=r'gets no volume: .*"no-such-class" not found'):
        platform.prepare(PROGRAM, ["data"], nothing)
    platform.destroy()


def test_a_quota_that_is_too_small(campaign: Campaign) -> None:
    """What is used and what there is are told."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "tight", "namespace": campaign.namespace},
        "spec": {"hard": {"limits.memory": "10Mi", "requests.memory": "10Mi"}},
    }
    campaign.belongings.make(quota)
    platform = campaign.platform(target_of())
    with pytest.raises(TargetError, match="exceeded quota: tight") as caught:
        platform.prepare(PROGRAM, ["data"], nothing)
    assert "ResourceQuota" in caught.value.hint
    platform.destroy()


def test_huge_pages_and_cpus_of_its_own(campaign: Campaign) -> None:
    """A Guaranteed pod with a whole CPU is pinned to it, and shared memory is on huge pages."""
    _require_pinning(campaign.api)
    amounts = (("cpu", "1"), ("memory", "256Mi"), (_HUGE, "80Mi"))
    target = target_of(resources=PodResources(limits=amounts))
    platform = campaign.platform(target, ("huge_pages", "shared_buffers", "max_connections"))
    _started(platform, huge_pages="on", shared_buffers="32MB", max_connections="20")
    assert values(campaign, platform.address, "huge_pages") == ["on"]
    sight = platform.sight()
    assert sight is not None
    script = (
        'head -1 "$PGDATA/postmaster.pid"; grep Cpus_allowed_list /proc/1/status;'
        ' grep -c anon_hugepage "/proc/$(head -1 "$PGDATA/postmaster.pid")/maps"'
    )
    ran = campaign.api.run(sight.database, ("sh", "-c", script), timeout_s=30)
    _, cpus, mapped = ran.stdout.splitlines()
    assert cpus.split(":")[1].strip().isdigit(), ran.stdout
    assert int(mapped) >= 1
    assert {f.value for f in platform.facts() if f.name == "QoS class"} == {"Guaranteed"}
    platform.destroy()


def _require_pinning(api: KubernetesApi) -> None:
    """Skip where no node has huge pages and a kubelet that gives CPUs away."""
    for node in api.list(NODE):
        name, there = node["metadata"]["name"], node["status"]["allocatable"].get(_HUGE, "0")
        policy = '"cpuManagerPolicy":"static"'
        if there != "0" and policy in api.raw(f"/api/v1/nodes/{name}/proxy/configz"):
            return
    no_cluster("no node has huge pages and a static CPU manager")
