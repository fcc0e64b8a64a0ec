"""One server process on one data directory: its account, its log, and its end.

PostgreSQL refuses root, so servers run as another account. What each server of a campaign logged at
its end is kept in one file beside the live data. In the end every process is ended that works in a
directory of ours, whoever started it.
"""

import os
import signal
from collections.abc import Collection, Mapping
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Final

from steelyard.core.errors import PreflightError, PrivilegeError, SilentError, TargetError
from steelyard.core.outside import ServerAddress, ServerProgram
from steelyard.core.units import MIB
from steelyard.gateways.files import append_text, read_tail, read_text, write_text
from steelyard.gateways.host import Clock, free_port, looks, until
from steelyard.gateways.process import SHARED, Processes, RunningProcess, account_entry

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
        for waited_s in looks(self._clock, inf, _POLL_S):
            if self.program.is_ready(self.address):
                break
            if not self.is_running:
                raise TargetError(
                    f"the server ({self.program.version}) did not start:\n{self.log_tail()}",
                    hint="Correct the setting or the installation that it complains about.",
                )
            if waited_s > self._patience_s(waited_s):
                self.stop(keep_data=False)
                raise SilentError(
                    f"the server did not answer within {waited_s:.0f} s:\n{self.log_tail()}"
                )
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
        for _ in looks(self._clock, _KILL_TIMEOUT_S, _POLL_S):
            left = self._processes.within(self.data)
            if not left:
                break
            for pid in left:
                self._processes.signal(pid, signal.SIGKILL)
        else:
            raise TargetError(
                f"processes {', '.join(map(str, left))} of the server do not end",
                hint="They may wait for a disk that hangs; look at them with ps.",
            )
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


_GRACE_S = 5.0
_END_POLL_S = 0.1


def end_all(directory: Path, processes: Processes, clock: Clock) -> tuple[int, ...]:
    """End the processes in a directory, in order first, then by force; return those still there."""
    for number in (signal.SIGQUIT, signal.SIGKILL):
        found = [pid for pid in processes.within(directory) if pid != os.getpid()]
        for pid in found:
            processes.signal(pid, number)
            # A process that was stopped by SIGSTOP cannot act before it is continued.
            processes.signal(pid, signal.SIGCONT)
        if until(lambda: not processes.within(directory), clock, _GRACE_S, _END_POLL_S):
            return ()
    return processes.within(directory)


# The first of these that exists is used when Steelyard is root and no account was named. Every
# machine has the last, and other programs run as it, too.
_ACCOUNTS = ("postgres", SHARED)


def server_account(asked: Collection[str]) -> str | None:
    """Return the account for the servers, or None when Steelyard is an ordinary user already.

    Args:
        asked: Different accounts that the configurations name.

    Raises:
        PrivilegeError: Steelyard is root and no account was found, or an ordinary user asks for
            another one.
    """
    if os.geteuid() != 0:
        if asked:
            raise PrivilegeError(
                "only root can start a server as another account",
                hint="Leave `run_as:` out, or run Steelyard as root.",
            )
        return None
    if len(asked) > 1:
        raise PreflightError(
            f"the configurations ask for different accounts: {', '.join(sorted(asked))}",
            hint="Use one `run_as:` in all of them.",
        )
    return _existing_account(tuple(asked) or _ACCOUNTS)


def _existing_account(names: tuple[str, ...]) -> str:
    for name in names:
        try:
            if account_entry(name).pw_uid != 0:
                return name
        except PrivilegeError:
            continue
    raise PrivilegeError(
        f"PostgreSQL does not run as root, and there is no account {' or '.join(names)}",
        hint="Name an unprivileged account with `run_as:` in the target.",
    )
