"""What one block's contrast varies by, from the parts of the noise."""

import math
from dataclasses import replace

import numpy as np
import pytest

from steelyard.core.campaign import (
    ALL_NAMED,
    ASSUMED_NOISE,
    ASSUMED_TURNS,
    UNNAMED_NOISE,
    TurnNoise,
    WorkloadNoise,
)
from steelyard.core.schedule import Mode, TurnTimes
from steelyard.stats.noise import NoiseSample, mean_variance, noise_parts
from steelyard.stats.planning import (
    BlockShape,
    contrast_scale,
    contrast_sd,
    optimal_run_time_s,
    optimal_turns,
    squares_in_sub_blocks,
    turn_noise,
    turns_ratio,
    width_ratio,
    within_starts,
)

TYPICAL = ASSUMED_NOISE.workloads[0]
SILENT = WorkloadNoise(
    workload="silent", second_sd=0, autocorrelation=0, slice_sd=0, restart_sd=0, drift_sd=0
)
STARTS = BlockShape(mode=Mode.STARTS, configurations=2, cells=5, run_time_s=5.0, step_s=60.0)
BACK_TO_BACK = replace(STARTS, mode=Mode.BACK_TO_BACK, step_s=7.0)


def test_the_parts_add_up_by_hand() -> None:
    """A pair in one cell: twice the variance of a run, and a minute of drift."""
    of_run = 0.0141**2 + mean_variance(0.05, 0.5, 5.0)
    variance = 2 * (0.0141**2 + of_run) + 0.04**2 / 60
    expected = UNNAMED_NOISE * math.sqrt(variance)
    assert contrast_sd(TYPICAL, STARTS, pooled=False) == pytest.approx(expected)


@pytest.mark.parametrize("part", ["second_sd", "slice_sd", "restart_sd", "drift_sd", "trend_per_h"])
@pytest.mark.parametrize("pooled", [True, False])
def test_more_of_any_part_is_more_noise(part: str, *, pooled: bool) -> None:
    """No part is forgotten, in the result or in a cell."""
    louder = replace(TYPICAL, **{part: (getattr(TYPICAL, part) or 0.1) * 2})
    assert contrast_sd(louder, STARTS, pooled=pooled) > contrast_sd(TYPICAL, STARTS, pooled=pooled)


def test_what_a_restart_changes_cancels_back_to_back() -> None:
    """Both sides of the contrast share the start."""
    louder = replace(TYPICAL, restart_sd=0.3)
    both = [contrast_sd(noise, BACK_TO_BACK, pooled=True) for noise in (TYPICAL, louder)]
    assert both[0] == both[1]
    assert within_starts(louder, Mode.BACK_TO_BACK).restart_sd == 0.0
    assert within_starts(louder, Mode.STARTS) == louder


def test_pooling_averages_runs_and_not_restarts() -> None:
    """One cell is its own result; with many cells the restart's part remains."""
    alone = replace(STARTS, cells=1)
    assert contrast_sd(TYPICAL, alone, pooled=True) == contrast_sd(TYPICAL, alone, pooled=False)
    many = contrast_sd(TYPICAL, replace(STARTS, cells=10_000), pooled=True)
    floor = UNNAMED_NOISE * math.sqrt(2 * 0.0141**2 + 0.04**2 / 60)
    assert many == pytest.approx(floor, rel=0.01)
    assert contrast_sd(TYPICAL, STARTS, pooled=True) < contrast_sd(TYPICAL, STARTS, pooled=False)


def test_a_main_effect_uses_all_runs_of_a_factorial() -> None:
    """Eight combinations make the contrast of a main effect half as wide as that of a pair."""
    block = replace(STARTS, configurations=8)
    still = replace(TYPICAL, drift_sd=0.0)
    main = contrast_sd(still, block, pooled=True, weights=(0.25, -0.25) * 4)
    assert main == pytest.approx(contrast_sd(still, block, pooled=True) / 2)


def test_weights_that_do_not_cancel_are_refused() -> None:
    """Such a contrast would measure the level, drift included."""
    with pytest.raises(ValueError, match="do not sum to 0"):
        contrast_sd(TYPICAL, STARTS, pooled=True, weights=(1.0, 1.0))


