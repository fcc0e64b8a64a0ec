"""Campaigns that are killed at every append to the journal in turn, and resumed."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fakes.campaigns import Killed, Stage, an_experiment, deaths
from fakes.clock import FakeClock
from steelyard.answers.results import CampaignAnalysis
from steelyard.core.campaign import CampaignRecord, Status
from steelyard.record.directory import read_campaign, read_schedule
from steelyard.record.journal import read_lines

_DAY_S = 86_400.0
_STEPS = 29  # appends of the uninterrupted campaign after its start; checked below


def _counted(record: CampaignRecord) -> list[tuple[object, ...]]:
    return [
        (run.block, run.start, run.position, run.configuration, run.cell, run.measurement)
        for run in record.counted_runs
    ]


@cache
def _uninterrupted(*, restart: bool) -> tuple[CampaignAnalysis, CampaignRecord, bytes, int]:
    with TemporaryDirectory() as folder:
        path = Path(folder, "campaign")
        analysis = Stage.new(an_experiment(restart=restart), path).run()
        lines, _ = read_lines(path / "journal.jsonl")
        schedule = (path / "schedule.json").read_bytes()
        return analysis, read_campaign(path), schedule, len(lines)


@pytest.mark.parametrize("restart", [True, False])
def test_the_number_of_steps_is_what_the_tests_below_walk_through(*, restart: bool) -> None:
    """A step that is added to a campaign must be interrupted too."""
    *_, lines = _uninterrupted(restart=restart)
    assert lines == 1 + _STEPS


def _killed(path: Path, step: int, how: str, *, restart: bool, clock: FakeClock) -> CampaignRecord:
    """Run a campaign to its death and return what its record tells then."""
    stage = Stage.new(an_experiment(restart=restart), path, clock).dying(step, how)
    with pytest.raises(Killed):
        stage.run()
    clock.advance(_DAY_S)
    return read_campaign(path)


@pytest.mark.slow
@pytest.mark.parametrize(("step", "how"), deaths(_STEPS))
def test_a_campaign_killed_at_any_append_resumes_to_the_same_result(
    tmp_path: Path, step: int, how: str
) -> None:
    """Same schedule, complete blocks kept as they were, and the verdict of the unharmed one."""
    whole, whole_record, schedule, _ = _uninterrupted(restart=True)
    path, clock = tmp_path / "campaign", FakeClock()
    dead = _killed(path, step, how, restart=True, clock=clock)
    kept = [run for run in dead.runs if run in dead.counted_runs]
    if dead.status is Status.DECIDED:
        assert (step, how) == (_STEPS, "after")
        return
    again = Stage.resumed(an_experiment(), path, clock).run()
    record = read_campaign(path)
    assert (path / "schedule.json").read_bytes() == schedule
    assert _counted(record) == _counted(whole_record)
    assert list(record.counted_runs)[: len(kept)] == kept
    assert again.comparisons == whole.comparisons
    assert (again.plan, again.status) == (whole.plan, Status.DECIDED)
    assert record.elapsed_s < _DAY_S


@pytest.mark.slow
@pytest.mark.parametrize("step", [step for step, how in deaths(_STEPS - 1) if how == "after"])
def test_back_to_back_campaigns_resume_to_the_same_result(tmp_path: Path, step: int) -> None:
    """Killed right after any append: the server that was switched to and fro is gone too."""
    whole, whole_record, schedule, _ = _uninterrupted(restart=False)
    path, clock = tmp_path / "campaign", FakeClock()
    _killed(path, step, "after", restart=False, clock=clock)
    again = Stage.resumed(an_experiment(restart=False), path, clock).run()
    record = read_campaign(path)
    assert (path / "schedule.json").read_bytes() == schedule
    assert _counted(record) == _counted(whole_record)
    assert again.comparisons == whole.comparisons


def test_a_campaign_killed_again_and_again_still_ends(tmp_path: Path) -> None:
    """Every session may die after eleven appends: each adds a block or two, none is lost."""
    whole, _, schedule, _ = _uninterrupted(restart=True)
    path, clock = tmp_path / "campaign", FakeClock()
    dead = _killed(path, 11, "torn", restart=True, clock=clock)
    done, sessions = len(dead.complete_blocks), 1
    while dead.status is not Status.DECIDED:
        stage = Stage.resumed(an_experiment(), path, clock).dying(11, "torn")
        try:
            last = stage.run()
        except Killed:
            clock.advance(_DAY_S)
        dead, sessions = read_campaign(path), sessions + 1
        assert len(dead.complete_blocks) >= done
        done = len(dead.complete_blocks)
        assert sessions < 20
    assert sessions > 2
    assert last.comparisons == whole.comparisons
    assert (path / "schedule.json").read_bytes() == schedule


def test_the_block_in_flight_is_redone_as_another_attempt(tmp_path: Path) -> None:
    """Its runs stay in the record as a try that was thrown away, with the reason."""
    path, clock = tmp_path / "campaign", FakeClock()
    dead = _killed(path, 10, "after", restart=True, clock=clock)
    in_flight = [block for block in dead.blocks if not block.complete]
    assert len(in_flight) == 1
    assert in_flight[0].reason
    Stage.resumed(an_experiment(), path, clock).run()
    tries = [(b.attempt, b.complete) for b in read_campaign(path).blocks]
    index = [b.index for b in read_campaign(path).blocks].index(in_flight[0].index)
    assert tries[index : index + 2] == [(0, False), (1, True)]


def test_the_number_of_looks_is_kept_by_a_resumed_campaign(tmp_path: Path) -> None:
    """The plan is frozen once: less time left does not change levels or the last block."""
    path, clock = tmp_path / "campaign", FakeClock()
    dead = _killed(path, 12, "after", restart=True, clock=clock)
    planned = len(read_schedule(path).blocks)
    again = Stage.resumed(an_experiment(), path, clock).run()
    assert again.plan == dead.plan
    assert again.plan is not None
    assert again.plan.stopping.max_blocks == planned == len(read_schedule(path).blocks)
