"""The end of a file system of our own: whoever holds it for a moment yet is waited for."""

from pathlib import Path
from typing import Final

from steelyard.experiment.doors import Doors
from steelyard.model.errors import LeftBehindError

_BUSY_S: Final = 10.0  # until the last process let go of a file system; a guess
_POLL_S: Final = 0.05


def unmounted(place: Path, doors: Doors) -> None:
    """Unmount; a process that was just killed may hold it for a moment yet.

    Raises:
        LeftBehindError: Somebody holds it for longer.
    """
    begun = doors.clock.monotonic()
    while True:
        try:
            doors.volumes.unmount(place)
        except LeftBehindError:
            if doors.clock.monotonic() - begun > _BUSY_S:
                raise
            doors.clock.sleep(_POLL_S)
        else:
            return
