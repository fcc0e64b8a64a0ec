"""Long runs after the last block: made once, extended near a drop, with credits as at first."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fakes import campaigns
from fakes.campaigns import Killed, Stage, an_experiment, asks
from fakes.servers import FakePlatform, Fault, generator_fails, rate_falls, server_dies
from steelyard.answers.campaign import analyse
from steelyard.answers.report import build_document, summary
from steelyard.answers.results import CampaignAnalysis
from steelyard.answers.sustained.compute import SustainedSummary, long_runs
from steelyard.campaign.foresee.forecast import forecast
from steelyard.campaign.run.beside_blocks import (
    further_s,
    is_settled,
    most_further_s,
    sustained_runs,
    sustained_s,
)
from steelyard.cli.progress import dry_run_json, forecast_text
from steelyard.core.experiment import Experiment
from steelyard.core.findings import Validity
from steelyard.core.measurement import ProviderSeries, SustainedRun
from steelyard.core.schedule import Load
from steelyard.core.target import LocalTarget
from steelyard.core.wording import TargetError
from steelyard.record.directory import read_campaign
from steelyard.record.tables import write_tables
from steelyard.report.document import bounds
from steelyard.report.html import render_html, render_markdown
from steelyard.targets.assembly import Assembly

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


FALLS_LATE = rate_falls(520, 0.5)  # of 601 s, in the last quarter
LOW = rate_falls(0, 0.5)


def asking_to_extend(sustained_s: float = 600.0) -> Experiment:
    """Return an experiment that asks for long runs."""
    return replace(an_experiment(), sustained_s=sustained_s)


@pytest.fixture(scope="module")
def last_use(tmp_path_factory: pytest.TempPathFactory) -> int:
    """Return the number of the generator's use that is the last long run."""
    stage = Stage.new(asking_to_extend(), tmp_path_factory.mktemp("count") / "c")
    stage.run()
    return stage.world.uses - 1


def run_with(path: Path, faults: Mapping[int, Fault]) -> tuple[Stage, SustainedSummary]:
    """Run a campaign with faults; return its stage and the last configuration's long run."""
    stage = Stage.new(asking_to_extend(), path)
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
    low_s, high_s = bounds(long.cliff.at) or (0.0, 0.0)
    assert low_s <= 520.0 <= high_s
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
    stage = Stage.new(asking_to_extend(), tmp_path / "c")
    stage.world.faults[last_use] = FALLS_LATE
    lines = _appends_of_a_whole_campaign(tmp_path)
    stage.dying(lines - 1, "after")  # the entry before the campaign's end: the late run
    with pytest.raises(Killed):
        stage.run()
    before = read_campaign(tmp_path / "c").sustained
    assert [run.part for run in before][-1] == 0
    assert not is_settled([run for run in before if run.configuration == before[-1].configuration])
    resumed = Stage.resumed(asking_to_extend(), tmp_path / "c", stage.clock)
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
    stage = Stage.new(asking_to_extend(), tmp_path / "whole")
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
    asking = asking_to_extend()
    assert further_s(asking) == 300.0
    assert 1200.0 <= most_further_s(asking) < 1300.0
    bench = Stage.new(asking, tmp_path / "c").bench()
    assembly = Assembly(engine=bench._engine, platforms=bench._platforms)
    expected = forecast(asking, assembly)
    assert expected.sustained_most_s == expected.sustained_s + most_further_s(asking)
    assert "up to" in forecast_text(asking, expected)
    assert dry_run_json(asking, expected)["sustained_most_s"] > 2400.0
    assert most_further_s(replace(asking, sustained_s=None)) == 0.0


def _asking(lasts_s: float | None = None) -> Experiment:
    asking = replace(an_experiment(), sustained_s=600.0)
    configurations = tuple(
        replace(each, target=LocalTarget(burst_lasts_s=lasts_s)) for each in asking.configurations
    )
    return replace(asking, configurations=configurations)


