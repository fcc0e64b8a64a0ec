"""One rule applied to facts: a missing fact makes it not applicable, never a pass."""

from typing import Final

from steelyard.core.stack import JudgedRule, State
from steelyard.core.stack_facts import StackFacts, Visibility
from steelyard.tuning.rules.rule import Outcome, Partial, Rule, combined, of_unread_domains

_DOMAINS: Final = "domains"


def judge_by(rule: Rule, facts: StackFacts) -> JudgedRule:
    """Return what comes of one rule."""
    outcome = _outcome(rule, facts)
    if _DOMAINS in rule.needs and facts.domains is not None:
        outcome = combined((outcome, of_unread_domains(facts)))
    found = outcome if isinstance(outcome, Partial) else Partial(messages=outcome or ())
    return JudgedRule(
        code=rule.code,
        layers=rule.layers,
        severity=rule.severity,
        title=rule.title,
        state=_state(outcome, found),
        messages=found.messages,
        missing=tuple(f"{path}: {_reason(facts, path)}" for path in found.missing),
        why=rule.why,
        remedy=rule.remedy,
        source=rule.source,
    )


def _outcome(rule: Rule, facts: StackFacts) -> Outcome:
    """Return what the check says; that facts are missing where it cannot be asked."""
    missing = tuple(path for path in rule.needs if _value(facts, path) is None)
    return Partial(missing=missing) if missing else rule.check(facts)


def _state(outcome: Outcome, found: Partial) -> State:
    if found.messages:
        return State.VIOLATED
    return State.NOT_APPLICABLE if outcome is None or found.missing else State.HOLDS


def _reason(facts: StackFacts, path: str) -> str:
    """Return why a fact is missing; a source that was read did not have it."""
    origin = facts.origin(path)
    return f"not in {origin.source}" if origin.visibility is Visibility.YES else origin.source


def _value(facts: StackFacts, path: str) -> object:
    """Return the fact at a path such as ``linux.governor``; None where it or a part is missing."""
    value: object = facts
    for name in path.split("."):
        if value is None:
            return None
        value = getattr(value, name)
    return value
