"""A campaign's use of real Redis servers in a cluster."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from fakes.programs import FakeLedger, SmallRedis
from steelyard.core.outside import ServerAddress
from steelyard.core.places import PodResources
from steelyard.core.target import RedisKubernetesTarget
from steelyard.gateways.doors import system_doors
from steelyard.gateways.host import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.redis import RedisDoor, RedisSession
from steelyard.places.kubernetes.belongings import Belongings
from steelyard.places.kubernetes.made_server import MadeMeans
from steelyard.places.kubernetes.reaching import Reach, make_secret, redis_knock
from steelyard.systems.redis.statefulset.own_server import (
    RedisKubernetesPlatform,
    StatefulSetOptions,
    secret_manifest,
)
from support.kubernetes import until

REDIS_IMAGE: Final = os.environ.get("STEELYARD_KUBERNETES_REDIS_IMAGE", "localhost/redis:7")
KEYS: Final = 5000
PROGRAM: Final = SmallRedis()
# A server that is restarted for each configuration, until the test ends it.
MADE: Final = f"""\
version: 1
engine: redis
name: AOF in a StatefulSet
baseline: off
workloads:
  - {{name: set, builtin: set, value_bytes: 100, keys: 1000, loaded: 300}}
  - {{name: get, builtin: get, value_bytes: 10, keys: 1000, loaded: 1000}}
load: {{clients: 2}}
measure: {{run_time: 1s, warm_up: 0s, runs_per_start: 1}}
stop: {{budget: 60m, width: 0.1%}}
seed: 7
configurations:
  "off":
    target:
      kind: kubernetes
      image: {REDIS_IMAGE}
      storage: 256Mi
      resources: {{requests: {{cpu: 50m, memory: 128Mi}}, limits: {{cpu: "1", memory: 128Mi}}}}
    redis: {{appendonly: no, save: ""}}
  always: {{extends: "off", redis: {{appendonly: yes, appendfsync: always}}}}
"""
_SMALL: Final = PodResources(requests=(("cpu", "50m"), ("memory", "128Mi")))


@dataclass(kw_only=True)
class RedisCampaign:
    """What a campaign has in one namespace of a real cluster."""

    api: KubernetesApi
    namespace: str
    campaign_id: str
    ledger: FakeLedger = field(default_factory=FakeLedger)
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock, self.door = Clock(), RedisDoor()
        self.reach = Reach(self.api, redis_knock(self.door), self.clock)
        self.belongings = Belongings(self.api, self.ledger, self.campaign_id, self.namespace)
        self.secret = make_secret(self.belongings, secret_manifest)
        self._platforms: list[RedisKubernetesPlatform] = []
        self.means = MadeMeans(
            api=self.api,
            doors=replace(system_doors(), redis=self.door, clock=self.clock),
            reach=self.reach,
            belongings=self.belongings,
            told=self.told.append,
        )

    def platform(
        self, target: RedisKubernetesTarget, *, provisions: bool = False
    ) -> RedisKubernetesPlatform:
        """Return the platform of a target."""
        options = StatefulSetOptions(
            target=target,
            campaign_id=self.campaign_id,
            namespace=self.namespace,
            secret=self.secret,
            provisions=provisions,
        )
        made = RedisKubernetesPlatform(options, self.ledger, self.means)
        self._platforms.append(made)
        return made

    def session(self, address: ServerAddress) -> RedisSession:
        """Return a session of the campaign's own user."""
        return self.door.connect(address)

    def build(self, address: ServerAddress) -> None:
        """Load keys, and keep them as a snapshot and as a log of commands."""
        session = self.session(address)
        for begin in range(0, KEYS, 1000):
            numbers = range(begin, begin + 1000)
            session.pipeline([("SET", f"key:{each:012d}", f"{each}") for each in numbers])
        session.command("SAVE")
        session.command("CONFIG", "SET", "appendonly", "yes")
        until(lambda: not _rewrites(session.info("persistence")), "the log is rewritten")
        session.close()

    def close(self) -> None:
        """Remove everything that was made."""
        for platform in self._platforms:
            platform.destroy()
        self.reach.close()
        self.belongings.remove_all()


def _rewrites(said: Mapping[str, str]) -> bool:
    return "1" in {said["aof_rewrite_in_progress"], said["aof_rewrite_scheduled"]}


def redis_target(**given: object) -> RedisKubernetesTarget:
    """Return a small server of the image at hand."""
    small = {"image": REDIS_IMAGE, "storage": "1Gi", "resources": _SMALL}
    return RedisKubernetesTarget(**{**small, **given})  # type: ignore[arg-type]
