"""The order of runs: complete, random, reproducible; of starts, of rounds, and of turns."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from math import sqrt

import pytest
from experiment_texts import SMALL, load
from hypothesis import given
from hypothesis import strategies as st

from fakes.campaigns import an_experiment
from steelyard.campaign.design.schedule import block_coin, make_schedule, mode_for, schedule_of
from steelyard.core.experiment import Experiment, SwitchCost
from steelyard.core.schedule import CellKey, Load, Mode, PlannedBlock, Schedule, sub_block_sizes

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


WORKLOADS = ("writes", "reads", "more writes", "more reads")
READING = ("reads", "more reads")

experiments = st.builds(
    lambda seed, loads: replace(an_experiment(workloads=WORKLOADS, loads=loads), seed=seed),
    seed=st.integers(0, 2**31 - 1),
    loads=st.integers(1, 3),
)


def drawn(experiment: Experiment, blocks: int, mode: Mode = Mode.ALTERNATING) -> Schedule:
    """Return the schedule of so many blocks."""
    return schedule_of(experiment, mode=mode, blocks=blocks, reading=READING)


def cells(block: PlannedBlock, start: int = 0) -> list[CellKey]:
    """Return the cells of a start, in order."""
    return [run.cell for run in block.starts[start].runs]


def reads(cell: CellKey) -> bool:
    """Return whether it is one of those that only read."""
    return cell.workload in READING


@given(experiments)
def test_each_configuration_has_its_slot_and_all_the_same_cells(experiment: Experiment) -> None:
    """A start is a slot: whoever is first is in the first; the load goes through one order."""
    for block in drawn(experiment, 4).blocks:
        assert {start.configuration for start in block.starts} == {"slow", "fast"}
        assert len(block.starts) == 2
        assert cells(block, 0) == cells(block, 1)
        assert all(
            run.configuration == start.configuration for start in block.starts for run in start.runs
        )


@given(st.integers(1, 9), st.integers(2, 6), st.integers(0, 2**31 - 1))
def test_sub_blocks_hold_each_configuration_once_and_the_baseline_in_each(
    others: int, at_once: int, seed: int
) -> None:
    """No more than fit are up, as evenly as can be; a longer campaign continues a shorter one."""
    experiment = replace(an_experiment(workloads=WORKLOADS), seed=seed)
    slow, fast = experiment.configurations
    names = [f"c{number}" for number in range(others)]
    experiment = replace(
        experiment, configurations=(slow, *(replace(fast, name=name) for name in names))
    )
    asked = schedule_of(
        experiment, mode=Mode.ALTERNATING, blocks=3, reading=READING, at_once=at_once
    )
    longer = schedule_of(
        experiment, mode=Mode.ALTERNATING, blocks=5, reading=READING, at_once=at_once
    )
    assert longer.blocks[:3] == asked.blocks
    for block in asked.blocks:
        up = [[start.configuration for start in starts] for starts in block.sub_blocks]
        assert all(each.count("slow") == 1 for each in up)
        assert sorted(name for each in up for name in each if name != "slow") == sorted(names)
        sizes = [len(each) for each in up]
        assert 2 <= min(sizes) <= max(sizes) <= at_once
        assert max(sizes) - min(sizes) <= 1
        assert len(up) == -(-others // (at_once - 1))
        assert all([run.cell for run in start.runs] == cells(block) for start in block.starts)
        assert all(
            run.configuration == start.configuration for start in block.starts for run in start.runs
        )


def test_a_sub_block_of_one_compares_nothing() -> None:
    """The baseline alone is no sub-block."""
    with pytest.raises(ValueError, match="compares nothing"):
        sub_block_sizes(3, 1)


def test_the_coin_says_who_is_up_with_whom_and_in_which_slot() -> None:
    """Over many blocks every pair is up together alike often, and the baseline is everywhere."""
    experiment = replace(an_experiment(), seed=5)
    slow, fast = experiment.configurations
    names = ("a", "b", "c", "d")
    experiment = replace(
        experiment, configurations=(slow, *(replace(fast, name=name) for name in names))
    )
    drawn_blocks = schedule_of(experiment, mode=Mode.ALTERNATING, blocks=600, at_once=3).blocks
    pairs: Counter[frozenset[str]] = Counter()
    places: Counter[int] = Counter()
    for block in drawn_blocks:
        for starts in block.sub_blocks:
            up = [start.configuration for start in starts]
            places[up.index("slow")] += 1
            pairs[frozenset(up) - {"slow"}] += 1
    assert len(pairs) == 6
    assert all(abs(each - 200) < 4 * sqrt(200) for each in pairs.values())
    assert all(abs(each - 400) < 4 * sqrt(400) for each in places.values())


@given(experiments)
def test_what_only_reads_comes_first_and_else_the_coin_decides(experiment: Experiment) -> None:
    """Writes age the data, so reads go before them; among each other both keep their order."""
    alternating = drawn(experiment, 4).blocks
    starts = drawn(experiment, 4, Mode.STARTS).blocks
    for block, other in zip(alternating, starts, strict=True):
        assert [each.configuration for each in block.starts] == [
            e.configuration for e in other.starts
        ]
        places = [reads(cell) for cell in cells(block)]
        assert places == sorted(places, reverse=True)
        assert cells(block) == [
            *(cell for cell in cells(other) if reads(cell)),
            *(cell for cell in cells(other) if not reads(cell)),
        ]


@given(experiments, st.integers(0, 5), st.integers(0, 5))
def test_a_block_does_not_depend_on_how_many_there_are(
    experiment: Experiment, blocks: int, more: int
) -> None:
    """A campaign that is given a longer budget goes on with the schedule it has."""
    longer = drawn(experiment, blocks + more)
    assert longer.blocks[:blocks] == drawn(experiment, blocks).blocks


def test_the_coin_gives_the_first_slot_to_either() -> None:
    """In 4000 blocks half of the time, within 4.5 standard deviations; and in no pattern."""
    blocks = drawn(an_experiment(), 4000).blocks
    first = [block.starts[0].configuration for block in blocks]
    deviation = sqrt(len(blocks)) / 2
    assert abs(Counter(first)["slow"] - len(blocks) / 2) < 4.5 * deviation
    changes = sum(one != other for one, other in pairwise(first))
    assert abs(changes - len(blocks) / 2) < 4.5 * deviation


def test_the_order_of_cells_is_drawn_for_every_block() -> None:
    """With four reading and four writing cells, every one of them is first sometime."""
    blocks = drawn(an_experiment(workloads=WORKLOADS, loads=2), 200).blocks
    assert {cells(block)[0] for block in blocks} == {c for c in cells(blocks[0]) if reads(c)}
    assert {cells(block)[4] for block in blocks} == {c for c in cells(blocks[0]) if not reads(c)}


@given(st.integers(0, 2**31 - 1), st.lists(st.integers(0, 50), min_size=1, max_size=4))
def test_parts_of_a_block_have_coins_of_their_own(seed: int, place: list[int]) -> None:
    """The same at every time, and others than those of other parts and of the block itself."""

    def throws(*where: int) -> list[int]:
        return list(block_coin(seed, *where).integers(0, 2**32, 4))

    assert throws(*place) == throws(*place)
    assert throws(*place) != throws(*place, 0)
    assert throws(*place) != throws(*place[:-1], place[-1] + 1)


def test_turns_come_before_switching() -> None:
    """What can be up together alternates, whatever switching would cost; a pass never does."""
    assert all(mode_for(cost, alternates=True) is Mode.ALTERNATING for cost in SwitchCost)
    assert mode_for(SwitchCost.RESTART, single_pass=True, alternates=True) is Mode.STARTS


def with_measure(keys: str, text: str = SMALL) -> str:
    """Return an experiment file with these keys of `measure`."""
    return f"{text}measure: {{{keys}}}\n"


QUOTA = SMALL.replace("other: {extends: default}", "other: {extends: default, cgroup: {cpus: 0.5}}")


@pytest.mark.parametrize(
    ("text", "turn_s", "settling_s"),
    [
        (QUOTA, 0.4, 0.2),
        (QUOTA.replace("cpus: 0.5", "cpuset: '0'"), 0.25, 0.1),
        (with_measure("turn: 250ms", QUOTA), 0.25, 0.1),
        (with_measure("turn_discard: 150ms", QUOTA), 0.25, 0.15),
        (with_measure("run_time: 4s", QUOTA), 0.4, 0.2),
    ],
)
def test_a_quota_settles_for_two_periods(text: str, turn_s: float, settling_s: float) -> None:
    """Of any configuration, in the turns of all; what is written holds."""
    found = load(text).experiment.measure.turns
    assert (found.turn_s, found.turn_discard_s) == (turn_s, settling_s)


@pytest.mark.parametrize(
    ("keys", "turn_s"),
    [
        ("resources: {limits: {cpu: '1', memory: 1Gi}}", 0.4),
        ("generators: {resources: {limits: {cpu: '1'}}}", 0.4),
        ("generators: {resources: {limits: {memory: 1Gi}}}", 0.25),
    ],
)
def test_pods_with_a_limit_of_cpu_settle_longer(keys: str, turn_s: float) -> None:
    """The server's limit or that of the load generators; requests alone become a limit, too."""
    text = f"""\
version: 1
name: pods
baseline: default
workloads: [{{name: reads, builtin: select-only, scale: 1}}]
load: {{clients: [1]}}
configurations:
  default: {{target: {{kind: kubernetes, {keys}}}}}
  other: {{extends: default, postgres: {{work_mem: 8MB}}}}
"""
    assert load(text).experiment.measure.turns.turn_s == turn_s


def test_a_workload_has_a_slice_of_its_own() -> None:
    """Where it has none, that of all."""
    text = with_measure("run_time: 4s, turn: 2s")
    assert text.count("scale: 1}") == 1
    experiment = load(text.replace("scale: 1}", "scale: 1, run_time: 9s}")).experiment
    assert experiment.run_time_s(experiment.workloads[0].name) == 9.0
    assert (load(text).experiment.slices, experiment.slices) == ("4 s", "9 s")
