"""Levels of successive looks: tabulated values, and the error that they spend."""

import numpy as np
import pytest
from chance import highest_rate, lowest_rate
from scipy.special import ndtri

from steelyard.stats.spending import look_level, look_levels, spending_power, spent


def test_five_equal_looks() -> None:
    """Alpha .05, rho 2 has the z bounds 3.0902 2.7141 2.4728 2.2799 2.1140."""
    z = -ndtri(np.array(look_levels((1, 2, 3, 4, 5), 5, 0.05, 2.0)) / 2.0)
    assert z == pytest.approx([3.0902, 2.7141, 2.4728, 2.2799, 2.1140], abs=2e-4)


def test_one_look_spends_everything() -> None:
    """A single look at the end is a test at alpha."""
    assert look_levels((30,), 30, 0.04, 2.0) == pytest.approx((0.04,))


@pytest.mark.parametrize(("max_blocks", "power"), [(30, 2.0), (60, 2.0), (90, 1.0)])
def test_the_total_error_is_alpha(max_blocks: int, power: float) -> None:
    """Random walks looked at after every block cross any boundary in alpha of all cases."""
    walks, alpha = 40_000, 0.04
    looks = np.arange(8, max_blocks + 1)
    bounds = -ndtri(np.array(look_levels(looks.tolist(), max_blocks, alpha, power)) / 2.0)
    steps = np.random.default_rng(max_blocks).standard_normal((walks, max_blocks))
    z = np.cumsum(steps, axis=1)[:, looks - 1] / np.sqrt(looks)
    crossed = (np.abs(z) > bounds).any(axis=1).mean()
    assert lowest_rate(alpha, walks) <= crossed <= highest_rate(alpha, walks)


@pytest.mark.parametrize(("first", "more"), [(1, 0), (6, 3), (8, 22)])
def test_a_look_does_not_depend_on_later_looks(first: int, more: int) -> None:
    """The level of one look is that of the whole plan at its place."""
    level = look_level(first + more, first_look=first, max_blocks=60, alpha=0.04, power=2.0)
    whole = look_levels(range(first, first + more + 1), 60, 0.04, 2.0)
    assert level == pytest.approx(whole[-1], rel=1e-12)


def test_the_last_look_spends_what_is_left() -> None:
    """Walks that end at a look drawn apart from them cross a boundary in alpha of all cases."""
    walks, alpha, first, most = 40_000, 0.04, 6, 14
    rng = np.random.default_rng(3)
    ends = rng.integers(first, most + 1, walks)
    looks = np.arange(first, most + 1)
    z = np.cumsum(rng.standard_normal((walks, most)), axis=1)[:, looks - 1] / np.sqrt(looks)
    given = {"first_look": first, "max_blocks": most, "alpha": alpha, "power": 2.0}
    before = [-ndtri(look_level(int(n), **given) / 2.0) for n in looks]
    at_end = {n: -ndtri(look_level(int(n), is_last=True, **given) / 2.0) for n in looks}
    assert at_end[first] == pytest.approx(-ndtri(alpha / 2.0))
    assert at_end[most] == pytest.approx(before[-1])
    assert all(at_end[n] < bound for n, bound in zip(looks[:-1], before, strict=False))
    bounds = np.array(before) * np.ones((walks, 1))
    bounds[looks == ends[:, None]] = [at_end[n] for n in ends]
    crossed = ((np.abs(z) > bounds) & (looks <= ends[:, None])).any(axis=1).mean()
    assert lowest_rate(alpha, walks) <= crossed <= highest_rate(alpha, walks)


def test_power_and_spending() -> None:
    """Rho is 2 up to 60 blocks and 1 beyond; all is spent at the last look, never more."""
    assert [spending_power(n) for n in (1, 60, 61)] == [2.0, 2.0, 1.0]
    assert [spent(t, 0.04, 2.0) for t in (0.5, 1.0, 1.5)] == pytest.approx([0.01, 0.04, 0.04])


@pytest.mark.parametrize(
    ("looks", "max_blocks", "alpha"),
    [((3, 2), 5, 0.05), ((1, 1), 5, 0.05), ((0, 1), 5, 0.05), ((1, 6), 5, 0.05), ((1,), 5, 0.0)],
)
def test_impossible_plans(looks: tuple[int, ...], max_blocks: int, alpha: float) -> None:
    """Looks must rise within the campaign, and alpha must be an error."""
    with pytest.raises(ValueError, match="looks"):
        look_levels(looks, max_blocks, alpha, 2.0)


@pytest.mark.parametrize("look", [7, 31])
def test_looks_outside_the_plan(look: int) -> None:
    """There is no level before the first look or after the last."""
    with pytest.raises(ValueError, match="no look at"):
        look_level(look, first_look=8, max_blocks=30, alpha=0.04, power=2.0)
