"""Campaigns that run inside a cluster: packed, started as a Job, gone on with, and how they ended.

A packed campaign is the resolved experiment with every script in it. Nothing that it refers to has
to be there, no name is looked up again, and the seed is drawn: what was checked here is what runs
there.
"""

import base64
import gzip
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

import steelyard
from steelyard.campaign.run.session import Request
from steelyard.core.campaign import CampaignRecord, Status
from steelyard.core.errors import ExitCode, InputError, PreflightError
from steelyard.core.experiment import Experiment
from steelyard.core.findings import Finding
from steelyard.core.kubernetes import CLAIM, NAMESPACE, ObjectRef
from steelyard.core.target import (
    Target,
)
from steelyard.core.units import format_bytes
from steelyard.gateways.files import translated
from steelyard.gateways.host import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.places.job import finding
from steelyard.places.job import manifests as making
from steelyard.places.job.finding import Stand, Standing
from steelyard.places.job.manifests import JobPlan
from steelyard.places.kubernetes.belongings import object_name
from steelyard.places.kubernetes.permissions import Permission, Purpose, needed
from steelyard.record.directory import COPY_NOTE
from steelyard.targets.generators import deadline_s
from steelyard.targets.kubernetes_site import place_in, require_allowed, server_purposes

FORMAT: Final = 1
# A ConfigMap holds 1 MiB (Kubernetes documentation, "ConfigMaps"); its other parts need little.
MOST_BYTES: Final = 1024**2 - 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Packed:
    format: int
    version: str
    campaign_id: str
    text: str
    command: str
    experiment: Experiment
    findings: tuple[Finding, ...]


_PACKED: Final = TypeAdapter(_Packed)


def pack(request: Request) -> str:
    """Return a request as a ConfigMap takes it: compressed and in base64.

    Raises:
        InputError: It is too large for one.
    """
    packed = _Packed(
        format=FORMAT,
        version=steelyard.__version__,
        campaign_id=request.campaign_id,
        text=request.text,
        command=request.command,
        experiment=request.experiment,
        findings=request.findings,
    )
    content = base64.b64encode(gzip.compress(_PACKED.dump_json(packed), mtime=0))
    if len(content) > MOST_BYTES:
        raise InputError(
            f"the experiment with its scripts takes {format_bytes(len(content))} when it is"
            f" compressed, and a ConfigMap has room for {format_bytes(MOST_BYTES)}",
            hint="Have SQL make the data (generate_series), or run it from here, without"
            " --in-cluster.",
        )
    return content.decode()


def unpack(path: Path) -> Request:
    """Return the request in a file.

    Raises:
        InputError: It is none, or one of another version.
    """
    with translated(path, InputError):
        content = path.read_bytes()
    try:
        packed = _PACKED.validate_json(gzip.decompress(content))
    except (ValidationError, OSError, EOFError) as error:
        raise InputError(
            f"{path} holds no campaign that this version of Steelyard ({steelyard.__version__})"
            " can read",
            hint="Name an image with the version that started it: --image.",
        ) from error
    if packed.version != steelyard.__version__:
        raise InputError(
            f"the campaign was packed by Steelyard {packed.version}, and this is"
            f" {steelyard.__version__}",
            hint="Name an image with that version: --image.",
        )
    return Request(
        experiment=packed.experiment,
        text=packed.text,
        command=packed.command,
        findings=packed.findings,
        campaign_id=packed.campaign_id,
    )


def at_home(experiment: Experiment, namespace: str) -> Experiment:
    """Return an experiment as its Job runs it: in the cluster that it is in.

    Targets that name no namespace are in the Job's, where its account may work.
    """
    return replace(
        experiment,
        configurations=tuple(
            replace(configuration, target=_at_home(configuration.target, namespace))
            for configuration in experiment.configurations
        ),
    )


def _at_home(target: Target, namespace: str) -> Target:
    home = target.home
    if home is None:
        return target
    return target.at(replace(home, context=None, namespace=home.namespace or namespace))


IMAGE_VARIABLE: Final = "STEELYARD_IMAGE"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAsked:
    """What the user says of the Job.

    Attributes:
        image: With Steelyard in it, of this version.
        storage: Size of the volume for the record.
        storage_class: None: the cluster's default.
        account: A ServiceAccount that is there; None: one of its own.
    """

    image: str
    storage: str
    storage_class: str | None = None
    account: str | None = None


