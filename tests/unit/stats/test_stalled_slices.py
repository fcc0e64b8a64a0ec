"""Which slices stalled, and whether one arm has more of them."""

import numpy as np
import pytest
from chance import highest_rate
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import fisher_exact

from steelyard.stats.drift import stalled_slices, stalls_p_value


def test_a_stall_is_found_in_its_own_cell_and_arm() -> None:
    """A slice at half speed stalls; a slow cell does not."""
    log_tps = 0.01 * np.random.default_rng(1).standard_normal((12, 2, 3))
    log_tps[:, 1, :] -= 2.0
    log_tps[5, 1, 2] += np.log(0.5)
    assert np.argwhere(stalled_slices(log_tps)).tolist() == [[5, 1, 2]]


def test_what_is_no_stall() -> None:
    """Neither a loss below a fifth, nor one within five robust deviations, nor a fast slice."""
    steady = np.zeros(11)
    steady[3], steady[4] = np.log(0.81), np.log(2.0)
    assert not stalled_slices(steady).any()
    noisy = np.linspace(-1.0, 1.0, 11)
    assert not stalled_slices(noisy).any()


@pytest.mark.parametrize("n", [1, 2])
def test_too_few_to_tell(n: int) -> None:
    """Below 3 slices none can be stalled."""
    assert not stalled_slices(np.arange(n) * 10.0).any()


def test_noise_alone_hardly_ever_stalls() -> None:
    """In normal noise of 10 % fewer than one slice in a thousand is called stalled."""
    noise = 0.1 * np.random.default_rng(2).standard_normal((30, 4000))
    assert stalled_slices(noise).mean() < 0.001


def test_equal_arms_are_rarely_told_apart() -> None:
    """With 5 % stalls in both arms, Fisher's test at 5 % rejects in at most 5 % of campaigns."""
    campaigns, slices = 2000, 150
    counts = np.random.default_rng(3).binomial(slices, 0.05, (campaigns, 2))
    p_values = [stalls_p_value((int(a), int(b)), (slices, slices)) for a, b in counts]
    assert np.mean(np.array(p_values) < 0.05) <= highest_rate(0.05, campaigns)


def test_unequal_arms_are_found() -> None:
    """2 against 10 % of 150 slices differ; none against none does not."""
    assert stalls_p_value((3, 15), (150, 150)) < 0.01
    assert stalls_p_value((0, 0), (150, 150)) == 1.0


def test_the_textbook_table() -> None:
    """Fisher's tea: 3 of 4 against 1 of 4 has p = 34/70."""
    assert stalls_p_value((3, 1), (4, 4)) == pytest.approx(34 / 70)


@given(st.data())
def test_every_table_as_scipy_tests_it(data: st.DataObject) -> None:
    """Whatever the numbers of slices and stalls; the sums are exact here and rounded there."""
    slices = tuple(data.draw(st.integers(1, 400)) for _ in range(2))
    stalled = tuple(data.draw(st.integers(0, every)) for every in slices)
    table = [stalled, [every - some for some, every in zip(stalled, slices, strict=True)]]
    ours = stalls_p_value((stalled[0], stalled[1]), (slices[0], slices[1]))
    assert ours == pytest.approx(fisher_exact(np.array(table)).pvalue, rel=1e-6)


def test_more_stalls_than_slices() -> None:
    """An impossible count is refused."""
    with pytest.raises(ValueError, match="stalled of"):
        stalls_p_value((5, 0), (4, 4))
