"""Instances and runs in them: the parts of the noise, and what they cost."""

import math

import numpy as np
import pytest
from chance import highest_rate, lowest_rate

from steelyard.stats.noise import (
    LEAST_INSTANCES,
    instances_needed,
    optimal_runs,
    pair_components,
    variance_components,
)


def sample(instance_sd: float, run_sd: float, shape: tuple[int, int], seed: int) -> np.ndarray:
    """Return a balanced sample of known parts."""
    rng = np.random.default_rng(seed)
    levels = instance_sd * rng.standard_normal((shape[0], 1))
    return np.asarray(levels + run_sd * rng.standard_normal(shape))


def test_the_parts_by_hand() -> None:
    """Two instances of two runs: mean squares 8 and 1 give 3.5 and 1."""
    parts = variance_components(np.array([[0.0, math.sqrt(2)], [math.sqrt(8), math.sqrt(18)]]))
    within = 1.0
    between = 2 * ((math.sqrt(2) / 2 - 5 * math.sqrt(2) / 2) ** 2 / 2)
    assert parts.run_sd == pytest.approx(math.sqrt(within))
    assert parts.instance_sd == pytest.approx(math.sqrt((between - within) / 2))
    assert (parts.instances, parts.runs) == (2, 2)


def test_the_estimates_are_unbiased_in_the_mean() -> None:
    """Over many samples the variances average to the true ones, within three standard errors."""
    found = [variance_components(sample(0.02, 0.04, (10, 4), seed)) for seed in range(1000)]
    runs = np.array([parts.run_sd**2 for parts in found])
    assert abs(runs.mean() - 0.04**2) <= 3 * runs.std() / np.sqrt(len(runs))
    # Negative estimates are cut off at 0, so the mean may lie above, and not below.
    made = np.array([parts.instance_sd**2 for parts in found])
    assert 0.02**2 - 3 * made.std() / np.sqrt(len(made)) <= made.mean() <= 1.3 * 0.02**2


@pytest.mark.parametrize(("instance_sd", "run_sd"), [(0.02, 0.04), (0.04, 0.02), (0.01, 0.03)])
def test_the_interval_holds_the_deviation_between_instances(
    instance_sd: float, run_sd: float
) -> None:
    """It covers at least 95 % within chance, and is not so wide that it always does."""
    trials = 1500
    found = [variance_components(sample(instance_sd, run_sd, (12, 3), s)) for s in range(trials)]
    covered = np.mean([p.instance_low <= instance_sd <= p.instance_high for p in found])
    assert covered >= lowest_rate(0.95, trials)
    assert covered <= highest_rate(0.98, trials)


def test_equal_instances_have_no_deviation_to_speak_of() -> None:
    """Runs alone: the lower end is 0 in at least 95 % of samples within chance."""
    found = [variance_components(sample(0.0, 0.03, (8, 3), seed)) for seed in range(1000)]
    assert np.mean([p.instance_low == 0.0 for p in found]) >= lowest_rate(0.95, 1000)


def test_values_that_do_not_vary() -> None:
    """No variance at all is 0 with an interval of no width, and no warning."""
    parts = variance_components(np.ones((6, 2)))
    assert (parts.instance_sd, parts.run_sd) == (0.0, 0.0)
    assert (parts.instance_low, parts.instance_high) == (0.0, 0.0)


@pytest.mark.parametrize("shape", [(1, 5), (5, 1)])
def test_one_of_a_kind_has_no_parts(shape: tuple[int, int]) -> None:
    """Neither one instance nor one run in each tells two levels apart."""
    with pytest.raises(ValueError, match="no components"):
        variance_components(np.zeros(shape))


def test_the_contrast_of_a_pair_has_both_sides_in_it() -> None:
    """Halved variances: the parts of one side, whatever drift the two share."""
    rng = np.random.default_rng(5)
    shared = rng.standard_normal((4000, 1))
    sides = [shared + sample(0.02, 0.04, (4000, 3), seed) for seed in (6, 7)]
    parts = pair_components(sides[1] - sides[0])
    assert parts is not None
    assert parts.instance_sd == pytest.approx(0.02, rel=0.05)
    assert parts.run_sd == pytest.approx(0.04, rel=0.05)
    assert pair_components(np.zeros((LEAST_INSTANCES - 1, 3))) is None
    assert pair_components(np.zeros((LEAST_INSTANCES, 1))) is None


@pytest.mark.parametrize(
    ("instance_cost", "instance_sd", "best"),
    [(28.0, 0.02, 4), (7.0, 0.02, 2), (112.0, 0.02, 8), (28.0, 0.08, 1), (28.0, 0.0, 8)],
)
def test_the_best_number_of_runs(instance_cost: float, instance_sd: float, best: int) -> None:
    """sqrt(costs) times ratio of deviations where that is whole, and within 1 and 8."""
    run_cost, run_sd = 7.0, 0.04
    assert (
        optimal_runs(
            instance_cost=instance_cost, run_cost=run_cost, instance_sd=instance_sd, run_sd=run_sd
        )
        == best
    )


def test_no_other_number_of_runs_is_better() -> None:
    """In a given time the chosen one has the least variance, for random costs and deviations."""
    rng = np.random.default_rng(2)
    for _ in range(200):
        make, run, of_made, of_runs = rng.uniform(0.01, 1.0, 4)
        best = optimal_runs(
            instance_cost=make, run_cost=run, instance_sd=of_made, run_sd=of_runs, most=30
        )
        worth = [(make + m * run) * (of_made**2 + of_runs**2 / m) for m in range(1, 31)]
        assert worth[best - 1] == min(worth)


def test_the_number_of_instances_has_the_power_it_promises() -> None:
    """Student's test on so many pairs finds the effect in 90 % of samples within chance."""
    needed = instances_needed(0.05, instance_sd=0.02, run_sd=0.04, runs=2)
    sd, trials = math.sqrt(2 * (0.02**2 + 0.04**2 / 2)), 4000
    drawn = math.log1p(0.05) + sd * np.random.default_rng(3).standard_normal((trials, needed))
    errors = drawn.std(axis=1, ddof=1) / math.sqrt(needed)
    from scipy.stats import t  # noqa: PLC0415 - only here

    found = np.mean(drawn.mean(axis=1) > t.ppf(0.975, needed - 1) * errors)
    assert lowest_rate(0.88, trials) <= found <= 0.96


def test_more_noise_or_a_smaller_effect_needs_more_instances() -> None:
    """Never fewer than six, and a slowdown counts like a gain."""

    def needed(effect: float, instance_sd: float = 0.02) -> int:
        return instances_needed(effect, instance_sd=instance_sd, run_sd=0.04, runs=4)

    assert needed(0.5) == LEAST_INSTANCES
    assert needed(0.10) < needed(0.05) < needed(0.03)
    assert needed(0.05) < needed(0.05, instance_sd=0.04)
    assert abs(needed(-0.05) - needed(0.05)) <= 1
    with pytest.raises(ValueError, match="effect of 0"):
        needed(0.0)
