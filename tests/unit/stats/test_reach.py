"""From measured contrasts to the half-width of any number of blocks."""

import numpy as np
import pytest
from chance import lowest_rate

from steelyard.stats.intervals import block_interval
from steelyard.stats.planning import contrast_scale, half_width, smallest_visible


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
