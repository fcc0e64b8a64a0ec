"""Several runs of a cell in one start: one number for the estimates, single ones for the rest."""

from dataclasses import replace

import numpy as np
import pytest
from made_records import a_record, an_experiment, noise

from steelyard.answers.campaign import analyse
from steelyard.answers.observations import log_rate, observe
from steelyard.core.campaign import CampaignRecord, RoundsFor
from steelyard.core.experiment import SwitchCost


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
