"""The cost of a statement and of a commit from three latencies."""

import numpy as np
import pytest

from steelyard.stats.statements import fit_statements

STATEMENTS, COMMITS = np.array([1.0, 5.0, 7.0]), np.array([0.0, 1.0, 1.0])


def test_the_published_latencies_give_the_published_fit() -> None:
    """1.34, 7.48 and 10.10 ms are 1.32 ms per statement and 0.87 ms per commit, within 0.02 ms."""
    fit = fit_statements(np.array([[1.34, 7.48, 10.10]]), STATEMENTS, COMMITS)
    assert fit.per_statement == pytest.approx([1.32])
    assert fit.per_commit == pytest.approx([0.87])
    assert fit.residual == pytest.approx(0.02)


def test_costs_are_found_block_by_block() -> None:
    """Latencies made of known costs give them back, each block its own, without a miss."""
    a, b = np.array([0.1, 0.2]), np.array([2.0, 0.5])
    latency = a[:, None] * STATEMENTS + b[:, None] * COMMITS
    fit = fit_statements(latency, STATEMENTS, COMMITS)
    assert fit.per_statement == pytest.approx(a)
    assert fit.per_commit == pytest.approx(b)
    assert fit.residual == pytest.approx(0.0, abs=1e-12)


def test_work_that_no_script_shares_is_a_miss() -> None:
    """A script that takes longer than its statements and its commit leaves a residual."""
    latency = np.array([[0.1, 1.5, 2.9]])
    assert fit_statements(latency, STATEMENTS, COMMITS).residual > 0.1


@pytest.mark.parametrize(
    ("statements", "commits"), [([1, 5], [0, 1]), ([1, 5, 7], [1, 5, 7]), ([1, 1, 1], [0, 0, 0])]
)
def test_what_cannot_be_told_apart_is_refused(statements: list[int], commits: list[int]) -> None:
    """Two scripts, or scripts that differ in one thing alone, give no fit."""
    latency = np.ones((4, len(statements)))
    with pytest.raises(ValueError, match="three scripts"):
        fit_statements(latency, np.array(statements, float), np.array(commits, float))
