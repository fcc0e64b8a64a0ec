"""Open loops complete what was asked for; closed ones have curves over their clients."""

from dataclasses import replace

import numpy as np
import pytest
from made_records import a_record, an_experiment, noise

from steelyard.answers.campaign import analyse
from steelyard.answers.comparison import compare_campaigns, compare_pair
from steelyard.answers.observations import observe, result_count
from steelyard.answers.report import build_document, summary
from steelyard.answers.result.compute import decide
from steelyard.answers.results import CampaignAnalysis
from steelyard.answers.scalability import (
    ScalabilityCurve,
    gain_answers,
    scalability_curves,
)
from steelyard.core.campaign import CampaignRecord
from steelyard.core.experiment import Design, Experiment
from steelyard.core.schedule import LatencyGoal, Load
from steelyard.core.wording import InputError
from steelyard.report.document import MISSING
from steelyard.report.html import render_markdown
from steelyard.report.keys import keys_of

CLOSED = tuple(Load(clients=clients, threads=1) for clients in (1, 4, 8))
OPEN = tuple(Load(clients=8, threads=1, rate_per_s=rate) for rate in (100.0, 500.0))
BLOCKS = 14


def offered(*loads: Load, configurations: int = 2) -> Experiment:
    """Return an experiment with these loads."""
    return replace(an_experiment(configurations=configurations), loads=loads)


def mixed(effect: float) -> tuple[CampaignRecord, CampaignRecord]:
    """Return a campaign with open loops between its closed ones, and one without them.

    The contender differs in closed loops by ``effect``, in open ones it does three times as much.
    """
    log_tps = noise(BLOCKS, cells=3)
    log_tps[:, 1] += np.log1p(effect)
    opened = np.broadcast_to(np.log([[100.0, 500.0], [300.0, 1500.0]]), (BLOCKS, 2, 2))
    together = np.concatenate([opened[..., :1], log_tps, opened[..., 1:]], axis=2)
    both = offered(OPEN[0], *CLOSED, OPEN[1])
    return a_record(together, both), a_record(log_tps, offered(*CLOSED))


@pytest.mark.parametrize("effect", [0.0, 0.2])
def test_comparisons_are_those_of_the_closed_loops(effect: float) -> None:
    """Beside open loops every result and cell says what it says without them."""
    with_open, without = (analyse(record, curves=False) for record in mixed(effect))
    assert with_open.comparisons == without.comparisons
    assert with_open.stalls == without.stalls
    assert with_open.plan is not None
    assert without.plan is not None
    assert decide(with_open.comparisons, with_open.plan.stopping) == decide(
        without.comparisons, without.plan.stopping
    )
    assert len(with_open.cells) == len(without.cells) + 4  # they are shown all the same


def test_observations_without_open_loops() -> None:
    """Columns of closed loops keep their values, and nothing else is left."""
    record, _ = mixed(0.0)
    whole, closed = observe(record), observe(record).of_closed_loops()
    assert [cell.load for cell in closed.cells] == list(CLOSED)
    assert (closed.log_tps == whole.log_tps[..., 1:4]).all()
    assert {cell.load for _, cell in closed.runs} == set(CLOSED)
    assert closed.of_closed_loops() is closed


def open_only(configurations: int = 2, *, goal: LatencyGoal | None = None) -> CampaignRecord:
    """Return a campaign of open loops alone, in which one side does twice as much."""
    experiment = replace(offered(*OPEN, configurations=configurations), goal=goal)
    log_tps = noise(BLOCKS, configurations, 2)
    log_tps[:, 1:] += np.log(2.0)
    return a_record(log_tps, experiment)


@pytest.mark.parametrize("configurations", [1, 3])
def test_with_open_loops_alone_there_is_nothing_to_decide(configurations: int) -> None:
    """However different their throughput, there is no result, and no look ends the campaign."""
    record = open_only(configurations)
    analysis = analyse(record)
    assert result_count(record.experiment) == 0
    assert (analysis.comparisons, analysis.stalls, analysis.warmup) == ((), (), ())
    assert analysis.plan is not None
    assert decide(analysis.comparisons, analysis.plan.stopping) is None
    assert "not-enough-blocks" not in {finding.code for finding in analysis.findings}
    assert len(analysis.cells) == 2 * configurations


@pytest.mark.parametrize(
    ("configurations", "goal", "told"),
    [
        (2, None, "all loads are open loops, which complete what was asked for"),
        (2, None, "Looked for was latency at 100/s and 500/s: see the section"),
        (1, LatencyGoal(share=0.999, limit_s=0.01), "the highest rate with p99.9 < 10 ms"),
        (1, None, "it ended at its budget, after 14 blocks"),
    ],
)
def test_the_report_says_what_was_looked_for(
    configurations: int, goal: LatencyGoal | None, told: str
) -> None:
    """In words, in the place of verdicts, and no verdict on throughput stands anywhere."""
    analysis = analyse(open_only(configurations, goal=goal))
    text = render_markdown(build_document(analysis)).replace("\\", "")
    assert told in text
    assert "only the budget ends it" in text
    for word in ("faster", "slower", "no clear difference", "error rate"):
        assert word not in text
    assert summary(analysis)["comparisons"] == []


def test_drift_is_that_of_closed_loops() -> None:
    """Loads that hold their rate do not water down a machine that drifts."""
    steps = np.linspace(0.0, 0.3, BLOCKS)[:, None, None]
    closed = noise(BLOCKS, cells=1) - steps
    opened = np.full((BLOCKS, 2, 2), np.log(100.0))
    log_tps = np.concatenate([closed, opened], axis=2)
    analysis = analyse(a_record(log_tps, offered(CLOSED[0], *OPEN)), curves=False)
    assert "drift" in {finding.code for finding in analysis.findings}


