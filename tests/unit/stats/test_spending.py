"""Levels of looks and of many cells: the error that they spend, when they decide, and the words."""

import math

import numpy as np
import pytest
from chance import highest_rate, lowest_rate
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats as reference
from scipy.special import ndtri
from scipy.stats import t as student

from steelyard.core.findings import Verdict
from steelyard.stats.intervals import (
    block_interval,
    block_p_value,
    blocks_to_decide,
    has_no_practical_weight,
    interval_ends,
    signed_rank_p_value,
    verdict_of,
)
from steelyard.stats.noise import unit_contrasts
from steelyard.stats.planning import (
    Look,
    contrast_scale,
    half_width,
    look_half_width,
    simulated,
    smallest_visible,
)
from steelyard.stats.spending import (
    discoveries,
    false_discovery_level,
    look_level,
    look_levels,
    spending_power,
    spent,
)


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


samples = arrays(np.float64, st.integers(2, 24), elements=st.floats(-1.0, 1.0, width=32))


def leaves_out_zero(contrasts: np.ndarray, level: float) -> bool:
    """Return whether the interval at a level has zero outside."""
    interval = block_interval(contrasts, level)
    return interval.low > 0.0 or interval.high < 0.0


@given(values=samples, shift=st.floats(-1.0, 1.0))
def test_the_interval_leaves_out_zero_from_the_p_value_on(values: np.ndarray, shift: float) -> None:
    """Just above its p value the interval has zero outside, just below it has not."""
    contrasts = values + shift
    p_value = block_p_value(contrasts)
    above, below = min(p_value * (1 + 1e-6) + 1e-12, 1.0), p_value * (1 - 1e-6)
    assert above >= 1.0 or leaves_out_zero(contrasts, above)
    assert below <= 1e-9 or not leaves_out_zero(contrasts, below)


@pytest.mark.parametrize("n", [10, 24, 60])
def test_it_is_the_p_value_of_the_books(n: int) -> None:
    """From 10 blocks on it is Wilcoxon's exact two-sided p, below Student's."""
    contrasts = np.random.default_rng(n).standard_normal(n) + 0.3
    expected = reference.wilcoxon(contrasts, method="exact").pvalue
    assert block_p_value(contrasts) == pytest.approx(expected)
    few = contrasts[:9]
    assert block_p_value(few) == pytest.approx(reference.ttest_1samp(few, 0.0).pvalue)


def test_ranks_that_can_say_no_more_leave_it_to_t() -> None:
    """Ten clear effects of one sign: ranks end at 2^-9, the interval and its p value do not."""
    clear = 0.1 + 0.001 * np.arange(10)
    assert signed_rank_p_value(clear) == pytest.approx(2.0**-9)
    assert block_p_value(clear) < 1e-9


def test_the_textbook_procedure() -> None:
    """Benjamini and Hochberg's own fifteen p values at 5 %: the first four."""
    published = np.array(
        [
            *(0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344),
            *(0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000),
        ]
    )
    assert discoveries(published, lambda called: false_discovery_level(0.05, called, 15)) == 4


@given(p_values=arrays(np.float64, st.integers(1, 40), elements=st.floats(0.0, 1.0)))
def test_it_agrees_with_scipy(p_values: np.ndarray) -> None:
    """The number called is that of adjusted p values within q."""
    q, many = 0.1, len(p_values)
    called = discoveries(p_values, lambda some: false_discovery_level(q, some, many))
    adjusted = reference.false_discovery_control(p_values)
    near = np.abs(adjusted - q) < 1e-9
    assert int((adjusted <= q).sum()) == called or near.any()


def test_nothing_is_called_among_equal_systems_too_often() -> None:
    """Without any effect, a campaign of 20 cells has a call in at most 5 %."""
    campaigns, wrong = 1000, 0
    for seed in range(campaigns):
        contrasts = np.random.default_rng([6, seed]).standard_normal((12, 20))
        p_values = np.array([block_p_value(column) for column in contrasts.T])
        wrong += discoveries(p_values, lambda some: false_discovery_level(0.05, some, 20)) > 0
    assert wrong / campaigns <= highest_rate(0.05, campaigns)


@pytest.mark.parametrize("called", [0, 4])
def test_a_level_of_nothing_is_refused(called: int) -> None:
    """None called, or more than there are."""
    with pytest.raises(ValueError, match="of 3"):
        false_discovery_level(0.05, called, 3)


def test_a_p_value_needs_contrasts() -> None:
    """Nothing has no p value."""
    with pytest.raises(ValueError, match="0 contrasts"):
        signed_rank_p_value(np.zeros(0))


def planned(first: int, last: int, alpha: float = 0.04, power: float = 2.0) -> tuple[Look, ...]:
    """Return a look after every block."""
    blocks = range(first, last + 1)
    levels = look_levels(list(blocks), last, alpha, power)
    return tuple(Look(blocks=n, level=a) for n, a in zip(blocks, levels, strict=True))


