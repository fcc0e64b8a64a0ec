"""Huge pages for a test, beside those of others."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.lacking import lacking
from support.machine_lock import machine_lock

_POOL = Path("/proc/sys/vm/nr_hugepages")


@contextmanager
def more_huge_pages(count: int) -> Iterator[None]:
    """Add pages of the default size to the pool; nobody else of the tests changes it meanwhile."""
    with machine_lock():
        before = int(_POOL.read_text())
        try:
            _POOL.write_text(str(before + count))
        except OSError as error:
            pytest.skip(f"this account cannot add huge pages: {error.strerror}")
        try:
            if int(_POOL.read_text()) < before + count:
                lacking(f"this machine has no {count} huge pages left")
            yield
        finally:
            _POOL.write_text(str(before))