def test_two_configurations_of_open_loops_are_not_weighed() -> None:
    """`compare` refuses what no throughput can tell, and says where latency is compared."""
    record = open_only()
    with pytest.raises(InputError, match="whose throughput is what was asked for"):
        compare_pair(record, analyse(record), reference="t0", configuration="t1")
    pair, alone = mixed(0.1)
    two = compare_pair(pair, analyse(pair), reference="t0", configuration="t1")
    other = compare_pair(alone, analyse(alone), reference="t0", configuration="t1")
    assert two.campaign.comparisons == other.campaign.comparisons


def test_two_campaigns_are_compared_in_closed_loops() -> None:
    """Open loops are left out, which is said; with nothing else there is nothing to compare."""
    record, _ = mixed(0.0)
    compared = compare_campaigns(record, record)
    assert {cell.cell.load for cell in compared.cells} == set(CLOSED)
    assert any("open loops complete what was asked for" in each for each in compared.left_out)
    with pytest.raises(InputError, match="closed loop in common"):
        compare_campaigns(open_only(), open_only())


CLIENTS = (1, 2, 4, 8, 16, 32, 64)
FALLING = np.log([900.0, 1700.0, 3000.0, 4900.0, 6000.0, 6000.0, 3600.0])
RISING = np.log([900.0, 1700.0, 3200.0, 6000.0, 10_000.0, 15_000.0, 20_000.0])


def closed(clients: tuple[int, ...] = CLIENTS) -> tuple[Load, ...]:
    """Return loads with threads as `threads: auto` gives them on two CPUs."""
    return tuple(Load(clients=number, threads=min(number, 2)) for number in clients)


def over(loads: tuple[Load, ...]) -> Experiment:
    """Return an experiment with these loads."""
    return replace(an_experiment(), loads=loads)


def analysed(blocks: int = 12, loads: tuple[Load, ...] | None = None) -> CampaignAnalysis:
    """Return the analysis of one configuration that falls at 64 clients and one that rises."""
    taken = closed() if loads is None else loads
    places = [CLIENTS.index(load.clients) for load in taken]
    noise = 0.01 * np.random.default_rng(3).standard_normal((blocks, 2, len(taken)))
    return analyse(a_record(np.stack([FALLING, RISING])[:, places] + noise, over(taken)))


def curves_of(analysis: CampaignAnalysis) -> tuple[ScalabilityCurve, ...]:
    """Return its curves."""
    return analysis.answer(scalability_curves) or ()


def test_each_configuration_has_its_curve() -> None:
    """Its points are the medians of its cells, from the fewest to the most clients."""
    analysis = analysed()
    falling, rising = curves_of(analysis)
    assert (falling.configuration, rising.configuration) == ("t0", "t1")
    assert (falling.workload, falling.threads, falling.blocks) == ("w0", None, 12)
    assert tuple(point.load for point in falling.measured) == closed()
    of_t0 = {cell.cell.load: cell.tps for cell in analysis.cells if cell.configuration == "t0"}
    assert {point.load: point.tps for point in falling.measured} == of_t0


def test_the_gain_of_more_clients_ends_where_the_rates_do() -> None:
    """16 clients do as well as 32 and more; the other configuration still rises at 64."""
    analysis = analysed()
    falling, rising = curves_of(analysis)
    assert (falling.enough, falling.still_rises) == (closed()[4], False)
    assert (rising.enough, rising.still_rises) == (closed()[6], True)
    (answer,) = gain_answers(analysis)
    assert answer.items == ("w0: 16 clients (t0), still rising at 64 clients (t1)",)


def test_few_blocks_have_rates_and_no_such_number() -> None:
    """Five blocks: the curve stands, the number is missing, with the reason in the summary."""
    analysis = analysed(blocks=5)
    curves = curves_of(analysis)
    assert [(curve.enough, curve.gain_ends) for curve in curves] == [(None, MISSING)] * 2
    assert gain_answers(analysis) == ()
    kept = keys_of(curves[0])
    assert kept["no_gain_above_clients"] is None
    assert kept["still_rises"] is False
    assert kept["reason"] == "5 blocks; the number needs 6"


def test_too_few_loads_have_no_curve() -> None:
    """Four loads are told by the table of cells."""
    assert curves_of(analysed(loads=closed(CLIENTS[:4]))) == ()


def test_a_single_pass_has_no_curve() -> None:
    """It has one run of each load; its report has figures and no curve."""
    once = replace(over(closed()), design=Design.ONCE)
    assert curves_of(analyse(a_record(np.stack([FALLING, RISING])[None], once))) == ()


def test_loads_under_a_rate_have_no_curve() -> None:
    """An open loop sets the throughput itself."""
    rated = tuple(replace(load, rate_per_s=100.0) for load in closed())
    assert curves_of(analysed(loads=rated)) == ()


def test_every_number_of_threads_has_its_own_curve() -> None:
    """With a list of threads only loads of the same number are one curve."""
    pairs = [(c, t) for c in CLIENTS for t in (1, 4, 32) if t <= c]
    analysis = analysed(loads=tuple(Load(clients=c, threads=t) for c, t in pairs))
    curves = [
        (curve.configuration, curve.threads, len(curve.measured)) for curve in curves_of(analysis)
    ]
    assert curves == [("t0", 1, 7), ("t1", 1, 7), ("t0", 4, 5), ("t1", 4, 5)]


def test_a_look_leaves_the_curves_out() -> None:
    """What no decision needs is not computed after every block, and changes nothing else."""
    record = a_record(np.zeros((8, 2, 7)) + FALLING, over(closed()))
    look, whole = analyse(record, curves=False), analyse(record)
    assert curves_of(look) == ()
    assert curves_of(whole)
    assert look.comparisons == whole.comparisons
