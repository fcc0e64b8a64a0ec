"""The Redis servers that a campaign makes of one target: one at a time, each with a volume."""

from dataclasses import dataclass

from steelyard.model.command import ServerAddress
from steelyard.model.environment import Fact
from steelyard.model.kubernetes import ContainerRef, Manifest, ref_of
from steelyard.platforms.kubernetes.made_server import MadeServer, Standing
from steelyard.platforms.kubernetes.removal import Departure, Held, held_by
from steelyard.platforms.kubernetes.volumes import volume_facts
from steelyard.platforms.redis_kubernetes.configuration import PORT, pod_configuration
from steelyard.platforms.redis_kubernetes.manifest import (
    CONTAINER,
    ServerAsked,
    ServerStart,
    service_manifests,
)
from steelyard.platforms.redis_kubernetes.options import RedisMeans, RedisOptions
from steelyard.platforms.redis_kubernetes.starting import Starter


@dataclass(slots=True, kw_only=True)
class _There(Standing):
    """A server that is there.

    Attributes:
        pod: As it was when it was started last.
    """

    asked: ServerAsked
    pod: Manifest


class OwnServer(MadeServer[_There, ServerAsked]):
    """The server of a campaign, while there is one."""

    noun = "Redis server"
    part = "server"

    def __init__(self, options: RedisOptions, means: RedisMeans) -> None:
        super().__init__(options.campaign_id, options.target)
        self._options = options
        self._means = means
        self._departure = Departure(means.api, means.clock)
        self._starter = Starter(
            api=means.api, belongings=means.belongings, clock=means.clock, told=means.told
        )
        self._starts = 0

    @property
    def container(self) -> ContainerRef:
        """Return its container.

        Raises:
            TargetError: There is none.
        """
        asked = self._there.asked
        return ContainerRef(namespace=asked.namespace, pod=asked.pod.name, container=CONTAINER)

    @property
    def node(self) -> str:
        """Return the node that it runs on; empty where nobody says."""
        return str(self._there.pod["spec"].get("nodeName") or "")

    def asked(self, number: int) -> ServerAsked:
        """Return the server of a number, as it is made."""
        options = self._options
        return ServerAsked(
            target=options.target,
            name=self._name(number),
            namespace=options.namespace,
            secret=options.secret,
            campaign_id=options.campaign_id,
        )

    def make(self, configuration: str) -> ServerAddress:
        """Make a server with an empty volume; return where it is reached once it serves.

        Raises:
            TargetError: It does not start, for a reason that is told.
        """
        self._number += 1
        asked = self.asked(self._number)
        target = self._options.target
        where = target.storage_class or "the default storage class"
        self._means.told(f"Redis server {asked.name} is made on {where}")
        self._announced = asked
        for manifest in service_manifests(asked):
            self._means.belongings.make(manifest)
        pod = self._starter.start(asked, self._start(configuration, restore=False))
        self._current = _There(asked=asked, pod=pod)
        self._look_around()
        return self._entrance()

    def restart(self, configuration: str, *, restore: bool) -> None:
        """Start it anew with other settings, on the prepared data where asked.

        The first time that data are brought back, those that are there become the prepared ones.

        Raises:
            TargetError: It does not start, for a reason that is told.
        """
        there = self._there
        self._keep_log()
        there.since = None
        self._close_way()
        there.pod = self._starter.start(there.asked, self._start(configuration, restore=restore))
        there.since = self._started_at()
        self._look_around()

    def _start(self, configuration: str, *, restore: bool) -> ServerStart:
        self._starts += 1
        return ServerStart(
            change=f"{self._token}-{self._starts}",
            configuration=pod_configuration(configuration),
            restore=restore,
        )

    def _entrance(self) -> ServerAddress:
        asked = self._there.asked
        return self._means.reach.address(
            self.container,
            asked.service,
            asked.namespace,
            self._options.secret,
            "",
            port=PORT,
            pod_port=PORT,
        )

    def _started_at(self) -> str | None:
        session = self._means.door.connect(self._entrance())
        try:
            return session.info("server").get("run_id") or None
        finally:
            session.close()

    def _look_around(self) -> None:
        there = self._there
        self._seen_on(self.node)
        told = {
            "node": self.node,
            "image": self._options.target.image,
            "QoS class": str((there.pod.get("status") or {}).get("qosClass") or ""),
        }
        subject = f"Redis server {there.asked.name}"
        self._facts = (
            *(Fact(name=n, value=value, subject=subject) for n, value in told.items() if value),
            *volume_facts(self._means.api, there.asked.namespace, there.asked.selector),
        )

    def _close_way(self) -> None:
        self._means.reach.forget(self.container)

    def _remove(self, announced: ServerAsked) -> tuple[Held, ...]:
        self._means.told(f"Redis server {announced.name} and its volume are removed")
        claim = self._means.api.read(announced.claim)
        volumes = tuple(held_by(self._means.api, () if claim is None else (claim,)))
        self._means.belongings.remove(announced.ref)
        self._departure.await_gone([announced.pod, announced.claim])
        for manifest in service_manifests(announced):
            self._means.belongings.remove(ref_of(manifest))
        return self._departure.of_volumes(volumes)

    def _read_log(self, lines: int) -> str:
        return self._means.api.logs(self.container, lines=lines)
