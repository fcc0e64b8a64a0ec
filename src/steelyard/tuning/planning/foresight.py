"""A design judged by the rules before it is a plan: what it would break, and what it leaves."""

from typing import Final

from steelyard.model.errors import PreflightError
from steelyard.model.findings import Severity
from steelyard.model.inspection import JudgedRule, State
from steelyard.model.stack import StackDesign
from steelyard.model.stack_facts import StackFacts
from steelyard.tuning.planning.foreseen import foreseen
from steelyard.tuning.rules.judge import judge

_SERIOUS: Final = (Severity.ERROR, Severity.WARNING)
_OTHERS: Final = {"bench", "redis"}  # layers that no plan has


def left_violated(design: StackDesign, facts: StackFacts) -> tuple[str, ...]:
    """Return what stays violated of errors and warnings once a design is in effect.

    What was violated before and is still so is nothing that the plan turns. What was not is its
    own doing.

    Raises:
        PreflightError: The design itself would break a rule.
    """
    before = {rule.code for rule in _violated(facts)}
    after = _violated(foreseen(design, facts))
    caused = [rule for rule in after if rule.code not in before]
    if caused:
        first = caused[0]
        raise PreflightError(
            f"this plan would break rule {first.code}, {first.title!r}: {first.messages[0]}",
            hint=first.remedy,
        )
    return tuple(f"{rule.code}: {message}" for rule in after for message in rule.messages)


def _violated(facts: StackFacts) -> list[JudgedRule]:
    return [
        rule
        for rule in judge(facts)
        if rule.state is State.VIOLATED
        and rule.severity in _SERIOUS
        and not _OTHERS.issuperset(rule.layers)
    ]
