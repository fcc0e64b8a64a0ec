"""The only door to time, so that tests can turn the clock."""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall and monotonic time, and waiting."""

    def now(self) -> float:
        """Return the wall clock in seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never jump, from an arbitrary start."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> float:
        """Return the wall clock in seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds of CLOCK_MONOTONIC."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


def thread_cpu_s() -> float:
    """Return the seconds of CPU that the calling thread has used."""
    return time.thread_time()