def plan_job(
    asked: JobAsked,
    experiment: Experiment,
    campaign_id: str,
    *,
    api: KubernetesApi,
    long_runs_s: float,
) -> JobPlan:
    """Return the Job that a campaign will be.

    Args:
        asked: What the user says of it.
        experiment: Whose targets share one place in one cluster.
        campaign_id: Of the new campaign.
        api: The cluster.
        long_runs_s: Seconds of the runs after the last block, which come on top of the budget.
    """
    namespace = place_in(experiment).namespace
    makes_all = experiment.makes_all_in_kubernetes
    if namespace is None and not makes_all:
        namespace = api.namespace  # where the server is that is there already
    absent = makes_all and (namespace is None or _is_absent(namespace, api))
    purposes = server_purposes(experiment)
    plan = JobPlan(
        campaign_id=campaign_id,
        namespace=namespace or object_name(campaign_id),
        makes_namespace=absent,
        image=asked.image,
        account=asked.account,
        purposes=purposes,
        storage=asked.storage,
        storage_class=asked.storage_class,
        deadline_s=deadline_s(experiment, long_runs_s),
    )
    return replace(plan, withheld=_withheld(plan, api))


def _is_absent(namespace: str, api: KubernetesApi) -> bool:
    return api.read(ObjectRef(kind=NAMESPACE, name=namespace)) is None


def _withheld(plan: JobPlan, api: KubernetesApi) -> tuple[str, ...]:
    """Return what this account cannot give to the Job's, because it may not do it itself.

    Kubernetes refuses a role that allows more than who makes it may (RBAC documentation, "Privilege
    escalation prevention"). What no campaign runs without was looked at before.
    """
    return tuple(
        each.resource
        for each in plan.permissions
        if each.optional and not all(_may(verb, each, plan, api) for verb in each.verbs)
    )


def require_startable(plan: JobPlan, api: KubernetesApi) -> None:
    """Look whether this account may start a campaign as a Job and read its record.

    Raises:
        PrivilegeError: With everything that it may not.
    """
    asked = {Purpose.RUNNER} if plan.account else {Purpose.RUNNER, Purpose.RUNNER_ACCOUNT}
    missing = []
    for each in needed(asked):
        verbs = tuple(verb for verb in each.verbs if not _may(verb, each, plan, api))
        if each.purpose in asked and verbs:
            missing.append((each, verbs))
    require_allowed(tuple(missing), api, plan.namespace)


def _may(verb: str, permission: Permission, plan: JobPlan, api: KubernetesApi) -> bool:
    where = "" if permission.cluster_wide else plan.namespace
    return api.allowed(verb, permission.kind, where, permission.part)


def packed(request: Request, plan: JobPlan) -> str:
    """Return a campaign as its Job takes it.

    Raises:
        InputError: It is too large.
    """
    return pack(
        replace(
            request,
            experiment=at_home(request.experiment, plan.namespace),
            campaign_id=plan.campaign_id,
        )
    )


def resume(plan: JobPlan, api: KubernetesApi, clock: Clock) -> None:
    """Make a new Job that goes on with a campaign whose Job ended early.

    Raises:
        PreflightError: Its Job is at work, or it was finished.
        TargetError: Its record is gone.
    """
    now = finding.standing(plan, api)
    if not now.is_over:
        raise PreflightError(
            f"campaign {plan.campaign_id} is {now.stand}", hint="Attach without --resume."
        )
    if now.stand is Stand.DONE:
        raise PreflightError(
            f"campaign {plan.campaign_id} is finished", hint="Attach without --resume."
        )
    making.make_again(plan, api, clock)


def visible(api: KubernetesApi) -> str:
    """Return where to look for campaigns: everywhere (empty), or where this account may look."""
    return "" if api.allowed("list", CLAIM) else api.namespace


def is_finished(record: CampaignRecord) -> bool:
    """Return whether a campaign came to its own end; nothing is left to go on with."""
    return record.status.is_finished


def code_of(ended: Standing, record: CampaignRecord) -> ExitCode:
    """Return the exit code of a campaign that is over; that of its pod, where it is known."""
    if ended.exit_code in set(ExitCode):
        return ExitCode(ended.exit_code)
    if is_finished(record):
        return ExitCode.DONE
    return ExitCode.INTERRUPTED if record.status is Status.INTERRUPTED else ExitCode.MEASUREMENT


def release(copy: Path) -> None:
    """Make a copy the record itself: nothing else is left of the campaign."""
    (copy / COPY_NOTE).unlink(missing_ok=True)
