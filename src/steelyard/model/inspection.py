"""What came of judging the facts of a stack by its rules."""

from dataclasses import dataclass
from enum import StrEnum

from steelyard.model.findings import Severity


class State(StrEnum):
    """What came of one rule."""

    HOLDS = "holds"
    VIOLATED = "violated"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRule:
    """One rule applied to facts.

    Attributes:
        layers: As in ``tuning.rules.rule.Rule``, like the fields after ``missing``.
        messages: A sentence of fact per violation.
        missing: Paths of the facts that it lacked, each with the reason; of a rule that is not
            applicable none when there is nothing to judge. A rule can be violated in one place
            and lack the facts of another.
    """

    code: str
    layers: tuple[str, ...]
    severity: Severity
    title: str
    state: State
    messages: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    why: str = ""
    remedy: str = ""
    source: str = ""
