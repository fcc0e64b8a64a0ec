"""Workers without Dask: their actors are objects of this process."""

from collections.abc import Callable, Sequence
from typing import Any

from steelyard.core.wording import MeasurementError
from steelyard.gateways.workers import Workers


class FakeWorkers(Workers):
    """So many workers that answer at once, until a test lets them be lost.

    Attributes:
        made: What is done to each actor when it is made, by its number.
        starts: How often they were started.
    """

    def __init__(self, number: int, made: Callable[[int, Any], None] = lambda _, __: None) -> None:
        self.number, self.generation, self.starts = number, 0, 0
        self._scheduler = None
        self._made = made
        self._are_up = False

    def actors(self, kind: type) -> tuple[Any, ...]:
        """Return an object of the class for each worker."""
        self.starts += not self._are_up
        self._are_up = True
        actors = tuple(kind() for _ in range(self.number))
        for place, actor in enumerate(actors):
            self._made(place, actor)
        return actors

    @property
    def are_ours(self) -> bool:
        """Return whether they are programs of this machine: a fake's always are."""
        return True

    def run(self) -> bool:
        """Return whether they were started and not lost."""
        return self._are_up

    def send(self, actors: Sequence[Any], method: str, *arguments: Sequence[object]) -> list[Any]:
        """Call a method of each now."""
        given = arguments or ((),) * len(actors)
        if not self._are_up:
            raise MeasurementError("a worker does not answer")
        return [getattr(actor, method)(*own) for actor, own in zip(actors, given, strict=True)]

    def answers(self, futures: Sequence[Any], *, within_s: float = 0.0) -> list[Any]:  # noqa: ARG002 - they are there
        """Return what they gave."""
        return [_awaited(future) for future in futures]

    def call(
        self,
        actors: Sequence[Any],
        method: str,
        *arguments: Sequence[object],
        within_s: float = 0.0,
    ) -> list[Any]:
        """Call a method of each now, and return what they gave."""
        return self.answers(self.send(actors, method, *arguments), within_s=within_s)

    def close(self) -> None:
        """End them."""
        self.stop()

    def stop(self) -> None:
        """Lose them."""
        self.generation += 1
        self._are_up = False


def _awaited(given: Any) -> Any:
    """Return what a coroutine that waits for nothing gives, and anything else as it is."""
    if not hasattr(given, "send"):
        return given
    try:
        given.send(None)
    except StopIteration as over:
        return over.value
    raise AssertionError("it waits")
