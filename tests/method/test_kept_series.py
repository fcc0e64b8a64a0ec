"""Long series of alternating blocks: read from data and from records, and told with all blocks."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import kept_series
import numpy as np
import pytest
from alternating import MACHINES, Way, contrasts, equal, take
from alternating_records import record_of
from fakes.clock import FakeClock
from kept_series import describe, group_verdicts, keep, load, load_all, of_record, regress, tell
from scipy.stats import linregress

from steelyard.record.directory import CampaignDirectory
from steelyard.record.journal import BlockEnded
from steelyard.record.journal import BlockStarted
from steelyard.record.journal import Ended
from steelyard.record.journal import Planned
from steelyard.record.journal import RunFinished
from steelyard.record.journal import Started

BLOCKS = 120


def simulated(blocks=BLOCKS, configurations=2, seed=21, cells=1, way=None, coin=True, **truth):
    """Return simulated turns of one campaign, and its record."""
    taken = take(
        MACHINES["writes"],
        equal(configurations, **truth),
        campaigns=1,
        blocks=blocks,
        cells=cells,
        seed=seed,
        way=way,
        coin=coin,
    )
    return taken, record_of(taken, 0)


def only(series):
    """Return what is told of a series with one cell and one contender."""
    (told,) = describe(series)
    return told


def figure(told, begin):
    """Return the figure whose name begins so."""
    (found,) = (
        each for each in (told.mean, *told.regression, *told.turns) if each.what.startswith(begin)
    )
    return found


def test_a_long_series_of_equal_configurations():
    """Every figure is zero within its error, all 120 blocks are in, and 15 groups have a verdict."""
    taken, record = simulated()
    told = only(of_record(record))
    y = contrasts(taken)[0, :, 0, 0]
    assert told.blocks == BLOCKS
    assert told.mean.value == pytest.approx(y.mean())
    assert told.mean.error == pytest.approx(y.std(ddof=1) / np.sqrt(BLOCKS))
    assert told.block_sd_low < told.block_sd < told.block_sd_high
    assert told.block_sd == pytest.approx(y.std(ddof=1))
    assert all(each.p_value > 0.01 for each in (told.mean, *told.regression, *told.turns))
    assert len(told.regression) == 2
    assert len(told.turns) == 4
    assert sum(told.verdicts.values()) == BLOCKS // 8
    assert told.called <= 3
    assert told.chance > 0.01


def test_an_effect_is_told():
    """5 % are in the mean, in the groups that are called, and in the chance of so many."""
    told = only(of_record(simulated(effects=(0.0, 0.05))[1]))
    assert told.mean.value == pytest.approx(0.05, abs=3 * told.mean.error)
    assert not told.mean.is_zero
    assert "not within two standard errors" in str(told.mean)
    assert told.called >= 10
    assert told.chance < 1e-6


def test_an_effect_of_the_slot_is_found_by_the_regression():
    """3 % between slots: in the coefficient of the slot, not in the mean, for the coin is fair."""
    told = only(of_record(simulated(slot_effect=0.03)[1]))
    slot = figure(told, "slot 1")
    assert slot.value == pytest.approx(0.03, abs=3 * slot.error)
    assert slot.error < 0.005
    assert told.mean.value == pytest.approx(0.0, abs=3 * told.mean.error)


def test_three_slots_have_two_coefficients():
    """The third slot is twice as far away, whichever configuration is compared."""
    record = simulated(configurations=3, slot_effect=0.03)[1]
    for told in describe(of_record(record)):
        for slot, true in ((1, 0.03), (2, 0.06)):
            found = figure(told, f"slot {slot}")
            assert found.value == pytest.approx(true, abs=3 * found.error)


def test_what_a_switch_costs_is_found_by_predecessor():
    """20 % of the first 100 ms, equal in both: a gain after itself, and no difference."""
    way = Way(settling_s=0.05)
    told = only(of_record(simulated(lost=(0.2, 0.2), lost_s=0.1, step=True, way=way)[1]))
    both = figure(told, "a turn after itself, both")
    assert both.value == pytest.approx(-np.log1p(-0.2 * 0.25), abs=3 * both.error)
    assert not both.is_zero
    assert abs(figure(told, "a turn after itself, difference").value) < 3 * both.error
    uneven = only(of_record(simulated(lost=(0.0, 0.2), lost_s=0.1, step=True, way=way)[1]))
    assert not figure(uneven, "second half of turns, difference").is_zero
    assert figure(uneven, "a turn after itself, difference").value > 0.02


def test_slots_that_never_change_have_no_coefficient():
    """A constant cannot be told from the mean: it is left out, not made up."""
    told = only(of_record(simulated(coin=False)[1]))
    assert [each.what for each in told.regression] == ["all turns after another one against none"]


def test_the_regression_is_least_squares():
    """Known coefficients without noise; estimate, error and p value of one column as scipy's."""
    rng = np.random.default_rng(3)
    x, noise = rng.standard_normal((40, 2)), rng.standard_normal(40)
    exact = regress(0.5 + x @ [2.0, -1.0], ["first", "second"], x)
    assert [each.value for each in exact] == pytest.approx([2.0, -1.0])
    assert all(each.degrees == 37 for each in exact)
    (alone,) = regress(0.3 * x[:, 0] + noise, ["first"], x[:, :1])
    known = linregress(x[:, 0], 0.3 * x[:, 0] + noise)
    assert alone.value == pytest.approx(known.slope)
    assert alone.error == pytest.approx(known.stderr)
    assert alone.p_value == pytest.approx(known.pvalue)
    assert regress(np.zeros(5), ["constant"], np.ones((5, 1))) == ()


