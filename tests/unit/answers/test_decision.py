"""When a campaign may end after a block."""

from dataclasses import replace

import pytest

from steelyard.answers.result.compute import decide
from steelyard.answers.results import Comparison
from steelyard.core.campaign import Status
from steelyard.core.findings import Estimate, Verdict
from steelyard.core.schedule import Load
from steelyard.stats.spending import stopping_rule

SEQUENTIAL = stopping_rule(results=2, cells_per_result=5, max_blocks=30, precision=None)
PRECISE = stopping_rule(results=2, cells_per_result=5, max_blocks=30, precision=0.01)


def result(verdict: Verdict, low: float | None = -0.5, high: float | None = 0.5) -> Comparison:
    """Return a result after 12 blocks."""
    return Comparison(
        baseline="a",
        configuration="b",
        workload="w",
        load=None,
        effect=Estimate(value=0.0, low=low, high=high),
        verdict=verdict,
        blocks=12,
        level=0.01,
        contrasts=(),
    )


OPEN = result(Verdict.NO_CLEAR_DIFFERENCE)


@pytest.mark.parametrize("verdict", [Verdict.FASTER, Verdict.SLOWER, Verdict.EQUIVALENT])
def test_every_result_must_be_decided(verdict: Verdict) -> None:
    """Any of three words decides a result; one open result keeps the campaign going."""
    assert decide((result(verdict), result(Verdict.FASTER)), SEQUENTIAL) is Status.DECIDED
    assert decide((result(verdict), OPEN), SEQUENTIAL) is None


def test_cells_do_not_count() -> None:
    """An open cell does not hold the campaign, a decided cell does not end it."""
    cell = replace(OPEN, load=Load(clients=1, threads=1))
    decided_cell = replace(result(Verdict.FASTER), load=Load(clients=1, threads=1))
    assert decide((result(Verdict.FASTER), cell), SEQUENTIAL) is Status.DECIDED
    assert decide((OPEN, decided_cell), SEQUENTIAL) is None


def test_nothing_to_compare_never_ends() -> None:
    """A campaign of one configuration runs to its budget."""
    assert decide((), SEQUENTIAL) is None
    assert decide((), PRECISE) is None


def test_precision_ignores_verdicts() -> None:
    """Asked for half a width of 1 %, a verdict does not stop and a narrow interval does."""
    assert decide((result(Verdict.FASTER, 0.01, 0.05),), PRECISE) is None
    narrow = result(Verdict.NO_CLEAR_DIFFERENCE, -0.002, 0.018)
    assert decide((narrow,), PRECISE) is Status.PRECISION
    assert decide((narrow, OPEN), PRECISE) is None


def test_precision_waits_for_twelve_blocks() -> None:
    """Early intervals are narrow by luck: 11 blocks are not enough, nor is one open bound."""
    narrow = result(Verdict.NO_CLEAR_DIFFERENCE, -0.002, 0.018)
    assert decide((replace(narrow, blocks=11),), PRECISE) is None
    assert decide((result(Verdict.FASTER, None, 0.01),), PRECISE) is None
    assert decide((replace(narrow, effect=None),), PRECISE) is None
