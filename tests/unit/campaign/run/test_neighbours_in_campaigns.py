"""What becomes of blocks beside a neighbour: redone in all arms within limits, then borne."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fakes import servers
from fakes.campaigns import IN_TURNS, Stage, an_experiment
from steelyard.answers.results import CampaignAnalysis
from steelyard.campaign.evidence.probe import Part, Probe, evidence_of
from steelyard.campaign.evidence.watch import Watch
from steelyard.campaign.run import taking
from steelyard.campaign.run.blocks import MAX_TRIES, bears_neighbours
from steelyard.core.campaign import BlockOutcome, CampaignRecord, Status
from steelyard.core.experiment import Calibration, Experiment, Measure, Stop
from steelyard.core.findings import Finding, Severity, Validity
from steelyard.core.measurement import OtherProcess, Quantity
from steelyard.core.wording import MeasurementError
from steelyard.gateways.host import Clock
from steelyard.record.directory import read_campaign

RUN_S, CPUS = 6.0, 2.0
BZIP2 = OtherProcess(pid=9, name="bzip2", cpu_s=6.0, io_bytes=None)


class NeighbourProbe(Probe):
    """Sees a process that uses half of the machine where a test says so."""

    subject = "host"

    def __init__(self, *, busy: bool) -> None:
        self._busy = busy

    def begin(self) -> None:
        """Begin."""

    def finish(self, at_s: float, *, lost: int) -> Part:
        """Return what the others used."""
        assert lost == 0
        used = 0.5 * CPUS * at_s if self._busy else 0.0
        totals = {Quantity.OTHERS_CPU_S: used, Quantity.CPU_STEAL_S: 0.0}
        others = (BZIP2,) if self._busy else ()
        return Part(totals=totals, levels={Quantity.CPUS: CPUS}, others=others)


Disturb = Callable[[Callable[[int], bool]], None]


@pytest.fixture
def disturb(monkeypatch: pytest.MonkeyPatch) -> Disturb:
    """Return a function that decides by the number of a run whether a neighbour is there."""

    def plant(is_busy: Callable[[int], bool]) -> None:
        numbers = iter(range(10_000))

        def watches(_places: object, _host: object, clock: Clock, **_: object) -> tuple[Watch]:
            return (Watch(clock=clock, probes=[NeighbourProbe(busy=is_busy(next(numbers)))]),)

        monkeypatch.setattr(taking, "watches", watches)

    return plant


def campaign(
    path: Path, experiment: Experiment | None = None
) -> tuple[CampaignRecord, CampaignAnalysis]:
    """Run one to its end."""
    short = an_experiment(measure=MEASURE, stop=Stop(budget_s=250.0))
    analysis = Stage.new(experiment or short, path).run()
    return read_campaign(path), analysis


MEASURE = Measure(run_time_s=5.0, discard_start_s=1.0, warm_up_s=2.0)


def tries(record: CampaignRecord) -> list[tuple[int, int, str]]:
    """Return block, try and cause of everything that was thrown away."""
    return [(b.index, b.attempt, b.cause) for b in record.blocks if not b.complete]


def found(analysis: CampaignAnalysis, code: str) -> Finding | None:
    """Return the finding of a rule, or None."""
    return next((f for f in analysis.findings if f.code == code), None)


def test_a_block_beside_a_neighbour_is_redone_in_all_arms(tmp_path: Path, disturb: Disturb) -> None:
    """One disturbed run throws its block away with its cause; the next try counts."""
    disturb(lambda number: number == 1)
    record, analysis = campaign(tmp_path / "c")
    assert tries(record) == [(0, 0, "neighbour-cpu")]
    thrown = [run for run in record.runs if (run.block, run.attempt) == (0, 0)]
    assert [run.validity for run in thrown] == [Validity.VALID, Validity.INVALID]
    assert "most of it bzip2" in record.blocks[0].reason
    assert {run.configuration for run in record.counted_runs if run.block == 0} == {"slow", "fast"}
    assert all(run.validity is Validity.VALID for run in record.counted_runs)
    redone = found(analysis, "blocks-redone")
    assert redone is not None
    assert redone.message.endswith("; causes: CPU time of other processes (1)")
    assert found(analysis, "measured-beside-neighbour") is None


def test_a_neighbour_that_never_goes_fails_no_campaign(tmp_path: Path, disturb: Disturb) -> None:
    """Redos end with their limit; the rest counts, is suspect, and the campaign says so."""
    disturb(lambda _number: True)
    record, analysis = campaign(tmp_path / "c", an_experiment(stop=Stop(budget_s=600.0)))
    assert record.status in (Status.DECIDED, Status.BUDGET)
    complete = sum(block.complete for block in record.blocks)
    assert complete >= 4
    assert tries(record)[:2] == [(0, 0, "neighbour-cpu"), (0, 1, "neighbour-cpu")]
    assert sum(block.lasted_s or 0.0 for block in record.blocks if not block.complete) <= 60.0
    assert all(run.validity is Validity.SUSPECT for run in record.counted_runs)
    told = found(analysis, "measured-beside-neighbour")
    assert told is not None
    assert told.severity is Severity.WARNING
    assert told.message.startswith(f"{complete} of {complete} blocks were measured beside")


def test_a_redone_block_does_not_make_the_next_one_dear(tmp_path: Path, disturb: Disturb) -> None:
    """What the tries before cost is past: the budget is used up by blocks as they are."""
    disturb(lambda number: number < 4)
    budget_s = 500.0
    asked = an_experiment(measure=MEASURE, stop=Stop(budget_s=budget_s, width=1e-6))
    record, _ = campaign(tmp_path / "c", asked)
    assert record.plan is not None
    assert record.status is Status.BUDGET
    assert [index for index, _, _ in tries(record)] == [0, 0]
    assert record.elapsed_s > budget_s - 1.5 * record.plan.block_s


def test_in_turns_no_block_is_redone_for_a_neighbour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It meets all configurations alike: each run is valid, and one line says that it was there."""
    totals = {Quantity.OTHERS_CPU_S: 0.5 * CPUS * RUN_S, Quantity.CPU_STEAL_S: 0.0}
    levels = {Quantity.CPUS: CPUS}
    part = Part(totals=totals, levels=levels, others=(BZIP2,))
    monkeypatch.setattr(Watch, "evidence", lambda _: evidence_of([part], RUN_S, own_cpu_s=0.0))
    stage = Stage.new(an_experiment(stop=Stop(budget_s=600.0)), tmp_path / "c")
    stage.room = IN_TURNS
    analysis = stage.run()
    record = read_campaign(tmp_path / "c")
    assert tries(record) == []
    assert {run.validity for run in record.runs} == {Validity.VALID}
    told = found(analysis, "measured-beside-neighbour")
    assert told is not None
    assert told.severity is Severity.INFO


