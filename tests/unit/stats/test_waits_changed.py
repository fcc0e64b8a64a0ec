"""How three latencies changed: alike at every wait, or otherwise."""

import numpy as np
import pytest

from steelyard.stats.statements import change_of_waits

STATEMENTS = np.array([1.0, 5.0, 7.0])


def latencies(each: float, commit: float) -> np.ndarray:
    """Return latencies of three scripts that are made of these costs."""
    return each * STATEMENTS + commit * np.array([0.0, 1.0, 1.0])


def test_the_published_step_took_the_same_from_every_wait() -> None:
    """0.9 ms from each statement, 0.94 from the read-only one, 1.2 from the commit."""
    before, after = np.array([1.34, 7.48, 10.10]), np.array([0.40, 1.81, 2.63])
    change = change_of_waits(before, after, STATEMENTS)
    assert change.per_statement == pytest.approx(-0.90)
    assert change.read_only == pytest.approx(-0.94)
    assert change.per_commit == pytest.approx(-1.17)
    assert change.is_alike


def test_costs_that_changed_are_found() -> None:
    """Latencies made of known costs give back their differences."""
    change = change_of_waits(latencies(0.2, 2.0), latencies(0.5, 1.5), STATEMENTS)
    assert change.per_statement == pytest.approx(0.3)
    assert change.per_commit == pytest.approx(-0.5)
    assert change.is_alike


@pytest.mark.parametrize("read_only", [0.74, 1.26, -1.0, 0.0])
def test_a_read_only_statement_that_changed_otherwise_is_not_alike(read_only: float) -> None:
    """By a quarter of the others or more, the other way, or not at all: work, not waiting."""
    before = latencies(2.0, 1.0)
    after = before + np.array([read_only, 5.0, 7.0])
    assert not change_of_waits(before, after, STATEMENTS).is_alike


@pytest.mark.parametrize("read_only", [0.76, 1.24])
def test_a_read_only_statement_within_a_quarter_is_alike(read_only: float) -> None:
    """The other side of the threshold."""
    before = latencies(2.0, 1.0)
    after = before + np.array([read_only, 5.0, 7.0])
    assert change_of_waits(before, after, STATEMENTS).is_alike


def test_scripts_of_equally_many_statements_are_refused() -> None:
    """Their difference says nothing of a statement."""
    with pytest.raises(ValueError, match="equally many"):
        change_of_waits(np.ones(3), np.ones(3), np.array([1.0, 5.0, 5.0]))
