"""The plan of an experiment, of any design: what it decides, and what others would."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.campaigns import RESTART, Stage, an_experiment, asks
from steelyard.answers.outlook.compute import CampaignOutlook
from steelyard.answers.outlook.section import outlook_document, outlook_json, shortfall
from steelyard.campaign.foresee import planning
from steelyard.campaign.foresee.forecast import expected_warm_up_s
from steelyard.campaign.foresee.planning import plan_campaign
from steelyard.core.campaign import ALL_NAMED, ASSUMED_NOISE, NoiseOrigin, NoiseProfile
from steelyard.core.experiment import (
    Attribution,
    AttributionKind,
    Calibration,
    Configuration,
    Design,
    Experiment,
    Factor,
    Measure,
    Stop,
)
from steelyard.core.target import LocalTarget
from steelyard.core.wording import format_share
from steelyard.report.terminal import render_terminal
from steelyard.stats import factorial
from steelyard.targets.assembly import Assembly

MEASURE = Measure(run_time_s=5.0, discard_start_s=2.0, warm_up_s=20.0)


def planned(experiment: Experiment, tmp_path: Path) -> CampaignOutlook:
    """Return the plan of an experiment."""
    bench = Stage.new(experiment, tmp_path / experiment.name).bench()
    assembly = Assembly(engine=bench._engine, platforms=bench._platforms)
    return plan_campaign(experiment, assembly)


def text_of(found: CampaignOutlook) -> str:
    """Return what a terminal shows, on one line."""
    return " ".join(render_terminal(outlook_document(found), 200).split())


def five_loads(**changes: object) -> Experiment:
    """Return five loads with restarts within an hour."""
    return replace(an_experiment(loads=5, measure=MEASURE), **changes)  # type: ignore[arg-type]


def test_one_result_is_decided_within_the_hour_and_cells_are_not(tmp_path: Path) -> None:
    """METHOD's own case: the pooled result is decided, and it is said what is not."""
    found = planned(five_loads(), tmp_path)
    assert found.decides_results
    assert not found.decides_cells
    text = text_of(found)
    assert "an effect of 3 % in the results: 9 of 10 campaigns detect 3 % in 60 min." in text
    assert "It is not decided in single cells: 5 per workload share the error." in text
    warning = shortfall(found, "mine.yaml")
    assert "single cells" in warning
    assert "`steelyard estimate mine.yaml`" in warning


def test_a_short_budget_says_what_it_does_decide(tmp_path: Path) -> None:
    """A campaign stops early for a large effect, so the smallest one that it detects is said."""
    short = replace(five_loads(), name="short", stop=Stop(budget_s=1800.0))
    found = planned(short, tmp_path)
    assert not found.decides_results
    least = max(each.pooled.smallest or 0.0 for each in found.workloads)
    warning = shortfall(found, None)
    assert f"30 min detect differences of {format_share(least)} and more in the results" in warning
    (own, *_) = found.designs
    assert own.needed_s is not None
    assert 0.2 < own.within_budget < 0.9
    assert f"; {int(10 * own.within_budget)} of 10 campaigns detect 3 % in 30 min, 9 of" in warning
    shorter = planned(replace(short, name="shorter", stop=Stop(budget_s=300.0)), tmp_path)
    assert shortfall(shorter, None).startswith("5 min end before the first interim result")


def test_other_designs_stand_beside_that_of_the_file(tmp_path: Path) -> None:
    """One load, and a workload each: a file of the design that is named decides as it was said."""
    both = five_loads(workloads=an_experiment(workloads=("reads", "writes")).workloads)
    found = planned(replace(both, stop=Stop(budget_s=1800.0)), tmp_path)
    own, one, each = found.designs
    assert (own.change, one.change) == ("", f"one load: {both.loads[2].label}")
    assert each.campaigns == 2
    text = text_of(found)
    assert "as the file has it" in text
    assert "2 campaigns of one workload each" in text
    for design, changed in (
        (one, {"loads": both.loads[2:3]}),
        (each, {"workloads": both.workloads[:1]}),
    ):
        assert design.needed_s is not None
        named = replace(
            both, name=design.change[:3], stop=Stop(budget_s=design.needed_s), **changed
        )  # type: ignore[arg-type]
        assert planned(named, tmp_path).workloads[0].pooled.at(0.03).within_budget >= 0.85


