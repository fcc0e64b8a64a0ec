"""The plan of an experiment: what it decides, what would be cheaper, in a world without servers."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.campaigns import Stage, an_experiment
from steelyard.answers.outlook.compute import CampaignOutlook
from steelyard.answers.outlook.section import outlook_document, outlook_json, shortfall
from steelyard.campaign.foresee import planning
from steelyard.campaign.foresee.planning import plan_campaign
from steelyard.core.campaign import ASSUMED_NOISE, NoiseOrigin
from steelyard.core.experiment import Design, Experiment, Measure, Stop, SwitchCost
from steelyard.core.schedule import Mode
from steelyard.core.wording import format_share
from steelyard.report.terminal import render_terminal
from steelyard.targets.assembly import Assembly

MEASURE = Measure(slice_s=5.0, ramp_s=2.0, warm_up_s=20.0)


def planned(experiment: Experiment, tmp_path: Path) -> CampaignOutlook:
    """Return the plan of an experiment."""
    bench = Stage.new(experiment, tmp_path / experiment.name).bench()
    assembly = Assembly(engine=bench._engine, platforms=bench._platforms)
    return plan_campaign(experiment, assembly)


def text_of(found: CampaignOutlook) -> str:
    """Return what a terminal shows, on one line."""
    return " ".join(render_terminal(outlook_document(found), 200, whole=True).split())


def five_loads(**changes: object) -> Experiment:
    """Return five loads with restarts within an hour."""
    return replace(an_experiment(loads=5, measure=MEASURE), **changes)  # type: ignore[arg-type]


def test_one_result_is_decided_within_the_hour_and_cells_are_not(tmp_path: Path) -> None:
    """METHOD's own case: the design that decides is the pooled result, and it is said."""
    found = planned(five_loads(), tmp_path)
    assert found.decides_results
    assert not found.decides_cells
    first = found.cheaper[0]
    assert first.pooled
    assert "overall result" in first.change
    assert first.needed_s == found.workloads[0].pooled.at(0.03).most_s
    text = text_of(found)
    assert "long enough to detect an effect of 3 % in the results." in text
    assert "It is not decided in single cells: 5 per workload share the error." in text
    warning = shortfall(found, "mine.yaml")
    assert "single cells" in warning
    assert "`steelyard plan mine.yaml`" in warning


def test_a_short_budget_says_what_it_does_decide(tmp_path: Path) -> None:
    """A campaign stops early for a large effect, so the smallest one that it detects is said."""
    short = replace(five_loads(), name="short", stop=Stop(budget_s=1800.0))
    found = planned(short, tmp_path)
    assert not found.decides_results
    least = max(each.pooled.smallest or 0.0 for each in found.workloads)
    warning = shortfall(found, None)
    assert f"30 min detect differences of {format_share(least)} and more in the results" in warning
    assert "to detect 3 %: " in warning
    assert "do not decide" not in warning
    shorter = planned(replace(short, name="shorter", stop=Stop(budget_s=900.0)), tmp_path)
    assert shortfall(shorter, None).startswith("15 min end before the first interim result")


def test_too_many_cells_are_said_with_fewer_loads_and_their_minutes(tmp_path: Path) -> None:
    """What replaces the file is computed: planned as proposed, it takes what was said."""
    found = planned(five_loads(), tmp_path)
    fewer = next(each for each in found.cheaper if "instead of 5" in each.change)
    own = found.cheaper[-1]
    assert own.change.startswith("`--budget ")
    assert fewer.needed_s < own.needed_s
    loads = found.experiment.loads
    kept = tuple(load for load in loads if load.label in fewer.change.split("(")[1])
    assert len(kept) == int(fewer.change.split()[0])
    again = replace(five_loads(loads=kept), stop=Stop(budget_s=fewer.needed_s * 1.02), name="again")
    pooled = len(kept) == 1
    outlook = planned(again, tmp_path)
    assert outlook.decides_results if pooled else outlook.decides_cells


def test_a_budget_that_is_named_decides(tmp_path: Path) -> None:
    """`--budget` of the last design is enough: nothing is left to warn of."""
    own = planned(five_loads(), tmp_path).cheaper[-1]
    minutes = int(own.change.split("--budget ")[1].split("m")[0])
    longer = replace(five_loads(), name="longer", stop=Stop(budget_s=60.0 * minutes))
    found = planned(longer, tmp_path)
    assert found.decides_cells
    assert found.cheaper == ()
    assert shortfall(found, "x") == ""


