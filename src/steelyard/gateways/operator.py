"""The door to the person in front of the terminal; the one that exists is in ``cli``."""

from typing import Protocol


class Operator(Protocol):
    """Somebody who can be asked to do something by hand."""

    @property
    def is_there(self) -> bool:
        """Return whether there is anybody to ask."""
        ...

    def confirms(self, request: str, *, timeout_s: float) -> bool:
        """Ask for something; return whether it was confirmed in time."""
        ...


class NoOperator:
    """Nobody: a campaign without a terminal."""

    @property
    def is_there(self) -> bool:
        """Return false."""
        return False

    def confirms(self, request: str, *, timeout_s: float) -> bool:  # noqa: ARG002 - nobody hears
        """Return false at once."""
        return False
