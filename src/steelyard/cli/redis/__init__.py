"""``steelyard redis``: what is for Redis alone. Verbs are imported when they are used."""

import click

from steelyard.cli.lazy_group import LazyGroup

_VERBS = {
    "crash-test": "Count what is lost of acknowledged writes when the server dies.",
    "split": "Plan a primary without persistence and a replica that keeps the data.",
}


@click.group(cls=LazyGroup, verbs=_VERBS, package="steelyard.cli.redis")
def command() -> None:
    """Do what is for Redis alone; campaigns are `steelyard run`."""
