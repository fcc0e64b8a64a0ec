"""The noise floor recovers the known parts of the method's simulator, and foresees half-widths."""

from functools import lru_cache

import numpy as np
import pytest
from simulator import Simulator

from steelyard.stats.drift import drift_of
from steelyard.stats.intervals import block_interval
from steelyard.stats.noise import NoiseSample
from steelyard.stats.noise import noise_parts
from steelyard.stats.factorial import pooled_contrasts
from steelyard.stats.planning import contrast_scale
from steelyard.stats.planning import half_width

pytestmark = pytest.mark.slow

SLICE_S, RAMP_S, WARM_UP_S, CELLS = 5, 2, 20, 5
CAMPAIGNS = 200
# What is not one of the parts: neighbours, checkpoints and stalls.
QUIET = {"neigh_rate_h": 0, "cp_depth": 0.0, "stall_p": 0.0}


@lru_cache(maxsize=1)
def campaigns(profile, blocks, seed, **override):
    """Return log throughput, log seconds and hours of A/A campaigns in starts."""
    sim = Simulator(profile, lanes=CAMPAIGNS, seed=seed, **override)
    lanes = np.arange(CAMPAIGNS)
    seconds = np.empty((CAMPAIGNS, blocks, 2, CELLS, SLICE_S))
    hours = np.empty(blocks)
    for block in range(blocks):
        hours[block] = sim.clock / 3600
        first = (sim.rng.random(CAMPAIGNS) < 0.5).astype(int)
        order = np.argsort(sim.rng.random((CAMPAIGNS, CELLS)), 1)
        for arm in (first, 1 - first):
            sim.restart()
            sim.idle(WARM_UP_S)
            for place in range(CELLS):
                taken = sim.run(0, order[:, place], SLICE_S + RAMP_S)[:, RAMP_S:]
                seconds[lanes, block, arm, order[:, place]] = np.maximum(taken, 1.0)
    return np.log(seconds.mean(axis=-1)), np.log(seconds), hours, sim


def parts_of(log_tps, seconds):
    """Return the parts of every campaign."""
    return [
        noise_parts(
            NoiseSample(
                contrasts=y[:, 1] - y[:, 0],
                seconds=s,
                companions=np.empty((len(y), 0)),
                same_start=False,
            )
        )
        for y, s in zip(log_tps, seconds, strict=True)
    ]


@pytest.mark.parametrize("profile", ["calm", "typical"])
def test_the_parts_of_a_quiet_machine_are_recovered(profile):
    """30 blocks: root mean squares within 15 % (seconds 5 %), intervals cover in 90 %."""
    log_tps, seconds, _, sim = campaigns(profile, 30, 3, **QUIET)
    found = parts_of(log_tps, seconds)
    p = sim.p
    for name, true, within in (
        ("second_sd", p.sd_1s, 0.05),
        ("autocorrelation", p.rho, 0.05),
        ("slice_sd", p.sd_slice, 0.15),
        ("restart_sd", p.sd_restart, 0.15),
    ):
        each = [getattr(parts, name) for parts in found]
        size = np.sqrt(np.mean([one.estimate**2 for one in each]))
        assert size == pytest.approx(true, rel=within), name
        assert np.mean([one.low - 1e-12 <= true <= one.high for one in each]) >= 0.90, name


@pytest.mark.parametrize("profile", ["calm", "typical"])
def test_neighbours_checkpoints_and_stalls_do_not_hide_the_parts(profile):
    """The whole profile: seconds within 5 %, between runs no less and at most 1.6 times as much."""
    log_tps, seconds, _, sim = campaigns(profile, 30, 4)
    found = parts_of(log_tps, seconds)
    p = sim.p
    assert np.median([f.second_sd.estimate for f in found]) == pytest.approx(p.sd_1s, rel=0.05)
    for name, true in (("slice_sd", p.sd_slice), ("restart_sd", p.sd_restart)):
        size = np.sqrt(np.mean([getattr(f, name).estimate ** 2 for f in found]))
        assert 0.85 * true <= size <= 1.6 * true, name


@pytest.mark.parametrize("profile", ["calm", "typical"])
def test_the_drift_is_recovered(profile):
    """30 blocks, about an hour: median walk within a third, walk and trend covered in 90 %."""
    log_tps, _, hours, sim = campaigns(profile, 30, 5, **QUIET)
    levels = (log_tps - np.median(log_tps, axis=1, keepdims=True)).mean(axis=(2, 3))
    found = [drift_of(level, hours) for level in levels]
    walks = [drift.walk_sd for drift in found]
    true = sim.p.drift_sd_h
    assert np.median([walk.estimate for walk in walks]) == pytest.approx(true, rel=0.33)
    assert np.mean([walk.low <= true <= walk.high for walk in walks]) >= 0.90
    slopes = sim.slope * 3600
    covered = [
        drift.trend_per_h.low <= slope <= drift.trend_per_h.high
        for drift, slope in zip(found, slopes, strict=True)
    ]
    assert np.mean(covered) >= 0.88


@pytest.mark.parametrize("blocks", [8, 16])
@pytest.mark.parametrize("profile", ["calm", "typical", "hostile"])
def test_a_short_campaign_foresees_a_long_one(profile, blocks):
    """From 8 or 16 blocks: the median pooled half-width of 30 blocks within 12 %, at any level.

    Its interval holds what the long campaigns show in at least 85 % (hostile too).
    """
    log_tps, *_ = campaigns(profile, 30, 6)
    contrasts = log_tps[:, :, 1] - log_tps[:, :, 0]
    pooled = np.array([pooled_contrasts(each) for each in contrasts])
    for level in (0.02, 0.004):
        seen = []
        for each in pooled:
            found = block_interval(each, level)
            seen.append((np.expm1(found.high) - np.expm1(found.low)) / 2)
        scales = [contrast_scale(pooled_contrasts(each[:blocks])) for each in contrasts]
        foreseen = [half_width(scale.estimate, 30, level) for scale in scales]
        assert np.median(foreseen) == pytest.approx(np.median(seen), rel=0.12)
        long = np.median(seen)
        held = [
            half_width(s.low, 30, level) <= long <= half_width(s.high, 30, level) for s in scales
        ]
        assert np.mean(held) >= 0.85
