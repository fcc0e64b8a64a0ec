"""Blocks in sub-blocks with the baseline in each: false verdicts, coverage, factors, what it costs.

Who is up with whom is the product's own schedule, what is compared the product's own observations.
Between sub-blocks the machine becomes another one: all rates of one move together.
"""

import os
from functools import lru_cache

import alternating
import numpy as np
import pytest
from alternating import MACHINES, equal, take
from alternating_records import experiment_of, record_with, run_of
from acceptance import false_positive_bound

from steelyard.answers.observations import observe
from steelyard.campaign.design.schedule import schedule_of
from steelyard.core.schedule import Load, Mode, sub_block_sizes
from steelyard.stats import factorial
from steelyard.stats.planning import squares_in_sub_blocks

pytestmark = pytest.mark.slow

FULL = os.environ.get("STEELYARD_FULL_METHOD") == "1"
CAMPAIGNS, MORE, BLOCKS = (1000 if FULL else 200), 5, 20
JUMP = 0.10  # of the logarithm, from one sub-block to the next
SHAPES = ((4, 2), (4, 3), (5, 3), (6, 4), (7, 3), (8, 3), (8, 5))  # configurations, at once
CASES = [  # by default the machine with more noise between blocks has the extreme shapes alone
    (machine, *shape)
    for machine in ("writes", "reads")
    for shape in (SHAPES if FULL or machine == "writes" else SHAPES[::3])
]
LOAD = Load(clients=1, threads=1)


@lru_cache(maxsize=2)  # both judges look at the same campaigns
def observed(machine, effects, at_once, *, campaigns, seed, jump=JUMP):
    """Return log rates as the product compares them: (campaigns, blocks, configurations)."""
    configurations = len(effects)
    sizes = sub_block_sizes(configurations - 1, at_once)
    taken = [
        take(
            MACHINES[machine],
            equal(size + 1, slot_effect=0.02),
            campaigns=campaigns,
            blocks=BLOCKS,
            seed=1000 * seed + number,
            coin=False,  # the product's own draws who is in which slot
        )
        for number, size in enumerate(sizes)
    ]
    rng = np.random.default_rng(seed)
    moved = jump * rng.standard_normal((campaigns, BLOCKS, len(sizes)))
    totals = [
        each.transactions[:, :, 0].sum(axis=2) * np.exp(moved[:, :, number, None])
        for number, each in enumerate(taken)
    ]
    seconds = taken[0].way.rounds * taken[0].way.counted_s
    return np.array(
        [
            _one(experiment_of(configurations, seed=seed * 10_000 + n), effects)(
                [each[n] for each in totals], at_once, seconds
            )
            for n in range(campaigns)
        ]
    )


def _one(experiment, effects):
    factors = dict(zip((each.name for each in experiment.configurations), np.exp(effects)))

    def logs(totals, at_once, seconds):
        drawn = schedule_of(experiment, mode=Mode.ALTERNATING, blocks=BLOCKS, at_once=at_once)
        runs = []
        for block in drawn.blocks:
            for starts in block.sub_blocks:
                rates = totals[starts[0].sub_block][block.index]
                for slot, start in enumerate(starts):
                    count = float(rates[slot] * factors[start.configuration])
                    place, own = (block.index, len(runs), 0), (start.configuration, LOAD)
                    runs.append(run_of(place, *own, (count, seconds), sub_block=start.sub_block))
        record = record_with(experiment, runs, BLOCKS, Mode.ALTERNATING)
        return observe(record).log_tps[..., 0]

    return logs


def against_baseline(logs):
    """Return the contrasts of all contenders: (campaigns, blocks, one cell, contenders)."""
    return (logs[..., 1:] - logs[..., :1])[:, :, None, :]


@pytest.mark.parametrize("judge", [alternating.at_fixed_n, alternating.sequential])
@pytest.mark.parametrize(("machine", "configurations", "at_once"), CASES)
def test_equal_configurations_in_sub_blocks(machine, configurations, at_once, judge):
    """At most 5 % of campaigns call any different within chance; 93 % of the intervals hold 0.

    Though rates move by 10 % from one sub-block to the next, and slots differ by 2 %. A rate that
    fails is taken once more from more campaigns, and then it counts.
    """
    nothing = (0.0,) * configurations
    campaigns = CAMPAIGNS
    logs = observed(machine, nothing, at_once, campaigns=campaigns, seed=21)
    found = judge(against_baseline(logs), nothing)
    if found.called.mean() > false_positive_bound(campaigns) or found.covered.mean() < 0.93:
        campaigns *= MORE
        logs = observed(machine, nothing, at_once, campaigns=campaigns, seed=22)
        found = judge(against_baseline(logs), nothing)
    print(f"{machine} k={configurations} n={at_once}: {found.called.mean():.3f} called")
    assert found.called.mean() <= false_positive_bound(campaigns)
    assert found.covered.mean() >= 0.93


