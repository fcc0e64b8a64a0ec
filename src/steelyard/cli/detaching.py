"""Removing a campaign that ran in a cluster, when nothing that it changed waits for its record."""

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from steelyard.campaign.away.fetching import Fetch, fetch
from steelyard.core.errors import LeftBehindError, PreflightError, RecordError, TargetError
from steelyard.gateways.doors import Doors
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.places.job import manifests as making
from steelyard.places.job.finding import record_files
from steelyard.places.job.manifests import JobPlan
from steelyard.record.directory import read_standing


def remove(plan: JobPlan, api: KubernetesApi, doors: Doors, *, again: str, record: Path) -> None:
    """Remove a campaign with its record in the cluster.

    Args:
        plan: The campaign.
        api: Its cluster.
        doors: To the clock.
        again: The command that lets it go on, and undo what it changed.
        record: A verified copy of its record.

    Raises:
        LeftBehindError: It changed something of others that is not as it was.
    """
    _require_put_back(record, again)
    making.remove(plan, api, doors.clock)


def remove_unfetched(plan: JobPlan, api: KubernetesApi, doors: Doors, *, again: str) -> None:
    """Remove a campaign whose record nobody wants, after a look into it.

    Raises:
        LeftBehindError: It changed something of others that is not as it was.
    """
    with tempfile.TemporaryDirectory(prefix="steelyard-") as place:
        if _is_brought(plan, api, doors, Path(place)):
            _require_put_back(Path(place), again)
    making.remove(plan, api, doors.clock)


def _is_brought(plan: JobPlan, api: KubernetesApi, doors: Doors, place: Path) -> bool:
    """Return whether there is a record; a campaign that wrote none has changed nothing."""
    asked = Fetch(campaign_id=plan.campaign_id, target=place, command="", told=lambda _: None)
    try:
        fetch(asked, partial(record_files, plan, api, doors.clock, asked.told), doors.clock)
    except (PreflightError, RecordError, TargetError):  # whose image does not run changed nothing
        return False
    return True


def _require_put_back(record: Path, again: str) -> None:
    changed = list(dict.fromkeys(_open(record)))
    if changed:
        raise LeftBehindError(
            f"the campaign changed {', '.join(changed)} and did not put that back; its record says"
            " how to",
            hint=f"Let it do so, then remove it: {again}",
        )


def _open(record: Path) -> Iterator[str]:
    """Yield what is changed of things that do not go with the campaign's own objects."""
    for made in read_standing(record).left:
        if made.thing is not None or (made.placed is not None and made.placed.before):
            yield made.name
