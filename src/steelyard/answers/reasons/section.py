"""What ``explain`` shows of a campaign: per comparison verdict, reason, waterfall and costs."""

from dataclasses import dataclass

from steelyard.answers.budget.compute import BudgetChange
from steelyard.answers.budget.section import budget_section, change_table, time_note, watching_lines
from steelyard.answers.costs.compute import LedgerChange
from steelyard.answers.costs.section import change_table as cost_table
from steelyard.answers.costs.section import cost_note, cost_section
from steelyard.answers.reasons.compute import Explanation, Reasons
from steelyard.answers.reasons.json import TITLE as WAITS_TITLE
from steelyard.answers.reasons.json import (
    budget_change,
    cell_json,
    ledger_change,
    wait_blocks,
    watching_json,
)
from steelyard.answers.reasons.waits import waits_of
from steelyard.answers.results import CampaignAnalysis
from steelyard.answers.statements.section import measured_apart, waits_json
from steelyard.answers.summary import FORMAT
from steelyard.answers.wording import cell_name, ending, verdict_sentence
from steelyard.core.schedule import CellKey
from steelyard.report.document import (
    Block,
    Document,
    Json,
    Paragraph,
    Section,
    Tone,
    ended,
    filled,
    utc,
)

NOTHING = (
    "No reason can be told: no run of a complete block was watched. The record is of a version"
    " without probes, or no block is complete."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The cells to be explained; None stands for all.

    Attributes:
        clients: None for all loads of the workload.
    """

    workload: str | None = None
    clients: int | None = None

    def holds(self, cell: CellKey) -> bool:
        """Return whether a cell is chosen."""
        if self.workload is not None and cell.workload != self.workload:
            return False
        return self.clients is None or cell.load.clients == self.clients


def explain_document(analysis: CampaignAnalysis, choice: Choice) -> Document:
    """Return the reasons of a campaign's comparisons."""
    reasons = analysis.reasons
    sections: tuple[Section, ...]
    if reasons is None:
        text = Paragraph(text=NOTHING, tone=Tone.WARNING)
        sections = (Section(anchor="nothing", title="No evidence", blocks=(text,)),)
    elif not reasons.explanations:
        sections = (*budget_section(analysis), *cost_section(analysis))
    else:
        chosen = [each for each in reasons.explanations if choice.holds(each.cell)]
        sections = (
            *(_comparison(analysis, reasons, each) for each in chosen),
            *(_waits(analysis) if choice == Choice() else ()),
            Section(
                anchor="watching",
                title="How it was watched, and how to read it",
                blocks=(
                    *watching_lines(reasons),
                    Paragraph(text=time_note(analysis)),
                    Paragraph(text=cost_note(analysis)),
                ),
            ),
        )
    document = Document(
        title=f"Why: {analysis.experiment.name}",
        subtitle=f"{analysis.campaign_id} · {ending(analysis)} · {utc(analysis.started_at)}",
        sections=sections,
    )
    return filled(document, analysis.experiment.words)


def _waits(analysis: CampaignAnalysis) -> tuple[Section, ...]:
    """Return what changed statements are made of; nothing where no cost of one surely changed."""
    blocks = wait_blocks(waits_of(analysis))
    if not blocks:
        return ()
    blocks = (*blocks, *measured_apart(analysis.ceilings))
    return (Section(anchor="waits", title=WAITS_TITLE, blocks=blocks),)


def _comparison(analysis: CampaignAnalysis, reasons: Reasons, explanation: Explanation) -> Section:
    who = f"{explanation.configuration} against {explanation.baseline}"
    place = cell_name(analysis.experiment, explanation.cell.load)
    budget = _budget_of(reasons, explanation)
    costs = next(each for each in reasons.ledger.changes if _is_of(each, explanation))
    blocks: list[Block] = [
        *(Paragraph(text=text) for text in _verdicts(analysis, explanation)),
        Paragraph(text=ended(f"Evidence: {explanation.sentence}")),
    ]
    if budget.parts:
        blocks.append(change_table(analysis, budget, with_bars=True))
    table = cost_table(analysis, costs)
    blocks += [table] if table.rows else []
    title = f"{explanation.cell.workload}, {place}: {who}"
    return Section(anchor="comparison", title=title, blocks=tuple(blocks))


def _is_of(change: BudgetChange | LedgerChange, explanation: Explanation) -> bool:
    wanted = explanation.baseline, explanation.configuration, explanation.cell
    return (change.baseline, change.configuration, change.cell) == wanted


def _budget_of(reasons: Reasons, explanation: Explanation) -> BudgetChange:
    return next(each for each in reasons.budget.changes if _is_of(each, explanation))


def _verdicts(analysis: CampaignAnalysis, explanation: Explanation) -> list[str]:
    return [
        ended(verdict_sentence(analysis, comparison))
        for comparison in analysis.comparisons
        if (comparison.baseline, comparison.configuration)
        == (explanation.baseline, explanation.configuration)
        and (comparison.workload, comparison.load)
        == (explanation.cell.workload, explanation.cell.load)
    ]


def explain_json(analysis: CampaignAnalysis, choice: Choice) -> dict[str, Json]:
    """Return the same for programs."""
    reasons = analysis.reasons
    head: dict[str, Json] = {
        "format": FORMAT,
        "campaign": analysis.campaign_id,
        "name": analysis.experiment.name,
    }
    if reasons is None:
        return {**head, "comparisons": [], "waits": [], "watching": None, "missing": NOTHING}
    chosen = [each for each in reasons.explanations if choice.holds(each.cell)]
    return {
        **head,
        "comparisons": [_comparison_json(analysis, reasons, each) for each in chosen],
        "waits": waits_json(waits_of(analysis)),
        "watching": watching_json(reasons.watching),
        "missing": None,
    }


def _comparison_json(
    analysis: CampaignAnalysis, reasons: Reasons, explanation: Explanation
) -> dict[str, Json]:
    costs = next(each for each in reasons.ledger.changes if _is_of(each, explanation))
    return {
        "baseline": explanation.baseline,
        "configuration": explanation.configuration,
        **cell_json(explanation.cell),
        "verdict": "; ".join(_verdicts(analysis, explanation)) or None,
        "explanation": explanation.sentence,
        "parts": [part.value for part in explanation.parts],
        "differing": list(explanation.differing),
        "waterfall": budget_change(_budget_of(reasons, explanation)),
        "ledger": ledger_change(costs),
    }
