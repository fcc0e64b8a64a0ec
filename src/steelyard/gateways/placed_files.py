"""The only door to files of the machine that a plan places: their bytes, mode, owner, attributes.

A file is replaced by a rename, so that whoever reads it sees the old one or the new one, whole.
"""

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Protocol

from steelyard.gateways.files import remove_unfinished, sync_directory, translated
from steelyard.model.errors import PrivilegeError, TargetError

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedFile:
    """A file as it is, or as it shall be.

    Attributes:
        attributes: Extended ones: access control lists, labels, capabilities.
    """

    content: bytes
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    attributes: Mapping[str, bytes] = field(default_factory=dict)


class PlacedFiles(Protocol):
    """Files of one machine by path."""

    def look(self, path: str) -> PlacedFile | None:
        """Return a file, or None where it is absent; raises TargetError where it is no file."""
        ...

    def absent_directories(self, path: str) -> tuple[str, ...]:
        """Return the directories above a path that are not there, the outermost first."""
        ...

    def obstacle(self, path: str) -> str | None:
        """Return why this account cannot place a file there, or None where it can."""
        ...

    def place(self, path: str, file: PlacedFile) -> None:
        """Put a file there, whole or not at all, with the directories above it."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file; an absent one is no error."""
        ...

    def remove_directory(self, path: str) -> None:
        """Remove a directory if nothing is in it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFiles:
    """The files of this machine, or of a tree below ``root``."""

    root: Path = Path("/")

    def look(self, path: str) -> PlacedFile | None:
        """Return a file, or None where it is absent.

        Raises:
            TargetError: It is a link, a directory or a device, or cannot be read.
        """
        place = self._at(path)
        with translated(place, TargetError):
            if not os.path.lexists(place):
                return None
            status = place.lstat()
            if not stat.S_ISREG(status.st_mode):
                raise TargetError(
                    f"{path} is a link, a directory or a device, no plain file",
                    hint="Look at what it is; a plan replaces plain files only.",
                )
            return PlacedFile(
                content=place.read_bytes(),
                mode=stat.S_IMODE(status.st_mode),
                uid=status.st_uid,
                gid=status.st_gid,
                attributes=_attributes(place),
            )

    def absent_directories(self, path: str) -> tuple[str, ...]:
        """Return the directories above a path that are not there, the outermost first."""
        above = [parent for parent in Path(path).parents if not self._at(str(parent)).exists()]
        return tuple(str(parent) for parent in reversed(above))

    def obstacle(self, path: str) -> str | None:
        """Return why this account cannot place a file there, or None where it can."""
        parent = self._at(path).parent
        while not parent.exists():
            parent = parent.parent
        if not parent.is_dir():
            return f"{parent} is no directory"
        if os.access(parent, os.W_OK | os.X_OK):
            return None
        if os.statvfs(parent).f_flag & os.ST_RDONLY:
            return f"{parent} is on a read-only file system"
        return f"this account may not write in {parent}"

    def place(self, path: str, file: PlacedFile) -> None:
        """Put a file there, whole or not at all, with the directories above it.

        Raises:
            PrivilegeError: It needs an owner that this account may not give.
            TargetError: The disk is full or refuses.
        """
        target = self._at(path)
        temporary = target.with_name(f".{target.name}.{token_hex(4)}")
        with translated(target, TargetError):
            target.parent.mkdir(parents=True, exist_ok=True)
            remove_unfinished(target.parent, target.name)  # of a death at this very place
            try:
                _write(temporary, file)
                temporary.replace(target)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
            sync_directory(target.parent)

    def remove(self, path: str) -> None:
        """Remove a file and what a death in the middle of ``place`` left; absent is no error.

        Raises:
            TargetError: It cannot be removed.
        """
        target = self._at(path)
        if not target.parent.is_dir():
            return
        with translated(target, TargetError):
            remove_unfinished(target.parent, target.name)
            target.unlink(missing_ok=True)
            sync_directory(target.parent)

    def remove_directory(self, path: str) -> None:
        """Remove a directory if nothing is in it; somebody else's files keep it."""
        with suppress(OSError):
            self._at(path).rmdir()

    def _at(self, path: str) -> Path:
        return self.root / path.lstrip("/")


def _write(path: Path, file: PlacedFile) -> None:
    descriptor = os.open(path, _NEW_FILE, 0o600)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(file.content)
        opened.flush()
        status = os.fstat(descriptor)
        if (status.st_uid, status.st_gid) != (file.uid, file.gid):
            _give(descriptor, path, file)
        for name, value in file.attributes.items():
            os.setxattr(descriptor, name, value)
        os.fchmod(descriptor, file.mode)  # after the owner, whose change clears set-uid bits
        os.fsync(descriptor)


def _give(descriptor: int, path: Path, file: PlacedFile) -> None:
    try:
        os.fchown(descriptor, file.uid, file.gid)
    except PermissionError as error:
        raise PrivilegeError(
            f"{path.parent} needs a file of user {file.uid} and group {file.gid}, which this"
            " account may not make",
            hint="Run it as root.",
        ) from error


def _attributes(path: Path) -> dict[str, bytes]:
    try:
        return {name: os.getxattr(path, name) for name in os.listxattr(path)}
    except OSError:
        return {}  # a file system without them
