"""What a campaign will take, before anything is started."""

from dataclasses import replace
from pathlib import Path

import pytest

from fakes.campaigns import Stage, an_experiment, asks, of_redis
from steelyard.campaign.design import schedule as durations
from steelyard.campaign.foresee.forecast import (
    Forecast,
    expected_warm_up_s,
    forecast,
    require_disk,
    require_first_look,
)
from steelyard.cli.progress import dry_run_json, forecast_text
from steelyard.core import experiment as experiments
from steelyard.core.schedule import Mode
from steelyard.core.wording import GIB, ExitCode, PreflightError
from steelyard.stats.drift import starts_to_see_it_stand
from steelyard.targets.assembly import Assembly


def _forecast(experiment: experiments.Experiment, tmp_path: Path) -> Forecast:
    stage = Stage.new(experiment, tmp_path / "campaign")
    bench = stage.bench()
    assembly = Assembly(engine=bench._engine, platforms=bench._platforms)
    return forecast(experiment, assembly)


@pytest.mark.parametrize(
    ("measure", "warm_up_s"),
    [
        (experiments.Measure(), 20.0),
        (experiments.Measure(warm_up_s=3.0), 3.0),
        (experiments.Measure(calibration=experiments.Calibration(at_least_s=7.0)), 7.0),
        (
            experiments.Measure(warm_up_s=3.0, calibration=experiments.Calibration(at_least_s=7.0)),
            3.0,
        ),
    ],
)
def test_the_expected_warm_up_is_the_declared_one_or_the_least(
    measure: experiments.Measure, warm_up_s: float
) -> None:
    """What will be measured is at least its floor."""
    assert expected_warm_up_s(an_experiment(measure=measure)) == warm_up_s


def test_the_plan_says_why_a_start_warms_up_for_twenty_seconds(tmp_path: Path) -> None:
    """How many starts would allow less, and how many there are; not where the file has its own."""
    one_by_one = an_experiment(measure=experiments.Measure())
    one_by_one = replace(one_by_one, design=experiments.Design.ONE_BY_ONE)
    expected = _forecast(one_by_one, tmp_path)
    assert expected.mode is Mode.STARTS
    assert expected.starts_to_shorten == starts_to_see_it_stand(0.05, 0.5, 10)
    text = forecast_text(one_by_one, expected)
    assert "20 s under load after each start, equal for all; to show that less is enough" in text
    assert f"1,000 starts of each configuration, and there are about {expected.max_blocks};" in text
    declared = replace(one_by_one, measure=experiments.Measure(warm_up_s=3.0))
    assert "warm-up" not in forecast_text(declared, _forecast(declared, tmp_path / "declared"))


def a_frame(
    mode: Mode, reset: experiments.Reset, warm_up_s: float, times: durations.SwitchTimes
) -> durations.StartFrame:
    """Return what is known of starts that need a restart."""
    return durations.StartFrame(
        mode=mode,
        switch=experiments.SwitchCost.RESTART,
        reset=reset,
        warm_up_s=warm_up_s,
        times=times,
        cycle_s=durations.DEFAULT_CYCLE_S,
    )


def test_a_block_is_the_sum_of_its_parts() -> None:
    """Two arms, two cells: restores, starts, warm-ups and runs, by hand."""
    experiment = an_experiment(
        loads=2, measure=experiments.Measure(run_time_s=5.0, discard_start_s=1.0)
    )
    times = durations.SwitchTimes(restore_s=3.0, start_s=2.0, switch_s=0.5)
    run_s = 6.0 + durations.RUN_OVERHEAD_S
    warm_up_s = 10.0 + durations.RUN_OVERHEAD_S

    def block_s(mode: Mode, reset: experiments.Reset, warm_up: float = 10.0) -> float:
        return durations.block_s(experiment, a_frame(mode, reset, warm_up, times))

    assert block_s(Mode.STARTS, experiments.Reset.START) == 2 * (3 + 2 + warm_up_s) + 4 * run_s
    assert block_s(Mode.STARTS, experiments.Reset.BLOCK) == 3 + 2 * (2 + warm_up_s) + 4 * run_s
    assert block_s(Mode.STARTS, experiments.Reset.CAMPAIGN) == 2 * (2 + warm_up_s) + 4 * run_s
    assert block_s(Mode.STARTS, experiments.Reset.CAMPAIGN, 0.0) == 2 * 2 + 4 * run_s
    assert block_s(Mode.BACK_TO_BACK, experiments.Reset.CAMPAIGN) == 4 * run_s + 4 * 0.5
    assert (
        block_s(Mode.BACK_TO_BACK, experiments.Reset.BLOCK)
        == 3 + 2 + warm_up_s + 4 * run_s + 4 * 0.5
    )