@pytest.mark.parametrize("configurations", [2, 3, 5])
def test_drift_and_trend_are_those_of_a_random_order(configurations: int) -> None:
    """Drawn: walks and lines, in random order, contrasted between two of the configurations."""
    rng = np.random.default_rng(configurations)
    draws = 40_000
    steps = rng.standard_normal((draws, configurations)) * 0.04 * math.sqrt(60 / 3600)
    level = np.cumsum(steps, axis=1) + 0.5 * np.arange(configurations) * 60 / 3600
    order = np.argsort(rng.random((draws, configurations)), axis=1)
    placed = np.take_along_axis(level, order, axis=1)
    drawn = float((placed[:, 1] - placed[:, 0]).std())
    noise = replace(SILENT, drift_sd=0.04, trend_per_h=0.5)
    shape = replace(STARTS, configurations=configurations)
    assert contrast_sd(noise, shape, pooled=False) / UNNAMED_NOISE == pytest.approx(drawn, rel=0.02)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.8, -0.3])
@pytest.mark.parametrize("seconds", [1, 5, 60])
def test_the_mean_of_alike_seconds_varies_as_their_covariances_say(
    rho: float, seconds: int
) -> None:
    """The closed form is the sum over all pairs of seconds."""
    distance = np.abs(np.subtract.outer(np.arange(seconds), np.arange(seconds)))
    expected = 0.05**2 * float((rho**distance).mean())
    assert mean_variance(0.05, rho, float(seconds)) == pytest.approx(expected)


@pytest.mark.parametrize("cells", [4, 5, 10, 20])
def test_the_loss_by_trimming_is_the_drawn_one(cells: int) -> None:
    """Dropping the extremes of normal values costs what the constant says, within 2 %."""
    drawn = np.sort(np.random.default_rng(1).standard_normal((200_000, cells)), axis=1)
    trimmed = float(drawn[:, 1:-1].mean(axis=1).std())
    noise = replace(SILENT, slice_sd=1.0)
    pooled = contrast_sd(noise, replace(STARTS, cells=cells), pooled=True)
    assert pooled / UNNAMED_NOISE / math.sqrt(2) == pytest.approx(trimmed, rel=0.02)


STILL = replace(TYPICAL, drift_sd=0.0)
ALONE = replace(STARTS, cells=1)


@pytest.mark.parametrize("overhead_s", [7.0, 14.0, 28.0])
def test_the_published_form_of_the_best_slice_costs_little_more(overhead_s: float) -> None:
    """sqrt(overhead s^2 (1 + r) / (1 - r) / between) is for long slices: longer, 2 % more time.

    For one cell without drift: the exact variance of a short mean is less than it assumes.
    """
    published = math.sqrt(overhead_s * 0.05**2 * 3.0 / (2 * 0.0141**2))
    best_s = optimal_run_time_s([STILL], ALONE, overhead_s=overhead_s)
    assert 0.6 * published < best_s < published
    here = replace(ALONE, run_time_s=best_s)
    assert 1.0 <= width_ratio(STILL, here, published, overhead_s) ** 2 < 1.02


def test_of_weak_autocorrelation_the_best_slice_is_the_published_one() -> None:
    """Where the exact variance is the form's, so is the length."""
    plain = replace(STILL, autocorrelation=0.0)
    published = math.sqrt(28.0 * 0.05**2 / (2 * 0.0141**2))
    assert abs(optimal_run_time_s([plain], ALONE, overhead_s=28.0) - published) <= 0.5


def test_drift_and_pooling_make_the_best_slice_shorter() -> None:
    """A restart that all cells share, and a level that moves, are not bought off by seconds."""
    shape = replace(STARTS, cells=5)
    single = optimal_run_time_s([STILL], ALONE, overhead_s=7.0)
    pooled = optimal_run_time_s([STILL], shape, overhead_s=7.0)
    drifting = optimal_run_time_s([replace(STILL, drift_sd=0.2)], shape, overhead_s=7.0)
    assert drifting < pooled < single


def test_the_best_slice_is_the_cheapest_one() -> None:
    """No other length between 3 and 30 s gives a narrower interval in the same time."""
    for shape in (STARTS, BACK_TO_BACK, ALONE, replace(STARTS, rounds=6)):
        best_s = optimal_run_time_s([TYPICAL], shape, overhead_s=9.0)
        widths = [width_ratio(TYPICAL, shape, float(s), 9.0) for s in range(3, 31)]
        assert width_ratio(TYPICAL, shape, best_s, 9.0) == min(widths)


