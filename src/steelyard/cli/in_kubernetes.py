"""What the command line says of a Kubernetes cluster: what would be made, whose place it is."""

import sys
from pathlib import Path
from typing import Final

import click

from steelyard.campaign.run import session
from steelyard.cli.redis.split import manifest_text
from steelyard.core.errors import PreflightError, SteelyardError
from steelyard.core.experiment import Experiment
from steelyard.core.kubernetes import SecretRef
from steelyard.places.kubernetes.generator_manifest import GeneratorPlan
from steelyard.targets.assembly import Assembly
from steelyard.targets.generators import campaign_manifests, generator_plan
from steelyard.targets.kubernetes_site import place_in

_OPERATORS: Final = "default-of-the-operator"


def print_manifests(experiment: Experiment, assembly: Assembly, path: Path) -> None:
    """Print all objects that a campaign would make, for `kubectl apply -f -`."""
    site = assembly.site
    assert site is not None  # noqa: S101 - the caller saw that it is in a cluster
    assert site.plan is not None  # noqa: S101 - every assembly there has generators
    namespace = site.namespace if site.is_there else None
    _print(experiment, site.plan, path, namespace=namespace, where=f"in {site.api.context}")


def print_unseen(experiment: Experiment, path: Path, why: SteelyardError) -> None:
    """Print the same without a cluster: as the file says, and what nobody could check.

    Args:
        experiment: Whose servers are all made.
        path: Of the campaign, whose id is in names.
        why: No cluster could be asked.
    """
    place = place_in(experiment)
    named = [getattr(target, "image", None) for target in experiment.made_targets.values()]
    image = place.generators.image or next(filter(None, named), _OPERATORS)
    default = f" The image `{_OPERATORS}` stands for the one that the operator takes."
    click.echo(
        f"warning: {why.message}, so no cluster was asked. Not checked: the operator and its"
        " version, kinds and fields of objects, storage classes, settings, permissions, quotas, and"
        " room on the nodes; minutes and disk are not forecast."
        f"{default if image == _OPERATORS else ''}",
        err=True,
    )
    # The Secret is that of the campaign, like its namespace.
    plan = generator_plan(experiment, place, image, SecretRef(namespace="", name=""))
    _print(experiment, plan, path, namespace=place.namespace, where="in a cluster")


def _print(
    experiment: Experiment, plan: GeneratorPlan, path: Path, *, namespace: str | None, where: str
) -> None:
    campaign_id = session.new_id(path)
    manifests = campaign_manifests(experiment, plan, campaign_id, namespace=namespace)
    anew = "each visit makes its own anew" if experiment.is_made_anew else "one is made at most"
    kind = "Redis server" if experiment.redis_in_kubernetes else "Cluster"
    head = [
        f"What a campaign of this experiment makes {where}; its id is drawn anew.",
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
