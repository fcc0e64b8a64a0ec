"""What the applier asks of whoever can turn a kind of knob."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from steelyard.core.stack import Knob


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What is in effect at a knob's place.

    Attributes:
        value: None where it cannot be seen; then ``reason`` says why.
        source: What it was read from: the effect, not the request.
        pending: What must still happen before the request is in effect (a restart, a power
            cycle); empty when nothing is open.
    """

    value: str | None
    source: str
    reason: str = ""
    pending: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Whether a knob is in effect.

    Attributes:
        holds: None where it cannot be seen.
        facts: Sentences: what was asked, what is there, by what it was seen.
        remedy: The way out where it does not hold.
    """

    holds: bool | None
    facts: tuple[str, ...]
    remedy: str = ""
    pending: str = ""


class KnobDoor(Protocol):
    """Turns knobs of one kind.

    ``snapshot`` is stored durably before ``apply`` is called, and is all that ``revert`` gets.
    """

    def seen(self, knob: Knob) -> Seen:
        """Return what is in effect now."""
        ...

    def require(self, knob: Knob) -> None:
        """Check that the knob could be turned here, before anything is touched.

        Raises:
            PreflightError: It cannot take effect, with what would do.
            PrivilegeError: The account may not.
        """
        ...

    def snapshot(self, knob: Knob) -> str:
        """Return what is there now, enough to restore it exactly."""
        ...

    def apply(self, knob: Knob) -> None:
        """Turn the knob.

        Raises:
            TargetError: It failed, or succeeded in part; with the remedy.
        """
        ...

    def verify(self, knob: Knob) -> Check:
        """Return whether the knob is in effect, read from the effect."""
        ...

    def revert(self, knob: Knob, snapshot: str) -> None:
        """Restore what the snapshot says; what is that way already is left alone.

        Raises:
            TargetError: It failed; nothing else was touched.
        """
        ...

    def commands(self, knob: Knob) -> Sequence[str]:
        """Return the shell commands that would do the same, for those without the privilege."""
        ...


@runtime_checkable
class Discerning(Protocol):
    """A door that can tell what was there before, and what the plan made, from anything else."""

    def altered(self, knob: Knob, snapshot: str) -> str:
        """Return what somebody has changed since the knob was turned, as a sentence, or nothing."""
        ...
