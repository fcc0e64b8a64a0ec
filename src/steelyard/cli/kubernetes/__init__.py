"""``steelyard kubernetes``: what a cluster needs for campaigns. Verbs are imported when used."""

import click

from steelyard.cli.lazy_group import LazyGroup

_VERBS = {
    "rbac": "Print the least RBAC that campaigns need, for kubectl apply -f -.",
    "storage-classes": "Print the storage classes that the presets for Kubernetes name.",
}


@click.group(cls=LazyGroup, verbs=_VERBS, package="steelyard.cli.kubernetes", unlisted={"campaign"})
def command() -> None:
    """Print what a cluster needs for campaigns, as manifests for `kubectl apply -f -`."""
