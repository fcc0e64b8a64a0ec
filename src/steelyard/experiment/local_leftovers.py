"""What dead campaigns and crash tests left on this machine, and whether they are dead."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from steelyard.experiment import registry
from steelyard.experiment.doors import Doors
from steelyard.experiment.stack_doors import stack_doors
from steelyard.gateways.cgroups import Cgroups
from steelyard.model.errors import LeftBehindError, RecordError, SteelyardError
from steelyard.model.outside import TurnedKnob
from steelyard.record.directory import is_held


def is_alive(record: Path) -> bool:
    """Return whether a living process has a record; a crash test has a lock and no journal."""
    begun = (record / "journal.jsonl").exists() or (record / "lock").exists()
    return begun and is_held(record)


def our_mounts(campaign_id: str, directories: Sequence[Path], doors: Doors) -> Iterator[Path]:
    """Yield where something of ours is mounted: a file of a directory of ours, inside the same."""
    for place in registry.mounts(campaign_id):
        image = doors.volumes.mounted_from(place)
        if image is not None and place.parent == image.parent and place.parent in directories:
            yield place


def is_our_group(path: Path, campaign_id: str, cgroups: Cgroups) -> bool:
    """Return whether a path is an existing group with the name of one that the campaign made."""
    name = rf"steelyard-{re.escape(campaign_id)}(-[0-9]+)?-(server|generator)"
    named = path.parent in cgroups.roots() and re.fullmatch(name, path.name) is not None
    return named and cgroups.exists(path)


def turn_back(turned: TurnedKnob, doors: Doors) -> None:
    """Turn a knob of the stack back to what was there.

    Raises:
        LeftBehindError: It is not as it was.
    """
    try:
        stack_doors(doors)[turned.knob.kind].revert(turned.knob, turned.snapshot)
    except RecordError:
        raise
    except SteelyardError as error:
        raise LeftBehindError(
            f"{turned.label} is not as it was: {error.message}",
            hint=f"{error.hint} Then run `steelyard clean` again.".strip(),
        ) from error
