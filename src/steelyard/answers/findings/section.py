"""Findings of the whole campaign and of its cells, once each, gravest first."""

from dataclasses import replace

from steelyard.answers.results import CampaignAnalysis
from steelyard.core.findings import BESIDE_NEIGHBOUR, ENVIRONMENT, Finding, Severity
from steelyard.report.document import Block, FindingItem, FindingList, Paragraph, Section, Tone

_RANK = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}
_OF_LOSS = frozenset({"durability-traded", "persistence-traded"})
_TONE = {
    Severity.ERROR: Tone.ERROR,
    Severity.WARNING: Tone.WARNING,
    Severity.INFO: Tone.PLAIN,
}


def collected(analysis: CampaignAnalysis) -> tuple[Finding, ...]:
    """Return every different finding of campaign and cells, in the order of their weight.

    By severity; of the same one what a configuration may lose comes first, since no other measuring
    makes it good, and the rest as they came: what concerns the whole campaign before its cells.
    Of neighbours the campaign tells as a whole, so their cells do not tell again.
    """
    told = {finding.code for finding in analysis.findings}
    again = ENVIRONMENT if BESIDE_NEIGHBOUR in told else frozenset()
    of_cells = (f for cell in analysis.cells for f in cell.findings if f.code not in again)
    found = [*analysis.findings, *of_cells]
    unique = tuple(dict.fromkeys(found))
    return tuple(sorted(unique, key=lambda f: (_RANK[f.severity], f.code not in _OF_LOSS)))


def anchor(place: int) -> str:
    """Return the name of a finding in the document, by its place in the list."""
    return f"finding-{place + 1}"


def finding_section(analysis: CampaignAnalysis) -> Section:
    """Return all findings, or the sentence that there are none."""
    items = tuple(
        replace(_item(finding), anchor=anchor(place))
        for place, finding in enumerate(collected(analysis))
    )
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
