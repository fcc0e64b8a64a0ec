"""What is said before and after a campaign in turns, in a world without servers."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes import analyses
from fakes.campaigns import IN_TURNS, Stage, an_experiment, four_configurations, room_for
from steelyard.answers.comparison import compare_campaigns
from steelyard.answers.outlook.compute import CampaignOutlook, Forecast
from steelyard.answers.outlook.section import ASSUMED, ASSUMED_TURNS, outlook_document, outlook_json
from steelyard.answers.report import build_document, summary
from steelyard.answers.result.method import design_pairs
from steelyard.campaign.design.noise_profiles import TimedWorkload, keep_latency
from steelyard.campaign.foresee import planning
from steelyard.campaign.foresee.forecast import forecast, forecast_either
from steelyard.campaign.foresee.planning import plan_campaign
from steelyard.cli.progress import PlainProgress, dry_run_json, forecast_text
from steelyard.core.campaign import NoiseOrigin, NoiseProfile, TurnNoise, WorkloadNoise
from steelyard.core.experiment import Design, Experiment, Measure, Reset, Script, Stop, Workload
from steelyard.core.schedule import LONGEST_LATENCY_S, Load, Mode, TurnTimes, WorkloadTurns
from steelyard.core.target import EndpointTarget
from steelyard.gateways.doors import system_doors
from steelyard.record.directory import read_campaign
from steelyard.report.html import render_markdown
from steelyard.report.terminal import render_terminal
from steelyard.targets.assembly import Assembly
from steelyard.targets.differences import Room, choose_design

MEASURE = Measure(run_time_s=5.0, discard_start_s=2.0)
QUIET = WorkloadNoise(
    workload="reads",
    second_sd=0.02,
    autocorrelation=0.0,
    slice_sd=0.0,
    restart_sd=0.05,
    drift_sd=0.0,
    unnamed=1.0,
    turns=TurnNoise(start_sd=0.01, connection_sd=0.02, second_sd=0.02),
)
MEASURED = NoiseProfile(
    origin=NoiseOrigin.MEASURED,
    workloads=(QUIET,),
    mode=Mode.ALTERNATING,
    blocks=12,
    campaign_id="20261123-1",
)


def alternating(**changes: object) -> Experiment:
    """Return two configurations that may be up together."""
    return replace(an_experiment(loads=1, measure=MEASURE), **changes)  # type: ignore[arg-type]


def assembled(experiment: Experiment, tmp_path: Path, room: Room = IN_TURNS) -> Assembly:
    """Return engine and platforms of this world, with room for servers that are up together."""
    bench = Stage.new(experiment, tmp_path / experiment.name).bench()
    return Assembly(engine=bench._engine, platforms=bench._platforms, room=room)


def foretold(experiment: Experiment, tmp_path: Path) -> Forecast:
    """Return the forecast of an experiment."""
    return forecast(experiment, assembled(experiment, tmp_path))


def planned(experiment: Experiment, tmp_path: Path) -> CampaignOutlook:
    """Return the plan of an experiment."""
    return plan_campaign(experiment, assembled(experiment, tmp_path))


def text_of(found: CampaignOutlook) -> str:
    """Return what a terminal shows of a plan, on one line."""
    return " ".join(render_terminal(outlook_document(found), 200).split())


def test_a_forecast_says_how_turns_are_taken(tmp_path: Path) -> None:
    """Design and reason, turn, settling, seconds, warm-up, what stands still, memory."""
    experiment = alternating(
        measure=replace(MEASURE, turns=TurnTimes(turn_s=0.5, turn_discard_s=0.2, reconnects=3))
    )
    expected = foretold(experiment, tmp_path)
    assert expected.memory is not None
    text = forecast_text(experiment, expected)
    for words in (
        (
            "alternating, because all of them can be up at the same time; each configuration from"
            " fresh"
        ),
        (
            "0.5 s, of which the first 0.2 s are thrown away; 5 s per configuration, cell and"
            " block, in 4"
        ),
        "3 s of them count",
        "warm-up    2 s under load per start and workload",
        "stopped by signals (SIGSTOP)",
        "64.0 GiB available",
    ):
        assert words in text
    told = json.loads(json.dumps(dry_run_json(experiment, expected)))
    assert told["turns"]["reconnects"] == 3
    assert told["turns"]["counted_s"] == 3.0
    assert told["turns"]["pausing"] == "signals"
    assert told["design_reason"] == "all of them can be up at the same time"


def test_what_a_run_does_when_it_has_timed_a_transaction_is_said_before(tmp_path: Path) -> None:
    """Dry run and plan name the limit, and the design of the run beyond it."""
    experiment = alternating()
    assembly = assembled(experiment, tmp_path)
    expected = forecast_either(experiment, assembly)
    starts = foretold(replace(experiment, design=Design.ONE_BY_ONE), tmp_path / "starts")
    assert expected.otherwise is not None
    assert (expected.otherwise.mode, expected.otherwise.block_s) == (Mode.STARTS, starts.block_s)
    (line,) = (
        each for each in forecast_text(experiment, expected).splitlines() if "if slow" in each
    )
    assert "over 250 ms a transaction" in line
    assert f"one by one, about {starts.max_blocks} blocks of" in line
    assert f"first interim result after {starts.stopping.first_look} at about" in line
    known = json.loads(json.dumps(dry_run_json(experiment, expected)))["one_by_one"]
    assert known["max_blocks"] == starts.max_blocks
    assert known["above_latency_s"] == pytest.approx(0.25)
    found = plan_campaign(experiment, assembly)
    assert "one by one, about" in text_of(found)
    assert "one by one, about" in str(outlook_json(found)["condition"])
    for insists, words in ((Design.ALTERNATING, "the run ends"), (Design.ONE_BY_ONE, "")):
        asking = replace(experiment, design=insists)
        foreseen = forecast_either(asking, assembly)
        assert foreseen.otherwise is None
        text = forecast_text(asking, foreseen)
        assert (words in text) if words else ("if slow" not in text)


@pytest.mark.parametrize(("latency_s", "mode"), [(0.249, "alternating"), (0.253, "starts")])
def test_the_limit_that_is_said_is_the_one_that_the_run_keeps(
    tmp_path: Path, latency_s: float, mode: str
) -> None:
    """A transaction just below takes turns, one just above is measured one by one."""
    experiment = alternating()
    turns = WorkloadTurns(workload="reads", times=TurnTimes().for_latency(latency_s))
    engine = assembled(experiment, tmp_path).engine
    assert choose_design(experiment, engine, IN_TURNS, (turns,)).alternates is (
        mode == "alternating"
    )
    limit_s = pytest.approx(LONGEST_LATENCY_S, rel=0.02)
    assert latency_s == limit_s


def test_a_latency_that_was_timed_today_leaves_a_plan_no_condition(tmp_path: Path) -> None:
    """Turns are as long as the run will take them; after a day it is timed anew."""
    experiment = alternating()
    assembly = assembled(experiment, tmp_path)
    now = system_doors().clock.now()

    def foresee(mean_s: float, ago_s: float = 60.0) -> Forecast:
        timed = TimedWorkload(mean_s=mean_s, timed_at=now - ago_s)
        workload = experiment.workloads[0]
        for each in experiment.configurations:
            keep_latency(experiment, assembly.engine, workload, each.name, timed)
        return forecast_either(experiment, assembly)

    expected = foresee(0.005)
    assert (expected.mode, expected.otherwise) == (Mode.ALTERNATING, None)
    text = forecast_text(experiment, expected)
    assert "0.5 s, of which the first 0.1 s" in text
    assert "if slow" not in text
    assert "0.5 s, of which" in text_of(plan_campaign(experiment, assembly))
    slow = foresee(0.3)
    assert slow.mode is Mode.STARTS
    assert "a turn of reads would have to last 6 s" in slow.design_reason
    assert foresee(0.3, ago_s=90_000.0).otherwise is not None
    other = replace(experiment, loads=(Load(clients=64, threads=1),))
    foresee(0.3)
    assert forecast_either(other, assembly).otherwise is not None


def test_plans_and_forecasts_tell_sub_blocks(tmp_path: Path) -> None:
    """How many are up, why, what they need, more starts of the baseline, and the disk of two."""
    experiment = alternating(configurations=four_configurations().configurations)
    assembly = assembled(experiment, tmp_path, room_for(2))
    expected = forecast(experiment, assembly)  # each server of this world takes one byte
    assert expected.at_once == 2
    text = forecast_text(experiment, expected)
    design = "alternating in sub-blocks of at most 2 configurations with the baseline in each"
    assert f"{design}, because no more of them fit into memory at the same time" in text
    assert "for the servers of a sub-block with their data" in text
    assert dry_run_json(experiment, expected)["turns"]["memory"]["at_once"] == 2  # type: ignore[index]
    roomy = forecast(experiment, replace(assembly, room=IN_TURNS))
    assert roomy.at_once is None
    assert expected.block_s == pytest.approx(roomy.block_s * 6 / 4)
    small, large = (next(iter(e.disk_bytes.values()))[0] for e in (expected, roomy))
    assert small < large
    found = plan_campaign(experiment, assembly)
    assert design in text_of(found)
    terms = planning.outlook_terms(experiment, expected, experiment.workloads[0].name)
    assert terms.shape.sub_blocks == (1, 1, 1)


def test_why_not_is_said_where_configurations_do_not_alternate(tmp_path: Path) -> None:
    """The reason stands beside what switching needs; nothing is said of turns."""
    experiment = alternating(design=Design.ONE_BY_ONE)
    text = forecast_text(experiment, foretold(experiment, tmp_path))
    assert "not alternating, because the experiment asks for it" in text
    assert "in pauses" not in text
    found = planned(replace(experiment, name="planned"), tmp_path)
    assert "not alternating, because the experiment asks for it" in text_of(found)
    assert "turns" not in outlook_json(found)


def test_a_workload_with_a_slice_of_its_own_decides_sooner(tmp_path: Path) -> None:
    """Its blocks vary less, the other's as before; both lengths are told."""
    reads, writes = an_experiment(workloads=("reads", "writes")).workloads
    experiment = alternating(workloads=(reads, writes))
    longer = alternating(name="longer", workloads=(reads, replace(writes, run_time_s=20.0)))
    before, after = planned(experiment, tmp_path), planned(longer, tmp_path)
    (both,), (short, long) = before.workloads, after.workloads
    assert (both.names, short.names, long.names) == (("reads", "writes"), ("reads",), ("writes",))
    assert short.pooled.contrast_sd == both.pooled.contrast_sd > long.pooled.contrast_sd
    assert "5 s (reads) or 20 s (writes), per configuration, cell and block" in text_of(after)
    (told,) = outlook_json(after)["turns"]["workloads"]  # type: ignore[index, misc]
    assert (told["workload"], told["run_time_s"]) == ("writes", 20.0)  # type: ignore[index, call-overload]


