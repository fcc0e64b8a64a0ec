"""The method's checks of cliffs, histograms and warm-up, on the product's code.

Not in acceptance.py because they concern no comparison. Attribution has its own file.
"""

import extras
import numpy as np
import pytest

from steelyard.stats.histogram import bucket_indices
from steelyard.stats.histogram import bucket_values
from steelyard.stats.histogram import histogram_of
from steelyard.stats.histogram import merged

MORE = 10
SUBJECTS = {  # what measures it, campaigns, seed
    "cliff": (extras.cliffs, 200, 3),
    "warm-up": (extras.warm_up, 100, 500),
}


@pytest.fixture(scope="module")
def measured():
    """Return a function that gives a subject's checks, measured once."""
    known = {}

    def checks_of(subject):
        if subject not in known:
            measure, campaigns, seed = SUBJECTS[subject]
            known[subject] = extras.checks(measure(campaigns, seed))
        return known[subject]

    return checks_of


@pytest.mark.slow
@pytest.mark.parametrize("name", extras.BOUNDS)
def test_the_product_passes(name, measured):
    """The check holds, if need be with ten times the campaigns of other seeds."""
    subject = name.split(":")[0]
    check = measured(subject)[name]
    if not check.passed:
        print(f"repeated with {MORE} times the campaigns: {check}")
        measure, campaigns, seed = SUBJECTS[subject]
        check = extras.checks(measure(MORE * campaigns, 100_000 + seed))[name]
    assert check.passed, str(check)


@pytest.mark.slow
def test_no_check_is_left_out(measured):
    """Every bound has a figure, and no figure is without a bound."""
    assert {name for subject in SUBJECTS for name in measured(subject)} == set(extras.BOUNDS)


@pytest.fixture(scope="module")
def latencies():
    """Return half a million latencies in microseconds with a long tail."""
    return np.rint(np.exp(np.random.default_rng(0).normal(7, 1.3, 500_000)))


def test_histograms_merge_exactly(latencies):
    """Nine parts in any order are the whole, count for count."""
    parts = [histogram_of(part) for part in np.array_split(latencies, 9)]
    shuffled = [parts[place] for place in np.random.default_rng(1).permutation(9)]
    assert (merged(shuffled).counts == histogram_of(latencies).counts).all()


def test_no_latency_is_off_by_more_than_0_4_percent(latencies):
    """Each value and the 99.9th percentile."""
    whole = latencies.astype(np.int64)
    assert np.max(np.abs(bucket_values(bucket_indices(whole)) - whole) / whole) <= 0.004
    exact = np.quantile(latencies, 0.999, method="inverted_cdf")
    assert abs(histogram_of(latencies).quantile(0.999) / exact - 1) <= 0.004
