"""Campaigns of open loops, in a world without servers: what is forecast, planned and done."""

from dataclasses import replace
from pathlib import Path

import pytest

from fakes.campaigns import Stage, an_experiment
from steelyard.answers.observations import whole_transactions
from steelyard.answers.outlook.section import outlook_document
from steelyard.campaign.design.schedule import cells_s
from steelyard.campaign.foresee.forecast import Forecast, forecast, require_first_look
from steelyard.campaign.foresee.planning import plan_campaign
from steelyard.cli.progress import forecast_json, forecast_text
from steelyard.core.campaign import Status
from steelyard.core.experiment import Experiment, LatencyGoal, LogPolicy, Measure, Stop
from steelyard.core.schedule import Load
from steelyard.core.wording import PreflightError
from steelyard.record.directory import read_campaign
from steelyard.report.html import render_markdown
from steelyard.targets.assembly import Assembly

RATES = (100.0, 300.0)


def at_rates(*, configurations: int = 1, budget_s: float = 120.0) -> Experiment:
    """Return an experiment with two open loops."""
    given = an_experiment(stop=Stop(budget_s=budget_s))
    loads = tuple(Load(clients=2, threads=1, rate_per_s=rate) for rate in RATES)
    return replace(given, configurations=given.configurations[:configurations], loads=loads)


def assembled(experiment: Experiment, tmp_path: Path) -> Assembly:
    """Return the engine and platforms of the made-up world."""
    bench = Stage.new(experiment, tmp_path / "forecast").bench()
    return Assembly(engine=bench._engine, platforms=bench._platforms)


def expected_of(experiment: Experiment, tmp_path: Path) -> Forecast:
    """Return what a campaign will take."""
    return forecast(experiment, assembled(experiment, tmp_path))


@pytest.mark.parametrize("configurations", [1, 2])
def test_a_campaign_of_open_loops_ends_at_its_budget(tmp_path: Path, configurations: int) -> None:
    """Blocks are taken as long as there is time; no result, no note about a look."""
    path = tmp_path / "campaign"
    analysis = Stage.new(at_rates(configurations=configurations), path).run()
    record = read_campaign(path)
    assert (analysis.status, analysis.results) == (Status.BUDGET, ())
    assert analysis.blocks >= 2
    assert "budget-before-first-interim-result" not in {finding.code for finding in record.findings}


def test_the_dry_run_says_what_is_looked_for(tmp_path: Path) -> None:
    """No look, no decision: the aim in words instead, and null for programs."""
    experiment = at_rates()
    expected = expected_of(experiment, tmp_path)
    text = forecast_text(experiment, expected)
    assert "looks for  latency at 100/s and 300/s. Throughput is not compared" in text
    assert "1 configuration x 2 cells" in text
    assert "first interim result" not in text
    assert "decided" not in text
    assert "2c/1t at 300/s [slow]" in forecast_text(experiment, expected, with_schedule=True)
    assert forecast_json(experiment, expected)["first_look_blocks"] is None
    goal = replace(experiment, goal=LatencyGoal(share=0.99, limit_s=0.0005))
    assert "the highest rate with p99 < 500 us, tried at" in forecast_text(goal, expected)


def test_a_budget_without_a_block_is_refused(tmp_path: Path) -> None:
    """With what a block takes and a budget that would do; a short one above that is fine."""
    short = at_rates(budget_s=1.0)
    with pytest.raises(PreflightError, match="ends before the first block") as caught:
        require_first_look(expected_of(short, tmp_path), short)
    assert "--budget 1m" in caught.value.hint
    enough = at_rates(budget_s=60.0)
    require_first_look(expected_of(enough, tmp_path / "again"), enough)


def test_the_plan_says_that_nothing_is_compared(tmp_path: Path) -> None:
    """`plan` has no minutes to tell; beside closed loops it counts those alone."""
    experiment = at_rates(configurations=2)
    text = render_markdown(
        outlook_document(plan_campaign(experiment, assembled(experiment, tmp_path)))
    )
    assert "Looked for is latency at 100/s and 300/s." in text
    assert "first interim result" not in text
    closed = replace(experiment, loads=(Load(clients=2, threads=1),))
    mixed = replace(experiment, loads=(*closed.loads, *experiment.loads))
    plans = [
        plan_campaign(each, assembled(each, tmp_path / name))
        for each, name in ((closed, "closed"), (mixed, "mixed"))
    ]
    assert [each.first_look for each in plans] == [6, 6]  # one cell, not three
    assert [each.workloads[0].cells for each in plans] == [None, None]
    assert plans[0].block_s < plans[1].block_s


