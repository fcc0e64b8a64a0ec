"""Words for intervals, and how much longer an open question takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.core.findings import Verdict
from steelyard.stats.intervals import blocks_to_decide, has_no_practical_weight, verdict_of

INF = float("inf")
bounds = st.tuples(st.floats(-0.5, 0.5), st.floats(-0.5, 0.5)).map(sorted)


@pytest.mark.parametrize(
    ("low", "high", "word", "light"),
    [
        (0.001, 0.05, Verdict.FASTER, False),
        (0.001, 0.009, Verdict.FASTER, True),
        (-0.05, -0.001, Verdict.SLOWER, False),
        (-0.009, -0.001, Verdict.SLOWER, True),
        (-0.009, 0.009, Verdict.EQUIVALENT, False),
        (0.0, 0.009, Verdict.EQUIVALENT, False),
        (-0.01, 0.005, Verdict.NO_CLEAR_DIFFERENCE, False),
        (-0.011, 0.024, Verdict.NO_CLEAR_DIFFERENCE, False),
        (-INF, INF, Verdict.NO_CLEAR_DIFFERENCE, False),
    ],
)
def test_words(low: float, high: float, word: Verdict, *, light: bool) -> None:
    """The word and its practical weight, with a margin of 1 %; bounds on the edge decide less."""
    assert verdict_of(low, high, 0.01) is word
    assert has_no_practical_weight(low, high, 0.01) is light


@given(bounds)
def test_swapping_the_arms_swaps_the_words(interval: list[float]) -> None:
    """Faster one way is slower the other; the rest is the same both ways."""
    low, high = interval
    opposite = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}
    word = verdict_of(low, high, 0.01)
    assert verdict_of(-high, -low, 0.01) is opposite.get(word, word)
    assert has_no_practical_weight(-high, -low, 0.01) is has_no_practical_weight(low, high, 0.01)


def test_blocks_to_decide() -> None:
    """Twice the width needs four times the blocks; a width of 1.2 effects needs no more."""
    assert blocks_to_decide(20, 1.2 * 0.03, 0.03) == pytest.approx(20.0)
    assert blocks_to_decide(20, 2.4 * 0.03, 0.03) == pytest.approx(80.0)
