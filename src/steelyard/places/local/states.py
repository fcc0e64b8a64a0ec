"""Prepared data directories, how one is brought back, and where a campaign's scripts and logs go.

A state is prepared once, kept in the cache under a key made of everything that decides its
content, and never started again: every use is a copy. Programs are copied where the server's
account cannot reach them.

Scripts that the generator reads go into a directory of the campaign. Its logs of transactions go
into memory where there is room, because a log on the device that is measured would be part of what
is measured.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from steelyard.core.errors import PreflightError, TargetError
from steelyard.core.outside import Command, MadeDirectory
from steelyard.core.redis import stored_key
from steelyard.core.units import MIB
from steelyard.gateways.files import (
    Lock,
    belongs_to,
    cache_directory,
    free_bytes,
    is_in_memory,
    make_directory,
    reachable_by,
    remove_tree,
    rename,
    short_directory,
    tree_bytes,
    write_text,
)
from steelyard.gateways.host import Clock
from steelyard.gateways.process import Processes
from steelyard.places.protocol import Ledger, PreparedState

_PROGRAM_COPY_TIMEOUT_S = 300.0


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
    with Lock(home.with_name(f"{label}.lock")):
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
        with Lock(self._root / f"{key}.lock"):
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
