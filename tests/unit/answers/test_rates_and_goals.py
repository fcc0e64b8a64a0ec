"""Rates and the goal from a record: what was offered, what it took, which rate still meets it."""

from dataclasses import replace

import numpy as np
import pytest
from made_records import a_record, an_experiment

from steelyard.answers.campaign import analyse
from steelyard.answers.capacity.compute import Goal, OpenLoops, RatePoint, _Taken, open_loops
from steelyard.answers.capacity.section import rate_answers
from steelyard.answers.latency.compute import Basis, Timed, campaign_latency
from steelyard.core.campaign import CampaignRecord, CellRate
from steelyard.core.experiment import Experiment
from steelyard.core.findings import Estimate
from steelyard.core.measurement import Run, RunLatency, ScriptLatency
from steelyard.core.schedule import CellKey, LatencyGoal, Load
from steelyard.core.wording import US_PER_S
from steelyard.stats.histogram import histogram_of, rank_of, to_text

CAPACITY = {"t0": 1000.0, "t1": 1100.0}
SHARES = (0.5, 0.7, 0.9)
BLOCKS = 12


def an_asking(configurations: int = 2, **goal: float) -> Experiment:
    """Return an experiment at three shares of the capacity with a goal for p90."""
    asked = LatencyGoal(**{"share": 0.9, "limit_s": 0.01, **goal})
    loads = tuple(Load(clients=8, threads=2, share=share) for share in SHARES)
    return replace(an_experiment(configurations=configurations), loads=loads, goal=asked)


def _queue(configuration: str, rate_per_s: float, number: int, seed: int) -> RunLatency:
    """Return the latencies of an M/M/1 queue at a rate, and half of each as lag."""
    mean_s = 1.0 / (CAPACITY[configuration] - rate_per_s)
    taken = np.random.default_rng(seed).exponential(mean_s, number) * US_PER_S
    return RunLatency(
        scripts=(
            ScriptLatency(
                script="select-only", latency=to_text(histogram_of(taken)), longest_s=1.0
            ),
        ),
        lag=to_text(histogram_of(taken / 2)),
    )


def a_record_of(
    experiment: Experiment, *, number: int = 2000, blocks: int = BLOCKS, **latency: object
) -> CampaignRecord:
    """Return a record whose runs log so many transactions of such a queue."""
    shape = (blocks, len(experiment.configurations), len(experiment.loads))
    record = a_record(np.full(shape, np.log(500.0)), experiment)
    rates = tuple(
        CellRate(
            cell=CellKey(workload="w0", load=load),
            rate_per_s=load.rate_per_s or 1000.0 * (load.share or 0),
        )
        for load in experiment.loads
    )
    offered = {rate.cell: rate.rate_per_s for rate in rates}

    def logged(place: int, run: Run) -> Run:
        queue = _queue(run.configuration, offered[run.cell], number, place)
        return replace(run, latency=replace(queue, **latency))

    assert record.plan is not None
    runs = tuple(logged(place, run) for place, run in enumerate(record.runs))
    return replace(record, runs=runs, plan=replace(record.plan, rates=rates))


def _found(record: CampaignRecord) -> OpenLoops:
    found = analyse(record).answer(open_loops)
    assert found is not None
    return found


def _goal(found: OpenLoops) -> Goal:
    assert found.goal is not None
    return found.goal


def test_every_rate_has_its_percentiles() -> None:
    """Offered, achieved, p50 and p99 of the blocks, and the lag: those of the queue."""
    found = _found(a_record_of(an_asking()))
    assert [(p.configuration, p.offered_per_s) for p in found.points] == [
        (t, rate) for rate in (500.0, 700.0, 900.0) for t in ("t0", "t1")
    ]
    point = found.points[0]
    assert point.achieved is not None
    assert point.achieved.value == pytest.approx(500.0)
    p50, p99, lag = (
        _value(point, Timed.LATENCY, 0.5),
        _value(point, Timed.LATENCY, 0.99),
        _value(point, Timed.LAG, 0.99),
    )
    assert p50.value == pytest.approx(np.log(2) / 500.0, rel=0.05)
    assert p99.low is not None
    assert p99.value == pytest.approx(np.log(100) / 500.0, rel=0.1)
    assert lag.value == pytest.approx(p99.value / 2, rel=0.01)
    assert point.levels[Timed.LATENCY].transactions == BLOCKS * 2000
    assert (point.late, point.skipped) == (None, 0.0)


def _value(point: RatePoint, timed: Timed, share: float) -> Estimate:
    told = point.at(timed, share)
    assert told is not None
    assert told.value_s is not None
    return told.value_s


