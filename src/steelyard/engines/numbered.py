"""Writes that carry numbers, so that it can be told which of them are gone: what a crash test asks.

Each connection is a writer with a number of its own, and numbers its writes from 1 on.
"""

from collections.abc import Sequence
from typing import Protocol

from steelyard.model.command import ServerAddress


class NumberedWriter(Protocol):
    """One connection that writes."""

    def write(self, first: int, count: int) -> None:
        """Write so many numbers from the first on; return when each of them is acknowledged.

        Raises:
            TargetError: The server is gone or refuses; some may be there without an answer.
        """
        ...

    def close(self) -> None:
        """End the connection; also from another thread, while a write hangs."""
        ...


class NumberedWrites(Protocol):
    """What an engine brings for that."""

    def prepare(self, address: ServerAddress) -> None:
        """Make what the writes go into, on a server that has time to make it last."""
        ...

    def writer(self, address: ServerAddress, writer: int) -> NumberedWriter:
        """Return a connection that writes."""
        ...

    def missing(self, address: ServerAddress, writer: int, last: int) -> Sequence[int]:
        """Return which of a writer's numbers up to the last are not there as written, in order.

        Raises:
            TargetError: The server cannot read its data.
        """
        ...
