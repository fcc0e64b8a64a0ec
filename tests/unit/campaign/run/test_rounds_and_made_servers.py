"""Starts with several rounds, starts that make their server, and a single unrepeated pass."""

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fakes.analyses import many_loads
from fakes.campaigns import Killed, Stage, an_experiment, asks
from fakes.clock import FakeClock
from fakes.servers import FakeEngine, Fault, World, generator_fails, server_dies
from steelyard.answers.campaign import analyse
from steelyard.answers.outlook.compute import Forecast
from steelyard.answers.published import rate_section, rates_beside
from steelyard.answers.report import build_document, short_verdicts, summary
from steelyard.answers.results import CampaignAnalysis
from steelyard.campaign.design import schedule as durations
from steelyard.campaign.design.schedule import (
    ASSUMED_INSTANCE_SD,
    StartFrame,
    asked_cycle_s,
    choose_rounds,
    cycle_in_force_s,
    early_phase_finding,
)
from steelyard.campaign.foresee.forecast import forecast, require_disk, require_first_look
from steelyard.cli.progress import dry_run_json, forecast_text
from steelyard.core import campaign
from steelyard.core.campaign import BlockOutcome, Rounds, Status
from steelyard.core.experiment import (
    Design,
    EffectiveSetting,
    Experiment,
    Measure,
    Reset,
    Setting,
    Stop,
    SwitchCost,
    Workload,
)
from steelyard.core.findings import Validity
from steelyard.core.measurement import ServerEnvironment
from steelyard.core.schedule import Load, Mode
from steelyard.core.wording import PreflightError, format_utc
from steelyard.record.directory import read_campaign, read_schedule
from steelyard.record.journal import read_lines
from steelyard.record.tables import write_tables
from steelyard.report.document import Table
from steelyard.report.html import render_html, render_markdown
from steelyard.report.terminal import render_terminal
from steelyard.targets.assembly import Assembly

MEASURE = Measure(run_time_s=5.0, discard_start_s=1.0, warm_up_s=2.0)
RUN_S = 6.0  # ramp and slice
ROUND_S = RUN_S + durations.RUN_OVERHEAD_S
WRITES = ("writes",)


def asking(*settings: Setting, measure: Measure = MEASURE, **more: object) -> Experiment:
    """Return an experiment whose second configuration asks for these settings, too."""
    experiment = an_experiment(measure=measure, workloads=WRITES, **more)
    slow, fast = experiment.configurations
    changed = replace(fast, settings=tuple(sorted((*fast.settings, *settings))))
    return replace(experiment, configurations=(slow, changed))


def remade(**more: object) -> Experiment:
    """Return an experiment in which every start makes its server."""
    measure = replace(MEASURE, switch=SwitchCost.REPROVISION, **more)
    return asking(measure=measure)


def framed(
    switch: SwitchCost = SwitchCost.RESTART,
    mode: Mode = Mode.STARTS,
    reset: Reset = Reset.START,
    made_in_s: float = 30.0,
) -> StartFrame:
    """Return what is known of starts with a cycle of five minutes."""
    return StartFrame(
        mode=mode,
        switch=switch,
        reset=reset,
        warm_up_s=20.0,
        times=durations.SwitchTimes(restore_s=made_in_s, start_s=0.0, switch_s=0.5),
        cycle_s=300.0,
    )


def chosen(experiment: Experiment, frame: StartFrame | None = None, **more: object) -> Rounds:
    """Return the rounds of an experiment in the fake world."""
    engine = FakeEngine(World(clock=FakeClock(), experiment=experiment))
    return choose_rounds(experiment, engine, frame or framed(), **more)


def test_one_round_unless_something_asks_for_more() -> None:
    """No reason is given where there is none."""
    assert chosen(asking()) == Rounds()


