"""Long runs after the last block: made once, resumed, shown apart, never part of an estimate."""

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fakes.campaigns import Killed, Stage, an_experiment, asks
from fakes.servers import generator_fails, server_dies
from steelyard.answers.campaign import analyse
from steelyard.answers.report import build_document, summary
from steelyard.answers.sustained.compute import long_runs
from steelyard.campaign.run.beside_blocks import sustained_runs, sustained_s
from steelyard.core.experiment import Experiment
from steelyard.core.findings import Validity
from steelyard.core.schedule import Load
from steelyard.record.directory import read_campaign
from steelyard.record.tables import write_tables
from steelyard.report.html import render_html, render_markdown

WORKLOADS = ("reads", "writes")


def an_asking(sustained_s: float | None = 600.0, **changes: object) -> Experiment:
    """Return an experiment of two loads that asks for long runs."""
    return replace(an_experiment(loads=2, workloads=WORKLOADS), sustained_s=sustained_s, **changes)


def test_one_run_per_configuration_and_workload_at_the_largest_load(tmp_path: Path) -> None:
    """They come after the last block, are as long as asked, and are described.

    Every run has its latency; only theirs is cut into windows.
    """
    analysis = Stage.new(an_asking(), tmp_path / "long").run()
    keys = [(each.run.cell.workload, each.run.configuration) for each in analysis.answer(long_runs)]
    assert keys == [(w, t) for w in WORKLOADS for t in ("slow", "fast")]
    assert {each.run.cell.load.clients for each in analysis.answer(long_runs)} == {2}
    for each in analysis.answer(long_runs):
        assert each.seconds == 600.0
        assert each.windows == 60
        assert each.variation == pytest.approx(0.0, abs=1e-9)
        assert each.worst_tps == pytest.approx(each.tps)
    record = read_campaign(tmp_path / "long")
    last_slice = max(run.started_at for run in record.runs)
    assert min(run.started_at for run in record.sustained) > last_slice
    assert {len(run.latency.windows) for run in record.sustained if run.latency} == {1}
    assert {len(run.latency.windows) for run in record.runs if run.latency} == {0}
    stored = {run.latency.seconds for run in record.sustained if run.latency}
    assert stored == {f"sustained-{number:02d}-0.seconds.gz" for number in range(4)}


def test_no_estimate_changes(tmp_path: Path) -> None:
    """Comparisons, cells and blocks are those of the same campaign without long runs."""
    with_them = Stage.new(an_asking(), tmp_path / "with").run()
    without = Stage.new(an_asking(sustained_s=None), tmp_path / "without").run()
    assert with_them.comparisons == without.comparisons
    assert with_them.cells == without.cells
    assert without.answer(long_runs) == ()


def test_the_length_is_whole_checkpoint_cycles() -> None:
    """Rounded up to the longest checkpoint_timeout that is asked for, 5 minutes by default."""
    assert sustained_s(an_asking(sustained_s=400.0)) == 600.0
    assert sustained_s(an_asking(sustained_s=None)) == 0.0
    asking = an_asking(sustained_s=600.0)
    slower = replace(asking.configurations[1], settings=asks(checkpoint_timeout="15min"))
    longer = replace(asking, configurations=(asking.configurations[0], slower))
    assert sustained_s(longer) == 900.0


def test_the_order_is_drawn_and_stays() -> None:
    """The coin decides which configuration goes first; the same seed draws the same order."""
    firsts = {sustained_runs(replace(an_asking(), seed=s))[0].configuration for s in range(20)}
    assert firsts == {"slow", "fast"}
    assert sustained_runs(an_asking()) == sustained_runs(an_asking())