def test_restarts_that_nobody_needs_are_a_way_out(tmp_path: Path) -> None:
    """Where the file asks for a dearer switch than the differences, back to back is offered."""
    base = an_experiment(loads=5, restart=False, measure=replace(MEASURE, switch=None))
    asking = replace(base, measure=replace(MEASURE, switch=SwitchCost.RESTART))
    short = Stop(budget_s=1500.0)
    found = planned(replace(asking, stop=short, name="asking"), tmp_path)
    assert found.mode is Mode.STARTS
    assert any("back to back" in each.change for each in found.cheaper)
    plain = planned(replace(base, stop=short, name="plain"), tmp_path)
    assert plain.mode is Mode.BACK_TO_BACK
    assert not any("back to back" in each.change for each in plain.cheaper)


def test_several_workloads_may_be_split(tmp_path: Path) -> None:
    """One campaign each is offered only where it takes less time in all."""
    several = an_experiment(
        loads=2, workloads=("reads", "writes"), measure=MEASURE, stop=Stop(budget_s=1200.0)
    )
    found = planned(several, tmp_path)
    own = found.cheaper[-1].needed_s
    for each in found.cheaper:
        assert each.needed_s * each.campaigns <= own
    assert [w.names for w in found.workloads] == [("reads", "writes")]


def test_measured_times_take_the_place_of_guesses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart that was seen to take a minute makes blocks and the best slice longer."""
    guessed = planned(five_loads(), tmp_path)
    slow = replace(ASSUMED_NOISE, origin=NoiseOrigin.MEASURED, start_s=60.0, restore_s=10.0)
    monkeypatch.setattr(planning, "profile_for", lambda *_, **__: slow)
    found = planned(replace(five_loads(), name="slow"), tmp_path)
    assert found.block_s == pytest.approx(guessed.block_s + 2 * 70.0, abs=5.0)
    before, after = (each.workloads[0].slices.single_s for each in (guessed, found))
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
    assert found.cheaper


def test_a_precision_is_foretold(tmp_path: Path) -> None:
    """With the half-width asked for and when it is reached."""
    stop = Stop(budget_s=7200.0, precision=0.02)
    text = text_of(planned(replace(five_loads(), stop=stop), tmp_path))
    assert "±2.0 % is reached after about" in text
    assert "no verdict ends the campaign" in text
    assert "no verdict ends" not in text_of(planned(replace(five_loads(), name="plain"), tmp_path))


def test_the_best_slice_follows_the_overhead(tmp_path: Path) -> None:
    """Without a warm-up less is lost per run, so shorter slices are the best."""
    costly = planned(five_loads(), tmp_path).workloads[0].slices
    cheap = replace(five_loads(), name="cheap", measure=replace(MEASURE, warm_up_s=0.0))
    slices = planned(cheap, tmp_path).workloads[0].slices
    assert slices.overhead_s < costly.overhead_s
    assert slices.single_s < costly.single_s
    assert slices.best_s <= costly.best_s
    for each in (slices, costly):
        assert each.cost <= 1.0 or each.slice_s != each.best_s


def test_the_json_has_every_effect_and_no_made_up_number(tmp_path: Path) -> None:
    """Seconds or null; the text's own figures; it survives strict JSON."""
    found = planned(five_loads(), tmp_path)
    content = json.loads(json.dumps(outlook_json(found), allow_nan=False))
    assert content["kind"] == "plan"
    assert content["noise"]["origin"] == "assumed"
    workload = content["workloads"][0]
    pooled = {e["effect_percent"]: e for e in workload["pooled"]["effects"]}
    assert sorted(pooled) == [1.0, 2.0, 3.0, 5.0, 10.0]
    assert pooled[1.0]["most_decided_s"] is None
    assert pooled[3.0]["half_decided_s"] < pooled[3.0]["most_decided_s"] <= 3600.0
    assert workload["cell"] is not None
    assert content["decides_results"] is True
    assert content["decides_cells"] is False
    assert {each["scope"] for each in content["cheaper"]} == {"pooled", "cell"}