def test_the_runs_of_a_start_cover_a_checkpoint_cycle() -> None:
    """As many rounds as fill the cycle by their runs alone; half as many with two cells or arms."""
    wal = asks(wal_compression="on")
    rounds = chosen(asking(*wal))
    assert rounds.number * RUN_S >= 300.0 > (rounds.number - 1) * RUN_S
    assert rounds.chosen_for is campaign.RoundsFor.CYCLE
    assert rounds.covered_s == rounds.number * ROUND_S
    assert "wal_compression" in rounds.reason
    assert chosen(asking(*wal, loads=2)).number == 25
    back_to_back = framed(SwitchCost.RELOAD, Mode.BACK_TO_BACK)
    assert chosen(asking(*wal), back_to_back).number == 25


def test_where_the_phase_cannot_matter_one_round_does() -> None:
    """Nothing is written, the server runs on through whole cycles, or nothing is compared."""
    wal = asks(wal_compression="on")
    reads = replace(asking(*wal), workloads=an_experiment(workloads=("reads",)).workloads)
    assert chosen(reads) == Rounds()
    runs_on = framed(SwitchCost.RELOAD, Mode.BACK_TO_BACK, Reset.CAMPAIGN)
    assert chosen(asking(*wal), runs_on) == Rounds()
    single = replace(asking(*wal), design=Design.ONCE)
    assert chosen(single) == Rounds()


def test_what_is_asked_for_is_done_and_its_price_told() -> None:
    """One round measures the early phase only; enough of them need no warning."""
    wal = asks(wal_compression="on")
    early = chosen(asking(*wal, measure=replace(MEASURE, runs_per_start=1)))
    assert (early.number, early.chosen_for) == (1, campaign.RoundsFor.ASKED)
    finding = early_phase_finding(early, 300.0)
    assert finding is not None
    assert finding.code == "early-checkpoint-phase"
    assert "wal_compression changes over a cycle of 5 min" in finding.message
    enough = chosen(asking(*wal, measure=replace(MEASURE, runs_per_start=50)))
    assert early_phase_finding(enough, 300.0) is None
    assert (
        early_phase_finding(chosen(asking(measure=replace(MEASURE, runs_per_start=1))), 300.0)
        is None
    )


def test_the_longest_cycle_counts() -> None:
    """Of those asked for before the start, of those in force afterwards; else the default."""
    assert asked_cycle_s(asking()) == 300.0
    assert asked_cycle_s(asking(*asks(checkpoint_timeout="15min"))) == 900.0
    assert asked_cycle_s(asking(*asks(checkpoint_timeout="30s"))) == 300.0
    engine = FakeEngine(World(clock=FakeClock(), experiment=asking()))

    def server(*values: str) -> ServerEnvironment:
        shown = (EffectiveSetting(name="checkpoint_timeout", value=value) for value in values)
        return ServerEnvironment(
            configuration="slow", version="18", settings=tuple(shown), requested=()
        )

    assert cycle_in_force_s(engine, (server("60"), server("900"))) == 900.0
    assert cycle_in_force_s(engine, (server("60"), server())) == 60.0
    assert cycle_in_force_s(engine, (server(),)) == 300.0


def test_made_servers_get_the_best_number_of_runs() -> None:
    """More where making takes longer, one where many loads are a round, at most eight."""
    numbers = [
        chosen(remade(), framed(SwitchCost.REPROVISION, made_in_s=s)).number
        for s in (0.0, 30.0, 600.0)
    ]
    assert numbers == sorted(numbers)
    assert numbers[0] < numbers[-1] == 8
    rounds = chosen(remade(), framed(SwitchCost.REPROVISION))
    assert rounds.chosen_for is campaign.RoundsFor.INSTANCES
    assert "2.0 % between servers (assumed)" in rounds.reason
    assert rounds.least_instances is not None
    assert rounds.least_instances >= 6
    many = an_experiment(loads=8, measure=remade().measure)
    assert chosen(many, framed(SwitchCost.REPROVISION)).number == 1


