"""The order of steps on the bench: restore, start, templates, settings, prewarm, run."""

from dataclasses import replace
from pathlib import Path

import pytest

from fakes.campaigns import Stage, an_experiment, asks
from fakes.clock import FakeClock
from steelyard.campaign.run.bench import TEMPLATE, Bench
from steelyard.campaign.run.beside_blocks import choose_means
from steelyard.core import experiment as experiments
from steelyard.core.schedule import CellKey, Mode, PlannedRun
from steelyard.core.target import EndpointTarget
from steelyard.core.wording import (
    Interrupted,
    LeftBehindError,
    PreflightError,
    RefusedError,
    TargetError,
)
from steelyard.systems.protocol import content_of
from steelyard.targets.differences import switch_cost


def _stage(tmp_path: Path, experiment: experiments.Experiment | None = None) -> Stage:
    cold = experiments.Measure(run_time_s=5.0, discard_start_s=1.0, warm_up_s=2.0, prewarm=False)
    stage = Stage.new(experiment or an_experiment(measure=cold), tmp_path / "campaign", FakeClock())
    stage.world.restore_s, stage.world.start_s = 4.0, 1.5
    return stage


def _prepared(stage: Stage) -> Bench:
    bench = stage.bench()
    bench.prepare(stage.listener.stage)
    stage.world.steps.clear()
    return bench


def _asking(experiment: experiments.Experiment, *means: str | None) -> experiments.Experiment:
    configurations = tuple(
        replace(configuration, target=replace(configuration.target, restore=one))
        for configuration, one in zip(experiment.configurations, means, strict=True)
    )
    return replace(experiment, configurations=configurations)


def test_equal_data_are_prepared_once_for_all_configurations(tmp_path: Path) -> None:
    """Both configurations run the same version: one state, said once what is prepared."""
    stage = _stage(tmp_path)
    bench = stage.bench()
    bench.prepare(stage.listener.stage)
    assert len(stage.world.steps) == 1
    assert bench.state("slow") == bench.state("fast")
    assert len(stage.listener.heard) == 1
    bench.prepare(stage.listener.stage)
    assert len(stage.listener.heard) == 1


@pytest.mark.parametrize(("allowed", "words"), [(True, "looking at"), (False, "preparing data:")])
def test_where_nothing_is_prepared_nothing_is_said_of_it(
    tmp_path: Path, *, allowed: bool, words: str
) -> None:
    """Scripts in a database that was there: no data are made, and no name of ours is shown."""
    target = EndpointTarget(dbname="shop", allow_existing=allowed)
    script = experiments.Script(name="q.sql", text="SELECT 1;")
    experiment = replace(
        an_experiment(), workloads=(experiments.Workload(name="q", scripts=(script,)),)
    )
    configurations = tuple(replace(each, target=target) for each in experiment.configurations)
    stage = Stage.new(replace(experiment, configurations=configurations), tmp_path / "c")
    steps: list[str] = []
    stage.bench().prepare(steps.append)
    assert steps
    assert all(step.startswith(words) for step in steps)


def test_scripts_of_a_configuration_make_data_of_its_own(tmp_path: Path) -> None:
    """After those of the workload; another state, so other live data, and a restart between."""
    own = experiments.Script(name="index.sql", text="CREATE INDEX ON t (a);")
    plain = an_experiment()
    configurations = (plain.configurations[0], replace(plain.configurations[1], prepare=(own,)))
    stage = _stage(tmp_path, replace(plain, configurations=configurations))
    bench = stage.bench()
    bench.prepare(stage.listener.stage)
    one, other = (each.name for each in configurations)
    assert bench.state(one) != bench.state(other)
    assert bench.data_of(one) != bench.data_of(other)
    assert switch_cost(bench.experiment, bench._engine) is experiments.SwitchCost.RESTART
    (data,) = content_of(configurations[1], bench._engine.datasets())
    assert data.prepare[-1] == ("index.sql", own.text)


def test_an_start_restores_starts_and_measures_both(tmp_path: Path) -> None:
    """Seconds of restoring and of starting are told apart; readiness is the clock's now."""
    stage = _stage(tmp_path)
    bench = _prepared(stage)
    start = bench.activate("fast", restore=True, means="copy")
    assert stage.world.steps == ["restore by copy", "start"]
    assert (start.restore_s, start.start_s) == (4.0, 1.5)
    assert start.at == stage.clock.monotonic()
    assert start.deviations == ()
    assert {s.name: s.value for s in start.effective}["speed"] == "1.05"


