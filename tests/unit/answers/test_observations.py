"""From runs to the array that every estimate starts from, also with several runs in a start."""

from dataclasses import replace

import numpy as np
import pytest
from made_records import a_record, an_experiment, compared, noise

from steelyard.answers.campaign import analyse
from steelyard.answers.observations import log_rate, observe
from steelyard.core.campaign import BlockOutcome, CampaignRecord, RoundsFor
from steelyard.core.experiment import SwitchCost


@pytest.mark.parametrize("switch", [SwitchCost.SESSION, SwitchCost.RESTART])
def test_values_find_their_place(switch: SwitchCost) -> None:
    """Whatever the order of the runs was, blocks and cells are where they belong."""
    experiment = an_experiment(configurations=3, workloads=2, loads=3)
    log_tps = noise(7, 3, 6)
    seen = observe(a_record(log_tps, experiment, switch=switch))
    assert seen.log_tps == pytest.approx(log_tps)
    assert seen.blocks == 7
    assert seen.contrasts("t0", "t2") == pytest.approx(log_tps[:, 2] - log_tps[:, 0])
    assert seen.columns_of("w1") == [3, 4, 5]


def test_positions_are_those_of_the_start() -> None:
    """Each start numbers its cells 0 to K - 1, the same for both configurations of a block."""
    seen = observe(compared(5))
    assert (np.sort(seen.places, axis=3) == np.arange(5)).all()
    assert (seen.places[:, :, 0] == seen.places[:, :, 1]).all()


def test_thrown_away_tries_do_not_count() -> None:
    """A block that was redone counts once, with the runs of the complete try."""
    record = compared(3)
    bad = tuple(replace(run, attempt=0) for run in record.runs if run.block == 1)
    good = tuple(replace(run, attempt=1) if run.block == 1 else run for run in record.runs)
    outcomes = (
        BlockOutcome(index=0, attempt=0, complete=True),
        BlockOutcome(index=1, attempt=0, complete=False, reason="clock jump"),
        BlockOutcome(index=1, attempt=1, complete=True),
        BlockOutcome(index=2, attempt=0, complete=True),
    )
    seen = observe(replace(record, runs=(*bad, *good), blocks=outcomes))
    assert seen.log_tps == pytest.approx(observe(record).log_tps)
    assert all(len(runs) == 3 for runs in seen.runs.values())


def test_a_missing_measurement_takes_its_block_out() -> None:
    """A hole is never filled: the block is left out in all arms, and named."""
    record = compared(4)
    runs = tuple(
        replace(run, measurement=None) if (run.block, run.start, run.position) == (2, 1, 0) else run
        for run in record.runs
    )
    seen = observe(replace(record, runs=runs))
    assert seen.holes == (2,)
    assert seen.blocks == 3
    assert all(run.block != 2 for runs in seen.runs.values() for run in runs)


def test_no_block() -> None:
    """An empty record gives an empty array of the right shape."""
    seen = observe(compared(0))
    assert seen.log_tps.shape == (0, 2, 5)
    assert seen.contrasts("t0", "t1").shape == (0, 5)


def in_rounds(
    blocks: int = 8, rounds: int = 3, loads: int = 2, seed: int = 4, sd: float = 0.02
) -> np.ndarray:
    """Return log throughput, shape (blocks, rounds, configurations, cells)."""
    rng = np.random.default_rng(seed)
    return np.asarray(np.log(1000.0) + sd * rng.standard_normal((blocks, rounds, 2, loads)))


def recorded(log_tps: np.ndarray, switch: SwitchCost = SwitchCost.RESTART) -> CampaignRecord:
    """Return the record of a campaign with such rounds."""
    return a_record(
        log_tps, an_experiment(loads=log_tps.shape[3]), rounds=log_tps.shape[1], switch=switch
    )


