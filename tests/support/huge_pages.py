"""Huge pages for a test, beside those of others."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.lacking import lacking
from support.machine_lock import machine_lock

_POOL = Path("/proc/sys/vm/nr_hugepages")
_MEMORY = Path("/proc/meminfo")


@contextmanager
def more_huge_pages(count: int) -> Iterator[Callable[[], None]]:
    """Add pages of the default size to the pool; nobody else of the tests changes it meanwhile.

    Gives a function that adds what is missing again: any PostgreSQL beside us takes free pages
    unasked (``huge_pages = try``). What was added is taken away in the end, and no more.
    """
    added = 0

    def provide() -> None:
        nonlocal added
        told = dict(line.split(":", 1) for line in _MEMORY.read_text().splitlines())
        missing = count - (int(told["HugePages_Free"]) - int(told["HugePages_Rsvd"]))
        if missing <= 0:
            return
        before = _pages()
        try:
            _POOL.write_text(str(before + missing))
        except OSError as error:
            pytest.skip(f"this account cannot add huge pages: {error.strerror}")
        added += _pages() - before
        if _pages() < before + missing:
            lacking(f"this machine has no {count} huge pages left")

    with machine_lock():
        try:
            provide()
            yield provide
        finally:
            _POOL.write_text(str(max(0, _pages() - added)))


def _pages() -> int:
    return int(_POOL.read_text())
