"""One server process on one data directory."""

import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from steelyard.gateways.clock import Clock
from steelyard.gateways.files import read_text, write_text
from steelyard.gateways.network import free_port
from steelyard.gateways.process import Processes, RunningProcess
from steelyard.model.command import ServerAddress
from steelyard.model.errors import TargetError
from steelyard.model.program import ServerProgram

_READY_TIMEOUT_S = 120.0
_POLL_S = 0.02
_STOP_TIMEOUT_S = 120.0
_KILL_TIMEOUT_S = 10.0
_LOG_TAIL_LINES = 6


class LocalServer:
    """A server of this machine: started, asked, stopped; its data directory stays.

    Args:
        home: Directory that holds ``data`` and ``server.log``.
        sockets: Private directory of its Unix socket.
    """

    def __init__(
        self,
        program: ServerProgram,
        home: Path,
        sockets: Path,
        *,
        account: str | None,
        processes: Processes,
        clock: Clock,
    ) -> None:
        self.program = program
        self.data = home / "data"
        self.log = home / "server.log"
        self._sockets = sockets
        self._account = account
        self._processes = processes
        self._clock = clock
        self._process: RunningProcess | None = None
        self._port = 0

    @property
    def address(self) -> ServerAddress:
        """Return the address of its Unix socket."""
        user, database = self.program.superuser
        return ServerAddress(host=str(self._sockets), port=self._port, user=user, database=database)

    @property
    def pid(self) -> int:
        """Return the id of its first process.

        Raises:
            TargetError: None is running.
        """
        if self._process is None:
            raise TargetError("the server is not running")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Return whether the process is alive."""
        return self._process is not None and self._process.exit_status() is None

    def configure(self, settings: Mapping[str, str]) -> None:
        """Write the configuration files; a running server reads them at its next reload."""
        files = self.program.configuration(settings, self.address, self._sockets)
        for name, text in files.items():
            write_text(self.data / name, text, account=self._account)

    def start(
        self, settings: Mapping[str, str], *, port: int | None, groups: tuple[Path, ...] = ()
    ) -> float:
        """Start the server, in its control groups, and return the seconds until it answered.

        Raises:
            TargetError: It did not start; the message holds the end of its log.
        """
        self._port = port if port is not None else free_port()
        self.configure(settings)
        begun = self._clock.monotonic()
        command = replace(self.program.start(self.data, self._account), groups=groups)
        self._process = self._processes.start(command, output=self.log)
        while not self.program.is_ready(self.address):
            if not self.is_running:
                raise TargetError(
                    f"the server ({self.program.version}) did not start:\n{self.log_tail()}",
                    hint="Correct the setting or the installation that it complains about.",
                )
            if self._clock.monotonic() - begun > _READY_TIMEOUT_S:
                self.stop(keep_data=False)
                raise TargetError(
                    f"the server did not answer within {_READY_TIMEOUT_S:.0f} s:\n"
                    f"{self.log_tail()}",
                )
            self._clock.sleep(_POLL_S)
        return self._clock.monotonic() - begun

    def stop(self, *, keep_data: bool) -> None:
        """Stop the server; in order when its data are still needed, at once when not."""
        if self._process is None:
            return
        orderly, at_once = self.program.stop_signals
        for number, timeout_s in (
            (orderly if keep_data else at_once, _STOP_TIMEOUT_S),
            (at_once, _KILL_TIMEOUT_S),
            (signal.SIGKILL, _KILL_TIMEOUT_S),
        ):
            self._process.signal(number)
            # A server that was stopped by SIGSTOP cannot act before it is continued.
            self._process.signal(signal.SIGCONT)
            if self._process.wait(timeout_s if keep_data else _KILL_TIMEOUT_S):
                break
        self._process = None

    def log_tail(self) -> str:
        """Return the last lines of its log."""
        lines = (read_text(self.log) or "").strip().splitlines()
        return "\n".join(lines[-_LOG_TAIL_LINES:])
