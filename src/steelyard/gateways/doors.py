"""All doors to the outside in one hand, so that a test can replace any of them."""

import os
from dataclasses import dataclass, field

from steelyard.core.outside import ServerAddress
from steelyard.gateways.aws import Aws, Boto3
from steelyard.gateways.cgroups import (
    Cgroups,
    Families,
    Guards,
    SystemCgroups,
    SystemFamilies,
    SystemGuards,
)
from steelyard.gateways.host import (
    Clock,
    CpuLatency,
    Host,
    KernelFiles,
    LocalHost,
    LocalKernelFiles,
    SystemClock,
    SystemCpuLatency,
)
from steelyard.gateways.kubernetes.api import Kubernetes
from steelyard.gateways.kubernetes.connecting import KubectlConfiguration
from steelyard.gateways.process import (
    NoOperator,
    Operator,
    Processes,
    ProcessesHere,
    SystemProcesses,
)
from steelyard.gateways.redis import RedisDoor, RedisSession
from steelyard.gateways.sql import PsycopgSql, Sql
from steelyard.gateways.stores import FuseStores, Stores, Volumes, XfsVolumes


def _volumes() -> Volumes:
    return XfsVolumes(SystemProcesses(), is_root=os.geteuid() == 0)


def _stores() -> Stores:
    return FuseStores(SystemProcesses(), is_root=os.geteuid() == 0)


class RedisPy:
    """The real door to Redis: redis-py, which is imported when the first session is opened."""

    def connect(self, address: ServerAddress, *, timeout_s: float = 30.0) -> RedisSession:
        """Return a session; see ``RedisDoor``."""
        from steelyard.gateways import redis_client  # noqa: PLC0415 - it takes 0.1 s

        return redis_client.connect(address, timeout_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """The gateways a campaign uses.

    Attributes:
        processes: Of this machine.
        generators: Of the host that the load comes from; None: it comes from here, or from pods.
    """

    processes: ProcessesHere
    sql: Sql
    clock: Clock
    host: Host
    cgroups: Cgroups
    kernel: KernelFiles = field(default_factory=LocalKernelFiles)
    latency: CpuLatency = field(default_factory=SystemCpuLatency)
    operator: Operator = field(default_factory=NoOperator)
    kubernetes: Kubernetes = field(default_factory=KubectlConfiguration)
    redis: RedisDoor = field(default_factory=RedisPy)
    aws: Aws = field(default_factory=Boto3)
    volumes: Volumes = field(default_factory=_volumes)
    stores: Stores = field(default_factory=_stores)
    families: Families = field(default_factory=SystemFamilies)
    guards: Guards = field(default_factory=SystemGuards)
    generators: Processes | None = None

    @property
    def of_the_load(self) -> Processes:
        """Return what runs load generators, where pods do not."""
        return self.processes if self.generators is None else self.generators


def system_doors() -> Doors:
    """Return the real ones."""
    return Doors(
        processes=SystemProcesses(),
        sql=PsycopgSql(),
        clock=SystemClock(),
        host=LocalHost(),
        cgroups=SystemCgroups(),
    )
