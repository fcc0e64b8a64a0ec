"""Judging: a missing fact is never a pass, and says why it is missing."""

from dataclasses import fields, is_dataclass
from typing import get_args, get_type_hints

import pytest

from steelyard.core.findings import Severity
from steelyard.core.linux import LinuxFacts
from steelyard.core.stack import State
from steelyard.core.stack_facts import Origin, StackFacts, Visibility
from steelyard.tuning.rules.catalogue import RULES, judge
from steelyard.tuning.rules.rule import Outcome, Partial, Rule, combined, judge_by, lacking
from support.recorded_stacks import recommended

FACTS = StackFacts(
    linux=LinuxFacts(governor="performance"),
    origins={
        "linux": Origin(source="/proc and /sys"),
        "linux.swappiness": Origin(source="no cpufreq in a guest", visibility=Visibility.NO),
    },
)


def rule(outcome: Outcome, *needs: str) -> Rule:
    """Return a rule that gives an outcome."""
    words = dict.fromkeys(("title", "why", "detect", "remedy", "source"), "words")
    return Rule(
        code="TST001",
        layers=("linux",),
        severity=Severity.ERROR,
        needs=needs,
        check=lambda _: outcome,
        **words,
    )


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        ((), State.HOLDS),
        (("bad",), State.VIOLATED),
        (None, State.NOT_APPLICABLE),
        (lacking("linux.smt"), State.NOT_APPLICABLE),
        (Partial(messages=("bad",), missing=("linux.smt",)), State.VIOLATED),
        (Partial(), State.HOLDS),
    ],
)
def test_the_state_follows_from_the_outcome(outcome: Outcome, state: State) -> None:
    """A message violates; what lacks a fact or has nothing to judge is not applicable."""
    assert judge_by(rule(outcome), FACTS).state is state


def test_a_check_is_not_asked_without_its_facts() -> None:
    """Each missing fact is named with why it is missing: not visible, not there, not looked at."""
    found = judge_by(
        rule((), "linux.governor", "linux.swappiness", "linux.smt", "postgres.settings"), FACTS
    )
    assert found.state is State.NOT_APPLICABLE
    assert found.missing == (
        "linux.swappiness: no cpufreq in a guest",
        "linux.smt: not in /proc and /sys",
        "postgres.settings: nobody looked",
    )


def test_a_fact_that_is_zero_or_false_is_there() -> None:
    """Only None is missing."""
    facts = StackFacts(linux=LinuxFacts(swappiness=0, smt=False, nodes=()))
    found = judge_by(rule((), "linux.swappiness", "linux.smt", "linux.nodes"), facts)
    assert found.state is State.HOLDS


def test_outcomes_of_several_things_become_one() -> None:
    """Messages add up, a lack is kept once, and what had nothing to judge does not count."""
    assert combined([]) is None
    assert combined([None, None]) is None
    assert combined([None, ()]) == ()
    assert combined([("a",), (), ("b",)]) == ("a", "b")
    assert combined([lacking("x"), ("a",), lacking("x", "y")]) == Partial(
        messages=("a",), missing=("x", "y")
    )


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_needs_name_facts_that_exist(rule: Rule) -> None:
    """A misspelt path would fail only when somebody has the facts before it."""
    for path in rule.needs:
        known: object = StackFacts
        for name in path.split("."):
            assert is_dataclass(known), path
            assert name in {field.name for field in fields(known)}, path
            known = _class_of(get_type_hints(known)[name])


def _class_of(hint: object) -> object:
    """Return the dataclass of an optional hint."""
    return next((each for each in get_args(hint) if is_dataclass(each)), hint)


@pytest.mark.parametrize("facts", [StackFacts(), recommended()], ids=["nothing", "everything"])
def test_every_rule_judges_without_failing(facts: StackFacts) -> None:
    """No rule raises, whatever is missing; of nothing at all no rule holds and none is violated."""
    found = judge(facts)
    assert len(found) == len(RULES)
    if facts == StackFacts():
        assert {each.state for each in found} == {State.NOT_APPLICABLE}
