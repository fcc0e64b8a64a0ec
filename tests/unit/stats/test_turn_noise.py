"""The parts of the noise in turns, found again in blocks whose parts are known."""

import math
from dataclasses import replace

import numpy as np
import pytest

from steelyard.stats.turns import (
    BlockTurns,
    TurnNoiseParts,
    TurnNoiseSample,
    Within,
    turn_noise_parts,
    within_block,
)

START, CONNECTION, SECOND = 0.04, 0.03, 0.06
TURN_S = 0.15
RATE = 40_000.0


def block_of(
    source: np.random.Generator, drawn: np.ndarray, sets: list[range], *, alike: float = 0.0
) -> BlockTurns:
    """Return the turns of two arms in one cell.

    Args:
        source: Of the noise of turns.
        drawn: Shape (sets, 2), what starts and connections drew, log rate.
        sets: Rounds of each set.
        alike: Lag-1 correlation of the rates of successive rounds.
    """
    rounds = sets[-1].stop
    steps = source.normal(0.0, SECOND / math.sqrt(TURN_S), (rounds, 2))
    for number in range(1, rounds):
        steps[number] = alike * steps[number - 1] + math.sqrt(1 - alike**2) * steps[number]
    logs = steps + np.concatenate(
        [np.tile(d, (len(s), 1)) for d, s in zip(drawn, sets, strict=True)]
    )
    transactions = RATE * TURN_S * np.exp(logs)
    return BlockTurns(
        rounds=np.arange(rounds, dtype=float),
        places=np.tile([0.0, 1.0], (rounds, 1)),
        seconds=np.full((rounds, 2), TURN_S),
        transactions=transactions,
        early=transactions / 2,
    )


