"""What the data of a crash test lie on: a directory, or a file system that loses its power.

What the test has outside is a directory with a lock, noted so that ``clean`` finds it.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from steelyard.core.errors import PreflightError
from steelyard.core.outside import Command, MadeDirectory
from steelyard.core.redis import Death
from steelyard.core.units import MIB, format_bytes
from steelyard.gateways.doors import Doors
from steelyard.gateways.files import Lock, make_directory, remove_tree, short_directory
from steelyard.gateways.stores import unmounted
from steelyard.places.local.server import LocalServer, end_all
from steelyard.record import registry


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
    name = f"crash-test-{secrets.token_hex(3)}"
    work = root.resolve() / "live" / name  # as the kernel lists what is mounted there
    # The registry first: what dies between the two left nothing.
    registry.register(name, work)
    registry.note(name, MadeDirectory(path=work))
    make_directory(work)
    lock = Lock(work / "lock")
    if not lock.acquire():
        raise PreflightError(f"somebody works in {work}", hint="Start the test again.")
    try:
        sockets = short_directory(
            "steelyard-",
            account=account,
            announce=lambda path: registry.note(name, MadeDirectory(path=path)),
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
        unmounted(place, doors.volumes, doors.clock)
    for directory in registry.directories(name)[1:]:
        remove_tree(directory)
    registry.unregister(name)


VOLUME_BYTES: Final = 2048 * MIB  # sparse; a guess: seconds of writes, and PostgreSQL's WAL
_HOME: Final = "server"
_COPY_TIMEOUT_S: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a server came to its end.

    Attributes:
        begun_at: When the kill or the cut began, monotonic seconds.
        window_s: How long the call took that cut; None: there was no cut.
        took_unflushed: A file that was not flushed went with the cut; None: there was none.
    """

    begun_at: float
    window_s: float | None = None
    took_unflushed: bool | None = None


class Directory:
    """A plain directory, where servers can only be killed."""

    def __init__(self, own: Belongings, account: str | None, doors: Doors) -> None:
        self._home = own.work / _HOME
        self._account = account
        self._doors = doors

    @property
    def described(self) -> str:
        """Return what it is, for reports."""
        return "a directory"

    def renew(self, template: Path) -> Path:
        """Return the home of a server with a fresh copy of the template's data."""
        remove_tree(self._home)
        make_directory(self._home, account=self._account)
        copy_data(template, self._home, self._doors)
        return self._home

    def die(self, server: LocalServer, death: Death) -> Ended:
        """Kill the server; the power of a plain directory cannot be cut."""
        assert death is Death.KILL  # noqa: S101 - a test with power cuts has another ground
        begun_at = self._doors.clock.monotonic()
        server.kill()
        return Ended(begun_at=begun_at)


class CutVolume:
    """An XFS in a file, made anew for each death."""

    def __init__(self, own: Belongings, account: str | None, doors: Doors) -> None:
        self._image = own.work / "volume.img"
        self._place = own.work / "volume"
        self._account = account
        self._doors = doors
        self._volumes = doors.volumes
        make_directory(self._place)
        own.note_mount(self._place)

    @property
    def described(self) -> str:
        """Return what it is."""
        return "XFS on a loop device"

    def renew(self, template: Path) -> Path:
        """Return a fresh home on a fresh file system.

        Raises:
            PreflightError: There is no room for it.
        """
        unmounted(self._place, self._volumes, self._doors.clock)
        self._require_room()
        self._volumes.make(self._image, VOLUME_BYTES)
        self._volumes.mount(self._image, self._place)
        home = self._place / _HOME
        make_directory(home, account=self._account)
        copy_data(template, home, self._doors)
        self._volumes.flush(self._place)
        return home

    def _require_room(self) -> None:
        """Raise where the sparse file might not get all of its space.

        XFS would have taken a write which the loop device then cannot pass on: a loss that the
        server is no party to.
        """
        room = self._volumes.room_bytes(self._image)
        if room < VOLUME_BYTES:
            raise PreflightError(
                f"{self._image.parent} has room for {format_bytes(room)}, and the file system whose"
                f" power is cut may take {format_bytes(VOLUME_BYTES)}",
                hint="Name a place with room for it (--directory DIR), or leave the power cuts out:"
                " --deaths kill.",
            )

    def die(self, server: LocalServer, death: Death) -> Ended:
        """Kill the server, or cut the power: then its file system first, and it is mounted again.

        With the server first, the kernel would have time to write back what it left.
        """
        if death is Death.KILL:
            begun_at = self._doors.clock.monotonic()
            server.kill()
            return Ended(begun_at=begun_at)
        cut = self._volumes.cut(self._place, self._doors.clock)
        server.kill()
        unmounted(self._place, self._volumes, self._doors.clock)
        self._volumes.mount(self._image, self._place)
        return Ended(
            begun_at=cut.begun_at,
            window_s=cut.ended_at - cut.begun_at,
            took_unflushed=not self._volumes.outlived(self._place),
        )


Ground = Directory | CutVolume  # what the data of a test lie on


def copy_data(template: Path, home: Path, doors: Doors) -> None:
    """Copy the data of a stopped server into another home.

    Raises:
        PreflightError: It fails: the disk is full.
    """
    argv = ("cp", "--archive", "--reflink=auto", str(template / "data"), str(home))
    completed = doors.processes.run(Command(argv=argv), timeout_s=_COPY_TIMEOUT_S)
    if not completed.succeeded:
        raise PreflightError(
            f"the data of the server could not be copied: {completed.tail(1)}",
            hint="Name a place with room for them: --directory DIR.",
        )
