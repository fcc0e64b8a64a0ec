"""One lock for what tests share on this machine: huge pages and kernel settings."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

LOCK = Path("/var/lock/steelyard-machine.lock")
WORKERS = Path("/var/lock/steelyard-workers.lock")  # of tests that count all workers here


@contextmanager
def machine_lock(path: Path = LOCK) -> Iterator[None]:
    """Hold the lock; the kernel releases it when the test process dies."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture
def machine() -> Iterator[None]:
    """Hold the lock for one test."""
    with machine_lock():
        yield
