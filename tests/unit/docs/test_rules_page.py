"""The page of the stack's rules is what the rules say, and every rule says all that it must."""

import re

import pytest

from steelyard.tuning.rules.catalogue import RULES
from steelyard.tuning.rules.rule import StackRule
from support.rule_pages import STACK_PAGE, stack_text

LAYERS = {"hypervisor", "kvm", "linux", "kubernetes", "postgres", "redis", "storage", "bench"}


def test_the_page_is_made_from_the_rules() -> None:
    """Whoever changes a rule makes the page anew: ``support.rule_pages`` says how."""
    assert STACK_PAGE.read_text("utf-8") == stack_text()


def test_codes_are_unique_and_stable_in_form() -> None:
    """A code names one rule: letters of its group and three digits."""
    codes = [rule.code for rule in RULES]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"(?:[A-Z]{2,4}|K8S)\d{3}", code) for code in codes)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rule_explains_itself(rule: StackRule) -> None:
    """Title, why, how it is seen, remedy and source are said; its layers are those of the stack."""
    assert all((rule.title, rule.why, rule.detect, rule.remedy, rule.source))
    assert set(rule.layers) <= LAYERS
    assert rule.layers


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_source_is_a_citation(rule: StackRule) -> None:
    """A source names a document, a file or a figure in it, not only that something was measured."""
    assert not re.match(r"(?i)(measured|tried)(?: here)?\W*$", rule.source)
    assert len(rule.source) > 20, rule.source
    assert "layers" not in rule.source, "no reader has that file"
