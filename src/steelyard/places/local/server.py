"""Data directories on this machine, and the server process on one: its account, its log, its end.

A state is prepared once, kept in the cache under a key made of everything that decides its
content, and never started again: every use is a copy. Programs are copied where the server's
account cannot reach them.

Scripts that the generator reads go into a directory of the campaign. Its logs of transactions go
into memory where there is room, because a log on the device that is measured would be part of what
is measured.

PostgreSQL refuses root, so servers run as another account. What each server of a campaign logged at
its end is kept in one file beside the live data. In the end every process is ended that works in a
directory of ours, whoever started it.
"""

import json
import os
import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Final

from steelyard.core.outside import (
    Command,
    MadeDirectory,
    ServerAddress,
    ServerProgram,
    stored_key,
)
from steelyard.core.wording import (
    MIB,
    LeftBehindError,
    PreflightError,
    PrivilegeError,
    SilentError,
    TargetError,
    redacted,
)
from steelyard.gateways.files import (
    Lock,
    append_text,
    belongs_to,
    cache_directory,
    free_bytes,
    is_in_memory,
    make_directory,
    reachable_by,
    read_tail,
    read_text,
    remove_tree,
    rename,
    short_directory,
    tree_bytes,
    write_text,
)
from steelyard.gateways.host import Clock, free_port, looks, until
from steelyard.gateways.process import (
    SHARED,
    Processes,
    RunningProcess,
    Together,
    account_entry,
)
from steelyard.places.local.groups import PausedGenerators
from steelyard.places.protocol import Ledger, Platform, PreparedState
from steelyard.places.workers import WorkerGenerators

_PROGRAM_COPY_TIMEOUT_S = 300.0

ProgramReach = Callable[[Path, tuple[Path, ...], str], Path]
"""Returns where an account can reach programs, of which parts and by what label."""


def where_it_is(programs: Path, parts: tuple[Path, ...], label: str) -> Path:  # noqa: ARG001 - a reach
    """Return the directory of programs itself: whoever runs them can reach it."""
    return programs


def staged(
    programs: Path,
    parts: tuple[Path, ...],
    label: str,
    *,
    account: str | None,
    processes: Processes,
) -> Path:
    """Return a directory of programs that ``account`` can reach: itself, or a copy in the cache.

    A virtual environment below root's home is closed to every other account.

    Args:
        programs: Directory of the programs, inside the first of ``parts``.
        parts: Directories that must stay side by side for the programs to find their libraries.
        label: Name of the copy: equal for equal programs.
        account: Whose reach counts; None means our own.
        processes: Copies.

    Raises:
        PreflightError: Copying failed.
    """
    if reachable_by(programs, account):
        return programs
    home = cache_directory() / "programs" / label
    make_directory(home.parent)
    with Lock(home.with_name(f"{label}.lock"), PreflightError):
        if not home.exists():
            _copy(parts, home, processes)
    return home / parts[0].name / programs.relative_to(parts[0])


def _copy(parts: tuple[Path, ...], home: Path, processes: Processes) -> None:
    unfinished = home.with_name(f"{home.name}.unfinished")
    remove_tree(unfinished)
    make_directory(unfinished)
    argv = ("cp", "--archive", *map(str, parts), str(unfinished))
    completed = processes.run(Command(argv=argv), timeout_s=_PROGRAM_COPY_TIMEOUT_S)
    if not completed.succeeded:
        raise PreflightError(
            f"copying the server's programs to {home} failed: {completed.tail(1)}",
            hint="Free some disk, or set STEELYARD_CACHE to another place.",
        )
    # A name may outlive a power cut that the content does not, and then half a copy looks whole.
    processes.run(
        Command(argv=("sync", "--file-system", str(unfinished))), timeout_s=_PROGRAM_COPY_TIMEOUT_S
    )
    rename(unfinished, home)


FORMAT = 1  # part of every key: a change in how states are made makes new ones
COPY_MEANS = {"reflink": "--reflink=always", "copy": "--reflink=never"}
_STATE_COPY_TIMEOUT_S = 3600.0


