"""One rule of the stack, judged."""

from collections.abc import Mapping, Sequence

from steelyard.core.findings import State
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


def rows_of(
    cases: Mapping[str, Sequence[tuple[StackFacts, str]]],
) -> list[tuple[str, StackFacts, str]]:
    """Return the code of each rule with each pair of facts and what is said of them."""
    return [(code, facts, told) for code, rows in cases.items() for facts, told in rows]


def require_kinds(
    code: str,
    holding: StackFacts,
    violated: tuple[StackFacts, str],
    not_applicable: tuple[StackFacts, tuple[str, ...]],
) -> None:
    """Check a rule on facts that satisfy it, that violate it, and without those that it needs.

    The message has the words; a missing fact is no pass, and is named.
    """
    found = judged(code, holding)
    assert (found.state, found.messages, found.missing) == (State.HOLDS, (), ())
    found = judged(code, violated[0])
    assert found.state is State.VIOLATED
    assert violated[1] in found.messages[0]
    found = judged(code, not_applicable[0])
    assert found.state is State.NOT_APPLICABLE
    assert tuple(each.partition(":")[0] for each in found.missing) == not_applicable[1]