def test_a_budget_that_is_named_decides(tmp_path: Path) -> None:
    """With the budget that nine in ten need nothing is left to warn of in the results."""
    (own, *_) = planned(five_loads(stop=Stop(budget_s=900.0)), tmp_path).designs
    assert own.needed_s is not None
    longer = five_loads(name="longer", stop=Stop(budget_s=1.1 * own.needed_s))
    found = planned(longer, tmp_path)
    assert found.decides_results
    assert "the results" not in shortfall(found, "x")


def test_measured_times_take_the_place_of_guesses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart that was seen to take a minute makes blocks and the budget longer."""
    guessed = planned(five_loads(), tmp_path)
    slow = replace(ASSUMED_NOISE, origin=NoiseOrigin.MEASURED, start_s=60.0, restore_s=10.0)
    monkeypatch.setattr(planning, "profile_for", lambda *_, **__: slow)
    found = planned(replace(five_loads(), name="slow"), tmp_path)
    assert found.expected.block_s == pytest.approx(guessed.expected.block_s + 2 * 70.0, abs=5.0)
    before, after = (each.designs[0].needed_s for each in (guessed, found))
    assert before is not None
    assert after is not None
    assert after > before


def test_workloads_of_unlike_noise_have_tables_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The noisier one takes longer, and the results are decided only when both are."""
    typical = ASSUMED_NOISE.workloads[0]
    loud = replace(typical, workload="writes", slice_sd=0.1)
    profile = replace(ASSUMED_NOISE, workloads=(replace(typical, workload="reads"), loud))
    monkeypatch.setattr(planning, "profile_for", lambda *_, **__: profile)
    both = an_experiment(loads=1, workloads=("reads", "writes"), measure=MEASURE)
    reads, writes = planned(replace(both, stop=Stop(budget_s=14400.0)), tmp_path).workloads
    assert (reads.names, writes.names) == (("reads",), ("writes",))
    assert reads.pooled.at(0.03).within_budget > writes.pooled.at(0.03).within_budget
    assert reads.cells is None


@pytest.mark.parametrize("single_pass", [True, False])
def test_without_a_comparison_nothing_is_decided(tmp_path: Path, *, single_pass: bool) -> None:
    """One configuration alone: times and disk, and no effect."""
    base = an_experiment()
    alone = replace(base, configurations=base.configurations[:1])
    found = planned(replace(alone, design=Design.ONCE) if single_pass else alone, tmp_path)
    assert found.workloads == ()
    assert "Nothing is compared" in text_of(found)
    assert shortfall(found, "x") == ""
    assert outlook_json(found)["decides_results"] is None


def test_a_budget_before_the_first_look_is_planned_all_the_same(tmp_path: Path) -> None:
    """It decides nothing, and the plan says what would."""
    found = planned(replace(five_loads(), stop=Stop(budget_s=30.0)), tmp_path)
    text = text_of(found)
    assert "nothing, the budget ends before the first interim result" in text
    assert "not within 30 s (needs about" in text
    assert found.designs[0].needed_s is not None


def test_a_precision_is_foretold(tmp_path: Path) -> None:
    """With the half-width asked for and when it is reached."""
    stop = Stop(budget_s=7200.0, width=0.02)
    text = text_of(planned(replace(five_loads(), stop=stop), tmp_path))
    assert "±2.0 % is reached after about" in text
    assert "no verdict ends the campaign" in text
    assert "no verdict ends" not in text_of(planned(replace(five_loads(), name="plain"), tmp_path))


def test_the_json_has_every_effect_and_no_made_up_number(tmp_path: Path) -> None:
    """Seconds or null; the text's own figures; it survives strict JSON."""
    found = planned(five_loads(), tmp_path)
    content = json.loads(json.dumps(outlook_json(found), allow_nan=False))
    assert content["kind"] == "estimate"
    assert content["noise"]["origin"] == "assumed"
    workload = content["workloads"][0]
    pooled = {e["effect_percent"]: e for e in workload["pooled"]["effects"]}
    assert sorted(pooled) == [1.0, 2.0, 3.0, 5.0, 10.0]
    assert pooled[1.0]["most_decided_s"] is None
    assert pooled[3.0]["half_decided_s"] < pooled[3.0]["most_decided_s"] <= 3600.0
    assert workload["cell"] is not None
    assert content["decides_results"] is True
    assert content["decides_cells"] is False
    own, one = content["designs"]
    assert (own["change"], own["campaigns"], own["decided_within_budget"] > 0.9) == (None, 1, True)
    assert one["needed_s"] is None or one["needed_s"] > 0.0


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