def test_measured_noise_is_used_and_said() -> None:
    """Of starts only when they were made servers; of runs in any case."""
    part = campaign.WorkloadNoise(
        workload="writes",
        second_sd=0.0,
        autocorrelation=0.0,
        slice_sd=0.01,
        restart_sd=0.08,
        drift_sd=0.0,
    )
    profile = campaign.NoiseProfile(
        origin=campaign.NoiseOrigin.MEASURED, workloads=(part,), switch=SwitchCost.REPROVISION
    )
    frame = framed(SwitchCost.REPROVISION)
    of_servers = chosen(remade(), frame, noise=profile)
    assert of_servers.number == 1
    assert "8.0 % between servers (measured) and 1.0 % between rounds (measured)" in (
        of_servers.reason
    )
    of_restarts = chosen(remade(), frame, noise=replace(profile, switch=SwitchCost.RESTART))
    assert f"{100 * ASSUMED_INSTANCE_SD:.1f} % between servers (assumed)" in of_restarts.reason


def test_a_campaign_of_rounds_records_each_run(tmp_path: Path) -> None:
    """Single runs in the journal, in order, with the age of the cycle; one number per start."""
    experiment = asking(
        measure=replace(MEASURE, runs_per_start=3), loads=2, stop=Stop(budget_s=900.0, width=0.0001)
    )
    stage = Stage.new(experiment, tmp_path / "c")
    analysis = stage.run()
    assert analysis.plan is not None
    assert analysis.plan.rounds == 3
    record = read_campaign(tmp_path / "c")
    assert record.plan == analysis.plan
    start = [run for run in record.runs if (run.block, run.start) == (0, 0)]
    assert [run.position for run in start] == list(range(6))
    ages = [run.checkpoint.seconds for run in start if run.checkpoint is not None]
    assert len(ages) == 6
    assert ages == pytest.approx([run.since_start_s for run in start])
    assert analysis.blocks >= 8
    assert analysis.comparisons[0].blocks == analysis.blocks
    assert {cell.runs for cell in analysis.cells} == {3 * analysis.blocks}
    assert analysis.plan.block_s * analysis.blocks <= 900.0


def test_raw_output_of_many_runs_sorts_in_run_order(tmp_path: Path) -> None:
    """Also beyond a hundred of a start."""
    experiment = asking(measure=replace(MEASURE, runs_per_start=101), stop=Stop(budget_s=1500.0))
    Stage.new(replace(experiment, no_verdict=True), tmp_path / "c").run()
    names = [run.raw for run in read_campaign(tmp_path / "c").runs]
    assert names == sorted(names)
    assert names[0] == "0000-0-0-000.txt.gz"


def test_a_campaign_that_sees_the_early_phase_only_says_so(tmp_path: Path) -> None:
    """In its findings, once, from the plan on; and the forecast says it before."""
    experiment = asking(*asks(wal_compression="on"), measure=replace(MEASURE, runs_per_start=1))
    analysis = Stage.new(experiment, tmp_path / "c").run()
    codes = [finding.code for finding in analysis.findings]
    assert codes.count("early-checkpoint-phase") == 1
    text = forecast_text(experiment, foretold(experiment, tmp_path))
    assert "only the early phase of the checkpoint cycle is measured" in text


def foretold(experiment: Experiment, tmp_path: Path) -> Forecast:
    """Return the forecast of an experiment."""
    bench = Stage.new(experiment, tmp_path / "forecast").bench()
    return forecast(experiment, Assembly(engine=bench._engine, platforms=bench._platforms))


def test_a_cycle_that_does_not_fit_is_refused_with_both_ways_out(tmp_path: Path) -> None:
    """A longer budget, or one round with its price."""
    experiment = asking(*asks(wal_compression="on"), stop=Stop(budget_s=600.0))
    expected = foretold(experiment, tmp_path)
    assert expected.rounds.number == 50
    with pytest.raises(PreflightError, match="ends before the first interim result") as caught:
        require_first_look(expected, experiment)
    assert "--budget" in caught.value.hint
    assert "`measure.runs_per_start: 1` only the early phase" in caught.value.hint
    text = forecast_text(experiment, expected)
    assert "1 cell x 50 rounds" in text
    assert dry_run_json(experiment, expected)["runs_per_start"] == 50
    longer = replace(experiment, stop=Stop(budget_s=6 * 3600.0))
    require_first_look(foretold(longer, tmp_path / "longer"), longer)


