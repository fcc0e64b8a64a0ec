"""A Redis server of a StatefulSet that a campaign makes, measures and takes away.

Equal targets share one server for the campaign: its pod is started anew for each treatment, on a
copy of the prepared data, which lie beside the live ones in the same volume. Where targets differ,
every visit makes its server anew, volume and all, and only one is there at a time.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from steelyard.core.command import ServerAddress, ServerProgram
from steelyard.core.findings import Finding
from steelyard.core.measurement import Fact
from steelyard.places.kubernetes.made_server import MadeInCluster, early_volumes
from steelyard.places.kubernetes.outcomes import PodSight
from steelyard.places.kubernetes.reaching import await_service
from steelyard.places.kubernetes.volumes import storage_class_facts
from steelyard.places.protocol import Ledger, PreparedState
from steelyard.systems.redis.statefulset.manifest import PORT
from steelyard.systems.redis.statefulset.own_server import (
    OwnServer,
    StatefulSetMeans,
    StatefulSetOptions,
)

COPY: Final = "copy"  # of the prepared data, in the server's own volume


class RedisKubernetesPlatform(MadeInCluster):
    """The Redis servers of one target, one at a time."""

    def __init__(
        self, options: StatefulSetOptions, ledger: Ledger, means: StatefulSetMeans
    ) -> None:
        self._server = OwnServer(options, means)
        super().__init__(options, ledger, means.processes, self._server)
        self._options = options
        self._means = means
        self._is_due = True  # the next start brings the data back

    def require_ready(self) -> None:
        """Look at nothing: what can be known was asked when the campaign was assembled."""

    def _build(self, program: ServerProgram, build: Callable[[ServerAddress], None]) -> int:
        build(self._server.make(_text(program, program.while_preparing)))
        self._is_due = True
        return 0

    def restore(self, state: PreparedState, means: str) -> float:
        """Have the data brought back by the next start, which takes the time for it."""
        self._server.rest()
        self._is_due = True
        return 0.0

    def start(
        self, state: PreparedState, program: ServerProgram, settings: Mapping[str, str]
    ) -> float:
        """Start the pod anew with settings; return the seconds.

        Raises:
            TargetError: The server does not start with them.
        """
        begun = self._means.clock.monotonic()
        self._server.restart(_text(program, settings), restore=self._is_due)
        self._is_due = False
        await_service(self.address, self._means.processes, len(self._means.load.pods()))
        return self._means.clock.monotonic() - begun

    def configure(self, settings: Mapping[str, str]) -> bool:
        """Return that the running server has to be told: its pod has what it started with."""
        return True

    def sight(self) -> PodSight | None:
        """Return the containers of server and generators; None while there is no server."""
        if not self._server.is_there:
            return None
        server = self._server
        return self._means.load.sight(self._means.api, server.container, server.node)

    def means(self) -> tuple[str, ...]:
        """Return how data go back here: by a copy inside the volume, while no server runs."""
        return (COPY,)

    def _class_facts(self) -> tuple[Fact, ...]:
        return storage_class_facts(self._means.api, [self._options.target.storage_class])

    def _target_findings(self) -> Iterator[Finding]:
        return early_volumes("server", self._options.target.storage_class, self.facts())


def _text(program: ServerProgram, settings: Mapping[str, str]) -> str:
    """Return the server's configuration file but for what is its pod's."""
    nowhere = ServerAddress(host="", port=PORT)
    return "".join(program.configuration(settings, nowhere, Path("/")).values())
