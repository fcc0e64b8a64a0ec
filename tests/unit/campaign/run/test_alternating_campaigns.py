"""Campaigns in turns, in a world of formulas: order, verdict, redoing, cleaning up."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.campaigns import IN_TURNS, Stage, an_experiment, four_configurations, room_for
from fakes.clock import FakeClock
from fakes.servers import World
from fakes.standing import FakeStandstill
from steelyard.answers.observations import observe
from steelyard.answers.outlook.compute import Forecast
from steelyard.answers.turns import turn_pairs
from steelyard.campaign.design import schedule as durations
from steelyard.campaign.foresee.forecast import forecast
from steelyard.campaign.run import runner
from steelyard.core.campaign import CampaignRecord, Status
from steelyard.core.experiment import Design, Experiment, Measure, Reset, Stop, SwitchCost
from steelyard.core.findings import Verdict
from steelyard.core.measurement import Run
from steelyard.core.schedule import Mode, Pausing, TurnTimes
from steelyard.core.wording import MeasurementError, TargetError
from steelyard.record.directory import read_campaign, read_schedule
from steelyard.targets.assembly import Assembly
from steelyard.targets.differences import Room


def staged(path: Path, experiment: Experiment | None = None, room: Room = IN_TURNS) -> Stage:
    """Begin a campaign where servers can be up together, all of them unless a room says else."""
    stage = Stage.new(experiment or an_experiment(), path)
    stage.room = room
    return stage


def worlds(stage: Stage) -> list[World]:
    """Return what is the case in each slot."""
    return [stage.world.in_slot(slot) for slot in (1, 2)]


def in_block(stage: Stage, block: int, does: Callable[[bool], object]) -> None:
    """Have something done at the beginning of every cell: True in the first try of a block."""
    tries = 0

    def act(_: int) -> None:
        nonlocal tries
        if stage.listener.heard[-1].endswith("in turns"):
            tries += stage.world.block == block
            does(tries == 1 and stage.world.block == block)

    stage.listener.at_run = act


def by_block(record: CampaignRecord) -> dict[int, list[Run]]:
    """Return the runs that count."""
    found: dict[int, list[Run]] = {}
    for run in record.counted_runs:
        found.setdefault(run.block, []).append(run)
    return found


def test_a_server_that_cannot_stand_still_after_its_start_voids_the_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is refused in a try ends that try, and the block is taken again."""
    stage, pause = staged(tmp_path / "campaign", an_experiment()), FakeStandstill.pause
    refusals = iter([TargetError("its group is gone")])

    def refuse(self: FakeStandstill) -> bool:
        if stage.listener.heard[-1].startswith("starting 2 servers"):
            for refusal in refusals:
                raise refusal
        return pause(self)

    monkeypatch.setattr(FakeStandstill, "pause", refuse)
    stage.run()
    first, second = read_campaign(stage.path).blocks[:2]
    assert (first.index, first.complete, first.reason) == (0, False, "its group is gone")
    assert (second.index, second.complete) == (0, True)


def test_a_transaction_is_timed_once_a_day(tmp_path: Path) -> None:
    """The next campaign of the same work goes by it, with the same turns; two days later anew."""
    heard, turns = [], []
    for name, wait_s in (("first", 0.0), ("second", 600.0), ("third", 200_000.0)):
        stage = Stage.new(an_experiment(), tmp_path / name, FakeClock(1_795_000_000.0 + wait_s))
        stage.room = IN_TURNS
        plan = stage.run().plan
        assert plan is not None
        turns.append(plan.turns)
        heard.append(sum(each.startswith("timing ") for each in stage.listener.heard))
    assert heard == [1, 0, 1]
    assert turns[0] == turns[1] == turns[2] != ()


def test_a_workload_takes_turns_for_as_long_as_it_asks(tmp_path: Path) -> None:
    """Four times the seconds are four times the turns; the other workload is as before."""
    experiment = an_experiment(workloads=("reads", "writes"))
    experiment = replace(experiment, stop=replace(experiment.stop, early=False))
    reads, writes = experiment.workloads
    asked = 4 * experiment.measure.run_time_s
    stage = staged(
        tmp_path / "campaign",
        replace(experiment, workloads=(reads, replace(writes, run_time_s=asked))),
    )
    analysis = stage.run()
    turns = {
        name: {len(run.turns) for run in analysis.runs if run.cell.workload == name}
        for name in ("reads", "writes")
    }
    (short,), (long,) = turns["reads"], turns["writes"]
    assert long == 4 * short > 0
    assert analysis.plan is not None
    pairs = dict(turn_pairs(stage.experiment, analysis.plan.turns))
    assert pairs["measured, writes"].startswith(f"{asked:g} s per configuration")


