"""``steelyard list``: the campaigns that are there."""

from pathlib import Path

import click

from steelyard.cli.options import output_option


@click.command("list")
@click.argument("directories", nargs=-1, type=click.Path(path_type=Path))
@output_option()
def command(directories: tuple[Path, ...], *, form: str) -> None:
    """List the campaigns below DIRECTORIES, or below campaigns/, oldest first."""
    from steelyard.answers.report import listing_document, listing_json
    from steelyard.cli import campaigns

    found = campaigns.listed_campaigns(directories)
    places = ", ".join(map(str, directories or (campaigns.HOME,)))
    campaigns.print_answer(
        form, lambda: listing_document(found, places), lambda: listing_json(found)
    )
