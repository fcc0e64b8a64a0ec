"""Factors: what the results become, what stands beside them, and who shares which error."""

from dataclasses import replace

import numpy as np
import pytest
from factored import measured, with_factors
from made_records import a_record, an_experiment, compared, noise

from steelyard.answers.attribution import (
    AttributedEffect,
    EffectFamily,
    alias_sentences,
    analyse_attribution,
)
from steelyard.answers.campaign import analyse
from steelyard.answers.comparison import compare_pair
from steelyard.answers.observations import result_contrasts, result_count
from steelyard.answers.result.compute import decide
from steelyard.answers.results import CampaignAnalysis
from steelyard.core.campaign import Status
from steelyard.core.experiment import AttributionKind, Combination
from steelyard.core.findings import Verdict
from steelyard.stats.spending import result_level, stopping_rule

LADDER, ABLATION = AttributionKind.LADDER, AttributionKind.ABLATION


def synergic(levels: Combination) -> float:
    """Return the truth of the method's own example: 10 %, nothing, 2 %, and 4 % together."""
    first, _, third = levels[:3]
    return 0.10 * first + 0.02 * third + 0.04 * first * third


def told(analysis: CampaignAnalysis, family: EffectFamily) -> dict[str, AttributedEffect]:
    """Return the effects of a family by name."""
    assert analysis.answer(analyse_attribution) is not None
    return {e.name: e for e in analysis.answer(analyse_attribution) if e.family is family}


def covers(effect: AttributedEffect, truth: float) -> bool:
    """Return whether the interval holds a true log ratio."""
    estimate = effect.effect
    assert estimate is not None
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low <= np.expm1(truth) <= estimate.high


def test_without_factors_a_result_is_contender_minus_baseline() -> None:
    """The weights are those of a difference, and nothing stands beside the results."""
    experiment = an_experiment(configurations=3, workloads=2)
    asked = result_contrasts(experiment)
    assert [(c.baseline, c.configuration) for c in asked] == [("t0", "t1"), ("t0", "t2")]
    assert [c.weights for c in asked] == [(-1.0, 1.0, 0.0), (-1.0, 0.0, 1.0)]
    assert result_count(experiment) == 4
    assert analyse(compared(8, experiment=experiment)).answer(analyse_attribution) is None


def test_weights_give_the_same_bits_as_a_difference() -> None:
    """A record of an earlier day gives the same numbers to the last bit."""
    experiment = an_experiment(configurations=4)
    record = compared(12, 0.03, experiment=experiment)
    levels = noise(12, 4, 5)
    levels[:, 1:] += np.log1p(0.03)
    seen = [c for c in analyse(record).comparisons if c.load == experiment.loads[2]]
    for place, comparison in enumerate(seen, start=1):
        runs = {
            (r.block, r.configuration): r for r in record.runs if r.cell.load == comparison.load
        }
        differences = [
            runs[b, f"t{place}"].measurement.log_tps - runs[b, "t0"].measurement.log_tps
            for b in range(12)
        ]
        assert list(comparison.contrasts) == differences


def test_four_configurations_against_one_baseline_share_the_error() -> None:
    """Bonferroni over configurations and workloads, and each is judged on its own."""
    experiment = an_experiment(configurations=5, workloads=2, loads=1)
    levels = noise(16, 5, 2)
    levels[:, 3] += 0.10
    analysis = analyse(a_record(levels, experiment))
    assert result_count(experiment) == 8
    assert analysis.plan is not None
    assert analysis.plan.stopping.alpha == pytest.approx(0.04 / 8)
    assert [c.configuration for c in analysis.results] == ["t1", "t2", "t3", "t4"] * 2
    faster = {c.configuration for c in analysis.results if c.verdict is Verdict.FASTER}
    assert faster == {"t3"}
    single = analyse(a_record(levels[:, [0, 3]], an_experiment(workloads=2, loads=1)))
    wide = {(c.workload, c.configuration): c.effect for c in analysis.results}["w0", "t3"]
    narrow = single.results[0].effect
    assert wide.high - wide.low > narrow.high - narrow.low


