"""The number of clients above which more bring no clear gain: seldom too large, and not too small.

The bound on naming too many clients is exact in signed ranks and conservative in t with stalls.
"""

import numpy as np
import pytest
from chance import highest_rate, lowest_rate

from steelyard.stats.capacity import LEAST_GAIN_BLOCKS, fewest_without_gain

CAMPAIGNS = 1000
LEVEL = 0.05
TRUTHS = {  # ln of the true rates, and the place of the highest one with the fewest clients
    "flat from the first on": (np.zeros(7), 0),
    "flat from the fourth on": (np.array([0.0, 0.6, 1.1, 1.4, 1.4, 1.4, 1.4]), 3),
    "flat from the fifth of eleven on": (np.minimum(np.arange(11), 4) * 0.3, 4),
    "falling from the third on": (np.array([0.0, 0.6, 0.9, 0.89, 0.88, 0.86, 0.8]), 2),
}


def campaign(truth: np.ndarray, blocks: int, seed: tuple[int, ...], *, stalls: bool) -> np.ndarray:
    """Return log rates with 2 % of noise a run and a level per block; one run in 20 stalls."""
    rng = np.random.default_rng(seed)
    noise = 0.02 * rng.standard_normal((blocks, len(truth)))
    if stalls:
        noise += np.where(rng.random(noise.shape) < 0.05, np.log(0.5), 0.0)
    return truth + 0.1 * rng.standard_normal((blocks, 1)) + noise


def places(
    truth: np.ndarray, blocks: int, seed: int, *, stalls: bool = False, campaigns: int = CAMPAIGNS
) -> np.ndarray:
    """Return the place that each of many simulated campaigns names."""
    return np.array(
        [
            fewest_without_gain(campaign(truth, blocks, (seed, number), stalls=stalls), LEVEL)
            for number in range(campaigns)
        ]
    )


@pytest.mark.parametrize("stalls", [False, True], ids=["plain", "stalls"])
@pytest.mark.parametrize("blocks", [6, 12, 20])
@pytest.mark.parametrize("name", TRUTHS)
def test_a_gain_that_is_not_there_is_seldom_claimed(
    name: str, blocks: int, *, stalls: bool
) -> None:
    """More clients than those of the highest rate are named in 2.5 % of campaigns at most."""
    truth, highest = TRUTHS[name]
    named = places(truth, blocks, 1, stalls=stalls)
    assert np.mean(named > highest) <= highest_rate(LEVEL / 2, CAMPAIGNS)


@pytest.mark.parametrize(
    ("blocks", "stalls", "share"),
    [(6, False, 0.47), (12, False, 0.99), (6, True, 0.09), (12, True, 0.53)],
)
def test_a_gain_of_five_percent_is_seen(blocks: int, *, stalls: bool, share: float) -> None:
    """The larger number of clients is named as often as docs/methods.md says, section 6."""
    truth = np.array([0.0, 0.5, 0.8, 0.8, 0.8, 0.8, 0.8 + np.log(1.05)])
    named = places(truth, blocks, 2, stalls=stalls, campaigns=300)
    assert np.mean(named == 6) == pytest.approx(share, abs=0.005)


def test_small_steps_add_up() -> None:
    """Six steps of 1 % each: neighbours alone seldom differ clearly, the whole way does."""
    truth = 0.01 * np.arange(7)
    named = places(truth, 12, 3, campaigns=300)
    assert np.mean(named >= 1) >= lowest_rate(0.97, 300)
    assert np.median(named) >= 3
    neighbours = [
        fewest_without_gain(campaign(truth, 12, (3, number), stalls=False)[:, :2], LEVEL)
        for number in range(300)
    ]
    assert np.mean(neighbours) < 0.5


@pytest.mark.parametrize("name", TRUTHS)
def test_large_differences_name_the_place_itself(name: str) -> None:
    """Steps of a third or more before the highest rate are never missed by 20 blocks."""
    truth, highest = TRUTHS[name]
    named = places(truth, 20, 4, campaigns=200)
    assert np.mean(named < highest) == 0.0


def test_rates_that_rise_to_the_end_name_the_last() -> None:
    """With one number of clients it is the last, too."""
    rising = 0.3 * np.arange(5) + 0.001 * np.arange(12)[:, None]
    assert fewest_without_gain(rising, LEVEL) == 4
    assert fewest_without_gain(rising[:, :1], LEVEL) == 0


def test_few_blocks_name_none() -> None:
    """Below six blocks there is no number, however large the differences are."""
    rising = np.tile(0.3 * np.arange(5), (LEAST_GAIN_BLOCKS, 1))
    assert LEAST_GAIN_BLOCKS == 6
    assert fewest_without_gain(rising[1:], LEVEL) is None
    assert fewest_without_gain(rising, LEVEL) == 4


@pytest.mark.parametrize(("shape", "level"), [((8, 0), 0.05), ((8, 3), 0.0), ((8, 3), 1.0)])
def test_what_makes_no_sense_is_refused(shape: tuple[int, int], level: float) -> None:
    """No number of clients, or a level outside 0 and 1."""
    with pytest.raises(ValueError, match="no gain among"):
        fewest_without_gain(np.zeros(shape), level)