def test_rounds_average_runs_and_not_restarts() -> None:
    """In starts, restart and drift remain; back to back everything is averaged."""
    many = contrast_sd(TYPICAL, replace(STARTS, rounds=10_000), pooled=True)
    assert many == pytest.approx(UNNAMED_NOISE * math.sqrt(2 * 0.0141**2 + 0.04**2 / 60), rel=0.01)
    one, four = (
        contrast_sd(TYPICAL, replace(BACK_TO_BACK, rounds=rounds), pooled=False)
        for rounds in (1, 4)
    )
    assert four == pytest.approx(one / 2)


def test_measured_parts_hold_neighbours_and_need_no_factor() -> None:
    """Planned with parts that were found by moments, the deviation is that of the contrasts.

    A fifth of the runs share their machine with a neighbour, one in 200 is stalled by half: the
    first are in the parts, the second change neither the parts nor the interval of ranks much.
    """
    rng = np.random.default_rng(8)
    blocks, cells, seconds = 600, 4, 6
    logs = 0.05 * rng.standard_normal((blocks, 2, cells, seconds))
    logs += 0.02 * rng.standard_normal((blocks, 2, cells, 1))
    logs += 0.015 * rng.standard_normal((blocks, 2, 1, 1))
    logs -= 0.06 * (rng.random((blocks, 2, cells, 1)) < 0.2)
    logs -= 0.7 * (rng.random((blocks, 2, cells, 1)) < 0.005)
    means = logs.mean(axis=-1)
    contrasts = means[:, 1] - means[:, 0]
    found = noise_parts(
        NoiseSample(
            contrasts=contrasts, seconds=logs, companions=np.empty((blocks, 0)), same_start=False
        )
    )
    assert found.restart_sd is not None
    measured = WorkloadNoise(
        workload="measured",
        second_sd=found.second_sd.estimate,
        autocorrelation=found.autocorrelation.estimate,
        slice_sd=found.slice_sd.estimate,
        restart_sd=found.restart_sd.estimate,
        drift_sd=0.0,
        unnamed=ALL_NAMED,
    )
    shape = replace(STARTS, cells=cells, run_time_s=float(seconds))
    planned = contrast_sd(measured, shape, pooled=False)
    seen = float(np.mean([contrast_scale(column).estimate for column in contrasts.T]))
    assert planned == pytest.approx(seen, rel=0.05)
    assert contrast_sd(replace(measured, unnamed=UNNAMED_NOISE), shape, pooled=False) > 1.05 * seen


TURNS = TurnNoise(start_sd=0.04, connection_sd=0.03, second_sd=0.06)
TURNED = replace(SILENT, turns=TURNS)
IN_TURNS = BlockShape(
    mode=Mode.ALTERNATING,
    configurations=2,
    cells=3,
    run_time_s=5.0,
    step_s=1.0,
    turns=TurnTimes(turn_s=0.25, turn_discard_s=0.1, reconnects=1),
)


def test_the_parts_of_turns_add_up_by_hand() -> None:
    """A start, two sets of connections, and three seconds that count, on each side."""
    of_run = 0.03**2 / 2 + 0.06**2 / 3.0
    alone, pooled = (contrast_sd(TURNED, IN_TURNS, pooled=pooled) for pooled in (False, True))
    assert alone == pytest.approx(math.sqrt(2 * (0.04**2 + of_run)))
    assert pooled == pytest.approx(math.sqrt(2 * (0.04**2 + of_run / 3)))


def test_drift_cancels_in_turns() -> None:
    """What moves the machine for longer than some turns moves both sides."""
    moved = replace(TURNED, drift_sd=3.0, trend_per_h=5.0, restart_sd=1.0, slice_sd=1.0)
    assert contrast_sd(moved, IN_TURNS, pooled=True) == contrast_sd(TURNED, IN_TURNS, pooled=True)


def test_connections_that_are_not_known_promise_nothing() -> None:
    """More of them change nothing then, and are not advised."""
    unknown = replace(TURNED, turns=replace(TURNS, connection_sd=None))
    more = replace(IN_TURNS, turns=replace(IN_TURNS.turns, reconnects=7))
    assert contrast_sd(unknown, more, pooled=True) == contrast_sd(unknown, IN_TURNS, pooled=True)
    best = optimal_turns([unknown], IN_TURNS, overhead_s=3.0)
    assert best.turns.reconnects == IN_TURNS.turns.reconnects


