"""What a report says that it does not show follows from the design."""

from dataclasses import replace

import pytest

from fakes import analyses, open_loops
from steelyard.answers.result.method import limits_section
from steelyard.answers.results import CampaignAnalysis
from steelyard.core.campaign import CampaignPlan, Status
from steelyard.core.experiment import Layer, Reset, Setting, SwitchCost
from steelyard.core.schedule import Load
from steelyard.report.document import BulletList


def words(analysis: CampaignAnalysis) -> str:
    """Return all statements of the section, one a line."""
    blocks = limits_section(analysis).blocks
    lists = [block for block in blocks if isinstance(block, BulletList)]
    return "\n".join(item for block in lists for item in block.items)


def plan_of(analysis: CampaignAnalysis) -> CampaignPlan:
    """Return the plan, which these campaigns have."""
    assert analysis.plan is not None
    return analysis.plan


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (Status.PRECISION, "half-widths were small enough, whatever the verdicts"),
        (Status.INTERRUPTED, "at whatever block the campaign ended"),
    ],
)
def test_the_stopping_rule_is_named(status: Status, text: str) -> None:
    """Each way to end says why its intervals hold."""
    assert text in words(replace(analyses.quick(), status=status))


@pytest.mark.parametrize(
    ("reset", "text"),
    [
        (Reset.CAMPAIGN, "the data were not reset between starts"),
        (Reset.BLOCK, "the data were reset between blocks only"),
    ],
)
def test_history_is_named_where_data_are_not_reset_each_time(reset: Reset, text: str) -> None:
    """Carry-over is a limit unless every start starts from the same bytes."""
    analysis = analyses.quick()
    assert text not in words(analysis)
    assert text in words(replace(analysis, plan=replace(plan_of(analysis), reset=reset)))


@pytest.mark.parametrize(
    ("blocks", "text"), [(5, "this pair of instances"), (6, "only these instances were measured")]
)
def test_few_instances_do_not_support_a_cause(blocks: int, text: str) -> None:
    """Below six re-made instances a side the difference may be the pair's."""
    analysis = analyses.quick()
    plan = replace(plan_of(analysis), switch=SwitchCost.REPROVISION)
    assert text in words(replace(analysis, plan=plan, blocks=blocks))


def test_equal_clients_are_not_equal_work() -> None:
    """A closed loop gives the faster server more to do; a rate gives all the same."""
    analysis = analyses.quick()
    rated = replace(analysis.experiment, loads=(Load(clients=8, threads=4, rate_per_s=500.0),))
    assert "the faster server did more" in words(analysis)
    assert "offered at a fixed rate" in words(replace(analysis, experiment=rated))


def test_settings_changed_together_share_the_effect() -> None:
    """The effect of a bundle is not the effect of any one setting in it."""
    analysis = analyses.quick()
    base, fitted = analysis.experiment.configurations
    more = Setting(layer=Layer.POSTGRES, name="wal_buffers", value="16MB")
    bundle = replace(fitted, settings=(*fitted.settings, more))
    experiment = replace(analysis.experiment, configurations=(base, bundle))
    assert "changed together" not in words(analysis)
    assert "Which of the 2 settings asked for" in words(replace(analysis, experiment=experiment))


def test_several_rounds_are_not_one_early_slice() -> None:
    """What they cover is said; a block that held everything once held one round."""
    analysis = analyses.quick()
    several = words(replace(analysis, plan=replace(plan_of(analysis), rounds=3)))
    assert "in 3 runs of each cell, in an order drawn by coin" in several
    assert "those of a start cover about" in several
    assert "early phase of a checkpoint cycle" not in several
    assert "once, in an order drawn by coin" in words(analysis)


def test_what_loads_leave_open_follows_from_rates_and_the_capacity() -> None:
    """Nothing that the report tells elsewhere is called unknown: rates, or the capacity."""
    equal, highest = "Latency at equal work", "The highest possible rate"
    analysis = analyses.quick()
    closed = words(analysis)
    assert (equal in closed, highest in closed) == (True, False)
    given = analysis.experiment
    opened = tuple(replace(load, rate_per_s=500.0) for load in given.loads)
    both = words(replace(analysis, experiment=replace(given, loads=(*given.loads, *opened))))
    assert "Latency at equal work in the closed loops" in both
    assert "The loads with a rate show it." in both
    alone = replace(analysis, experiment=replace(given, loads=opened))
    assert f"{highest}: the load was offered at a fixed rate" in words(alone)
    found = replace(plan_of(analysis), capacities=open_loops.rates().capacities)
    shares = words(replace(alone, plan=found))
    assert f"{highest} of fitted: the capacity is that of default" in shares
    assert "fixed rate" not in shares
    one = replace(given, loads=opened, configurations=given.configurations[:1])
    assert highest not in words(replace(alone, experiment=one, plan=found))