def test_every_start_makes_its_server(tmp_path: Path) -> None:
    """Nothing is prepared or restored; each start builds, in the time that this takes."""
    stage = Stage.new(remade(runs_per_start=2), tmp_path / "c")
    stage.world.restore_s, stage.world.start_s = 3.0, 1.0
    analysis = stage.run()
    assert analysis.status is campaign.Status.DECIDED
    assert analysis.plan is not None
    assert (analysis.plan.restore, analysis.plan.reset) == (campaign.ANEW, Reset.START)
    assert analysis.plan.switch is SwitchCost.REPROVISION
    assert analysis.blocks >= 6
    steps = stage.world.steps
    assert steps.count("reprovision") == steps.count("start") == 2 + 2 * analysis.blocks
    assert not any("restore" in step for step in steps)
    first = steps.index("reprovision")
    assert steps[first - 1].startswith("build fake_s1")
    assert analysis.unit.startswith(f"{analysis.blocks} newly made servers per configuration")
    assert "each with data loaded anew" in analysis.unit
    per_start = 3.0 + 1.0 + 2.0 + durations.RUN_OVERHEAD_S + 2 * ROUND_S
    assert analysis.plan.block_s == pytest.approx(2 * per_start)


def test_its_report_says_how_and_how_much_servers_differ(tmp_path: Path) -> None:
    """The rounds with their reason, the data made from nothing, both levels of noise."""
    experiment = replace(remade(runs_per_start=2), stop=Stop(budget_s=600.0, width=0.0001))
    analysis = Stage.new(experiment, tmp_path / "c").run()
    text = render_markdown(build_document(analysis))
    assert "every start makes its server and its data from nothing" in text
    assert "2 runs of each cell per start: as the experiment asks" in text
    assert "between servers" in text
    assert "after the last checkpoint or start" in text
    made = summary(analysis)
    assert made["design"]["runs_per_start"] == 2
    assert {phase["configuration"] for phase in made["checkpoint_phase"]} == {"slow", "fast"}
    assert made["instance_noise"][0]["runs_per_instance"] == 2


def test_a_start_that_fails_is_made_again_with_its_block(tmp_path: Path) -> None:
    """The dead server's block is redone on servers of its own."""
    stage = Stage.new(remade(runs_per_start=1), tmp_path / "c")
    stage.world.faults[5] = server_dies
    analysis = stage.run()
    assert len(analysis.blocks_redone) == 1
    assert analysis.status is campaign.Status.DECIDED


def test_making_is_part_of_the_forecast(tmp_path: Path) -> None:
    """A start takes the loading, nothing is prepared, and the disk holds one copy."""
    expected = foretold(remade(), tmp_path)
    assert expected.switch is SwitchCost.REPROVISION
    assert expected.reset is Reset.START
    restarted = foretold(asking(), tmp_path / "other")
    per_round = expected.block_s / 2 - expected.rounds.number * ROUND_S
    assert per_round > restarted.block_s / 2 - ROUND_S
    assert sum(n for n, _ in expected.disk_bytes.values()) < sum(
        n for n, _ in restarted.disk_bytes.values()
    )
    require_disk(expected)
    text = forecast_text(remade(), expected)
    assert "every start makes its server and data anew" in text
    assert "per configuration to find 3 %" in text


CLIENTS = (1, 10, 25)


def a_pass(**changes: object) -> Experiment:
    """Return a single pass of published work under three loads."""
    base = an_experiment(restart=False)
    return replace(
        base,
        design=Design.ONCE,
        configurations=base.configurations[:1],
        workloads=tuple(
            Workload(name=name, builtin=name, scale=100) for name in ("select-only", "tpcb-like")
        ),
        loads=tuple(Load(clients=clients, threads=1) for clients in CLIENTS),
        **changes,
    )


@pytest.fixture
def passed(tmp_path: Path) -> CampaignAnalysis:
    """Return the analysis of a finished pass."""
    return Stage.new(a_pass(), tmp_path / "pass").run()


def test_every_cell_is_run_once_in_file_order(passed: CampaignAnalysis, tmp_path: Path) -> None:
    """One block of one start, workload by workload, loads ascending, and then it is done."""
    assert passed.status is Status.PASSED
    assert [(run.cell.workload, run.cell.load.clients) for run in passed.runs] == [
        (workload, clients) for workload in ("select-only", "tpcb-like") for clients in CLIENTS
    ]
    assert len(read_schedule(tmp_path / "pass").blocks) == 1
    assert passed.comparisons == ()
    assert all(cell.tps.low is None for cell in passed.cells)


