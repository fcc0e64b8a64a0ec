"""One value per block, treatment and cell, from what its runs have; NaN where a run lacks it.

Everything a report says of evidence is made of such values: levels of one treatment, and
differences within blocks. Intervals here stand alone (pointwise) and take part in no verdict.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from steelyard.analysis.contrasts import HeadlineContrast
from steelyard.analysis.observations import Observations
from steelyard.analysis.stopping import FIXED_ALPHA
from steelyard.model.evidence import Evidence
from steelyard.model.measurement import Run
from steelyard.model.verdicts import Estimate
from steelyard.stats.confidence import FloatArray, Interval
from steelyard.stats.interval import block_interval
from steelyard.stats.median import median_interval, plain_median_interval
from steelyard.stats.signed_rank import signed_rank_interval

RunsOfBlock = Sequence[Run]  # of one treatment and cell: one per round


def whole_transactions(run: Run, ramp_s: float) -> float | None:
    """Return all transactions of a run, ramp and tail included, as totals of evidence do.

    Progress intervals give those of the ramp; it is cut by count, as the generator's parser does.
    None without a measurement, without a transaction, or where the ramp's intervals are lacking.
    """
    measured, intervals = run.measurement, round(ramp_s)
    if measured is not None and run.turns:
        return measured.uncounted + measured.transactions or None
    if measured is None or len(measured.series) < intervals:
        return None
    ramp = sum(second.transactions for second in measured.series[:intervals])
    return ramp + measured.transactions + measured.tail_transactions or None


def by_block(seen: Observations, value: Callable[[RunsOfBlock], float | None]) -> FloatArray:
    """Return a value of each block, shape (blocks, treatments, cells), NaN where it is None."""
    values = np.full((seen.blocks, len(seen.treatments), len(seen.cells)), np.nan)
    for side, treatment in enumerate(seen.treatments):
        for column, cell in enumerate(seen.cells):
            runs = runs_by_block(seen.runs.get((treatment, cell), ()))
            for row, of_block in enumerate(runs[: seen.blocks]):
                found = value(of_block)
                values[row, side, column] = np.nan if found is None else found
    return values


def runs_by_block(runs: Sequence[Run]) -> list[RunsOfBlock]:
    """Return the runs of each block, in block order."""
    blocks: dict[int, list[Run]] = defaultdict(list)
    for run in runs:
        blocks[run.block].append(run)
    return [blocks[index] for index in sorted(blocks)]


def median_over(
    evidence: Sequence[Evidence], value: Callable[[Evidence], float | None]
) -> float | None:
    """Return the median of a value over the runs in which it is known, in its unit, or None."""
    found = [value(each) for each in evidence]
    known = [each for each in found if each is not None]
    return float(np.median(known)) if known else None


def sum_of(values: Sequence[float | None]) -> float | None:
    """Return the sum, or None where one is missing or there is none."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def side_means(values: FloatArray, asked: HeadlineContrast) -> tuple[FloatArray, FloatArray]:
    """Return the negative and the positive side of a contrast, from shape (blocks, treatments)."""
    weights = np.abs(np.asarray(asked.weights))
    negative, positive = list(asked.negative), list(asked.positive)
    return values[:, negative] @ weights[negative], values[:, positive] @ weights[positive]


def level(values: FloatArray) -> Estimate | None:
    """Return the median over blocks with its signed-rank interval; None without a value.

    Args:
        values: Shape (blocks,); NaN is left out.
    """
    known = values[np.isfinite(values)]
    if not len(known):
        return None
    positive = bool((known > 0.0).all())
    return estimate_of(median_interval(known) if positive else plain_median_interval(known))


def change(differences: FloatArray) -> Estimate:
    """Return the Hodges-Lehmann centre with its interval at the level of one look.

    Args:
        differences: Shape (blocks,), finite, at least one.
    """
    return estimate_of(signed_rank_interval(differences, FIXED_ALPHA))


def is_clear(differences: FloatArray, family: int) -> bool:
    """Return whether the interval leaves out 0 also at a level shared by a whole family.

    A reason is named only then: of many that are looked at, some would else be named by chance.

    Args:
        differences: Shape (blocks,), finite.
        family: How many are looked at together, at least 1.
    """
    if not change(differences).leaves_out_zero:
        return False
    shared = block_interval(differences, FIXED_ALPHA / family)
    return shared.low > 0.0 or shared.high < 0.0


def estimate_of(interval: Interval) -> Estimate:
    """Return the centre with its bounds, or without them where one of the two is none."""
    if not interval.bounded:
        return Estimate(value=interval.estimate)
    return Estimate(value=interval.estimate, low=interval.low, high=interval.high)
