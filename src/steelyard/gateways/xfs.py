"""The only door to file systems of our own: XFS in a file, which can lose its power.

A loop device passes to its file what the file system wrote, and the file outlives the cut, as a
disk does. What the file system had not written yet is gone with the kernel's cache of it.
"""

import fcntl
import os
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Final, Protocol

from steelyard.core.errors import LeftBehindError, PreflightError, PrivilegeError, TargetError
from steelyard.core.outside import Command
from steelyard.gateways.files import free_bytes, read_text, translated
from steelyard.gateways.host import Clock, looks
from steelyard.gateways.process import Processes

PROGRAMS: Final = ("mkfs.xfs", "mount", "umount", "sync")
# Source: fs/xfs/libxfs/xfs_fs.h of Linux: XFS_IOC_GOINGDOWN is _IOR('X', 125, __u32), and of its
# flags XFS_FSOP_GOING_FLAGS_NOLOGFLUSH flushes neither the journal nor data.
_GOING_DOWN: Final = 2 << 30 | 4 << 16 | ord("X") << 8 | 125
_NO_LOG_FLUSH: Final = 2
_UNFLUSHED: Final = "unflushed"
_CONTENT: Final = b"x" * 4096
_TIMEOUT_S: Final = 60.0
_BLOCK_BYTES: Final = 512  # of st_blocks, whatever the file system has: stat(2)
_OCTAL: Final = re.compile(r"\\([0-7]{3})")
_SYSTEM_PATH: Final = "/usr/sbin:/sbin:/usr/bin:/bin"  # an account's PATH may lack the first two


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The call that cuts: when it began and when it was over, in monotonic seconds."""

    begun_at: float
    ended_at: float


class Volumes(Protocol):
    """Makes, mounts, cuts and takes away file systems in files."""

    def require(self) -> None:
        """Raise where this machine or this account cannot do that.

        Raises:
            PrivilegeError: Only root may.
            PreflightError: A program is not here.
        """
        ...

    def room_bytes(self, image: Path) -> int:
        """Return how large a file may get here, over what was there."""
        ...

    def make(self, image: Path, size_bytes: int) -> None:
        """Make an empty file system in a file, over what was there."""
        ...

    def mount(self, image: Path, place: Path) -> None:
        """Mount it at an empty directory; what its journal holds is replayed."""
        ...

    def flush(self, place: Path) -> None:
        """Return once everything on it is in its file."""
        ...

    def cut(self, place: Path, clock: Clock) -> Cut:
        """Take it its power: nothing that is in memory alone reaches its file any more.

        Just before, a file is left on it that nobody flushes.
        """
        ...

    def outlived(self, place: Path) -> bool:
        """Return whether that file is there with all it held: then nothing was cut."""
        ...

    def unmount(self, place: Path) -> None:
        """Unmount it; nothing happens where nothing is mounted.

        Raises:
            LeftBehindError: Somebody uses it.
        """
        ...

    def mounted_from(self, place: Path) -> Path | None:
        """Return the file whose file system is mounted at a directory; None where none is."""
        ...


class XfsVolumes:
    """The real ones, by the system's own programs."""

    def __init__(self, processes: Processes, *, is_root: bool) -> None:
        self._processes = processes
        self._is_root = is_root

    def require(self) -> None:
        """Raise where this machine or this account cannot do that; see ``Volumes``."""
        if not self._is_root:
            raise PrivilegeError(
                "only root can cut the power of a file system: it is mounted for that",
                hint="Run it as root, or leave the power cuts out: --deaths kill.",
            )
        require_programs(
            PROGRAMS, hint="apt-get install xfsprogs, or leave the power cuts out: --deaths kill."
        )

    def room_bytes(self, image: Path) -> int:
        """Return what is free, and what the file itself takes; see ``Volumes``."""
        with translated(image):
            own = image.stat().st_blocks * _BLOCK_BYTES if image.exists() else 0
        return free_bytes(image.parent) + own

    def make(self, image: Path, size_bytes: int) -> None:
        """Make an empty XFS in a sparse file; see ``Volumes``."""
        with translated(image):
            image.unlink(missing_ok=True)
        make_sparse(image, size_bytes)
        self._run("mkfs.xfs", "-q", "-f", str(image))

    def mount(self, image: Path, place: Path) -> None:
        """Mount it on a loop device that goes when it is unmounted; see ``Volumes``."""
        self._run("mount", "-t", "xfs", "-o", "loop,nosuid,nodev", str(image), str(place))

    def flush(self, place: Path) -> None:
        """Return once everything on it is in its file."""
        self._run("sync", "-f", str(place))

    def cut(self, place: Path, clock: Clock) -> Cut:
        """Shut it down without a flush of its journal, as ``xfs_io -x -c shutdown`` does.

        Called directly, and all else is done before: while a program starts or a path is looked
        up, a server has tens of milliseconds to flush what was acknowledged before.
        """
        try:
            descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                (place / _UNFLUSHED).write_bytes(_CONTENT)
                flags = struct.pack("I", _NO_LOG_FLUSH)
                begun_at = clock.monotonic()
                fcntl.ioctl(descriptor, _GOING_DOWN, flags)
                return Cut(begun_at=begun_at, ended_at=clock.monotonic())
            finally:
                os.close(descriptor)
        except OSError as error:
            raise TargetError(
                f"the power of {place} cannot be cut: {error.strerror}",
                hint="It takes an XFS and root; --deaths kill does without.",
            ) from error

    def outlived(self, place: Path) -> bool:
        """Return whether the file is there with all it held; see ``Volumes``.

        Its name may be: a flush of the server's writes the journal for all.
        """
        return read_text(place / _UNFLUSHED) == _CONTENT.decode()

    def unmount(self, place: Path) -> None:
        """Unmount it; see ``Volumes``."""
        if self.mounted_from(place) is None:
            return
        try:
            self._run("umount", str(place))
        except TargetError as error:
            raise LeftBehindError(
                f"{place} is still mounted: {error.message}",
                hint="Look who uses it with fuser -m, then run `steelyard clean`.",
            ) from error

    def mounted_from(self, place: Path) -> Path | None:
        """Return the file below the loop device that is mounted there; see ``Volumes``."""
        devices = devices_at(place, read_text(Path("/proc/self/mounts")) or "")
        if not devices:
            return None
        backing = read_text(Path("/sys/block", Path(devices[-1]).name, "loop/backing_file"))
        return Path(backing.removesuffix("\n")) if backing else Path(devices[-1])

    def _run(self, *words: str) -> None:
        run_program(
            self._processes,
            words,
            hint="Power cuts need XFS and loop devices of the kernel, which a container may not"
            " have; --deaths kill does without them.",
        )