def test_main_effects_are_the_results() -> None:
    """One per factor and workload, labelled by its levels, and each holds the truth."""
    analysis = analyse(measured(with_factors(3, workloads=2), synergic))
    first = [(c.baseline, c.configuration) for c in analysis.results[:3]]
    assert first == [
        ("huge-pages=off", "huge-pages=on"),
        ("buffers=off", "buffers=on"),
        ("commit=off", "commit=on"),
    ]
    assert len(analysis.results) == 6
    assert analysis.plan is not None
    assert analysis.plan.stopping.results == 6
    for comparison, truth in zip(analysis.results, [0.12, 0.0, 0.04] * 2, strict=True):
        assert comparison.effect.low <= np.expm1(truth) <= comparison.effect.high
    assert analysis.results[0].verdict is Verdict.FASTER


def test_a_full_factorial_tells_everything() -> None:
    """Synergies, added alone, removed last and total hold the truth, workload by workload."""
    analysis = analyse(measured(with_factors(3), synergic))
    synergies = told(analysis, EffectFamily.SYNERGY)
    assert list(synergies) == ["huge-pages x buffers", "huge-pages x commit", "buffers x commit"]
    assert covers(synergies["huge-pages x commit"], 0.04)
    assert covers(synergies["huge-pages x buffers"], 0.0)
    alone, last = (
        told(analysis, EffectFamily.ADDED_ALONE),
        told(analysis, EffectFamily.REMOVED_LAST),
    )
    assert all(covers(alone[n], t) for n, t in [("huge-pages", 0.10), ("commit", 0.02)])
    assert all(covers(last[n], t) for n, t in [("huge-pages", 0.14), ("commit", 0.06)])
    (whole,) = told(analysis, EffectFamily.TOTAL).values()
    assert covers(whole, 0.16)
    assert alias_sentences(analysis.experiment.attribution) == ()


def test_each_family_shares_an_error_of_its_own() -> None:
    """Its level is that of as many results at the same look."""
    analysis = analyse(measured(with_factors(3, workloads=2), synergic))
    assert analysis.plan is not None
    for family, size in [
        (EffectFamily.SYNERGY, 6),
        (EffectFamily.ADDED_ALONE, 6),
        (EffectFamily.TOTAL, 2),
    ]:
        rule = stopping_rule(results=size, first_look=8, max_blocks=30, precision=None)
        assert rule.alpha == pytest.approx(0.04 / size)
        (level,) = {e.level for e in told(analysis, family).values()}
        assert level == pytest.approx(result_level(rule, 12, is_last=True))  # the time was up


def test_synergies_are_about_twice_as_wide() -> None:
    """At equal level their intervals have twice the width of the main effects' (METHOD 5)."""
    analysis = analyse(measured(with_factors(2), lambda _: 0.0, blocks=40))
    main = np.mean([np.ptp(_bounds(c.effect)) for c in analysis.results])
    (pair,) = told(analysis, EffectFamily.SYNERGY).values()
    assert 1.3 < np.ptp(_bounds(pair.effect)) / main < 2.7


def _bounds(effect: object) -> tuple[float, float]:
    return np.log1p(effect.low), np.log1p(effect.high)


@pytest.mark.parametrize(
    ("factors", "families", "groups"),
    [(4, set(), 3), (5, {EffectFamily.SYNERGY}, 0), (6, set(), 7), (7, set(), 7)],
)
def test_a_fraction_tells_what_is_clear(
    factors: int, families: set[EffectFamily], groups: int
) -> None:
    """Main effects always, synergies at resolution V only; what is mixed is listed in words."""
    analysis = analyse(measured(with_factors(factors, loads=1), lambda c: 0.2 * c[-1], blocks=8))
    assert analysis.answer(analyse_attribution) is not None
    assert {e.family for e in analysis.answer(analyse_attribution)} == families
    assert len(alias_sentences(analysis.experiment.attribution)) == groups
    faster = {c.configuration for c in analysis.results if c.verdict is Verdict.FASTER}
    assert len(analysis.results) == factors
    assert faster == {analysis.results[-1].configuration}


def test_a_ladder_gives_steps_and_the_total() -> None:
    """Each rung against the one before: the step of the third holds its synergy."""
    analysis = analyse(measured(with_factors(3, LADDER), synergic))
    for comparison, truth in zip(analysis.results, [0.10, 0.0, 0.06], strict=True):
        assert comparison.effect.low <= np.expm1(truth) <= comparison.effect.high
    assert analysis.answer(analyse_attribution) is not None
    (whole,) = analysis.answer(analyse_attribution)
    assert (whole.family, covers(whole, 0.16)) == (EffectFamily.TOTAL, True)


