"""The order of runs: complete, random, reproducible, and with several rounds in a start."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.campaign.design.schedule import make_schedule, mode_for
from steelyard.core.experiment import SwitchCost
from steelyard.core.schedule import CellKey, Load, Mode, PlannedBlock, Schedule

plans = st.fixed_dictionaries(
    {
        "configurations": st.integers(1, 4).map(lambda n: tuple(f"t{i}" for i in range(n))),
        "cells": st.integers(1, 5).map(lambda n: tuple(cell(i) for i in range(n))),
        "seed": st.integers(0, 2**63),
        "mode": st.sampled_from(Mode),
        "blocks": st.integers(0, 6),
    }
)


def cell(index: int) -> CellKey:
    """Return one of several cells."""
    return CellKey(workload=f"w{index % 2}", load=Load(clients=index + 1, threads=1))


def of_two(mode: Mode, *, blocks: int, cells: int = 3) -> Schedule:
    """Return a long schedule of two configurations, a and b."""
    return make_schedule(
        configurations=("a", "b"),
        cells=[cell(i) for i in range(cells)],
        seed=20261121,
        mode=mode,
        blocks=blocks,
    )


def ordered(block: PlannedBlock) -> list[tuple[str, CellKey]]:
    """Return the runs of a block in order."""
    return [(run.configuration, run.cell) for start in block.starts for run in start.runs]


@given(plans)
def test_every_block_is_complete(plan: dict) -> None:
    """Each configuration meets each cell exactly once in every block."""
    schedule = make_schedule(**plan)
    assert [block.index for block in schedule.blocks] == list(range(plan["blocks"]))
    everything = sorted((t, c) for t in plan["configurations"] for c in plan["cells"])
    for block in schedule.blocks:
        assert sorted(ordered(block)) == everything


@given(plans, st.integers(0, 6))
def test_a_longer_schedule_continues_a_shorter_one(plan: dict, more: int) -> None:
    """Block i does not depend on how many blocks are asked for, nor on when."""
    longer = make_schedule(**{**plan, "blocks": plan["blocks"] + more})
    assert longer.blocks[: plan["blocks"]] == make_schedule(**plan).blocks


@given(plans)
def test_starts_share_one_order_of_cells(plan: dict) -> None:
    """In starts mode every configuration has one start, and all starts have the block's order."""
    for block in make_schedule(**{**plan, "mode": Mode.STARTS}).blocks:
        assert sorted(start.configuration for start in block.starts) == list(plan["configurations"])
        assert len({tuple(run.cell for run in start.runs) for start in block.starts}) == 1
        assert all(
            r.configuration == start.configuration for start in block.starts for r in start.runs
        )


@given(plans)
def test_back_to_back_keeps_the_configurations_of_a_cell_together(plan: dict) -> None:
    """One start; each cell's runs are neighbours; the first run's configuration is the start's."""
    count = len(plan["configurations"])
    for block in make_schedule(**{**plan, "mode": Mode.BACK_TO_BACK}).blocks:
        (start,) = block.starts
        assert start.configuration == start.runs[0].configuration
        groups = [start.runs[i : i + count] for i in range(0, len(start.runs), count)]
        assert all(len({run.cell for run in group}) == 1 for group in groups)


def test_the_coin_of_starts_is_fair() -> None:
    """Of 2000 blocks between 45 and 55 % begin with b, and blocks do not follow one another."""
    firsts = [
        block.starts[0].configuration == "b" for block in of_two(Mode.STARTS, blocks=2000).blocks
    ]
    assert 0.45 < sum(firsts) / 2000 < 0.55
    alike = [one == other for one, other in pairwise(firsts)]
    assert 0.45 < sum(alike) / 1999 < 0.55


def test_every_cell_has_a_coin_of_its_own() -> None:
    """Back to back, each cell's coin is fair and the cells of a block agree by chance only."""
    blocks = of_two(Mode.BACK_TO_BACK, blocks=2000, cells=2).blocks
    first = [
        {run.cell: run.configuration for run in reversed(block.starts[0].runs)} for block in blocks
    ]
    for one in (cell(0), cell(1)):
        assert 0.45 < sum(sides[one] == "b" for sides in first) / 2000 < 0.55
    assert 0.45 < sum(sides[cell(0)] == sides[cell(1)] for sides in first) / 2000 < 0.55


@pytest.mark.parametrize("mode", Mode)
def test_all_orders_of_cells_occur_equally_often(mode: Mode) -> None:
    """The six orders of three cells each make up a sixth of 2400 blocks, give or take a fifth."""
    orders = Counter(
        tuple(dict.fromkeys(run.cell for run in block.starts[0].runs))
        for block in of_two(mode, blocks=2400).blocks
    )
    assert len(orders) == 6
    assert all(320 < count < 480 for count in orders.values())


def test_three_configurations_come_in_every_order() -> None:
    """With more than two configurations the coin becomes a random order."""
    schedule = make_schedule(
        configurations=("a", "b", "c"), cells=[cell(0)], seed=1, mode=Mode.STARTS, blocks=600
    )
    orders = Counter(tuple(v.configuration for v in block.starts) for block in schedule.blocks)
    assert len(orders) == 6
    assert all(60 < count < 140 for count in orders.values())


def test_other_seeds_give_other_orders() -> None:
    """Two seeds do not share their coins, and one seed always gives the same."""
    make = {"configurations": ("a", "b"), "cells": [cell(0)], "mode": Mode.STARTS, "blocks": 64}
    assert make_schedule(seed=1, **make) == make_schedule(seed=1, **make)
    assert make_schedule(seed=1, **make).blocks != make_schedule(seed=2, **make).blocks


@pytest.mark.parametrize(
    ("configurations", "cells", "seed"),
    [((), [cell(0)], 1), (("a",), [], 1), (("a",), [cell(0)], -1)],
)
def test_impossible_schedules(configurations: tuple[str, ...], cells: list, seed: int) -> None:
    """No configuration, no cell or a negative seed is refused."""
    with pytest.raises(ValueError, match=r"no block|non-negative"):
        make_schedule(
            configurations=configurations, cells=cells, seed=seed, mode=Mode.STARTS, blocks=1
        )


def test_modes() -> None:
    """What a running server can change runs back to back, the rest in starts."""
    assert [mode_for(switch) for switch in SwitchCost] == [
        Mode.BACK_TO_BACK,
        Mode.BACK_TO_BACK,
        Mode.STARTS,
        Mode.STARTS,
    ]


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
