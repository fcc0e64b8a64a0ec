"""The only door to what the machine says of itself: /proc, /sys and the scheduler.

``root`` may be a recorded tree, so that facts of machines that are not here can be tested.
"""

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from steelyard.gateways.files import read_text


class Host(Protocol):
    """One machine's own account of itself."""

    def read(self, path: str) -> str | None:
        """Return the text of a file such as ``/proc/meminfo``, or None where it is absent."""
        ...

    def cpus(self) -> int:
        """Return how many CPUs this process may run on."""
        ...

    def release(self) -> str:
        """Return the kernel release and machine type."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalHost:
    """This machine, or a recorded tree of its files below ``root``."""

    root: Path = Path("/")

    def read(self, path: str) -> str | None:
        """Return the text of a file, or None where it is absent or unreadable."""
        return read_text(self.root / path.lstrip("/"))

    def cpus(self) -> int:
        """Return how many CPUs this process may run on (affinity, not quota)."""
        return len(os.sched_getaffinity(0))

    def release(self) -> str:
        """Return the kernel release and machine type."""
        return f"{platform.release()} {platform.machine()}"