def planned_design(experiment: Experiment, tmp_path: Path) -> CampaignOutlook:
    """Return the plan of an experiment."""
    bench = Stage.new(experiment, tmp_path / experiment.name).bench()
    return plan_campaign(experiment, Assembly(engine=bench._engine, platforms=bench._platforms))


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
    found = planned_design(factored(3), tmp_path)
    workload = found.workloads[0]
    assert workload.synergies is not None
    assert workload.synergies.contrast_sd == pytest.approx(2 * workload.pooled.contrast_sd)
    pairs = planned_design(
        replace(factored(3), name="pairs", attribution=None), tmp_path
    ).workloads[0]
    assert workload.pooled.contrast_sd == pytest.approx(pairs.pooled.contrast_sd / 2)
    assert pairs.synergies is None
    text = text_of(found)
    assert "synergy, 90th percentile" in text
    assert "each synergy of two" in text
    said = outlook_json(found)["workloads"][0]  # type: ignore[index, call-overload]
    assert said["synergy"]["contrast_sd"] > said["pooled"]["contrast_sd"]  # type: ignore[index]
    assert "synergy" not in text_of(planned_design(an_experiment(measure=MEASURE), tmp_path))


@pytest.mark.parametrize("kind", [AttributionKind.LADDER, AttributionKind.ABLATION])
def test_steps_and_removals_are_pairs(tmp_path: Path, kind: AttributionKind) -> None:
    """Two combinations are compared; a synergy is not told."""
    workload = planned_design(factored(3, kind), tmp_path).workloads[0]
    plain = planned_design(replace(factored(3, kind), name="plain", attribution=None), tmp_path)
    assert workload.pooled.contrast_sd == plain.workloads[0].pooled.contrast_sd
    assert workload.synergies is None


def test_of_many_cells_the_minutes_are_those_of_one_that_differs_alone(tmp_path: Path) -> None:
    """Above ten cells the discoveries decide: said in words and for programs; below, not."""
    many, few = (
        planned_design(replace(an_experiment(loads=n, measure=MEASURE), name=f"l{n}"), tmp_path)
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
    one = planned_design(replace(base, name="one"), tmp_path)
    four = planned_design(
        replace(base, name="four", measure=replace(MEASURE, runs_per_start=4)), tmp_path
    )
    assert (one.expected.rounds.number, four.expected.rounds.number) == (1, 4)
    assert four.workloads[0].pooled.contrast_sd < one.workloads[0].pooled.contrast_sd
    assert "4 per start" in text_of(four)
    assert "per start:" not in text_of(one)


def test_measured_noise_says_whence_and_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Campaign, date, blocks; the parts that were assumed; a workload that was not measured."""
    monkeypatch.setattr(planning, "profile_for", lambda *_, **__: MEASURED)
    both = an_experiment(loads=5, workloads=("reads", "writes"), measure=MEASURE)
    found = planned_design(both, tmp_path)
    text = text_of(found)
    assert "measured on this machine by 20261122-1, 20 blocks, 1970-01-01" in text
    assert "of these assumed or halved: restarts and drift" in text
    assert "writes was not measured: the noisiest one's" in text
    assert "at the measured noise" in shortfall(found, "mine.yaml")
    said = outlook_json(found)["workloads"][0]  # type: ignore[index, call-overload]
    assert said["noise"]["assumed"] == ["restart_sd", "drift_sd"]  # type: ignore[index]


def test_measured_parts_are_not_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The assumed parts are raised by a tenth for what is in none of them."""
    assumed = planned_design(an_experiment(measure=MEASURE), tmp_path).workloads[0].pooled
    monkeypatch.setattr(planning, "profile_for", lambda *_, **__: MEASURED)
    measured = planned_design(replace(an_experiment(measure=MEASURE), name="m"), tmp_path)
    assert measured.workloads[0].pooled.contrast_sd == pytest.approx(assumed.contrast_sd / 1.1)


def test_a_warm_up_that_was_calibrated_before_is_expected_again() -> None:
    """Unless the file declares one; never less than the least that the file allows."""
    asked = Calibration()
    free = an_experiment(measure=replace(MEASURE, warm_up_s=None, calibration=asked))
    assert expected_warm_up_s(free) == asked.at_least_s
    assert expected_warm_up_s(free, MEASURED) == 55.0
    assert expected_warm_up_s(free, replace(MEASURED, warm_up_s=0.0)) == asked.at_least_s
    assert expected_warm_up_s(an_experiment(measure=MEASURE), MEASURED) == 20.0
