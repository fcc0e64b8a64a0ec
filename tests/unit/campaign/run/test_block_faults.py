"""What makes a run invalid, and how a block is thrown away and redone in all arms."""

import gzip
import json
from collections.abc import Mapping
from itertools import count
from pathlib import Path

import pytest

from fakes import servers
from fakes.campaigns import Stage, an_experiment, decided, of_redis
from steelyard.core.campaign import CampaignRecord, Status
from steelyard.core.experiment import Calibration, Measure, Stop
from steelyard.core.findings import Validity
from steelyard.core.outside import ServerAddress
from steelyard.core.target import EngineName
from steelyard.core.wording import MeasurementError, PreflightError, RefusedError
from steelyard.record.directory import read_campaign
from support.left import left_over

# Start mode, one workload: a block uses the generator four times, warm-up and run for each arm.
_WARM_UP, _RUN, _SECOND_WARM_UP, _SECOND_RUN = range(4)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the campaign will be."""
    return tmp_path / "campaign"


def _run(path: Path, faults: dict[int, servers.Fault], *, restart: bool = True) -> CampaignRecord:
    stage = Stage.new(an_experiment(restart=restart), path)
    stage.world.faults = faults
    stage.run()
    return read_campaign(path)


def _outcomes(record: CampaignRecord) -> list[tuple[int, int, bool]]:
    return [(block.index, block.attempt, block.complete) for block in record.blocks]


@pytest.mark.parametrize(
    ("fault", "code", "use"),
    [
        (servers.generator_fails, "generator-failed", _RUN),
        (servers.generator_hangs, "generator-failed", _SECOND_RUN),
        (servers.server_dies, "server-died", _RUN),
        (servers.server_dies, "server-died", _SECOND_RUN),
        (servers.clock_jumps, "clock-jump", _SECOND_RUN),
    ],
)
def test_an_invalid_run_costs_its_block_in_all_arms(
    path: Path, fault: servers.Fault, code: str, use: int
) -> None:
    """The run stays in the record with its finding; every arm of the block is taken again."""
    record = _run(path, {use: fault})
    assert _outcomes(record)[:2] == [(0, 0, False), (0, 1, True)]
    assert all(complete for _, _, complete in _outcomes(record)[1:])
    thrown_away = [run for run in record.runs if (run.block, run.attempt) == (0, 0)]
    assert thrown_away[-1].validity is Validity.INVALID
    assert [finding.code for finding in thrown_away[-1].findings] == [code]
    assert record.blocks[0].reason == thrown_away[-1].findings[0].message
    assert len(thrown_away) == (1 if use == _RUN else 2)
    again = [run for run in record.runs if (run.block, run.attempt) == (0, 1)]
    assert {run.configuration for run in again} == {"slow", "fast"}
    assert record.status is Status.DECIDED


@pytest.mark.parametrize(
    ("fault", "use"),
    [
        (servers.generator_fails, _WARM_UP),
        (servers.generator_hangs, _SECOND_WARM_UP),
        (servers.server_dies, _WARM_UP),
        (servers.server_dies, _SECOND_WARM_UP),
    ],
)
def test_a_failed_warm_up_costs_its_block(path: Path, fault: servers.Fault, use: int) -> None:
    """What fails before a run is no run, and the block is redone all the same."""
    record = _run(path, {use: fault})
    assert _outcomes(record)[:2] == [(0, 0, False), (0, 1, True)]
    assert record.blocks[0].reason
    assert all(run.validity is Validity.VALID for run in record.runs)


def test_a_block_redone_gives_the_result_of_an_unharmed_one(path: Path) -> None:
    """A neighbour's fault leaves no trace in the estimates."""
    whole = decided()
    stage = Stage.new(an_experiment(), path)
    stage.world.faults = {_SECOND_RUN: servers.generator_fails, 9: servers.clock_jumps}
    assert stage.run().comparisons == whole.comparisons


def test_failed_transactions_make_a_run_suspect_and_keep_it(path: Path) -> None:
    """What the configuration itself causes stays in, with a warning."""
    record = _run(path, {_RUN: servers.transactions_fail})
    assert all(complete for _, _, complete in _outcomes(record))
    assert record.runs[0].validity is Validity.SUSPECT
    assert record.runs[0].findings[0].code == "failed-transactions"
    assert "3 transactions failed" in record.runs[0].findings[0].message
    assert record.runs[0] in record.counted_runs


