"""Minutes to decide: the campaign's own levels, and what follows from noise, effect and budget."""

from dataclasses import replace

import pytest

from steelyard.answers.outlook import compute
from steelyard.core.campaign import ASSUMED_NOISE, WorkloadNoise
from steelyard.core.schedule import Mode
from steelyard.stats.planning import BlockShape
from steelyard.stats.spending import cell_level, result_level, stopping_rule

TYPICAL = ASSUMED_NOISE.workloads[0]
SILENT = WorkloadNoise(
    workload="silent", second_sd=0, autocorrelation=0, slice_sd=0, restart_sd=0, drift_sd=0
)
BLOCK_S = 120.0


def terms(budget_s: float = 3600.0, **changes: object) -> compute.OutlookTerms:
    """Return METHOD's own design: five loads, restarts, blocks of two minutes."""
    made = compute.OutlookTerms(
        shape=BlockShape(mode=Mode.STARTS, configurations=2, cells=5, slice_s=5.0, step_s=60.0),
        results=1,
        preparation_s=0.0,
        block_s=BLOCK_S,
        budget_s=budget_s,
        max_blocks=int(budget_s // BLOCK_S),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def test_the_typical_hour_is_the_methods() -> None:
    """3 % pooled: half by 32 min, 98 % within the hour; 5 % by 20 min; one cell of five not.

    The reference figures are those of METHOD section 4; the test of the method has the bounds.
    """
    result = compute.outlook(TYPICAL, terms(), compute.EFFECTS, pooled=True)
    cell = compute.outlook(TYPICAL, terms(), compute.EFFECTS, pooled=False)
    assert result.at(0.03).half_s == pytest.approx(32 * 60, abs=240)
    assert result.at(0.03).within_budget == pytest.approx(0.98, abs=0.03)
    assert result.at(0.05).half_s == pytest.approx(20 * 60, abs=240)
    assert result.at(0.01).within_budget == pytest.approx(0.24, abs=0.06)
    assert result.half_width == pytest.approx(0.0155, rel=0.15)
    assert cell.at(0.03).within_budget < 0.5
    assert cell.at(0.03).most_s is None


@pytest.mark.parametrize(("budget_s", "share"), [(1800.0, 0.75), (7200.0, 1.0)])
def test_what_a_budget_buys_is_the_methods(budget_s: float, share: float) -> None:
    """METHOD 4: a 3 % effect in 75 % of campaigns of 30 min, in all of two hours."""
    found = compute.outlook(TYPICAL, terms(budget_s), compute.EFFECTS, pooled=True)
    assert found.at(0.03).within_budget == pytest.approx(share, abs=0.05)


def test_larger_effects_take_no_longer() -> None:
    """Times fall and shares rise with the effect, pooled and per cell."""
    for pooled in (True, False):
        effects = compute.outlook(TYPICAL, terms(), compute.EFFECTS, pooled=pooled).effects
        shares = [each.within_budget for each in effects]
        assert shares == sorted(shares)
        needed = [each.needed_s for each in effects if each.needed_s is not None]
        assert needed == sorted(needed, reverse=True)
        for times in ([e.half_s for e in effects], [e.most_s for e in effects]):
            known = [seconds for seconds in times if seconds is not None]
            assert known == sorted(known, reverse=True)
            assert times == [None] * (len(times) - len(known)) + known


def test_noise_results_and_configurations_cost_time() -> None:
    """Each makes the least decidable effect larger."""

    def smallest(noise: WorkloadNoise = TYPICAL, **changes: object) -> float:
        found = compute.outlook(noise, terms(**changes), (0.03,), pooled=True).smallest  # type: ignore[arg-type]
        assert found is not None
        return found

    usual = smallest()
    assert smallest(replace(TYPICAL, restart_sd=0.03)) > usual
    assert smallest(results=4) > usual
    assert smallest(budget_s=7200.0) < usual
    three = replace(terms().shape, configurations=3)
    assert smallest(shape=three) > usual
    assert smallest(weights=(0.5, -0.5, 0.5, -0.5)) < usual


@pytest.mark.parametrize("pooled", [True, False])
@pytest.mark.parametrize("effect", [0.02, 0.03, 0.05, 0.10])
def test_the_budget_that_is_needed_suffices_and_little_less_does_not(
    effect: float, *, pooled: bool
) -> None:
    """Planned with the budget that is named, about nine in ten decide; with 80 % of it, fewer."""
    needed = compute.needed_s(TYPICAL, terms(), effect, pooled=pooled)
    assert needed is not None
    blocks = round(needed / BLOCK_S)
    within = compute.outlook(TYPICAL, terms(max_blocks=blocks), (effect,), pooled=pooled)
    assert within.at(effect).within_budget >= 0.87
    less = terms(max_blocks=int(blocks * 0.8))
    short = compute.outlook(TYPICAL, less, (effect,), pooled=pooled).at(effect).within_budget
    assert short < 0.9 or blocks <= (8 if pooled else 6)


def test_times_count_from_the_start_of_the_preparation() -> None:
    """As the budget does."""
    later = terms(preparation_s=600.0)
    first, second = (
        compute.outlook(TYPICAL, t, (0.05,), pooled=True).at(0.05) for t in (terms(), later)
    )
    assert first.half_s is not None
    assert second.half_s == first.half_s + 600.0
    assert first.needed_s is not None
    assert second.needed_s == first.needed_s + 600.0


def test_levels_are_those_of_the_campaign() -> None:
    """Every look's level is the stopping rule's, to the 2 % of a coarser grid."""
    rule = stopping_rule(results=3, cells_per_result=5, max_blocks=30, precision=None)
    for look in compute.looks_of(rule):
        assert look.level == pytest.approx(result_level(rule, look.blocks), rel=0.02)
    for look in compute.looks_of(rule, 5):
        assert look.level == pytest.approx(cell_level(rule, look.blocks, 5), rel=0.02)
    assert [look.blocks for look in compute.looks_of(rule)] == list(range(8, 31))
    long = stopping_rule(results=1, cells_per_result=5, max_blocks=500, precision=None)
    thinned = [look.blocks for look in compute.looks_of(long)]
    assert (thinned[0], thinned[-1], len(thinned)) == (8, 500, 40)


def test_a_budget_without_a_look_decides_nothing() -> None:
    """The plan says what would, and divides by nothing."""
    found = compute.outlook(TYPICAL, terms(600.0), compute.EFFECTS, pooled=True)
    assert (found.half_width, found.smallest) == (None, None)
    for each in found.effects:
        assert (each.half_s, each.most_s, each.within_budget) == (None, None, 0.0)
        assert each.needed_s is not None
        assert each.needed_s > 600.0


def test_without_noise_the_first_look_decides() -> None:
    """Zero deviation is no division by zero, and a tiny effect takes no longer."""
    found = compute.outlook(SILENT, terms(), (1e-6, 0.03), pooled=True)
    assert found.contrast_sd == 0.0
    assert {each.most_s for each in found.effects} == {8 * BLOCK_S}
    assert {each.needed_s for each in found.effects} == {8 * BLOCK_S}
    assert found.smallest == 0.0


def test_what_no_budget_decides_has_no_minutes() -> None:
    """An effect far below any reach gives None, not a number with nine digits."""
    assert compute.needed_s(TYPICAL, terms(), 1e-6, pooled=True) is None


def test_a_precision_is_reached_when_the_method_says() -> None:
    """METHOD 3.4: typical, five loads, restarts: 1.5 % in 52 min, 1 % in 108; noise decides."""
    for precision, minutes in ((0.015, 52), (0.01, 108)):
        asked = terms(7200.0, precision=precision)
        found = compute.precision_s(TYPICAL, asked)
        assert found is not None
        assert found / 60 == pytest.approx(minutes, rel=0.2)
    assert compute.precision_s(TYPICAL, terms()) is None
    assert compute.precision_s(SILENT, asked) == 12 * BLOCK_S
    assert compute.precision_s(TYPICAL, terms(precision=1e-6)) is None


def test_with_a_precision_each_look_stands_for_itself() -> None:
    """No verdict stops the campaign, and the level of a look is the whole one."""
    asked = terms(precision=0.01)
    rule = asked.rule(asked.max_blocks)
    assert {look.level for look in compute.looks_of(rule)} == {rule.alpha}
    at_end = compute.outlook(TYPICAL, asked, (0.03,), pooled=True).at(0.03).within_budget
    assert at_end > compute.outlook(TYPICAL, terms(), (0.03,), pooled=True).at(0.03).within_budget