@pytest.mark.parametrize("number", [500, 2000])
def test_a_rate_says_what_the_latency_section_says(number: int) -> None:
    """One rule: p50, p99 and lag are its levels, also where a block alone has too few for a p99."""
    analysis = analyse(a_record_of(an_asking(), number=number))
    assert analysis.answer(campaign_latency) is not None
    rates = analysis.answer(open_loops)
    assert rates is not None
    for point in rates.points:
        levels = analysis.answer(campaign_latency).of(point.configuration, point.cell)
        assert levels is not None
        for share in (0.5, 0.99):
            assert point.at(Timed.LATENCY, share) == levels.at(share)
        told = point.at(Timed.LATENCY, 0.99)
        assert told is not None
        assert (told.basis is Basis.TOGETHER) == (number == 500)


def test_a_block_with_a_run_that_was_not_logged_is_left_out_everywhere() -> None:
    """Of percentiles, shares and the goal alike; its neighbours in other cells stay paired."""
    record = a_record_of(an_asking(), skipped=10)
    odd = next(run for run in record.runs if (run.block, run.configuration) == (3, "t1"))
    bare = replace(odd, latency=None)  # a second round of that block
    found = _found(replace(record, runs=(*record.runs, bare)))
    assert {goal.blocks for goal in _goal(found).rates} == {BLOCKS - 1}
    point = next(p for p in found.points if (p.configuration, p.cell) == ("t1", odd.cell))
    assert point.levels[Timed.LATENCY].transactions == (BLOCKS - 1) * 2000
    assert point.skipped == pytest.approx(10 / 2010)


def test_two_loads_of_one_rate_are_one_rung() -> None:
    """A share may become the rate that another load has: their transactions count together."""
    asking = an_asking(configurations=1)
    fixed = Load(clients=8, threads=2, rate_per_s=700.0)
    loads = (*asking.loads[:2], fixed, asking.loads[2])
    record = a_record_of(replace(asking, loads=loads), number=60)
    goal = _goal(_found(record)).rates[0]
    assert goal.rates_per_s == (500.0, 700.0, 900.0)
    twice = [
        replace(run, latency=_queue("t0", 100.0, 60, place))
        if run.cell.load == asking.loads[1]
        else run
        for place, run in enumerate(record.runs)
    ]
    other = _goal(_found(replace(record, runs=tuple(twice)))).rates[0]
    assert goal.reached is not None
    assert other.reached is not None
    assert other.reached.value != goal.reached.value  # both loads have a say


def test_the_goal_is_found_for_every_configuration_and_compared() -> None:
    """A p90 of 10 ms is met up to 1000 - ln(10) / 0.01 = 770/s, and 100/s more by the faster."""
    found = _found(a_record_of(an_asking()))
    slow, fast = _goal(found).rates
    assert slow.reached is not None
    assert fast.reached is not None
    assert 730.0 < slow.reached.value < 775.0
    assert (slow.reached.low, slow.reached.high) == (700.0, 900.0)
    assert 830.0 < fast.reached.value < 875.0
    assert (slow.pooled, slow.untold, slow.rates_per_s) == (1, (), (500.0, 700.0, 900.0))
    assert slow.load == Load(clients=8, threads=2)
    (contrast,) = _goal(found).contrasts
    assert (contrast.baseline, contrast.configuration) == ("t0", "t1")
    ratio = contrast.ratio
    assert ratio.value == pytest.approx(np.log(870.0 / 770.0), abs=0.03)
    assert ratio.low == pytest.approx(np.log(700.0 / 900.0))
    assert ratio.high == pytest.approx(np.log(900.0 / 700.0))


def test_neighbouring_blocks_are_added_up_where_one_has_too_few() -> None:
    """A p90 takes 100 transactions: with 40 a run three blocks make one value, and it says so."""
    found = _found(a_record_of(an_asking(), number=40))
    assert {goal.pooled for goal in _goal(found).rates} == {3}
    assert all(goal.reached is not None for goal in _goal(found).rates)
    reached = _goal(found).rates[0].reached
    assert reached is not None
    assert reached.low is None  # four values have no interval at 95 %
    assert _value(found.points[0], Timed.LATENCY, 0.5).low is not None
    told = found.points[0].at(Timed.LATENCY, 0.99)
    assert told is not None
    assert told.value_s is None  # 480 of 1000


def test_pooled_blocks_say_from_how_many_on_there_is_an_interval() -> None:
    """Twelve blocks that are added up in threes are four: it takes eighteen, not six."""
    record = a_record_of(an_asking(), number=40)
    assert [rate.pooled for rate in _goal(_found(record)).rates] == [3, 3]
    (told,) = rate_answers(analyse(record))
    assert all("no interval below 18 blocks" in item for item in told.items)


