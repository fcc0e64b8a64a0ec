"""What a platform needs from outside, and what it promises to the runner."""

from pathlib import Path
from typing import Protocol


class Ledger(Protocol):
    """Where a platform writes what it makes outside the record, before it makes it."""

    def created(self, directory: Path) -> None:
        """Note a directory about to be made."""
        ...

    def removed(self, directory: Path) -> None:
        """Note that it is gone again."""
        ...
