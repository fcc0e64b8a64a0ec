"""The only door to what the machine says of itself: /proc, /sys, the scheduler and file systems.

``root`` may be a recorded tree, so that facts of machines that are not here can be tested.
"""

import os
import platform
import resource
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

_CHUNK_BYTES = 1 << 16  # most files of /proc come in one piece
# The kernel hands out whole lines of a page's worth at least (fs/seq_file.c): after so short a
# piece comes nothing more, and every call that is not made is less of what is measured.
_SURELY_ALL_BYTES = 512
_NUMBER_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The size of a file system, and what an unprivileged account may still write."""

    total_bytes: int
    free_bytes: int


class Host(Protocol):
    """One machine's own account of itself."""

    def read(self, path: str) -> str | None:
        """Return the text of a file such as ``/proc/meminfo``, or None where it is absent."""
        ...

    def names(self, path: str) -> tuple[str, ...]:
        """Return the names in a directory such as ``/proc``; none where it is absent."""
        ...

    def number(self, path: str) -> int | None:
        """Return the 32-bit number that a device file holds, or None where it is closed to us."""
        ...

    def device(self, path: str) -> tuple[int, int] | None:
        """Return major and minor number of the device that holds a file, links followed."""
        ...

    def space(self, path: str) -> Space | None:
        """Return the size of the file system that holds a file, or None where that is absent."""
        ...

    def cpus(self) -> int:
        """Return how many CPUs this process may run on."""
        ...

    def release(self) -> str:
        """Return the kernel release and machine type."""
        ...

    def own_cpu_s(self) -> float:
        """Return the seconds of CPU that this process has used, all threads."""
        ...

    def children_cpu_s(self) -> float:
        """Return what the children of this process have used that ended and were waited for."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalHost:
    """This machine, or a recorded tree of its files below ``root``."""

    root: Path = Path("/")

    def read(self, path: str) -> str | None:
        """Return the text of a file, or None where it is absent or unreadable.

        Probes read hundreds of files in a second: system calls alone, no file object.
        """
        try:
            descriptor = os.open(self._place(path), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            pieces = [os.read(descriptor, _CHUNK_BYTES)]
            while len(pieces[-1]) >= _SURELY_ALL_BYTES:
                pieces.append(os.read(descriptor, _CHUNK_BYTES))
        except OSError:
            return None  # a directory, or a process that ended meanwhile
        finally:
            os.close(descriptor)
        return b"".join(pieces).decode(errors="replace")

    def names(self, path: str) -> tuple[str, ...]:
        """Return the names in a directory; none where it is absent or closed."""
        try:
            return tuple(os.listdir(self._place(path)))  # noqa: PTH208 - in a hot loop
        except OSError:
            return ()

    def number(self, path: str) -> int | None:
        """Return the 32-bit number that a device file holds, or None where it is closed to us."""
        try:
            with Path(self._place(path)).open("rb") as file:
                octets = file.read(_NUMBER_BYTES)
        except OSError:
            return None
        return int.from_bytes(octets, sys.byteorder) if len(octets) == _NUMBER_BYTES else None

    def device(self, path: str) -> tuple[int, int] | None:
        """Return major and minor number of the device that holds a file, links followed."""
        try:
            number = os.stat(self._place(path)).st_dev  # noqa: PTH116 - the path is a text
        except OSError:
            return None
        return os.major(number), os.minor(number)

    def space(self, path: str) -> Space | None:
        """Return the size of the file system that holds a file, or None where that is absent."""
        try:
            status = os.statvfs(self._place(path))
        except OSError:
            return None
        return Space(
            total_bytes=status.f_blocks * status.f_frsize,
            free_bytes=status.f_bavail * status.f_frsize,
        )

    def cpus(self) -> int:
        """Return how many CPUs this process may run on (affinity, not quota)."""
        return len(os.sched_getaffinity(0))

    def release(self) -> str:
        """Return the kernel release and machine type."""
        return f"{platform.release()} {platform.machine()}"

    def own_cpu_s(self) -> float:
        """Return the seconds of CPU that this process has used, all threads."""
        return _cpu_s(resource.RUSAGE_SELF)

    def children_cpu_s(self) -> float:
        """Return what the children of this process have used that ended and were waited for."""
        return _cpu_s(resource.RUSAGE_CHILDREN)

    def _place(self, path: str) -> str:
        return f"{self.root}/{path.lstrip('/')}"


def _cpu_s(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime
