"""Prepared data directories, and the means of bringing one back.

A state is prepared once, kept in the cache under a key made of everything that decides its
content, and never started again: every use is a copy.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from steelyard.gateways.clock import Clock
from steelyard.gateways.files import (
    Lock,
    belongs_to,
    make_directory,
    remove_tree,
    rename,
    tree_bytes,
    write_text,
)
from steelyard.gateways.process import Processes
from steelyard.model.command import Command
from steelyard.model.errors import TargetError
from steelyard.model.stored_keys import stored_key
from steelyard.platforms.platform import PreparedState

FORMAT = 1  # part of every key: a change in how states are made makes new ones
COPY_MEANS = {"reflink": "--reflink=always", "copy": "--reflink=never"}
_COPY_TIMEOUT_S = 3600.0


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
        completed = self._processes.run(Command(argv=argv), timeout_s=_COPY_TIMEOUT_S)
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
            Command(argv=("sync", "--file-system", str(path))), timeout_s=_COPY_TIMEOUT_S
        )


def state_key(identity: Sequence[str], content: Sequence[object]) -> str:
    """Return the key of a state: equal for equal programs, options and data."""
    return stored_key([FORMAT, list(identity), list(content)])
