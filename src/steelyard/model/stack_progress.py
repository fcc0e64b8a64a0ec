"""What came of applying, verifying or reverting a stack plan, knob by knob."""

from dataclasses import dataclass
from enum import StrEnum

from steelyard.model.stack import Knob


class Outcome(StrEnum):
    """What came of one knob."""

    THERE = "in effect already"
    TURNED = "turned"
    PENDING = "pending"
    WAITING = "waiting"  # for another knob
    UNSEEN = "not visible"  # turned or not: nobody can see whether it is in effect
    FAILED = "failed"
    RENDERED = "not applied from here"
    RESTORED = "restored"
    KEPT = "left as somebody has changed it"
    YOURS = "yours to undo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One knob and what came of it.

    Attributes:
        facts: Sentences: what was asked, what is there, by what it was seen.
        remedy: The way out of a failure, or what must still happen.
        commands: That would do it, where Steelyard did not.
    """

    knob: Knob
    outcome: Outcome
    facts: tuple[str, ...] = ()
    remedy: str = ""
    commands: tuple[str, ...] = ()
