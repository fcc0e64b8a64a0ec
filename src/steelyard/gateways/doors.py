"""All doors to the outside in one hand, so that a test can replace any of them."""

import os
from dataclasses import dataclass, field

from steelyard.gateways import host as machine
from steelyard.gateways.aws import Aws
from steelyard.gateways.cgroups import Cgroups, Families, Guards
from steelyard.gateways.kubernetes.connecting import KubectlConfiguration
from steelyard.gateways.placed_files import PlacedFiles
from steelyard.gateways.process import Operator, Processes
from steelyard.gateways.redis import RedisDoor
from steelyard.gateways.sql import Sql
from steelyard.gateways.stores import Stores, Volumes
from steelyard.gateways.workers import Workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """The gateways that verbs and campaigns use; the real ones where none is given.

    Attributes:
        workers: Have the load generators of a campaign; None: this machine does.
    """

    processes: Processes = field(default_factory=Processes)
    sql: Sql = field(default_factory=Sql)
    clock: machine.Clock = field(default_factory=machine.Clock)
    host: machine.Host = field(default_factory=machine.LocalHost)
    cgroups: Cgroups = field(default_factory=Cgroups)
    files: PlacedFiles = field(default_factory=PlacedFiles)
    kernel: machine.KernelFiles = field(default_factory=machine.KernelFiles)
    latency: machine.CpuLatency = field(default_factory=machine.CpuLatency)
    operator: Operator = field(default_factory=Operator)
    kubernetes: KubectlConfiguration = field(default_factory=KubectlConfiguration)
    redis: RedisDoor = field(default_factory=RedisDoor)
    aws: Aws = field(default_factory=Aws)
    volumes: Volumes = field(
        default_factory=lambda: Volumes(Processes(), is_root=os.geteuid() == 0)
    )
    stores: Stores = field(default_factory=lambda: Stores(Processes(), is_root=os.geteuid() == 0))
    families: Families = field(default_factory=Families)
    guards: Guards = field(default_factory=Guards)
    workers: Workers | None = None


def system_doors() -> Doors:
    """Return the real ones."""
    return Doors()