@pytest.mark.parametrize("switch", [SwitchCost.RESTART, SwitchCost.RELOAD])
def test_the_runs_of_a_start_count_as_one(switch: SwitchCost) -> None:
    """Transactions over seconds, not a mean of logarithms; each run keeps its own place."""
    log_tps = in_rounds(sd=0.5)
    seen = observe(recorded(log_tps, switch))
    assert seen.blocks == 8
    assert seen.rounds == 3
    assert seen.log_tps == pytest.approx(np.log(np.exp(log_tps).mean(axis=1)))
    assert seen.slices == pytest.approx(log_tps)
    assert seen.by_slice.shape == (24, 2, 2)
    for block in seen.places:
        for side in range(2):
            assert len(np.unique(block[:, side])) == 6


def test_one_round_is_what_it_always_was() -> None:
    """The value of a run is its own, to the last bit."""
    log_tps = noise(7)
    seen = observe(a_record(log_tps, an_experiment()))
    assert seen.log_tps == pytest.approx(log_tps, abs=1e-12)
    assert (seen.log_tps == seen.slices[:, 0]).all()


def test_a_start_that_did_nothing_stays_finite() -> None:
    """As with one run: at least one transaction, over all its seconds."""
    assert log_rate(np.zeros(3), np.full(3, 5.0)) == pytest.approx(-np.log(15.0))


def test_a_run_without_measurement_is_a_hole_in_its_block() -> None:
    """Two runs of three are no start: the block is left out, and named."""
    record = recorded(in_rounds())
    at = next(place for place, run in enumerate(record.runs) if run.block == 2)
    runs = list(record.runs)
    runs[at] = replace(runs[at], measurement=None)
    seen = observe(replace(record, runs=tuple(runs)))
    assert seen.blocks == 7
    assert seen.holes == (2,)
    missing = observe(replace(record, runs=record.runs[:at] + record.runs[at + 1 :]))
    assert missing.holes == (2,)


def test_a_stalled_slice_is_seen_among_those_of_its_start() -> None:
    """The mean of a start hides it; the count and the test are over single runs."""
    log_tps = in_rounds(blocks=10, rounds=4, loads=1)
    log_tps[:, 1, 1, 0] -= 0.5
    record = recorded(log_tps)
    analysis = analyse(record)
    (test,) = analysis.stalls
    assert (test.baseline_stalled, test.baseline_runs) == (0, 40)
    assert (test.configuration_stalled, test.configuration_runs) == (10, 40)
    assert [cell.stalled for cell in analysis.cells] == [0, 10]
    assert [cell.runs for cell in analysis.cells] == [40, 40]


def test_the_warning_light_sees_a_change_from_round_to_round() -> None:
    """With one load, too: the rounds are the places; and an even start does not light it."""
    log_tps = in_rounds(blocks=10, rounds=4, loads=1)
    assert analyse(recorded(log_tps)).warmup[0].p_value > 0.01
    log_tps[:, :, 1] += np.array([-0.2, -0.1, -0.05, 0.0])[None, :, None]
    analysis = analyse(recorded(log_tps))
    assert analysis.warmup[0].p_value < 0.01
    assert analysis.warmup[0].slope_per_position > 0.02
    (finding,) = (f for f in analysis.findings if f.code == "warm-up-differs")
    assert finding.message.endswith("the configurations may warm up differently")
    record = recorded(log_tps)
    assert record.plan is not None
    over_cycle = replace(record.plan, rounds_for=RoundsFor.CYCLE)
    findings = analyse(replace(record, plan=over_cycle)).findings
    (finding,) = (f for f in findings if f.code == "warm-up-differs")
    assert finding.message.endswith("or differ over the checkpoint cycle")


def test_a_difference_between_cells_does_not_light_it() -> None:
    """Cells that differ in their effect are centred over all their rounds."""
    log_tps = in_rounds(blocks=12, rounds=3, loads=2)
    alike = analyse(recorded(log_tps)).warmup[0]
    log_tps[:, :, 1, 1] += 0.5
    assert analyse(recorded(log_tps)).warmup[0].p_value == pytest.approx(alike.p_value)


def test_the_unit_says_how_many_runs_a_start_has() -> None:
    """They are no further replicates."""
    assert "8 restarts of one server per configuration" in analyse(recorded(in_rounds())).unit
    assert "3 runs of each cell in each" in analyse(recorded(in_rounds())).unit
