"""What a crash test has outside: a directory with a lock, noted so that ``clean`` finds it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from steelyard.experiment import registry
from steelyard.experiment.doors import Doors
from steelyard.experiment.session import new_id
from steelyard.experiment.unmounting import unmounted
from steelyard.gateways.files import Lock, make_directory, remove_tree, short_directory
from steelyard.model.errors import PreflightError
from steelyard.platforms.local.ending import end_all

LOCK: Final = "lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Belongings:
    """Where a test may make what it needs.

    Attributes:
        name: Its id in the registry.
        work: Its directory.
        sockets: For the servers' sockets, with a short path.
    """

    name: str
    work: Path
    sockets: Path

    def note_mount(self, place: Path) -> None:
        """Note that a file system is about to be mounted."""
        registry.note_mount(self.name, place)


@contextmanager
def belongings(root: Path, account: str | None, doors: Doors) -> Iterator[Belongings]:
    """Have a directory below ``root``; everything in it is ended and removed at the end.

    Raises:
        LeftBehindError: A file system is still mounted; ``clean`` goes on from there.
    """
    name = new_id(Path("crash-test"))
    work = root.resolve() / "live" / name  # as the kernel lists what is mounted there
    # The registry first: what dies between the two left nothing.
    registry.register(name, work)
    registry.note_directory(name, work)
    make_directory(work)
    lock = Lock(work / LOCK)
    if not lock.acquire():
        raise PreflightError(f"somebody works in {work}", hint="Start the test again.")
    try:
        sockets = short_directory(
            "steelyard-", account=account, announce=lambda path: registry.note_directory(name, path)
        )
        yield Belongings(name=name, work=work, sockets=sockets)
    finally:
        try:
            _take_away(name, work, doors)
        finally:
            lock.release()


def _take_away(name: str, work: Path, doors: Doors) -> None:
    end_all(work, doors.processes, doors.clock)
    for place in registry.mounts(name):
        unmounted(place, doors)
    for directory in registry.directories(name)[1:]:
        remove_tree(directory)
    registry.unregister(name)
