"""The exact bound of a chance."""

import pytest
from scipy.stats import binom

from steelyard.stats.intervals import highest_chance


def test_no_event_has_the_bound_that_people_know() -> None:
    """None in 20 leaves at most 1 - 0.05^(1/20); all of them leave everything."""
    assert highest_chance(0, of=20, level=0.05) == pytest.approx(1 - 0.05 ** (1 / 20))
    assert highest_chance(20, of=20, level=0.05) == 1.0


@pytest.mark.parametrize("chance", [0.001, 0.03, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("trials", [1, 5, 20, 60])
def test_the_bound_holds_at_its_level(chance: float, trials: int) -> None:
    """Calibration: the probability of a sample whose bound lies below the truth is at most 5 %.

    It is summed over all samples, not simulated.
    """
    missed = sum(
        float(binom.pmf(found, trials, chance))
        for found in range(trials + 1)
        if highest_chance(found, of=trials, level=0.05) < chance
    )
    assert missed <= 0.05


def test_impossible_samples_are_refused() -> None:
    """More events than trials, or no trial, is no sample."""
    for found, of in ((2, 1), (0, 0), (-1, 3)):
        with pytest.raises(ValueError, match="proportion"):
            highest_chance(found, of=of, level=0.05)