def test_an_ablation_gives_removals() -> None:
    """All against all but one: the synergy is counted twice."""
    analysis = analyse(measured(with_factors(3, ABLATION), synergic))
    for comparison, truth in zip(analysis.results, [0.14, 0.0, 0.06], strict=True):
        assert comparison.effect.low <= np.expm1(truth) <= comparison.effect.high
    assert analysis.answer(analyse_attribution) is not None
    assert analysis.answer(analyse_attribution) == ()


def test_one_factor_is_an_ordinary_comparison() -> None:
    """Its main effect is the second against the first, and there is no more to tell."""
    analysis = analyse(measured(with_factors(1), lambda c: 0.1 * c[0]))
    assert len(analysis.results) == 1
    assert analysis.answer(analyse_attribution) is not None
    assert analysis.answer(analyse_attribution) == ()


def test_main_effects_stop_the_campaign() -> None:
    """It goes on while one factor is open, and ends when all are decided."""
    one = measured(with_factors(2), lambda c: 0.2 * c[0])
    both = measured(with_factors(2), lambda c: 0.2 * c[0] + 0.2 * c[1])
    assert decide(analyse(one).comparisons, one.plan.stopping) is None
    assert decide(analyse(both).comparisons, both.plan.stopping) is Status.DECIDED


def test_stalls_are_compared_by_level() -> None:
    """The stalled slices of all combinations at a level are counted together."""
    experiment = with_factors(2)
    levels = noise(20, 4, 2)
    with_buffers = [c[1] == 1 for c in experiment.attribution.combinations]
    hit = np.random.default_rng(5).random((20, 4, 2)) < 0.2
    levels[hit & np.array(with_buffers)[:, None]] -= np.log(3.0)
    analysis = analyse(a_record(levels, experiment))
    assert [t.configuration for t in analysis.stalls] == ["huge-pages=on", "buffers=on"]
    test = analysis.stalls[1]
    assert (test.baseline_runs, test.configuration_runs, test.baseline_stalled) == (80, 80, 0)
    assert test.configuration_stalled > 8
    assert test.configuration_stalled == sum(c.stalled for c in analysis.cells)
    found = [f.subject for f in analysis.findings if f.code == "stalls-differ"]
    assert found == ["buffers=on"]


def test_the_warning_light_is_one_per_factor() -> None:
    """A factor whose effect rises along the start lights it, and the other does not."""
    record = measured(with_factors(2, loads=3), lambda _: 0.0, blocks=15)
    rising = tuple(
        replace(
            run,
            measurement=replace(
                run.measurement,
                transactions=run.measurement.transactions * float(np.exp(0.05 * run.position)),
            ),
        )
        if run.configuration.startswith("1")
        else run
        for run in record.runs
    )
    analysis = analyse(replace(record, runs=rising))
    lights = {check.configuration: check.p_value < 0.01 for check in analysis.warmup}
    assert lights == {"huge-pages=on": True, "buffers=on": False}


def test_a_pair_of_combinations_is_an_additional_look() -> None:
    """`compare` takes two configurations as ever; only steps and removals are in the plan."""
    for kind, pair, planned, turned in [
        (AttributionKind.FACTORS, ("00", "11"), False, False),
        (LADDER, ("10", "11"), True, False),
        (LADDER, ("11", "10"), True, True),
        (LADDER, ("00", "11"), False, False),
        (ABLATION, ("11", "01"), True, True),
    ]:
        record = measured(with_factors(2, kind), lambda c: 0.1 * c[1])
        found = compare_pair(record, analyse(record), reference=pair[0], configuration=pair[1])
        assert (found.planned, found.turned) == (planned, turned)
        assert found.campaign.answer(analyse_attribution) is None
        assert found.campaign.experiment.attribution is None
        assert [c.configuration for c in found.campaign.results] == [pair[1]]


@pytest.mark.parametrize("kind", list(AttributionKind))
@pytest.mark.parametrize("blocks", [0, 1, 5, 7, 8, 12])
def test_every_length_of_campaign(kind: AttributionKind, blocks: int) -> None:
    """From no block on, no warning is raised and no number is not a number."""
    analysis = analyse(measured(with_factors(3, kind), synergic, blocks=blocks))
    assert "nan" not in repr(analysis)
    for effect in analysis.answer(analyse_attribution):
        assert (effect.effect is None) == (blocks == 0)
        assert (effect.level is None) == (blocks < 8)
