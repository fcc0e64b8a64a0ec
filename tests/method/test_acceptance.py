"""The method's acceptance test, run on the product's code.

By default with a quarter of the campaigns; STEELYARD_FULL_METHOD=1 runs all of them.
"""

import os

import acceptance
import adapter
import pytest

FULL = os.environ.get("STEELYARD_FULL_METHOD") == "1"
FIXED_CAMPAIGNS, FULL_CAMPAIGNS = (2000, 400) if FULL else (500, 100)
MORE = 10
NAMES = acceptance.names(adapter)


def test_no_check_is_left_out():
    """There are 58, no two of one name."""
    assert len(set(NAMES)) == len(NAMES) == 58


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_product_passes(name):
    """The check holds, if need be with ten times the campaigns: then chance is no excuse."""
    check = acceptance.check(adapter, name, FIXED_CAMPAIGNS, FULL_CAMPAIGNS)
    if not check.passed and acceptance.is_random(name):
        print(f"repeated with {MORE} times the campaigns: {check}")
        check = acceptance.check(adapter, name, MORE * FIXED_CAMPAIGNS, MORE * FULL_CAMPAIGNS)
    assert check.passed, str(check)