def test_the_report_says_what_it_is_at_every_place(passed: CampaignAnalysis) -> None:
    """Title, verdicts, limits, findings and JSON name the single pass; no verdict is spoken."""
    document = build_document(passed)
    for text in (render_markdown(document), render_html(document), render_terminal(document)):
        assert "single unrepeated pass" in text.split("\n## ")[0].lower()
        assert "no interval, no verdict, order and time confounded" in text
        assert ": faster, " not in text
        assert ": no clear difference, " not in text
    markdown = render_markdown(document)
    limits = markdown[markdown.index("## Limits") :]
    assert "Single unrepeated pass" in limits
    assert "none: the order is that of the file" in markdown
    assert "single-pass" in [finding.code for finding in passed.findings]
    assert summary(passed)["single_pass"] is True
    assert short_verdicts(passed) == "none: single unrepeated pass"


def test_published_figures_stand_beside_it(passed: CampaignAnalysis) -> None:
    """The table has the published rates of the same work, labelled as another machine's."""
    rows = [*rates_beside(passed)]
    assert (rows[0].builtin, rows[0].clients) == ("select-only", 1)
    assert len(rows[0].published_tps) == 9
    assert rows[0].published_tps["rds-standard-t3.large"] == 1677.0
    text = render_markdown(build_document(passed))
    assert "Published, other machine" in text
    assert 'Iwan Setiawan, "Bare Metal vs. AWS RDS: Storage Baseline' in text
    assert [key for key in rows[0].published_tps if key in text] == []  # they are words there
    assert "CNPG Longhorn 2 replicas on shared disk" in text
    published = summary(passed)["published"]
    assert isinstance(published, list)
    assert len(published) == 6


@pytest.mark.parametrize("run_time_s", [8.0, 60.0])
def test_another_length_than_the_published_is_said(tmp_path: Path, run_time_s: float) -> None:
    """Below the table; runs of the published length need no remark."""
    measure = replace(a_pass().measure, run_time_s=run_time_s)
    analysis = Stage.new(a_pass(measure=measure), tmp_path / "pass").run()
    text = render_markdown(build_document(analysis))
    assert (f"Here: {run_time_s:g} s per cell, not 60 s" in text) == (run_time_s != 60.0)


def test_a_pass_takes_its_time_whatever_the_budget(tmp_path: Path) -> None:
    """Once started it is not ended half-way by a budget that turned out short."""
    short = a_pass(stop=Stop(budget_s=1.0))
    assert Stage.new(short, tmp_path / "short").run().status is Status.PASSED


_PASS_STEPS = 13  # appends of an uninterrupted pass after its start; checked below


def test_the_number_of_steps_is_what_the_test_below_walks_through(
    passed: CampaignAnalysis, tmp_path: Path
) -> None:
    """A step that is added to a pass must be interrupted too."""
    lines, _ = read_lines(tmp_path / "pass" / "journal.jsonl")
    assert len(lines) == 1 + _PASS_STEPS
    assert passed.status is Status.PASSED


@pytest.mark.slow
@pytest.mark.parametrize("step", range(1, _PASS_STEPS))
def test_a_killed_pass_goes_on_with_what_is_missing(tmp_path: Path, step: int) -> None:
    """Whatever append it died at: the runs in the journal stay, no cell is run again."""
    path = tmp_path / "killed"
    stage = Stage.new(a_pass(), path).dying(step, ("after", "before", "torn")[step % 3])
    with pytest.raises(Killed):
        stage.run()
    before = read_campaign(path).runs
    stage.clock.advance(86_400.0)
    analysis = Stage.resumed(a_pass(), path, stage.clock).run()
    record = read_campaign(path)
    assert analysis.status is Status.PASSED
    assert record.runs[: len(before)] == before
    assert record.runs == record.counted_runs == analysis.runs
    assert [run.place for run in analysis.runs] == [(0, 0, position) for position in range(6)]
    assert _parts_told(analysis) == (0 < len(before) < 6)
    assert analyse(record).cells == analysis.cells