def test_too_few_transactions_are_no_answer() -> None:
    """With 5 a run all blocks together do not tell a p90: no rate, but the counts."""
    found = _found(a_record_of(an_asking(), number=5))
    assert {goal.reached for goal in _goal(found).rates} == {None}
    assert _goal(found).rates[0].untold == (500.0, 700.0, 900.0)
    assert _goal(found).contrasts == ()


def test_skipped_and_failed_transactions_miss_the_goal() -> None:
    """Where a fifth is never started, no rate has nine of ten below any limit."""
    found = _found(a_record_of(an_asking(), skipped=300, failed={"deadlock": 200}, late=20))
    reached = _goal(found).rates[0].reached
    assert reached is not None
    assert (reached.value, reached.high) == (-np.inf, 500.0)
    assert found.points[0].skipped == pytest.approx(300 / 2500)
    assert found.points[0].late == pytest.approx(20 / 2500)


def test_all_rates_or_none_may_meet_it() -> None:
    """A limit of a second is met everywhere, one of a tenth of a millisecond nowhere."""
    easy = _goal(_found(a_record_of(an_asking(limit_s=1.0)))).rates[0].reached
    hard = _goal(_found(a_record_of(an_asking(limit_s=1e-4)))).rates[0].reached
    assert easy is not None
    assert hard is not None
    assert (easy.value, hard.value) == (np.inf, -np.inf)
    both = [_found(a_record_of(an_asking(limit_s=limit_s))) for limit_s in (1.0, 1e-4)]
    assert [_goal(found).contrasts[0].beyond for found in both] == [1, -1]
    between = _goal(_found(a_record_of(an_asking()))).contrasts[0]
    assert (between.beyond, between.blocks) == (0, BLOCKS)


def test_pools_of_clients_have_answers_of_their_own() -> None:
    """Rates with 8 and with 16 clients are two ladders; closed loops are in none."""
    asking = an_asking(configurations=1)
    wider = tuple(replace(load, clients=16) for load in asking.loads)
    loads = (*asking.loads, *wider, Load(clients=8, threads=2))
    record = a_record_of(replace(asking, loads=loads))
    found = _found(record)
    assert [goal.load.clients for goal in _goal(found).rates] == [8, 16]
    assert len(found.points) == 6


def test_runs_without_a_log_say_so() -> None:
    """Nothing is made of transactions that nobody logged; what was completed is known anyway."""
    record = a_record_of(an_asking())
    bare = replace(record, runs=tuple(replace(run, latency=None) for run in record.runs))
    found = _found(bare)
    assert {goal.reached for goal in _goal(found).rates} == {None}
    assert found.points[0].at(Timed.LATENCY, 0.99) is None
    assert (found.points[0].skipped, found.points[0].late) == (None, None)
    assert found.points[0].achieved is not None


def test_a_configuration_without_logs_takes_no_answer_from_the_others() -> None:
    """The third of three has none: its own rate is not known, those of the two and their ratio."""
    experiment = an_asking(2)
    record = a_record_of(experiment)
    third = replace(experiment.configurations[1], name="t2")
    silent = tuple(
        replace(run, configuration="t2", latency=None)
        for run in record.runs
        if run.configuration == "t1"
    )
    configurations = (*experiment.configurations, third)
    three = replace(
        record,
        experiment=replace(experiment, configurations=configurations),
        runs=(*record.runs, *silent),
    )
    two, found = _goal(_found(record)), _goal(_found(three))
    assert found.rates[:2] == two.rates
    assert found.contrasts == two.contrasts
    assert found.rates[2].reached is None
    assert (found.rates[2].rates_per_s, found.rates[2].blocks) == ((), 0)


def test_there_is_nothing_without_open_loops_or_in_a_look() -> None:
    """Closed loops alone have no such part, and no decision waits for it."""
    closed = an_experiment(configurations=2, loads=2)
    assert analyse(a_record(np.zeros((8, 2, 2)), closed)).answer(open_loops) is None
    assert (
        analyse(a_record_of(an_asking(configurations=1)), curves=False).answer(open_loops) is None
    )


def test_lost_transactions_move_the_rank_by_whole_ones() -> None:
    """Of values 1 to n and m lost ones the percentile is the value of its rank, for every n."""
    for logged in range(100, 250):
        latency = histogram_of(np.arange(1, logged + 1))
        for missed, share in ((0, 0.55), (1, 0.9), (2, 0.7), (3, 0.5), (1, 0.6)):
            taken = _Taken(latency=latency, missed=missed)
            rank = rank_of(share, logged + missed)
            assert taken.quantile_s(share) * US_PER_S == pytest.approx(rank, abs=1e-6)
