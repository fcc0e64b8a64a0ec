"""The minutes that a plan foretells are those of whole campaigns on the method's simulator."""

import numpy as np
import pytest
import sequential
from simulator import PROFILES, Simulator, log_effects

from steelyard.answers.outlook.compute import OutlookTerms
from steelyard.answers.outlook.compute import outlook
from steelyard.core.campaign import ASSUMED_NOISE
from steelyard.core.campaign import WorkloadNoise
from steelyard.core.schedule import Mode
from steelyard.stats.planning import BlockShape
from steelyard.stats.spending import first_look_of

BUDGET_S, CAMPAIGNS = 3600.0, 200
# Profile, mode, effect; how far half and nine in ten may be off, as a share of the simulated
# minutes; how far the share within the budget. Stalls and neighbours that come often are not in
# the plan: hostile campaigns with restarts are foretold too well, and that is documented.
CASES = (
    ("calm", Mode.STARTS, 0.02, 0.20, 0.05),
    ("calm", Mode.BACK_TO_BACK, 0.02, 0.25, 0.05),
    ("typical", Mode.STARTS, 0.02, 0.20, 0.12),
    ("typical", Mode.STARTS, 0.03, 0.20, 0.07),
    ("typical", Mode.STARTS, 0.05, 0.25, 0.05),
    ("typical", Mode.BACK_TO_BACK, 0.03, 0.25, 0.05),
    ("typical", Mode.BACK_TO_BACK, 0.05, 0.25, 0.05),
    ("hostile", Mode.STARTS, 0.05, 0.35, 0.25),
    ("hostile", Mode.BACK_TO_BACK, 0.03, 0.25, 0.12),
)


def noise_of(profile):
    """Return the parts of a simulated machine's noise, as a perfect measurement would."""
    p = PROFILES[profile]
    return WorkloadNoise(
        workload=profile,
        second_sd=p.sd_1s,
        autocorrelation=p.rho,
        slice_sd=p.sd_slice,
        restart_sd=p.sd_restart,
        drift_sd=p.drift_sd_h,
        trend_per_h=p.trend_h / np.sqrt(3.0),  # uniform between plus and minus trend_h
    )


def foretold(profile, mode, effect):
    """Return what the plan says of the result."""
    sim = Simulator(profile)
    block_s = sequential.block_seconds(sim, mode)
    starts = mode is Mode.STARTS
    before_s = 0.0 if starts else sequential.start_seconds(sim)
    shape = BlockShape(
        mode=mode,
        configurations=2,
        cells=len(sim.clients),
        run_time_s=sequential.adapter.SLICE_S,
        step_s=block_s / 2 if starts else sequential.RUN_S,
    )
    terms = OutlookTerms(
        shape=shape,
        results=1,
        preparation_s=before_s,
        block_s=block_s,
        budget_s=BUDGET_S,
        max_blocks=int((BUDGET_S - before_s) // block_s),
        first_look=first_look_of(2),
    )
    return outlook(noise_of(profile), terms, (effect,), pooled=True).at(effect)


@pytest.mark.slow
@pytest.mark.parametrize(("profile", "mode", "effect", "off", "share_off"), CASES)
def test_the_plan_foretells_the_campaigns(profile, mode, effect, off, share_off):
    """Half, nine in ten and the share within the budget are within the documented bounds."""
    sim = Simulator(profile, log_effects([0.0, effect]), seed=31, lanes=CAMPAIGNS)
    ended, seconds = sequential.campaigns(sim, mode, BUDGET_S, seed=31, effect=effect)
    minutes = np.sort(np.where(ended.called, seconds, np.inf))
    plan = foretold(profile, mode, effect)
    assert plan.within_budget == pytest.approx(ended.called.mean(), abs=share_off)
    for said, share in ((plan.half_s, 0.5), (plan.most_s, 0.9)):
        simulated = minutes[int(share * CAMPAIGNS)]
        assert (said is None) == (not np.isfinite(simulated)) or share_off > 0.1
        if said is not None and np.isfinite(simulated):
            assert said == pytest.approx(simulated, rel=off)


def test_the_assumed_noise_is_the_typical_profile():
    """What a plan assumes is the machine behind the documented minutes."""
    typical, assumed = noise_of("typical"), ASSUMED_NOISE.workloads[0]
    for part in ("second_sd", "autocorrelation", "slice_sd", "restart_sd", "drift_sd"):
        assert getattr(assumed, part) == pytest.approx(getattr(typical, part), rel=0.02)


def test_a_plan_without_the_restart_would_be_rejected():
    """The bounds are no formality: forgetting one part of the noise falls out of them."""
    noise = noise_of("typical")
    shape = BlockShape(mode=Mode.STARTS, configurations=2, cells=5, run_time_s=5.0, step_s=60.0)
    terms = OutlookTerms(
        shape=shape,
        results=1,
        preparation_s=0.0,
        block_s=120.0,
        budget_s=3600.0,
        max_blocks=30,
        first_look=first_look_of(2),
    )
    forgetful = WorkloadNoise(
        workload="x",
        second_sd=noise.second_sd,
        autocorrelation=noise.autocorrelation,
        slice_sd=noise.slice_sd,
        restart_sd=0.0,
        drift_sd=noise.drift_sd,
    )
    found = outlook(forgetful, terms, (0.03,), pooled=True).at(0.03)
    assert found.most_s is not None
    assert found.most_s < 0.8 * 50 * 60  # nine in ten simulated campaigns take 50 min
