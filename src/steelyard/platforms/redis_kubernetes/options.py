"""What a Redis server of a campaign is, and what it takes to make and reach it."""

from dataclasses import dataclass

from steelyard.gateways.redis import RedisDoor
from steelyard.model.target import RedisKubernetesTarget
from steelyard.platforms.kubernetes.made_server import MadeMeans, MadeOptions
from steelyard.platforms.kubernetes.sight import LoadPods


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisOptions(MadeOptions):
    """How a campaign uses a Redis server of its own; its Secret has the file of users, too."""

    target: RedisKubernetesTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisMeans(MadeMeans):
    """The gateways that a Redis server in a cluster needs.

    Attributes:
        load: The pods that put the load on, to be watched.
    """

    load: LoadPods
    door: RedisDoor