def test_a_switch_of_redis_has_a_run_that_is_thrown_away() -> None:
    """Its generators leave out no ramp: 2 s at most, and nothing where nothing is discarded."""
    experiment = of_redis(an_experiment(loads=2))
    times = durations.SwitchTimes(restore_s=3.0, start_s=2.0, switch_s=0.5)

    def block_s(asked: experiments.Experiment, *, warm_up_s: float) -> float:
        frame = a_frame(Mode.BACK_TO_BACK, experiments.Reset.CAMPAIGN, warm_up_s, times)
        return durations.block_s(asked, frame)

    bare_s = block_s(experiment, warm_up_s=0.0)
    for warm_up_s, thrown_s in ((0.5, 1), (10.0, 2)):
        more_s = block_s(experiment, warm_up_s=warm_up_s) - bare_s
        assert more_s == pytest.approx(4 * (thrown_s + durations.RUN_OVERHEAD_S))
    postgres = an_experiment(loads=2)
    assert block_s(postgres, warm_up_s=10.0) == block_s(postgres, warm_up_s=0.0) == bare_s


def test_what_the_forecast_says_is_about_what_a_campaign_takes(tmp_path: Path) -> None:
    """With the times it guesses, the simulated campaign's blocks take what was foretold."""
    experiment = an_experiment(stop=experiments.Stop(budget_s=600.0))
    expected = _forecast(experiment, tmp_path)
    stage = Stage.new(experiment, tmp_path / "real")
    times = stage.world
    times.restore_s, times.start_s = 0.5, 0.5
    analysis = stage.run()
    assert analysis.plan is not None
    assert analysis.plan.block_s == pytest.approx(expected.block_s, rel=0.1)


def test_a_budget_that_ends_before_the_first_look_is_refused(tmp_path: Path) -> None:
    """With what it takes, and a budget that would do: and that one does."""
    experiment = an_experiment(stop=experiments.Stop(budget_s=60.0))
    expected = _forecast(experiment, tmp_path)
    with pytest.raises(
        PreflightError, match="ends before the first interim result: 4 blocks"
    ) as caught:
        require_first_look(expected, experiment)
    assert caught.value.exit_code is ExitCode.REFUSED
    minutes = int(caught.value.hint.split("--budget ")[1].split("m")[0])
    enough = an_experiment(stop=experiments.Stop(budget_s=60.0 * minutes))
    require_first_look(_forecast(enough, tmp_path / "again"), enough)


def test_one_configuration_alone_needs_no_look(tmp_path: Path) -> None:
    """Without a comparison any budget does."""
    both = an_experiment(stop=experiments.Stop(budget_s=1.0))
    alone = replace(both, configurations=both.configurations[:1])
    require_first_look(_forecast(alone, tmp_path), alone)


def test_the_disk_that_is_needed_counts_data_copies_and_wal(tmp_path: Path) -> None:
    """More WAL asked for is more disk needed; a prepared state is not counted again."""
    small = an_experiment()
    configurations = tuple(
        replace(t, settings=asks(max_wal_size="8GB", **{s.name: s.value for s in t.settings}))
        for t in small.configurations
    )
    large = replace(small, configurations=configurations)
    needed = [
        sum(need for need, _ in _forecast(e, tmp_path / name).disk_bytes.values())
        for name, e in (("small", small), ("large", large))
    ]
    assert needed[1] - needed[0] == 7 * GIB
    assert needed[0] > GIB


def test_too_small_a_disk_is_refused_with_both_numbers(tmp_path: Path) -> None:
    """Needed and free are named with the place, and the way out."""
    expected = _forecast(an_experiment(), tmp_path)
    place = Path("/data")
    require_disk(replace(expected, disk_bytes={place: (GIB, GIB)}))
    short = replace(expected, disk_bytes={place: (2 * GIB, GIB)})
    with pytest.raises(PreflightError, match=r"/data has 1\.0 GiB free") as caught:
        require_disk(short)
    assert "needs 2.0 GiB" in caught.value.message
    assert "scale factor" in caught.value.hint


def test_prepared_states_are_counted(tmp_path: Path) -> None:
    """What is in the cache already is known to the forecast."""
    experiment = an_experiment()
    stage = Stage.new(experiment, tmp_path / "campaign")
    bench = stage.bench()
    assembly = Assembly(engine=bench._engine, platforms=bench._platforms)
    before = forecast(experiment, assembly)
    bench.prepare(stage.listener.stage)
    after = forecast(experiment, assembly)
    assert (before.cached, after.cached) == (0, 2)
    assert sum(n for n, _ in after.disk_bytes.values()) < sum(
        n for n, _ in before.disk_bytes.values()
    )


