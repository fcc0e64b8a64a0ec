"""What ``show`` says of a campaign's configurations."""

from dataclasses import replace

import pytest

from fakes.analyses import quick
from fakes.campaigns import an_experiment
from steelyard.answers.report import (
    Listed,
    _asked,
    build_document,
    campaign_document,
    short_verdicts,
)
from steelyard.core.campaign import Status
from steelyard.core.experiment import Layer, Setting
from steelyard.core.findings import Verdict
from steelyard.report.html import render_html, render_markdown
from steelyard.report.terminal import render_terminal


def test_an_empty_value_is_named() -> None:
    """A setting that is given as nothing does not read like a sentence that was cut off."""
    configuration = an_experiment().configurations[0]
    none = Setting(layer=Layer.REDIS, name="save", value="")
    assert _asked(replace(configuration, settings=(none,))).endswith("save = (empty)")


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("status", [Status.RUNNING, Status.INTERRUPTED, Status.FAILED])
def test_a_verdict_before_the_end_is_called_interim(status: Status) -> None:
    """More blocks may change it: in a list, in full, on the card and in the sentence alike."""
    analysis = replace(quick(), status=status)
    listed = Listed(directory="one", size_bytes=1, held=True, analysis=analysis)
    assert short_verdicts(analysis).startswith("interim: reads fitted: faster")
    for document in (campaign_document(listed, analysis), build_document(analysis)):
        assert "reads, interim: fitted is faster than default" in " ".join(
            render_terminal(document, 300, whole=True).split()
        )
    assert '<span class="word">interim: faster</span>' in render_html(build_document(analysis))
    assert "these are interim results after 9 blocks" in render_markdown(build_document(analysis))


@pytest.mark.parametrize("status", [Status.DECIDED, Status.BUDGET, Status.PRECISION])
def test_a_verdict_at_the_end_is_none_that_changes(status: Status) -> None:
    """The campaign is over: nothing is called interim any more."""
    analysis = replace(quick(), status=status)
    listed = Listed(directory="one", size_bytes=1, analysis=analysis)
    assert "interim" not in short_verdicts(analysis)
    document = campaign_document(listed, analysis)
    assert ", interim:" not in render_terminal(document, 300, whole=True)
    assert ", interim:" not in render_markdown(build_document(analysis))
    assert "these are interim results" not in render_markdown(build_document(analysis))


def test_many_verdicts_of_a_campaign_are_told_together() -> None:
    """By workload and word; of three configurations with two workloads as few as can be."""
    analysis = quick()
    reads = analysis.results[0]
    names = ("one", "two", "three")
    results = [
        replace(reads, workload=workload, configuration=name)
        for workload in ("reads", "writes")
        for name in names
    ]
    results[1] = replace(results[1], verdict=Verdict.SLOWER)
    told = short_verdicts(replace(analysis, comparisons=tuple(results)))
    assert told == "reads faster: one, three; reads slower: two; writes faster: all 3"
