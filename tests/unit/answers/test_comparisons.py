"""Effects, verdicts and their limits, from arrays of log ratios."""

import numpy as np
import pytest

from steelyard.answers.result import compute
from steelyard.core.campaign import Status
from steelyard.core.findings import Verdict
from steelyard.core.schedule import Load
from steelyard.stats.factorial import pooled_contrasts
from steelyard.stats.intervals import block_interval
from steelyard.stats.spending import stopping_rule

PAIR = compute.Pair(baseline="default", configuration="tuned", workload="reads")
LOADS = tuple(Load(clients=clients, threads=1) for clients in (1, 8, 32, 64))


def terms(cells: int = 4, *, max_blocks: int = 30, stopped_early: bool = False) -> compute.Terms:
    """Return the terms of an hour of two-minute blocks: decide 3 %, margin 1 %."""
    rule = stopping_rule(
        results=1, first_look=8 if cells > 1 else 6, max_blocks=max_blocks, precision=None
    )
    return compute.Terms(
        rule=rule, margin=0.01, detect=0.03, block_s=120.0, stopped_early=stopped_early
    )


def contrasts(blocks: int, effect: float, sd: float, cells: int = 4, seed: int = 1) -> np.ndarray:
    """Return log ratios with a relative effect."""
    rng = np.random.default_rng(seed)
    return np.log1p(effect) + sd * rng.standard_normal((blocks, cells))


def test_no_block_yet() -> None:
    """Before any block there is no effect, no interval and no verdict, and no number is made up."""
    result, *cells = compute.compare(np.empty((0, 4)), PAIR, LOADS, terms())
    assert result.effect is None
    assert result.level is None
    assert result.verdict is Verdict.NO_CLEAR_DIFFERENCE
    assert result.note == "0 blocks; the first interim result is at 8"
    assert result.contrasts == ()
    assert all(cell.effect is None for cell in cells)


@pytest.mark.parametrize(("blocks", "count"), [(1, "1 block"), (3, "3 blocks"), (7, "7 blocks")])
def test_before_the_first_look(blocks: int, count: str) -> None:
    """An estimate, but no interval, however clear the effect looks."""
    result = compute.compare_result(contrasts(blocks, 0.5, 0.001), PAIR, terms())
    assert result.effect is not None
    assert result.effect.value == pytest.approx(0.5, abs=0.01)
    assert (result.effect.low, result.effect.high) == (None, None)
    assert result.verdict is Verdict.NO_CLEAR_DIFFERENCE
    assert result.minutes_to_decide is None
    assert result.note == f"{count}; the first interim result is at 8"


def test_a_clear_effect() -> None:
    """The result is faster, as a relative effect, with the interval at the look's level."""
    taken = contrasts(12, 0.05, 0.01)
    result = compute.compare_result(taken, PAIR, terms())
    pooled = pooled_contrasts(taken)
    expected = block_interval(pooled, result.level)
    assert result.verdict is Verdict.FASTER
    assert result.effect.low == pytest.approx(np.expm1(expected.low))
    assert result.effect.high == pytest.approx(np.expm1(expected.high))
    assert result.contrasts == tuple(pooled)
    assert (result.load, result.blocks, result.note) == (None, 12, "")
    assert result.minutes_to_decide is None


def test_slower_equivalent_and_of_no_weight() -> None:
    """The other words, with the practical weight beside them."""
    slower = compute.compare_result(contrasts(12, -0.05, 0.01), PAIR, terms())
    equal = compute.compare_result(contrasts(30, 0.0, 0.01), PAIR, terms())
    light = compute.compare_result(contrasts(30, 0.005, 0.002), PAIR, terms())
    assert (slower.verdict, slower.no_practical_weight) == (Verdict.SLOWER, False)
    assert (equal.verdict, equal.no_practical_weight) == (Verdict.EQUIVALENT, False)
    assert (light.verdict, light.no_practical_weight) == (Verdict.FASTER, True)


def test_an_open_question_says_how_long() -> None:
    """By METHOD 3.6 it takes n ((U - L) / (1.2 x 3 %))^2 blocks, here of two minutes each."""
    result = compute.compare_result(contrasts(10, 0.0, 0.06), PAIR, terms())
    width = result.effect.high - result.effect.low
    assert result.verdict is Verdict.NO_CLEAR_DIFFERENCE
    assert result.minutes_to_decide == pytest.approx(
        2.0 * (10 * (width / 0.036) ** 2 - 10), rel=1e-9
    )
    assert result.note == ""


def test_precise_enough_but_open() -> None:
    """When 3 % could have been decided, more minutes are not promised: the effect is smaller."""
    quiet = np.log1p(0.011) + np.tile([-0.012, 0.012], 15)[:, None] * np.ones(4)
    result = compute.compare_result(quiet, PAIR, terms())
    assert result.verdict is Verdict.NO_CLEAR_DIFFERENCE
    assert result.minutes_to_decide is None
    assert result.note == (
        "precise enough to decide an effect of 3.0 %; one that is there is smaller"
    )


