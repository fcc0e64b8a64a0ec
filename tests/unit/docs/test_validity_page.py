"""The page of the rules is what the rules say, and every rule says all that it must."""

import re

import pytest

from steelyard.core.findings import ENVIRONMENT, ValidityRule
from support.rule_pages import VALIDITY_PAGE, VALIDITY_RULES, validity_text


def test_the_page_is_made_from_the_rules() -> None:
    """Whoever changes a rule makes the page anew: ``support.rule_pages`` says how."""
    assert VALIDITY_PAGE.read_text("utf-8") == validity_text()


def test_codes_are_unique_and_stable_in_form() -> None:
    """A code names one rule, in kebab case, as summaries and links use it."""
    codes = [rule.code for rule in VALIDITY_RULES]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code in codes)
    assert set(codes) >= ENVIRONMENT
    assert all(f"`{code}`" in validity_text().split("## All rules")[0] for code in ENVIRONMENT)


@pytest.mark.parametrize("rule", VALIDITY_RULES, ids=lambda rule: rule.code)
def test_a_rule_explains_itself(rule: ValidityRule[object]) -> None:
    """What, why, remedy and source are said, and every threshold has a reason."""
    assert all((rule.what, rule.why, rule.remedy, rule.source))
    assert all(threshold.reason and threshold.shown for threshold in rule.thresholds)
