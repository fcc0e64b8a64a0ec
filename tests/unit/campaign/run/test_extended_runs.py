"""A drop near the end of a long run extends it: at once, at most twice, and never without one."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.campaigns import Killed, Stage, an_experiment
from fakes.servers import Fault, generator_fails, rate_falls
from steelyard.answers.campaign import analyse
from steelyard.answers.report import build_document, summary
from steelyard.answers.results import CampaignAnalysis
from steelyard.answers.sustained.compute import SustainedSummary, long_runs
from steelyard.campaign.foresee.forecast import forecast
from steelyard.campaign.run.beside_blocks import further_s, is_settled, most_further_s
from steelyard.cli.progress import forecast_json, forecast_text
from steelyard.core.experiment import Experiment
from steelyard.core.findings import Validity
from steelyard.core.measurement import SustainedRun
from steelyard.record.directory import read_campaign
from steelyard.report.html import render_markdown
from steelyard.targets.assembly import Assembly

FALLS_LATE = rate_falls(520, 0.5)  # of 601 s, in the last quarter
LOW = rate_falls(0, 0.5)


def an_asking(sustained_s: float = 600.0) -> Experiment:
    """Return an experiment that asks for long runs."""
    return replace(an_experiment(), sustained_s=sustained_s)


@pytest.fixture(scope="module")
def last_use(tmp_path_factory: pytest.TempPathFactory) -> int:
    """Return the number of the generator's use that is the last long run."""
    stage = Stage.new(an_asking(), tmp_path_factory.mktemp("count") / "c")
    stage.run()
    return stage.world.uses - 1


def run_with(path: Path, faults: Mapping[int, Fault]) -> tuple[Stage, SustainedSummary]:
    """Run a campaign with faults; return its stage and the last configuration's long run."""
    stage = Stage.new(an_asking(), path)
    stage.world.faults.update(faults)
    analysis = stage.run()
    (long,) = [
        s for s in analysis.answer(long_runs) if s.run.started_at == _last_first(path).started_at
    ]
    return stage, long


def _last_first(path: Path) -> SustainedRun:
    return [run for run in read_campaign(path).sustained if run.part == 0][-1]


def test_a_late_drop_extends_the_run_under_the_same_load(tmp_path: Path, last_use: int) -> None:
    """A further part of half the length follows at once, without restoring and warm-up."""
    stage, long = run_with(tmp_path / "c", {last_use: FALLS_LATE, last_use + 1: LOW})
    assert [part.part for part in long.parts] == [0, 1]
    runs = [place for place, step in enumerate(stage.world.steps) if step.startswith("run")]
    assert runs[-1] == runs[-2] + 1
    assert [stage.world.steps[place].split()[-1] for place in runs[-2:]] == ["601s", "301s"]
    assert long.cliff is not None
    assert long.cliff.at_low_s <= 520.0 <= long.cliff.at_high_s
    assert long.length_s == pytest.approx(902.0, abs=1.0)
    assert not long.unsettled
    # The parts are of one run: the rates of both are in its mean.
    assert long.tps == pytest.approx(
        sum(part.measurement.transactions for part in long.parts if part.measurement)
        / sum(part.measurement.seconds for part in long.parts if part.measurement)
    )


def test_a_neighbours_start_is_dismissed(tmp_path: Path, last_use: int) -> None:
    """The rate comes back in the further part: no cliff, and no third part."""
    _, long = run_with(tmp_path / "c", {last_use: FALLS_LATE})
    assert [part.part for part in long.parts] == [0, 1]
    assert long.cliff is None
    assert not long.unsettled


def test_it_is_extended_twice_at_most(tmp_path: Path, last_use: int) -> None:
    """A run that falls late again and again ends after two further parts, and says so."""
    falls = {
        last_use: FALLS_LATE,
        last_use + 1: rate_falls(230, 0.1),
        last_use + 2: rate_falls(230, 0.01),
    }
    stage, long = run_with(tmp_path / "c", falls)
    assert [part.part for part in long.parts] == [0, 1, 2]
    assert stage.world.uses == last_use + 3
    assert "extended it twice" in render_markdown(build_document(stage_analysis(stage)))