def test_data_that_a_restored_server_has_not_are_told(tmp_path: Path) -> None:
    """A sentence of the engine counts as a setting that is not in force; not without a restore."""
    stage = _stage(tmp_path)
    bench = _prepared(stage)
    stage.world.missing = ("database 0 holds 0 keys, not 100",)
    start = bench.activate("fast", restore=True, means="copy")
    assert start.deviations == ("database 0 holds 0 keys, not 100",)
    assert bench.activate("slow", restore=False, means="copy").deviations == ()


def test_without_a_restore_the_data_stay_as_they_were(tmp_path: Path) -> None:
    """The running server is shut down in order, because its data are needed."""
    stage = _stage(tmp_path)
    bench = _prepared(stage)
    bench.activate("slow", restore=True, means="copy")
    stage.world.steps.clear()
    start = bench.activate("fast", restore=False, means="copy")
    assert stage.world.steps == ["stop in order", "start"]
    assert start.restore_s == 0.0


def test_templates_are_kept_once_and_copied_from_on_every_restore(tmp_path: Path) -> None:
    """The data directory is copied once; afterwards databases are copied inside the server."""
    stage = _stage(tmp_path)
    bench = _prepared(stage)
    first = bench.activate("slow", restore=True, means=TEMPLATE)
    assert stage.world.steps == [
        "restore by copy",
        "start",
        "keep templates at 5555",
        "restore templates at 5555",
    ]
    stage.world.steps.clear()
    again = bench.activate("fast", restore=True, means=TEMPLATE)
    assert stage.world.steps == ["stop in order", "start", "restore templates at 5555"]
    assert (first.restore_s, again.restore_s) == (4.5, 0.5)
    assert again.start_s == 1.5
    stage.world.steps.clear()
    bench.activate("slow", restore=False, means=TEMPLATE)
    assert stage.world.steps == ["stop in order", "start"]


def test_data_that_were_put_aside_come_back_even_without_a_restore(tmp_path: Path) -> None:
    """Keeping templates takes the data away, so the first start copies them in any case."""
    stage = _stage(tmp_path)
    bench = _prepared(stage)
    bench.activate("slow", restore=False, means=TEMPLATE)
    assert stage.world.steps[-2:] == ["keep templates at 5555", "restore templates at 5555"]


def test_prewarming_comes_after_the_settings_and_before_readiness(tmp_path: Path) -> None:
    """It is part of the start, so it is not in the runs."""
    stage = _stage(tmp_path, an_experiment(measure=experiments.Measure(prewarm=True)))
    bench = _prepared(stage)
    bench.activate("slow", restore=True, means="reflink")
    assert stage.world.steps[-1] == "prewarm at 5555"


def test_prewarming_is_usual_and_limited(tmp_path: Path) -> None:
    """Without a word of it data are loaded that are not large; who says no gets none."""
    bench = _prepared(stage := _stage(tmp_path, an_experiment()))
    bench.activate("slow", restore=True, means="reflink")
    assert stage.world.steps[-1] == f"prewarm at 5555, up to {4 * 1024**3} bytes"
    assert not bench.leaves_cold
    stage.world.data_bytes = 5 * 1024**3
    bench.activate("slow", restore=True, means="reflink")
    assert bench.leaves_cold
    bench = _prepared(stage := _stage(tmp_path / "without"))
    bench.activate("slow", restore=True, means="reflink")
    assert "prewarm" not in stage.world.steps[-1]


def test_a_switch_reloads_and_verifies(tmp_path: Path) -> None:
    """On the running server, without a restart; what did not take effect is returned."""
    stage = _stage(tmp_path, an_experiment(restart=False))
    bench = _prepared(stage)
    bench.activate("slow", restore=True, means="reflink")
    stage.world.steps.clear()
    assert bench.switch("fast") == ()
    assert stage.world.steps == ["reload at 5555"]
    stage.world.stubborn = {"speed"}
    assert "speed was asked to be '1.05'" in bench.switch("fast")[0]


