"""What dead campaigns left in Kubernetes clusters, by their records."""

from collections.abc import Sequence

from steelyard.experiment import registry
from steelyard.experiment.doors import Doors
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.model.errors import (
    LeftBehindError,
    RecordError,
    SteelyardError,
)
from steelyard.model.outside import InCluster
from steelyard.platforms.kubernetes.belongings import undo


def split(
    things: Sequence[InCluster], campaign_id: str
) -> tuple[tuple[InCluster, ...], tuple[InCluster, ...]]:
    """Return what may be undone of what a record lists, and what only its own account undoes.

    What was made is deleted only with the campaign's label. A change is put back by what the record
    says was there; a record may come from somebody else, so the registry must know it, too.
    """
    known = registry.placed(campaign_id)
    ours = tuple(thing for thing in things if not thing.before or thing in known)
    return ours, tuple(thing for thing in things if thing not in ours)


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


def not_ours(thing: InCluster) -> LeftBehindError:
    """Return that a change is not put back from here."""
    return LeftBehindError(
        f"{thing.label} are not as they were, and are not put back from here, because the cache of"
        f" this account does not know of them; they were {thing.before}",
        hint="Clean as the account that ran the campaign, with its cache; or put them back by hand,"
        " then name the record's directory to `steelyard clean`.",
    )
