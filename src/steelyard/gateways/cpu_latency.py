"""The door to ``/dev/cpu_dma_latency``: how long a CPU may take to wake up, while somebody asks.

The kernel keeps the request as long as the file is open, and drops it when its holder ends,
however it ends: nothing is left to undo. Source: Linux, power/pm_qos_interface.rst.
"""

import os
import struct
from pathlib import Path
from typing import Final, Protocol

from steelyard.model.errors import PrivilegeError, TargetError

_DEVICE: Final = Path("/dev/cpu_dma_latency")
_WORD: Final = struct.Struct("=i")


class CpuLatency(Protocol):
    """The longest wake-up that is allowed to CPUs."""

    def obstacle(self) -> str | None:
        """Return why this account cannot ask for one, or None where it can."""
        ...

    def in_force_us(self) -> int | None:
        """Return the limit in force, whoever asked for it; None where nobody can see it."""
        ...

    def hold(self, microseconds: int) -> None:
        """Ask for a limit from now on; raises TargetError when the kernel refuses."""
        ...

    def release(self) -> None:
        """Ask for nothing any more."""
        ...


class SystemCpuLatency:
    """The limit of this machine."""

    def __init__(self, device: Path = _DEVICE) -> None:
        self._device = device
        self._held: int | None = None

    def obstacle(self) -> str | None:
        """Return why this account cannot ask for a limit, or None where it can."""
        if not self._device.exists():
            return f"{self._device} is not there"
        if not os.access(self._device, os.W_OK):
            return f"this account may not write {self._device}"
        return None

    def in_force_us(self) -> int | None:
        """Return the limit in force; None where it cannot be read."""
        try:
            text = self._device.read_bytes()
        except OSError:
            return None
        return _WORD.unpack_from(text)[0] if len(text) >= _WORD.size else None

    def hold(self, microseconds: int) -> None:
        """Ask for a limit from now on; a former one of ours is replaced.

        Raises:
            PrivilegeError: This account may not.
            TargetError: The kernel refuses.
        """
        try:
            if self._held is None:
                self._held = os.open(self._device, os.O_RDWR | os.O_CLOEXEC)
            os.write(self._held, _WORD.pack(microseconds))
        except PermissionError as error:
            raise PrivilegeError(
                f"{self._device} cannot be written: {error.strerror}", hint="Run this as root."
            ) from error
        except OSError as error:
            raise TargetError(
                f"the kernel refused a wake-up of {microseconds} us: {error.strerror}",
                hint="Leave `dma_latency` out.",
            ) from error

    def release(self) -> None:
        """Ask for nothing any more."""
        if self._held is not None:
            os.close(self._held)
            self._held = None
