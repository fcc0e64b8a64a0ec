"""What every platform makes on this machine for one campaign: a directory, and one for logs.

Scripts that the generator reads go there, and what it logs goes into memory where there is room.

Where the generator's logs of transactions go while a run goes on: into memory, not to a disk.

A log on the device that is measured would be part of what is measured.
"""

from collections.abc import Callable
from pathlib import Path

from steelyard.core.errors import PreflightError
from steelyard.core.units import MIB
from steelyard.gateways.files import (
    free_bytes,
    is_in_memory,
    make_directory,
    remove_tree,
    short_directory,
)
from steelyard.places.protocol import Ledger

MEMORY = Path("/dev/shm")  # noqa: S108 - the directory made there is private
LEAST_FREE_BYTES = 64 * MIB  # twice `run_log.SCARCE_BYTES`; PostgreSQL's own segments are there


class LogPlace:
    """A private directory of one campaign for logs.

    Args:
        ledger: Is told before something is made in memory.
        account: Which the generator runs as; None means our own.
        beside: Returns the directory on disk that is taken where memory has no room.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        account: str | None,
        beside: Callable[[], Path],
        memory: Path = MEMORY,
    ) -> None:
        self._ledger = ledger
        self._account = account
        self._beside = beside
        self._memory = memory
        self._made: Path | None = None
        self._chosen: bool | None = None

    @property
    def in_memory(self) -> bool:
        """Return whether logs go into memory; chosen once, for all runs of the campaign."""
        if self._chosen is None:
            self._chosen = self._has_room() and self._is_made()
        return self._chosen

    def directory(self) -> Path:
        """Return a directory that the generator's account may write and nobody else read.

        Raises:
            PreflightError: Neither memory nor disk takes one.
        """
        if not self.in_memory:
            path = self._beside() / "logs"
            make_directory(path, account=self._account, mode=0o700)
            return path
        return self._memory_directory()

    def _has_room(self) -> bool:
        return is_in_memory(self._memory) and free_bytes(self._memory) >= LEAST_FREE_BYTES

    def _is_made(self) -> bool:
        """Return whether memory takes a directory: it may be read-only, or out of inodes."""
        try:
            self._memory_directory()
        except PreflightError:
            path = self.remove()
            if path is not None:
                self._ledger.removed(path)
            return False
        return True

    def _memory_directory(self) -> Path:
        if self._made is None or not self._made.is_dir():
            self._made = short_directory(
                "steelyard-", account=self._account, announce=self._noted, parent=self._memory
            )
        return self._made

    def _noted(self, path: Path) -> None:
        self._ledger.created(path)
        self._made = path  # before it is made: then its removal is ours, whatever comes between

    def remove(self) -> Path | None:
        """Remove what was made in memory; return it, so that the ledger can be told last."""
        path, self._made = self._made, None
        if path is not None:
            remove_tree(path)
        return path


class WithCampaignDirectory:
    """A platform that has a directory of its campaign on this machine.

    Args:
        live: The directory, which is made when it is first needed.
        ledger: Is told before anything is made.
        account: Which the generator runs as; None means our own.
    """

    def __init__(self, live: Path, ledger: Ledger, account: str | None = None) -> None:
        self._live = live
        self._ledger = ledger
        self._logs = LogPlace(ledger, account=account, beside=lambda: self._made(live))

    @property
    def scripts(self) -> Path:
        """Return a directory whose files the generator can read."""
        return self._made(self._live / "scripts")

    def log_directory(self) -> Path:
        """Return a private directory for the generator's logs, in memory where there is room."""
        return self._logs.directory()

    def logs_in_memory(self) -> bool:
        """Return whether that directory lies in memory."""
        return self._logs.in_memory

    def _made(self, directory: Path) -> Path:
        """Return a directory in or below the live one, made now where it is not there."""
        if not self._live.exists():
            self._ledger.created(self._live)
        make_directory(directory)
        return directory

    def _removed_here(self) -> list[Path]:
        """Remove what was made here; return it, so that the ledger can be told last."""
        logs = self._logs.remove()
        removed = [] if logs is None else [logs]
        if self._live.exists():
            remove_tree(self._live)
            removed.insert(0, self._live)
        return removed
