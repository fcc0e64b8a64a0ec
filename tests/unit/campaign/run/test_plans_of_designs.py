"""Plans of factors, many cells and several rounds, and plans with noise that was measured."""

from dataclasses import replace
from pathlib import Path

import pytest

from fakes.campaigns import RESTART, Stage, an_experiment, asks
from steelyard.answers.outlook.compute import CampaignOutlook
from steelyard.answers.outlook.section import outlook_document, outlook_json, shortfall
from steelyard.campaign.foresee import planning
from steelyard.campaign.foresee.forecast import expected_warm_up_s
from steelyard.campaign.foresee.planning import _fewer_factors, plan_campaign
from steelyard.core.campaign import ALL_NAMED, ASSUMED_NOISE, NoiseOrigin, NoiseProfile
from steelyard.core.experiment import (
    Attribution,
    AttributionKind,
    Calibration,
    Configuration,
    Experiment,
    Factor,
    Measure,
    Stop,
)
from steelyard.core.target import LocalTarget
from steelyard.report.terminal import render_terminal
from steelyard.stats import factorial
from steelyard.targets.assembly import Assembly

MEASURE = Measure(slice_s=5.0, ramp_s=2.0, warm_up_s=20.0)
MEASURED = NoiseProfile(
    origin=NoiseOrigin.MEASURED,
    workloads=(
        replace(
            ASSUMED_NOISE.workloads[0],
            workload="reads",
            assumed=("restart_sd", "drift_sd"),
            unnamed=ALL_NAMED,
        ),
    ),
    warm_up_s=55.0,
    blocks=20,
    campaign_id="20261122-1",
    measured_at=0.0,
    place="this machine",
)


def planned(experiment: Experiment, tmp_path: Path) -> CampaignOutlook:
    """Return the plan of an experiment."""
    bench = Stage.new(experiment, tmp_path / experiment.name).bench()
    return plan_campaign(experiment, Assembly(engine=bench._engine, platforms=bench._platforms))


def text_of(found: CampaignOutlook) -> str:
    """Return what a terminal shows, on one line."""
    return " ".join(render_terminal(outlook_document(found), 200, whole=True).split())


def factored(
    factors: int, kind: AttributionKind = AttributionKind.FACTORS, loads: int = 2, hours: float = 4
) -> Experiment:
    """Return an experiment of so many factors that need a restart."""
    design = factorial.factorial_design(factors)
    combinations = {
        AttributionKind.FACTORS: design.combinations,
        AttributionKind.LADDER: factorial.ladder(factors),
        AttributionKind.ABLATION: factorial.ablation(factors),
    }[kind]
    attribution = Attribution(
        kind=kind,
        factors=tuple(Factor(name=f"f{n}", first="0", second="1") for n in range(factors)),
        combinations=combinations,
        words=design.words if kind is AttributionKind.FACTORS else (),
        resolution=design.resolution if kind is AttributionKind.FACTORS else None,
    )
    configurations = tuple(
        Configuration(
            name=f"t{place}",
            target=LocalTarget(),
            settings=asks(speed=f"1.0{place:02d}", **{RESTART: "on"} if place else {}),
        )
        for place in range(len(combinations))
    )
    base = an_experiment(loads=loads, measure=MEASURE, stop=Stop(budget_s=hours * 3600.0))
    return replace(
        base,
        name=f"{kind}-{factors}-{hours:g}",
        baseline="t0",
        configurations=configurations,
        attribution=attribution,
    )


@pytest.mark.slow
def test_a_main_effect_uses_every_run_and_a_synergy_is_twice_as_wide(tmp_path: Path) -> None:
    """Eight combinations halve the deviation of a pair; the table has a column for synergies."""
    found = planned(factored(3), tmp_path)
    workload = found.workloads[0]
    assert workload.synergies is not None
    assert workload.synergies.contrast_sd == pytest.approx(2 * workload.pooled.contrast_sd)
    pairs = planned(replace(factored(3), name="pairs", attribution=None), tmp_path).workloads[0]
    assert workload.pooled.contrast_sd == pytest.approx(pairs.pooled.contrast_sd / 2)
    assert pairs.synergies is None
    text = text_of(found)
    assert "synergy, 90th percentile" in text
    assert "each synergy of two" in text
    said = outlook_json(found)["workloads"][0]  # type: ignore[index, call-overload]
    assert said["synergy"]["contrast_sd"] > said["pooled"]["contrast_sd"]  # type: ignore[index]
    assert "synergy" not in text_of(planned(an_experiment(measure=MEASURE), tmp_path))


@pytest.mark.parametrize("kind", [AttributionKind.LADDER, AttributionKind.ABLATION])
def test_steps_and_removals_are_pairs(tmp_path: Path, kind: AttributionKind) -> None:
    """Two combinations are compared; a synergy is not told."""
    workload = planned(factored(3, kind), tmp_path).workloads[0]
    plain = planned(replace(factored(3, kind), name="plain", attribution=None), tmp_path)
    assert workload.pooled.contrast_sd == plain.workloads[0].pooled.contrast_sd
    assert workload.synergies is None


