"""What a Cluster of a campaign is, and what it takes to make and reach it."""

from collections.abc import Callable
from dataclasses import dataclass

from steelyard.gateways.sql import Sql
from steelyard.model.kubernetes import ContainerRef
from steelyard.model.target import CloudNativePgTarget
from steelyard.platforms.kubernetes.made_server import MadeMeans, MadeOptions
from steelyard.platforms.kubernetes.pod_runs import StartSkew
from steelyard.platforms.kubernetes.sight import LoadPods, unknown_skew


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions(MadeOptions):
    """How a campaign uses a Cluster of its own.

    Attributes:
        settings: Names of all settings that any treatment on it asks for.
        restarts: Whether every activation restarts it.
    """

    target: CloudNativePgTarget
    settings: tuple[str, ...]
    restarts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMeans(MadeMeans):
    """The gateways that a Cluster needs.

    Attributes:
        generators: The pods that put the load on, as they are now.
        start_skew: Tells how far apart they began in the last run.
    """

    generators: Callable[[], tuple[ContainerRef, ...]]
    sql: Sql
    start_skew: Callable[[], StartSkew | None] = unknown_skew

    @property
    def load(self) -> LoadPods:
        """Return the generators, to be watched."""
        return LoadPods(pods=self.generators, start_skew=self.start_skew)