@pytest.mark.parametrize(("last", "drift"), [(24, 0.9), (40, 0.5), (12, 2.0)])
def test_the_chances_are_those_of_drawn_campaigns(last: int, drift: float) -> None:
    """Normal contrasts, the product's own intervals, 400 campaigns: within three deviations."""
    looks = planned(8, last)
    campaigns = 400
    drawn = np.random.default_rng(last).normal(drift, 1.0, (campaigns, last))
    decided = np.zeros(len(looks))
    for contrasts in drawn:
        for place, look in enumerate(looks):
            found = block_interval(contrasts[: look.blocks], look.level)
            if found.low > 0.0 or found.high < 0.0:
                decided[place:] += 1.0 / campaigns
                break
    foretold = simulated(looks).decided(drift)
    assert np.abs(foretold - decided).max() < 3.0 * math.sqrt(0.25 / campaigns + 0.25 / 200)


def test_without_an_effect_the_error_is_what_was_spent() -> None:
    """A side has half of it, within three deviations of 400 sides, also beyond the ranks' reach."""
    for first, last, step in ((4, 40, 2), (100, 400, 10)):
        blocks = list(range(first, last + 1, step))
        levels = look_levels(blocks, last, 0.04, 1.0)
        looks = tuple(Look(blocks=n, level=a) for n, a in zip(blocks, levels, strict=True))
        assert simulated(looks).decided(0.0)[-1] == pytest.approx(0.02, abs=0.021)


def test_campaigns_are_drawn_from_the_blocks_of_another() -> None:
    """Stalls cost power; contrasts of deviation 1 without them are as good as normal ones."""
    looks = planned(4, 30)
    even = unit_contrasts(np.random.default_rng(3).standard_normal(40))
    assert np.array(even).std() == pytest.approx(1.0, rel=0.1)
    assert unit_contrasts(np.array(even)[:11]) == ()
    assert unit_contrasts(np.zeros(20)) == ()
    stalled = unit_contrasts(np.array([*even[:36], -9.0, 9.0, 12.0, -12.0]))
    assert max(stalled) > 8.0
    shares = [simulated(looks, contrasts=c).decided(0.8)[-1] for c in ((), even, stalled)]
    assert shares[1] == pytest.approx(shares[0], abs=0.15)
    assert shares[2] < shares[0] - 0.05


def test_ends_of_many_series_are_those_of_the_interval() -> None:
    """By t and by ranks, to the last bit that counts."""
    drawn = np.random.default_rng(2).standard_normal((14, 5))
    for blocks, level in ((4, 0.04), (9, 0.01), (10, 0.04), (14, 0.001)):
        low, high = interval_ends(drawn[:blocks], level)
        for series in range(5):
            found = block_interval(drawn[:blocks, series], level)
            assert (low[series], high[series]) == pytest.approx((found.low, found.high))


def test_larger_effects_are_decided_earlier() -> None:
    """Chances rise from look to look and with the effect; the blocks until a share fall."""
    plan = simulated(planned(8, 30))
    chances = np.array([plan.decided(drift) for drift in (0.0, 0.3, 0.6, 1.2, 5.0)])
    assert (np.diff(chances, axis=0) >= -1e-9).all()
    assert (np.diff(chances, axis=1) >= 0.0).all()
    blocks = [plan.blocks_until(drift, 0.5) for drift in (0.3, 0.9, 1.5, 5.0)]
    assert blocks[0] is None
    assert blocks[-1] == 8
    known = [b for b in blocks if b is not None]
    assert known == sorted(known, reverse=True)


def test_without_noise_the_first_look_decides() -> None:
    """An infinite drift is no special case."""
    assert simulated(planned(8, 30)).blocks_until(math.inf, 0.9) == 8


@pytest.mark.parametrize("cumulative", [True, False])
def test_the_drift_that_is_needed_is_the_least_one(*, cumulative: bool) -> None:
    """Above it the share asked for is decided at the last look, below it is not."""
    plan = simulated(planned(8, 30), cumulative=cumulative)
    drift = plan.drift_needed(0.9)
    assert plan.decided(1.0001 * drift)[-1] == pytest.approx(0.9, abs=0.01)
    assert plan.decided(0.98 * drift)[-1] < 0.9


def test_a_look_alone_says_less_than_all_before_it() -> None:
    """Where the verdict of the last look counts, a drift needs no less than with stopping."""
    looks = planned(8, 30)
    alone = simulated(looks, cumulative=False).decided(0.6)
    assert (simulated(looks).decided(0.6) >= alone - 0.01).all()