@pytest.mark.parametrize("judge", [alternating.at_fixed_n, alternating.sequential])
@pytest.mark.parametrize(("configurations", "at_once"), [(4, 2), (6, 3), (8, 3)])
def test_real_effects_are_covered_in_sub_blocks(configurations, at_once, judge):
    """From -4 % to +6 % of all contenders: 93 % of the intervals hold them, also at the stop."""
    effects = (0.0, *np.log(np.linspace(0.96, 1.06, configurations - 1)))
    logs = observed("writes", effects, at_once, campaigns=CAMPAIGNS, seed=23)
    found = judge(against_baseline(logs), effects)
    assert found.covered.mean(axis=0).min() >= 0.93 - 3 * np.sqrt(0.95 * 0.05 / CAMPAIGNS)
    assert found.covered.mean() >= 0.93
    assert found.called.mean() >= 0.9


@lru_cache(maxsize=4)
def of_factors(factors, at_once, machine):
    """Return a factorial's combinations, its truth, and its logs."""
    combinations = factorial.factorial_design(factors).combinations
    truth = np.array([0.05 * c[0] + 0.03 * c[0] * c[1] for c in combinations])
    logs = observed(machine, tuple(truth), at_once, campaigns=2 * CAMPAIGNS, seed=24)
    return combinations, truth, logs


@pytest.mark.parametrize(("factors", "at_once"), [(2, 2), (2, 3), (3, 3), (3, 5)])
@pytest.mark.parametrize("machine", ["reads", "writes"])
def test_factors_in_sub_blocks(machine, factors, at_once):
    """Main effects and synergies among cells of different sub-blocks: 93 % hold what is so.

    Factors that do nothing are blamed in at most 5 % within chance.
    """
    combinations, truth, logs = of_factors(factors, at_once, machine)
    weights = {f"main {n}": factorial.main_effect(combinations, n) for n in range(factors)}
    weights["synergy"] = factorial.synergy(combinations, 0, 1)
    for name, weight in weights.items():
        there = float(weight @ truth)
        found = alternating.at_fixed_n((logs @ weight)[:, :, None, None], (0.0, there))
        told = f"{machine} 2^{factors} n={at_once} {name}"
        print(f"{told}: {found.covered.mean():.3f} hold, {found.called.mean():.3f} called")
        assert found.covered.mean() >= 0.93
        if there == 0.0:
            assert found.called.mean() <= false_positive_bound(len(logs))


@pytest.mark.parametrize(("factors", "at_once"), [(2, 2), (2, 3), (3, 3), (3, 5)])
def test_what_the_baselines_cost_is_what_is_foretold(factors, at_once):
    """The variance of contrasts among cells, beside that of a pair, as the plan has it."""
    combinations, truth, logs = of_factors(factors, at_once, "writes")
    sizes = sub_block_sizes(len(combinations) - 1, at_once)
    pair = (against_baseline(logs)[:, :, 0] - truth[1:]).var()
    for weight in (
        factorial.main_effect(combinations, 1),
        factorial.synergy(combinations, 0, 1),
    ):
        found = (logs @ weight).var() / pair
        foretold = squares_in_sub_blocks(tuple(weight), 0, sizes) / 2.0
        print(f"2^{factors} n={at_once}: {found:.3f}, foretold {foretold:.3f}")
        assert found == pytest.approx(foretold, rel=0.1)


def test_without_the_baseline_beside_them_sub_blocks_cannot_be_compared():
    """The same runs put beside the baseline of another sub-block: what moved is in every contrast.

    With the own one it is in none.
    """
    nothing = (0.0,) * 6
    moved, still = (
        against_baseline(observed("writes", nothing, 3, campaigns=20, seed=25, jump=jump)).std()
        for jump in (JUMP, 0.0)
    )
    assert moved == pytest.approx(still, rel=0.02)
    assert still < 0.5 * JUMP  # so that it would show
