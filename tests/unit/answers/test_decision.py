"""When a campaign may end: looks and levels, few long runs, and more than ten cells."""

from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from watched import seen, watched

from fakes.campaigns import Stage, an_experiment
from fakes.servers import FakeEngine
from steelyard.answers.campaign import analyse
from steelyard.answers.result.compute import Pair, Terms, compare, compare_result, decide
from steelyard.answers.result.method import limits_section, method_section
from steelyard.answers.results import Comparison
from steelyard.campaign.foresee.forecast import forecast, require_first_look
from steelyard.core.campaign import Status, StoppingRule
from steelyard.core.findings import Estimate, Verdict
from steelyard.core.measurement import Quantity
from steelyard.core.places import WorkersAsked
from steelyard.core.schedule import Load
from steelyard.core.wording import PreflightError
from steelyard.stats.intervals import block_p_value, student_interval
from steelyard.stats.spending import (
    FIXED_ALPHA,
    blocks_within,
    cell_level,
    first_look_of,
    has_many_cells,
    looks_taken,
    result_level,
    stopping_rule,
)
from steelyard.targets.assembly import Assembly

SEQUENTIAL = stopping_rule(results=2, first_look=8, max_blocks=30, precision=None)
PRECISE = stopping_rule(results=2, first_look=8, max_blocks=30, precision=0.01)


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


def rule(
    results: int = 1, cells: int = 5, max_blocks: int = 30, precision: float | None = None
) -> StoppingRule:
    """Return a rule, by default that of an hour of five cells."""
    return stopping_rule(
        results=results,
        first_look=8 if cells > 1 else 6,
        max_blocks=max_blocks,
        precision=precision,
    )


def test_an_hour_of_five_cells() -> None:
    """The error is 4 %, results and cells are looked at from the same block on, and rho is 2."""
    made = rule()
    assert (made.alpha, made.first_look, made.cell_first_look) == (0.04, 8, 8)
    assert (made.spending_power, made.max_blocks, made.precision) == (2.0, 30, None)


def test_results_share_the_error() -> None:
    """Three results have a third of the error each; none is as one."""
    assert rule(results=3).alpha == pytest.approx(0.04 / 3)
    assert rule(results=0).alpha == 0.04


def test_levels_of_the_result() -> None:
    """None before the first look; .002844 at it; .01944 at the last and at any block beyond."""
    levels = [result_level(rule(), n) for n in (0, 7, 8, 30, 31)]
    assert levels[:2] == [None, None]
    assert levels[2:] == pytest.approx([0.002844, 0.01944, 0.01944], abs=1e-5)


def test_levels_of_cells() -> None:
    """Five simultaneous cells have a fifth of the error each."""
    assert cell_level(rule(), 7, 5) is None
    assert cell_level(rule(), 8, 5) == pytest.approx(0.04 / 5 * (8 / 30) ** 2)


@pytest.mark.parametrize(
    ("configurations", "least", "blocks"),
    [
        *((1, 4, 4), (2, 4, 4), (3, 4, 6), (4, 4, 4), (5, 4, 5), (8, 4, 8), (16, 4, 8)),
        *((2, 6, 6), (3, 6, 6), (4, 6, 8)),
    ],
)
def test_the_first_look_is_at_whole_squares_of_slots(
    configurations: int, least: int, blocks: int
) -> None:
    """Then each configuration stood in each slot equally often; with many it is at 8 blocks."""
    assert first_look_of(configurations, least=least) == blocks


def test_verdicts_may_wait_for_the_checks_of_the_design() -> None:
    """Without early ends a verdict before block 6 ends nothing, and one at block 6 does."""
    waits = stopping_rule(results=1, first_look=4, max_blocks=30, precision=None, ends_from=6)
    for blocks, status in ((4, None), (5, None), (6, Status.DECIDED)):
        decided = replace(result(Verdict.FASTER), blocks=blocks)
        assert decide((decided,), waits) is status
        assert decide((decided,), replace(waits, ends_from=0)) is Status.DECIDED