def require_programs(names: Iterable[str], *, hint: str) -> None:
    """Raise where programs of the system are not on this machine.

    Raises:
        PreflightError: Which are not.
    """
    absent = [name for name in names if which(name, path=_SYSTEM_PATH) is None]
    if absent:
        raise PreflightError(f"there is no {' and no '.join(absent)} on this machine", hint=hint)


def make_sparse(image: Path, size_bytes: int) -> None:
    """Make an empty file of a size, which takes no space until something is written."""
    with translated(image), image.open("wb") as file:
        file.truncate(size_bytes)


def run_program(processes: Processes, words: tuple[str, ...], *, hint: str) -> str:
    """Return what a program of the system printed.

    Raises:
        TargetError: It failed; the way out is the hint.
    """
    command = Command(argv=words, environment={"PATH": _SYSTEM_PATH, "LC_ALL": "C"})
    completed = processes.run(command, timeout_s=_TIMEOUT_S)
    if not completed.succeeded:
        told = f"{' '.join(words[:2])} ... {words[-1]} failed: {completed.tail(1)}"
        raise TargetError(told, hint=hint)
    return completed.stdout


_BUSY_S: Final = 10.0  # until the last process let go of a file system; a guess
_POLL_S: Final = 0.05


def unmounted(place: Path, volumes: Volumes, clock: Clock) -> None:
    """Unmount; a process that was just killed may hold it for a moment yet.

    Raises:
        LeftBehindError: Somebody holds it for longer.
    """
    for waited_s in looks(clock, _BUSY_S, _POLL_S):
        try:
            volumes.unmount(place)
        except LeftBehindError:
            if waited_s > _BUSY_S:
                raise
        else:
            return


def devices_at(place: Path, mounts: str) -> list[str]:
    """Return the devices that are mounted at a directory by ``/proc/self/mounts``, in order.

    In names the kernel writes blanks, tabs, line ends and backslashes as three octal digits, and
    nothing else (fs/proc_namespace.c of Linux): what Python takes for a blank or a line end may
    be part of a name.
    """
    lines = (line.split(" ") for line in mounts.split("\n") if line)
    return [words[0] for words in lines if _OCTAL.sub(_character, words[1]) == str(place)]


def _character(match: "re.Match[str]") -> str:
    return chr(int(match[1], 8))