def test_scripts_are_written_where_the_generator_reads_them(tmp_path: Path) -> None:
    """Each under its number and name, so that two of one name do not meet."""
    own = experiments.Workload(
        name="own-reads",
        scripts=(
            experiments.Script(name="a/new.sql", text="SELECT 1", weight=9),
            experiments.Script(name="b/new.sql", text="SELECT 2"),
        ),
    )
    stage = _stage(tmp_path, replace(an_experiment(), workloads=(own,)))
    bench = _prepared(stage)
    bench.activate("slow", restore=True, means="reflink")
    cell = CellKey(workload="own-reads", load=stage.experiment.loads[0])
    planned = PlannedRun(configuration="slow", cell=cell)
    bench.request(planned, seconds=3)
    home = bench.platform("slow").scripts / "slow" / "own-reads"
    assert {path.name: path.read_text() for path in home.iterdir()} == {
        "0-new.sql": "SELECT 1",
        "1-new.sql": "SELECT 2",
    }


def test_running_without_a_server_is_a_target_error(tmp_path: Path) -> None:
    """The generator is not even started."""
    bench = _prepared(_stage(tmp_path))
    cell = CellKey(workload="reads", load=an_experiment().loads[0])
    with pytest.raises(TargetError, match="not running"):
        bench.request(PlannedRun(configuration="slow", cell=cell), seconds=3)
    assert not bench.is_running()


@pytest.mark.parametrize(
    ("setting", "code", "is_named"),
    [
        ("statement_timeout", "57014", True),
        ("Transaction_Timeout", "25P04", True),
        ("work_mem", "57014", False),
        ("statement_timeout", "42501", False),
    ],
)
def test_a_limit_of_the_file_that_ends_own_statements_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, code: str, *, is_named: bool
) -> None:
    """By the code of the server: the way out is the configuration, and no role of the server."""
    experiment = an_experiment()
    first, second = experiment.configurations
    second = replace(second, settings=(*second.settings, *asks(**{setting: "1ms"})))
    stage = _stage(tmp_path, replace(experiment, configurations=(first, second)))
    bench = _prepared(stage)

    def refuse(_: object) -> None:
        raise RefusedError("the server broke a statement off", hint="ALTER ROLE", code=code)

    monkeypatch.setattr(bench._engine, "effective", refuse)
    with pytest.raises(RefusedError) as caught:
        bench.activate(second.name, restore=True, means="reflink")
    words = f"Configuration `{second.name}` sets {setting.lower()} = 1ms"
    assert caught.value.hint.startswith(words if is_named else "ALTER ROLE")


def test_where_blocks_are_shared_nothing_else_is_tried(tmp_path: Path) -> None:
    """A reflink copy takes the same at any size."""
    stage = _stage(tmp_path)
    chosen = choose_means(stage.experiment, _prepared(stage), stage.clock)
    assert chosen.means == "reflink"
    assert chosen.tried_s == (("reflink", 4.0),)


@pytest.mark.parametrize(("copy_s", "means"), [(4.0, TEMPLATE), (0.9, "copy")])
def test_else_the_clearly_cheaper_means_is_taken(tmp_path: Path, copy_s: float, means: str) -> None:
    """A template takes half a second here and restores less: it must be twice as fast."""
    stage = _stage(tmp_path)
    stage.world.reflink, stage.world.restore_s = False, copy_s
    chosen = choose_means(stage.experiment, _prepared(stage), stage.clock)
    assert chosen.means == means
    assert chosen.tried_s == (("copy", copy_s), (TEMPLATE, 0.5))


def test_the_means_asked_for_is_taken_without_a_measurement(tmp_path: Path) -> None:
    """What the file says counts, if it works here."""
    experiment = _asking(an_experiment(), "copy", "copy")
    stage = _stage(tmp_path, experiment)
    chosen = choose_means(experiment, _prepared(stage), stage.clock)
    assert (chosen.means, chosen.tried_s) == ("copy", ())


def test_a_means_that_does_not_work_here_is_refused(tmp_path: Path) -> None:
    """Reflink on a file system without it, with the way out."""
    experiment = _asking(an_experiment(), "reflink", None)
    stage = _stage(tmp_path, experiment)
    stage.world.reflink = False
    with pytest.raises(PreflightError, match="does not share blocks") as caught:
        choose_means(experiment, _prepared(stage), stage.clock)
    assert "XFS" in caught.value.hint


def test_two_means_in_one_experiment_are_refused(tmp_path: Path) -> None:
    """All configurations must start from data restored alike."""
    experiment = _asking(an_experiment(), "copy", "template")
    stage = _stage(tmp_path, experiment)
    with pytest.raises(PreflightError, match="copy, template"):
        choose_means(experiment, _prepared(stage), stage.clock)


