"""Minutes to decide, and what newly made servers and phases of checkpoints do to them."""

from dataclasses import replace

import numpy as np
import pytest
from factored import measured, with_factors
from made_records import a_record, an_experiment, compared

from steelyard.answers.campaign import analyse
from steelyard.answers.cells import instance_noise
from steelyard.answers.findings import checkpoint_phases
from steelyard.answers.outlook import compute
from steelyard.core.campaign import ASSUMED_NOISE, CampaignRecord, WorkloadNoise
from steelyard.core.experiment import SwitchCost
from steelyard.core.findings import Severity
from steelyard.core.measurement import CheckpointAge
from steelyard.core.schedule import Mode
from steelyard.stats.planning import BlockShape
from steelyard.stats.spending import cell_level, first_look_of, result_level, stopping_rule

TYPICAL = ASSUMED_NOISE.workloads[0]
SILENT = WorkloadNoise(
    workload="silent", second_sd=0, autocorrelation=0, slice_sd=0, restart_sd=0, drift_sd=0
)
BLOCK_S = 120.0


def terms(budget_s: float = 3600.0, **changes: object) -> compute.OutlookTerms:
    """Return METHOD's own design: five loads, restarts, blocks of two minutes."""
    made = compute.OutlookTerms(
        shape=BlockShape(mode=Mode.STARTS, configurations=2, cells=5, run_time_s=5.0, step_s=60.0),
        results=1,
        preparation_s=0.0,
        block_s=BLOCK_S,
        budget_s=budget_s,
        max_blocks=int(budget_s // BLOCK_S),
        first_look=first_look_of(2),
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
    needed = compute.outlook(TYPICAL, terms(), (effect,), pooled=pooled).at(effect).needed_s
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
    rule = stopping_rule(results=3, first_look=8, max_blocks=30, precision=None)
    for look in compute.looks_of(rule):
        assert look.level == pytest.approx(result_level(rule, look.blocks), rel=0.02)
    for look in compute.looks_of(rule, 5):
        assert look.level == pytest.approx(cell_level(rule, look.blocks, 5), rel=0.02)
    assert [look.blocks for look in compute.looks_of(rule)] == list(range(8, 31))
    long = stopping_rule(results=1, first_look=8, max_blocks=500, precision=None)
    thinned = [look.blocks for look in compute.looks_of(long)]
    assert (thinned[0], thinned[-1], len(thinned)) == (8, 500, 40)


def test_a_budget_without_a_look_decides_nothing() -> None:
    """The plan says what would, and divides by nothing."""
    found = compute.outlook(TYPICAL, terms(400.0), compute.EFFECTS, pooled=True)
    assert (found.half_width, found.smallest) == (None, None)
    for each in found.effects:
        assert (each.half_s, each.most_s, each.within_budget) == (None, None, 0.0)
        assert each.needed_s is not None
        assert each.needed_s > 400.0


def test_without_noise_the_first_look_decides() -> None:
    """Zero deviation is no division by zero, and a tiny effect takes no longer."""
    found = compute.outlook(SILENT, terms(), (1e-6, 0.03), pooled=True)
    assert found.contrast_sd == 0.0
    assert {each.most_s for each in found.effects} == {4 * BLOCK_S}
    assert {each.needed_s for each in found.effects} == {4 * BLOCK_S}
    assert found.smallest == 0.0


def test_what_no_budget_decides_has_no_minutes() -> None:
    """An effect far below any reach gives None, not a number with nine digits."""
    found = compute.outlook(TYPICAL, terms(), (1e-6,), pooled=True)
    assert found.at(1e-6).needed_s is None


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


HIDDEN = CheckpointAge(seconds=None, unknown="permission denied")


def aged(baseline: CheckpointAge | None, configuration: CheckpointAge | None) -> CampaignRecord:
    """Return a campaign whose runs all began in one phase per configuration."""
    record = compared(8, experiment=an_experiment(loads=1))
    phases = {"t0": baseline, "t1": configuration}
    runs = tuple(replace(run, checkpoint=phases[run.configuration]) for run in record.runs)
    return replace(record, runs=runs)


def codes(record: CampaignRecord) -> list[str]:
    """Return the codes of a campaign's findings."""
    return [finding.code for finding in analyse(record).findings]


def test_records_of_old_say_nothing() -> None:
    """Nobody asked, so there is no section, no finding and no zero."""
    analysis = analyse(aged(None, None))
    assert analysis.answer(checkpoint_phases) == ()
    assert "checkpoint-phase-differs" not in codes(aged(None, None))


def test_least_median_and_most_of_each_configuration() -> None:
    """In seconds since the cycle began, with the number that is known."""
    record = aged(CheckpointAge(seconds=4.0), CheckpointAge(seconds=10.0))
    first, *others = record.runs
    other = replace(first, checkpoint=CheckpointAge(seconds=1.0))
    phases = analyse(replace(record, runs=(other, *others))).answer(checkpoint_phases)
    by_name = {phase.configuration: phase for phase in phases}
    changed, same = by_name[first.configuration], by_name[others[0].configuration]
    assert (changed.least_s, changed.runs, changed.known) == (1.0, 8, 8)
    assert changed.median_s == changed.most_s == (4.0 if first.configuration == "t0" else 10.0)
    assert same.least_s == same.median_s == same.most_s


def test_what_the_server_hides_is_missing_with_its_reason() -> None:
    """None, and the server's own words."""
    (known, hidden) = analyse(aged(CheckpointAge(seconds=4.0), HIDDEN)).answer(checkpoint_phases)
    assert known.known == 8
    assert (hidden.known, hidden.least_s, hidden.median_s, hidden.most_s) == (0, None, None, None)
    assert hidden.unknown == "permission denied"
    assert "checkpoint-phase-differs" not in codes(aged(CheckpointAge(seconds=4.0), HIDDEN))


@pytest.mark.parametrize(
    ("mine", "told"), [(33.0, False), (35.0, True), (300.0, True), (4.0, False)]
)
def test_another_phase_is_told_from_half_a_minute_on(mine: float, *, told: bool) -> None:
    """A note, not a warning: a configuration may bring it about itself."""
    record = aged(CheckpointAge(seconds=4.0), CheckpointAge(seconds=mine))
    found = [f for f in analyse(record).findings if f.code == "checkpoint-phase-differs"]
    assert bool(found) is told
    assert all(f.severity is Severity.INFO and "later in" in f.message for f in found)
    turned = aged(CheckpointAge(seconds=mine), CheckpointAge(seconds=4.0))
    assert any("earlier in" in f.message for f in analyse(turned).findings) is told


def made(rounds: int, switch: SwitchCost = SwitchCost.REPROVISION) -> CampaignRecord:
    """Return 40 blocks whose newly made servers differ by 3 %, with runs that differ by 2 %."""
    rng = np.random.default_rng(9)
    log_tps = 7.0 + 0.03 * rng.standard_normal((40, 1, 2, 1))
    log_tps = log_tps + 0.02 * rng.standard_normal((40, rounds, 2, 1))
    return a_record(log_tps, an_experiment(loads=1), rounds=rounds, switch=switch)


def test_the_two_levels_of_newly_made_servers() -> None:
    """Both deviations of one side are found again, with the interval around the first."""
    (noise,) = analyse(made(4)).answer(instance_noise)
    assert noise.parts.instance_sd == pytest.approx(0.03, rel=0.3)
    assert noise.parts.run_sd == pytest.approx(0.02, rel=0.2)
    assert noise.parts.instance_low < 0.03 < noise.parts.instance_high
    assert (noise.parts.instances, noise.parts.runs) == (40, 4)
    assert 1 <= noise.best_rounds <= 8


def test_one_level_alone_is_not_taken_apart() -> None:
    """One run per server tells nothing of runs, and restarts are not made servers."""
    assert analyse(made(1)).answer(instance_noise) == ()
    assert analyse(made(4, SwitchCost.RESTART)).answer(instance_noise) == ()


def test_with_factors_the_two_sides_of_each_result_are_compared() -> None:
    """One note for the factor whose second level shifts the phase, none for each combination."""
    record = measured(with_factors(2, loads=1), lambda _: 0.0)
    late = {"10": 100.0, "11": 100.0}
    runs = tuple(
        replace(run, checkpoint=CheckpointAge(seconds=late.get(run.configuration, 4.0)))
        for run in record.runs
    )
    found = analyse(replace(record, runs=runs)).findings
    (told,) = (f for f in found if f.code == "checkpoint-phase-differs")
    assert told.subject == "huge-pages=on"
    assert "than those of huge-pages=off" in told.message
