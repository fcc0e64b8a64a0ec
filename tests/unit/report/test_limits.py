"""What a report does not show, what it says of two servers, and how answers get into it."""

from collections import Counter
from dataclasses import replace

import pytest

from fakes import analyses, durable, latencies, open_loops, reasons, redis_campaigns, single_clients
from steelyard.answers import report, results
from steelyard.answers.report import summary
from steelyard.answers.result.method import limits_section
from steelyard.answers.results import CampaignAnalysis, Comparison
from steelyard.core.campaign import CampaignPlan, Status
from steelyard.core.experiment import Layer, Reset, Setting, SwitchCost
from steelyard.core.findings import Verdict
from steelyard.core.target import EndpointTarget
from steelyard.report.document import BulletList, Chapter, Paragraph, Section
from steelyard.report.html import render_markdown


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
        (Status.BUDGET, "It ended after 9 of at most 24 blocks, by a rule that was fixed"),
        (Status.INTERRUPTED, "It was interrupted after 9 of at most 24 blocks; its rule"),
        (Status.FAILED, "It failed after 9 of at most 24 blocks; its rule"),
        (Status.RUNNING, "It has not ended: these are interim results after 9 of at most 24"),
    ],
)
def test_the_stopping_rule_is_named(status: Status, text: str) -> None:
    """Each way to end says why its intervals hold."""
    assert text in words(replace(analyses.quick(), status=status))


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (Status.BUDGET, "The budget ended it after"),
        (Status.COMPLETE, "It ended after"),
        (Status.INTERRUPTED, "It was interrupted after"),
    ],
)
def test_only_a_budget_that_is_used_up_ends_what_has_no_verdict(status: Status, text: str) -> None:
    """Loads with a rate have no verdict; Ctrl-C and a number of blocks end them, too."""
    assert text in words(replace(latencies.open_loop(), status=status))


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


def test_few_instances_do_not_support_a_cause() -> None:
    """Below six re-made instances a side the difference may be the pair's."""
    analysis = analyses.quick()
    remade = replace(analysis, plan=replace(plan_of(analysis), switch=SwitchCost.REPROVISION))
    few, enough = (words(replace(remade, blocks=blocks)) for blocks in (5, 6))
    assert "this pair of instances" in few
    assert "this pair of instances" not in enough


def test_settings_changed_together_share_the_effect() -> None:
    """The effect of a bundle is not the effect of any one setting in it."""
    analysis = analyses.quick()
    base, fitted = analysis.experiment.configurations
    more = Setting(layer=Layer.POSTGRES, name="wal_buffers", value="16MB")
    bundle = replace(fitted, settings=(*fitted.settings, more))
    experiment = replace(analysis.experiment, configurations=(base, bundle))
    assert "changed together" not in words(analysis)
    assert "Which of the 2 settings asked for" in words(replace(analysis, experiment=experiment))


def test_what_loads_leave_open_follows_from_rates_and_the_capacity() -> None:
    """Nothing that the report tells elsewhere is called unknown: rates, or the capacity."""
    highest = "The highest possible rate"
    analysis = analyses.quick()
    assert highest not in words(analysis)
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


CANNOT = "the difference may be the servers, not the settings: one instance per side"


def of_pair(instances: int | None = 1) -> CampaignAnalysis:
    """Return a decided campaign whose configurations live on different instances."""
    analysis = analyses.quick()
    hosts = ("one", "other")
    configurations = tuple(
        replace(configuration, target=EndpointTarget(host=host))
        for configuration, host in zip(analysis.experiment.configurations, hosts, strict=True)
    )
    return replace(
        analysis,
        status=Status.BUDGET,
        experiment=replace(analysis.experiment, configurations=configurations),
        comparisons=tuple(replace(c, instances=instances) for c in analysis.comparisons),
    )


def sentence(analysis: CampaignAnalysis, **changes: object) -> str:
    """Return the sentence of the first result."""
    return results.verdict_sentence(analysis, replace(analysis.results[0], **changes))


def test_the_result_speaks_of_servers_and_refuses_the_cause() -> None:
    """The verdict is on servers; why cannot be said."""
    told = sentence(of_pair())
    assert "server fitted vs server default (baseline): faster" in told
    assert CANNOT in told
    slower = sentence(of_pair(), verdict=Verdict.SLOWER)
    assert "server fitted vs server default (baseline): slower" in slower
    assert CANNOT in slower


