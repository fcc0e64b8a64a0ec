"""A single unrepeated pass: run, killed, resumed, and labelled wherever it could mislead."""

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fakes.analyses import many_loads
from fakes.campaigns import Killed, Stage, an_experiment, deaths
from fakes.servers import Fault, generator_fails, server_dies
from steelyard.answers.campaign import analyse
from steelyard.answers.published import rate_section, rates_beside
from steelyard.answers.report import build_document, short_verdicts, summary
from steelyard.answers.results import CampaignAnalysis
from steelyard.core.campaign import BlockOutcome, Status
from steelyard.core.experiment import Design, Experiment, Stop, Workload
from steelyard.core.findings import Validity
from steelyard.core.schedule import Load
from steelyard.core.wording import format_utc
from steelyard.record.directory import read_campaign, read_schedule
from steelyard.record.journal import read_lines
from steelyard.record.tables import write_tables
from steelyard.report.document import Table
from steelyard.report.html import render_html, render_markdown
from steelyard.report.terminal import render_terminal

CLIENTS = (1, 10, 25)


def a_pass(**changes: object) -> Experiment:
    """Return a single pass of published work under three loads."""
    base = an_experiment(restart=False)
    return replace(
        base,
        design=Design.ONCE,
        configurations=base.configurations[:1],
        workloads=tuple(
            Workload(name=name, builtin=name, scale_factor=100)
            for name in ("select-only", "tpcb-like")
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
        assert "is faster than" not in text
        assert "is no clear difference" not in text
    markdown = render_markdown(document)
    limits = markdown[markdown.index("What this does and does not show") :]
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


@pytest.mark.parametrize("slice_s", [8.0, 60.0])
def test_another_length_than_the_published_is_said(tmp_path: Path, slice_s: float) -> None:
    """Below the table; runs of the published length need no remark."""
    measure = replace(a_pass().measure, slice_s=slice_s)
    analysis = Stage.new(a_pass(measure=measure), tmp_path / "pass").run()
    text = render_markdown(build_document(analysis))
    assert (f"Here: {slice_s:g} s per cell, not 60 s" in text) == (slice_s != 60.0)


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
@pytest.mark.parametrize(("step", "how"), deaths(_PASS_STEPS - 1))
def test_a_killed_pass_goes_on_with_what_is_missing(tmp_path: Path, step: int, how: str) -> None:
    """Whatever append it died at: the runs in the journal stay, no cell is run again."""
    path = tmp_path / "killed"
    stage = Stage.new(a_pass(), path).dying(step, how)
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
        replace(workload, builtin=builtin, scale_factor=100)
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
