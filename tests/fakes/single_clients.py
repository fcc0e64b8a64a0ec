"""A synthetic campaign at one client whose configurations differ in the cost of each statement."""

from fakes.analyses import analysis_of
from fakes.scenes import Scene
from steelyard.answers.costs import SCRIPTS
from steelyard.answers.results import CampaignAnalysis
from steelyard.answers.statements.compute import (
    StatementCost,
    StatementDifference,
    StatementFit,
    fit_of_statements,
)
from steelyard.core.findings import Estimate


def statements() -> CampaignAnalysis:
    """Two configurations: the second saves 0.05 ms at each statement, nothing at the commit."""
    analysis = analysis_of(Scene(name="statements and commits", clients=(1,)))
    fit = StatementFit(
        costs=(
            _cost("default", (0.11e-3, 2.43e-3, 2.65e-3), 0.11e-3, 1.88e-3),
            _cost("fitted", (0.06e-3, 2.18e-3, 2.30e-3), 0.06e-3, 1.88e-3),
        ),
        differences=(
            StatementDifference(
                baseline="default",
                configuration="fitted",
                per_statement_s=_within(-0.05e-3, 0.01e-3),
                per_commit_s=_within(0.01e-3, 0.08e-3),
            ),
        ),
    )
    return analysis.with_answer(fit_of_statements, fit)


def _cost(
    name: str, latency_s: tuple[float, ...], statement_s: float, commit_s: float
) -> StatementCost:
    return StatementCost(
        name=name,
        blocks=9,
        latency_s=dict(zip(SCRIPTS, latency_s, strict=True)),
        per_statement_s=_within(statement_s, 0.004e-3),
        per_commit_s=_within(commit_s, 0.06e-3),
        residual_s=0.008e-3,
    )


def _within(value: float, half_width: float) -> Estimate:
    return Estimate(value=value, low=value - half_width, high=value + half_width)