def test_the_first_blocks_are_short_and_all_lengths_are_known_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With five loads the load is most of a block: it begins with a quarter of the turns."""
    monkeypatch.setattr(runner, "decide", lambda *_: None)  # all blocks of the budget are taken
    measure = Measure(run_time_s=10.0)
    experiment = an_experiment(loads=5, measure=measure, stop=Stop(budget_s=900.0))
    stage = staged(tmp_path / "campaign", experiment)
    record = read_campaign(stage.run() and stage.path)
    assert record.plan is not None
    first, second = record.plan.short
    assert (first.blocks, second.blocks) == (4, 4)
    assert first.counted_s == durations.SHORT_S < second.counted_s < 6.0
    assert first.block_s < second.block_s < record.plan.block_s
    turns = [{len(run.turns) for run in runs} for runs in by_block(record).values()]
    assert turns[:4] == [{10}] * 4  # 2.5 s of turns, of which 1.5 s count
    assert turns[4:8] == [{20}] * 4
    assert turns[8:] == [{40}] * len(turns[8:])
    planned = read_schedule(stage.path).blocks
    assert len(planned) == record.plan.stopping.max_blocks
    assert [block.counted_s for block in planned[:9]] == [1.5] * 4 + [3.0] * 4 + [None]
    whole = [block.lasted_s for block in record.blocks]
    assert sum(filter(None, whole)) < 900.0


@pytest.mark.parametrize(
    "changed",
    [
        {"stop": Stop(early=False)},
        {"stop": Stop(width=0.01)},
        {"stop": Stop(blocks=12)},
        {"measure": Measure(run_time_s=10.0, runs_per_start=2)},
    ],
)
def test_what_needs_whole_runs_has_no_short_blocks(
    changed: dict[str, object], tmp_path: Path
) -> None:
    """Where no early verdict ends it, or a start covers what it has to, all blocks are alike."""
    experiment = an_experiment(loads=5, measure=Measure(run_time_s=10.0))
    assert len(forecast_of(experiment, tmp_path).short) == 2
    assert not forecast_of(replace(experiment, **changed), tmp_path).short  # type: ignore[arg-type]


def test_a_block_that_is_mostly_starts_is_not_shortened(tmp_path: Path) -> None:
    """One load of 5 s: a short block saves less than a third of a whole one, and says less."""
    assert not forecast_of(an_experiment(), tmp_path).short


def forecast_of(experiment: Experiment, tmp_path: Path) -> Forecast:
    """Return what a campaign in turns would take."""
    bench = Stage.new(experiment, tmp_path / f"forecast-{len(list(tmp_path.iterdir()))}").bench()
    assembly = Assembly(engine=bench._engine, platforms=bench._platforms, room=IN_TURNS)
    return forecast(experiment, assembly)


def test_a_campaign_in_turns_finds_what_is_there(tmp_path: Path) -> None:
    """5 % faster is found, the plan says what was done, reads go before writes, turns are kept."""
    experiment = an_experiment(workloads=("writes", "reads"), loads=2)
    stage = staged(tmp_path / "campaign", experiment)
    analysis = stage.run()
    plan = analysis.plan
    assert plan is not None
    assert (plan.mode, plan.pausing) == (Mode.ALTERNATING, Pausing.SIGNALS)
    assert plan.design_reason == "all of them can be up at the same time"
    assert {each.workload: each.times for each in plan.turns} == {
        "reads": TurnTimes(),
        "writes": TurnTimes(),
    }
    results = [each for each in analysis.comparisons if each.load is None]
    assert [each.verdict for each in results] == [Verdict.FASTER] * 2
    for each in results:
        assert each.effect is not None
        assert each.effect.low is not None
        assert each.effect.high is not None
        assert each.effect.low < 0.05 < each.effect.high
    record = read_campaign(tmp_path / "campaign")
    for runs in by_block(record).values():
        assert len(runs) == 2 * 4
        length = 10 if runs[0].block < 4 else 14  # of 20: blocks begin short
        assert all([turn.round for turn in run.turns] == list(range(length)) for run in runs)
        ordered = [run.cell.workload for run in sorted(runs, key=lambda run: run.position)]
        assert ordered == ["reads"] * 4 + ["writes"] * 4


def test_both_are_up_from_the_beginning_to_the_end_of_a_block(tmp_path: Path) -> None:
    """Each from data that were just restored, in the slot that the coin gave it."""
    stage = staged(tmp_path / "campaign")
    stage.run()
    blocks = " ".join(stage.world.steps).split("stop stop")[:-1]
    assert len(blocks) > 5
    for block in blocks[1:]:
        assert block.count("restore by reflink") == block.count(" start") == 2
        first, second = (
            block.index("connect reads 1 at 5556"),
            block.index("connect reads 1 at 5557"),
        )
        assert block.rindex("start") < min(first, second)
    schedule = read_schedule(tmp_path / "campaign")
    record = read_campaign(tmp_path / "campaign")
    for index, runs in by_block(record).items():
        planned = [start.configuration for start in schedule.blocks[index].starts]
        assert [run.configuration for run in runs] == planned
    assert {runs[0].configuration for runs in by_block(record).values()} == {"slow", "fast"}


@pytest.mark.parametrize(("at_once", "sizes"), [(2, (2, 2, 2)), (3, (3, 2))])
def test_what_does_not_fit_together_alternates_in_sub_blocks(
    tmp_path: Path, at_once: int, sizes: tuple[int, ...]
) -> None:
    """As many as fit are up, the baseline in each; each is compared with the one beside it."""
    stage = staged(tmp_path / "campaign", four_configurations(), room_for(at_once))
    analysis = stage.run()
    plan = analysis.plan
    assert plan is not None
    assert (plan.mode, plan.at_once) == (Mode.ALTERNATING, at_once)
    assert plan.design_reason == "no more of them fit into memory at the same time"
    verdicts = {each.configuration: each.verdict for each in analysis.results}
    assert verdicts["fast"] is Verdict.FASTER
    assert Verdict.SLOWER not in verdicts.values()
    record, together = read_campaign(tmp_path / "campaign"), set()
    for index, runs in by_block(record).items():
        planned = read_schedule(tmp_path / "campaign").blocks[index]
        assert tuple(len(starts) for starts in planned.sub_blocks) == sizes
        together.add(tuple(frozenset(s.configuration for s in e) for e in planned.sub_blocks))
        for starts in planned.sub_blocks:
            names = [start.configuration for start in starts]
            assert names.count("slow") == 1
            mine = [run for run in runs if run.sub_block == starts[0].sub_block]
            assert [run.configuration for run in mine] == names * 2
        assert len({run.place for run in runs}) == len(runs) == 2 * sum(sizes)
    assert len(together) > 1  # drawn anew in every block
    places = " ".join(stage.world.steps)
    assert f"at {5555 + at_once}" in places
    assert f"at {5556 + at_once}" not in places  # no more are up than fit
    seen = observe(record)
    for block, runs in by_block(record).items():
        for cell in seen.cells:
            own = {(r.configuration, r.sub_block): r for r in runs if r.cell == cell}
            for (name, number), run in own.items():
                assert run.measurement is not None
                beside = own["slow", number].measurement
                assert beside is not None
                ratio = run.measurement.log_tps - beside.log_tps
                column = seen.cells.index(cell)
                assert seen.contrasts("slow", name)[block, column] == pytest.approx(ratio)


def test_an_outside_cause_in_one_sub_block_redoes_the_block(tmp_path: Path) -> None:
    """Whole, for all configurations: the unit stays the block. What is lost is one try."""
    stage = staged(tmp_path / "campaign", four_configurations(), room_for(2))
    begun = 0

    def fail(_: int) -> None:
        nonlocal begun
        label = stage.listener.heard[-1]
        begun += label.startswith("starting") and stage.world.block == 1
        is_second = begun == 2 and label.endswith("clients, in turns")
        for world in worlds(stage):
            world.fails_after_s = 1.0 if is_second else None

    stage.listener.at_run = fail
    analysis = stage.run()
    outcomes = [o for o in stage.listener.outcomes if o.index == 1]
    assert [o.complete for o in outcomes] == [False, True]
    record = read_campaign(tmp_path / "campaign")
    lost = [run for run in record.runs if (run.block, run.attempt) == (1, 0)]
    assert {run.sub_block for run in lost} == {0, 1}
    counted_again = by_block(record)[1]
    assert {run.attempt for run in counted_again} == {1}
    assert {run.sub_block for run in counted_again} == {0, 1, 2}
    assert analysis.blocks == len(by_block(record))


def test_who_asks_for_starts_gets_them(tmp_path: Path) -> None:
    """Though turns could be taken."""
    stage = staged(tmp_path / "campaign", replace(an_experiment(), design=Design.ONE_BY_ONE))
    plan = stage.run().plan
    assert plan is not None
    assert (plan.mode, plan.pausing, plan.turns) == (Mode.STARTS, None, ())
    assert plan.design_reason == "the experiment asks for it"
    assert not stage.guards.started


def test_transactions_that_are_too_long_mean_starts(tmp_path: Path) -> None:
    """It shows when they are tried, and is said in the plan."""
    experiment = an_experiment()
    stage = staged(tmp_path / "campaign", experiment)
    turns = replace(TurnTimes(), turn_s=5.5)
    measure = replace(experiment.measure, turns=turns)
    stage.experiment = stage.world.experiment = replace(experiment, measure=measure)
    plan = stage.run().plan
    assert plan is not None
    assert plan.mode is Mode.STARTS
    assert "a turn of reads would have to last 5.5 s" in plan.design_reason


@pytest.mark.parametrize("fails", [False, True])
def test_nothing_is_left_and_the_guard_is_let_go(tmp_path: Path, *, fails: bool) -> None:
    """Slots, servers, generators; one guard watches over all places as long as there are pauses."""
    stage = staged(tmp_path / "campaign")

    def stop(now: bool) -> None:  # noqa: FBT001 - called by the stage
        if now and fails:
            for world in worlds(stage):
                world.fails_after_s = 1.0

    in_block(stage, 2, stop)
    with pytest.raises(MeasurementError) if fails else nullcontext():
        stage.run()
    outside = tmp_path / "campaign-outside" / "live"
    assert stage.guards.directories == [outside / "fake-1" / f"slot-{n}" for n in (1, 2)]
    assert not stage.guards.groups
    assert len(stage.guards.started) == 1
    assert not stage.guards.started[0].stands()
    assert not any(world.running for world in (stage.world, *worlds(stage)))
    assert all(each.closed for world in worlds(stage) for each in world.generators)
    assert not [path for path in outside.rglob("*") if path.is_file()]
    status = read_campaign(tmp_path / "campaign").status
    assert status is (Status.FAILED if fails else Status.DECIDED)


def generator_fails(world: World) -> None:
    """Let the generators of a slot fail in their turns."""
    world.fails_after_s = 1.0


def server_dies(world: World) -> None:
    """Let the server of a slot die in its turns."""
    world.dies_after_s = 1.0


def does_not_start(world: World) -> None:
    """Let the server of a slot not start the next time."""
    world.refuses = 1


@pytest.mark.parametrize(
    ("harms", "cause", "slot"),
    [
        (generator_fails, "generator-failed", 1),
        (generator_fails, "generator-failed", 2),
        (server_dies, "server-died", 2),
        (does_not_start, "", 1),
    ],
)
def test_a_block_is_redone_for_all_under_whose_trouble_it_was(
    tmp_path: Path, harms: Callable[[World], None], cause: str, slot: int
) -> None:
    """Whichever slot it has: else it would not show that all redone blocks fell under one."""
    stage = staged(tmp_path / "campaign")

    def harm(now: bool) -> None:  # noqa: FBT001 - called by the stage
        world = stage.world.in_slot(slot)
        world.fails_after_s = world.dies_after_s = None
        if now:  # it is up: what does not start is the next one
            harms(world)

    in_block(stage, 2, harm)
    stage.run()
    thrown = [outcome for outcome in stage.listener.outcomes if not outcome.complete]
    schedule = read_schedule(tmp_path / "campaign")
    (outcome,) = thrown
    assert outcome.index == (3 if harms is does_not_start else 2)
    assert outcome.configuration == schedule.blocks[outcome.index].starts[slot - 1].configuration
    assert outcome.cause == cause
    record = read_campaign(tmp_path / "campaign")
    redone = [run for run in record.counted_runs if run.block == outcome.index]
    assert {run.attempt for run in redone} == {1}
    assert len(redone) == 2


def test_what_nobody_brought_about_is_under_nobody(tmp_path: Path) -> None:
    """Rounds were lost on a machine that could not stop them in time."""
    stage = staged(tmp_path / "campaign")

    def harm(now: bool) -> None:  # noqa: FBT001 - called by the stage
        for world in worlds(stage):
            world.restless = set(range(10**6)) if now else set()

    in_block(stage, 2, harm)
    stage.run()
    (outcome,) = [each for each in stage.listener.outcomes if not each.complete]
    assert (outcome.configuration, outcome.cause) == ("", "generator-failed")
    assert "rounds are lost" in outcome.reason


def test_a_redone_block_draws_other_orders(tmp_path: Path) -> None:
    """The same slots and cells, and rounds of their own."""
    stage = staged(tmp_path / "campaign")
    in_block(stage, 2, lambda now: _jump(stage) if now else None)
    stage.run()
    record = read_campaign(tmp_path / "campaign")
    redone = [run for run in record.runs if run.block == 2 and run.configuration == "slow"]
    assert [run.attempt for run in redone] == [0, 1]
    places = [[turn.place for turn in run.turns] for run in redone]
    assert places[0] != places[1]


def _jump(stage: Stage) -> None:
    """Let somebody set the clock in the turns that come."""
    at = len(stage.clock.slept) + 20
    stage.clock.woken = lambda number: stage.clock.step_wall(3600.0 if number == at else 0.0)


def test_one_slow_copy_before_the_blocks_makes_no_fewer_blocks(tmp_path: Path) -> None:
    """The disk still writes the prepared data: the copy of one start took longer than any later."""
    stage = staged(tmp_path / "c")
    stage.world.reflink, stage.world.restore_s = False, 1.0
    stage.world.first_restores_s = [1.0, 6.0]  # tried, and of the first start
    analysis = stage.run()
    assert analysis.plan is not None
    assert analysis.plan.restore_s == (("copy", 1.0),)
    assert analysis.plan.data_s == 1.0


@pytest.mark.parametrize(
    ("workloads", "loads", "reconnections", "warm_up_s"),
    [
        (("reads",), 1, 0, 10.0),
        (("reads", "writes"), 2, 0, 2.0),
        (("reads",), 1, 4, 2.0),
    ],
)
def test_a_block_takes_what_is_foretold(
    tmp_path: Path, workloads: tuple[str, ...], loads: int, reconnections: int, warm_up_s: float
) -> None:
    """Up to what ends and starts generators, which takes no time in a world of formulas."""
    turns = TurnTimes(reconnects=reconnections)
    measure = Measure(run_time_s=5.0, discard_start_s=1.0, warm_up_s=warm_up_s, turns=turns)
    experiment = an_experiment(workloads=workloads, loads=loads, measure=measure)
    stage = staged(tmp_path / "campaign", experiment)
    stage.world.restore_s, stage.world.start_s = 3.0, 2.0
    began: list[float] = []

    def note(_: int) -> None:
        if stage.listener.heard[-1].startswith("starting"):
            began.append(stage.clock.monotonic())

    stage.listener.at_run = note
    stage.run()
    assert {outcome.warm_up_s for outcome in stage.listener.outcomes} == {warm_up_s}
    took_s = (began[-1] - began[0]) / (len(began) - 1)
    times = durations.SwitchTimes(restore_s=3.0, start_s=2.0, switch_s=0.0)
    frame = durations.StartFrame(
        mode=Mode.ALTERNATING,
        switch=SwitchCost.RESTART,
        reset=Reset.START,
        warm_up_s=warm_up_s,
        times=times,
        cycle_s=durations.DEFAULT_CYCLE_S,
    )
    told_s = durations.block_s(experiment, frame)
    cells = len(workloads) * loads
    own = len(workloads) * (loads > 1)  # generators that only warm up
    generators = 2 * (cells * (reconnections + 1) + own)
    spare_s = generators * (durations.RUN_OVERHEAD_S + durations.CONNECT_S)
    assert took_s - 2 * len(workloads) * 0.25 <= told_s <= took_s + spare_s


def test_the_forecast_knows_that_turns_are_taken(tmp_path: Path) -> None:
    """As it will be, and why."""
    stage = staged(tmp_path / "campaign")
    bench = stage.bench()
    assembly = Assembly(engine=bench._engine, platforms=bench._platforms, room=stage.room)
    expected = forecast(stage.experiment, assembly)
    assert expected.mode is Mode.ALTERNATING
    plan = stage.run().plan
    assert plan is not None
    assert (plan.mode, plan.design_reason) == (expected.mode, expected.design_reason)
    assert plan.block_s == pytest.approx(expected.block_s, rel=0.3)
