"""From an analysis to a document, in the order in which a reader asks.

The names of its renderings are here as well, for those who call them.
"""

from steelyard.answers.attribution import attribution_section, design_words
from steelyard.answers.budget.section import budget_section
from steelyard.answers.capacity.section import capacity_section
from steelyard.answers.cells import pass_headline, pass_limits, pass_title, published_section
from steelyard.answers.costs.section import cost_section
from steelyard.answers.durability.section import durability_section
from steelyard.answers.findings import finding_section
from steelyard.answers.latency.section import latency_section
from steelyard.answers.noise.section import noise_section
from steelyard.answers.published import requests_section
from steelyard.answers.result.method import command_section, limits_section, method_section
from steelyard.answers.result.section import headline_section
from steelyard.answers.results import CampaignAnalysis
from steelyard.answers.scalability import scalability_section
from steelyard.answers.statements.section import statement_section
from steelyard.answers.sustained.section import sustained_section
from steelyard.answers.tables import (
    cell_section,
    chart_section,
    comparison_section,
    fact_section,
    settings_section,
)
from steelyard.answers.timeline import timeline_section
from steelyard.answers.wording import ending
from steelyard.report.document import Document, Section
from steelyard.report.formats import enumeration, utc
from steelyard.report.terminal import filled


def build_document(analysis: CampaignAnalysis) -> Document:
    """Return the report of a campaign, whole or partial, as a document."""
    experiment = analysis.experiment
    single = experiment.is_single_pass
    contest = f"{enumeration(experiment.contenders)} against {experiment.baseline}"
    if experiment.attribution is not None:
        contest = design_words(experiment.attribution)
    if len(experiment.treatments) == 1:
        contest = f"{experiment.baseline} alone"
    document = Document(
        title=pass_title(analysis) if single else experiment.name,
        subtitle=f"{contest} · {ending(analysis)} · {utc(analysis.started_at)}",
        description=experiment.description,
        sections=_pass_sections(analysis) if single else _sections(analysis),
    )
    return filled(document, experiment.words)


def _sections(analysis: CampaignAnalysis) -> tuple[Section, ...]:
    charts = chart_section(analysis)
    return (
        headline_section(analysis),
        *noise_section(analysis),
        *attribution_section(analysis),
        *capacity_section(analysis),
        *(() if charts is None else (charts,)),
        cell_section(analysis),
        comparison_section(analysis),
        *requests_section(analysis),
        *latency_section(analysis),
        *durability_section(analysis),
        *budget_section(analysis),
        *cost_section(analysis),
        *timeline_section(analysis),
        *scalability_section(analysis),
        *statement_section(analysis),
        *sustained_section(analysis),
        finding_section(analysis),
        settings_section(analysis),
        fact_section(analysis),
        method_section(analysis),
        limits_section(analysis),
        command_section(analysis),
    )


def _pass_sections(analysis: CampaignAnalysis) -> tuple[Section, ...]:
    charts = chart_section(analysis)
    return (
        pass_headline(analysis),
        *published_section(analysis),
        *requests_section(analysis),
        *(() if charts is None else (charts,)),
        cell_section(analysis),
        *latency_section(analysis),
        *durability_section(analysis),
        *statement_section(analysis),
        *budget_section(analysis),
        *cost_section(analysis),
        *timeline_section(analysis),
        *sustained_section(analysis),
        finding_section(analysis),
        fact_section(analysis),
        method_section(analysis),
        pass_limits(analysis),
        command_section(analysis),
    )
