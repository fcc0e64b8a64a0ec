"""What is on disk when the power fails: only what was flushed, under names that were flushed."""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest


@dataclass
class Flushes:
    """Listens to every fsync of this process.

    Attributes:
        root: What is above it is on disk.
        heard: Called after each, with the path that was flushed.
    """

    root: Path
    heard: Callable[[Path], None] = lambda _: None
    _sizes: dict[int, int] = field(default_factory=dict)  # of files, by inode
    _names: dict[int, set[tuple[str, int]]] = field(default_factory=dict)  # in directories

    def listen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Begin."""
        flush = os.fsync

        def heard(descriptor: int) -> None:
            flush(descriptor)
            self._flushed(descriptor)
            self.heard(Path(f"/proc/self/fd/{descriptor}").readlink())

        monkeypatch.setattr(os, "fsync", heard)

    def _flushed(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            with os.scandir(descriptor) as entries:
                self._names[status.st_ino] = {(each.name, each.inode()) for each in entries}
        else:
            self._sizes[status.st_ino] = status.st_size

    def hold(self, path: Path) -> bool:
        """Return whether a file or directory outlives a power cut, with all that is in the file."""
        if path == self.root:
            return True
        status = path.stat()
        named = (path.name, status.st_ino) in self._names.get(path.parent.stat().st_ino, ())
        whole = path.is_dir() or self._sizes.get(status.st_ino, 0) == status.st_size
        return named and whole and self.hold(path.parent)


@pytest.fixture
def flushes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Flushes:
    """Return what hears every flush from now on."""
    listening = Flushes(tmp_path)
    listening.listen(monkeypatch)
    return listening
