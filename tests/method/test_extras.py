"""What the method asks of the parts beside the comparison: cliffs, warm-up and histograms.

The product's own functions are measured on simulated campaigns. Attribution has its own file.
"""

from functools import lru_cache

import numpy as np
import pytest
from acceptance import Check
from simulator import Simulator
from simulator import true_rate

from steelyard.campaign.run.beside_blocks import choose_warm_up
from steelyard.core.experiment import Calibration
from steelyard.core.measurement import Measurement
from steelyard.core.measurement import Second
from steelyard.stats.capacity import scan_for_cliff
from steelyard.stats.histogram import bucket_indices
from steelyard.stats.histogram import bucket_values
from steelyard.stats.histogram import histogram_of
from steelyard.stats.histogram import merged

MORE = 10
LONG_RUN_S, EMPTY_S = 900, 300
RESTARTS, CALIBRATION_S = 5, 120

BOUNDS = {
    "cliff: false alarms, typical": ("<=", 0.03),
    "cliff: false alarms, hostile": ("<=", 0.03),
    "cliff: -40% found, typical": (">=", 0.97),
    "cliff: -40% sustained rate, typical": ("<=", 0.02),
    "cliff: -40% capacity, typical": ("<=", 0.10),
    "cliff: -20% found, typical": (">=", 0.93),
    "cliff: -20% sustained rate, typical": ("<=", 0.02),
    "cliff: -20% capacity, typical": ("<=", 0.10),
    "cliff: -40% found, hostile": (">=", 0.93),
    "cliff: -40% sustained rate, hostile": ("<=", 0.02),
    "cliff: -40% capacity, hostile": ("<=", 0.10),
    "warm-up: median residual of the slower configuration": ("<=", 0.01),
    "warm-up: 90th percentile of it": ("<=", 0.03),
}


def cliffs(campaigns, seed):
    """Return how often cliffs are seen where there are none and some, and how they are measured."""
    figures = {}
    for profile in ("typical", "hostile"):
        scans = [scan_for_cliff(rates) for rates in long_runs(profile, None, campaigns, seed)]
        figures[f"cliff: false alarms, {profile}"] = np.mean([scan.found for scan in scans])
    for profile, left in (("typical", 0.6), ("typical", 0.8), ("hostile", 0.6)):
        bucket = bucket_of(left)
        scans = [scan_for_cliff(rates) for rates in long_runs(profile, bucket, campaigns, seed)]
        found = [scan for scan in scans if scan.found]
        rates = [abs(scan.sustained / bucket[1] - 1) for scan in found]
        sizes = [abs(scan.least_capacity / bucket[0] - 1) for scan in found]
        name = f"cliff: -{1 - left:.0%}"
        figures[f"{name} found, {profile}"] = len(found) / campaigns
        figures[f"{name} sustained rate, {profile}"] = np.median(rates)
        figures[f"{name} capacity, {profile}"] = np.median(sizes)
    return figures


def bucket_of(left):
    """Return a token bucket that is empty after about 300 s and then leaves this share."""
    full = float(true_rate(25))
    return (1 - left) * full * EMPTY_S, left * full


def long_runs(profile, bucket, campaigns, seed):
    """Return runs of 15 minutes, shape (campaigns, seconds)."""
    sim = Simulator(profile, np.zeros((1, 5)), seed=seed, lanes=campaigns, bucket=bucket)
    return sim.run(0, 2, LONG_RUN_S)


def warm_up(campaigns, seed):
    """Return the loss left to a configuration that warms up twice as slowly, after the warm-up."""
    left = [warm_up_left(seed + number) for number in range(campaigns)]
    return {
        "warm-up: median residual of the slower configuration": np.median(left),
        "warm-up: 90th percentile of it": np.quantile(left, 0.9),
    }


def warm_up_left(seed):
    """Return that loss for one calibration, as a campaign makes it."""
    sim = Simulator("typical", np.zeros((2, 5)), seed=seed, warm_scale=[1, 2])
    collected, tau = [], []
    for configuration in (0, 1):
        runs = []
        for _ in range(RESTARTS):
            sim.restart()
            tau.append(sim.warm_tau[0] * (1 + configuration))
            runs.append(measurement(sim.run(configuration, 2, CALIBRATION_S)[0]))
        collected.append({"all": runs})
    calibration = Calibration(restarts=RESTARTS, run_time_s=float(CALIBRATION_S))
    warm_up = choose_warm_up(collected, calibration, RESTARTS).warm_up_s
    return float(np.mean(0.3 * np.exp(-warm_up / np.array(tau[RESTARTS:]))))


def measurement(rates):
    """Return a run with one second per rate."""
    return Measurement(
        transactions=float(rates.sum()),
        seconds=float(len(rates)),
        latency_mean_s=None,
        latency_stddev_s=None,
        failed=0,
        connection_s=None,
        series=tuple(
            Second(end_s=float(end), seconds=1.0, transactions=float(rate), latency_mean_s=None)
            for end, rate in enumerate(rates, start=1)
        ),
    )


SUBJECTS = {"cliff": (cliffs, 200, 3), "warm-up": (warm_up, 100, 500)}  # how many, seed


@lru_cache
def figures(subject, more=1):
    """Return a subject's figures by the name of the check; of more campaigns from other seeds."""
    measure, campaigns, seed = SUBJECTS[subject]
    return measure(more * campaigns, seed + 100_000 * (more > 1))


@pytest.mark.slow
@pytest.mark.parametrize("name", BOUNDS)
def test_the_product_passes(name):
    """The check holds, if need be with ten times the campaigns of other seeds."""
    relation, bound = BOUNDS[name]
    for more in (1, MORE):
        value = float(figures(name.split(":")[0], more)[name])
        check = Check(name=name, value=value, relation=relation, bound=bound)
        print(check)
        if check.passed:
            break
    assert check.passed, str(check)


@pytest.mark.slow
def test_no_check_is_left_out():
    """Every bound has a figure, and no figure is without a bound."""
    assert {name for subject in SUBJECTS for name in figures(subject)} == set(BOUNDS)


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