def a_campaign(
    seed: int, *, blocks: int = 30, cells: int = 1, reconnections: int = 0, rounds: int = 32
) -> TurnNoiseSample:
    """Return what a campaign of known parts gives; the machine moves by 10 % between blocks."""
    source = np.random.default_rng(seed)
    number = reconnections + 1
    ends = [rounds * each // number for each in range(number + 1)]
    sets = [*map(range, ends[:-1], ends[1:])]
    levels, told = np.empty((blocks, 2, cells)), []
    machine = source.normal(0.0, 0.1, blocks)
    for block in range(blocks):
        starts = source.normal(0.0, START, 2)
        row = []
        for cell in range(cells):
            drawn = starts + source.normal(0.0, CONNECTION, (number, 2))
            turns = block_of(source, drawn, sets)
            sums = turns.transactions.sum(axis=0)
            levels[block, :, cell] = machine[block] + np.log(sums / turns.seconds.sum(axis=0))
            found = within_block(turns, sets)
            assert found is not None
            row.append(found)
        told.append(row)
    return TurnNoiseSample(
        levels=levels,
        companions=np.empty((blocks, 0)),
        second=np.array([[each.second for each in row] for row in told]),
        sets=np.array([[each.sets for each in row] for row in told]),
        set_s=np.array([[each.set_s for each in row] for row in told]),
        counted_s=rounds * TURN_S,
        number_of_sets=number,
    )


def mean_squares(parts: list[TurnNoiseParts]) -> tuple[float, float]:
    """Return the root mean square of the starts' and the seconds' parts over campaigns."""
    starts, seconds = (
        math.sqrt(np.mean([getattr(each, name).estimate ** 2 for each in parts]))
        for name in ("start_sd", "second_sd")
    )
    return starts, seconds


def test_parts_are_found_again_with_several_cells() -> None:
    """What cells of a block share is the start's; the rest, beyond the seconds, connections'."""
    parts = [turn_noise_parts(a_campaign(seed, cells=3)) for seed in range(20)]
    starts, seconds = mean_squares(parts)
    assert starts == pytest.approx(START, rel=0.1)
    assert seconds == pytest.approx(SECOND, rel=0.05)
    drawn = [each.connection_sd.estimate**2 for each in parts if each.connection_sd is not None]
    assert len(drawn) == len(parts)
    assert math.sqrt(np.mean(drawn)) == pytest.approx(CONNECTION, rel=0.1)


def test_sets_of_connections_tell_what_they_draw_in_a_single_cell() -> None:
    """Then start and connections are told apart without another cell or workload."""
    parts = [turn_noise_parts(a_campaign(seed, reconnections=3)) for seed in range(20)]
    starts, seconds = mean_squares(parts)
    assert starts == pytest.approx(START, rel=0.1)
    assert seconds == pytest.approx(SECOND, rel=0.05)
    drawn = [each.connection_sd.estimate**2 for each in parts if each.connection_sd is not None]
    assert math.sqrt(np.mean(drawn)) == pytest.approx(CONNECTION, rel=0.1)


def test_where_nothing_tells_them_apart_all_of_it_is_the_starts() -> None:
    """So no advice can promise anything of more connections."""
    parts = [turn_noise_parts(a_campaign(seed)) for seed in range(20)]
    assert all(each.connection_sd is None for each in parts)
    starts, _ = mean_squares(parts)
    assert starts == pytest.approx(math.hypot(START, CONNECTION), rel=0.1)


def test_other_workloads_of_the_block_tell_the_start() -> None:
    """They share it as other cells do."""
    both = a_campaign(5, cells=2, blocks=200)
    alone = replace(
        both,
        levels=both.levels[:, :, :1],
        companions=both.contrasts[:, 1:],
        second=both.second[:, :1],
        sets=both.sets[:, :1],
        set_s=both.set_s[:, :1],
    )
    parts = turn_noise_parts(alone)
    assert parts.connection_sd is not None
    assert parts.start_sd.estimate == pytest.approx(START, rel=0.2)


def test_a_block_apart_the_machine_counts_too() -> None:
    """What starts would vary by: start, connections, seconds, and 10 % of the machine."""
    sample = a_campaign(7, blocks=300)
    parts = turn_noise_parts(sample)
    own = START**2 + CONNECTION**2 + SECOND**2 / sample.counted_s
    assert parts.apart_sd.estimate == pytest.approx(math.sqrt(own + 0.1**2), rel=0.1)
    assert parts.contrast_variance == pytest.approx(2 * own, rel=0.2)


def test_the_intervals_cover() -> None:
    """The truth is in at least 88 % of them, for the start and the second."""
    covered = np.zeros(2)
    for seed in range(80):
        parts = turn_noise_parts(a_campaign(seed, blocks=14, cells=2))
        covered += [
            parts.start_sd.low <= START <= parts.start_sd.high,
            parts.second_sd.low <= SECOND <= parts.second_sd.high,
        ]
    assert (covered / 80 >= 0.88).all(), covered / 80


def test_rounds_that_are_alike_are_not_taken_for_several() -> None:
    """Four rounds are one value, so neighbours that agree widen the noise of a second."""
    source = np.random.default_rng(3)
    sets, drawn = [range(48)], np.zeros((1, 2))

    def second(alike: float) -> float:
        found = [within_block(block_of(source, drawn, sets, alike=alike), sets) for _ in range(60)]
        return float(np.mean([each.second for each in found if each is not None]))

    assert second(0.0) == pytest.approx(2 * SECOND**2, rel=0.15)
    assert second(0.7) > 2.0 * second(0.0)


def test_too_little_to_tell() -> None:
    """A single round in each set, or an arm that did nothing, tells nothing of the noise."""
    source = np.random.default_rng(1)
    short = [range(1), range(1, 2)]
    assert within_block(block_of(source, np.zeros((2, 2)), short), short) is None
    few = [range(3), range(3, 6)]
    assert within_block(block_of(source, np.zeros((2, 2)), few), few) is not None
    long = [range(16)]
    turns = block_of(source, np.zeros((1, 2)), long)
    dead = replace(turns, transactions=turns.transactions * [1.0, 0.0])
    assert within_block(dead, long) is None
    known = within_block(turns, long)
    assert isinstance(known, Within)
    assert math.isnan(known.sets)


@pytest.mark.parametrize("blocks", [2, 3])
def test_few_blocks_have_no_parts(blocks: int) -> None:
    """An interval over so few says nothing."""
    with pytest.raises(ValueError, match="no parts of noise in turns"):
        turn_noise_parts(a_campaign(1, blocks=blocks))


def test_stalled_blocks_are_left_out() -> None:
    """One contrast far outside belongs to a stall, which has a test of its own."""
    sample = a_campaign(11, cells=2)
    levels = sample.levels.copy()
    levels[4, 1] -= 3.0
    stalled = turn_noise_parts(replace(sample, levels=levels))
    plain = turn_noise_parts(sample)
    assert stalled.start_sd.estimate == pytest.approx(plain.start_sd.estimate, rel=0.15)
    assert stalled.apart_sd.estimate == pytest.approx(plain.apart_sd.estimate, rel=0.15)