def test_a_single_cell_is_its_result() -> None:
    """With one load the cell has the result's first look and level at every look."""
    one = rule(cells=1)
    assert one.first_look == 6
    for n in (5, 6, 17, 30):
        assert result_level(one, n) == cell_level(one, n, 1)


def test_precision_takes_plain_intervals() -> None:
    """With a precision every look has the fixed level of 4.5 %, shared by results and cells."""
    precise = rule(results=2, precision=0.01)
    assert result_level(precise, 7) is None
    assert [result_level(precise, n) for n in (8, 12, 30)] == [0.0225] * 3
    assert cell_level(precise, 12, 5) == pytest.approx(0.0045)


def test_budgets_without_a_look() -> None:
    """A campaign too short for a first look never gets a level."""
    short = rule(max_blocks=5)
    assert [result_level(short, n) for n in (5, 8, 30)] == [None] * 3
    assert looks_taken(short, 5) == 0


def test_looks() -> None:
    """One look per block from the first look to the last planned block."""
    assert [looks_taken(rule(), n) for n in (7, 8, 12, 30, 33)] == [0, 1, 5, 23, 23]


def test_blocks_within_a_budget() -> None:
    """Whole blocks only, and none from a budget that is used up."""
    assert [blocks_within(budget, 120.0) for budget in (3600.0, 3599.0, -5.0)] == [30, 29, 0]


FOUR = stopping_rule(results=1, first_look=6, max_blocks=9, precision=None, blocks=4)
_RATIOS = np.array([0.10, 0.12, 0.09, 0.13])


def _result(blocks: int) -> Comparison:
    terms = Terms(rule=FOUR, margin=0.01, detect=0.03, block_s=3600.0)
    pair = Pair(baseline="a", configuration="b", workload="w")
    return compare_result(_RATIOS[:blocks, None], pair, terms)


def test_the_whole_error_is_spent_at_the_last_block() -> None:
    """No look before it; and a wider level for a further result."""
    assert [result_level(FOUR, blocks) for blocks in (1, 2, 3)] == [None] * 3
    assert result_level(FOUR, 4) == pytest.approx(FIXED_ALPHA, rel=1e-6)
    two = stopping_rule(results=2, first_look=8, max_blocks=9, precision=None, blocks=4)
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
    rule = stopping_rule(results=1, first_look=6, max_blocks=9, precision=None)
    assert not rule.is_fixed
    assert rule.first_look == 6


@pytest.mark.parametrize("speed", [1.3, 1.0])
def test_a_campaign_takes_as_many_blocks_as_were_asked_for(tmp_path: Path, speed: float) -> None:
    """Four blocks, whatever they say; then it is over, with a verdict or without."""
    experiment = an_experiment(speed=speed)
    experiment = replace(experiment, stop=replace(experiment.stop, blocks=4, margin=0.0))
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


PAIR = Pair(baseline="a", configuration="b", workload="reads")
BLOCKS = 20


def loads(cells: int) -> tuple[Load, ...]:
    """Return so many loads."""
    return tuple(Load(clients=place + 1, threads=1) for place in range(cells))


def terms(cells: int) -> Terms:
    """Return what so many cells are judged by."""
    rule = stopping_rule(results=1, first_look=8 if cells > 1 else 6, max_blocks=30, precision=None)
    return Terms(rule=rule, margin=0.01, detect=0.03, block_s=60.0)


def contrasts(cells: int, faster: int, effect: float = 0.03) -> np.ndarray:
    """Return block contrasts of which the first cells have an effect."""
    taken = 0.02 * np.random.default_rng(1).standard_normal((BLOCKS, cells))
    taken[:, :faster] += effect
    return taken


def test_eleven_are_many() -> None:
    """Ten cells are the last that hold together."""
    assert [has_many_cells(cells) for cells in (10, 11)] == [False, True]


