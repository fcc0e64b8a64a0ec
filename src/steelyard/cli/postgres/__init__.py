"""``steelyard postgres``: what is for PostgreSQL alone. Verbs are imported when they are used."""

import click

from steelyard.cli.lazy_group import LazyGroup

_VERBS = {
    "crash-test": "Count what is lost of acknowledged commits when the server dies.",
}


@click.group(cls=LazyGroup, verbs=_VERBS, package="steelyard.cli.postgres")
def command() -> None:
    """Do what is for PostgreSQL alone; campaigns are `steelyard run`."""
