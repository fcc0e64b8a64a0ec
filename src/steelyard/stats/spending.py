"""Levels of successive looks that spend one error together, and of many comparisons at once.

Looking after every block at a constant level would call identical systems different far too
often; here the error spent up to look k is alpha (n_k / N)^rho, whatever happens (Lan and DeMets,
METHOD 3.4). Which of many comparisons to call different, when each alone would be too many, is
METHOD 3.5.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np

from steelyard.core.campaign import ShortBlocks, StoppingRule
from steelyard.stats import special
from steelyard.stats.intervals import FloatArray

GRID_POINTS = 801
_BISECTIONS = 60
_FAR = 12.0  # no boundary lies beyond 12 standard deviations of the whole campaign


def spending_power(max_blocks: int) -> float:
    """Return rho: 2 up to 60 blocks, 1 beyond, where waiting would cost more than it saves."""
    return 2.0 if max_blocks <= 60 else 1.0


def spent(fraction: float, alpha: float, power: float) -> float:
    """Return the error that may be spent up to an information fraction."""
    return float(alpha * min(fraction, 1.0) ** power)


def look_levels(
    looks: Sequence[int],
    max_blocks: int,
    alpha: float,
    power: float,
    *,
    grid_points: int = GRID_POINTS,
) -> tuple[float, ...]:
    """Return the nominal two-sided level of every look.

    Args:
        looks: Block counts at which the data are looked at, rising, at least 1 each, up to
            ``max_blocks``.
        max_blocks: N; the information fraction of a look at n blocks is n / N.
        alpha: Total two-sided error, between 0 and 1.
        power: rho of alpha(t) = alpha t^rho.
        grid_points: Odd. A forecast may take fewer: with 201 the levels are right to 2 %.

    Returns:
        One level per look. The chance that any of the intervals at these levels misses is alpha
        when the looks behave like a Brownian motion.

    Raises:
        ValueError: The looks do not rise from 1 to ``max_blocks``, or alpha is no error.

    Source:
        Lan & DeMets (1983), Biometrika 70; recursion of Armitage, McPherson & Rowe (1969),
        Journal of the Royal Statistical Society A 132.
    """
    if list(looks) != sorted(set(looks)) or not 0.0 < alpha < 1.0:
        raise ValueError(f"no levels for looks {list(looks)} and alpha {alpha:g}")
    if looks and not 1 <= looks[0] <= looks[-1] <= max_blocks:
        raise ValueError(f"looks {looks[0]}..{looks[-1]} do not fit {max_blocks} blocks")
    return _plan(tuple(looks), max_blocks, alpha, power, grid_points).first(len(looks))


def look_level(
    look: int,
    *,
    first_look: int,
    max_blocks: int,
    alpha: float,
    power: float,
    is_last: bool = False,
) -> float:
    """Return the level at one look of a campaign that looks after every block.

    The levels do not depend on later looks, so only those up to ``look`` are computed, once.

    Args:
        look: Blocks seen, from ``first_look`` to ``max_blocks``.
        first_look: Blocks at the first look.
        max_blocks: As in ``look_levels``.
        alpha: As in ``look_levels``.
        power: As in ``look_levels``.
        is_last: No look comes after it, for a reason that no result has part in, as when the time
            is up: it spends all that is left (Lan & DeMets 1983, 3).

    Returns:
        The nominal two-sided level.

    Raises:
        ValueError: The look is outside its range.
    """
    if not 1 <= first_look <= look <= max_blocks:
        raise ValueError(f"no look at {look} between {first_look} and {max_blocks} blocks")
    looks = tuple(range(first_look, max_blocks + 1))
    if is_last:
        looks = looks[: look - first_look + 1]
    plan = _plan(looks, max_blocks, alpha, power, GRID_POINTS, spends_all=is_last)
    return plan.first(look - first_look + 1)[-1]


class _Plan:
    """The levels of one plan, computed as far as they were asked for."""

    def __init__(self, coming: Iterator[float]) -> None:
        self._coming = coming
        self._known: list[float] = []

    def first(self, count: int) -> tuple[float, ...]:
        while len(self._known) < count:
            self._known.append(next(self._coming))
        return tuple(self._known[:count])


@lru_cache(maxsize=256)
def _plan(
    looks: tuple[int, ...],
    max_blocks: int,
    alpha: float,
    power: float,
    grid_points: int,
    *,
    spends_all: bool = False,
) -> _Plan:
    def total(look: int) -> float:
        is_last = spends_all and look == looks[-1]
        return alpha if is_last else spent(look / max_blocks, alpha, power)

    return _Plan(_levels(looks, max_blocks, total, grid_points))


def _levels(
    looks: tuple[int, ...], max_blocks: int, total: Callable[[int], float], grid_points: int
) -> Iterator[float]:
    """Yield each look's level, carrying the density of paths that crossed no boundary yet.

    ``total`` returns the error that may be spent up to a look.
    """
    before, used = 0.0, 0.0
    grid = np.zeros(1)  # the motion starts at 0 ...
    mass = np.ones(1)  # ... with certainty
    for look in looks:
        now = look / max_blocks
        step = float(np.sqrt(now - before))
        allowed, used = total(look) - used, total(look)
        boundary = _boundary(grid, mass, step, allowed)
        yield float(2.0 * special.ndtr(-boundary / np.sqrt(now)))
        grid, mass = _carried(grid, mass, step, boundary, grid_points)
        before = now


def _boundary(grid: FloatArray, mass: FloatArray, step: float, allowed: float) -> float:
    """Return the c that a step of the surviving paths exceeds with probability ``allowed``."""
    if len(grid) == 1:
        return -float(special.ndtri(allowed / 2.0)) * step
    low, high = 0.0, _FAR
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        # The surviving paths lie symmetrically about 0, so both tails are alike.
        crossing = 2.0 * float(mass @ special.ndtr((grid - middle) / step))
        low, high = (middle, high) if crossing > allowed else (low, middle)
    return high


def _carried(
    grid: FloatArray, mass: FloatArray, step: float, boundary: float, grid_points: int
) -> tuple[FloatArray, FloatArray]:
    """Return the survivors' grid after a step, and the probability mass at its points."""
    points = np.linspace(-boundary, boundary, grid_points)
    half = points[: grid_points // 2 + 1]  # the density is symmetric about 0
    kernel = (half[:, None] - grid) / step
    np.exp(np.multiply(kernel, kernel, out=kernel) / -2.0, out=kernel)
    left = kernel @ mass / (step * np.sqrt(2.0 * np.pi))
    density = np.concatenate([left, left[-2::-1]])
    weight = np.full(grid_points, points[1] - points[0])
    weight[[0, -1]] /= 2.0  # trapezoid rule
    return points, density * weight


def discoveries(p_values: FloatArray, level_of: Callable[[int], float]) -> int:
    """Return how many of the smallest p values may be called different.

    Args:
        p_values: Shape (comparisons,), two-sided, any n.
        level_of: The level of each when so many are called, rising with their number; at a fixed
            number of blocks ``false_discovery_level``.

    Returns:
        The largest number r for which at least r p values are within ``level_of(r)``. All that are
        within it are those r. Among what is called different the expected share of mistakes is q
        at most, when the comparisons are independent or depend on one another positively.

    Source:
        Benjamini & Hochberg (1995), Journal of the Royal Statistical Society B 57: the step-up
        procedure, found from above without sorting.
    """
    called = len(p_values)
    while called:
        within = int((p_values <= level_of(called)).sum())
        if within >= called:
            return called
        called = within
    return 0


def false_discovery_level(q: float, called: int, comparisons: int) -> float:
    """Return the level of each comparison when some of them are called different.

    It is that of the test and of the interval: intervals at this level for those that were called
    different, and only for those, miss the truth in an expected share of q at most.

    Args:
        q: Expected share of mistakes among what is called, between 0 and 1.
        called: How many are, at least 1.
        comparisons: How many there are in all.

    Raises:
        ValueError: More are called than there are, or none.

    Source:
        Benjamini & Yekutieli (2005), Journal of the American Statistical Association 100.
    """
    if not 1 <= called <= comparisons:
        raise ValueError(f"{called} called of {comparisons}")
    return q * called / comparisons


def step_down_levels(p_values: FloatArray, level_of: Callable[[int], float]) -> FloatArray:
    """Return the level of each comparison where differences are called one after another.

    The smallest p value is held against the level that all comparisons share, the next one against
    that of one comparison less, and so on until one is above its level.

    Args:
        p_values: Shape (comparisons,), two-sided, any n.
        level_of: The level if so many comparisons share the error, falling with their number.

    Returns:
        Shape (comparisons,): of those called different the level of their step, which their
        interval leaves out zero at; of all others the level that all share. The chance that any
        comparison without a difference is called different is the shared error at most, however
        they depend on one another.

    Source:
        Holm (1979), "A simple sequentially rejective multiple test procedure", Scandinavian Journal
        of Statistics 6.
    """
    number = len(p_values)
    levels = np.full(number, level_of(_shared_by(number)) if number else 0.0)
    for called, place in enumerate(np.argsort(p_values, kind="stable")):
        level = level_of(_shared_by(number - called))
        if p_values[place] > level:
            break
        levels[place] = level
    return levels


_EACH_UP_TO = 12  # shares that are computed one by one


def _shared_by(number: int) -> int:
    """Return the number that share an error, rounded up if it is large.

    The levels of looks take milliseconds for each error that is spent.
    """
    if number <= _EACH_UP_TO:
        return number
    step = 1 << (number.bit_length() - 3)  # four numbers to an octave
    return -(-number // step) * step


SEQUENTIAL_ALPHA = 0.04  # printed as 95 %: the margin absorbs many looks under bursty noise
FIXED_ALPHA = 0.045  # the same for one look
FIRST_LOOK = 4  # the least blocks that a t interval is asked at
LATEST_FIRST_LOOK = 8  # also where more configurations do not fill whole squares by then
PRECISION_FROM = 12
SIMULTANEOUS_UP_TO = 10  # cells of a result; beyond, the false discovery rate is what is kept


def first_look_of(configurations: int, *, least: int = FIRST_LOOK) -> int:
    """Return the blocks of the first look: whole Latin squares of slots, at least ``least`` blocks.

    Then each configuration stood in each slot equally often, and a constant difference of slots
    decides nothing. With the default it is 4 with two configurations or four, 6 with three.
    """
    squares = math.ceil(least / configurations)
    return min(squares * configurations, LATEST_FIRST_LOOK)


def stopping_rule(
    *,
    results: int,
    first_look: int,
    max_blocks: int,
    precision: float | None,
    blocks: int | None = None,
    ends_from: int = 0,
) -> StoppingRule:
    """Return the rule that a campaign freezes and a resumed campaign keeps.

    Args:
        results: Pooled comparisons (workloads times contenders, or times factors) that share
            the error, by Bonferroni; 0 counts as 1.
        first_look: Blocks at the first look of results and of cells.
        max_blocks: What the budget allows, at least 0.
        precision: Half-width asked for, relative; None stops at verdicts.
        blocks: So many are taken and looked at once, after the last; None: as many as it takes.
        ends_from: Blocks from which on verdicts end it.
    """
    total = SEQUENTIAL_ALPHA if precision is None and blocks is None else FIXED_ALPHA
    shared_by = max(results, 1)
    if blocks is not None:
        return StoppingRule(
            max_blocks=blocks,
            alpha=total / shared_by,
            results=shared_by,
            first_look=blocks,
            cell_first_look=blocks,
            spending_power=spending_power(blocks),
            is_fixed=True,
        )
    return StoppingRule(
        max_blocks=max_blocks,
        alpha=total / shared_by,
        results=shared_by,
        first_look=first_look,
        cell_first_look=first_look,
        spending_power=spending_power(max_blocks),
        precision=precision,
        ends_from=ends_from,
    )


def blocks_within(budget_s: float, block_s: float, short: Sequence[ShortBlocks] = ()) -> int:
    """Return how many blocks of ``block_s`` seconds, after the short ones, fit into the budget."""
    number = 0
    for seconds in (part.block_s for part in short for _ in range(part.blocks)):
        if seconds > budget_s:
            return number
        number, budget_s = number + 1, budget_s - seconds
    return number + max(math.floor(budget_s / block_s), 0)


def result_level(rule: StoppingRule, blocks: int, *, is_last: bool = False) -> float | None:
    """Return the two-sided level of a result's interval; None before the first look.

    Args:
        rule: Of the campaign.
        blocks: Seen so far.
        is_last: The time is up, so that no look comes after this one.
    """
    return _level(rule, blocks, first_look=rule.first_look, alpha=rule.alpha, is_last=is_last)


def cell_level(
    rule: StoppingRule, blocks: int, cells: int, called: int = 1, *, is_last: bool = False
) -> float | None:
    """Return the level of each cell's interval; None before the first look.

    Args:
        rule: Of the campaign.
        blocks: Seen so far.
        cells: Of the result.
        called: How many of them are called different: 1 gives simultaneous intervals, more gives
            those of the false discovery rate.
        is_last: As of ``result_level``.
    """
    alpha = false_discovery_level(rule.alpha, called, cells)
    return _level(rule, blocks, first_look=rule.cell_first_look, alpha=alpha, is_last=is_last)


def has_many_cells(cells: int) -> bool:
    """Return whether a result has too many cells for simultaneous intervals (METHOD 3.5)."""
    return cells > SIMULTANEOUS_UP_TO


def looks_taken(rule: StoppingRule, blocks: int) -> int:
    """Return how often the results have been looked at."""
    return max(min(blocks, rule.max_blocks) - rule.first_look + 1, 0)


def _level(
    rule: StoppingRule, blocks: int, *, first_look: int, alpha: float, is_last: bool
) -> float | None:
    look = min(blocks, rule.max_blocks)  # blocks beyond the plan have nothing left to spend
    if look < first_look:
        return None
    if rule.precision is not None:
        return alpha
    return look_level(
        look,
        first_look=first_look,
        max_blocks=rule.max_blocks,
        alpha=alpha,
        power=rule.spending_power,
        is_last=is_last,
    )