@pytest.mark.parametrize("long", [False, True])
def test_every_warm_up_is_the_same_closed_loop(tmp_path: Path, long: bool) -> None:  # noqa: FBT001
    """Whichever rate comes first in a start: at a fifth of the capacity a server stays cold."""
    experiment = replace(at_rates(configurations=2), sustained_s=300.0 if long else None)
    experiment = replace(experiment, loads=(*experiment.loads, Load(clients=4, threads=1)))
    stage = Stage.new(experiment, tmp_path / "campaign")
    stage.run()
    warm_ups = [
        load
        for load, step in zip(stage.world.offered, _runs(stage), strict=True)
        if step.endswith(" 2s")
    ]
    assert len(warm_ups) > 3
    assert set(warm_ups) == {Load(clients=4, threads=1)}


def test_a_warm_up_before_open_loops_alone_has_no_rate(tmp_path: Path) -> None:
    """The clients of the highest rate, as fast as they can."""
    stage = Stage.new(at_rates(configurations=2), tmp_path / "campaign")
    stage.run()
    steps = zip(stage.world.offered, _runs(stage), strict=True)
    warm_ups = {load for load, step in steps if step.endswith(" 2s")}
    assert warm_ups == {Load(clients=2, threads=1)}


def test_open_loops_go_on_for_a_second_that_does_not_count(tmp_path: Path) -> None:
    """What was due before the end is still sent then; closed loops end with their slice."""
    experiment = replace(at_rates(), sustained_s=300.0)
    experiment = replace(experiment, loads=(*experiment.loads, Load(clients=4, threads=1)))
    stage = Stage.new(experiment, tmp_path / "campaign")
    stage.run()
    asked = {(load.is_open, step.rpartition(" ")[2]) for load, step in _offered(stage)}
    assert asked == {(True, "7s"), (False, "6s"), (False, "2s"), (False, "301s")}
    for run in read_campaign(stage.path).runs:
        assert run.measurement is not None
        assert run.measurement.seconds == 5.0
        tail = run.measurement.tail_transactions
        assert tail == (run.measurement.tps if run.cell.load.is_open else 0.0)
        whole = sum(second.transactions for second in run.measurement.series)
        assert whole_transactions(run, 1.0) == pytest.approx(whole)


def test_tails_are_forecast(tmp_path: Path) -> None:
    """A block of two open loops is two seconds longer for each configuration, a long run one."""
    rated = replace(at_rates(configurations=2), sustained_s=300.0)
    closed = replace(rated, loads=tuple(load.as_closed for load in rated.loads))
    assert cells_s(rated) - cells_s(closed) == 2.0
    found, plain = expected_of(rated, tmp_path), expected_of(closed, tmp_path / "again")
    assert found.block_s - plain.block_s == pytest.approx(4.0)
    assert found.sustained_s - plain.sustained_s == pytest.approx(2.0)


def test_skipped_transactions_count_without_a_log(tmp_path: Path) -> None:
    """The generator's summary tells them: with `log: off` too a server may not keep up."""
    measure = Measure(slice_s=5.0, ramp_s=1.0, warm_up_s=2.0, log=LogPolicy.OFF)
    limited = Load(clients=2, threads=1, rate_per_s=10_000.0, latency_limit_s=0.1)
    stage = Stage.new(replace(at_rates(), measure=measure, loads=(limited,)), tmp_path / "campaign")
    stage.world.skipped = 45_000
    stage.run()
    found = [each for run in read_campaign(stage.path).runs for each in run.findings]
    told = {each.message for each in found if each.code == "rate-not-reached"}
    assert any("45000 of about 50000" in message for message in told)


def _offered(stage: Stage) -> list[tuple[Load, str]]:
    return list(zip(stage.world.offered, _runs(stage), strict=True))


def _runs(stage: Stage) -> list[str]:
    return [step for step in stage.world.steps if step.startswith("run ")]
