"""How many starts show that a configuration's rate stands: what plans say of the warm-up.

Every sample is of as many starts as the product says, and is judged as methods.md 3.7 has it: by
the 99 % interval of the mean change over a start.
"""

import numpy as np
import pytest
from scipy import stats

from steelyard.stats.drift import starts_to_see_it_stand

SAMPLES = 400
WITHIN = 0.01


def stand(starts, second_sd, autocorrelation, shape, seed):
    """Return for each sample of starts whether its rate is said to stand.

    ``shape`` is the mean of ln(rate) by second.
    """
    seconds = len(shape)
    rng = np.random.default_rng(np.random.SeedSequence([43, seed]))
    places = np.arange(seconds)
    alike = autocorrelation ** np.abs(np.subtract.outer(places, places)).astype(float)
    noise = rng.standard_normal((SAMPLES, starts, seconds)) @ np.linalg.cholesky(alike).T
    level = 0.1 * rng.standard_normal((SAMPLES, starts, 1))  # what a start draws for itself
    rates = shape + level + second_sd * noise
    centred = places - places.mean()
    changes = rates @ centred / (centred @ centred) * seconds
    reach = stats.t.ppf(0.995, starts - 1) * changes.std(axis=1, ddof=1) / np.sqrt(starts)
    return np.abs(changes.mean(axis=1)) + reach <= WITHIN


@pytest.mark.parametrize(
    ("second_sd", "autocorrelation", "seconds"),
    [(0.01, 0.0, 10), (0.02, 0.3, 5), (0.05, 0.5, 10)],
)
def test_as_many_starts_as_plans_say_show_that_a_rate_stands(second_sd, autocorrelation, seconds):
    """Nine of ten samples show a rate that stands; one that changes by 1 % hardly ever passes."""
    starts = starts_to_see_it_stand(second_sd, autocorrelation, seconds)
    standing = stand(starts, second_sd, autocorrelation, np.zeros(seconds), seed=1)
    assert standing.mean() == pytest.approx(0.9, abs=3 * np.sqrt(0.09 / SAMPLES))
    changing = WITHIN * np.arange(seconds) / seconds
    passed = stand(starts, second_sd, autocorrelation, changing, seed=2)
    assert passed.mean() <= 0.005 + 3 * np.sqrt(0.005 / SAMPLES)


def test_a_configuration_that_rises_for_ten_seconds_does_not_stand_in_them():
    """It lacks a tenth at first; no sample says that it needs no warm-up."""
    starts = starts_to_see_it_stand(0.02, 0.3, 10)
    rising = np.log1p(-0.1 * np.exp(-np.arange(10) / (10 / 3)))
    assert not stand(starts, 0.02, 0.3, rising, seed=3).any()
