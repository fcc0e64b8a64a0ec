"""``steelyard show``: one campaign, whatever state it is in."""

from pathlib import Path

import click

from steelyard.cli.completion import complete_campaign


@click.command("show")
@click.argument("directory", type=click.Path(path_type=Path), shell_complete=complete_campaign)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(directory: Path, *, as_json: bool) -> None:
    """Show the campaign in DIRECTORY: experiment, plan, position, environment, leftovers.

    Also while it runs. `steelyard report` shows its results.
    """
    from steelyard.answers.report import campaign_document, campaign_json
    from steelyard.cli import campaigns
    from steelyard.record.directory import require_campaign

    require_campaign(directory)
    found = campaigns.listed_campaign(directory)
    analysis = campaigns.readable(found)
    if as_json:
        campaigns.print_json(campaign_json(found, analysis))
        return
    campaigns.print_whole(campaign_document(found, analysis))
