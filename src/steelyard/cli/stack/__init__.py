"""``steelyard stack``: the tuning stack as one plan. Each verb is imported when it is used."""

import click

from steelyard.cli.lazy_group import LazyGroup

_VERBS = {
    "plan": "Make one consistent plan for all layers, with ready files.",
    "apply": "Put a plan into effect, one setting at a time, each verified.",
    "verify": "Check for every setting of a plan whether it is in effect.",
    "revert": "Restore exactly what was there before a plan was applied.",
}


@click.group(cls=LazyGroup, verbs=_VERBS, package="steelyard.cli.stack")
def command() -> None:
    """Plan, apply, verify and revert the tuning stack, from the hypervisor to PostgreSQL."""