@pytest.mark.parametrize(("instances", "words"), [(2, "2 instances"), (5, "5 instances")])
def test_the_number_of_instances_is_told(instances: int, words: str) -> None:
    """Up to five per side the claim is refused."""
    assert f"not the settings: {words} per side" in sentence(of_pair(instances))


@pytest.mark.parametrize("instances", [None, 6, 9])
def test_six_instances_or_one_shared_allow_the_claim(instances: int | None) -> None:
    """Then it is the configurations that differ, and the words are the usual ones."""
    analysis = of_pair(instances)
    told = sentence(analysis)
    assert "fitted vs default (baseline): faster" in told
    assert "server" not in told
    assert "not the settings" not in told
    assert results.verdict_word(analysis.results[0], 0.01) == "faster"


def test_equivalence_and_doubt_are_of_the_pair_too() -> None:
    """Two servers may be alike although the configurations are not."""
    alike = sentence(of_pair(), verdict=Verdict.EQUIVALENT)
    assert "server fitted vs server default (baseline): equivalent" in alike
    assert "this speaks of these instances alone" in alike
    open_ = sentence(of_pair(), verdict=Verdict.NO_CLEAR_DIFFERENCE)
    assert "server fitted vs server default (baseline): no clear difference" in open_
    assert "not the settings" not in open_
    divided = sentence(of_pair(), depends_on_load=True)
    assert "server fitted vs server default (baseline): depends on load" in divided


def test_the_word_in_tables_says_it() -> None:
    """Where there is no room for a sentence."""
    decided: Comparison = of_pair().results[0]
    assert results.verdict_word(decided, 0.01) == "faster, one pair only"
    undecided = replace(decided, verdict=Verdict.NO_CLEAR_DIFFERENCE)
    assert results.verdict_word(undecided, 0.01) == "no clear difference"


SCENES = (
    analyses.quick(),
    analyses.noise_floor(),
    analyses.made_servers(),
    reasons.explained(),
    latencies.tails(),
    latencies.open_loop(),
    durable.high_availability(),
    single_clients.statements(),
    redis_campaigns.aof(),
)


def _runs(analysis: CampaignAnalysis) -> tuple[Section, ...]:
    text = f"There were {len(analysis.runs)} runs that count."
    return (Section(anchor="runs", title="How many runs", blocks=(Paragraph(text=text),)),)


def test_a_new_answer_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but its line makes it appear, last of its chapter, where it arises."""
    new = report.Answer(
        sections=_runs,
        json=lambda analysis: {"toy": len(analysis.runs)},
        chapter=Chapter.REPRODUCE,
    )
    monkeypatch.setattr(report, "ANSWERS", (*report.ANSWERS, new))
    analysis = analyses.quick()
    document = report.build_document(analysis)
    assert document.sections[-1].anchor == "runs"
    assert f"There were {len(analysis.runs)} runs that count." in render_markdown(document)
    assert summary(analysis)["toy"] == len(analysis.runs)


@pytest.mark.parametrize("single_pass", [True, False])
def test_an_answer_may_be_for_single_passes_or_for_comparisons_alone(
    monkeypatch: pytest.MonkeyPatch, *, single_pass: bool
) -> None:
    """A comparison has the sections of the latter only."""
    new = report.Answer(sections=_runs, single_pass=single_pass)
    monkeypatch.setattr(report, "ANSWERS", (*report.ANSWERS, new))
    anchors = [section.anchor for section in report.build_document(analyses.quick()).sections]
    assert ("runs" in anchors) is not single_pass


@pytest.mark.parametrize("analysis", SCENES, ids=lambda each: each.experiment.name)
def test_no_two_answers_have_a_key_or_an_anchor(analysis: CampaignAnalysis) -> None:
    """One would hide the other in the summary, and in the links of a report."""
    keys = Counter(key for answer in report.ANSWERS for key in answer.json(analysis))
    anchors = Counter(section.anchor for section in report.build_document(analysis).sections)
    assert max(keys.values(), default=1) == 1
    assert max(anchors.values()) == 1