@pytest.mark.slow
def test_a_kill_between_long_runs_keeps_those_that_are_done(tmp_path: Path) -> None:
    """A resumed campaign makes only the missing ones, to the same result."""
    whole = Stage.new(an_asking(), tmp_path / "whole")
    expected = whole.run()
    lines = (tmp_path / "whole" / "journal.jsonl").read_text().splitlines()
    second = [n for n, line in enumerate(lines) if '"kind":"sustained"' in line][1]
    # The campaign's start is written by the stage itself, before the journal can die.
    stage = Stage.new(an_asking(), tmp_path / "killed").dying(second, "torn")
    with pytest.raises(Killed):
        stage.run()
    done = len(read_campaign(tmp_path / "killed").sustained)
    assert 0 < done < 4
    resumed = Stage.resumed(an_asking(), tmp_path / "killed", stage.clock)
    analysis = resumed.run()
    assert len(read_campaign(tmp_path / "killed").sustained) == 4
    assert [each.tps for each in analysis.answer(long_runs)] == pytest.approx(
        [each.tps for each in expected.answer(long_runs)], rel=0.2
    )
    assert sum("600s" in step or "601s" in step for step in resumed.world.steps) == 4 - done


@pytest.mark.slow
@pytest.mark.parametrize("fault", [generator_fails, server_dies])
def test_a_long_run_that_fails_is_tried_once_more(tmp_path: Path, fault: object) -> None:
    """The second try counts; the first stays in the journal with its reason."""
    uses = Stage.new(an_asking(), tmp_path / "count")
    uses.run()
    stage = Stage.new(an_asking(), tmp_path / "failing")
    stage.world.faults[uses.world.uses - 1] = fault
    analysis = stage.run()
    assert all(each.run.validity is Validity.VALID for each in analysis.answer(long_runs))
    tried = read_campaign(tmp_path / "failing").sustained
    assert [run.validity for run in tried].count(Validity.INVALID) == 1


@pytest.mark.slow
def test_a_long_run_that_never_works_is_said_and_ends_nothing(tmp_path: Path) -> None:
    """The campaign is finished all the same, and the report says what failed."""
    uses = Stage.new(an_asking(), tmp_path / "count")
    uses.run()
    stage = Stage.new(an_asking(), tmp_path / "failing")
    last = uses.world.uses - 1
    # Uses of the generator alternate: warm-up, long run.
    stage.world.faults[last] = stage.world.faults[last + 2] = generator_fails
    analysis = stage.run()
    (failed,) = [each for each in analysis.answer(long_runs) if each.run.measurement is None]
    assert failed.tps is None
    assert "exited with 2" in render_markdown(build_document(analysis))


@pytest.mark.slow
def test_reports_and_tables_keep_them_apart(tmp_path: Path) -> None:
    """A section with its strip, a key of its own in JSON, marked rows in Parquet."""
    analysis = Stage.new(an_asking(), tmp_path / "long").run()
    markdown = render_markdown(build_document(analysis))
    assert "## Sustained runs" in markdown
    assert "no interval and no verdict" in markdown
    assert 'id="sustained' in render_html(build_document(analysis))
    told = summary(analysis)["sustained"]
    assert isinstance(told, list)
    assert len(told) == 4
    record = read_campaign(tmp_path / "long")
    write_tables(record, tmp_path)
    runs = pq.read_table(tmp_path / "runs.parquet")
    assert sum(runs["sustained"].to_pylist()) == 4
    seconds = pq.read_table(tmp_path / "intervals.parquet")
    assert sum(seconds["sustained"].to_pylist()) == 4 * 601
    assert analyse(record).answer(long_runs) == analysis.answer(long_runs)


@pytest.mark.parametrize(
    ("loads", "expected"),
    [
        ((Load(clients=4, threads=1, rate_per_s=100.0), Load(clients=4, threads=1)), 1),
        ((Load(clients=8, threads=1, rate_per_s=9.0), Load(clients=2, threads=1)), 1),
        (tuple(Load(clients=4, threads=1, share=s) for s in (0.2, 0.9, 0.5)), 1),
        (tuple(Load(clients=c, threads=1, rate_per_s=r) for c, r in ((8, 50.0), (4, 80.0))), 1),
        (tuple(Load(clients=c, threads=t) for c, t in ((8, 1), (8, 2), (4, 4))), 1),
    ],
)
def test_the_load_of_long_runs_takes_most_out_of_a_bucket(
    loads: tuple[Load, ...], expected: int
) -> None:
    """A closed loop with the most clients; else the highest rate, not the first of the list."""
    found = {planned.cell.load for planned in sustained_runs(an_asking(loads=loads))}
    assert found == {loads[expected]}
