"""What the servers of a campaign logged: the end of each, in one file beside the live data."""

from pathlib import Path
from typing import Final

from steelyard.gateways.files import append_text, read_tail
from steelyard.model.errors import PreflightError
from steelyard.model.units import MIB

_NAME: Final = "servers.log"
_BYTES_KEPT: Final = 4 * MIB  # per server, and in all for the record; a guess at what is worth it


class ServerLogs:
    """The logs of the servers that have run in one live directory."""

    def __init__(self, live: Path) -> None:
        self._live = live
        self._unwritten = ""  # what a full disk did not take

    def retire(self, log: Path) -> None:
        """Move the end of a stopped server's log to the campaign's one, which stays on disk."""
        text = read_tail(log, _BYTES_KEPT)
        log.unlink(missing_ok=True)
        if self._live.exists():
            try:
                append_text(self._live / _NAME, text)
            except PreflightError:
                self._unwritten += text

    def with_current(self, log: Path | None) -> str:
        """Return all that was logged, in order; ``log`` is of the server that runs, if one does."""
        kept = read_tail(self._live / _NAME, _BYTES_KEPT)
        current = read_tail(log, _BYTES_KEPT) if log is not None else ""
        return kept + self._unwritten + current
