"""A second server beside the live one: a replica, which follows it and is measured with it."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from steelyard.gateways.files import make_directory, remove_tree
from steelyard.model.command import Command, ServerAddress
from steelyard.model.errors import TargetError
from steelyard.model.program import Companion, ServerProgram
from steelyard.platforms.local.server import LocalServer

_HOME: Final = "beside"  # within the home of the first


class Beside:
    """The second server of a platform, while there is one.

    Its data begin empty at each start. It is in no control group: it stands for a server on
    another machine.

    Args:
        made: Makes a server that has a home.
        account: Whose its directories are; None: our own.
        run: Runs a command to its end, with what it is for.
    """

    def __init__(
        self,
        made: Callable[[ServerProgram, Path], LocalServer],
        *,
        account: str | None,
        run: Callable[[Command, str], None],
    ) -> None:
        self._made = made
        self._account = account
        self._run = run
        self._server: LocalServer | None = None

    @property
    def pids(self) -> tuple[int, ...]:
        """Return its first process."""
        return () if self._server is None else (self._server.pid,)

    @property
    def address(self) -> ServerAddress | None:
        """Return where it is reached, while there is one."""
        return None if self._server is None else self._server.address

    def require_running(self) -> None:
        """Check that it lives, where there is one.

        Raises:
            TargetError: It is dead.
        """
        if self._server is not None and not self._server.is_running:
            raise TargetError(f"the replica is not running:\n{self._server.log_tail()}")

    def start(self, companion: Companion | None, home: Path) -> float:
        """Start what belongs beside the server of a home; return the seconds until it was ready.

        Raises:
            TargetError: It did not start, or did not get all that the first has.
        """
        if companion is None:
            return 0.0
        own = home / _HOME
        make_directory(own, account=self._account, mode=0o700)
        remove_tree(own / "data")
        self._run(companion.program.create(own / "data", self._account), "making a data directory")
        self._server = self._made(companion.program, own)
        try:
            return self._server.start(companion.settings, port=None)
        except TargetError as error:
            message = f"the replica beside the server: {error.message}"
            raise TargetError(message, hint=error.hint) from error

    def stop(self) -> Path | None:
        """End it and remove its data; return its log, if it had one."""
        if self._server is None:
            return None
        self._server.stop(keep_data=False)
        remove_tree(self._server.data)
        log = self._server.log
        self._server = None
        return log
