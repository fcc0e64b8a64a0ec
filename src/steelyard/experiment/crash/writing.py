"""The load of a crash test: connections that write numbers and remember what was answered."""

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from steelyard.engines.numbered import NumberedWriter, NumberedWrites
from steelyard.gateways.clock import Clock
from steelyard.model.command import ServerAddress
from steelyard.model.errors import MeasurementError, SteelyardError

_END_S: Final = 30.0  # until a writer whose server is dead has noticed


@dataclass(slots=True)
class Answers:
    """What one writer was told: each answer says that all numbers up to one are written.

    Attributes:
        numbers: The last one of each answer, rising.
        at: When it came, monotonic seconds.
        trouble: Why the writer ended; None: it was told to.
        ended_at: When that was.
    """

    writer: int
    numbers: list[int] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    trouble: SteelyardError | None = None
    ended_at: float = 0.0

    @property
    def last(self) -> int:
        """Return the last number that was acknowledged at all; 0: none was."""
        return self.numbers[-1] if self.numbers else 0

    def until(self, moment: float) -> int:
        """Return the last number that was acknowledged before a moment."""
        answers = bisect_right(self.at, moment)
        return self.numbers[answers - 1] if answers else 0

    def answered_at(self, number: int) -> float:
        """Return when a number was acknowledged."""
        return self.at[bisect_left(self.numbers, number)]


class Load:
    """Writers at work, each on a thread and a connection of its own.

    Args:
        pipeline: Numbers that are under way at once on each connection; they count when all of
            them are answered.
    """

    def __init__(
        self,
        writes: NumberedWrites,
        address: ServerAddress,
        *,
        clients: int,
        pipeline: int,
        clock: Clock,
    ) -> None:
        self._pipeline = pipeline
        self._clock = clock
        self._ending = threading.Event()
        self._writers = [writes.writer(address, number) for number in range(clients)]
        self._answers = [Answers(writer=number) for number in range(clients)]
        self._threads = [
            threading.Thread(target=self._write, args=pair, daemon=True)
            for pair in zip(self._writers, self._answers, strict=True)
        ]
        self.begun_at = clock.monotonic()
        for thread in self._threads:
            thread.start()

    def _write(self, writer: NumberedWriter, answers: Answers) -> None:
        try:
            while not self._ending.is_set():
                writer.write(answers.last + 1, self._pipeline)
                answers.at.append(self._clock.monotonic())
                answers.numbers.append(answers.last + self._pipeline)
        except SteelyardError as error:
            answers.trouble = error
        answers.ended_at = self._clock.monotonic()

    def end(self, died_at: float) -> Sequence[Answers]:
        """Return what was answered, when the server is dead.

        Raises:
            MeasurementError: A writer failed before the death, or does not end after it.
        """
        self.close()
        for answers in self._answers:
            if answers.trouble is not None and answers.ended_at < died_at:
                raise MeasurementError(
                    f"a write failed before the server was to die: {answers.trouble.message}",
                    hint=answers.trouble.hint or "Look at the server's settings and its disk.",
                )
        return self._answers

    def close(self) -> None:
        """End the writers and their connections."""
        self._ending.set()
        self._wait()
        for writer in self._writers:
            writer.close()
        self._wait()  # who still waited hears of the closed connection
        if any(thread.is_alive() for thread in self._threads):
            raise MeasurementError("a writer still waits for an answer of a dead server")

    def _wait(self) -> None:
        until = self._clock.monotonic() + _END_S
        for thread in self._threads:
            thread.join(max(0.0, until - self._clock.monotonic()))
