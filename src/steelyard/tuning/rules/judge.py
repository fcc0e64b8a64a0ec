"""Facts judged by every rule."""

from steelyard.model.inspection import JudgedRule
from steelyard.model.stack_facts import StackFacts
from steelyard.tuning.rules.catalogue import RULES
from steelyard.tuning.rules.judging import judge_by


def judge(facts: StackFacts) -> tuple[JudgedRule, ...]:
    """Return what comes of every rule, in the catalogue's order."""
    return tuple(judge_by(rule, facts) for rule in RULES)
