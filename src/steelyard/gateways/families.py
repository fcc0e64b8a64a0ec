"""Who descends from whom on this machine, and who runs: read from ``/proc`` and nothing changed."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, Protocol

_STILL: Final = frozenset({b"T", b"t", b"Z", b"X"})  # stopped, traced, dead: proc_pid_stat(5)


class Families(Protocol):
    """The processes of a machine and their descendants."""

    def of(self, first: Iterable[int]) -> Mapping[int, bool]:
        """Return processes and all that descend from them, parents first, and whether each runs.

        One that is gone is not in it. One runs as long as any of its threads does.
        """
        ...

    def stopped(self, pids: Iterable[int]) -> tuple[int, ...]:
        """Return those that were stopped by a signal and not continued."""
        ...


class _Look(NamedTuple):
    """What ``/proc/PID/stat`` says of a process."""

    parent: int
    runs: bool
    is_dead: bool


class SystemFamilies:
    """The processes of this machine, or of a tree of files below ``root``."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._proc = str(root / "proc")

    def of(self, first: Iterable[int]) -> Mapping[int, bool]:
        """Return processes and all that descend from them, parents first, and whether each runs.

        Only processes of the same accounts are looked at: a machine may have thousands of others.
        """
        first = tuple(first)
        everybody = dict(self._processes_of(frozenset(self._accounts(first))))
        children: dict[int, list[int]] = {}
        for pid, look in everybody.items():
            children.setdefault(look.parent, []).append(pid)
        family = [pid for pid in dict.fromkeys(first) if pid in everybody]
        for pid in family:  # it grows while it is gone through
            family += [child for child in children.get(pid, ()) if child not in first]
        return {pid: everybody[pid].runs for pid in family}

    def stopped(self, pids: Iterable[int]) -> tuple[int, ...]:
        """Return those that were stopped by a signal and not continued."""
        looks = {pid: self._look(pid) for pid in pids}
        return tuple(
            pid for pid, look in looks.items() if look and not look.runs and not look.is_dead
        )

    def _accounts(self, pids: Iterable[int]) -> Iterator[int]:
        for pid in pids:
            try:
                yield os.stat(f"{self._proc}/{pid}").st_uid  # noqa: PTH116 - often, as below
            except FileNotFoundError:
                continue

    def _processes_of(self, accounts: frozenset[int]) -> Iterator[tuple[int, _Look]]:
        with os.scandir(self._proc) as entries:
            for entry in entries:
                if not entry.name.isdigit():
                    continue
                try:
                    is_one = entry.stat(follow_symlinks=False).st_uid in accounts
                except OSError:
                    continue  # it ended
                if is_one and (look := self._look(int(entry.name))) is not None:
                    yield int(entry.name), look

    def _look(self, pid: int) -> _Look | None:
        words = _words(f"{self._proc}/{pid}/stat")
        if words is None:
            return None
        runs = words[0] not in _STILL
        if not runs and words[17] not in {b"0", b"1"}:  # threads
            runs = self._any_thread_runs(pid)
        return _Look(parent=int(words[1]), runs=runs, is_dead=words[0] in {b"Z", b"X"})

    def _any_thread_runs(self, pid: int) -> bool:
        """Return whether one of its threads is still on its way to stopping."""
        try:
            threads = os.listdir(f"{self._proc}/{pid}/task")  # noqa: PTH208 - names only
        except OSError:
            return False
        looks = (_words(f"{self._proc}/{pid}/task/{thread}/stat") for thread in threads)
        return any(words is not None and words[0] not in _STILL for words in looks)


def _words(path: str) -> list[bytes] | None:
    """Return the fields after the name, which may hold anything; None when it is gone."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - pathlib takes twice as long
            return file.read(1024).rpartition(b")")[2].split()
    except OSError:
        return None
