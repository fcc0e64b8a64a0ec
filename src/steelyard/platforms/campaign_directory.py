"""What every platform makes on this machine for one campaign: a directory, and one for logs.

Scripts that the generator reads go there, and what it logs goes into memory where there is room.
"""

from pathlib import Path

from steelyard.gateways.files import make_directory, remove_tree
from steelyard.platforms.log_place import LogPlace
from steelyard.platforms.platform import Ledger


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