def test_what_a_server_refuses_in_blocks_has_its_own_way_out(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is that of the error, such as a limit of a role, and no general one."""
    stage, asked = Stage.new(an_experiment(), path), count()
    original = servers.FakeEngine.effective

    def refusing(engine: servers.FakeEngine, address: ServerAddress) -> object:
        if next(asked) > len(stage.experiment.configurations):
            raise RefusedError("the server broke a statement off", hint="Allow more.")
        return original(engine, address)

    monkeypatch.setattr(servers.FakeEngine, "effective", refusing)
    with pytest.raises(MeasurementError, match="3 times: the server broke") as caught:
        stage.run()
    assert caught.value.hint.startswith("Allow more. Then go on with")


def test_what_fails_three_times_fails_the_campaign(path: Path) -> None:
    """The error names block, tries and the last reason; when the cause is gone it goes on.

    Tries are counted on, complete blocks stay, and the result is that of an unharmed campaign.
    """
    faults = dict.fromkeys(range(4, 200), servers.generator_fails)
    stage = Stage.new(an_experiment(), path)
    stage.world.faults = faults
    with pytest.raises(MeasurementError, match="block 2 failed 3 times") as caught:
        stage.run()
    assert "the generator failed in the warm-up: client 3 aborted" in caught.value.message
    assert f"--resume {path}" in caught.value.hint
    record = read_campaign(path)
    assert record.status is Status.FAILED
    assert _outcomes(record) == [(0, 0, True), (1, 0, False), (1, 1, False), (1, 2, False)]
    assert record.findings[-1].message == caught.value.message
    assert left_over(path) == ()
    again = Stage.resumed(an_experiment(), path, stage.clock).run()
    assert (1, 3, True) in _outcomes(read_campaign(path))
    assert again.comparisons == decided().comparisons


@pytest.mark.parametrize(
    ("engine", "warm_up_s", "thrown"),
    [(EngineName.REDIS, 3.0, "2"), (EngineName.REDIS, 0.0, "5"), (EngineName.POSTGRES, 3.0, "5")],
)
def test_after_a_switch_redis_has_a_run_that_is_thrown_away(
    path: Path, engine: EngineName, warm_up_s: float, thrown: str
) -> None:
    """Its generator leaves out no ramp, and what the arm before left would lie in the slice."""
    measure = Measure(run_time_s=5.0, discard_start_s=0.0, warm_up_s=warm_up_s)
    experiment = an_experiment(restart=False, measure=measure, stop=Stop(early=False))
    if engine is EngineName.REDIS:
        experiment = of_redis(experiment)
    stage = Stage.new(experiment, path)
    stage.run()
    steps = stage.world.steps
    switches = [at for at, step in enumerate(steps) if step.startswith("reload")]
    assert len(switches) > 5
    assert {steps[at + 1] for at in switches} == {f"run reads 1 {thrown}s"}
    if thrown == "2":
        assert {steps[at + 2] for at in switches} == {"run reads 1 5s"}


def test_a_setting_lost_on_the_way_is_named(path: Path) -> None:
    """A configuration that is not in force any more makes the block void, and then the campaign."""
    stage = Stage.new(an_experiment(), path)

    def lose(run: int) -> None:
        if run == 3:
            stage.world.stubborn = {"speed"}

    stage.listener.at_run = lose
    with pytest.raises(MeasurementError, match="`fast` is not in force: speed was asked"):
        stage.run()
    assert all("not in force" in block.reason for block in read_campaign(path).blocks[-3:])


def test_a_switch_that_is_not_in_force_voids_the_block(path: Path) -> None:
    """Back to back the setting is checked at every switch, on the running server."""
    stage = Stage.new(an_experiment(restart=False), path)

    def lose_for_a_while(run: int) -> None:
        stage.world.stubborn = {"speed"} if run == 1 else set()

    stage.listener.at_run = lose_for_a_while
    stage.run()
    outcomes = _outcomes(read_campaign(path))
    assert (0, 0, False) in outcomes
    assert (0, 1, True) in outcomes


@pytest.mark.parametrize("restart", [True, False])
def test_one_server_alone_warms_up_with_every_workload_before_its_first_run(
    path: Path, *, restart: bool
) -> None:
    """Back to back the runs of a cell would else meet a warm-up between them, on one side."""
    stage = Stage.new(an_experiment(restart=restart, workloads=("reads", "writes")), path)
    stage.run()
    heard = [label for label in stage.listener.heard if label.startswith(("reads", "writes"))]
    warming = [label.endswith(", warming up") for label in heard]
    begins = [place for place, is_warming in enumerate(warming) if is_warming]
    assert begins[:2] == [0, 1]
    assert {label.partition(",")[0] for label in heard[:2]} == {"reads", "writes"}
    for place in begins[::2]:
        assert warming[place : place + 4] == [True, True, False, False]


@pytest.mark.parametrize("restart", [True, False])
def test_a_server_that_is_gone_between_runs_is_started_again(path: Path, *, restart: bool) -> None:
    """The block is void and redone on restored data."""
    stage = Stage.new(an_experiment(restart=restart), path)

    def vanish(run: int) -> None:
        if run == 4:
            stage.world.running = False

    stage.listener.at_run = vanish
    analysis = stage.run()
    record = read_campaign(path)
    assert (1, 0, False) in _outcomes(record)
    assert (1, 1, True) in _outcomes(record)
    assert "not running" in next(b.reason for b in record.blocks if not b.complete)
    assert analysis.status is Status.DECIDED


def test_a_server_that_refuses_to_start_once_costs_a_block(path: Path) -> None:
    """A start that fails in a block is tried again; data are restored before."""
    stage = Stage.new(an_experiment(), path)

    def refuse(run: int) -> None:
        if run == 5:
            stage.world.refuses = 1

    stage.listener.at_run = refuse
    stage.run()
    outcomes = _outcomes(read_campaign(path))
    assert [outcome for outcome in outcomes if not outcome[2]] == [(2, 0, False)]


def test_generator_output_is_stored_also_of_a_failed_run(path: Path) -> None:
    """What the generator said can be looked at afterwards."""
    record = _run(path, {_RUN: servers.generator_fails})

    stored = [gzip.decompress((path / "raw" / run.raw).read_bytes()) for run in record.runs]
    assert stored[0] == b"client 3 aborted\n"
    assert json.loads(stored[1])["seconds"] == 3  # of a block at first, which is short
    assert {run.since_start_s for run in record.runs} == {2.0}  # the warm-up lies between


def test_tries_of_a_block_do_not_all_meet_the_same_moment(path: Path) -> None:
    """Between them are pauses, so that a restart or a short outage costs a block, no campaign."""
    stage = Stage.new(an_experiment(), path)
    stage.world.faults = {0: servers.generator_fails, 1: servers.generator_fails}
    stage.run()
    assert _outcomes(read_campaign(path))[:3] == [(0, 0, False), (0, 1, False), (0, 2, True)]
    pauses = [seconds for seconds in stage.clock.slept if seconds >= 1.0]  # not a wait for an end
    assert pauses == sorted(pauses)
    assert len(pauses) == 2


def test_a_disk_that_fills_up_in_a_block_costs_the_block(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that cannot be written is no refusal before the start once blocks are taken."""
    stage = Stage.new(an_experiment(), path)
    configure = servers.FakePlatform.configure
    full = [False]

    def refuse(platform: servers.FakePlatform, settings: Mapping[str, str]) -> bool:
        if full.pop(0) if full else False:
            raise PreflightError("no space is left on the device of /fake")
        return configure(platform, settings)

    monkeypatch.setattr(servers.FakePlatform, "configure", refuse)

    def fill(run: int) -> None:
        if run == 3:
            full.append(True)

    stage.listener.at_run = fill
    stage.run()
    voided = [block for block in read_campaign(path).blocks if not block.complete]
    assert [block.reason for block in voided] == ["no space is left on the device of /fake"]


def test_a_calibration_run_that_is_invalid_is_made_again(path: Path) -> None:
    """Neither a clock that was set nor a failed generator decides how long the warm-up is."""
    calibration = Calibration(restarts=2, run_time_s=30.0, at_least_s=3.0)
    measure = Measure(run_time_s=5.0, discard_start_s=1.0, calibration=calibration)
    whole = Stage.new(an_experiment(measure=measure), path.with_name("whole"))
    whole.run()
    stage = Stage.new(an_experiment(measure=measure), path)
    stage.world.faults = {1: servers.clock_jumps, 3: servers.generator_fails}
    stage.run()
    assert stage.world.uses > whole.world.uses
    assert stage.listener.plan is not None
    assert whole.listener.plan is not None
    assert stage.listener.plan.warm_up == whole.listener.plan.warm_up


def test_a_calibration_that_fails_each_time_ends_the_campaign(path: Path) -> None:
    """The reason and the way out are said; the record says that it failed."""
    measure = Measure(
        run_time_s=5.0, calibration=Calibration(restarts=2, run_time_s=30.0, at_least_s=3.0)
    )
    stage = Stage.new(an_experiment(measure=measure), path)
    stage.world.faults = dict.fromkeys(range(100), servers.clock_jumps)
    with pytest.raises(MeasurementError, match=r"warm-up failed 3 times: the clock was set by \+7"):
        stage.run()
    assert read_campaign(path).status is Status.FAILED


@pytest.mark.parametrize("step_s", [86400.0, -86400.0])
def test_a_clock_that_is_set_between_runs_changes_nothing(path: Path, step_s: float) -> None:
    """Budget, durations and order come from the monotonic clock: only the stamps differ."""
    whole = decided()
    stage = Stage.new(an_experiment(), path)
    stage.listener.at_run = lambda run: stage.clock.step_wall(step_s) if run == 4 else None
    analysis = stage.run()
    record = read_campaign(path)
    assert analysis.comparisons == whole.comparisons
    assert analysis.elapsed_s == whole.elapsed_s
    assert all(complete for _, _, complete in _outcomes(record))
    days = {round((run.started_at - record.runs[0].started_at) / 86400) for run in record.runs}
    assert len(days) == 2
