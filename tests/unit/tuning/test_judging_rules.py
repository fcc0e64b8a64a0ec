"""Judging: a missing fact is never a pass, and says why it is missing."""

from dataclasses import fields, is_dataclass
from typing import get_args, get_type_hints

import pytest

from steelyard.core.findings import Severity, State
from steelyard.core.linux import LinuxFacts
from steelyard.core.stack import Origin, StackFacts, Visibility
from steelyard.tuning.rules.catalogue import RULES, judge
from steelyard.tuning.rules.rule import (
    HOLDS,
    NOTHING,
    Rulings,
    StackRule,
    combined,
    judge_by,
    lacking,
    violated,
    violated_if,
)

FACTS = StackFacts(
    linux=LinuxFacts(governor="performance"),
    origins={
        "linux": Origin(source="/proc and /sys"),
        "linux.swappiness": Origin(source="no cpufreq in a guest", visibility=Visibility.NO),
    },
)


def rule(rulings: Rulings, *needs: str) -> StackRule:
    """Return a rule that gives these rulings."""
    words = dict.fromkeys(("title", "why", "detect", "remedy", "source"), "words")
    return StackRule(
        code="TST001",
        layers=("linux",),
        severity=Severity.ERROR,
        needs=needs,
        judge=lambda _: rulings,
        **words,
    )


@pytest.mark.parametrize(
    ("rulings", "state"),
    [
        (HOLDS, State.HOLDS),
        (violated("bad"), State.VIOLATED),
        (NOTHING, State.NOT_APPLICABLE),
        (lacking("linux.smt"), State.NOT_APPLICABLE),
        ((*violated("bad"), *lacking("linux.smt")), State.VIOLATED),
        ((*HOLDS, *lacking("linux.smt")), State.NOT_APPLICABLE),
        ((*HOLDS, *violated("bad")), State.VIOLATED),
    ],
)
def test_the_state_follows_from_the_rulings(rulings: Rulings, state: State) -> None:
    """One violation is enough; what lacks a fact or has nothing to judge is not applicable."""
    assert judge_by(rule(rulings), FACTS).state is state


def test_a_check_is_not_asked_without_its_facts() -> None:
    """Each missing fact is named with why it is missing: not visible, not there, not looked at."""
    found = judge_by(
        rule(HOLDS, "linux.governor", "linux.swappiness", "linux.smt", "postgres.settings"), FACTS
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
    found = judge_by(rule(HOLDS, "linux.swappiness", "linux.smt", "linux.nodes"), facts)
    assert found.state is State.HOLDS


def test_rulings_on_several_things_become_one() -> None:
    """Messages add up, a lack is named once, and what had nothing to judge does not count."""
    assert combined([NOTHING, NOTHING]) == NOTHING
    assert combined([NOTHING, HOLDS]) == violated() == violated_if(False, "a") == HOLDS  # noqa: FBT003
    found = judge_by(rule(combined([violated("a"), HOLDS, violated("b", "a")])), FACTS)
    assert (found.messages, found.missing) == (("a", "b", "a"), ())
    found = judge_by(rule(combined([lacking("x"), violated("a"), lacking("x", "y")])), FACTS)
    assert found.messages == ("a",)
    assert found.missing == ("x: nobody looked", "y: nobody looked")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_needs_name_facts_that_exist(rule: StackRule) -> None:
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


@pytest.mark.parametrize("facts", [StackFacts(), StackFacts(redis=())], ids=["nothing", "no Redis"])
def test_without_facts_no_rule_passes(facts: StackFacts) -> None:
    """No rule raises, holds or is violated; those of PostgreSQL say what they lack."""
    judged = judge(facts)
    assert len(judged) == len(RULES)
    assert {rule.state for rule in judged} == {State.NOT_APPLICABLE}
    assert all(rule.missing for rule in judged if rule.code.startswith("PG"))
