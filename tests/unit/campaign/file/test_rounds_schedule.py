"""Several rounds in a start: complete, alike for all configurations, and nothing new for one."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.campaign.design.schedule import make_schedule
from steelyard.core.schedule import CellKey, Load, Mode, Schedule

CELLS = tuple(CellKey(workload="w", load=Load(clients=n + 1, threads=1)) for n in range(3))


def scheduled(rounds: int, mode: Mode = Mode.STARTS, seed: int = 5, blocks: int = 4) -> Schedule:
    """Return a schedule of two configurations in three cells."""
    return make_schedule(
        configurations=("a", "b"), cells=CELLS, seed=seed, mode=mode, blocks=blocks, rounds=rounds
    )


@given(st.integers(1, 6), st.sampled_from(Mode), st.integers(0, 2**32))
def test_every_round_is_complete(rounds: int, mode: Mode, seed: int) -> None:
    """Each configuration meets each cell once in every round of every block."""
    for block in scheduled(rounds, mode, seed).blocks:
        for start in block.starts:
            size = len(start.runs) // rounds
            for number in range(rounds):
                passed = start.runs[number * size : (number + 1) * size]
                assert set(Counter(passed).values()) == {1}
                assert {run.cell for run in passed} == set(CELLS)
        runs = Counter((run.configuration, run.cell) for v in block.starts for run in v.runs)
        assert runs == {(t, c): rounds for t in "ab" for c in CELLS}


@given(st.integers(2, 6), st.integers(0, 2**32))
def test_all_starts_of_a_block_have_one_order(rounds: int, seed: int) -> None:
    """Warm-up and checkpoints meet all configurations alike, in every round."""
    for block in scheduled(rounds, seed=seed).blocks:
        one, other = ([run.cell for run in start.runs] for start in block.starts)
        assert one == other


@pytest.mark.parametrize("mode", list(Mode))
def test_one_round_is_the_schedule_that_always_was(mode: Mode) -> None:
    """The first round of a longer start is that of a single one, drawn by the same coin."""
    without = make_schedule(configurations=("a", "b"), cells=CELLS, seed=5, mode=mode, blocks=4)
    assert without == scheduled(1, mode)
    for short, long in zip(without.blocks, scheduled(3, mode).blocks, strict=True):
        for start, longer in zip(short.starts, long.starts, strict=True):
            assert longer.runs[: len(start.runs)] == start.runs


def test_rounds_have_orders_of_their_own() -> None:
    """A cell is not tied to one phase of a checkpoint cycle: the orders differ."""
    orders = set()
    for block in scheduled(4, blocks=10).blocks:
        runs = block.starts[0].runs
        orders |= {tuple(run.cell for run in runs[3 * n : 3 * n + 3]) for n in range(4)}
    assert len(orders) == 6


def test_back_to_back_has_a_coin_for_each_cell_and_round() -> None:
    """Either side goes first in about half of all passes."""
    first = Counter(
        block.starts[0].runs[place].configuration
        for block in scheduled(5, Mode.BACK_TO_BACK, blocks=20).blocks
        for place in range(0, 30, 2)
    )
    assert 100 <= first["a"] <= 200


def test_no_round_is_no_block() -> None:
    """A start without runs is refused."""
    with pytest.raises(ValueError, match="0 times"):
        scheduled(0)
