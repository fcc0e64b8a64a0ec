"""Files that another program writes into one directory: read on as they grow, then removed.

The directory may belong to another account: nothing but a plain file with one name is opened in it.
"""

import ctypes
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from steelyard.gateways.files import translated
from steelyard.model.errors import MeasurementError

_CHUNK_BYTES = 1 << 20
_OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_KEEP_SIZE, _PUNCH_HOLE = 0x01, 0x02  # linux/falloc.h
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


class GrowingFiles:
    """The files of a directory, each with how far it was read."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._open: dict[str, int] = {}
        self._read: dict[str, int] = {}
        self._left: set[str] = set()

    def unread_bytes(self) -> int:
        """Return how many bytes were written and not read yet.

        Raises:
            MeasurementError: The directory is gone, or holds something else than plain files.
        """
        self._look()
        sizes = (os.fstat(self._open[name]).st_size - self._read[name] for name in self._open)
        return sum(max(size, 0) for size in sizes)

    def read(self) -> Iterator[tuple[str, bytes]]:
        """Yield what was written since the last reading, by name; its space is given back.

        Raises:
            MeasurementError: As for ``unread_bytes``.
        """
        self._look()
        with translated(self._directory, MeasurementError):
            for name, descriptor in self._open.items():
                yield from self._on(name, descriptor)

    def remove(self) -> None:
        """Close and remove every file, whoever made it; what stays is passed over from then on."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()
        self._read.clear()
        with suppress(OSError):  # without the directory there is nothing to remove
            for path in list(self._directory.iterdir()):
                try:
                    path.unlink()
                except OSError:  # then the end of the campaign removes the directory
                    self._left.add(path.name)

    def drop(self) -> None:
        """Give back the space of all that was opened, read or not: nobody wants it any more."""
        for descriptor in self._open.values():
            with suppress(OSError):
                os.ftruncate(descriptor, 0)

    def _look(self) -> None:
        with translated(self._directory, MeasurementError):
            for name in sorted(path.name for path in self._directory.iterdir()):
                if name not in self._open and name not in self._left:
                    self._open[name] = self._opened(name)
                    self._read[name] = 0

    def _opened(self, name: str) -> int:
        descriptor = os.open(self._directory / name, _OPEN)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            os.close(descriptor)
            raise MeasurementError(
                f"{self._directory / name} is no file that the load generator made",
                hint="Who else writes there? Run the campaign again.",
            )
        return descriptor

    def _on(self, name: str, descriptor: int) -> Iterator[tuple[str, bytes]]:
        """Yield what follows in one file, up to its present end."""
        size = os.fstat(descriptor).st_size
        while self._read[name] < size:
            begin = self._read[name]
            chunk = os.pread(descriptor, min(_CHUNK_BYTES, size - begin), begin)
            if not chunk:
                return
            self._read[name] = begin + len(chunk)
            yield name, chunk
            # Refused by some file systems; then the space is free when the file is removed.
            _LIBC.fallocate(descriptor, _PUNCH_HOLE | _KEEP_SIZE, begin, len(chunk))
