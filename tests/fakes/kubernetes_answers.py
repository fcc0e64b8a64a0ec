"""What containers of a Kubernetes cluster that does not exist answer to commands."""

import queue
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.core.kubernetes import ContainerRef
from steelyard.core.wording import SteelyardError, TargetError


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A command that was run in a container."""

    where: ContainerRef
    argv: tuple[str, ...]
    stdin: str = ""


@dataclass(kw_only=True)
class Said:
    """What a command in a container prints, how it ends, and what it does besides."""

    stdout: str = ""
    stderr: str = ""
    exit_status: int = 0
    takes_s: float = 0.0
    raises: SteelyardError | None = None
    does: Callable[[Ran], None] | None = None


class FakeLines:
    """What a long command prints: scripted lines, further ones with ``say``; ``end`` ends it."""

    def __init__(self, lines: Sequence[str] = (), *, ends: bool = True) -> None:
        self._queue: queue.Queue[str | SteelyardError | None] = queue.Queue()
        self.closed = False
        for line in lines:
            self.say(line)
        if ends:
            self.end()

    def say(self, line: str) -> None:
        """Print a line."""
        self._queue.put(line)

    def end(self, error: SteelyardError | None = None) -> None:
        """End, or break with an error."""
        self._queue.put(error)

    def __iter__(self) -> Iterator[str]:
        while not self.closed:
            said = self._queue.get()
            if isinstance(said, SteelyardError):
                raise said
            if said is None or self.closed:
                return
            yield said

    def close(self) -> None:
        """Hang up."""
        self.closed = True
        self._queue.put(None)


def fitting(answers: Sequence[tuple[tuple[str, ...], str, Any]], ran: Ran) -> Any:
    """Return the last answer whose words are all somewhere in the argv of a command."""
    for pattern, pod, answer in reversed(answers):
        fits = all(any(word in each for each in ran.argv) for word in pattern)
        if fits and pod in {"", ran.where.pod}:
            return answer
    raise TargetError(f"{ran.argv[0]} does not exist", hint="The fake knows no such command.")
