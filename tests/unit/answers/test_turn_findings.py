"""Carry-over and warming up in turns: both sides of each rule, and what the runner is told."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from factored import with_factors
from made_records import an_experiment, compared
from turned_records import in_turns, without_rounds
from watched import missing, rulings

from steelyard.answers.campaign import analyse
from steelyard.answers.observations import observe
from steelyard.answers.turns import (
    TurnChange,
    TurnCheck,
    block_turns,
    check_turns,
    still_warming,
    turns_by_block,
)
from steelyard.core.campaign import CampaignRecord
from steelyard.core.findings import Finding, Severity
from steelyard.core.schedule import Load, Mode

RULES = ("carry-over", "still-warming")


def findings(record: CampaignRecord, code: str) -> list[Finding]:
    """Return the findings of a rule in the whole analysis."""
    return [finding for finding in analyse(record).findings if finding.code == code]


def checks(record: CampaignRecord, what: TurnChange, *, since: int = 0) -> list[TurnCheck]:
    """Return the checks of one change."""
    return list(check_turns(observe(record), record.experiment, (what,), since=since))


@pytest.mark.parametrize("code", RULES)
def test_equal_configurations_in_turns_are_not_accused(code: str) -> None:
    """Both rules look, and nothing is missing."""
    assert not rulings(in_turns(), code)


@pytest.mark.parametrize("code", RULES)
def test_runs_in_one_piece_are_not_judged(code: str) -> None:
    """A campaign of starts has no turns, and lacks nothing."""
    record = compared(12)
    assert not rulings(record, code)
    assert not still_warming(record)


def test_a_configuration_that_warms_up_is_a_finding() -> None:
    """10 % missing at its first round: the finding names it, its size, and the way out."""
    record = in_turns(missing={"t1": 0.10})
    (finding,) = findings(record, "still-warming")
    assert finding.severity is Severity.WARNING
    assert finding.subject == "t1"
    assert finding.message.startswith(
        "t1: under w0 its rate vs t0 (baseline) changes from the first round of a block to the last"
    )
    assert finding.message.endswith(", 12 blocks)")
    assert "99 % interval +" in finding.message
    assert "measure.warm_up" in finding.remedy
    assert not findings(record, "carry-over")


@pytest.mark.parametrize("warming", [{"t0": 0.1}, {"t1": 0.1}])
def test_it_does_not_matter_which_one_warms_up(warming: Mapping[str, float]) -> None:
    """The baseline's warm-up is found too, with the other sign."""
    (check,) = checks(in_turns(missing=warming), TurnChange.OVER_BLOCK)
    assert check.is_suspect
    assert check.change is not None
    assert np.sign(check.change.estimate) == (1 if "t1" in warming else -1)


def test_warming_up_alike_is_none() -> None:
    """It cancels in every round."""
    record = in_turns(missing={"t0": 0.2, "t1": 0.2})
    assert not findings(record, "still-warming")


def test_a_change_below_one_percent_is_borne() -> None:
    """However sure it is: the interval holds less than 1 %."""
    record = in_turns(blocks=40, missing={"t1": 0.008}, noise=0.001)
    (check,) = checks(record, TurnChange.OVER_BLOCK)
    assert check.change is not None
    assert 0.0 < check.change.low < check.change.high < 0.01
    assert not findings(record, "still-warming")


def test_a_loss_at_the_beginning_of_turns_is_carry_over() -> None:
    """5 % in the first half of one side's turns: its second halves are that much faster."""
    record = in_turns(lost_early={"t1": 0.05})
    (finding,) = findings(record, "carry-over")
    assert "changes from the first half of its turns to the second by +5." in finding.message
    assert "turn_discard" in finding.remedy
    assert not findings(record, "still-warming")


