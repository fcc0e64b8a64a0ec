"""The phase of the checkpoint cycle in which runs began, and what newly made servers vary by."""

from dataclasses import replace

import numpy as np
import pytest
from factored import measured, with_factors
from made_records import a_record, an_experiment, compared

from steelyard.answers.campaign import analyse
from steelyard.answers.cells import instance_noise
from steelyard.answers.findings import checkpoint_phases
from steelyard.core.campaign import CampaignRecord
from steelyard.core.experiment import SwitchCost
from steelyard.core.findings import Severity
from steelyard.core.measurement import CheckpointAge

HIDDEN = CheckpointAge(seconds=None, unknown="permission denied")


def aged(baseline: CheckpointAge | None, configuration: CheckpointAge | None) -> CampaignRecord:
    """Return a campaign whose runs all began in one phase per configuration."""
    record = compared(8, experiment=an_experiment(loads=1))
    phases = {"t0": baseline, "t1": configuration}
    runs = tuple(replace(run, checkpoint=phases[run.configuration]) for run in record.runs)
    return replace(record, runs=runs)


def codes(record: CampaignRecord) -> list[str]:
    """Return the codes of a campaign's findings."""
    return [finding.code for finding in analyse(record).findings]


def test_records_of_old_say_nothing() -> None:
    """Nobody asked, so there is no section, no finding and no zero."""
    analysis = analyse(aged(None, None))
    assert analysis.answer(checkpoint_phases) == ()
    assert "checkpoint-phase-differs" not in codes(aged(None, None))


def test_least_median_and_most_of_each_configuration() -> None:
    """In seconds since the cycle began, with the number that is known."""
    record = aged(CheckpointAge(seconds=4.0), CheckpointAge(seconds=10.0))
    first, *others = record.runs
    other = replace(first, checkpoint=CheckpointAge(seconds=1.0))
    phases = analyse(replace(record, runs=(other, *others))).answer(checkpoint_phases)
    by_name = {phase.configuration: phase for phase in phases}
    changed, same = by_name[first.configuration], by_name[others[0].configuration]
    assert (changed.least_s, changed.runs, changed.known) == (1.0, 8, 8)
    assert changed.median_s == changed.most_s == (4.0 if first.configuration == "t0" else 10.0)
    assert same.least_s == same.median_s == same.most_s


def test_what_the_server_hides_is_missing_with_its_reason() -> None:
    """None, and the server's own words."""
    (known, hidden) = analyse(aged(CheckpointAge(seconds=4.0), HIDDEN)).answer(checkpoint_phases)
    assert known.known == 8
    assert (hidden.known, hidden.least_s, hidden.median_s, hidden.most_s) == (0, None, None, None)
    assert hidden.unknown == "permission denied"
    assert "checkpoint-phase-differs" not in codes(aged(CheckpointAge(seconds=4.0), HIDDEN))


@pytest.mark.parametrize(
    ("mine", "told"), [(33.0, False), (35.0, True), (300.0, True), (4.0, False)]
)
def test_another_phase_is_told_from_half_a_minute_on(mine: float, *, told: bool) -> None:
    """A note, not a warning: a configuration may bring it about itself."""
    record = aged(CheckpointAge(seconds=4.0), CheckpointAge(seconds=mine))
    found = [f for f in analyse(record).findings if f.code == "checkpoint-phase-differs"]
    assert bool(found) is told
    assert all(f.severity is Severity.INFO and "later in" in f.message for f in found)
    turned = aged(CheckpointAge(seconds=mine), CheckpointAge(seconds=4.0))
    assert any("earlier in" in f.message for f in analyse(turned).findings) is told


def made(rounds: int, switch: SwitchCost = SwitchCost.REPROVISION) -> CampaignRecord:
    """Return 40 blocks whose newly made servers differ by 3 %, with runs that differ by 2 %."""
    rng = np.random.default_rng(9)
    log_tps = 7.0 + 0.03 * rng.standard_normal((40, 1, 2, 1))
    log_tps = log_tps + 0.02 * rng.standard_normal((40, rounds, 2, 1))
    return a_record(log_tps, an_experiment(loads=1), rounds=rounds, switch=switch)


def test_the_two_levels_of_newly_made_servers() -> None:
    """Both deviations of one side are found again, with the interval around the first."""
    (noise,) = analyse(made(4)).answer(instance_noise)
    assert noise.parts.instance_sd == pytest.approx(0.03, rel=0.3)
    assert noise.parts.run_sd == pytest.approx(0.02, rel=0.2)
    assert noise.parts.instance_low < 0.03 < noise.parts.instance_high
    assert (noise.parts.instances, noise.parts.runs) == (40, 4)
    assert 1 <= noise.best_rounds <= 8


def test_one_level_alone_is_not_taken_apart() -> None:
    """One run per server tells nothing of runs, and restarts are not made servers."""
    assert analyse(made(1)).answer(instance_noise) == ()
    assert analyse(made(4, SwitchCost.RESTART)).answer(instance_noise) == ()


def test_with_factors_the_two_sides_of_each_result_are_compared() -> None:
    """One note for the factor whose second level shifts the phase, none for each combination."""
    record = measured(with_factors(2, loads=1), lambda _: 0.0)
    late = {"10": 100.0, "11": 100.0}
    runs = tuple(
        replace(run, checkpoint=CheckpointAge(seconds=late.get(run.configuration, 4.0)))
        for run in record.runs
    )
    found = analyse(replace(record, runs=runs)).findings
    (told,) = (f for f in found if f.code == "checkpoint-phase-differs")
    assert told.subject == "huge-pages=on"
    assert "than those of huge-pages=off" in told.message
