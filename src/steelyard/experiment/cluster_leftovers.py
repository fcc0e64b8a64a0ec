"""What dead campaigns left in Kubernetes clusters, by their records."""

from steelyard.experiment.doors import Doors
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.model.errors import (
    LeftBehindError,
    RecordError,
    SteelyardError,
)
from steelyard.model.outside import InCluster
from steelyard.platforms.kubernetes.belongings import undo


def undo_placed(thing: InCluster, doors: Doors) -> None:
    """Remove or put back one thing in a cluster.

    Raises:
        LeftBehindError: It is still there; its context means another cluster, or leads to none.
    """
    try:
        undo(thing, _connected(thing, doors), clock=doors.clock)
    except (RecordError, LeftBehindError):
        raise
    except SteelyardError as error:
        raise LeftBehindError(
            f"{thing.label} is left behind: {error.message}",
            hint=f"{error.hint} Then run `steelyard clean` again.".strip(),
        ) from error


def _connected(thing: InCluster, doors: Doors) -> KubernetesApi:
    api = doors.kubernetes.connect(thing.context or None)
    if thing.before and not thing.context and not api.is_inside:
        # What has no label cannot be told from its like in another cluster.
        raise LeftBehindError(
            f"{thing.label} are not as they were; they were changed from inside that cluster",
            hint=f"Put them back there: kubectl patch --type merge -p '{thing.before}'.",
        )
    return api