def test_those_called_stand_at_their_own_level() -> None:
    """Of 20 cells those called have the level of their number, the others that of one."""
    cells = compare(contrasts(20, 12), PAIR, loads(20), terms(20))[1:]
    called = [cell for cell in cells if cell.verdict is Verdict.FASTER]
    assert {cell.load.clients for cell in called} <= set(range(1, 13))
    assert len(called) > 8
    rule = terms(20).rule
    assert {cell.level for cell in called} == {cell_level(rule, BLOCKS, 20, len(called))}
    others = {cell.level for cell in cells if cell not in called}
    assert others == {cell_level(rule, BLOCKS, 20)}
    assert max(others) < called[0].level


def test_more_is_found_than_simultaneously() -> None:
    """The rule calls cells that simultaneous intervals would leave open, and none less."""
    taken = contrasts(20, 12, effect=0.018)
    level = cell_level(terms(20).rule, BLOCKS, 20)
    alone = [block_p_value(column) <= level for column in taken.T]
    cells = compare(taken, PAIR, loads(20), terms(20))[1:]
    called = [cell.verdict is Verdict.FASTER for cell in cells]
    assert all(now for now, before in zip(called, alone, strict=True) if before)
    assert sum(called) > sum(alone) > 0


def test_no_cell_is_equivalent_at_a_generous_level() -> None:
    """Cells that are not called keep the simultaneous interval, and their word follows from it."""
    taken = contrasts(20, 12)
    for cell in compare(taken, PAIR, loads(20), terms(20))[1:]:
        if cell.verdict is Verdict.EQUIVALENT:
            assert cell.level == cell_level(terms(20).rule, BLOCKS, 20)
            assert -0.01 < cell.effect.low <= cell.effect.high < 0.01
        elif cell.verdict is Verdict.NO_CLEAR_DIFFERENCE:
            assert cell.effect.low <= 0.0 <= cell.effect.high


def test_depends_on_load_rests_on_simultaneous_intervals() -> None:
    """Cells that differ clearly are said to; cells that only chance made differ are not."""
    assert compare(contrasts(20, 12, 0.2), PAIR, loads(20), terms(20))[0].depends_on_load
    assert not compare(contrasts(20, 0), PAIR, loads(20), terms(20))[0].depends_on_load


def test_before_the_first_look_nothing_is_called() -> None:
    """Five blocks have no level, many cells or few."""
    cells = compare(contrasts(20, 12)[:5], PAIR, loads(20), terms(20))[1:]
    assert all(cell.level is None for cell in cells)
    assert all(cell.verdict is Verdict.NO_CLEAR_DIFFERENCE for cell in cells)


@pytest.mark.parametrize("cells", [1, 4, 10])
def test_few_cells_hold_together_as_before(cells: int) -> None:
    """Up to ten cells nothing changed: each is at the same Bonferroni level, called or not."""
    found = compare(contrasts(cells, cells), PAIR, loads(cells), terms(cells))[1:]
    assert {cell.level for cell in found} == {cell_level(terms(cells).rule, BLOCKS, cells)}


@pytest.mark.parametrize("hosts", [(), ("load1", "load2")])
def test_the_method_says_how_the_load_was_divided(hosts: tuple[str, ...]) -> None:
    """How many workers there were, how far apart they began, and what nobody watched."""
    experiment = an_experiment()
    experiment = replace(experiment, workers=WorkersAsked(number=2, hosts=hosts))
    fewest = count(1)
    record = watched(
        lambda _: seen(
            {},
            {
                Quantity.WORKERS: float(min(next(fewest), 2)),
                Quantity.START_SKEW_S: 0.004,
                Quantity.START_DOUBT_S: 0.001,
            },
        ),
        experiment=experiment,
    )
    told = repr(limits_section(analyse(record)))
    assert "The load came from 1 to 2 workers." in told
    assert "at most 4.0 ms apart, of which 1.0 ms" in told
    assert ("workers were not watched" in told) is bool(hosts)
