"""The discard measured by the product leaves little warm-up, on the method's simulator."""

import numpy as np
from simulator import Simulator

from steelyard.stats.warmup import settled_after_s

RESTARTS, SECONDS, FLOOR_S = 5, 120, 20


def residual(seed):
    """Return the mean loss left to a treatment that warms up twice as slowly as the other."""
    sim = Simulator("typical", np.zeros((2, 5)), seed=seed, warm_scale=[1, 2])
    taken, tau = {0: [], 1: []}, {0: [], 1: []}
    for treatment in (0, 1):
        for _ in range(RESTARTS):
            sim.restart()
            tau[treatment].append(sim.warm_tau[0] * (1 + treatment))
            taken[treatment].append(sim.run(treatment, 2, SECONDS)[0])
    discard = max(
        FLOOR_S, *(settled_after_s(np.log(np.maximum(runs, 1.0))) for runs in taken.values())
    )
    return float(np.mean(0.3 * np.exp(-discard / np.array(tau[1]))))


def test_the_slower_treatment_is_warm_after_the_discard():
    """Median and 90th percentile of the loss left are within 1 % and 3 % (METHOD 11)."""
    left = [residual(500 + i) for i in range(100)]
    assert np.median(left) <= 0.01
    assert np.quantile(left, 0.9) <= 0.03
