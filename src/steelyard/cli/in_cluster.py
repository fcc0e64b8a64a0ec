"""What ``run --in-cluster`` does: check here, make the Job there, attach to it."""

from dataclasses import dataclass
from pathlib import Path

import click

from steelyard.campaign.away import packing as in_cluster
from steelyard.campaign.away.packing import JobAsked
from steelyard.campaign.run import session
from steelyard.cli import attaching, launching
from steelyard.cli.attaching import AttachOptions
from steelyard.cli.launching import RunOptions
from steelyard.cli.manifest_text import manifest_text
from steelyard.core.errors import ExitCode, InputError
from steelyard.core.experiment import Experiment
from steelyard.places.job import manifests as making
from steelyard.record.directory import require_unused
from steelyard.targets.kubernetes_site import place_in


@dataclass(frozen=True, slots=True, kw_only=True)
class InsideOptions:
    """What the command line says of the Job."""

    image: str | None
    detach: bool
    storage_class: str | None
    record_size: str
    service_account: str | None


def run_inside(options: RunOptions, inside: InsideOptions) -> int:
    """Run a new campaign as a Job, and attach to it unless told not to; return the exit code."""
    doors = launching.real_doors()
    asked = _asked(inside)
    loaded = launching.load(options, doors)
    context = _context(loaded.experiment)
    api = doors.kubernetes.connect(context)
    command = launching.command_of(loaded, options, "--in-cluster", "--image", asked.image)
    checked = launching.check(loaded, command, options, doors)
    path = options.out or session.default_directory(loaded.experiment.name, doors)
    require_unused(path)
    plan = in_cluster.plan_job(
        asked,
        loaded.experiment,
        session.new_id(path),
        api=api,
        long_runs_s=checked.expected.sustained_most_s,
    )
    in_cluster.require_startable(plan, api)
    packed = in_cluster.packed(checked.request, plan)
    if options.dry_run:
        click.echo(manifest_text(making.manifests_of(plan, packed)), nl=False)
        return ExitCode.DONE
    launching.foretell(checked, path, options)
    making.make(plan, packed, api)
    attach = _attach_options(options, plan.campaign_id, path, context)
    if inside.detach:
        _say_where(attaching.again(plan, context), plan.campaign_id, plan.namespace, options)
        return ExitCode.DONE
    if not options.quiet:
        click.echo(f"It runs as Job {plan.name} in namespace {plan.namespace}.", err=True)
    return attaching.attend(plan, api, doors, attach)


def _context(experiment: Experiment) -> str | None:
    if not experiment.is_in_kubernetes:
        raise InputError(
            "--in-cluster is for targets in Kubernetes, and the experiment has none",
            hint="Leave it out, or give a target: --target cloudnative-pg.",
        )
    return place_in(experiment).context


def _asked(inside: InsideOptions) -> JobAsked:
    if not inside.image:
        raise InputError(
            "--in-cluster needs an image with Steelyard in it",
            hint="Build it from the Containerfile, push it where the cluster pulls from, and name"
            f" it by --image or {in_cluster.IMAGE_VARIABLE}.",
        )
    return JobAsked(
        image=inside.image,
        storage=inside.record_size,
        storage_class=inside.storage_class,
        account=inside.service_account,
    )


def _attach_options(
    options: RunOptions, campaign_id: str, path: Path, context: str | None
) -> AttachOptions:
    return AttachOptions(
        name=campaign_id,
        context=context,
        namespace=options.namespace,
        out=path,
        yes=options.yes,
        as_json=options.as_json,
        quiet=options.quiet,
    )


def _say_where(command: str, campaign_id: str, namespace: str, options: RunOptions) -> None:
    if options.as_json:
        found = {"format": 1, "campaign": campaign_id, "namespace": namespace, "attach": command}
        click.echo(session.as_json(found), nl=False)
    else:
        click.echo(f"Campaign {campaign_id} runs in namespace {namespace}: {command}")
