"""The capacity before the first block, and campaigns of open loops."""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fakes.campaigns import Killed, Stage, an_experiment
from fakes.servers import generator_fails, server_dies
from steelyard.answers.observations import whole_transactions
from steelyard.answers.outlook.compute import Forecast
from steelyard.answers.outlook.section import outlook_document
from steelyard.answers.results import CampaignAnalysis
from steelyard.campaign.design.schedule import cells_s
from steelyard.campaign.foresee.forecast import forecast, require_first_look
from steelyard.campaign.foresee.planning import plan_campaign
from steelyard.campaign.run.beside_blocks import closed_loads, order_of_rounds
from steelyard.cli.progress import dry_run_json, forecast_text
from steelyard.core.campaign import CampaignPlan, Status
from steelyard.core.experiment import (
    Calibration,
    CapacityAsked,
    Experiment,
    LogPolicy,
    Measure,
    Stop,
)
from steelyard.core.schedule import CellKey, LatencyGoal, Load
from steelyard.core.wording import MeasurementError, PreflightError
from steelyard.record.directory import read_campaign
from steelyard.record.journal import Planned, read_lines
from steelyard.report.html import render_markdown
from steelyard.targets.assembly import Assembly

CLIENTS, ROUNDS = (1, 4, 9), 6
SLICES = len(CLIENTS) * ROUNDS


def an_asking(**changes: object) -> Experiment:
    """Return an experiment at half and nine tenths of the capacity, and in a closed loop."""
    loads = (
        Load(clients=4, threads=1),
        Load(clients=4, threads=1, share=0.5),
        Load(clients=4, threads=1, share=0.9, latency_limit_s=0.1),
    )
    asking = replace(
        an_experiment(workloads=("reads", "writes"), stop=Stop(budget_s=700.0)),
        loads=loads,
        capacity=CapacityAsked(clients=CLIENTS, runs=ROUNDS),
    )
    return replace(asking, **changes)


