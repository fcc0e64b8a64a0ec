"""What of a running server can be seen from the machine that measures it."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Vantage:
    """A server on this machine.

    Attributes:
        pid: Of its first process; all others descend from it.
        data: Its data directory.
        groups: Directories of its control group, by controller, where it has one of its own.
    """

    pid: int
    data: Path
    groups: tuple[Path, ...] = ()