def test_a_plan_without_a_measurement_names_the_source_of_its_noise(tmp_path: Path) -> None:
    """That of turns is of a machine that was measured, that of starts of the simulator."""
    text = text_of(planned(alternating(), tmp_path))
    assert ASSUMED_TURNS in text
    assert ASSUMED in text_of(planned(alternating(name="v", design=Design.ONE_BY_ONE), tmp_path))


def test_a_plan_goes_by_the_noise_of_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its minutes follow from starts, connections and seconds."""
    monkeypatch.setattr(planning, "profile_for", lambda *_, **__: MEASURED)
    found = planned(alternating(stop=Stop(budget_s=3600.0)), tmp_path)
    of_run = 0.02**2 + 0.02**2 / 3.0
    assert found.workloads[0].pooled.contrast_sd == pytest.approx((2 * (0.01**2 + of_run)) ** 0.5)
    text = text_of(found)
    assert "starts 1.0 %, connections 2.0 %, one second of turns 2.0 %" in text
    assert "it was measured" not in text


def test_noise_of_the_other_design_bounds_that_of_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the plan says so."""
    profile = replace(MEASURED, mode=Mode.STARTS, workloads=(replace(QUIET, turns=None),))
    monkeypatch.setattr(planning, "profile_for", lambda *_, **__: profile)
    found = planned(alternating(stop=Stop(budget_s=3600.0)), tmp_path)
    assert "it was measured one by one, so that turns show no more" in text_of(found)


