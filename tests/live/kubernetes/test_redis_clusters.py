"""Real Redis servers in a cluster: made, started anew for each one, and taken away whole."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.core.kubernetes import CLAIM, POD, QUOTA, SERVICE, STATEFUL_SET
from steelyard.core.wording import TargetError
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.systems.redis.statefulset.own_server import RedisKubernetesPlatform
from support.kubernetes import campaign_name, left_of, namespace_in, until, volumes_of
from support.live_redis_clusters import KEYS, PROGRAM, RedisCampaign, redis_target


@pytest.fixture(scope="module")
def space(cluster_api: KubernetesApi) -> Iterator[str]:
    """Yield a namespace for all tests here, which takes restricted pods only."""
    with namespace_in(cluster_api) as name:
        label = {"pod-security.kubernetes.io/enforce": "restricted"}
        metadata = {"name": name, "labels": label}
        cluster_api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        yield name


@pytest.fixture
def campaign(
    cluster_api: KubernetesApi,
    space: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[RedisCampaign]:
    """Yield a campaign of its own; afterwards nothing is left of it in the cluster."""
    monkeypatch.setenv("STEELYARD_CACHE", str(tmp_path))
    name = campaign_name(str(request.node.name))
    campaign = RedisCampaign(api=cluster_api, namespace=space, campaign_id=name)
    yield campaign
    campaign.close()
    assert left_of(cluster_api, name) == []
    for kind in (STATEFUL_SET, POD, CLAIM, SERVICE):
        assert cluster_api.list(kind, space) == (), kind.name
    assert volumes_of(cluster_api, space) == []


def _started(campaign: RedisCampaign, platform: RedisKubernetesPlatform, **asked: str) -> None:
    state = platform.prepare(PROGRAM, ["data"], campaign.build)
    platform.restore(state, platform.means()[0])
    platform.start(state, PROGRAM, {name.replace("_", "-"): each for name, each in asked.items()})
    assert platform.is_running


def _values(campaign: RedisCampaign, platform: RedisKubernetesPlatform, *names: str) -> list[str]:
    session = campaign.session(platform.address)
    try:
        found = [session.command("CONFIG", "GET", name) for name in names]
        return [each[1].decode() for each in found if isinstance(each, list)]
    finally:
        session.close()


def _keys(campaign: RedisCampaign, platform: RedisKubernetesPlatform) -> object:
    session = campaign.session(platform.address)
    try:
        return session.command("DBSIZE")
    finally:
        session.close()


def test_starts_of_one_server(campaign: RedisCampaign) -> None:
    """Two configurations on the same data in one volume, a refused one, and the next one works."""
    platform = campaign.platform(redis_target())
    _started(campaign, platform, appendonly="yes", appendfsync="always", save="")
    assert _values(campaign, platform, "appendonly", "appendfsync") == ["yes", "always"]
    assert _keys(campaign, platform) == KEYS
    session = campaign.session(platform.address)
    session.command("SET", "another", "one")
    session.close()
    (volume,) = volumes_of(campaign.api, campaign.namespace)
    _started(campaign, platform, appendonly="no", save="")
    assert _values(campaign, platform, "appendonly", "appendfsync") == ["no", "everysec"]
    assert _keys(campaign, platform) == KEYS
    with pytest.raises(TargetError, match="argument must be a memory value"):
        _started(campaign, platform, maxmemory="much")
    _started(campaign, platform, maxmemory="100mb")
    assert _values(campaign, platform, "maxmemory") == [str(100 * 1024**2)]
    assert volumes_of(campaign.api, campaign.namespace) == [volume]
    assert "Ready to accept connections" in platform.logs()
    facts = {fact.name for fact in platform.facts()}
    assert {"node", "QoS class", "class", "size", "provisioner"} <= facts


def test_who_may_what(campaign: RedisCampaign) -> None:
    """Without a password keys can be used and nothing administered; the server knows no word."""
    platform = campaign.platform(redis_target())
    _started(campaign, platform, appendonly="no")
    sight = platform.sight()
    assert sight is not None
    asked = (
        "redis-cli SET some thing; redis-cli CONFIG GET save; redis-cli CONFIG SET maxmemory 1mb;"
        " redis-cli SHUTDOWN NOSAVE; redis-cli ACL LIST"
    )
    said = campaign.api.run(sight.database, ("sh", "-c", asked), timeout_s=30).stdout
    assert said.splitlines()[0] == "OK"
    assert said.count("NOPERM") == 3
    password = platform.address.password
    seen = "tr '\\0' ' ' </proc/1/cmdline; tr '\\0' '\\n' </proc/1/environ; cat /run/steelyard/*"
    shown = campaign.api.run(sight.database, ("sh", "-c", seen), timeout_s=30).stdout
    assert "aclfile" in shown
    assert password
    assert password not in shown
    redis_benchmark = ("redis-benchmark", "-n", "1000", "-t", "get", "--dbnum", "3", "-q")
    ran = campaign.api.run(sight.database, redis_benchmark, timeout_s=60)
    assert ran.succeeded, ran.tail()
    assert "requests per second" in ran.stdout


def test_a_server_that_ends_by_itself_keeps_its_data_and_is_noticed(
    campaign: RedisCampaign,
) -> None:
    """It comes up in its pod on the data it had, and is not taken for the one in force."""
    platform = campaign.platform(redis_target())
    _started(campaign, platform, appendonly="yes", appendfsync="always")
    session = campaign.session(platform.address)
    session.command("SET", "another", "one")
    session.close()
    sight = platform.sight()
    assert sight is not None
    admin = "default on nopass ~* &* +@all"
    session = campaign.session(platform.address)
    session.command("ACL", "SETUSER", *admin.split())
    session.close()
    campaign.api.run(sight.database, ("redis-cli", "SHUTDOWN", "NOSAVE"), timeout_s=30)
    until(lambda: not platform.is_running, "its end is noticed")

    def is_back() -> bool:
        try:
            return _keys(campaign, platform) == KEYS + 1
        except TargetError:
            return False

    until(is_back, "it is back with the data it had")
    assert not platform.is_running


def test_a_server_for_each_start(campaign: RedisCampaign) -> None:
    """The second start has another server on another volume, and the first one's is gone."""
    platform = campaign.platform(redis_target(), provisions=True)
    seen = []
    for _ in range(2):
        platform.stop(keep_data=False)
        assert volumes_of(campaign.api, campaign.namespace) == []
        state = platform.reprovision(PROGRAM, ["data"], campaign.build)
        platform.start(state, PROGRAM, {"appendonly": "yes"})
        assert _keys(campaign, platform) == KEYS
        seen += volumes_of(campaign.api, campaign.namespace)
    assert len(set(seen)) == 2
    platform.destroy()


def test_a_quota_that_is_too_small(campaign: RedisCampaign) -> None:
    """No pod is made, and what is used and what there is are told."""
    quota = QUOTA.manifest(
        "tight", namespace=campaign.namespace, spec={"hard": {"requests.memory": "10Mi"}}
    )
    campaign.belongings.make(quota)
    platform = campaign.platform(redis_target())
    with pytest.raises(TargetError, match="exceeded quota: tight"):
        platform.prepare(PROGRAM, ["data"], campaign.build)
