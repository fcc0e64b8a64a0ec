"""More than ten cells: what is called different, and at which level each interval stands."""

import numpy as np
import pytest

from steelyard.answers.result.compute import Pair, Terms, compare
from steelyard.core.findings import Verdict
from steelyard.core.schedule import Load
from steelyard.stats.intervals import block_p_value
from steelyard.stats.spending import cell_level, has_many_cells, stopping_rule

PAIR = Pair(baseline="a", configuration="b", workload="reads")
BLOCKS = 20


def loads(cells: int) -> tuple[Load, ...]:
    """Return so many loads."""
    return tuple(Load(clients=place + 1, threads=1) for place in range(cells))


def terms(cells: int) -> Terms:
    """Return what so many cells are judged by."""
    rule = stopping_rule(results=1, cells_per_result=cells, max_blocks=30, precision=None)
    return Terms(rule=rule, margin=0.01, decide=0.03, block_s=60.0)


def contrasts(cells: int, faster: int, effect: float = 0.03) -> np.ndarray:
    """Return block contrasts of which the first cells have an effect."""
    taken = 0.02 * np.random.default_rng(1).standard_normal((BLOCKS, cells))
    taken[:, :faster] += effect
    return taken


def test_eleven_are_many() -> None:
    """Ten cells are the last that hold together."""
    assert [has_many_cells(cells) for cells in (10, 11)] == [False, True]


def test_those_called_stand_at_their_own_level() -> None:
    """Of 20 cells those called have the level of their number, the others that of one."""
    cells = compare(contrasts(20, 12), PAIR, loads(20), terms(20))[1:]
    called = [cell for cell in cells if cell.verdict is Verdict.FASTER]
    assert {cell.load.clients for cell in called} <= set(range(1, 13))
    assert len(called) > 8
    rule = terms(20).rule
    assert {cell.level for cell in called} == {cell_level(rule, BLOCKS, 20, len(called))}
    others = {cell.level for cell in cells if cell not in called}
    assert others == {cell_level(rule, BLOCKS, 20)}
    assert max(others) < called[0].level


def test_more_is_found_than_simultaneously() -> None:
    """The rule calls cells that simultaneous intervals would leave open, and none less."""
    taken = contrasts(20, 12, effect=0.018)
    level = cell_level(terms(20).rule, BLOCKS, 20)
    alone = [block_p_value(column) <= level for column in taken.T]
    cells = compare(taken, PAIR, loads(20), terms(20))[1:]
    called = [cell.verdict is Verdict.FASTER for cell in cells]
    assert all(now for now, before in zip(called, alone, strict=True) if before)
    assert sum(called) > sum(alone) > 0


def test_no_cell_is_equivalent_at_a_generous_level() -> None:
    """Cells that are not called keep the simultaneous interval, and their word follows from it."""
    taken = contrasts(20, 12)
    for cell in compare(taken, PAIR, loads(20), terms(20))[1:]:
        if cell.verdict is Verdict.EQUIVALENT:
            assert cell.level == cell_level(terms(20).rule, BLOCKS, 20)
            assert -0.01 < cell.effect.low <= cell.effect.high < 0.01
        elif cell.verdict is Verdict.NO_CLEAR_DIFFERENCE:
            assert cell.effect.low <= 0.0 <= cell.effect.high


def test_depends_on_load_rests_on_simultaneous_intervals() -> None:
    """Cells that differ clearly are said to; cells that only chance made differ are not."""
    assert compare(contrasts(20, 12, 0.2), PAIR, loads(20), terms(20))[0].depends_on_load
    assert not compare(contrasts(20, 0), PAIR, loads(20), terms(20))[0].depends_on_load


def test_before_the_first_look_nothing_is_called() -> None:
    """Five blocks have no level, many cells or few."""
    cells = compare(contrasts(20, 12)[:5], PAIR, loads(20), terms(20))[1:]
    assert all(cell.level is None for cell in cells)
    assert all(cell.verdict is Verdict.NO_CLEAR_DIFFERENCE for cell in cells)


@pytest.mark.parametrize("cells", [1, 4, 10])
def test_few_cells_hold_together_as_before(cells: int) -> None:
    """Up to ten cells nothing changed: each is at the same Bonferroni level, called or not."""
    found = compare(contrasts(cells, cells), PAIR, loads(cells), terms(cells))[1:]
    assert {cell.level for cell in found} == {cell_level(terms(cells).rule, BLOCKS, cells)}
