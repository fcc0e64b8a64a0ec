"""Looks and levels of a campaign."""

import pytest

from steelyard.core.campaign import StoppingRule
from steelyard.stats.spending import (
    blocks_within,
    cell_level,
    looks_taken,
    result_level,
    stopping_rule,
)


def rule(
    results: int = 1, cells: int = 5, max_blocks: int = 30, precision: float | None = None
) -> StoppingRule:
    """Return a rule, by default that of an hour of five cells."""
    return stopping_rule(
        results=results, cells_per_result=cells, max_blocks=max_blocks, precision=precision
    )


def test_an_hour_of_five_cells() -> None:
    """The error is 4 %, the first look at 8 blocks (6 for cells), and rho is 2."""
    made = rule()
    assert (made.alpha, made.first_look, made.cell_first_look) == (0.04, 8, 6)
    assert (made.spending_power, made.max_blocks, made.precision) == (2.0, 30, None)


def test_results_share_the_error() -> None:
    """Three results have a third of the error each; none is as one."""
    assert rule(results=3).alpha == pytest.approx(0.04 / 3)
    assert rule(results=0).alpha == 0.04


def test_levels_of_the_result() -> None:
    """None before the first look; .002844 at it; .01944 at the last and at any block beyond."""
    levels = [result_level(rule(), n) for n in (0, 7, 8, 30, 31)]
    assert levels[:2] == [None, None]
    assert levels[2:] == pytest.approx([0.002844, 0.01944, 0.01944], abs=1e-5)


def test_levels_of_cells() -> None:
    """Five simultaneous cells look first at 6 blocks, with a fifth of the error each."""
    assert cell_level(rule(), 5, 5) is None
    assert cell_level(rule(), 6, 5) == pytest.approx(0.04 / 5 * (6 / 30) ** 2)


def test_a_single_cell_is_its_result() -> None:
    """With one load the cell has the result's first look and level at every look."""
    one = rule(cells=1)
    assert one.first_look == 6
    for n in (5, 6, 17, 30):
        assert result_level(one, n) == cell_level(one, n, 1)


def test_precision_takes_plain_intervals() -> None:
    """With a precision every look has the fixed level of 4.5 %, shared by results and cells."""
    precise = rule(results=2, precision=0.01)
    assert result_level(precise, 7) is None
    assert [result_level(precise, n) for n in (8, 12, 30)] == [0.0225] * 3
    assert cell_level(precise, 12, 5) == pytest.approx(0.0045)


def test_budgets_without_a_look() -> None:
    """A campaign too short for a first look never gets a level."""
    short = rule(max_blocks=5)
    assert [result_level(short, n) for n in (5, 8, 30)] == [None] * 3
    assert looks_taken(short, 5) == 0


def test_looks() -> None:
    """One look per block from the first look to the last planned block."""
    assert [looks_taken(rule(), n) for n in (7, 8, 12, 30, 33)] == [0, 1, 5, 23, 23]


def test_blocks_within_a_budget() -> None:
    """Whole blocks only, and none from a budget that is used up."""
    assert [blocks_within(budget, 120.0) for budget in (3600.0, 3599.0, -5.0)] == [30, 29, 0]
