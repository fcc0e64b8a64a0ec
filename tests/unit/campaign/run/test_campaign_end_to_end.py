"""Whole campaigns in a world without servers: order, ends, interruptions, and their record."""

import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.campaigns import IN_TURNS, Stage, a_record, an_experiment, asks
from fakes.clock import FakeClock
from fakes.doors import fake_doors
from fakes.servers import FakeEngine, FakePlatform
from fakes.stack import FakeOperator
from steelyard.answers.campaign import analyse
from steelyard.answers.report import build_document
from steelyard.campaign.cleanup.leftovers import JournalLedger
from steelyard.campaign.run.session import facts_of
from steelyard.core.campaign import Status
from steelyard.core.experiment import Configuration, Measure, Reset, Stop
from steelyard.core.findings import Validity, Verdict
from steelyard.core.linux import recorded_suspects
from steelyard.core.schedule import Mode
from steelyard.core.target import LocalTarget
from steelyard.core.wording import (
    ExitCode,
    Interrupted,
    MeasurementError,
    PreflightError,
    TargetError,
)
from steelyard.record.directory import read_campaign, read_schedule
from steelyard.record.journal import BlockStarted, Planned, RunFinished, read_lines
from steelyard.report.terminal import render_terminal
from steelyard.targets.assembly import Assembly
from steelyard.targets.differences import Room
from support.left import left_over
from support.machines import metal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the campaign will be."""
    return tmp_path / "campaign"


@pytest.mark.parametrize(("restart", "mode"), [(True, Mode.STARTS), (False, Mode.BACK_TO_BACK)])
def test_an_effect_is_found_and_ends_the_campaign(path: Path, *, restart: bool, mode: Mode) -> None:
    """5 % against noise of 1 % is decided at the second look; progress hears of every block."""
    stage = Stage.new(an_experiment(restart=restart), path)
    analysis = stage.run()
    assert analysis.status is Status.DECIDED
    assert analysis.plan is not None
    assert analysis.plan.mode is mode
    assert (analysis.plan.stopping.first_look, analysis.blocks) == (4, 5)
    (result,) = analysis.results
    assert result.verdict is Verdict.FASTER
    assert result.effect is not None
    assert result.effect.value == pytest.approx(0.05, abs=0.02)
    assert analysis == analyse(read_campaign(path))
    assert [outcome.index for outcome in stage.listener.outcomes] == list(range(5))
    assert [each.blocks for each in stage.listener.looks] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("restart", [True, False])
def test_runs_follow_the_stored_schedule(path: Path, *, restart: bool) -> None:
    """Configuration, workload and load of every run are those drawn before the first of them."""
    experiment = an_experiment(restart=restart, loads=3, workloads=("reads", "more-reads"))
    Stage.new(experiment, path).run()
    planned = [
        (block.index, start, position, run.configuration, run.cell)
        for block in read_schedule(path).blocks
        for start, one in enumerate(block.starts)
        for position, run in enumerate(one.runs)
    ]
    taken = [
        (run.block, run.start, run.position, run.configuration, run.cell)
        for run in read_campaign(path).runs
    ]
    assert taken == planned[: len(taken)]
    assert len(taken) % 12 == 0


def test_the_plan_is_frozen_before_the_first_block(path: Path) -> None:
    """Schedule and plan are stored before any run, and the plan only once."""
    a_record(path)
    kinds = [type(line.entry) for line in read_lines(path / "journal.jsonl")[0]]
    assert kinds.count(Planned) == 1
    assert kinds.index(Planned) < kinds.index(BlockStarted) < kinds.index(RunFinished)


def test_equal_configurations_end_at_the_budget(path: Path) -> None:
    """Without an effect the budget ends it, before a block that would not fit."""
    stage = Stage.new(an_experiment(speed=1.0001, stop=Stop(budget_s=400.0)), path)
    stage.world.noise = 0.05
    analysis = stage.run()
    assert analysis.status is Status.BUDGET
    assert analysis.plan is not None
    elapsed_s = read_campaign(path).elapsed_s
    assert elapsed_s <= 400.0
    assert elapsed_s + analysis.plan.block_s > 400.0 or (
        analysis.blocks == analysis.plan.stopping.max_blocks
    )


def test_a_budget_without_a_block_ends_with_what_it_lacks(path: Path) -> None:
    """A short budget on a slow machine: no block, a record to read, and the way out told once."""
    short = an_experiment(stop=Stop(budget_s=5.0))
    analysis = Stage.new(replace(short, no_verdict=True), path).run()
    assert analysis.status is Status.BUDGET
    assert analysis.blocks == 0
    assert analysis.plan is not None
    assert analysis.plan.stopping.max_blocks == 0
    codes = {finding.code for finding in analysis.findings}
    assert "budget-before-first-interim-result" in codes
    assert analysis == analyse(read_campaign(path))
    shown = render_terminal(build_document(analysis))
    assert "--budget" in shown
    assert "the budget leaves" not in shown


def slow_from_the_first_block(path: Path, budget_s: float = 300.0) -> Stage:
    """Return a campaign whose blocks take three times as long as was measured before them."""
    stage = Stage.new(an_experiment(stop=Stop(budget_s=budget_s, early=False)), path)
    stage.listener.at_run = lambda _: stage.clock.advance(30.0)
    return stage


def test_a_budget_without_an_interim_result_is_refused_before_the_first_block(path: Path) -> None:
    """What starts took has shown it: the budget that serves is named, and no block is taken."""
    stage = Stage.new(an_experiment(stop=Stop(budget_s=60.0, early=False)), path)
    with pytest.raises(PreflightError, match="comes after 4 blocks, and the budget of 60 s"):
        stage.run()
    assert stage.listener.plan is not None
    assert stage.listener.plan.stopping.max_blocks < 4
    assert stage.listener.runs == 0


def test_blocks_that_turn_out_too_long_end_it_at_once(path: Path) -> None:
    """After the first block, not at the end of the budget; a resumed one goes on without."""
    stage = slow_from_the_first_block(path)
    with pytest.raises(PreflightError, match=r"room for 3 of about") as caught:
        stage.run()
    assert caught.value.exit_code is ExitCode.REFUSED
    assert stage.listener.plan is not None
    assert stage.listener.plan.stopping.max_blocks >= 4
    assert len(stage.listener.outcomes) == 1
    (budget,) = re.findall(r"--budget (\d+)m", caught.value.hint)
    assert int(budget) > 5
    again = slow_from_the_first_block(path.with_name("again"), budget_s=60.0 * int(budget))
    assert again.run().blocks >= 4
    willing = replace(stage.experiment, no_verdict=True)
    assert Stage.resumed(willing, path, stage.clock).run().blocks > 1


@pytest.mark.parametrize("willing", [True, False])
def test_somebody_is_asked_whether_it_goes_on_without_a_verdict(
    path: Path, *, willing: bool
) -> None:
    """Once, with the budget that serves; who agrees gets the blocks that fit."""
    stage = slow_from_the_first_block(path)
    stage.operator = operator = FakeOperator(willing=willing)
    with nullcontext() if willing else pytest.raises(PreflightError):
        assert stage.run().status is Status.BUDGET
    (asked,) = operator.asked
    assert "it would be there with --budget" in asked
    assert len(stage.listener.outcomes) == (3 if willing else 1)


def test_a_precision_ends_it_and_verdicts_do_not(path: Path) -> None:
    """Asked for a half-width, the campaign goes on after the verdict, up to that width."""
    experiment = an_experiment(stop=Stop(budget_s=3600.0, width=0.015))
    analysis = Stage.new(experiment, path).run()
    assert analysis.status is Status.PRECISION
    assert analysis.blocks >= 12
    effect = analysis.results[0].effect
    assert effect is not None
    assert effect.low is not None
    assert effect.high is not None
    assert (effect.high - effect.low) / 2 <= 0.015


def test_servers_are_recorded_as_they_were_found(path: Path) -> None:
    """Version and effective settings of every configuration, and the facts handed in."""
    a_record(path)
    environment = read_campaign(path).environment
    assert environment is not None
    assert [server.configuration for server in environment.servers] == ["slow", "fast"]
    fast = {s.name: s.value for s in environment.servers[1].settings}
    assert fast["speed"] == "1.05"
    assert environment.facts[0].name == "kernel"


def test_a_setting_that_does_not_take_effect_stops_before_the_first_block(path: Path) -> None:
    """The setting is named with what was asked and what is."""
    stage = Stage.new(an_experiment(), path)
    stage.world.stubborn = {"speed"}
    with pytest.raises(MeasurementError, match="`fast` is not in force") as caught:
        stage.run()
    assert "speed was asked to be '1.05' and is 'default'" in caught.value.message
    record = read_campaign(path)
    assert record.status is Status.FAILED
    assert record.runs == ()
    assert record.findings[-1].message == caught.value.message


def test_a_server_that_does_not_start_fails_with_its_log(path: Path) -> None:
    """Its last words are in the error and in the record, and nothing is left."""
    stage = Stage.new(an_experiment(), path)
    stage.world.refuses = 1
    with pytest.raises(TargetError, match="FATAL: no"):
        stage.run()
    record = read_campaign(path)
    assert record.status is Status.FAILED
    assert record.findings[-1].code == "campaign-failed"
    assert left_over(path) == ()


@pytest.mark.parametrize("room", [Room(), IN_TURNS], ids=["one by one", "in turns"])
@pytest.mark.parametrize("at", [1, 2, 5])
def test_ctrl_c_keeps_what_there_is_and_can_be_resumed(path: Path, at: int, room: Room) -> None:
    """Before any run: complete blocks stay, the status says why, and the result is the same."""
    clock = FakeClock()
    stage = Stage.new(an_experiment(), path, clock)
    stage.room = room

    def interrupt(run: int) -> None:
        if run == at:
            raise KeyboardInterrupt

    stage.listener.at_run = interrupt
    with pytest.raises(Interrupted) as caught:
        stage.run()
    assert f"--resume {path}" in caught.value.hint
    record = read_campaign(path)
    assert record.status is Status.INTERRUPTED
    assert len(record.complete_blocks) == (at - 1) // 2
    assert not any(world.running for world in (stage.world, *stage.world.beside.values()))
    assert not any(guard.stands() for guard in stage.guards.started)
    assert left_over(path) == ()
    again = Stage.resumed(an_experiment(), path, clock).run()
    assert [each.verdict for each in again.comparisons] == [Verdict.FASTER] * 2
    assert again.status is Status.DECIDED


def test_server_logs_and_raw_output_are_kept(path: Path) -> None:
    """One file per run, named so that they sort in run order, and the servers' log."""
    a_record(path)
    names = sorted(entry.name for entry in (path / "raw").iterdir())
    assert names[:2] == ["0000-0-0-00.seconds.gz", "0000-0-0-00.txt.gz"]
    assert names[-1] == "server-1.log.gz"
    assert [run.raw for run in read_campaign(path).runs] == names[1:-1:2]
    assert [run.latency.seconds for run in read_campaign(path).runs] == names[:-1:2]


