"""A Cluster of CloudNativePG that a campaign makes, measures and takes away.

Equal targets share one Cluster for the campaign: its settings are patched, its data come back from
templates on the running server. Where targets differ, every visit makes its Cluster anew, and only
one is there at a time.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from steelyard.core.command import ServerAddress, ServerProgram
from steelyard.core.findings import Finding
from steelyard.core.measurement import Fact
from steelyard.places.kubernetes.made_server import MadeInCluster
from steelyard.places.kubernetes.outcomes import PodSight
from steelyard.places.kubernetes.reaching import await_service
from steelyard.places.protocol import Ledger, PreparedState
from steelyard.systems.postgres.cloudnative_pg import own_cluster as place_facts
from steelyard.systems.postgres.cloudnative_pg.operator import (
    discover,
    require_known,
    require_taken,
)
from steelyard.systems.postgres.cloudnative_pg.own_cluster import (
    ClusterMeans,
    ClusterOptions,
    OwnCluster,
)

TEMPLATE: Final = "template"  # the engine copies databases on the running server
_SIZE: Final = "SELECT coalesce(sum(pg_database_size(oid)), 0)::bigint FROM pg_database"


class CloudNativePgPlatform(MadeInCluster):
    """The Clusters of one target, one at a time."""

    def __init__(self, options: ClusterOptions, ledger: Ledger, means: ClusterMeans) -> None:
        self._cluster = OwnCluster(options, means)
        super().__init__(options, ledger, means.processes, self._cluster)
        self._options = options
        self._means = means

    def require_ready(self) -> None:
        """Check all that can be known before anything is made.

        Raises:
            PreflightError: The operator is not there, or keeps a setting to itself.
            InputError: The operator does not know a field of the Cluster.
        """
        operator = discover(self._means.api)
        require_taken(self._options.settings)
        require_known(self._cluster.manifest(0), operator)

    def _build(self, program: ServerProgram, build: Callable[[ServerAddress], None]) -> int:
        address = self._cluster.make()
        self._await_way(address)
        build(address)
        return int(str(self._means.sql.rows(self._cluster.way.address(), _SIZE)[0][0]))

    def restore(self, state: PreparedState, means: str) -> float:
        """Do nothing: the engine brings data back from templates on the running server."""
        return 0.0

    def start(
        self, state: PreparedState, program: ServerProgram, settings: Mapping[str, str]
    ) -> float:
        """Bring settings into force; return the seconds.

        A server that was just made is restarted, too: else treatments whose settings need it would
        begin with empty buffers, and the others with those that the data were loaded through.

        Raises:
            TargetError: Operator or server refuse them; those before are in force then.
        """
        begun = self._means.clock.monotonic()
        restarts = self._options.restarts or self._options.provisions
        self._cluster.bring(settings, restarts=restarts)
        if restarts:
            self._await_way(self.address)
        return self._means.clock.monotonic() - begun

    def _await_way(self, address: ServerAddress) -> None:
        """Wait until the generators reach the server: while it restarts nobody does."""
        await_service(address, self._means.processes, len(self._means.generators()))

    def configure(self, settings: Mapping[str, str]) -> bool:
        """Bring other settings into force on the running server; it has read them then."""
        self._cluster.bring(settings, restarts=False)
        return False

    def sight(self) -> PodSight | None:
        """Return the containers of server and generators; None while there is no Cluster."""
        primary = self._cluster.way.instance if self._cluster.is_there else None
        if primary is None:
            return None
        return self._means.load.sight(self._means.api, primary.where, primary.node)

    def means(self) -> tuple[str, ...]:
        """Return how data go back here: from templates, on the running server."""
        return (TEMPLATE,)

    def _class_facts(self) -> tuple[Fact, ...]:
        return place_facts.class_facts_of(self._means.api, self._options.target)

    def _target_findings(self) -> Iterator[Finding]:
        return place_facts.findings_of(self._options.target, self.facts(), self._cluster.state)
