"""Which campaigns tell the cost of a statement, and what is said of differences."""

from dataclasses import replace

import numpy as np
import pytest
from made_records import a_record, an_experiment

from steelyard.answers.campaign import analyse
from steelyard.answers.statements.compute import fit_of_statements
from steelyard.core.experiment import Experiment, Workload
from steelyard.core.schedule import Load

SCRIPTS = ("select-only", "simple-update", "tpcb-like")
STATEMENTS, COMMITS = np.array([1.0, 5.0, 7.0]), np.array([0.0, 1.0, 1.0])


def alone(*clients: int, scripts: tuple[str, ...] = SCRIPTS) -> Experiment:
    """Return an experiment of these scripts with these clients."""
    workloads = tuple(Workload(name=s, builtin=s, scale_factor=10) for s in scripts)
    loads = tuple(Load(clients=number, threads=1) for number in clients)
    return replace(an_experiment(), workloads=workloads, loads=loads)


def latencies(*costs: tuple[float, float], blocks: int = 12) -> np.ndarray:
    """Return ln(1/s) of every block, configuration and script, each block a little different."""
    drift = 1.0 + 0.02 * np.sin(np.arange(blocks))[:, None]
    sides = [drift * (a * STATEMENTS + b * COMMITS) for a, b in costs]
    return -np.log(np.stack(sides, axis=1))


def test_a_cost_of_every_statement_is_told_from_one_of_the_commit() -> None:
    """The configuration adds 0.1 ms to every statement and nothing to the commit."""
    record = a_record(latencies((0.2e-3, 1e-3), (0.3e-3, 1e-3)), alone(1))
    fit = analyse(record).answer(fit_of_statements)
    assert fit is not None
    assert [cost.per_statement_s.value for cost in fit.costs] == pytest.approx(
        [0.2e-3, 0.3e-3], rel=0.01
    )
    (difference,) = fit.differences
    assert difference.per_statement_s.value == pytest.approx(0.1e-3, rel=0.02)
    assert difference.is_of_round_trips
    assert not difference.is_of_commits


def test_a_cost_of_the_commit_is_told_from_one_of_every_statement() -> None:
    """Half the commit's cost is gone; statements cost what they did."""
    record = a_record(latencies((0.2e-3, 2e-3), (0.2e-3, 1e-3)), alone(1))
    fit = analyse(record).answer(fit_of_statements)
    assert fit is not None
    assert fit.differences[0].is_of_commits
    assert not fit.differences[0].is_of_round_trips


def test_few_blocks_have_costs_and_no_bounds() -> None:
    """Below six blocks signed ranks reach no bound, so nothing is sure."""
    record = a_record(latencies((0.2e-3, 2e-3), (0.4e-3, 1e-3), blocks=4), alone(1))
    fit = analyse(record).answer(fit_of_statements)
    assert fit is not None
    assert fit.costs[0].per_statement_s.low is None
    assert not fit.differences[0].is_of_round_trips


@pytest.mark.parametrize(
    "experiment",
    [
        alone(2),
        alone(1, scripts=SCRIPTS[:2]),
        replace(
            alone(1),
            workloads=tuple(
                Workload(name=s, builtin=s, scale_factor=10 + place)
                for place, s in enumerate(SCRIPTS)
            ),
        ),
    ],
    ids=["two clients", "two scripts", "data of different sizes"],
)
def test_other_campaigns_have_no_fit(experiment: Experiment) -> None:
    """Without one client, all three scripts, and one size of data there is nothing to fit."""
    cells = len(experiment.workloads) * len(experiment.loads)
    record = a_record(np.zeros((8, 2, cells)), experiment)
    assert analyse(record).answer(fit_of_statements) is None
