"""Two treatments of one campaign, as a document and for programs."""

from dataclasses import replace

from steelyard.analysis.pairs import PairComparison
from steelyard.report.document import Document, Paragraph, Section, Tone
from steelyard.report.filling import filled
from steelyard.report.formats import utc
from steelyard.report.headlines import headline_section
from steelyard.report.latency import latency_section
from steelyard.report.summary import Json, summary
from steelyard.report.tables import comparison_section, settings_section
from steelyard.report.wording import ending

ADDITIONAL = (
    "An additional look that is not in the campaign's plan: each interval holds taken alone, at"
    " the levels of the campaign's own rule, and does not share the error of its headlines. Who"
    " looks at many pairs will find differences that are not there."
)
PLANNED = "This pair is in the campaign's plan; the intervals are those of its report."
TURNED = (
    "The campaign's plan compares the two the other way round; the intervals are those of its"
    " report, turned."
)


def pair_note(pair: PairComparison) -> str:
    """Return what the intervals of a pair promise, in a sentence or two."""
    if not pair.planned:
        return ADDITIONAL
    return TURNED if pair.turned else PLANNED


def pair_document(pair: PairComparison) -> Document:
    """Return the comparison of two treatments as a document."""
    campaign = pair.campaign
    verdicts = headline_section(campaign)
    note = Paragraph(text=pair_note(pair), tone=Tone.PLAIN if pair.planned else Tone.WARNING)
    document = Document(
        title=campaign.experiment.name,
        subtitle=f"{pair.treatment} against {pair.reference} · {ending(campaign)}"
        f" · {utc(campaign.started_at)}",
        sections=(
            replace(verdicts, blocks=(note, *verdicts.blocks)),
            comparison_section(campaign),
            *latency_section(campaign),
            settings_section(campaign),
            _unit(pair),
        ),
    )
    return filled(document, campaign.experiment.words)


def _unit(pair: PairComparison) -> Section:
    text = f"The unit of replication is: {pair.campaign.unit}."
    return Section(anchor="unit", title="What was repeated", blocks=(Paragraph(text=text),))


def pair_summary(pair: PairComparison) -> dict[str, Json]:
    """Return the comparison of two treatments for programs."""
    return {
        **summary(pair.campaign),
        "kind": "treatments",
        "planned": pair.planned,
        "note": pair_note(pair),
    }
