"""The freezer of one control group, with its files held open: a pause must cost little.

Version 1 has ``freezer.state``, version 2 ``cgroup.freeze`` and ``cgroup.events``. In version 1 a
frozen process ignores even SIGKILL until it is thawed.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from steelyard.model.errors import TargetError

STATE: Final = "freezer.state"  # version 1
FREEZE: Final = "cgroup.freeze"  # version 2
EVENTS: Final = "cgroup.events"
FROZEN: Final = "FROZEN"
THAWED: Final = "THAWED"
_ROOM: Final = 256  # more than either file has


class Freezer(Protocol):
    """Lets all processes of a group stand still."""

    def freeze(self) -> None:
        """Begin to freeze; ``is_frozen`` tells when it is done."""
        ...

    def thaw(self) -> None:
        """Let everything go on."""
        ...

    def is_frozen(self) -> bool:
        """Return whether nothing in the group runs."""
        ...

    def close(self) -> None:
        """Thaw, and give back what is held open."""
        ...


class SystemFreezer:
    """The freezer of a group of this machine, whichever version the group is of.

    Raises:
        TargetError: The group has none, or it may not be written.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._is_first = (directory / STATE).exists()
        self._control = self._open(STATE if self._is_first else FREEZE, os.O_RDWR)
        self._state = self._control if self._is_first else self._open(EVENTS, os.O_RDONLY)

    def _open(self, name: str, way: int) -> int:
        try:
            return os.open(self._directory / name, way | os.O_CLOEXEC)
        except OSError as error:
            raise TargetError(
                f"the control group {self._directory} cannot be frozen: {error.strerror}: {name}",
                hint="Version 2 can since Linux 5.2; or run one configuration at a time.",
            ) from error

    def freeze(self) -> None:
        """Begin to freeze."""
        self._write(FROZEN if self._is_first else "1")

    def thaw(self) -> None:
        """Let everything go on."""
        self._write(THAWED if self._is_first else "0")

    def is_frozen(self) -> bool:
        """Return whether nothing in the group runs."""
        words = os.pread(self._state, _ROOM, 0).decode().split("\n")
        return (FROZEN if self._is_first else "frozen 1") in words

    def _write(self, word: str) -> None:
        try:
            os.pwrite(self._control, f"{word}\n".encode(), 0)
        except OSError as error:
            raise TargetError(
                f"the kernel refuses `{word}` for the control group {self._directory}:"
                f" {error.strerror}"
            ) from error

    def close(self) -> None:
        """Thaw, and close the files."""
        if self._control >= 0:
            with suppress(TargetError):  # the group is gone
                self.thaw()
            for descriptor in {self._control, self._state}:
                os.close(descriptor)
            self._control = self._state = -1
