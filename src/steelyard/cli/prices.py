"""``steelyard prices``: what plans and reports take for the prices of rented servers."""

import click


@click.command("prices")
def command() -> None:
    """Print the price file that comes with Steelyard.

    Only verified prices of AWS are in it. A copy of it, with prices of your own, takes its place by
    --prices FILE.
    """
    from steelyard.targets.prices import own_text

    click.echo(own_text(), nl=False)