@pytest.mark.parametrize(("factors", "kept"), [(3, {1, 2}), (5, {4})])
def test_fewer_factors_are_a_way_out_and_single_contenders_are_not(
    tmp_path: Path, factors: int, kept: set[int]
) -> None:
    """What is offered has a smaller design; a combination alone says nothing of a factor."""
    found = planned(factored(factors, hours=0.5), tmp_path)
    assert not found.decides_results
    changes = [each.change for each in found.cheaper]
    assert not any("contender" in change for change in changes)
    fewer = [change for change in changes if f"instead of {factors} (without" in change]
    assert {int(change.split()[0]) for change in fewer} <= kept


def test_a_smaller_design_is_made_of_combinations_that_are_there() -> None:
    """Its configurations are the file's own, in the order of the smaller design."""

    def sizes(factors: int, kind: AttributionKind) -> list[int]:
        experiment = factored(factors, kind)
        assert experiment.attribution is not None
        made = [v.experiment for v in _fewer_factors(experiment, experiment.attribution)]
        for each in made:
            assert each.attribution is not None
            assert len(each.configurations) == len(each.attribution.combinations)
            assert each.configurations[0].name == "t0"
        return [len(each.configurations) for each in made]

    assert sizes(3, AttributionKind.FACTORS) == [4, 2]
    assert sizes(5, AttributionKind.FACTORS)[0] == 8
    assert sizes(3, AttributionKind.LADDER) == [3, 2]
    assert sizes(3, AttributionKind.ABLATION) == [3, 2]


def test_of_many_cells_the_minutes_are_those_of_one_that_differs_alone(tmp_path: Path) -> None:
    """Above ten cells the discoveries decide: said in words and for programs; below, not."""
    many, few = (
        planned(replace(an_experiment(loads=n, measure=MEASURE), name=f"l{n}"), tmp_path)
        for n in (12, 10)
    )
    assert "each cell that differs alone" in text_of(many)
    assert "the false discovery rate calls them earlier" in text_of(many)
    assert outlook_json(many)["cells_differ_alone"] is True
    assert "differs alone" not in text_of(few)
    assert outlook_json(few)["cells_differ_alone"] is False


def test_rounds_are_those_of_the_campaign(tmp_path: Path) -> None:
    """Four rounds per start: less noise per block, the same overhead in fewer seconds per run."""
    base = an_experiment(loads=2, measure=MEASURE)
    one = planned(replace(base, name="one"), tmp_path)
    four = planned(replace(base, name="four", measure=replace(MEASURE, rounds=4)), tmp_path)
    assert (one.rounds, four.rounds) == (1, 4)
    assert four.workloads[0].pooled.contrast_sd < one.workloads[0].pooled.contrast_sd
    slices = [each.workloads[0].slices.overhead_s for each in (one, four)]
    assert slices[1] == pytest.approx(2.25 + (slices[0] - 2.25) / 4)
    assert "4 per start" in text_of(four)
    assert "per start" not in text_of(one)


def test_measured_noise_says_whence_and_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Campaign, date, blocks; the parts that were assumed; a workload that was not measured."""
    monkeypatch.setattr(planning, "profile_for", lambda *_, **__: MEASURED)
    both = an_experiment(loads=5, workloads=("reads", "writes"), measure=MEASURE)
    found = planned(both, tmp_path)
    text = text_of(found)
    assert "measured on this machine by 20261122-1, 20 blocks, 1970-01-01" in text
    assert "of these assumed or halved: restarts and drift" in text
    assert "writes was not measured: the noisiest one's" in text
    assert "at the measured noise" in shortfall(found, "mine.yaml")
    said = outlook_json(found)["workloads"][0]  # type: ignore[index, call-overload]
    assert said["noise"]["assumed"] == ["restart_sd", "drift_sd"]  # type: ignore[index]


def test_measured_parts_are_not_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The assumed parts are raised by a tenth for what is in none of them."""
    assumed = planned(an_experiment(measure=MEASURE), tmp_path).workloads[0].pooled
    monkeypatch.setattr(planning, "profile_for", lambda *_, **__: MEASURED)
    measured = planned(replace(an_experiment(measure=MEASURE), name="m"), tmp_path)
    assert measured.workloads[0].pooled.contrast_sd == pytest.approx(assumed.contrast_sd / 1.1)


def test_a_warm_up_that_was_calibrated_before_is_expected_again() -> None:
    """Unless the file declares one; never less than the least that the file allows."""
    asked = Calibration()
    free = an_experiment(measure=replace(MEASURE, warm_up_s=None, calibration=asked))
    assert expected_warm_up_s(free) == asked.at_least_s
    assert expected_warm_up_s(free, MEASURED) == 55.0
    assert expected_warm_up_s(free, replace(MEASURED, warm_up_s=0.0)) == asked.at_least_s
    assert expected_warm_up_s(an_experiment(measure=MEASURE), MEASURED) == 20.0
