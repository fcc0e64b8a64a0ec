"""What a file may say of turns, and the order of runs where configurations alternate."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from math import sqrt

import pytest
from experiment_texts import SMALL, load, only_problem
from hypothesis import given
from hypothesis import strategies as st

from fakes.campaigns import an_experiment
from steelyard.campaign.design.schedule import block_coin, mode_for, schedule_of
from steelyard.core.experiment import Experiment, SwitchCost
from steelyard.core.schedule import CellKey, Mode, PlannedBlock, Schedule, sub_block_sizes

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


SINGLE = SMALL.replace("  other: {extends: default}\n", "").replace(
    "name: small", "name: small\ndesign: single-pass"
)


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
        (with_measure("settling: 150ms", QUOTA), 0.25, 0.15),
        (with_measure("slice: 4s", QUOTA), 0.4, 0.2),
    ],
)
def test_a_quota_settles_for_two_periods(text: str, turn_s: float, settling_s: float) -> None:
    """Of any configuration, in the turns of all; what is written holds."""
    found = load(text).experiment.measure.turns
    assert (found.turn_s, found.settling_s) == (turn_s, settling_s)


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
workloads: [{{name: reads, builtin: select-only, scale_factor: 1}}]
loads: {{clients: [1]}}
configurations:
  default: {{target: {{kind: cloudnative-pg, {keys}}}}}
  other: {{extends: default, postgres: {{work_mem: 8MB}}}}
"""
    assert load(text).experiment.measure.turns.turn_s == turn_s


def test_a_workload_has_a_slice_of_its_own() -> None:
    """Where it has none, that of all; one that holds no two turns is told at its line."""
    text = with_measure("slice: 4s, turn: 2s")
    assert text.count("scale_factor: 1}") == 1
    experiment = load(text.replace("scale_factor: 1}", "scale_factor: 1, slice: 9s}")).experiment
    assert experiment.slice_s(experiment.workloads[0].name) == 9.0
    assert (load(text).experiment.slices, experiment.slices) == ("4 s", "9 s")
    told = only_problem(text.replace("scale_factor: 1}", "scale_factor: 1, slice: 3s}"))
    assert "3 s hold fewer than two turns of 2 s" in told


@pytest.mark.parametrize("key", ["turn: 500ms", "settling: 200ms", "reconnections: 2"])
def test_turns_are_refused_where_none_are_taken(key: str) -> None:
    """A key without an effect is not passed over in silence, also where it is the default."""
    told = only_problem(with_measure(key, SINGLE))
    assert f"`{key.split(':', maxsplit=1)[0]}` says how turns are taken" in told
    assert load(SINGLE).experiment
