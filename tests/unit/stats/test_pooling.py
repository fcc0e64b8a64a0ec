"""The result's sample: one number per block from its cells."""

import numpy as np
import pytest
from chance import highest_rate
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from steelyard.stats.factorial import pooled_contrasts
from steelyard.stats.intervals import block_interval

blocks_of_cells = arrays(
    np.float64,
    st.tuples(st.integers(2, 12), st.integers(1, 7)),
    elements=st.floats(-1.0, 1.0, width=32),
)


def test_it_estimates_the_mean_over_cells() -> None:
    """Also when the effect depends on the load: no noise, no error."""
    effects = np.array([0.0, 0.02, 0.03, 0.05, 0.10])
    pooled = pooled_contrasts(np.tile(effects, (8, 1)))
    assert pooled == pytest.approx(np.full(8, effects.mean()))


def test_a_stalled_slice_does_not_spoil_its_block() -> None:
    """A slice at a tenth of its speed moves its block by a tenth of what it moves the mean."""
    contrasts = 0.02 * np.random.default_rng(1).standard_normal((12, 5))
    stalled = contrasts.copy()
    stalled[4, 2] += np.log(0.1)
    moved = np.abs(pooled_contrasts(stalled) - pooled_contrasts(contrasts))
    assert moved.max() < 0.1 * abs(np.log(0.1)) / 5


def test_a_single_cell_is_its_own_result() -> None:
    """Nothing is centred, so nothing is stretched."""
    contrasts = np.random.default_rng(2).standard_normal((9, 1))
    assert (pooled_contrasts(contrasts) == contrasts[:, 0]).all()


def test_three_cells_are_averaged_four_are_trimmed() -> None:
    """With fewer than four cells an outlier counts, with four it is dropped."""
    contrasts = np.zeros((9, 4))
    contrasts[0, 0] = 1.0
    assert pooled_contrasts(contrasts[:, :3])[0] == pytest.approx(np.sqrt(9 / 8) / 3)
    assert pooled_contrasts(contrasts)[0] == 0.0


def test_one_block_is_the_mean_of_its_cells() -> None:
    """A single block has nothing to stretch by."""
    assert pooled_contrasts(np.array([[0.1, 0.2, 0.6]])) == pytest.approx([0.3])


@pytest.mark.parametrize("shape", [(0, 5), (5, 0)])
def test_nothing_to_pool(shape: tuple[int, int]) -> None:
    """No block or no cell is refused."""
    with pytest.raises(ValueError, match="nothing to pool"):
        pooled_contrasts(np.empty(shape))


@pytest.mark.parametrize("blocks", [8, 15, 30])
def test_identical_systems_are_told_apart_at_the_level_only(blocks: int) -> None:
    """Pooled over five cells with one slice in fifty stalled, at most 5 % at level 4.5 %."""
    campaigns = 1500
    rng = np.random.default_rng([3, blocks])
    slices = 0.03 * rng.standard_normal((campaigns, blocks, 5, 2))
    slices += np.where(rng.random(slices.shape) < 0.02, np.log(0.4), 0.0)
    contrasts = slices[..., 1] - slices[..., 0] + 0.02 * rng.standard_normal((campaigns, blocks, 1))
    found = [block_interval(pooled_contrasts(sample), 0.045) for sample in contrasts]
    wrong = np.mean([interval.low > 0.0 or interval.high < 0.0 for interval in found])
    assert wrong <= highest_rate(0.05, campaigns)


@given(contrasts=blocks_of_cells, shift=st.floats(-5, 5), scale=st.floats(0.01, 100))
def test_shift_and_scale_go_through(contrasts: np.ndarray, shift: float, scale: float) -> None:
    """Pooling a shifted and scaled array shifts and scales the pooled contrasts."""
    expected = pooled_contrasts(contrasts) * scale + shift
    assert pooled_contrasts(contrasts * scale + shift) == pytest.approx(expected, abs=1e-6)


@given(contrasts=blocks_of_cells)
def test_swapping_the_arms_changes_the_sign(contrasts: np.ndarray) -> None:
    """Negated cells give the negated result."""
    assert pooled_contrasts(-contrasts) == pytest.approx(-pooled_contrasts(contrasts), abs=1e-12)
