"""Instances that are made for each start: false alarms, coverage, and what one pair would say."""

import os

import numpy as np
import pytest
from provisioned import MadeInstances, OnePair, called_different
from acceptance import false_positive_bound
from sequential import block_seconds, contrasts_of, judged
from simulator import log_effects

from steelyard.stats.noise import instances_needed

FULL = os.environ.get("STEELYARD_FULL_METHOD") == "1"
CAMPAIGNS = 1000 if FULL else 300
MORE = 10
BLOCKS = 20
LOADS = {1: (25,), 5: (1, 10, 25, 50, 100)}


def made(instance_sd, provision_s, campaigns, loads=1, rounds=2, blocks=BLOCKS, seed=1):
    """Return the contrasts of campaigns whose instances are made for each start."""
    simulator = MadeInstances(
        "typical",
        log_effects([0.0, 0.0], loads),
        seed=seed,
        lanes=campaigns,
        clients=LOADS[loads],
        instance_sd=instance_sd,
        provision_s=provision_s,
    )
    return contrasts_of(simulator, blocks=blocks, rounds=rounds, seed=1000 * seed)


def rates(campaigns, seed, **how):
    """Return the share called different and the share covered, without any effect."""
    found = judged(made(campaigns=campaigns, seed=seed, **how), 0.0)
    return found.called.mean(), found.covered.mean()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("instance_sd", "provision_s", "loads", "rounds"),
    [(0.01, 30.0, 1, 8), (0.02, 120.0, 1, 2), (0.04, 600.0, 1, 1), (0.02, 30.0, 5, 1)],
)
def test_equal_configurations_on_made_instances(instance_sd, provision_s, loads, rounds):
    """At most 5 % are called different within chance, and 93 % of the intervals hold the truth.

    A rate that fails is taken once more from ten times the campaigns, and then it counts.
    """
    how = {
        "instance_sd": instance_sd,
        "provision_s": provision_s,
        "loads": loads,
        "rounds": rounds,
    }
    false, covered = rates(CAMPAIGNS, 1, **how)
    bound = false_positive_bound(CAMPAIGNS)
    if false > bound or covered < 0.93:
        false, covered = rates(MORE * CAMPAIGNS, 2, **how)
        bound = false_positive_bound(MORE * CAMPAIGNS)
    assert false <= bound
    assert covered >= 0.93


@pytest.mark.slow
def test_the_stop_covers_a_real_effect():
    """With 5 % and 2 % between instances the interval at the stop holds it in 93 % of campaigns."""
    found = judged(made(0.02, 120.0, CAMPAIGNS, rounds=2) + np.log(1.05), 0.05)
    assert found.covered.mean() >= 0.93
    assert found.share("slower") == 0.0


@pytest.mark.slow
@pytest.mark.parametrize(("instance_sd", "rounds"), [(0.02, 4), (0.04, 2)])
def test_the_formula_is_a_lower_bound(instance_sd, rounds):
    """Three times the instances of the formula find 5 % in 90 %, half of them in fewer.

    Drift, neighbours, stalls and many looks are not in the formula; they are in the simulator.
    """
    needed = instances_needed(
        0.05,
        instance_sd=float(np.hypot(instance_sd, 0.014)),
        run_sd=0.042,
        runs=rounds,
    )
    contrasts = made(instance_sd, 30.0, 200, rounds=rounds, blocks=3 * needed) + np.log(1.05)
    found = judged(contrasts, 0.05).share("faster")
    assert found >= 0.9
    fewer = judged(contrasts, 0.05, max_blocks=max(needed // 2, 6))
    assert fewer.share("faster") < found


@pytest.mark.slow
def test_a_pair_that_is_never_remade_is_called_different_most_of_the_time():
    """Two equal servers, 60 minutes, 1.4 % between instances: METHOD 3.8's reason to refuse."""
    simulator = OnePair("typical", log_effects([0.0, 0.0]), seed=3, lanes=100, instance_sd=0.014)
    contrasts = contrasts_of(simulator, blocks=int(3600 // block_seconds(simulator)), seed=0)
    assert 0.5 <= called_different(contrasts) <= 0.85  # of 100; 0.65 within 3 Monte Carlo sd
    # With looks some end as equivalent before: no better, for they are not of the configurations.
    assert 0.4 <= judged(contrasts, 0.0).called.mean() <= 0.85
