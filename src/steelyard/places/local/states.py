"""Programs where the server's account can reach them.

Prepared data directories, and the means of bringing one back.

A state is prepared once, kept in the cache under a key made of everything that decides its
content, and never started again: every use is a copy.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from steelyard.core.command import Command
from steelyard.core.errors import PreflightError, TargetError
from steelyard.core.redis import stored_key
from steelyard.gateways.clock import Clock
from steelyard.gateways.files import (
    Lock,
    belongs_to,
    cache_directory,
    make_directory,
    reachable_by,
    remove_tree,
    rename,
    tree_bytes,
    write_text,
)
from steelyard.gateways.process import Processes
from steelyard.places.protocol import PreparedState

_COPY_TIMEOUT_S = 300.0


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
    completed = processes.run(Command(argv=argv), timeout_s=_COPY_TIMEOUT_S)
    if not completed.succeeded:
        raise PreflightError(
            f"copying the server's programs to {home} failed: {completed.tail(1)}",
            hint="Free some disk, or set STEELYARD_CACHE to another place.",
        )
    # A name may outlive a power cut that the content does not, and then half a copy looks whole.
    processes.run(
        Command(argv=("sync", "--file-system", str(unfinished))), timeout_s=_COPY_TIMEOUT_S
    )
    rename(unfinished, home)


FORMAT = 1  # part of every key: a change in how states are made makes new ones
COPY_MEANS = {"reflink": "--reflink=always", "copy": "--reflink=never"}
_COPY_TIMEOUT_S_STATES = 3600.0


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
        completed = self._processes.run(Command(argv=argv), timeout_s=_COPY_TIMEOUT_S_STATES)
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
            Command(argv=("sync", "--file-system", str(path))), timeout_s=_COPY_TIMEOUT_S_STATES
        )


def state_key(identity: Sequence[str], content: Sequence[object]) -> str:
    """Return the key of a state: equal for equal programs, options and data."""
    return stored_key([FORMAT, list(identity), list(content)])
