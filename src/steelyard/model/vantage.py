"""What of a running server can be seen from the machine that measures it."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Vantage:
    """A server on this machine.

    Attributes:
        pid: Of its first process; all others descend from it.
        data: Its data directory.
        beside: First processes of servers that were started beside it: replicas.
        groups: Directories of its control group, by controller, where it has one of its own.
    """

    pid: int
    data: Path
    beside: tuple[int, ...] = ()
    groups: tuple[Path, ...] = ()