class PreparedStates:
    """The prepared states below one directory."""

    def __init__(
        self, root: Path, *, account: str | None, processes: Processes, clock: Clock
    ) -> None:
        self._root = root / "prepared"
        self._account = account
        self._processes = processes
        self._clock = clock

    def find(self, key: str) -> PreparedState | None:
        """Return a state that was completed before, or None."""
        home = self._root / key
        # That of another account cannot be used as it is, and a copy keeps its owner.
        if not (home / "ready.json").is_file() or not belongs_to(home / "data", self._account):
            return None
        return PreparedState(key=key, data=home / "data", size_bytes=tree_bytes(home / "data"))

    def ensure(self, key: str, make: Callable[[Path], None], facts: object) -> PreparedState:
        """Return the state of that key, made by ``make(home)`` when it is not there yet.

        Two campaigns that need the same state wait for each other. A state that was being made
        when Steelyard died is made anew.

        Args:
            key: From ``state_key``.
            make: Leaves a stopped, complete data directory in ``home / "data"``.
            facts: Written beside the state, for whoever looks into the cache.
        """
        make_directory(self._root)
        with Lock(self._root / f"{key}.lock", PreflightError):
            found = self.find(key)
            if found is not None:
                return found
            unfinished = self._root / f"{key}.unfinished"
            remove_tree(unfinished)
            make_directory(unfinished, account=self._account, mode=0o700)
            make(unfinished)
            self.sync(unfinished)
            write_text(unfinished / "ready.json", json.dumps(facts, indent=1) + "\n")
            remove_tree(self._root / key)  # without ready.json: a removal that was broken off
            rename(unfinished, self._root / key)
            return PreparedState(
                key=key,
                data=self._root / key / "data",
                size_bytes=tree_bytes(self._root / key / "data"),
            )

    def restore(self, state: PreparedState, home: Path, means: str) -> float:
        """Make ``home / "data"`` a copy of a state and return the seconds it took.

        Raises:
            TargetError: The means does not work on this file system, or the disk is full.
        """
        begun = self._clock.monotonic()
        remove_tree(home / "data")
        argv = ("cp", "--archive", COPY_MEANS[means], str(state.data), str(home / "data"))
        completed = self._processes.run(Command(argv=argv), timeout_s=_STATE_COPY_TIMEOUT_S)
        if not completed.succeeded:
            raise TargetError(
                f"copying the prepared data failed: {completed.tail(1)}",
                hint="Free some disk, or name another directory with `directory:` in the target.",
            )
        self.sync(home)
        return self._clock.monotonic() - begun

    def sync(self, path: Path) -> None:
        """Write the copy out now, so that writing it back does not fall into the runs."""
        self._processes.run(
            Command(argv=("sync", "--file-system", str(path))), timeout_s=_STATE_COPY_TIMEOUT_S
        )


def state_key(identity: Sequence[str], content: Sequence[object]) -> str:
    """Return the key of a state: equal for equal programs, options and data."""
    return stored_key([FORMAT, list(identity), list(content)])


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
                self._ledger.removed(MadeDirectory(path=path))
            return False
        return True

    def _memory_directory(self) -> Path:
        if self._made is None or not self._made.is_dir():
            self._made = short_directory(
                "steelyard-", account=self._account, announce=self._noted, parent=self._memory
            )
        return self._made

    def _noted(self, path: Path) -> None:
        self._ledger.created(MadeDirectory(path=path))
        self._made = path  # before it is made: then its removal is ours, whatever comes between

    def remove(self) -> Path | None:
        """Remove what was made in memory; return it, so that the ledger can be told last."""
        path, self._made = self._made, None
        if path is not None:
            remove_tree(path)
        return path


class WithCampaignDirectory(Platform):
    """A platform that has a directory of its campaign on this machine, where generators work.

    Args:
        live: The directory, which is made when it is first needed.
        ledger: Is told before anything is made.
        generators: Starts the load generators, and pauses them between their turns.
        account: Which the generator runs as; None means our own.
    """

    def __init__(
        self,
        live: Path,
        ledger: Ledger,
        generators: PausedGenerators | WorkerGenerators,
        account: str | None = None,
    ) -> None:
        self._live = live
        self._ledger = ledger
        self._generators = generators
        self._logs = LogPlace(ledger, account=account, beside=lambda: self._made(live))

    def begin_together(self, commands: Sequence[Command], *, timeout_s: float) -> Together:
        return self._generators.begin_together(self._placed(commands), timeout_s=timeout_s)

    def _placed(self, commands: Sequence[Command]) -> list[Command]:
        """Return commands that are recognised by their directory."""
        directory, groups = self._made(self._live), self._generator_groups
        return [replace(command, directory=directory, groups=groups) for command in commands]

    @property
    def _generator_groups(self) -> tuple[Path, ...]:
        """Return the control groups that generators begin in."""
        return ()

    @property
    def scripts(self) -> Path:
        return self._made(self._live / "scripts")

    def log_directory(self) -> Path:
        return self._logs.directory()

    def logs_in_memory(self) -> bool:
        return self._logs.in_memory

    def _made(self, directory: Path) -> Path:
        """Return a directory in or below the live one, made now where it is not there."""
        if not self._live.exists():
            self._ledger.created(MadeDirectory(path=self._live))
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
    ) -> None:
        """Start the server, in its control groups, and return when it answers.

        Raises:
            SilentError: It runs and did not answer in time.
            TargetError: It did not start; the message holds the end of its log.
        """
        self._port = port if port is not None else free_port()
        self.configure(settings)
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
        """Return the last lines of its log, and how it ended where they do not say it."""
        lines = (read_text(self.log) or "").strip().splitlines()[-_LOG_TAIL_LINES:]
        status = None if self._process is None else self._process.exit_status()
        if status is not None and status < 0:
            lines.append(f"ended by signal {-status}")
        elif not lines:
            lines.append("its log is empty" + ("" if status is None else f", exit status {status}"))
        return redacted("\n".join(lines))


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


def end_processes(directory: Path, processes: Processes, clock: Clock) -> None:
    """End every process that works in a directory: in order first, then by force.

    Raises:
        LeftBehindError: One is still there.
    """
    remaining = end_all(directory, processes, clock)
    if remaining:
        raise LeftBehindError(
            f"processes {', '.join(map(str, remaining))} in {directory} do not end",
            hint="They may wait for a disk that hangs; look at them with ps.",
        )


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