def test_a_loss_in_turns_after_another_one_is_carry_over() -> None:
    """5 % of whole turns: halves do not show it, the turns after its own do."""
    record = in_turns(blocks=24, lost_after={"t0": 0.05})
    (finding,) = findings(record, "carry-over")
    assert "in turns after a turn of its own differs" in finding.message
    assert " one's by -" in finding.message


@pytest.mark.parametrize("how", ["lost_early", "lost_after"])
def test_a_loss_that_both_have_is_none(how: str) -> None:
    """What a switch costs every configuration cancels in the comparison."""
    record = in_turns(blocks=24, **{how: {"t0": 0.05, "t1": 0.05}})
    assert not findings(record, "carry-over")


def test_of_three_configurations_only_the_one_is_named() -> None:
    """Each contender is compared with the baseline."""
    record = in_turns(experiment=an_experiment(3, loads=1), missing={"t2": 0.1})
    (finding,) = findings(record, "still-warming")
    assert finding.subject == "t2"


def test_factors_are_judged_by_their_effects() -> None:
    """The weights of a main effect are those of its result."""
    experiment = with_factors(2, loads=1)
    on = [each.name for each in experiment.configurations if each.name.startswith("1")]
    record = in_turns(experiment=experiment, missing=dict.fromkeys(on, 0.1))
    first, second = checks(record, TurnChange.OVER_BLOCK)
    assert (first.configuration, first.is_suspect) == ("huge-pages=on", True)
    assert (second.configuration, second.is_suspect) == ("buffers=on", False)


@pytest.mark.parametrize("code", RULES)
def test_too_few_blocks_are_not_judged(code: str) -> None:
    """Five are not six; the rule says what it lacks and accuses nobody."""
    record = in_turns(blocks=5, missing={"t1": 0.5}, lost_early={"t1": 0.5})
    assert missing(record, code) == "6 blocks in turns; 5 are there"
    assert not findings(record, code)


def test_each_workload_is_judged_by_itself() -> None:
    """The workload is named; loads of one workload make one value per block."""
    record = in_turns(experiment=an_experiment(workloads=2, loads=2), missing={"t1": 0.1})
    found = findings(record, "still-warming")
    assert [("w0" in each.message, "w1" in each.message) for each in found] == [
        (True, False),
        (False, True),
    ]
    assert all("12 blocks" in each.message for each in found)


def test_the_first_load_of_a_block_alone_is_enough() -> None:
    """One load of five that warms up by 20 % shows as 4 %: it is not trimmed away."""
    experiment = an_experiment(loads=5)
    warm = in_turns(experiment=experiment)
    cold = in_turns(experiment=experiment, missing={"t1": 0.2})
    first = experiment.loads[0]
    runs = [c if c.cell.load == first else w for w, c in zip(warm.runs, cold.runs, strict=True)]
    (check,) = checks(replace(warm, runs=tuple(runs)), TurnChange.OVER_BLOCK)
    assert check.change is not None
    assert check.change.estimate == pytest.approx(0.2 / 5, rel=0.2)
    assert check.is_suspect


def test_open_loops_are_left_out() -> None:
    """They complete what was asked for, whatever the server does."""
    experiment = replace(
        an_experiment(loads=1), loads=(Load(clients=1, threads=1, rate_per_s=10.0),)
    )
    assert not check_turns(observe(in_turns(experiment=experiment)), experiment)


def test_a_round_that_one_side_lacks_is_left_out_for_all() -> None:
    """And leaves a gap after which no predecessor is known."""
    record = without_rounds(in_turns(blocks=1), "t1", 3, 4)
    (((together,),),) = turns_by_block(observe(record), "w0")
    turns = together.turns
    assert turns.rounds.tolist() == [0, 1, 2, *range(5, 24)]
    assert turns.transactions.shape == (22, 2)
    assert block_turns(()) is None