def test_half_widths_are_those_of_the_interval() -> None:
    """Student's t below 10 blocks, by hand; drawn medians for signed ranks, within 9 %."""
    expected = student.isf(0.005, 7) / math.sqrt(8) * 0.02
    assert look_half_width(Look(blocks=8, level=0.01), 0.02) == pytest.approx(expected, rel=1e-6)
    rng = np.random.default_rng(5)
    for blocks, level in ((12, 0.003), (20, 0.01), (30, 0.045), (60, 0.045)):
        drawn = [block_interval(rng.standard_normal(blocks), level) for _ in range(400)]
        median = float(np.median([(found.high - found.low) / 2 for found in drawn]))
        assert look_half_width(Look(blocks=blocks, level=level), 1.0) == pytest.approx(
            median, rel=0.09
        )
    at_60, at_61 = (look_half_width(Look(blocks=n, level=0.045), 1.0) for n in (60, 61))
    assert at_61 == pytest.approx(at_60, rel=0.03)


@pytest.mark.parametrize("contrasts", [(), (-1.2, 0.3, 1.1, -0.4, 0.2)])
def test_long_plans_need_no_more_room(contrasts: tuple[float, ...]) -> None:
    """Beyond 10,000 blocks sums are drawn, and the drift that is needed falls with the root."""
    needed = []
    for last in (10_000, 40_000, 30_000_000):
        blocks = [int(number) for number in np.linspace(4, last, 40).round()]
        looks = tuple(Look(blocks=n, level=0.01) for n in blocks)
        plan = simulated(looks, cumulative=False, contrasts=contrasts)
        needed.append(plan.drift_needed(0.5) * math.sqrt(last))
    assert needed == pytest.approx([needed[0]] * 3, rel=0.1)


def test_no_look_is_no_plan() -> None:
    """A caller must ask first."""
    with pytest.raises(ValueError, match="without an interim result"):
        simulated(())


def contrasts(blocks: int, seed: int, *, stalled: float = 0.0) -> np.ndarray:
    """Return contrasts of deviation 0.05, some of them stalled."""
    rng = np.random.default_rng(seed)
    made = 0.05 * rng.standard_normal(blocks)
    return np.where(rng.random(blocks) < stalled, made - 1.0, made)


@pytest.mark.parametrize("blocks", [4, 8, 12, 60])
def test_the_scale_is_the_deviation_of_normal_contrasts(blocks: int) -> None:
    """Its root mean square is within a tenth, whatever the number of blocks."""
    scales = [contrast_scale(contrasts(blocks, seed)).estimate for seed in range(400)]
    assert np.sqrt(np.mean(np.square(scales))) == pytest.approx(0.05, rel=0.1)


def test_its_interval_covers() -> None:
    """Of 400 campaigns of 14 blocks, at least 93 % have the deviation between the bounds."""
    found = [contrast_scale(contrasts(14, seed)) for seed in range(400)]
    assert np.mean([f.low <= 0.05 <= f.high for f in found]) >= lowest_rate(0.95, 400)


@pytest.mark.parametrize("blocks", [12, 30, 80])
def test_the_half_width_comes_true(blocks: int) -> None:
    """What 20 blocks forecast, the median interval of other numbers of blocks has."""
    scale = float(np.median([contrast_scale(contrasts(20, s)).estimate for s in range(200)]))
    seen = []
    for seed in range(200):
        found = block_interval(contrasts(blocks, 1000 + seed), 0.02)
        seen.append((np.expm1(found.high) - np.expm1(found.low)) / 2.0)
    assert half_width(scale, blocks, 0.02) == pytest.approx(np.median(seen), rel=0.1)


def test_stalls_widen_the_scale_no_more_than_the_interval() -> None:
    """One stalled block of ten trebles the deviation; ranks do not follow it."""
    stalled = contrasts(30, 3)
    stalled[::10] -= 1.0
    assert stalled.std() > 0.25
    assert contrast_scale(stalled).estimate < 0.15


def test_one_stalled_block_of_eight_does_not_count() -> None:
    """Below ten blocks the forecast rests on an inner interval."""
    stalled = contrasts(8, 5)
    stalled[2] -= 2.0
    assert contrast_scale(stalled).estimate < 3 * contrast_scale(contrasts(8, 5)).estimate


def test_equal_contrasts_have_no_width() -> None:
    """Nothing varies, so every half-width is 0 and so are its bounds."""
    scale = contrast_scale(np.full(9, 0.01))
    assert (scale.estimate, scale.low, scale.high) == (0.0, 0.0, 0.0)
    assert half_width(0.0, 9, 0.05) == 0.0


def test_the_smallest_visible_effect_is_decided_in_nine_of_ten() -> None:
    """METHOD 3.6: a half-width of 0.6 % decides 1 % with 90 % power."""
    assert smallest_visible(0.006) == pytest.approx(0.01)


def test_one_contrast_is_refused() -> None:
    """A single block has no scale."""
    with pytest.raises(ValueError, match="no t interval"):
        contrast_scale(np.array([0.1]))


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
