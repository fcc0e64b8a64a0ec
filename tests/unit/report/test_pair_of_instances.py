"""A verdict on two servers is worded as one on two servers."""

from dataclasses import replace

import pytest

from fakes import analyses
from steelyard.answers import results
from steelyard.answers.results import CampaignAnalysis, Comparison
from steelyard.core.campaign import Status
from steelyard.core.findings import Verdict
from steelyard.core.target import EndpointTarget

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
    """Server fitted is faster than server default; why cannot be said."""
    told = sentence(of_pair())
    assert "server fitted is faster than server default by" in told
    assert CANNOT in told
    slower = sentence(of_pair(), verdict=Verdict.SLOWER)
    assert "server fitted is slower than server default:" in slower
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
    assert "fitted is faster than default by" in told
    assert "server" not in told
    assert "not the settings" not in told
    assert results.verdict_word(analysis.results[0], 0.01) == "faster"


def test_equivalence_and_doubt_are_of_the_pair_too() -> None:
    """Two servers may be alike although the configurations are not."""
    alike = sentence(of_pair(), verdict=Verdict.EQUIVALENT)
    assert "server fitted and server default are equivalent" in alike
    assert "this speaks of these instances alone" in alike
    open_ = sentence(of_pair(), verdict=Verdict.NO_CLEAR_DIFFERENCE)
    assert "no clear difference between server fitted and server default" in open_
    assert "not the settings" not in open_
    divided = sentence(of_pair(), depends_on_load=True)
    assert "the effect of server fitted against server default depends on load" in divided


def test_the_word_in_tables_says_it() -> None:
    """Where there is no room for a sentence."""
    decided: Comparison = of_pair().results[0]
    assert results.verdict_word(decided, 0.01) == "faster, one pair only"
    undecided = replace(decided, verdict=Verdict.NO_CLEAR_DIFFERENCE)
    assert results.verdict_word(undecided, 0.01) == "no clear difference"
