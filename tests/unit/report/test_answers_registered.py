"""An answer is one line in ``ANSWERS``: sections of every report and keys of the summary."""

from collections import Counter

import pytest

from fakes import analyses, durable, latencies, reasons, redis_campaigns, single_clients
from steelyard.answers import report
from steelyard.answers.report import summary
from steelyard.answers.results import CampaignAnalysis
from steelyard.report.document import Paragraph, Section
from steelyard.report.html import render_markdown

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
    """Nothing but its line makes it appear, last as registered, where it arises."""
    new = report.Answer(sections=_runs, json=lambda analysis: {"toy": len(analysis.runs)})
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
