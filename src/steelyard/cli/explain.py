"""``steelyard explain``: which part of the latency changed, and what a transaction costs."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from steelyard.cli.completion import complete_cell
from steelyard.cli.options import campaign_argument, output_option

if TYPE_CHECKING:
    from steelyard.answers.reasons.section import Choice
    from steelyard.answers.results import CampaignAnalysis


@click.command("explain")
@campaign_argument
@click.option(
    "--cell",
    metavar="WORKLOAD[/CLIENTS]",
    shell_complete=complete_cell,
    help="Only this workload, or this load of it.",
)
@output_option()
def command(directory: Path | None, cell: str | None, form: str) -> None:
    """Explain the comparisons of the campaign in DIRECTORY from what was seen around its runs.

    For each: the verdict, which part of a transaction's time changed, the way from one latency to
    the other, and what a transaction costs on both sides, with intervals. Without
    DIRECTORY the newest campaign below campaigns/ is taken.
    """
    from steelyard.answers.reasons.section import explain_document, explain_json
    from steelyard.cli import campaigns
    from steelyard.record.directory import require_campaign

    path = campaigns.named_or_newest(directory)
    require_campaign(path)
    analysis = campaigns.readable(campaigns.listed_campaign(path))
    choice = _choice(analysis, cell)
    campaigns.print_answer(
        form, lambda: explain_document(analysis, choice), lambda: explain_json(analysis, choice)
    )


def _choice(analysis: "CampaignAnalysis", cell: str | None) -> "Choice":
    """Return what the option chooses.

    Raises:
        InputError: The campaign has no such cell.
    """
    from steelyard.answers.reasons.section import Choice
    from steelyard.core.wording import InputError

    if cell is None:
        return Choice()
    workload, _, clients = cell.rpartition("/") if "/" in cell else (cell, "", "")
    known = [each.name for each in analysis.experiment.workloads]
    loads = dict.fromkeys(str(load.clients) for load in analysis.experiment.loads)
    if workload not in known or (clients and clients not in loads):
        raise InputError(
            f"the campaign has no cell {cell}",
            hint=f"Its workloads: {', '.join(known)}; numbers of clients: {', '.join(loads)}.",
        )
    return Choice(workload=workload, clients=int(clients) if clients else None)