@cache
def whole() -> tuple[Stage, CampaignAnalysis, CampaignPlan, list[str]]:
    """Return a campaign without noise that has run, and the names of its raw files."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "c")
        stage = Stage.new(an_asking(), path)
        stage.world.noise = 0.0
        analysis = stage.run()
        return stage, analysis, _plan(path), [each.name for each in (path / "raw").iterdir()]


def _plan(path: Path) -> CampaignPlan:
    plan = read_campaign(path).plan
    assert plan is not None
    return plan


def test_every_workload_has_its_capacity_and_every_share_its_rate() -> None:
    """The world does 1000 sqrt(clients) per second: 3000 with nine, of which the rates are shares.

    The closed loop has no rate.
    """
    _, _, plan, _ = whole()
    assert [(c.workload, c.configuration, c.clients) for c in plan.capacities] == [
        ("reads", "slow", 9),
        ("writes", "slow", 9),
    ]
    for capacity in plan.capacities:
        assert capacity.tps.value == pytest.approx(3000.0)
        assert [point.tps.value for point in capacity.points] == pytest.approx([1e3, 2e3, 3e3])
        assert {len(point.slices) for point in capacity.points} == {ROUNDS}
    rates = {rate.cell: rate.rate_per_s for rate in plan.rates}
    assert rates == {
        CellKey(workload=w, load=load): 3000.0 * (load.share or 0.0)
        for w in ("reads", "writes")
        for load in an_asking().loads[1:]
    }


def test_all_configurations_are_offered_the_same_rate() -> None:
    """After the plan every share is offered as its rate, to both configurations; never before."""
    stage, *_ = whole()
    offered = stage.world.offered
    first_rate = next(place for place, load in enumerate(offered) if load.is_open)
    assert first_rate >= 2 * SLICES
    assert {load.rate_per_s for load in offered if load.is_open} == {1500.0, 2700.0}
    assert not any(load.share for load in offered)
    limits = {load.rate_per_s: load.latency_limit_s for load in offered if load.is_open}
    assert limits == {1500.0: None, 2700.0: 0.1}


def test_each_round_has_every_number_of_clients_in_an_order_of_its_own(tmp_path: Path) -> None:
    """The order is drawn from the seed, is not always the same, and the slices follow it."""
    orders = order_of_rounds(11, 0, 20, 3)
    assert orders == order_of_rounds(11, 0, 20, 3)
    assert orders != order_of_rounds(12, 0, 20, 3)
    assert orders != order_of_rounds(11, 1, 20, 3)
    assert {tuple(sorted(order)) for order in orders} == {(0, 1, 2)}
    assert len({tuple(order) for order in orders}) > 2
    stage = Stage.new(an_asking(), tmp_path / "c")
    stage.run()
    # Slices last six seconds with the ramp; the warm-ups two.
    runs = [s for s in stage.world.steps if s.startswith("run reads") and s.endswith("6s")]
    expected = [CLIENTS[place] for order in order_of_rounds(11, 0, ROUNDS, 3) for place in order]
    assert [int(run.split()[2]) for run in runs[:SLICES]] == expected


def test_it_is_told_kept_and_warned_of() -> None:
    """Progress counts rounds, raw output is stored, and a curve that still rises is a finding.

    One client cannot do 70 % of what nine reach, nor one thread what four do: that is one, too.
    """
    stage, analysis, _, raw = whole()
    assert "finding the capacity: writes, round 2 of 6" in stage.listener.heard
    stored = sorted(name for name in raw if re.match(r"capacity-.*\.txt\.gz", name))
    assert len(stored) == 2 * SLICES
    assert stored[0] == "capacity-0-00-00-0001-0.txt.gz"
    assert "capacity-still-rises" in {finding.code for finding in analysis.findings}
    found = [f for f in analysis.findings if f.code == "capacity-of-more-clients"]
    assert len(found) == 2
    assert "the capacity takes 9 clients on 1 thread" in found[0].message
    assert "offered with 4 clients on 1 thread, too" in found[0].message


def test_a_slice_that_fails_is_taken_again_and_no_more_often_than_allowed(tmp_path: Path) -> None:
    """A dead server is started anew; three failures in a row end the campaign with the way out."""
    stage = Stage.new(an_asking(), tmp_path / "once")
    stage.world.faults |= {1: server_dies, 5: generator_fails}
    stage.run()
    assert len(_plan(tmp_path / "once").capacities) == 2
    assert len(list((tmp_path / "once" / "raw").glob("capacity-*.txt.gz"))) == 2 * SLICES + 2
    failing = Stage.new(an_asking(), tmp_path / "always")
    failing.world.faults |= dict.fromkeys(range(1, 4), generator_fails)
    with pytest.raises(MeasurementError, match="capacity failed 3 times") as raised:
        failing.run()
    assert "load.rate" in raised.value.hint


def test_a_resumed_campaign_keeps_its_rates(tmp_path: Path) -> None:
    """Killed after the plan, it measures no capacity again and offers what it offered before."""
    stage = Stage.new(an_asking(), tmp_path / "c")
    with pytest.raises(Killed):
        stage.dying(12, "after").run()
    before = _plan(tmp_path / "c")
    resumed = Stage.resumed(an_asking(), tmp_path / "c", stage.clock)
    resumed.world.noise = 0.3
    resumed.run()
    assert _plan(tmp_path / "c") == before
    assert not any("capacity" in told for told in resumed.listener.heard)
    offered = {load.rate_per_s for load in resumed.world.offered if load.is_open}
    assert offered == {rate.rate_per_s for rate in before.rates}


@pytest.mark.slow
def test_a_search_that_was_interrupted_leaves_neither_findings_nor_holes(tmp_path: Path) -> None:
    """Killed at the plan, the search is repeated: its files stay, its finding is told once."""
    asking = an_asking(loads=tuple(replace(load, clients=9) for load in an_asking().loads))
    whole = Stage.new(asking, tmp_path / "whole")
    whole.world.noise = 0.0
    whole.run()
    lines, _ = read_lines(tmp_path / "whole" / "journal.jsonl")
    planned = next(line.sequence for line in lines if isinstance(line.entry, Planned))
    stage = Stage.new(asking, tmp_path / "c")
    stage.world.noise = 0.0
    with pytest.raises(Killed):
        stage.dying(planned, "before").run()
    assert read_campaign(tmp_path / "c").plan is None
    resumed = Stage.resumed(asking, tmp_path / "c", stage.clock)
    resumed.world.noise = 0.0
    analysis = resumed.run()
    codes = [finding.code for finding in analysis.findings]
    assert codes.count("capacity-still-rises") == len(asking.workloads)
    assert "capacity-of-more-clients" not in codes
    raw = tmp_path / "c" / "raw"
    for search in (0, 1):
        assert len(list(raw.glob(f"capacity-{search}-*.txt.gz"))) == 2 * SLICES


def test_closed_loops_have_the_threads_of_the_loads() -> None:
    """A capacity of 8 threads is none of a load with one; `auto` is as many as there are CPUs."""
    asked = CapacityAsked(clients=CLIENTS, runs=ROUNDS)
    for given, found in ((1, [1, 1, 1]), (8, [1, 4, 8])):
        loads = (Load(clients=9, threads=given, share=0.7), Load(clients=9, threads=9))
        tried = closed_loads(an_asking(loads=loads), asked, cpus=16)
        assert [load.threads for load in tried] == found


def test_without_a_share_nothing_is_measured(tmp_path: Path) -> None:
    """Closed loops and fixed rates need no capacity, even where the file describes the search."""
    fixed = (Load(clients=4, threads=1), Load(clients=4, threads=1, rate_per_s=500.0))
    stage = Stage.new(an_asking(loads=fixed), tmp_path / "c")
    stage.run()
    plan = _plan(tmp_path / "c")
    assert (plan.capacities, plan.rates) == ((), ())
    assert {load.rate_per_s for load in stage.world.offered} == {None, 500.0}


def test_the_warm_up_is_measured_in_a_closed_loop(tmp_path: Path) -> None:
    """A share has no rate before the capacity is known, and a latency limit is nothing without."""
    measure = Measure(
        run_time_s=5.0,
        discard_start_s=1.0,
        calibration=Calibration(restarts=2, run_time_s=20.0, at_least_s=2.0),
    )
    stage = Stage.new(an_asking(loads=an_asking().loads[2:], measure=measure), tmp_path / "c")
    stage.run()
    assert stage.world.offered[0] == Load(clients=4, threads=1)


def test_the_time_is_foretold_and_counts_against_the_budget(tmp_path: Path) -> None:
    """About three minutes for two workloads: in the forecast, in JSON, and gone from the blocks."""
    stage = Stage.new(an_asking(), tmp_path / "c")
    bench = stage.bench()
    assembly = Assembly(engine=bench._engine, platforms=bench._platforms)
    expected = forecast(an_asking(), assembly)
    assert expected.capacity_s == pytest.approx(2 * SLICES * 6.25, rel=0.1)
    assert expected.preparation_s > expected.capacity_s
    text = forecast_text(an_asking(), expected)
    assert "capacity   6 rounds of closed loops with 1, 4, 9 clients" in text
    assert dry_run_json(an_asking(), expected)["capacity_s"] == round(expected.capacity_s, 1)
    without = an_asking(loads=(Load(clients=4, threads=1),) * 3)
    assert forecast(without, assembly).max_blocks > expected.max_blocks
    assert "capacity" not in forecast_text(without, forecast(without, assembly))
    stage.run()
    planned_at_s = read_campaign(tmp_path / "c").planned_at_s
    assert planned_at_s is not None
    assert planned_at_s == pytest.approx(expected.preparation_s, rel=0.15)


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
    assert dry_run_json(experiment, expected)["first_interim_result_blocks"] is None
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
    assert [each.expected.stopping.first_look for each in plans] == [4, 4]
    assert [each.workloads[0].cells for each in plans] == [None, None]
    assert plans[0].expected.block_s < plans[1].expected.block_s


@pytest.mark.parametrize("long", [False, True])
def test_every_warm_up_is_the_same_closed_loop(tmp_path: Path, long: bool) -> None:  # noqa: FBT001
    """Whichever rate comes first in a start: at a fifth of the capacity a server stays cold."""
    experiment = replace(
        at_rates(configurations=2), sustained_s=300.0 if long else None, no_verdict=True
    )
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
    measure = Measure(run_time_s=5.0, discard_start_s=1.0, warm_up_s=2.0, log=LogPolicy.OFF)
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
