"""What the report says of statements and commits, and when it says nothing."""

from dataclasses import replace

import pytest

from fakes import analyses, single_clients
from steelyard.answers.report import build_document, summary
from steelyard.answers.results import CampaignAnalysis
from steelyard.answers.statements.compute import StatementDifference, fit_of_statements
from steelyard.answers.statements.section import statement_section
from steelyard.core.findings import Estimate
from steelyard.core.schedule import Ceiling, CeilingKind
from steelyard.report.document import BulletList, Table


def with_difference(statement: Estimate, commit: Estimate) -> CampaignAnalysis:
    """Return a campaign whose configurations differ so."""
    analysis = single_clients.statements()
    fit = analysis.answer(fit_of_statements)
    assert fit is not None
    difference = StatementDifference(
        baseline="default", configuration="fitted", per_statement_s=statement, per_commit_s=commit
    )
    return analysis.with_answer(fit_of_statements, replace(fit, differences=(difference,)))


SURE = Estimate(value=-0.9e-3, low=-1.0e-3, high=-0.8e-3)
UNSURE = Estimate(value=0.1e-3, low=-0.2e-3, high=0.3e-3)


@pytest.mark.parametrize(
    ("statement", "commit", "words"),
    [
        (SURE, UNSURE, "a cost of the round trip"),
        (UNSURE, SURE, "What a commit waits for differs"),
        (SURE, SURE, "Both the round trips"),
        (UNSURE, UNSURE, "neither cost surely differs"),
        (replace(SURE, low=None, high=None), UNSURE, "neither cost surely differs"),
    ],
)
def test_the_words_follow_the_intervals(statement: Estimate, commit: Estimate, words: str) -> None:
    """Only a cost whose interval leaves out zero is named."""
    (section,) = statement_section(with_difference(statement, commit))
    (told,) = [block for block in section.blocks if isinstance(block, BulletList)]
    assert words in told.items[0]


def test_costs_stand_with_intervals() -> None:
    """The cost of a statement and of a commit, each with its own."""
    (section,) = statement_section(single_clients.statements())
    own, _ = [block for block in section.blocks if isinstance(block, Table)]
    assert own.rows[0].cells[4] == "0.110 [0.106, 0.114]"


def test_without_a_fit_there_is_no_section() -> None:
    """Neither in the report nor in the summary."""
    analysis = analyses.quick()
    assert "statements" not in [part.anchor for part in build_document(analysis).sections]
    assert "statements" not in summary(analysis)


def test_the_summary_has_both_costs_in_seconds() -> None:
    """Each with its estimate and bounds."""
    told = summary(single_clients.statements())["statements"]
    assert isinstance(told, dict)
    costs = told["costs"]
    assert isinstance(costs, list)
    assert costs[0]["per_statement_s"]["estimate"] == pytest.approx(0.11e-3)  # type: ignore[index, call-overload]
    assert costs[0]["per_commit_s"]["low"] is not None  # type: ignore[index, call-overload]


def test_round_trips_and_wake_ups_stand_beside_the_fit() -> None:
    """As measured before the first block; what is not known is left out."""
    ceilings = (
        Ceiling(
            kind=CeilingKind.ROUND_TRIP,
            subject="PostgreSQL 18, socket",
            latency_s=0.03e-3,
            configurations=("default", "fitted"),
        ),
        Ceiling(kind=CeilingKind.PING_PONG, subject="two CPUs", latency_s=0.017e-3),
        Ceiling(kind=CeilingKind.PING_PONG, subject="one CPU", unknown="refused"),
    )
    analysis = replace(single_clients.statements(), ceilings=ceilings)
    (section,) = statement_section(analysis)
    _, told = [block for block in section.blocks if isinstance(block, BulletList)]
    assert told.items == (
        "round trip of an empty statement (default, fitted): 0.030 ms",
        "ping-pong of two processes, two CPUs: 0.017 ms",
    )
