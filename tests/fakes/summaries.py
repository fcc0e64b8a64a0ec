"""Summaries of campaigns that no golden report has: rates, a gate, plans, a suspect result."""

from collections.abc import Iterator
from dataclasses import replace

from fakes import analyses, open_loops
from steelyard.answers.report import summary
from steelyard.answers.results import CampaignAnalysis
from steelyard.answers.statements.section import TracedStatement, traced
from steelyard.core.findings import parse_condition
from steelyard.core.measurement import StatementPlan
from steelyard.report.document import Json


def further() -> Iterator[dict[str, Json]]:
    """Yield a summary for each."""
    for analysis in (open_loops.with_rates(), _gated(), _suspect(), _planned()):
        yield summary(analysis)


def _gated() -> CampaignAnalysis:
    made = analyses.quick()
    conditions = (parse_condition("slower > 3%"),)
    return replace(made, experiment=replace(made.experiment, gate=conditions))


def _suspect() -> CampaignAnalysis:
    made = analyses.quick()
    return replace(made, comparisons=tuple(replace(c, control="other") for c in made.comparisons))


def _planned() -> CampaignAnalysis:
    statement = "SELECT 1"
    plans = {
        name: StatementPlan(workload="q", statement=statement, lines=lines, trouble=trouble)
        for name, lines, trouble in (("default", ("Result",), ""), ("fitted", (), "refused"))
    }
    found = (TracedStatement(workload="q", statement=statement, plans=plans),)
    return replace(analyses.quick(), answers={traced: found})
