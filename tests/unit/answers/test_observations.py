"""From runs to the array that every estimate starts from."""

from dataclasses import replace

import numpy as np
import pytest
from made_records import a_record, an_experiment, compared, noise

from steelyard.answers.observations import observe
from steelyard.core.campaign import BlockOutcome
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
