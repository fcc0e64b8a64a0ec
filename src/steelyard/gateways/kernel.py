"""The only door through which the kernel's own files are written: /proc/sys and /sys.

They are read through ``gateways.host``. ``root`` may be a recorded tree, as there.
"""

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from steelyard.model.errors import PrivilegeError, TargetError

_CLOSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class KernelFiles(Protocol):
    """The kernel's files of one machine, for writing."""

    def obstacle(self, path: str) -> str | None:
        """Return why this account cannot write a file, or None where it can."""
        ...

    def write(self, path: str, text: str) -> None:
        """Write a file in one piece; raises TargetError with the kernel's word when it refuses."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalKernelFiles:
    """The files of this machine, or of a tree below ``root``."""

    root: Path = Path("/")

    def obstacle(self, path: str) -> str | None:
        """Return why this account cannot write a file, or None where it can.

        Nothing is opened: for some files that alone has an effect.
        """
        place = self._place(path)
        if not os.path.exists(place):  # noqa: PTH110 - the path is a text
            return "it is not there"
        if os.access(place, os.W_OK):
            return None
        if os.statvfs(place).f_flag & os.ST_RDONLY:
            return "its file system is read-only here, as in a container"
        return "this account may not write it"

    def write(self, path: str, text: str) -> None:
        """Write a file in one piece, as the kernel wants it.

        Raises:
            PrivilegeError: The account may not, or the file system is read-only.
            TargetError: The file is absent, or the kernel refuses the text.
        """
        try:
            descriptor = os.open(self._place(path), os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(descriptor, text.encode())
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _translated(error, path, text) from error

    def _place(self, path: str) -> str:
        return f"{self.root}/{path.lstrip('/')}"


def _translated(error: OSError, path: str, text: str) -> TargetError | PrivilegeError:
    if error.errno in _CLOSED:
        return PrivilegeError(
            f"{path} cannot be written: {error.strerror}",
            hint="Run this as root on the machine itself, not in a container.",
        )
    if error.errno == errno.ENOENT:
        return TargetError(f"{path} is not there", hint="This kernel does not have it.")
    return TargetError(
        f"the kernel refused {text!r} for {path}: {error.strerror}",
        hint="Look at what values it takes, in the kernel's admin guide.",
    )
