"""From an analysis to a document and to values for programs: the answers, in a reader's order.

``ANSWERS`` registers them; whoever adds one adds a line here.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from steelyard.answers.attribution import (
    analyse_attribution,
    attribution_json,
    attribution_section,
    design_words,
)
from steelyard.answers.budget.section import budget_section
from steelyard.answers.capacity.compute import capacity_findings, open_loops
from steelyard.answers.capacity.section import capacity_section, open_loops_json
from steelyard.answers.ceilings import ceilings_json
from steelyard.answers.cells import pass_limits, pass_result, pass_title, published_section
from steelyard.answers.costs.section import cost_section
from steelyard.answers.durability.results import measured_lags
from steelyard.answers.durability.section import durability_json, durability_section
from steelyard.answers.findings import finding_section
from steelyard.answers.gate import gate_json, gate_section
from steelyard.answers.latency.section import latency_json, latency_section
from steelyard.answers.noise.compute import analyse_noise, noise_findings
from steelyard.answers.noise.section import noise_json, noise_section
from steelyard.answers.published import (
    published_requests,
    requests_json,
    requests_section,
    single_pass_json,
)
from steelyard.answers.reasons.json import reasons_json
from steelyard.answers.result.levels import place_line
from steelyard.answers.result.method import command_section, limits_section, method_section
from steelyard.answers.result.section import result_section
from steelyard.answers.results import CampaignAnalysis, Computing, Grounds
from steelyard.answers.scalability import (
    scalability_curves,
    scalability_findings,
    scalability_json,
    scalability_section,
)
from steelyard.answers.settings import instance_noise, instance_noise_json
from steelyard.answers.statements.compute import fit_of_statements
from steelyard.answers.statements.plans import plan_section, plans_json, traced
from steelyard.answers.statements.section import statement_section, statements_json
from steelyard.answers.sustained.compute import burst_findings
from steelyard.answers.sustained.section import sustained_json, sustained_section
from steelyard.answers.tables import (
    cell_section,
    chart_section,
    comparison_section,
    fact_section,
    settings_section,
)
from steelyard.answers.timeline import phases_json, timeline_section
from steelyard.answers.wording import ending
from steelyard.core.findings import Finding
from steelyard.report.document import Document, Json, Section, Shown, enumeration, filled, utc


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One question that a report answers.

    Attributes:
        compute: Returns what it says, from the record; sections and values find it with
            ``CampaignAnalysis.answer``. None: it needs only what every analysis has.
        findings: Returns what the user should know of it; an interim result asks for this, too,
            and has computed nothing then.
        sections: Returns what a report says of it; nothing where it does not arise.
        json: Returns its keys of ``summary.json``, likewise.
        shown: What the short report of a terminal shows of its sections.
        single_pass: True: only where nothing is repeated and compared; False: only elsewhere.
    """

    compute: Computing | None = None
    findings: Callable[[Grounds], Iterable[Finding]] = lambda _: ()
    sections: Callable[[CampaignAnalysis], Sequence[Section]] = lambda _: ()
    json: Callable[[CampaignAnalysis], Mapping[str, Json]] = lambda _: {}
    shown: Shown = Shown.NOTHING
    single_pass: bool | None = None


def _always(
    section: Callable[[CampaignAnalysis], Section],
) -> Callable[[CampaignAnalysis], Sequence[Section]]:
    """Return what makes a section that no report is without."""
    return lambda analysis: (section(analysis),)


ANSWERS: Final = (
    Answer(sections=_always(result_section), shown=Shown.ALL, single_pass=False),
    Answer(sections=_always(pass_result), shown=Shown.ALL, single_pass=True),
    Answer(sections=gate_section, json=gate_json, single_pass=False),
    Answer(sections=published_section, json=single_pass_json, shown=Shown.ALL, single_pass=True),
    Answer(
        compute=analyse_noise,
        findings=lambda grounds: noise_findings(grounds.analysis),
        sections=noise_section,
        json=noise_json,
        shown=Shown.ALL,
        single_pass=False,
    ),
    Answer(compute=instance_noise, json=instance_noise_json),
    Answer(
        compute=analyse_attribution,
        sections=attribution_section,
        json=attribution_json,
        shown=Shown.ALL,
        single_pass=False,
    ),
    Answer(
        compute=open_loops,
        findings=lambda grounds: capacity_findings(grounds.record),
        sections=capacity_section,
        json=open_loops_json,
        shown=Shown.ALL,
        single_pass=False,
    ),
    Answer(sections=chart_section),
    Answer(sections=_always(cell_section), shown=Shown.ALL),
    Answer(sections=_always(comparison_section), shown=Shown.ALL, single_pass=False),
    Answer(
        compute=published_requests,
        sections=requests_section,
        json=requests_json,
        shown=Shown.ALL,
    ),
    Answer(sections=latency_section, json=latency_json, shown=Shown.ALL),
    Answer(
        compute=measured_lags,
        sections=durability_section,
        json=durability_json,
        shown=Shown.TABLES,  # the reasons are in the files
    ),
    Answer(compute=traced, sections=plan_section, json=plans_json, shown=Shown.ALL),
    Answer(
        compute=fit_of_statements,
        sections=statement_section,
        json=statements_json,
        shown=Shown.ALL,
    ),
    # `steelyard explain` shows the tables.
    Answer(sections=budget_section, json=reasons_json, shown=Shown.WORDS),
    Answer(sections=cost_section),
    Answer(sections=timeline_section, json=phases_json),
    Answer(
        compute=scalability_curves,
        findings=lambda grounds: scalability_findings(grounds.analysis),
        sections=scalability_section,
        json=scalability_json,
        shown=Shown.ALL,
        single_pass=False,
    ),
    Answer(
        findings=burst_findings, sections=sustained_section, json=sustained_json, shown=Shown.ALL
    ),
    Answer(sections=_always(finding_section), shown=Shown.ALL),
    Answer(sections=_always(settings_section), shown=Shown.ALL, single_pass=False),
    Answer(sections=_always(fact_section), json=ceilings_json),
    Answer(sections=_always(method_section)),
    Answer(sections=_always(limits_section), single_pass=False),
    Answer(sections=_always(pass_limits), single_pass=True),
    Answer(sections=_always(command_section)),
)


def build_document(analysis: CampaignAnalysis) -> Document:
    """Return the report of a campaign, whole or partial, as a document."""
    experiment = analysis.experiment
    single = experiment.is_single_pass
    contest = f"{enumeration(experiment.contenders)} against {experiment.baseline}"
    if experiment.attribution is not None:
        contest = design_words(experiment.attribution)
    if len(experiment.configurations) == 1:
        contest = f"{experiment.baseline} alone"
    document = Document(
        title=pass_title(analysis) if single else experiment.name,
        subtitle=f"{contest} · {ending(analysis)} · {utc(analysis.started_at)}",
        description=experiment.description,
        place=place_line(analysis),
        sections=tuple(
            replace(section, shown=answer.shown)
            for answer in ANSWERS
            if answer.single_pass in (None, single)
            for section in answer.sections(analysis)
        ),
    )
    return filled(document, experiment.words)