def test_a_block_without_turns_does_not_count() -> None:
    """A block of which one configuration has no turns says nothing of turns."""
    record = in_turns(blocks=7)
    runs = [
        replace(run, turns=()) if run.block == 2 and run.configuration == "t1" else run
        for run in record.runs
    ]
    for check in check_turns(
        observe(replace(record, runs=tuple(runs))), record.experiment, tuple(TurnChange)
    ):
        assert (check.blocks, check.of) == (6, 6)


def test_blocks_that_cannot_say_are_told() -> None:
    """Few rounds: some blocks have no turn after one of its own; the finding says how many do."""
    record = in_turns(blocks=60, rounds=4, lost_after={"t1": 0.3}, noise=0.01)
    (check,) = checks(record, TurnChange.BY_PREDECESSOR)
    assert 6 <= check.blocks < check.of == 60
    (finding,) = findings(record, "carry-over")
    assert finding.message.endswith(f", {check.blocks} blocks of 60 that can say)")


def test_the_runner_is_told_to_warm_up_longer() -> None:
    """Yes from six blocks on, of those since the present warm-up; and no where none needs it."""
    record = in_turns(blocks=12, missing={"t1": 0.1})
    assert still_warming(record)
    assert still_warming(record, since=6)
    assert not still_warming(record, since=7)
    assert not still_warming(in_turns(blocks=12))


def test_the_answer_is_symmetric_in_the_labels() -> None:
    """Exchanged, two configurations give the same intervals with the other sign."""
    record = in_turns(blocks=9, missing={"t1": 0.1}, lost_early={"t0": 0.04})
    other = {"t0": "t1", "t1": "t0"}
    runs = tuple(replace(run, configuration=other[run.configuration]) for run in record.runs)
    swapped = replace(record, runs=runs)
    assert still_warming(record) is still_warming(swapped) is True
    for mine, theirs in zip(
        check_turns(observe(record), record.experiment),
        check_turns(observe(swapped), record.experiment),
        strict=True,
    ):
        assert mine.change is not None
        assert theirs.change is not None
        assert mine.change.low == pytest.approx(-theirs.change.high)
        assert mine.is_suspect is theirs.is_suspect


def in_two_sub_blocks(**ways: object) -> CampaignRecord:
    """Return a record of `t1` beside the baseline, and `t2` beside it in another sub-block."""
    first, second = in_turns(**ways), in_turns()
    renamed = [
        replace(run, configuration=run.configuration.replace("t1", "t2"), sub_block=1, start=2)
        for run in second.runs
    ]
    experiment = an_experiment(3, loads=1)
    return replace(first, experiment=experiment, runs=(*first.runs, *renamed))


@pytest.mark.parametrize(
    ("what", "ways"),
    [
        (TurnChange.OVER_BLOCK, {"missing": {"t1": 0.10}}),
        (TurnChange.WITHIN_TURNS, {"lost_early": {"t1": 0.10}}),
        (TurnChange.BY_PREDECESSOR, {"lost_after": {"t1": 0.20}, "rounds": 96}),
    ],
)
def test_in_sub_blocks_each_is_checked_beside_its_own_baseline(
    what: TurnChange, ways: dict[str, object]
) -> None:
    """What `t1` does shows as it would without the other sub-block, and `t2` is not accused."""
    record = in_two_sub_blocks(**ways)
    found = {check.configuration: check for check in checks(record, what)}
    (alone,) = checks(in_turns(**ways), what)
    assert found["t1"].change == alone.change
    assert found["t1"].blocks == alone.blocks == 12
    assert found["t1"].is_suspect
    assert not found["t2"].is_suspect
    assert found["t2"].blocks > 0


def test_a_baseline_of_each_sub_block_makes_no_more_starts_of_the_others() -> None:
    """It was started twice in each of 12 blocks, `t1` and `t2` once."""
    record = in_two_sub_blocks()
    assert record.plan is not None
    alternating = replace(record, plan=replace(record.plan, mode=Mode.ALTERNATING))
    assert "12 starts of each configuration's server" in analyse(alternating).unit
