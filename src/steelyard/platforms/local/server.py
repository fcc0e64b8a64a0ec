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
from steelyard.model.errors import SilentError, TargetError
from steelyard.model.program import ServerProgram

_READY_TIMEOUT_S = 120.0
_LOADING_TIMEOUT_S = 3600.0  # of a server that says it reads its data: tens of GB, a slow store
_POLL_S = 0.02
_STOP_TIMEOUT_S = 120.0
_KILL_TIMEOUT_S = 10.0
_DYING_S = 0.5  # a guess: Redis takes milliseconds from its last word to its end
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
            SilentError: It runs and did not answer in time.
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
            waited_s = self._clock.monotonic() - begun
            if waited_s > self._patience_s(waited_s):
                self.stop(keep_data=False)
                raise SilentError(
                    f"the server did not answer within {waited_s:.0f} s:\n{self.log_tail()}"
                )
            self._clock.sleep(_POLL_S)
        return self._clock.monotonic() - begun

    def _patience_s(self, waited_s: float) -> float:
        """Return how long to wait for an answer: longer while the server says that it loads."""
        if waited_s <= _READY_TIMEOUT_S or not self.program.is_loading(self.address):
            return _READY_TIMEOUT_S
        return _LOADING_TIMEOUT_S

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

    def kill(self) -> None:
        """Kill every process of the server by SIGKILL, as nothing but its death would look.

        Raises:
            TargetError: One does not end: it waits for a disk.
        """
        if self._process is not None:
            self._process.signal(signal.SIGKILL)
        begun = self._clock.monotonic()
        while left := self._processes.within(self.data):
            for pid in left:
                self._processes.signal(pid, signal.SIGKILL)
            if self._clock.monotonic() - begun > _KILL_TIMEOUT_S:
                raise TargetError(
                    f"processes {', '.join(map(str, left))} of the server do not end",
                    hint="They may wait for a disk that hangs; look at them with ps.",
                )
            self._clock.sleep(_POLL_S)
        if self._process is not None:
            self._process.wait(_KILL_TIMEOUT_S)
        self._process = None

    def let_die(self) -> None:
        """Wait a moment for the end of a server that let its clients down.

        It closes their connections before it ends, and must not seem to run in between.
        """
        if self._process is not None:
            self._process.wait(_DYING_S)

    def log_tail(self) -> str:
        """Return the last lines of its log."""
        lines = (read_text(self.log) or "").strip().splitlines()
        return "\n".join(lines[-_LOG_TAIL_LINES:])
