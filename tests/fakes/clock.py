"""A clock that stands still until somebody sleeps or turns it."""


class FakeClock:
    """Time that moves only when it is slept or advanced; the wall can be stepped alone."""

    def __init__(self, wall: float = 1_795_000_000.0) -> None:
        self._wall = wall
        self._monotonic = 1000.0
        self.slept: list[float] = []

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

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._wall += seconds
        self._monotonic += seconds

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock, as an operator or NTP would."""
        self._wall += seconds
