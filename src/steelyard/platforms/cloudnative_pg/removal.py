"""Taking a Cluster away with all that it had: pods, claims, and volumes that go with them."""

from collections.abc import Callable

from steelyard.gateways.clock import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.model.kubernetes import CLAIM, POD, Kind, ObjectRef, ref_of
from steelyard.platforms.cloudnative_pg.state import OF_CLUSTER
from steelyard.platforms.kubernetes.belongings import Belongings
from steelyard.platforms.kubernetes.removal import Departure, Held, held_by


class ClusterRemoval:
    """Takes Clusters away.

    Args:
        belongings: Removes the Cluster itself, which must be the campaign's.
        told: Takes a sentence of progress.
    """

    def __init__(
        self,
        api: KubernetesApi,
        belongings: Belongings,
        clock: Clock,
        told: Callable[[str], None],
    ) -> None:
        self._api = api
        self._belongings = belongings
        self._departure = Departure(api, clock)
        self._told = told

    def remove(self, ref: ObjectRef) -> tuple[Held, ...]:
        """Remove a Cluster and wait until nothing of it is left; return the volumes that stay.

        Raises:
            LeftBehindError: Something does not go away.
        """
        self._told(f"Cluster {ref.name} and its volumes are removed")
        claims = self._api.list(CLAIM, ref.namespace, {OF_CLUSTER: ref.name})
        volumes = tuple(held_by(self._api, claims))
        self._belongings.remove(ref)
        self._departure.await_none(lambda: self._left(POD, ref))
        self._departure.await_none(lambda: self._left(CLAIM, ref))
        return self._departure.of_volumes(volumes)

    def _left(self, kind: Kind, ref: ObjectRef) -> list[str]:
        found = self._api.list(kind, ref.namespace, {OF_CLUSTER: ref.name})
        return [ref_of(each).label for each in found]