def stage_analysis(stage: Stage) -> CampaignAnalysis:
    """Return the analysis of what a stage has recorded."""
    return analyse(read_campaign(stage.path))


def test_a_kill_between_parts_takes_the_whole_run_again(tmp_path: Path, last_use: int) -> None:
    """The load did not go on, so what was measured before the kill is not joined to anything."""
    stage = Stage.new(an_asking(), tmp_path / "c")
    stage.world.faults[last_use] = FALLS_LATE
    lines = _appends_of_a_whole_campaign(tmp_path)
    stage.dying(lines - 1, "after")  # the entry before the campaign's end: the late run
    with pytest.raises(Killed):
        stage.run()
    before = read_campaign(tmp_path / "c").sustained
    assert [run.part for run in before][-1] == 0
    assert not is_settled([run for run in before if run.configuration == before[-1].configuration])
    resumed = Stage.resumed(an_asking(), tmp_path / "c", stage.clock)
    resumed.world.faults[1] = FALLS_LATE  # after the warm-up
    analysis = resumed.run()
    again = [run.part for run in read_campaign(tmp_path / "c").sustained[len(before) :]]
    assert again == [0, 1]
    long = next(
        s for s in analysis.answer(long_runs) if s.run.configuration == before[-1].configuration
    )
    assert long.run.started_at > before[-1].started_at
    names = [run.raw for run in read_campaign(tmp_path / "c").sustained]
    assert len(set(names)) == len(names)


def _appends_of_a_whole_campaign(tmp_path: Path) -> int:
    """Return how many entries a campaign has up to its last long run."""
    stage = Stage.new(an_asking(), tmp_path / "whole")
    stage.run()
    text = (tmp_path / "whole" / "journal.jsonl").read_text().splitlines()
    return max(n for n, line in enumerate(text) if '"kind":"sustained"' in line) + 1


def test_a_further_part_that_fails_leaves_what_came_before(tmp_path: Path, last_use: int) -> None:
    """It is not tried again; the first part counts, and the report says what failed."""
    stage, long = run_with(tmp_path / "c", {last_use: FALLS_LATE, last_use + 1: generator_fails})
    assert [part.part for part in long.parts] == [0]
    assert long.broken is not None
    assert long.validity is Validity.VALID
    assert long.unsettled or long.cliff is not None
    markdown = render_markdown(build_document(stage_analysis(stage)))
    assert "called for failed, and is left out" in markdown
    told = summary(stage_analysis(stage))["sustained"]
    assert isinstance(told, list)


def test_a_steady_run_and_an_early_cliff_are_not_extended(tmp_path: Path, last_use: int) -> None:
    """Only what is late calls for more."""
    steady, _ = run_with(tmp_path / "steady", {})
    assert steady.world.uses == last_use + 1
    early, long = run_with(tmp_path / "early", {last_use: rate_falls(200, 0.5)})
    assert early.world.uses == last_use + 1
    assert long.cliff is not None


def test_the_forecast_says_up_to(tmp_path: Path) -> None:
    """Two configurations of 600 s may take twice as long; too short a run cannot be extended."""
    asking = an_asking()
    assert further_s(asking) == 300.0
    assert 1200.0 <= most_further_s(asking) < 1300.0
    bench = Stage.new(asking, tmp_path / "c").bench()
    assembly = Assembly(engine=bench._engine, platforms=bench._platforms)
    expected = forecast(asking, assembly)
    assert expected.sustained_most_s == expected.sustained_s + most_further_s(asking)
    assert "up to" in forecast_text(asking, expected)
    assert forecast_json(asking, expected)["sustained_most_s"] > 2400.0
    assert most_further_s(replace(asking, sustained_s=None)) == 0.0