def test_a_run_begins_with_four_lines(tmp_path: Path) -> None:
    """What is compared, on what, how long with disk, and where; the design is for who asks."""
    asking = an_experiment(loads=2, workloads=("reads", "writes"), restart=False)
    expected = _forecast(asking, tmp_path)
    text = forecast_text(asking, expected, path=Path("c"), brief=True)
    name, compared, work, time, where = text.splitlines()
    assert name == "fake"
    assert compared == "  compares   fast (speed = 1.05) vs slow (baseline)"
    runs = "reads: pgbench select-only; writes: pgbench select-only; 1, 2 clients"
    assert work == f"  workloads  {runs}"
    assert time.startswith("  time       up to 60 min, preparation about ")
    assert ", first answer after about " in time
    assert "; disk: at most " in time
    assert where.endswith("; the record: c")
    assert "  design     " in forecast_text(asking, expected)


def test_configurations_are_told_by_what_they_differ_in(tmp_path: Path) -> None:
    """Settings of the baseline that one lacks are its default; of many configurations a few."""
    plain = an_experiment(restart=False)
    slow, fast = plain.configurations
    base = replace(slow, settings=asks(depth="3", speed="1"))
    others = tuple(replace(fast, name=f"c{number}") for number in range(6))
    asking = replace(plain, configurations=(base, *others))
    _, compared, *_ = forecast_text(asking, _forecast(asking, tmp_path)).splitlines()
    each = ", ".join(f"c{number} (depth = default, speed = 1.05)" for number in range(4))
    of_base = "slow (baseline, depth = 3, speed = 1)"
    assert compared == f"  compares   {each} and 2 more vs {of_base}"


def test_loads_and_protocols_are_told_as_they_are(tmp_path: Path) -> None:
    """A rate is no number of clients; who names no protocol has the experiment's."""
    plain = an_experiment(restart=False)
    slow, fast = plain.configurations
    asking = replace(
        plain,
        loads=tuple(replace(plain.loads[0], clients=8, rate_per_s=rate) for rate in (500.0, 900.0)),
        configurations=(slow, replace(fast, settings=(), protocol="prepared")),
    )
    _, compared, work, *_ = forecast_text(asking, _forecast(asking, tmp_path)).splitlines()
    assert compared.endswith("fast (protocol = prepared) vs slow (baseline, protocol = simple)")
    assert work.endswith("; 8 clients at 500/s; 8 clients at 900/s")


def test_long_runs_are_time_of_their_own(tmp_path: Path) -> None:
    """They come on top of the budget, and the forecast says how much and how many."""
    asking = replace(an_experiment(loads=2), sustained_s=400.0)
    expected = _forecast(asking, tmp_path)
    assert 1200.0 < expected.sustained_s < 1300.0
    text = forecast_text(asking, expected)
    assert "2 runs of 10 min after the last block" in text
    assert "on top of the budget" in text
    assert dry_run_json(asking, expected)["sustained_s"] == round(expected.sustained_s, 1)
    plain = _forecast(an_experiment(loads=2), tmp_path / "plain")
    assert plain.sustained_s == 0.0
    assert plain.max_blocks == expected.max_blocks


def test_a_single_pass_must_fit_into_its_budget(tmp_path: Path) -> None:
    """It is one block however long; a budget that ends before it is refused with the way out."""
    base = an_experiment(loads=3, stop=experiments.Stop(budget_s=20.0))
    single = replace(base, design=experiments.Design.ONCE, configurations=base.configurations[:1])
    expected = _forecast(single, tmp_path)
    assert (expected.mode, expected.max_blocks) == (Mode.STARTS, 1)
    with pytest.raises(PreflightError) as refused:
        require_first_look(expected, single)
    assert "before the single pass" in refused.value.message
    assert refused.value.exit_code is ExitCode.REFUSED
    assert "single unrepeated pass" in forecast_text(single, expected)
    require_first_look(expected, replace(single, stop=experiments.Stop(budget_s=600.0)))


def test_factors_are_told_before_they_are_paid_for(tmp_path: Path) -> None:
    """Combinations, limits and the shared error are the design's, not the configurations'."""
    plain = an_experiment(loads=2, workloads=("reads", "writes"))
    factor = experiments.Factor(name="buffers", first="128MB", second="2GB")
    ladder = experiments.Attribution(
        kind=experiments.AttributionKind.LADDER, factors=(factor,), combinations=((0,), (1,))
    )
    factored = replace(plain, attribution=ladder)
    expected = _forecast(factored, tmp_path)
    assert expected.stopping.results == 2
    text = forecast_text(factored, expected)
    assert "buffers, one after another (2 combinations)" in text
    assert "depends on the order chosen: buffers" in text
    told = dry_run_json(factored, expected)["attribution"]
    assert isinstance(told, dict)
    assert (told["kind"], told["combinations"]) == ("ladder", 2)
    assert "attribution" not in dry_run_json(plain, expected)
