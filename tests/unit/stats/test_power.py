"""When looks decide a true effect."""

import math

import numpy as np
import pytest
from scipy.stats import t as student

from steelyard.stats.intervals import block_interval
from steelyard.stats.planning import Look, crossing, look_half_width
from steelyard.stats.spending import look_levels


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
    foretold = crossing(looks).decided(drift)
    chance = 3.0 * math.sqrt(0.25 / campaigns)
    assert np.abs(foretold - decided).max() < chance + 0.03  # and a typical sample for all


def test_without_an_effect_the_error_is_what_was_spent() -> None:
    """The recursion is that of the levels: 4 % where the normal approximation holds."""
    blocks = list(range(100, 401, 10))
    levels = look_levels(blocks, 400, 0.04, 1.0)
    looks = tuple(Look(blocks=n, level=a) for n, a in zip(blocks, levels, strict=True))
    assert crossing(looks).decided(0.0)[-1] == pytest.approx(0.04, abs=0.004)


def test_larger_effects_are_decided_earlier() -> None:
    """Chances rise from look to look and with the effect; the blocks until a share fall."""
    plan = crossing(planned(8, 30))
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
    assert crossing(planned(8, 30)).blocks_until(math.inf, 0.9) == 8


@pytest.mark.parametrize("cumulative", [True, False])
def test_the_drift_that_is_needed_is_the_least_one(*, cumulative: bool) -> None:
    """It decides exactly the share asked for at the last look."""
    plan = crossing(planned(8, 30), cumulative=cumulative)
    drift = plan.drift_needed(0.9)
    assert plan.decided(drift)[-1] == pytest.approx(0.9, abs=1e-3)
    assert plan.decided(0.98 * drift)[-1] < 0.9


def test_a_look_alone_says_less_than_all_before_it() -> None:
    """Where the verdict of the last look counts, a drift needs no less than with stopping."""
    looks = planned(8, 30)
    alone = crossing(looks, cumulative=False).decided(0.6)
    assert (crossing(looks).decided(0.6) >= alone - 0.01).all()


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


def test_no_look_is_no_plan() -> None:
    """A caller must ask first."""
    with pytest.raises(ValueError, match="without an interim result"):
        crossing(())
