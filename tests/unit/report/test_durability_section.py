"""The section on what may be lost, in every rendering."""

import json
from dataclasses import replace

from fakes import durable
from steelyard.answers.durability.compute import campaign_durability
from steelyard.answers.report import build_document, summary
from steelyard.answers.results import CampaignAnalysis
from steelyard.report.document import BulletList, Section
from steelyard.report.html import render_markdown


def section(analysis: CampaignAnalysis) -> Section:
    """Return the section of a report."""
    document = build_document(analysis)
    return next(each for each in document.sections if each.anchor == "durability")


def test_reasons_are_told_once_for_configurations_that_are_alike() -> None:
    """Two configurations of which the same is to be said share a list; no failure is left out."""
    analysis = durable.high_availability()
    local = analysis.answer(campaign_durability)[0]
    twice = analysis.with_answer(
        campaign_durability, (local, replace(local, configuration="again"))
    )
    lists = [each for each in section(twice).blocks if isinstance(each, BulletList)]
    assert [each.lead for each in lists] == ["local and again"]
    told = " ".join(lists[0].items)
    for loss in ("server killed", "power lost", "node lost", "disk lost", "site lost"):
        assert told.count(loss) == 1
    assert len([each for each in section(analysis).blocks if isinstance(each, BulletList)]) == 4


def test_without_a_workload_that_writes_there_is_no_word_on_latency() -> None:
    """Then the table holds failures alone."""
    analysis = durable.high_availability()
    reading = tuple(replace(each, latencies=()) for each in analysis.answer(campaign_durability))
    text = render_markdown(build_document(analysis.with_answer(campaign_durability, reading)))
    assert "| configuration | server killed |" in text
    assert "Latencies are" not in text


def test_a_latency_that_was_not_measured_is_null() -> None:
    """The latency is null where nothing was measured."""
    analysis = durable.high_availability()
    unmeasured = tuple(
        replace(each, latencies=tuple(replace(x, mean_s=None) for x in each.latencies))
        for each in analysis.answer(campaign_durability)
    )
    empty = json.loads(json.dumps(summary(analysis.with_answer(campaign_durability, unmeasured))))
    assert empty["durability"][0]["write_latency"][0]["mean_s"] is None
