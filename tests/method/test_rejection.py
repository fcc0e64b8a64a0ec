"""The acceptance test can fail: broken methods are rejected, and the product is not."""

import acceptance
import adapter
import pytest
from repeats import end_to_end, false_positive_bound, fixed

from steelyard.answers.result import compute as comparisons

CAMPAIGNS = 100
FIXED_CAMPAIGNS = 300


@pytest.fixture
def unit_failures(monkeypatch):
    """Return a function that counts the unit checks an implementation fails."""

    def count(impl):
        results = []
        monkeypatch.setattr(acceptance, "RESULTS", results)
        acceptance.unit(impl)
        return results.count(False)

    return count


def peeking_compare(sim, budget_s):
    """Compare as the product does, but at a constant 5 % after every block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            comparisons,
            "result_level",
            lambda rule, blocks, **_: 0.05 if blocks >= rule.first_look else None,
        )
        return adapter.compare(sim, budget_s)


class Peeking:
    """The product with constant levels."""

    interval = staticmethod(adapter.interval)
    pooled = staticmethod(adapter.pooled)
    compare = staticmethod(peeking_compare)

    @staticmethod
    def levels(looks, n_max, alpha):
        return tuple(0.05 for _ in looks)


class TooNarrow:
    """The product with intervals at 2.2 times the level."""

    pooled = staticmethod(adapter.pooled)
    levels = staticmethod(adapter.levels)

    @staticmethod
    def interval(d, alpha):
        return adapter.interval(d, 2.2 * alpha)


def test_constant_levels_fail_the_unit_checks(unit_failures):
    """Levels that spend nothing by plan miss all three tabulated values; the product none."""
    assert unit_failures(Peeking) == 3
    assert unit_failures(adapter) == 0


@pytest.mark.slow
def test_peeking_at_a_constant_level_is_rejected():
    """Looking after every block at 5 % calls identical systems different too often."""
    rate = end_to_end(Peeking, "typical", 0.0, CAMPAIGNS)
    assert rate["false verdicts faster/slower"] > false_positive_bound(CAMPAIGNS)


def test_intervals_at_twice_the_level_are_rejected(unit_failures):
    """Intervals at 2.2 times their level miss the golden one, and call identical cells apart."""
    assert unit_failures(TooNarrow) >= 1
    cells, _ = fixed(TooNarrow, "typical", 0.0, FIXED_CAMPAIGNS, 101)
    assert cells[0] > false_positive_bound(2 * FIXED_CAMPAIGNS)


def test_the_product_passes_the_same_subset():
    """The subset rejects the broken one for its fault alone."""
    cells, _ = fixed(adapter, "typical", 0.0, FIXED_CAMPAIGNS, 101)
    assert cells[0] <= false_positive_bound(2 * FIXED_CAMPAIGNS)
