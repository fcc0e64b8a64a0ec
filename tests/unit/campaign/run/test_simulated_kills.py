"""``kill -9`` at drawn instants of campaigns without servers, by one code for every design.

Some die once more in the resumption. ``STEELYARD_SIMULATED_KILLS`` says how many die; a number has
the same instants whatever the count.
"""

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fakes.campaigns import (
    IN_TURNS,
    Fate,
    Killed,
    Stage,
    an_experiment,
    four_configurations,
    room_for,
)
from fakes.clock import FakeClock
from steelyard.answers.results import CampaignAnalysis
from steelyard.core.campaign import CampaignRecord, Status
from steelyard.core.experiment import Experiment, Measure, SwitchCost
from steelyard.core.measurement import Run, SustainedRun
from steelyard.record.directory import read_campaign
from steelyard.targets.differences import Room
from support.left import left_over

pytestmark = pytest.mark.slow

SEED = 20261128
AGAIN = 0.25  # share of resumptions that die, too
KILLS = int(os.environ.get("STEELYARD_SIMULATED_KILLS", "48"))
_DAY_S = 86_400.0


class MortalClock(FakeClock):
    """A clock that may stop for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.fate = Fate()

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.fate.pass_by()
        super().advance(seconds)


class MortalSteps(list[str]):
    """Notes what is done to servers, up to the end."""

    def __init__(self, fate: Fate) -> None:
        super().__init__()
        self._fate = fate

    def append(self, step: str) -> None:
        """Note a step."""
        self._fate.pass_by()
        super().append(step)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A campaign of one design."""

    experiment: Experiment
    room: Room = field(default_factory=Room)

    def live(self, path: Path, clock: MortalClock, fate: Fate) -> CampaignAnalysis:
        """Work on the campaign in a directory, from wherever its record stands, up to its fate."""
        begun = Stage.resumed if path.exists() else Stage.new
        stage = begun(self.experiment, path, clock)
        stage.room = IN_TURNS if read_campaign(path).plan else self.room  # the plan stays
        stage.world.steps = MortalSteps(fate)
        stage.doomed(fate)
        clock.fate = fate
        try:
            return stage.run()
        finally:
            clock.fate = Fate()


_ANEW = Measure(
    run_time_s=5.0,
    discard_start_s=1.0,
    warm_up_s=2.0,
    switch=SwitchCost.REPROVISION,
    runs_per_start=2,
)
KINDS = {
    "one by one": Kind(experiment=an_experiment()),
    "in turns": Kind(experiment=an_experiment(), room=IN_TURNS),
    "back to back": Kind(experiment=an_experiment(restart=False)),
    "in sub-blocks": Kind(experiment=four_configurations(), room=room_for(2)),
    "made anew": Kind(experiment=an_experiment(workloads=("writes",), measure=_ANEW)),
    "long runs": Kind(experiment=replace(an_experiment(loads=2), sustained_s=600.0)),
}


@dataclass(frozen=True, kw_only=True)
class Whole:
    """A campaign that nobody killed."""

    analysis: CampaignAnalysis
    record: CampaignRecord
    schedule: bytes
    instants: tuple[list[int], list[int]]  # those elsewhere, and those of lines


@cache
def whole(name: str) -> Whole:
    """Return that of a kind."""
    with TemporaryDirectory() as folder:
        path, fate = Path(folder, "campaign"), Fate()
        analysis = KINDS[name].live(path, MortalClock(), fate)
        instants: tuple[list[int], list[int]] = [], []
        for number, in_journal in enumerate(fate.in_journal):
            instants[in_journal].append(number)
        return Whole(
            analysis=analysis,
            record=read_campaign(path),
            schedule=(path / "schedule.json").read_bytes(),
            instants=instants,
        )


def drawn(number: int, instants: tuple[list[int], list[int]]) -> Iterator[int | None]:
    """Yield at which instant each session of a campaign dies: as often at a line as elsewhere."""
    coin = random.Random(f"{SEED}-{number}")  # noqa: S311 - an instant is no secret
    yield coin.choice(instants[coin.randrange(2)])
    while coin.random() < AGAIN:
        yield coin.choice(instants[coin.randrange(2)])
    yield None


def key(run: Run) -> tuple[object, ...]:
    """Return where a run stands and what it is of."""
    return run.block, run.sub_block, run.start, run.position, run.configuration, run.cell


def outcome(run: Run) -> tuple[object, ...]:
    """Return what came of it: the rate of a formula, or whose turn came first in each round."""
    rate = None if run.measurement is None else round(run.measurement.tps, 6)
    return tuple((turn.round, turn.place) for turn in run.turns) or rate


@pytest.mark.parametrize("number", range(KILLS))
def test_a_killed_campaign_loses_the_block_in_flight_and_nothing_else(
    number: int, tmp_path: Path
) -> None:
    """Lines, plan, order, complete blocks and coins stay; each death costs at most one try."""
    name = list(KINDS)[number % len(KINDS)]
    expected, path, clock = whole(name), tmp_path / "campaign", MortalClock()
    lost: list[int] = []
    kept: tuple[Run, ...] = ()
    long: tuple[SustainedRun, ...] = ()
    lines = b""
    for deaths, dies_at in enumerate(drawn(number, expected.instants), start=1):
        try:
            KINDS[name].live(path, clock, Fate(dies_at=dies_at))
            break
        except Killed:
            clock.advance(_DAY_S)
        content = (path / "journal.jsonl").read_bytes()
        assert content.startswith(lines)
        lines = content[: content.rfind(b"\n") + 1]
        dead = read_campaign(path)
        assert dead.counted_runs[: len(kept)] == kept
        assert dead.sustained[: len(long)] == long
        kept, long = dead.counted_runs, dead.sustained
        lost = [block.index for block in dead.blocks if not block.complete and block.reason]
        assert len(lost) <= deaths
        if dead.status is Status.DECIDED:  # it died right after its last line
            break
    record = read_campaign(path)
    assert record.counted_runs[: len(kept)] == kept
    assert record.sustained[: len(long)] == long
    assert_as_whole(path, expected, lost)


def assert_as_whole(path: Path, expected: Whole, lost: list[int]) -> None:
    """The record is that of the campaign that nobody killed, but for the tries that were lost."""
    record = read_campaign(path)
    assert (path / "schedule.json").read_bytes() == expected.schedule
    assert (record.plan, record.status) == (expected.record.plan, Status.DECIDED)
    whole_runs = expected.record.counted_runs
    assert [key(run) for run in record.counted_runs] == [key(run) for run in whole_runs]
    tries = [(block.index, block.attempt, block.complete) for block in record.blocks]
    assert tries == [
        (index, attempt, attempt == lost.count(index))
        for index in range(expected.analysis.blocks)
        for attempt in range(lost.count(index) + 1)
    ]
    for run, other in zip(record.counted_runs, whole_runs, strict=True):
        if run.attempt == 0 or not run.turns:  # a try draws its turns anew
            assert outcome(run) == outcome(other)
    ours, theirs = record.sustained, expected.record.sustained
    assert [(r.configuration, r.cell) for r in ours] == [(r.configuration, r.cell) for r in theirs]
    assert record.elapsed_s < _DAY_S
    assert not any(Path(name).exists() for name in left_over(path))  # a session notes what is gone
