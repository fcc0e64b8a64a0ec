"""Open loops complete what was asked for: no verdict on throughput may come from them."""

from dataclasses import replace

import numpy as np
import pytest
from made_records import a_record, an_experiment, noise

from steelyard.answers.campaign import analyse
from steelyard.answers.comparison import compare_campaigns, compare_pair
from steelyard.answers.observations import observe, result_count
from steelyard.answers.report import build_document, summary
from steelyard.answers.result.compute import decide
from steelyard.core.campaign import CampaignRecord
from steelyard.core.experiment import Experiment, LatencyGoal
from steelyard.core.schedule import Load
from steelyard.core.wording import InputError
from steelyard.report.html import render_markdown

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