def test_one_configuration_alone_runs_to_its_budget(path: Path) -> None:
    """Without a contender there is no result, and every run counts."""
    both = an_experiment(stop=Stop(budget_s=120.0))
    analysis = Stage.new(replace(both, configurations=both.configurations[:1]), path).run()
    assert analysis.status is Status.BUDGET
    assert analysis.results == ()
    assert analysis.blocks > 5
    assert all(run.validity is Validity.VALID for run in read_campaign(path).runs)


@pytest.mark.parametrize(
    ("restart", "reset", "restores"),
    [
        (True, None, 10),
        (True, Reset.START, 10),
        (True, Reset.BLOCK, 5),
        (True, Reset.CAMPAIGN, 1),
        (False, None, 1),
        (False, Reset.BLOCK, 5),
    ],
)
def test_data_are_restored_as_often_as_the_reset_says(
    path: Path, *, restart: bool, reset: Reset | None, restores: int
) -> None:
    """Per start, per block or once; back to back on reads alone there is nothing to restore."""
    measure = Measure(run_time_s=5.0, discard_start_s=1.0, warm_up_s=2.0, reset=reset)
    stage = Stage.new(an_experiment(restart=restart, measure=measure), path)
    stage.run()
    steps = stage.world.steps
    first_run = next(n for n, step in enumerate(steps) if step.startswith("run"))
    before_first = 1
    assert steps[first_run:].count("restore by reflink") + before_first == restores


