"""What the method asks of the parts beside the comparison: figures from simulated campaigns.

Each function takes a number of campaigns and a seed and returns figures by the name of the check;
``BOUNDS`` holds what METHOD 11 allows. The product's own functions are measured, nothing else.
"""

import numpy as np
from acceptance import Check
from simulator import Simulator
from simulator import true_rate

from steelyard.campaign.run.beside_blocks import choose_warm_up
from steelyard.core.experiment import Calibration
from steelyard.core.measurement import Measurement
from steelyard.core.measurement import Second
from steelyard.stats.capacity import scan_for_cliff

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


def checks(figures):
    """Return the checks of some figures."""
    return {
        name: Check(name=name, value=float(value), relation=BOUNDS[name][0], bound=BOUNDS[name][1])
        for name, value in figures.items()
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
    calibration = Calibration(restarts=RESTARTS, run_s=float(CALIBRATION_S))
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
