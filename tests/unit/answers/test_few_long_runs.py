"""Few long runs: a number of blocks is asked for, looked at once, by t and not by the coin."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fakes.campaigns import Stage, an_experiment
from fakes.servers import FakeEngine
from steelyard.answers.result.compute import Pair, Terms, compare_result
from steelyard.answers.result.method import method_section
from steelyard.answers.results import Comparison
from steelyard.campaign.foresee.forecast import forecast, require_first_look
from steelyard.core.campaign import Status
from steelyard.core.findings import Verdict
from steelyard.core.wording import PreflightError
from steelyard.stats.intervals import student_interval
from steelyard.stats.spending import FIXED_ALPHA, result_level, stopping_rule
from steelyard.targets.assembly import Assembly

FOUR = stopping_rule(results=1, cells_per_result=1, max_blocks=9, precision=None, blocks=4)
_RATIOS = np.array([0.10, 0.12, 0.09, 0.13])


def _result(blocks: int) -> Comparison:
    terms = Terms(rule=FOUR, margin=0.01, decide=0.03, block_s=3600.0)
    pair = Pair(baseline="a", configuration="b", workload="w")
    return compare_result(_RATIOS[:blocks, None], pair, terms)


def test_the_whole_error_is_spent_at_the_last_block() -> None:
    """No look before it; and a wider level for a further result."""
    assert [result_level(FOUR, blocks) for blocks in (1, 2, 3)] == [None] * 3
    assert result_level(FOUR, 4) == pytest.approx(FIXED_ALPHA, rel=1e-6)
    two = stopping_rule(results=2, cells_per_result=3, max_blocks=9, precision=None, blocks=4)
    assert result_level(two, 4) == pytest.approx(FIXED_ALPHA / 2, rel=1e-6)


def test_four_blocks_give_a_t_interval_with_three_degrees_of_freedom() -> None:
    """The half-width is the quantile of t times the standard error; it is labelled."""
    result = _result(4)
    assert result.effect is not None
    assert result.effect.high is not None
    expected = student_interval(_RATIOS, FIXED_ALPHA)
    assert result.effect.low == pytest.approx(np.expm1(expected.low), rel=1e-4)
    assert result.effect.high == pytest.approx(np.expm1(expected.high), rel=1e-4)
    half = np.log1p(result.effect.high) - _RATIOS.mean()
    error = _RATIOS.std(ddof=1) / 2.0
    assert half / error == pytest.approx(3.318, abs=0.01)  # t of 3 at 1 - 0.0225
    assert result.verdict is Verdict.FASTER
    assert result.note == "t interval over 4 blocks, not the coin's"


def test_three_of_four_blocks_have_no_interval() -> None:
    """They were not asked for: what is there is told, and nothing more."""
    result = _result(3)
    assert result.effect is not None
    assert result.level is None
    assert result.effect.low is None
    assert "the first interim result is at 4" in result.note


def test_a_rule_that_looks_often_is_left_as_it_was() -> None:
    """The label belongs to a fixed number of blocks."""
    rule = stopping_rule(results=1, cells_per_result=1, max_blocks=9, precision=None)
    assert not rule.is_fixed
    assert rule.first_look == 6


@pytest.mark.parametrize("speed", [1.3, 1.0])
def test_a_campaign_takes_as_many_blocks_as_were_asked_for(tmp_path: Path, speed: float) -> None:
    """Four blocks, whatever they say; then it is over, with a verdict or without."""
    experiment = an_experiment(speed=speed)
    experiment = replace(experiment, stop=replace(experiment.stop, blocks=4, equivalence=0.0))
    analysis = Stage.new(experiment, tmp_path / "campaign").run()
    assert analysis.blocks == 4
    assert analysis.looks == 1
    assert analysis.plan is not None
    assert analysis.plan.stopping.is_fixed
    (result,) = analysis.results
    assert "t interval over 4 blocks, not the coin's" in result.note
    decided = speed > 1.0
    assert result.verdict.decided is decided
    assert analysis.status is (Status.DECIDED if decided else Status.COMPLETE)
    told = repr(method_section(analysis))
    assert "one, after block 4: so many were asked for" in told
    assert "3 degrees of freedom" in told


def test_a_budget_that_ends_before_them_is_refused(tmp_path: Path) -> None:
    """With the number that was asked for, and the time that it takes."""
    experiment = an_experiment()
    experiment = replace(experiment, stop=replace(experiment.stop, blocks=4, budget_s=60.0))
    stage = Stage.new(experiment, tmp_path / "campaign")
    assembly = Assembly(engine=FakeEngine(stage.world), platforms=stage.bench()._platforms)
    with pytest.raises(PreflightError, match="the 4 blocks that are asked for"):
        require_first_look(forecast(experiment, assembly), experiment)
    longer = replace(experiment, stop=replace(experiment.stop, budget_s=6000.0))
    require_first_look(forecast(longer, assembly), longer)
