"""What the command line says of a Kubernetes cluster: what would be made, whose place it is."""

import sys
from pathlib import Path

import click

from steelyard.cli.manifest_text import manifest_text
from steelyard.experiment import session
from steelyard.experiment.assembly import Assembly
from steelyard.experiment.kubernetes_manifests import campaign_manifests
from steelyard.model.errors import PreflightError
from steelyard.model.experiment import Experiment


def print_manifests(experiment: Experiment, assembly: Assembly, path: Path) -> None:
    """Print all objects that a campaign would make, for `kubectl apply -f -`."""
    site = assembly.site
    assert site is not None  # noqa: S101 - the caller saw that it is in a cluster
    assert site.plan is not None  # noqa: S101 - every assembly there has generators
    campaign_id = session.new_id(path)
    manifests = campaign_manifests(
        experiment,
        site.plan,
        campaign_id,
        namespace=site.namespace if site.is_there else None,
    )
    anew = "each visit makes its own anew" if experiment.is_made_anew else "one is made at most"
    kind = "Redis server" if experiment.redis_in_kubernetes else "Cluster"
    head = [
        f"What a campaign of this experiment makes in {site.api.context}; its id is drawn anew.",
        f"A {kind} is here for each treatment; {anew}. The password is drawn at the start.",
    ]
    click.echo(manifest_text(manifests, head=head), nl=False)


def require_agreement(assembly: Assembly, *, yes: bool) -> None:
    """Ask before load is put into a namespace that was not made for the campaign.

    Raises:
        PreflightError: Nobody agreed.
    """
    site = assembly.site
    if site is None or site.is_own or yes:
        return
    fact = (
        f"the namespace {site.namespace} of {site.api.context} was not made for this campaign; the"
        " load will be felt by whatever else runs on its nodes"
    )
    if not sys.stdin.isatty():
        raise PreflightError(fact, hint="Add --yes if that is meant, or leave `namespace` out.")
    click.echo(f"warning: {fact}", err=True)
    if not click.confirm("Put the load there?", err=True):
        raise PreflightError("nothing was started", hint="Name another place with --namespace.")
