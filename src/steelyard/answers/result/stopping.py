"""The looks and levels of a campaign, fixed before its first block (METHOD 3.4 and 3.5)."""

import math

from steelyard.core.plan import StoppingRule
from steelyard.stats.spending import false_discovery_level, look_level, spending_power

SEQUENTIAL_ALPHA = 0.04  # printed as 95 %: the margin absorbs many looks under bursty noise
FIXED_ALPHA = 0.045  # the same for one look
FIRST_LOOK_POOLED = 8
FIRST_LOOK_CELL = 6
PRECISION_FROM = 12
SIMULTANEOUS_UP_TO = 10  # cells of a result; beyond, the false discovery rate is what is kept


def stopping_rule(
    *, results: int, cells_per_result: int, max_blocks: int, precision: float | None
) -> StoppingRule:
    """Return the rule that a campaign freezes and a resumed campaign keeps.

    Args:
        results: Pooled comparisons (workloads times contenders, or times factors) that share
            the error, by Bonferroni; 0 counts as 1.
        cells_per_result: Loads pooled in one; a single cell needs no centring and can be
            looked at earlier.
        max_blocks: What the budget allows, at least 0.
        precision: Half-width asked for, relative; None stops at verdicts.
    """
    total = SEQUENTIAL_ALPHA if precision is None else FIXED_ALPHA
    shared_by = max(results, 1)
    return StoppingRule(
        max_blocks=max_blocks,
        alpha=total / shared_by,
        results=shared_by,
        first_look=FIRST_LOOK_POOLED if cells_per_result > 1 else FIRST_LOOK_CELL,
        cell_first_look=FIRST_LOOK_CELL,
        spending_power=spending_power(max_blocks),
        precision=precision,
    )


def blocks_within(budget_s: float, block_s: float) -> int:
    """Return how many whole blocks of ``block_s`` seconds fit into the budget."""
    return max(math.floor(budget_s / block_s), 0)


def result_level(rule: StoppingRule, blocks: int) -> float | None:
    """Return the two-sided level of a result's interval; None before the first look."""
    return _level(rule, blocks, first_look=rule.first_look, alpha=rule.alpha)


def cell_level(rule: StoppingRule, blocks: int, cells: int, called: int = 1) -> float | None:
    """Return the level of each cell's interval; None before the first look.

    Args:
        rule: Of the campaign.
        blocks: Seen so far.
        cells: Of the result.
        called: How many of them are called different: 1 gives simultaneous intervals, more gives
            those of the false discovery rate.
    """
    alpha = false_discovery_level(rule.alpha, called, cells)
    return _level(rule, blocks, first_look=rule.cell_first_look, alpha=alpha)


def has_many_cells(cells: int) -> bool:
    """Return whether a result has too many cells for simultaneous intervals (METHOD 3.5)."""
    return cells > SIMULTANEOUS_UP_TO


def looks_taken(rule: StoppingRule, blocks: int) -> int:
    """Return how often the results have been looked at."""
    return max(min(blocks, rule.max_blocks) - rule.first_look + 1, 0)


def _level(rule: StoppingRule, blocks: int, *, first_look: int, alpha: float) -> float | None:
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
    )
