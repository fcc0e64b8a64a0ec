"""A clock that stands still until somebody sleeps or turns it."""

from collections.abc import Callable

from steelyard.gateways.host import Clock


class FakeClock(Clock):
    """Time that moves only when it is slept or advanced; the wall can be stepped alone."""

    woken: Callable[[int], object]  # called after each sleep with its number, from 1 on

    def __init__(self, wall: float = 1_795_000_000.0) -> None:
        self._wall = wall
        self._monotonic = 1000.0
        self.slept: list[float] = []
        self.woken = lambda _: None

    def now(self) -> float:
        """Return the wall clock in seconds since the epoch."""
        return self._wall

    def monotonic(self) -> float:
        """Return seconds that never jump."""
        return self._monotonic

    def sleep(self, seconds: float) -> None:
        """Let time pass and note that it was waited for."""
        self.slept.append(seconds)
        self.advance(seconds)
        self.woken(len(self.slept))

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._wall += seconds
        self._monotonic += seconds

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock, as an operator or NTP would."""
        self._wall += seconds
