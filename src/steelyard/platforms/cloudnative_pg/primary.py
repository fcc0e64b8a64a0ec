"""The way to the primary of a Cluster, which may be another pod from one moment to the next."""

from typing import Final

from steelyard.model.command import ServerAddress
from steelyard.model.errors import TargetError
from steelyard.model.kubernetes import ContainerRef, ObjectRef, SecretRef
from steelyard.platforms.cloudnative_pg.state import ClusterState, Instance
from steelyard.platforms.kubernetes.reaching import Reach

ENTRANCE: Final = "postgres"  # the database that is always there


class PrimaryWay:
    """Follows the primary of one Cluster.

    Args:
        secret: With the user and password of whoever comes.
        database: To connect to.
    """

    def __init__(
        self, ref: ObjectRef, reach: Reach, secret: SecretRef, database: str = ENTRANCE
    ) -> None:
        self._ref = ref
        self._reach = reach
        self._secret = secret
        self._database = database
        self._known: Instance | None = None

    @property
    def service(self) -> str:
        """Return the Service that leads to the primary, whichever pod that is."""
        return f"{self._ref.name}-rw"

    @property
    def instance(self) -> Instance | None:
        """Return the primary as it was last seen."""
        return self._known

    @property
    def pod(self) -> ContainerRef:
        """Return the primary's container as it was last seen.

        Raises:
            TargetError: None was seen yet.
        """
        if self._known is None:
            raise TargetError(f"{self._ref.label} has no primary that is known")
        return self._known.where

    def follow(self, state: ClusterState) -> ServerAddress:
        """Return where the primary of a Cluster in some state is reached.

        Raises:
            TargetError: It has none, or the way there is closed.
        """
        primary = state.primary_instance
        if primary is None:
            raise TargetError(f"{self._ref.label} has no primary: {state.progress}")
        if self._known is not None and self._known.uid != primary.uid:
            self._reach.forget(self._known.where)
        self._known = primary
        return self.address()

    def address(self) -> ServerAddress:
        """Return where the primary is reached that was last seen.

        Raises:
            TargetError: None was seen yet, or the way there is closed.
        """
        return self._reach.address(
            self.pod, self.service, self._ref.namespace, self._secret, self._database
        )

    def forget(self) -> None:
        """Close the way: the primary is about to go."""
        if self._known is not None:
            self._reach.forget(self._known.where)
        self._known = None