def test_groups_are_disjoint_and_in_order():
    """8 blocks each, what is left over in none, and the words are the product's."""
    noise = 0.001 * np.tile([1.0, -1.0], 10)
    up = np.concatenate([noise[:8] + 0.05, noise[:8] - 0.05, noise[:4]])
    assert group_verdicts(up) == {"faster": 1, "slower": 1}
    assert group_verdicts(noise[:16]) == {"equivalent": 2}
    assert group_verdicts(noise[:7]) == {}


@pytest.mark.parametrize("name", ["series.json", "series.json.gz"])
def test_a_kept_series_says_what_the_record_says(tmp_path, name):
    """Written and read again it is the same, turn by turn; another format is refused."""
    series = of_record(simulated(blocks=20, cells=2, configurations=3)[1])
    keep(series, tmp_path / name)
    assert load(tmp_path / name) == series
    assert tell(load(tmp_path / name)) == tell(series)
    (tmp_path / "other.json").write_text(json.dumps({"format": 2}))
    with pytest.raises(ValueError, match="format 2"):
        load(tmp_path / "other.json")


def written(record, path):
    """Return the directory of a campaign with a journal of this record; one try was thrown away."""
    directory = CampaignDirectory.create(path, FakeClock(), experiment_text="version: 1\n")
    journal = directory.journal
    journal.append(
        Started(
            campaign_id="simulated", experiment=record.experiment, command="steelyard", version="0"
        )
    )
    journal.append(Planned(plan=record.plan))
    lost = replace(record.blocks[0], complete=False, reason="a neighbour")
    for outcome in (lost, *(replace(each, attempt=each.index == 0) for each in record.blocks)):
        journal.append(BlockStarted(index=outcome.index, attempt=int(outcome.attempt)))
        for run in record.runs:
            if run.block == outcome.index:
                journal.append(RunFinished(run=replace(run, attempt=int(outcome.attempt))))
        journal.append(BlockEnded(outcome=replace(outcome, attempt=int(outcome.attempt))))
    journal.append(Ended(status=record.status))
    directory.close()
    return path


def test_a_campaigns_directory_is_a_series(tmp_path):
    """The journal keeps turns: read back, the blocks that count say what they said."""
    record = simulated(blocks=10)[1]
    path = written(record, tmp_path / "campaign")
    assert load(path) == of_record(record)
    kept = tmp_path / "kept.json.gz"
    done = subprocess.run(
        [sys.executable, kept_series.__file__, path, "--keep", kept],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(kept_series.__file__).parent,
    )
    assert done.stdout.strip() == tell(of_record(record))
    assert "simulated: 10 blocks" in done.stdout
    assert "2 blocks fill no group" in done.stdout
    assert load(kept) == load(path)


def test_several_campaigns_are_one_series(tmp_path):
    """Their blocks come in the order of the parts; parts of other configurations are no parts."""
    parts = [of_record(simulated(blocks=4, seed=seed)[1]) for seed in (1, 2)]
    paths = [tmp_path / f"{place}.json.gz" for place in range(3)]
    for part, path in zip(parts, paths, strict=False):
        keep(part, path)
    assert load_all(paths[:2]).blocks == (*parts[0].blocks, *parts[1].blocks)
    keep(of_record(simulated(blocks=4, configurations=3)[1]), paths[2])
    with pytest.raises(ValueError, match="same configurations"):
        load_all(paths)


KEPT = Path(__file__).parent / "kept"


@pytest.mark.parametrize("place", [0, 1], ids=["reads", "writes"])
def test_the_kept_series_against_itself_accuses_nobody(place):
    """Real blocks of one configuration against itself: no mean, slot or order of turns stands out."""
    told = describe(load(KEPT / "against-itself.json.gz"))[place]
    assert told.mean.is_zero
    assert all(each.p_value > 0.01 for each in (*told.regression, *told.turns))
    assert told.called <= 1
    assert told.chance > 0.05


@pytest.mark.slow
def test_alternating_takes_fewer_minutes_in_the_kept_campaigns():
    """Both designs side by side on one machine, as docs/methods.md has it; the goals hold."""
    benchmark = Path(__file__).parents[2] / "benchmarks" / "minutes_to_verdict.py"
    done = subprocess.run(
        [sys.executable, benchmark, "--read", KEPT], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    methods = (Path(__file__).parents[2] / "docs" / "methods.md").read_text()
    for line in done.stdout.splitlines():
        if "times fewer minutes" in line:
            times = line.partition(": ")[2].partition(" (")[0]
            assert times in " ".join(methods.split())


def test_both_designs_say_the_same_of_known_effects_in_the_kept_campaigns():
    """Each difference holds zero within 5 %, and docs/methods.md has its interval."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, root / "benchmarks/known_effects.py", "--read", KEPT / "known-effects"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = [line for line in done.stdout.splitlines() if "minus" in line]
    assert len(told) == 5
    methods = (root / "docs" / "methods.md").read_text()
    for line in told:
        assert line.partition("minus starts ")[2] in methods


@pytest.mark.slow
def test_three_percent_is_decided_in_minutes_in_the_kept_campaigns():
    """With and without a restart, as docs/methods.md has it; the goals hold, and none is wrong."""
    benchmark = Path(__file__).parents[2] / "benchmarks" / "three_percent.py"
    done = subprocess.run(
        [sys.executable, benchmark, "--read", KEPT / "three-percent.jsonl"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    methods = " ".join((Path(__file__).parents[2] / "docs" / "methods.md").read_text().split())
    told = done.stdout.splitlines()
    assert len(told) == 2
    for line in told:
        assert "5 of 5 decided, 0 wrong" in line
        median = line.rpartition("median ")[2].removesuffix(" min")
        assert f"of {median} minutes [" in methods
