"""One rule applied to facts: a missing fact makes it not applicable, never a pass."""

from steelyard.model.inspection import JudgedRule, State
from steelyard.model.stack_facts import StackFacts
from steelyard.tuning.rules.rule import Rule


def judge_by(rule: Rule, facts: StackFacts) -> JudgedRule:
    """Return what comes of one rule."""
    missing = tuple(path for path in rule.needs if _value(facts, path) is None)
    messages = None if missing else rule.check(facts)
    state = State.HOLDS
    if messages is None:
        state = State.NOT_APPLICABLE
    elif messages:
        state = State.VIOLATED
    return JudgedRule(
        code=rule.code,
        layers=rule.layers,
        severity=rule.severity,
        title=rule.title,
        state=state,
        messages=messages or (),
        missing=tuple(f"{path}: {facts.origin(path).source}" for path in missing),
        why=rule.why,
        remedy=rule.remedy,
        source=rule.source,
    )


def _value(facts: StackFacts, path: str) -> object:
    """Return the fact at a path such as ``linux.governor``; None where it or a part is missing."""
    value: object = facts
    for name in path.split("."):
        if value is None:
            return None
        value = getattr(value, name)
    return value