def test_the_best_turns_are_best_by_trying() -> None:
    """No other length or number of sets gives narrower intervals in the same time."""
    best = optimal_turns([TURNED], IN_TURNS, overhead_s=3.0)
    reached = turns_ratio(TURNED, IN_TURNS, best, 3.0)
    for seconds in (4.0, 8.0, 16.0, 30.0):
        for number in range(8):
            turns = replace(IN_TURNS.turns, reconnects=number)
            other = replace(IN_TURNS, run_time_s=seconds, turns=turns)
            assert turns_ratio(TURNED, IN_TURNS, other, 3.0) >= reached
    assert turns_ratio(TURNED, IN_TURNS, IN_TURNS, 3.0) == 1.0


def test_dear_starts_call_for_longer_turns_and_loud_connections_for_more_of_them() -> None:
    """Each part of the cost is paid against the part of the noise that it lowers."""
    cheap, dear = (optimal_turns([TURNED], IN_TURNS, overhead_s=s) for s in (1.0, 60.0))
    assert dear.run_time_s > cheap.run_time_s
    loud, quiet = (replace(TURNED, turns=replace(TURNS, connection_sd=s)) for s in (0.3, 0.001))
    many, few = (optimal_turns([each], IN_TURNS, overhead_s=3.0) for each in (loud, quiet))
    assert (many.turns.reconnects, few.turns.reconnects) == (7, 0)


def test_a_set_of_connections_has_two_rounds_at_least() -> None:
    """Sets of long turns are not cut into pieces that hold none."""
    loud = replace(TURNED, turns=replace(TURNS, connection_sd=0.3))
    slow = replace(IN_TURNS, turns=replace(IN_TURNS.turns, turn_s=1.0))
    best = optimal_turns([loud], slow, overhead_s=3.0)
    sets = best.turns.sets(best.turns.turns_in(best.run_time_s))
    assert len(sets) > 1
    assert min(map(len, sets)) >= 2


def test_noise_of_starts_bounds_that_of_turns() -> None:
    """A calm machine is calm in turns; what a noisy one would be in turns is assumed."""
    calm = replace(SILENT, restart_sd=0.004, second_sd=0.01)
    noisy = replace(SILENT, restart_sd=0.2, second_sd=0.3)
    assert turn_noise(calm) == TurnNoise(start_sd=0.004, connection_sd=None, second_sd=0.01)
    assert turn_noise(noisy) == ASSUMED_TURNS
    assert turn_noise(TURNED) is TURNS


def test_the_assumed_noise_of_turns_is_that_of_the_table() -> None:
    """METHOD 3.18: blocks of reads with 4 and with 12 s of turns varied by 7.9 and by 6.4 %."""
    times = TurnTimes(turn_s=0.25, turn_discard_s=0.05)
    for seconds, varied in ((4.0, 0.079), (12.0, 0.064)):
        shape = replace(IN_TURNS, cells=1, run_time_s=seconds, turns=times)
        assert contrast_sd(TYPICAL, shape, pooled=True) == pytest.approx(varied, rel=0.05)


@pytest.mark.parametrize("sizes", [(1,) * 5, (2, 2, 1), (3, 2), (5,)])
@pytest.mark.parametrize(
    "weights", [(-1, 0, 1, 0, 0, 0), (-0.25, 0.5, -0.25, 0.5, -0.5, 0), (0, 1, -1, 0, 0, 0)]
)
def test_what_baselines_add_in_sub_blocks_by_drawing(
    sizes: tuple[int, ...], weights: tuple[float, ...]
) -> None:
    """Over the coin: the squares of the others, and of their sum in each sub-block."""
    rng, others = np.random.default_rng(5), np.array(weights[1:], dtype=float)
    drawn = []
    for _ in range(4000):
        parts = np.split(rng.permutation(others), np.cumsum(sizes)[:-1])
        drawn.append(float(others @ others) + sum(float(part.sum()) ** 2 for part in parts))
    foretold = squares_in_sub_blocks(weights, 0, sizes)
    assert foretold == pytest.approx(np.mean(drawn), rel=0.05)
    if len(sizes) == 1:
        assert foretold == pytest.approx(sum(w * w for w in weights))


def test_a_contrast_in_sub_blocks_has_the_noise_of_more_baselines() -> None:
    """A main effect of four combinations in pairs: half as much variance again; a pair has none."""
    together = replace(IN_TURNS, configurations=4)
    pairs = replace(together, sub_blocks=(1, 1, 1))
    main = (-0.5, -0.5, 0.5, 0.5)
    plain, more = (contrast_sd(TURNED, s, pooled=True, weights=main) for s in (together, pairs))
    assert more == pytest.approx(plain * math.sqrt(1.5))
    assert contrast_sd(TURNED, pairs, pooled=True) == contrast_sd(TURNED, together, pooled=True)
