"""A replica that takes the place of a dead server: what crash tests ask of an engine."""

from collections.abc import Sequence
from typing import Protocol

from steelyard.gateways.clock import Clock
from steelyard.model.command import ServerAddress
from steelyard.model.program import ServerProgram


class ReplicaWatch(Protocol):
    """Looks at how far a replica is behind, on sessions that stay open."""

    def behind_bytes(self) -> int | None:
        """Return what the server has written that the replica has not applied; None: not told.

        Raises:
            TargetError: One of the two is gone.
        """
        ...

    def close(self) -> None:
        """End the sessions."""
        ...


class Succession(Protocol):
    """What an engine brings for that."""

    def program(self, replica: Sequence[tuple[str, str]]) -> ServerProgram:
        """Return a program whose servers have a replica with these settings beside them."""
        ...

    def watch(self, server: ServerAddress, replica: ServerAddress) -> ReplicaWatch:
        """Return what looks at the two."""
        ...

    def promote(self, replica: ServerAddress, clock: Clock) -> None:
        """Make a replica a server of its own, once it has taken all that the dead one had sent.

        Raises:
            MeasurementError: It does not notice the death, or refuses.
            TargetError: It is gone, too.
        """
        ...