def _limited(measure: experiments.Measure | None = None) -> experiments.Experiment:
    """Return an experiment whose second configuration asks for nothing but a quota."""
    experiment = an_experiment(restart=False, measure=measure)
    slow, fast = experiment.configurations
    quota = experiments.Setting(layer=experiments.Layer.CGROUP, name="cpus", value="0.6")
    return replace(experiment, configurations=(slow, replace(fast, settings=(quota,))))


def test_limits_come_last_and_are_part_of_what_is_in_force(tmp_path: Path) -> None:
    """Starting and prewarming are not limited; what the place reads back is kept and checked."""
    stage = _stage(tmp_path, _limited(experiments.Measure(prewarm=True)))
    bench = _prepared(stage)
    start = bench.activate("fast", restore=True, means="copy")
    assert stage.world.steps[-2:] == ["prewarm at 5555", "limit {'cpus': '0.6'}"]
    assert {s.name: s.value for s in start.effective}["cgroup: cpus"] == "0.6"
    assert start.deviations == ()
    stage.world.stubborn = {"cpus"}
    again = bench.activate("fast", restore=True, means="copy")
    assert again.deviations == ("cpus is not in force",)


def test_limits_are_switched_on_the_running_server(tmp_path: Path) -> None:
    """Also back to none; what did not take effect is returned."""
    stage = _stage(tmp_path, _limited())
    bench = _prepared(stage)
    bench.activate("slow", restore=True, means="reflink")
    stage.world.steps.clear()
    assert bench.switch("fast") == bench.switch("slow") == ()
    limits = [step for step in stage.world.steps if "limit" in step]
    assert limits == ["limit {'cpus': '0.6'}", "unlimited"]
    assert "start" not in stage.world.steps
    stage.world.stubborn = {"cpus"}
    assert bench.switch("fast") == ("cpus is not in force",)


def test_templates_are_restored_without_limits(tmp_path: Path) -> None:
    """How long that takes decides the means for all configurations, limited or not."""
    stage = _stage(tmp_path, _limited())
    bench = _prepared(stage)
    bench.activate("fast", restore=True, means=TEMPLATE)
    bench.restore_templates("fast")
    assert stage.world.steps[-2:] == ["unlimited", "restore templates at 5555"]


def test_a_limited_campaign_is_measured_back_to_back(tmp_path: Path) -> None:
    """From the plan to the table of settings: a quota needs no restart and is a difference."""
    analysis = Stage.new(_limited(), tmp_path / "campaign", FakeClock()).run()
    assert analysis.plan is not None
    assert (analysis.plan.mode, analysis.plan.switch) == (
        Mode.BACK_TO_BACK,
        experiments.SwitchCost.SESSION,
    )
    (told,) = [each for each in analysis.settings if each.name == "cgroup: cpus"]
    assert (told.values, told.requested) == ({"slow": "unlimited", "fast": "0.6"}, True)


class _Stuck:
    """A platform that cannot be destroyed, and notes that it was asked."""

    def __init__(self, said: list[str], error: BaseException | None) -> None:
        self._said = said
        self._error = error

    def destroy(self) -> None:
        """Fail, if there is something to fail with."""
        self._said.append("asked")
        if self._error is not None:
            raise self._error


def _stuck_bench(stage: Stage, said: list[str], *errors: BaseException | None) -> Bench:
    bench = stage.bench()
    platforms = [_Stuck(said, error) for error in errors]
    bench._platforms = dict(zip("abcdef", platforms, strict=False))  # type: ignore[arg-type]

    def close() -> None:
        said.append("closed")
        raise LeftBehindError("a pod is still there")

    bench._close = close
    return bench


def test_every_platform_is_destroyed_and_the_first_trouble_told(tmp_path: Path) -> None:
    """One that fails keeps neither the others nor the closing, whose trouble is not in its way."""
    said: list[str] = []
    bench = _stuck_bench(
        _stage(tmp_path), said, TargetError("one is gone"), TargetError("two"), None
    )
    with pytest.raises(TargetError, match="one is gone"):
        bench.destroy()
    assert said == ["asked", "asked", "asked", "closed"]


def test_an_interruption_of_the_end_is_not_taken_for_a_trouble(tmp_path: Path) -> None:
    """Who stops it is heard, after the rest was tried."""
    said: list[str] = []
    bench = _stuck_bench(_stage(tmp_path), said, TargetError("one is gone"), Interrupted("stopped"))
    with pytest.raises(Interrupted):
        bench.destroy()
    assert said == ["asked", "asked", "closed"]