def _last_try_fails(path: Path, experiment: Experiment) -> tuple[list[str], list[SustainedRun]]:
    """Return the steps of a campaign whose last long run fails at first, and its long runs."""
    count = Stage.new(experiment, path / "count")
    count.run()
    stage = Stage.new(experiment, path / "failing")
    stage.world.faults[count.world.uses - 1] = generator_fails
    stage.run()
    tried = list(read_campaign(path / "failing").sustained)
    assert [run.validity is Validity.INVALID for run in tried] == [False, True, False]
    return stage.world.steps, tried


def test_simulated_storage_is_full_before_each_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bucket is filled before the data come back: of a first try and of a repeated one."""

    class Simulated(FakePlatform):
        def refill(self) -> bool:
            self._world.steps.append("refill")
            return True

    monkeypatch.setattr(campaigns, "FakePlatform", Simulated)
    steps, tried = _last_try_fails(tmp_path, _asking(lasts_s=60.0))
    assert steps.count("refill") == len(tried)
    for place in (place for place, step in enumerate(steps) if step == "refill"):
        following = steps[place + 1 :]
        restored = next(n for n, step in enumerate(following) if step.startswith("restore"))
        assert restored < next(n for n, step in enumerate(following) if step.startswith("run"))
    assert not any(each.code == "credits-not-back" for run in tried for each in run.findings)


_RISING = (40.0, 60.0, 80.0, 99.5)


@pytest.mark.parametrize(
    ("lasts_s", "balances", "looks", "why"),
    [
        (None, None, 0, ""),  # no burst credits are known of
        (1800.0, None, 0, "their balance cannot be read here"),
        (1800.0, _RISING, 4, ""),
        (None, _RISING, 4, ""),
        (1800.0, (), 1, "their balance cannot be read here"),
        (1800.0, TargetError("no right"), 1, "cannot be read: no right"),
        (1800.0, (100.0,), None, "100 % of them were there after"),  # of before the wait
        (1800.0, (10.0, 11.0), None, "11 % of them were there after"),
    ],
)
def test_a_repeated_try_waits_for_credits(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lasts_s: float | None,
    balances: tuple[float, ...] | TargetError | None,
    looks: int | None,
    why: str,
) -> None:
    """Of a balance that is published each minute, as long as the budget or the run allows.

    Where they are not back, or nobody knows, the run says so. A first try waits for nothing.
    """
    spans: list[tuple[float, float]] = []

    class Provided(FakePlatform):
        def provider_series(
            self, since_s: float, until_s: float, *, patience_s: float
        ) -> tuple[ProviderSeries, ...]:
            if patience_s:  # the end of the campaign, which reads all of it
                return ()
            if isinstance(balances, TargetError):
                spans.append((since_s, until_s))
                raise balances
            spans.append((since_s, until_s))
            begun_s = spans[0][1]
            known = (balances or ())[: int((until_s - begun_s) / 60.0) + 1]
            starts = tuple(begun_s + 60.0 * (place - 1) for place in range(len(known)))
            rest = {"server": "db", "metric": "BurstBalance", "unit": "%", "period_s": 60.0}
            return (ProviderSeries(starts_s=starts, values=known, **rest),)  # type: ignore[arg-type]

    monkeypatch.setattr(campaigns, "FakePlatform", FakePlatform if balances is None else Provided)
    _, tried = _last_try_fails(tmp_path, _asking(lasts_s))
    findings = [each for each in tried[-1].findings if each.code == "credits-not-back"]
    assert [why in each.message for each in findings] == [True] * bool(why)
    assert (tried[-1].validity is Validity.SUSPECT) is bool(why)
    assert not any(each.code == "credits-not-back" for run in tried[:-1] for each in run.findings)
    waited_s = spans[-1][1] - spans[0][1] if spans else 0.0
    assert len(spans) == looks if looks is not None else 600.0 <= waited_s <= 3600.0