def _parts_told(analysis: CampaignAnalysis) -> bool:
    """Return whether finding, result and method say that the pass was interrupted."""
    text = render_markdown(build_document(analysis))
    told = {
        "taken in 2 parts" in text.split("\n## ")[1],
        "| interruptions | 1, the valid runs before them kept" in text,
        "pass-continued" in [finding.code for finding in analysis.findings],
    }
    if told == {True}:
        return True
    assert "taken in 2 parts" not in text
    return False


def test_a_continued_pass_says_when_each_part_began(tmp_path: Path) -> None:
    """The finding has the runs and the moment of each part, and what lay between them."""
    stage = Stage.new(a_pass(), tmp_path / "killed").dying(7, "after")
    with pytest.raises(Killed):
        stage.run()
    kept = read_campaign(tmp_path / "killed").runs
    stage.clock.advance(86_400.0)
    analysis = Stage.resumed(a_pass(), tmp_path / "killed", stage.clock).run()
    (finding,) = [each for each in analysis.findings if each.code == "pass-continued"]
    first, second = format_utc(kept[0].started_at), format_utc(analysis.runs[3].started_at)
    assert f"3 runs from {first}, then 3 runs from {second}" in finding.message
    assert "activated anew and the data went back" in finding.message
    assert first != second


@pytest.mark.parametrize("fault", [generator_fails, server_dies])
def test_an_invalid_run_of_a_pass_costs_itself_alone(tmp_path: Path, fault: Fault) -> None:
    """It stays in the record and does not count; only what is missing is taken again."""
    stage = Stage.new(a_pass(), tmp_path / "pass")
    first = stage.world.uses
    stage.world.faults = {first + 7: fault}
    analysis = stage.run()
    record = read_campaign(tmp_path / "pass")
    invalid = [run for run in record.runs if run.validity is Validity.INVALID]
    assert len(invalid) == 1
    assert len(record.runs) == 7
    assert [run.place for run in analysis.runs] == [(0, 0, position) for position in range(6)]
    write_tables(record, tmp_path)
    counted = pq.read_table(tmp_path / "runs.parquet")["counted"].to_pylist()
    assert counted == [run is not invalid[0] for run in record.runs]


def test_an_older_record_that_was_taken_whole_again_reads_as_before(tmp_path: Path) -> None:
    """A journal whose second try holds all places counts that try alone."""
    Stage.new(a_pass(), tmp_path / "pass").run()
    record = read_campaign(tmp_path / "pass")
    first = tuple(replace(run, attempt=0) for run in record.runs[:4])
    second = tuple(replace(run, attempt=1) for run in record.runs)
    tries = (
        BlockOutcome(index=0, attempt=0, complete=False, reason="killed"),
        BlockOutcome(index=0, attempt=1, complete=True),
    )
    older = replace(record, runs=first + second, blocks=tries)
    assert older.counted_runs == second
    assert "pass-continued" not in [finding.code for finding in analyse(older).findings]


def test_published_figures_stand_beside_blocks_too() -> None:
    """In a table, labelled; no verdict comes of it, and other work has none."""
    made = many_loads()
    assert [*rate_section(made)] == []
    assert "published" not in summary(made)
    scripts = ("select-only", "simple-update")
    workloads = tuple(
        replace(workload, builtin=builtin, scale=100)
        for workload, builtin in zip(made.experiment.workloads, scripts, strict=True)
    )
    analysis = replace(made, experiment=replace(made.experiment, workloads=workloads))
    (section,) = rate_section(analysis)
    (table,) = section.blocks
    assert isinstance(table, Table)
    assert not section.first
    assert "one run per cell" in table.note
    assert "medians of 14 blocks" in table.note
    names = [each.name for each in analysis.experiment.configurations]
    (own,) = {row.cells[2].count("(") for row in table.rows}
    assert own == len(names)
    published = summary(analysis)["published"]
    assert isinstance(published, list)
    assert [list(row["own_tps"]) for row in published if isinstance(row, dict)] == [names, names]