def test_turns_are_a_cheaper_design_where_the_noise_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file asks for starts, and this machine decides sooner in turns."""
    monkeypatch.setattr(planning, "profile_for", lambda *_, **__: MEASURED)
    found = planned(
        alternating(design=Design.ONE_BY_ONE, stop=Stop(budget_s=900.0, detect=0.01)), tmp_path
    )
    own, turned = found.designs
    assert "in turns" in turned.change
    assert turned.within_budget > own.within_budget
    assert "it was measured in turns" in text_of(found)


def a_campaign(path: Path, **changes: object) -> Stage:
    """Return a campaign in turns that has run."""
    stage = Stage.new(alternating(stop=Stop(budget_s=600.0), **changes), path)
    stage.room = IN_TURNS
    return stage


def test_a_report_says_which_design_was_taken(tmp_path: Path) -> None:
    """Method, limits, cells and `summary.json` know of turns, from the record alone."""
    stage = a_campaign(tmp_path / "one")
    analysis = stage.run()
    assert analysis.plan is not None
    assert analysis.plan.mode is Mode.ALTERNATING
    assert analysis.is_in_turns
    text = render_markdown(build_document(analysis))
    for words in (
        "alternating, because all of them can be up at the same time",
        "0.25 s, of which the first 0.1 s are thrown away",
        "3 s of them count",
        "starts of each configuration's server",
        "a fresh copy in every block",
        "Measured in turns: this is not the tps of a server that runs alone",
    ):
        assert words in text
    told = summary(analysis)
    design = told["design"]
    assert design["mode"] == "alternating"  # type: ignore[index, call-overload]
    assert design["turns"]["warm_up_s"] == [2.0]  # type: ignore[index, call-overload]
    assert all(cell["in_turns"] for cell in told["cells"])  # type: ignore[index, union-attr]


def test_progress_in_turns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is frozen names turns and the warm-up under load; a look is a look as ever."""
    stage = a_campaign(tmp_path / "one")
    campaign = stage.campaign()
    campaign.progress = PlainProgress(verbose=True)
    campaign.run()
    stage.directory.close()
    err = capsys.readouterr().err
    assert "in turns of 0.25 s, warm-up 2.0 s (floor) under load" in err
    assert "warm_up" not in err
    assert "block 1 of " in err


