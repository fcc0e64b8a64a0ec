"""What the report says of statements and commits, and when it says nothing."""

from dataclasses import replace

import pytest

from fakes import single_clients
from steelyard.answers.results import CampaignAnalysis
from steelyard.answers.statements.compute import StatementDifference, fit_of_statements
from steelyard.answers.statements.section import statement_section
from steelyard.core.findings import Estimate
from steelyard.core.schedule import Ceiling, CeilingKind
from steelyard.report.document import BulletList


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
