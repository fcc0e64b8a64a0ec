"""Findings of the whole campaign and of its cells, once each, gravest first."""

from steelyard.analysis.results import CampaignAnalysis
from steelyard.model.findings import Finding, Severity
from steelyard.model.rules import BESIDE_NEIGHBOUR, ENVIRONMENT
from steelyard.report.document import Block, FindingItem, FindingList, Paragraph, Section, Tone

_RANK = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}
_TONE = {
    Severity.ERROR: Tone.ERROR,
    Severity.WARNING: Tone.WARNING,
    Severity.INFO: Tone.PLAIN,
}


def collected(analysis: CampaignAnalysis) -> tuple[Finding, ...]:
    """Return every different finding of campaign and cells, gravest first, else as they came.

    Of neighbours the campaign tells as a whole, so their cells do not tell again.
    """
    told = {finding.code for finding in analysis.findings}
    again = ENVIRONMENT if BESIDE_NEIGHBOUR in told else frozenset()
    of_cells = (f for cell in analysis.cells for f in cell.findings if f.code not in again)
    found = [*analysis.findings, *of_cells]
    unique = tuple(dict.fromkeys(found))
    return tuple(sorted(unique, key=lambda finding: _RANK[finding.severity]))


def finding_section(analysis: CampaignAnalysis) -> Section:
    """Return all findings, or the sentence that there are none."""
    items = tuple(_item(finding) for finding in collected(analysis))
    block: Block = FindingList(items=items) if items else Paragraph(text="No findings.")
    return Section(anchor="findings", title="Findings", blocks=(block,))


def _item(finding: Finding) -> FindingItem:
    named = finding.message.startswith(f"{finding.subject}:")
    return FindingItem(
        severity=finding.severity.value,
        tone=_TONE[finding.severity],
        subject="" if named else finding.subject,
        message=finding.message,
        remedy=finding.remedy,
        source=finding.source,
        code=finding.code,
    )
