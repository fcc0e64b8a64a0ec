"""How much one block's contrast will vary, from the parts of the noise, before any block is taken.

It answers what a design costs: METHOD 4.1. Nothing here is needed for a verdict.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from steelyard.model.noise import WorkloadNoise
from steelyard.model.schedule import Mode
from steelyard.stats.pooling import TRIMMED_FROM

PAIR = (-1.0, 1.0)  # a treatment against the baseline
# Stalls, neighbours and checkpoints are in no part of the noise. Without this factor half-widths
# on the method's simulator are 8 to 11 % wider than the parts say (calm), 17 to 21 % (typical), 24
# to 43 % (hostile). 1.1 was chosen for the minutes: tests/method/test_planning.py has the bounds.
UNNAMED_NOISE = 1.1
# Variance of a mean without its extremes over that of a plain mean, normal values: 1.19 for 4,
# 1.13 for 5, 1.06 for 10; this fits within 2 % (a test draws it).
_TRIMMING_LOSS = 0.6
_S_PER_H = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockShape:
    """What of a block's design matters for its contrasts.

    Attributes:
        mode: In visits each treatment has a restart of its own; back to back all share one.
        treatments: In a block, at least 2.
        cells: Pooled in one headline, at least 1.
        slice_s: Measured length of a run.
        step_s: From one treatment's run in a cell to the next treatment's in the same cell.
    """

    mode: Mode
    treatments: int
    cells: int
    slice_s: float
    step_s: float


def optimal_slice_s(noise: WorkloadNoise, *, overhead_s: float) -> float:
    """Return the length of a run that buys the narrowest interval per minute, in seconds.

    Args:
        noise: Set ``visit_sd`` to 0 where the treatments share a visit: there it cancels.
        overhead_s: Not measured, per run: its share of restart and discard, and its ramp; > 0.

    Returns:
        sqrt(overhead x s1^2 (1 + r) / (1 - r) / (visit^2 + slice^2)); infinite where runs do not
        differ but by their seconds. Drift is not in it and makes the best slice shorter.

    Source:
        METHOD 3.1; Kalibera & Jones (2013), "Rigorous benchmarking in reasonable time".
    """
    rho = noise.autocorrelation
    per_second = noise.second_sd**2 * (1.0 + rho) / (1.0 - rho)
    between = noise.visit_sd**2 + noise.slice_sd**2
    return math.sqrt(overhead_s * per_second / between) if between else math.inf


def seconds_variance(noise: WorkloadNoise, slice_s: float) -> float:
    """Return the variance of the mean of a slice's seconds, whose neighbours are alike.

    Source:
        Variance of the mean of a first-order autoregression of n values, exact for whole n.
    """
    n, rho = max(slice_s, 1.0), noise.autocorrelation
    alike = (1.0 + rho) / (1.0 - rho) - 2.0 * rho * (1.0 - rho**n) / (n * (1.0 - rho) ** 2)
    return float(noise.second_sd**2 / n * alike)


def contrast_sd(
    noise: WorkloadNoise,
    shape: BlockShape,
    *,
    pooled: bool,
    weights: Sequence[float] = PAIR,
) -> float:
    """Return the standard deviation of one block's contrast, on the log scale.

    Args:
        noise: Of the workload.
        shape: Of the blocks.
        pooled: Over all cells of the shape, or in one of them.
        weights: Of the treatments' logs in the contrast, which sum to 0: (-1, 1) for a pair,
            plus and minus 1 / 2^(k-1) for a main effect among 2^k combinations. Only their
            squares matter, because the order in a block is drawn by coin.

    Raises:
        ValueError: The weights do not sum to zero.
    """
    if abs(sum(weights)) > 1e-9:
        raise ValueError(f"weights {list(weights)} do not sum to 0: drift would not cancel")
    of_run = noise.slice_sd**2 + seconds_variance(noise, shape.slice_s)
    moving = _moved(noise, shape)
    share = _cells_averaged(shape.cells) if pooled else 1.0
    if shape.mode is Mode.VISITS:
        # All cells of a visit share its restart and its place in time.
        each = noise.visit_sd**2 + moving + of_run / share
    else:
        each = (moving + of_run) / share
    return UNNAMED_NOISE * math.sqrt(sum(w * w for w in weights) * each)


def relative_cost(noise: WorkloadNoise, shape: BlockShape, block_s: float) -> float:
    """Return what is proportional to the minutes that a headline takes in this design."""
    return contrast_sd(noise, shape, pooled=True) ** 2 * block_s


def within_visits(noise: WorkloadNoise, mode: Mode) -> WorkloadNoise:
    """Return the noise that a contrast meets: back to back what a restart changes cancels."""
    return noise if mode is Mode.VISITS else replace(noise, visit_sd=0.0)


def _moved(noise: WorkloadNoise, shape: BlockShape) -> float:
    """Return what drift and trend add to a run, treatments in random order ``step_s`` apart.

    It is the mean over all orders of variance minus covariance: of a random walk at 1 .. k steps
    (k + 1) / 6 of a step's variance, of a line k (k + 1) / 12 squared steps.
    """
    k, hours = shape.treatments, shape.step_s / _S_PER_H
    walk = noise.drift_sd**2 * hours * (k + 1) / 6.0
    line = ((noise.trend_per_h or 0.0) * hours) ** 2 * k * (k + 1) / 12.0
    return walk + line


def _cells_averaged(cells: int) -> float:
    """Return as how many cells of a plain mean the pooled contrast counts."""
    return float(cells) if cells < TRIMMED_FROM else cells * (1.0 - _TRIMMING_LOSS / cells)
