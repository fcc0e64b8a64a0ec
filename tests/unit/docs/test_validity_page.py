"""The page of the rules is what the rules say, and every rule says all that it must."""

import re

import pytest

from steelyard.core.findings import ENVIRONMENT, Rule
from support.validity_page import ALL_RULES, PAGE, text


def test_the_page_is_made_from_the_rules() -> None:
    """Whoever changes a rule makes the page anew: ``support.validity_page`` says how."""
    assert PAGE.read_text("utf-8") == text()


def test_codes_are_unique_and_stable_in_form() -> None:
    """A code names one rule, in kebab case, as summaries and links use it."""
    codes = [rule.code for rule in ALL_RULES]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code in codes)
    assert set(codes) >= ENVIRONMENT
    assert all(f"`{code}`" in text().split("## All rules")[0] for code in ENVIRONMENT)


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.code)
def test_a_rule_explains_itself(rule: Rule[object]) -> None:
    """What, why, remedy and source are said, and every threshold has a reason."""
    assert all((rule.what, rule.why, rule.remedy, rule.source))
    assert all(threshold.reason and threshold.shown for threshold in rule.thresholds)
