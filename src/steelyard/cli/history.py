"""``steelyard history``: effects over many campaigns, and where they changed."""

from pathlib import Path

import click

from steelyard.cli.options import PATH, renaming


@click.command("history")
@click.argument("directories", nargs=-1, type=PATH)
@click.option(
    "--as",
    "renamed",
    multiple=True,
    metavar="OLD=NEW",
    help="Count configuration OLD as NEW, where it was renamed; may be given several times.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--html", type=PATH, metavar="FILE", help="Write a page with the charts.")
def command(
    directories: tuple[Path, ...], *, renamed: tuple[str, ...], as_json: bool, html: Path | None
) -> None:
    """Show effects over the campaigns below DIRECTORIES, or below campaigns/.

    A series holds the effects of one configuration against the baseline of the same campaign, for
    one workload on one machine. It tells the level that the next campaign is to be compared with,
    and where the level changed: in a hundred campaigns without change, all series together raise
    a false alarm with a chance of at most 5 %.
    """
    from steelyard.answers.history import history_document, history_json, history_of
    from steelyard.cli import campaigns
    from steelyard.core.wording import RecordError
    from steelyard.gateways.files import write_text
    from steelyard.report.html import render_html

    names = dict(map(renaming, renamed))
    places = [str(place) for place in directories or (campaigns.HOME,)]
    history = history_of(campaigns.listed_campaigns(directories), names, places)
    document = history_document(history)
    if html is not None:
        write_text(html, render_html(document), error_type=RecordError)
    if as_json:
        campaigns.print_json(history_json(history))
        return
    campaigns.print_whole(document)