def test_runs_in_turns_are_told_from_others_across_campaigns(tmp_path: Path) -> None:
    """Rates in turns are not those of servers alone: the difference comes before the cells."""
    a_campaign(tmp_path / "turns").run()
    a_campaign(tmp_path / "starts", design=Design.ONE_BY_ONE).run()
    records = [read_campaign(tmp_path / name) for name in ("turns", "starts")]
    found = {
        each.name: (each.first, each.second) for each in compare_campaigns(*records).differences
    }
    assert found["mode"] == ("alternating", "starts")
    assert found["turns of reads"][1] is None
    assert found["in pauses stands still"] == ("signals", None)


@pytest.mark.parametrize(
    ("keys", "reading", "alternates", "words"),
    [
        ({}, True, True, "the data that are there, which the scripts only read"),
        ({}, False, True, "the data that are there: what the scripts change stays changed"),
        ({}, False, False, "the data that are there: what the scripts change stays changed"),
        ({"reset_command": ("it",)}, False, False, "brought back by your command per start"),
    ],
)
def test_nobody_is_told_of_fresh_data_that_there_are_not(
    tmp_path: Path, keys: dict[str, Any], words: str, *, reading: bool, alternates: bool
) -> None:
    """In a database that was there Steelyard prepares nothing and brings nothing back."""
    experiment = alternating()
    target = EndpointTarget(dbname="shop", allow_existing=True, **keys)
    script = Script(name="q.sql", text="SELECT 1;")
    found = replace(
        experiment,
        configurations=tuple(replace(e, target=target) for e in experiment.configurations),
        workloads=(Workload(name="q", scripts=(script,)),),
    )
    mode = Mode.ALTERNATING if alternates else Mode.STARTS
    expected = replace(foretold(experiment, tmp_path), mode=mode, reading=("q",) if reading else ())
    (design,) = (each for each in forecast_text(found, expected).splitlines() if "design " in each)
    assert words in design
    assert "fresh" not in design
    assert "restored" not in design
    own = replace(
        found,
        configurations=tuple(
            replace(e, target=replace(target, allow_existing=False)) for e in found.configurations
        ),
    )
    assert not own.uses_found_data
    assert words not in forecast_text(own, expected)


def test_a_label_names_a_database_once() -> None:
    """A URI has it in itself; a target whose host is told apart has it behind."""
    uri = EndpointTarget(uri="postgresql://db/shop", allow_existing=True)
    apart = EndpointTarget(host="db", dbname="shop", allow_existing=True)
    assert (uri.label, apart.label) == ("postgresql://db/shop", "db, database shop")


@pytest.mark.parametrize("mode", [Mode.ALTERNATING, Mode.STARTS])
def test_a_report_says_that_found_data_were_not_prepared(mode: Mode) -> None:
    """No vacuum is told of that never was; of Steelyard's own database it stays told."""
    analysis = analyses.quick()
    assert analysis.plan is not None
    target = EndpointTarget(uri="postgresql://db/shop", allow_existing=True)
    experiment = replace(
        analysis.experiment,
        configurations=tuple(
            replace(each, target=target) for each in analysis.experiment.configurations
        ),
        workloads=tuple(Workload(name=w.name) for w in analysis.experiment.workloads),
    )
    plan = replace(analysis.plan, mode=mode, reset=Reset.CAMPAIGN, restore="vacuum", restores=())
    found = replace(analysis, experiment=experiment, plan=plan)
    said = dict(design_pairs(found, plan))["data"]
    assert "were there before" in said
    assert "vacuum" not in said
    assert "vacuumed" not in render_markdown(build_document(found))
    assert "rows that scripts changed" not in render_markdown(build_document(found))
    writing = replace(found, plan=replace(plan, reset=Reset.START))
    assert "rows that scripts changed" in render_markdown(build_document(writing))
    own = dict(design_pairs(replace(analysis, plan=plan), plan))["data"]
    assert "vacuum" in own
