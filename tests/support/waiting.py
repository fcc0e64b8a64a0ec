"""Waiting in tests for what a process of this machine does in its own time."""

import time
from collections.abc import Callable

_LONGEST_S = 20  # no healthy machine needs it


def eventually(holds: Callable[[], bool]) -> bool:
    """Return whether something becomes true before a deadline that no healthy machine needs."""
    deadline = time.monotonic() + _LONGEST_S
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