def test_three_configurations_take_turns(path: Path) -> None:
    """Every block holds each configuration once, and two results share the error."""
    two = an_experiment()
    third = Configuration(
        name="faster", target=LocalTarget(), settings=asks(speed="1.10", restart="1")
    )
    analysis = Stage.new(replace(two, configurations=(*two.configurations, third)), path).run()
    assert analysis.plan is not None
    assert analysis.plan.stopping.results == 2
    record = read_campaign(path)
    for index in range(analysis.blocks):
        configurations = sorted(
            run.configuration for run in record.counted_runs if run.block == index
        )
        assert configurations == ["fast", "faster", "slow"]


def test_a_campaign_records_what_makes_wakeups_slow(tmp_path: Path) -> None:
    """Idle states and their limit are rows of the machine, so that a report can name suspects."""
    clock, host = FakeClock(), metal()
    state = "/sys/devices/system/cpu/cpu0/cpuidle/state2/disable"
    host = replace(
        host,
        files={**host.files, state: "0"},
        numbers={"/dev/cpu_dma_latency": 2_000_000_000},
    )
    stage = Stage.new(an_experiment(), tmp_path / "c", clock)
    journal = JournalLedger(stage.directory.journal, "c")
    platform = FakePlatform(stage.world, journal, tmp_path)
    assembly = Assembly(
        engine=FakeEngine(stage.world),
        platforms={each.name: platform for each in stage.experiment.configurations},
    )
    facts = facts_of(stage.experiment, assembly, fake_doors(clock, host=host))
    stage.directory.close()
    rows = {fact.name: fact.value for fact in facts if fact.subject == "machine"}
    assert rows["idle states"] == "POLL 0 µs, C1 2 µs, C6 133 µs"
    assert rows["wake-up limit"] == "none"
    assert recorded_suspects(facts) == (
        "idle CPUs of this machine enter C6, which takes 0.13 ms to leave",
    )
