"""Two levels of noise: made instances, and runs in each of them.

What is compared is a treatment on instances that are made anew each time. Further runs in one
instance cost less than another instance, and they average only the noise of runs away.
"""

import math
from dataclasses import dataclass

import numpy as np

from steelyard.stats import special
from steelyard.stats.student import FloatArray

MOST_RUNS = 8  # beyond it the gain is small and a visit gets long: METHOD's drift then counts
LEAST_INSTANCES = 6  # per side, METHOD 3.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """The parts of a balanced sample's variance, as standard deviations in its own unit.

    Attributes:
        instance_sd: Between instances, the noise of runs taken off; 0 where nothing is left.
        run_sd: Between runs of one instance.
        instance_low: Lower end of an approximate 95 % interval of ``instance_sd``.
        instance_high: Its upper end.
        instances: How many there were.
        runs: In each of them.
    """

    instance_sd: float
    run_sd: float
    instance_low: float
    instance_high: float
    instances: int
    runs: int


def variance_components(values: FloatArray) -> Components:
    """Return the parts of the variance by moments.

    Args:
        values: Shape (instances, runs), ln(1/s) or a contrast of it; balanced, at least 2 of each.

    Returns:
        Mean squares divide by instances - 1 and instances * (runs - 1); a negative part is 0. The
        interval is that of Williams and Tukey, conservative at 95 %.

    Raises:
        ValueError: Fewer than 2 instances, or fewer than 2 runs in each.

    Source:
        Williams (1962), "A confidence interval for variance components", Biometrika 49.
    """
    instances, runs = values.shape
    if instances < 2 or runs < 2:
        raise ValueError(f"no components from {instances} instances of {runs} runs")
    means = values.mean(axis=1)
    between = runs * float(means.var(ddof=1))
    within = float(((values - means[:, None]) ** 2).sum()) / (instances * (runs - 1))
    low, high = _williams(between, within, instances, runs)
    return Components(
        instance_sd=math.sqrt(max((between - within) / runs, 0.0)),
        run_sd=math.sqrt(within),
        instance_low=math.sqrt(max(low, 0.0)),
        instance_high=math.sqrt(max(high, 0.0)),
        instances=instances,
        runs=runs,
    )


def _williams(between: float, within: float, instances: int, runs: int) -> tuple[float, float]:
    """Return the ends of the interval of the variance between instances."""
    outer, inner = instances - 1, instances * (runs - 1)
    small, large = 0.025, 0.975
    squares = outer * between / runs

    def end(quantile: float) -> float:
        of_f = float(special.fdtri(outer, inner, quantile))
        share = 1.0 - of_f * within / between if between > 0 else 0.0
        return squares * share / float(special.chdtri(outer, 1.0 - quantile))

    return end(large), end(small)


def optimal_runs(
    *,
    instance_cost: float,
    run_cost: float,
    instance_sd: float,
    run_sd: float,
    most: int = MOST_RUNS,
) -> int:
    """Return how many runs to make in one instance, 1 to ``most``.

    Args:
        instance_cost: Seconds to make one and bring it to where it can be measured.
        run_cost: Seconds of one run.
        instance_sd: Between instances, of ln(1/s).
        run_sd: Between runs of one instance, likewise.
        most: Never more than this.

    Returns:
        The whole number m that gives the least variance in a given time: it minimises
        (instance_cost + m run_cost) (instance_sd^2 + run_sd^2 / m). Without the bounds and the
        rounding that is sqrt(instance_cost / run_cost) run_sd / instance_sd.

    Source:
        Kalibera and Jones (2013), "Rigorous benchmarking in reasonable time", section 6.
    """

    def variance_times_cost(runs: int) -> float:
        return (instance_cost + runs * run_cost) * (instance_sd**2 + run_sd**2 / runs)

    return min(range(1, most + 1), key=variance_times_cost)


def instances_needed(
    effect: float, *, instance_sd: float, run_sd: float, runs: int, power: float = 0.9
) -> int:
    """Return how many instances per side find an effect, one of each side in a block.

    Args:
        effect: Relative, not 0: 0.05 is 5 % more.
        instance_sd: Between instances of one side, of ln(1/s).
        run_sd: Between runs of one instance, likewise.
        runs: In each instance.
        power: Chance to find it at the 5 % level.

    Returns:
        By Student's t on the differences of the blocks, at least ``LEAST_INSTANCES``. Looks before
        the end and drift between the sides of a block are not in it.

    Raises:
        ValueError: The effect is 0: no number of instances finds it.
    """
    difference = abs(math.log1p(effect))
    if difference == 0.0:
        raise ValueError("no number of instances finds an effect of 0")
    sd = math.sqrt(2.0 * (instance_sd**2 + run_sd**2 / runs))
    needed = LEAST_INSTANCES
    while True:
        quantiles = sum(float(special.stdtrit(needed - 1, share)) for share in (0.975, power))
        if needed >= (quantiles * sd / difference) ** 2:
            return needed
        needed += 1


def pair_components(contrasts: FloatArray) -> Components | None:
    """Return the parts of one side's noise from the contrasts of a campaign's blocks.

    The drift that both sides of a block share is not in a contrast; what drifts between the two
    visits of a block counts as a part of the instances.

    Args:
        contrasts: Shape (blocks, rounds), log ratio of the two sides in each round.

    Returns:
        Of one side: both variances halved. None below 6 blocks or 2 rounds.
    """
    blocks, rounds = contrasts.shape
    if blocks < LEAST_INSTANCES or rounds < 2:
        return None
    both = variance_components(contrasts)
    half = float(np.sqrt(0.5))
    return Components(
        instance_sd=half * both.instance_sd,
        run_sd=half * both.run_sd,
        instance_low=half * both.instance_low,
        instance_high=half * both.instance_high,
        instances=blocks,
        runs=rounds,
    )