def test_an_ignored_neighbour_costs_nothing(tmp_path: Path, disturb: Disturb) -> None:
    """Every run is valid, no block is redone, and one line says how many runs it met."""
    disturb(lambda number: number % 2 == 0)
    ignoring = Measure(run_time_s=5.0, discard_start_s=1.0, warm_up_s=2.0, max_other_load=None)
    asked = an_experiment(measure=ignoring, stop=Stop(budget_s=250.0))
    record, analysis = campaign(tmp_path / "c", asked)
    assert tries(record) == []
    assert all(run.validity is Validity.VALID for run in record.counted_runs)
    told = found(analysis, "measured-beside-neighbour")
    assert told is not None
    assert told.severity is Severity.INFO
    assert "ignore" in told.remedy


def test_neighbours_use_up_no_try_of_what_fails_for_good(tmp_path: Path, disturb: Disturb) -> None:
    """Two redos for a neighbour, then two failures of the generator: the campaign goes on."""
    disturb(lambda number: number < 2)
    stage = Stage.new(an_experiment(stop=Stop(budget_s=900.0)), tmp_path / "c")
    # Uses 0 to 3: warm-up and run of the two disturbed tries; then a warm-up fails twice.
    stage.world.faults = dict.fromkeys((4, 5), servers.generator_fails)
    stage.run()
    causes = [cause for _, _, cause in tries(read_campaign(tmp_path / "c"))]
    assert causes == ["neighbour-cpu", "neighbour-cpu", "generator-failed", "generator-failed"]


def test_what_fails_for_good_still_fails_beside_a_neighbour(
    tmp_path: Path, disturb: Disturb
) -> None:
    """Three failures of the generator end the campaign, and the way out is the rule's."""
    disturb(lambda _number: True)
    stage = Stage.new(an_experiment(), tmp_path / "c")
    stage.world.faults = dict.fromkeys(range(200), servers.generator_fails)
    with pytest.raises(MeasurementError, match="block 1 failed 3 times") as caught:
        stage.run()
    assert caught.value.hint.startswith("Look into the server's log, in raw/; an existing server")
    assert "keeps its own. Then go on with" in caught.value.hint


def test_a_calibration_beside_a_neighbour_is_borne_in_the_end(
    tmp_path: Path, disturb: Disturb
) -> None:
    """It is tried again, and then counts: a machine that is never quiet can be measured on."""
    disturb(lambda _number: True)
    calibration = Calibration(restarts=1, run_time_s=30.0, at_least_s=3.0)
    measure = Measure(run_time_s=5.0, discard_start_s=1.0, calibration=calibration)
    record, _ = campaign(tmp_path / "c", an_experiment(measure=measure, stop=Stop(budget_s=900.0)))
    assert record.status is not Status.FAILED


STEAL = "steal"


def lost(index: int, lasted_s: float | None = 10.0, cause: str = STEAL) -> BlockOutcome:
    """Return the first try of a block that was thrown away."""
    return BlockOutcome(index=index, attempt=0, complete=False, cause=cause, lasted_s=lasted_s)


@pytest.mark.parametrize(
    ("before", "bears"),
    [
        ([], False),
        ([lost(0)], False),
        ([lost(0), lost(0)], True),  # twice in one block
        ([lost(number) for number in range(1, 7)], False),  # with pauses 72 s and 12 of 84
        ([lost(number) for number in range(1, 8)], True),
        ([lost(1, 40.0)], False),  # the next may last as long
        ([lost(1, 40.0), lost(2)], True),
        ([lost(number, None) for number in range(1, 8)], True),  # of a record that does not say
        ([lost(0, cause="server-died")] * 9, False),  # no neighbour
    ],
)
def test_redoing_takes_a_tenth_of_the_budget_at_most(
    before: list[BlockOutcome], *, bears: bool
) -> None:
    """By the neighbour alone: tries that were lost, pauses after them, and the next try's."""
    assert bears_neighbours(before, 0, block_s=10.0, budget_s=860.0) is bears
    assert MAX_TRIES == 3


def test_a_budget_that_a_block_would_exceed_redoes_none() -> None:
    """A tenth of five minutes is less than a block of 40 s."""
    assert bears_neighbours([], 0, block_s=40.0, budget_s=300.0)
