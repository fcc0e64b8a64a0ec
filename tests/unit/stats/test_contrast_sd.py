"""What one block's contrast varies by, from the parts of the noise."""

import math
from dataclasses import replace

import numpy as np
import pytest

from steelyard.model.noise import ASSUMED_NOISE, WorkloadNoise
from steelyard.model.schedule import Mode
from steelyard.stats.planning import (
    UNNAMED_NOISE,
    BlockShape,
    contrast_sd,
    optimal_slice_s,
    relative_cost,
    seconds_variance,
    within_visits,
)

TYPICAL = ASSUMED_NOISE.workloads[0]
SILENT = WorkloadNoise(
    workload="silent", second_sd=0, autocorrelation=0, slice_sd=0, visit_sd=0, drift_sd=0
)
VISITS = BlockShape(mode=Mode.VISITS, treatments=2, cells=5, slice_s=5.0, step_s=60.0)
BACK_TO_BACK = replace(VISITS, mode=Mode.BACK_TO_BACK, step_s=7.0)


def test_the_parts_add_up_by_hand() -> None:
    """A pair in one cell: twice the variance of a run, and a minute of drift."""
    of_run = 0.0141**2 + seconds_variance(TYPICAL, 5.0)
    variance = 2 * (0.0141**2 + of_run) + 0.04**2 / 60
    expected = UNNAMED_NOISE * math.sqrt(variance)
    assert contrast_sd(TYPICAL, VISITS, pooled=False) == pytest.approx(expected)


@pytest.mark.parametrize("part", ["second_sd", "slice_sd", "visit_sd", "drift_sd", "trend_per_h"])
@pytest.mark.parametrize("pooled", [True, False])
def test_more_of_any_part_is_more_noise(part: str, *, pooled: bool) -> None:
    """No part is forgotten, in the headline or in a cell."""
    louder = replace(TYPICAL, **{part: (getattr(TYPICAL, part) or 0.1) * 2})
    assert contrast_sd(louder, VISITS, pooled=pooled) > contrast_sd(TYPICAL, VISITS, pooled=pooled)


def test_what_a_restart_changes_cancels_back_to_back() -> None:
    """Both sides of the contrast share the visit."""
    louder = replace(TYPICAL, visit_sd=0.3)
    both = [contrast_sd(noise, BACK_TO_BACK, pooled=True) for noise in (TYPICAL, louder)]
    assert both[0] == both[1]
    assert within_visits(louder, Mode.BACK_TO_BACK).visit_sd == 0.0
    assert within_visits(louder, Mode.VISITS) == louder


def test_pooling_averages_runs_and_not_restarts() -> None:
    """One cell is its own headline; with many cells the restart's part remains."""
    alone = replace(VISITS, cells=1)
    assert contrast_sd(TYPICAL, alone, pooled=True) == contrast_sd(TYPICAL, alone, pooled=False)
    many = contrast_sd(TYPICAL, replace(VISITS, cells=10_000), pooled=True)
    floor = UNNAMED_NOISE * math.sqrt(2 * 0.0141**2 + 0.04**2 / 60)
    assert many == pytest.approx(floor, rel=0.01)
    assert contrast_sd(TYPICAL, VISITS, pooled=True) < contrast_sd(TYPICAL, VISITS, pooled=False)


def test_a_main_effect_uses_all_runs_of_a_factorial() -> None:
    """Eight combinations make the contrast of a main effect half as wide as that of a pair."""
    block = replace(VISITS, treatments=8)
    still = replace(TYPICAL, drift_sd=0.0)
    main = contrast_sd(still, block, pooled=True, weights=(0.25, -0.25) * 4)
    assert main == pytest.approx(contrast_sd(still, block, pooled=True) / 2)


def test_weights_that_do_not_cancel_are_refused() -> None:
    """Such a contrast would measure the level, drift included."""
    with pytest.raises(ValueError, match="do not sum to 0"):
        contrast_sd(TYPICAL, VISITS, pooled=True, weights=(1.0, 1.0))


@pytest.mark.parametrize("treatments", [2, 3, 5])
def test_drift_and_trend_are_those_of_a_random_order(treatments: int) -> None:
    """Drawn: walks and lines, in random order, contrasted between two of the treatments."""
    rng = np.random.default_rng(treatments)
    draws = 40_000
    steps = rng.standard_normal((draws, treatments)) * 0.04 * math.sqrt(60 / 3600)
    level = np.cumsum(steps, axis=1) + 0.5 * np.arange(treatments) * 60 / 3600
    order = np.argsort(rng.random((draws, treatments)), axis=1)
    placed = np.take_along_axis(level, order, axis=1)
    drawn = float((placed[:, 1] - placed[:, 0]).std())
    noise = replace(SILENT, drift_sd=0.04, trend_per_h=0.5)
    shape = replace(VISITS, treatments=treatments)
    assert contrast_sd(noise, shape, pooled=False) / UNNAMED_NOISE == pytest.approx(drawn, rel=0.02)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.8, -0.3])
@pytest.mark.parametrize("seconds", [1, 5, 60])
def test_the_mean_of_alike_seconds_varies_as_their_covariances_say(
    rho: float, seconds: int
) -> None:
    """The closed form is the sum over all pairs of seconds."""
    noise = replace(SILENT, second_sd=0.05, autocorrelation=rho)
    distance = np.abs(np.subtract.outer(np.arange(seconds), np.arange(seconds)))
    expected = 0.05**2 * float((rho**distance).mean())
    assert seconds_variance(noise, float(seconds)) == pytest.approx(expected)


@pytest.mark.parametrize("cells", [4, 5, 10, 20])
def test_the_loss_by_trimming_is_the_drawn_one(cells: int) -> None:
    """Dropping the extremes of normal values costs what the constant says, within 2 %."""
    drawn = np.sort(np.random.default_rng(1).standard_normal((200_000, cells)), axis=1)
    trimmed = float(drawn[:, 1:-1].mean(axis=1).std())
    noise = replace(SILENT, slice_sd=1.0)
    pooled = contrast_sd(noise, replace(VISITS, cells=cells), pooled=True)
    assert pooled / UNNAMED_NOISE / math.sqrt(2) == pytest.approx(trimmed, rel=0.02)


def test_the_best_slice_is_the_published_form() -> None:
    """By hand for the typical profile: seven seconds of overhead give about 11.5 s."""
    expected = math.sqrt(7.0 * 0.05**2 * 3.0 / (2 * 0.0141**2))
    assert optimal_slice_s(TYPICAL, overhead_s=7.0) == pytest.approx(expected)
    assert 11.0 < expected < 12.0
    assert optimal_slice_s(TYPICAL, overhead_s=28.0) == pytest.approx(2 * expected)
    alike = replace(TYPICAL, slice_sd=0.0, visit_sd=0.0)
    assert optimal_slice_s(alike, overhead_s=7.0) == math.inf


def test_the_best_slice_is_the_cheapest_one_without_drift() -> None:
    """For one cell no other length costs less time; the finite sum moves it by a few percent."""
    still = replace(TYPICAL, drift_sd=0.0)
    best_s = optimal_slice_s(still, overhead_s=27.0)

    def cost(slice_s: float) -> float:
        shape = replace(VISITS, cells=1, slice_s=slice_s)
        return relative_cost(still, shape, 2 * (27.0 + slice_s))

    assert cost(best_s) < min(cost(best_s / 2), cost(best_s * 2))
    assert cost(best_s) <= 1.01 * min(cost(best_s * f) for f in (0.7, 0.8, 0.9, 1.1, 1.2, 1.4))
