"""``steelyard show``: one campaign, whatever state it is in."""

from pathlib import Path

import click

from steelyard.cli.options import campaign_argument, output_option


@click.command("show")
@campaign_argument
@output_option()
def command(directory: Path | None, *, form: str) -> None:
    """Show the campaign in DIRECTORY: experiment, plan, position, environment, leftovers.

    Without DIRECTORY the newest below campaigns/. Also while it runs. `steelyard report` shows
    its results.
    """
    from steelyard.answers.report import campaign_document, campaign_json
    from steelyard.cli import campaigns
    from steelyard.record.directory import require_campaign

    path = campaigns.named_or_newest(directory)
    require_campaign(path)
    found = campaigns.listed_campaign(path)
    analysis = campaigns.readable(found)
    campaigns.print_answer(
        form, lambda: campaign_document(found, analysis), lambda: campaign_json(found, analysis)
    )
