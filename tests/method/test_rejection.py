"""The acceptance test can fail: broken methods are rejected, and the product is not."""

import acceptance
import adapter
import pytest

from steelyard.answers.result import compute as comparisons

CAMPAIGNS = 100
FIXED_CAMPAIGNS = 300


def unit_failures(impl):
    """Return how many unit checks an implementation fails."""
    names = acceptance.unit(impl)
    return sum(not acceptance.check(impl, name, 1, 1).passed for name in names)


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


def test_constant_levels_fail_the_unit_checks():
    """Levels that spend nothing by plan miss all three tabulated values; the product none."""
    assert unit_failures(Peeking) == 3
    assert unit_failures(adapter) == 0


@pytest.mark.slow
def test_peeking_at_a_constant_level_is_rejected():
    """Looking after every block at 5 % calls identical systems different too often."""
    name = "end-to-end typical +0%: false verdicts faster/slower"
    assert not acceptance.check(Peeking, name, 1, CAMPAIGNS).passed


def test_intervals_at_twice_the_level_are_rejected():
    """Intervals at 2.2 times their level miss the golden one, and call identical cells apart.

    The product, by the same few campaigns, does not.
    """
    assert unit_failures(TooNarrow) >= 1
    name = "typical: A/A false positives, per cell, fixed n"
    assert not acceptance.check(TooNarrow, name, FIXED_CAMPAIGNS, 1).passed
    assert acceptance.check(adapter, name, FIXED_CAMPAIGNS, 1).passed
