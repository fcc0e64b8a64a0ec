"""One rule of the stack, judged."""

from steelyard.core.stack import JudgedRule, StackFacts
from steelyard.tuning.rules.catalogue import RULES
from steelyard.tuning.rules.rule import judge_by

HOLDS, NOTHING = "holds", "not applicable"


def judged(code: str, facts: StackFacts) -> JudgedRule:
    """Return what comes of the rule with this code."""
    (rule,) = (rule for rule in RULES if rule.code == code)
    return judge_by(rule, facts)


def said(code: str, facts: StackFacts) -> str:
    """Return the messages of a violated rule, else the state of the rule."""
    found = judged(code, facts)
    return "; ".join(found.messages) or found.state.value