def test_an_early_stop_is_said() -> None:
    """Only a decided result of a campaign that stopped early carries the warning."""
    early = terms(stopped_early=True)
    decided = compute.compare(contrasts(12, 0.05, 0.01), PAIR, LOADS, early)
    assert decided[0].note == "stopped early: the true effect is probably a little smaller"
    assert all(cell.note != decided[0].note for cell in decided[1:])
    assert "early" not in compute.compare_result(contrasts(12, 0.0, 0.05), PAIR, early).note


def test_cells_hold_simultaneously() -> None:
    """Four cells share the result's error, from the first look on."""
    cells = compute.compare(contrasts(8, 0.05, 0.004), PAIR, LOADS, terms())[1:]
    assert [cell.load for cell in cells] == list(LOADS)
    assert all(cell.level == pytest.approx(0.01 * (8 / 30) ** 2) for cell in cells)
    assert all(cell.verdict is Verdict.FASTER for cell in cells)
    assert cells[2].contrasts == tuple(contrasts(8, 0.05, 0.004)[:, 2])


def test_one_cell_and_its_result_are_the_same() -> None:
    """With one load the cell repeats the result: same interval, same word, same level."""
    taken = contrasts(9, 0.02, 0.01, cells=1)
    result, cell = compute.compare(taken, PAIR, LOADS[:1], terms(cells=1))
    assert result.effect == cell.effect
    assert (result.verdict, result.level) == (cell.verdict, cell.level)
    assert result.contrasts == cell.contrasts


def test_an_effect_that_depends_on_load() -> None:
    """Cells whose simultaneous intervals do not overlap are said to differ; equal ones are not."""
    taken = contrasts(20, 0.0, 0.005)
    assert not compute.compare(taken, PAIR, LOADS, terms())[0].depends_on_load
    taken[:, 3] += 0.2
    assert compute.compare(taken, PAIR, LOADS, terms())[0].depends_on_load


def test_open_bounds_do_not_disagree() -> None:
    """Before the first look nothing can be said to depend on the load."""
    assert not compute.disagree(compute.compare(contrasts(3, 0.0, 0.1), PAIR, LOADS, terms())[1:])
    assert not compute.disagree(())


def test_beyond_the_last_look() -> None:
    """Blocks beyond the plan are judged at the last level."""
    last = compute.compare_result(contrasts(30, 0.0, 0.05), PAIR, terms())
    beyond = compute.compare_result(contrasts(33, 0.0, 0.05), PAIR, terms())
    assert beyond.level == last.level


def test_blocks_without_spread() -> None:
    """Identical blocks, as a simulated server gives them, are judged without a complaint."""
    equal = compute.compare_result(np.zeros((8, 4)), PAIR, terms())
    faster = compute.compare_result(np.full((8, 4), 0.1), PAIR, terms())
    assert (equal.verdict, faster.verdict) == (Verdict.EQUIVALENT, Verdict.FASTER)


@pytest.mark.slow
def test_simultaneous_cells_of_identical_systems() -> None:
    """Any of 5 cells is called different at any look in at most 5 % of A/A campaigns."""
    campaigns, wrong = 400, 0
    five = tuple(Load(clients=clients, threads=1) for clients in range(1, 6))
    for seed in range(campaigns):
        rng = np.random.default_rng([4, seed])
        slices = 0.03 * rng.standard_normal((30, 5, 2))
        slices += np.where(rng.random(slices.shape) < 0.02, np.log(0.4), 0.0)
        taken = slices[..., 1] - slices[..., 0]
        looks = (compute.compare(taken[:n], PAIR, five, terms(5))[1:] for n in range(6, 31))
        wrong += any(
            cell.verdict in (Verdict.FASTER, Verdict.SLOWER) for cells in looks for cell in cells
        )
    assert wrong / campaigns <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / campaigns)


def test_precision_keeps_its_promise() -> None:
    """Stopped when the interval is as narrow as asked, it still covers the truth in 93 %."""
    campaigns, covered = 300, 0
    rule = stopping_rule(results=1, first_look=8, max_blocks=60, precision=0.012)
    asked = compute.Terms(rule=rule, margin=0.01, detect=0.03, block_s=120.0)
    for seed in range(campaigns):
        taken = contrasts(60, 0.02, 0.05, seed=seed)
        for n in range(8, 61):
            result = compute.compare_result(taken[:n], PAIR, asked)
            if compute.decide((result,), rule) is Status.PRECISION:
                break
        assert 12 <= n < 60
        covered += result.effect.low <= 0.02 <= result.effect.high
    assert covered / campaigns >= 0.93
