"""The only door to time, so that tests can turn the clock; and a connection that does not hang.

A statement may take hours, so no time limit tells a long one from a server that hangs or a network
that swallows packets. What tells them apart is a second connection: where it gets no answer, or
nobody of ours is at work, the first is given up.
"""

import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, NoReturn, Protocol, TypeVar

import psycopg


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


def looks(clock: Clock, within_s: float, *pauses_s: float) -> Iterator[float]:
    """Yield the seconds that were waited before each look at something, at once and after pauses.

    The last look is the first one that begins too late: ``else`` of the loop is where what was
    waited for did not come. So a process that slept through its time looks once more.

    Args:
        clock: To wait by.
        within_s: How long to go on.
        pauses_s: Between the looks, one after the other; the last one again and again.
    """
    begun, pauses, pause_s = clock.monotonic(), iter(pauses_s), 0.0
    while True:
        waited_s = clock.monotonic() - begun
        yield waited_s
        if waited_s > within_s:
            return
        pause_s = next(pauses, pause_s)
        clock.sleep(pause_s)


def until(holds: Callable[[], bool], clock: Clock, within_s: float, *pauses_s: float) -> bool:
    """Return whether something holds within a time; see ``looks``."""
    return any(holds() for _ in looks(clock, within_s, *pauses_s))


def thread_cpu_s() -> float:
    """Return the seconds of CPU that the calling thread has used."""
    return time.thread_time()


PATIENCE_S = 60.0  # as long as a run may stay without an end; a guess
_Result = TypeVar("_Result")


class PatientConnection(psycopg.Connection[tuple[object, ...]]):
    """A connection whose statements end with the server that works on them."""

    _patience_s = PATIENCE_S
    _is_at_work: Callable[[], bool] = staticmethod(lambda: False)
    _is_unwanted: Callable[[], bool] = staticmethod(lambda: False)

    def be_patient(
        self,
        patience_s: float,
        is_at_work: Callable[[], bool],
        is_unwanted: Callable[[], bool] = lambda: False,
    ) -> None:
        """Ask, each time an answer takes longer than ``patience_s``, whether to go on waiting.

        Args:
            patience_s: How long nobody asks.
            is_at_work: Whether the server still works on a statement of ours.
            is_unwanted: Asked at every wake-up: whether nobody needs the answer any more.
        """
        self._patience_s = patience_s
        self._is_at_work = is_at_work
        self._is_unwanted = is_unwanted

    def wait(self, gen: Generator[Any, Any, _Result], *args: Any, **kwargs: Any) -> _Result:  # noqa: ANN401 - psycopg's
        """Wait as psycopg does, which wakes up several times a second."""
        return super().wait(self._heeded(gen), *args, **kwargs)

    def _heeded(self, gen: Generator[Any, Any, _Result]) -> Generator[Any, Any, _Result]:
        clock = SystemClock()
        asked_at = clock.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and self.heed(asked_at):
                    asked_at = clock.monotonic()
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def heed(self, asked_at: float) -> bool:
        """Return whether patience was at an end and is had anew, an answer being on its way.

        Args:
            asked_at: When the statement was sent, or patience was had anew; monotonic seconds.

        Raises:
            psycopg.OperationalError: The answer is not to be waited for any more.
        """
        if self._is_unwanted():
            self._give_up("nobody waits for the answer any more")
        if SystemClock().monotonic() - asked_at <= self._patience_s:
            return False
        self._require_work()
        return True

    def _require_work(self) -> None:
        """Raise when nobody works on the statement.

        Raises:
            psycopg.OperationalError: The server does not answer, or has no such statement.
        """
        try:
            if self._is_at_work():
                return
        except psycopg.Error:
            pass
        self._give_up(f"no answer within {self._patience_s:.0f} s: it hangs")

    def _give_up(self, why: str) -> NoReturn:
        # Without this psycopg would try to roll back on it, and say that it could not.
        self.pgconn.finish()
        raise psycopg.OperationalError(why)
