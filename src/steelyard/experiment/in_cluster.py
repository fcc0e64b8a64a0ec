"""Campaigns that run inside a cluster: started as a Job, gone on with, and how they ended."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from steelyard.experiment.kubernetes_manifests import deadline_s
from steelyard.experiment.kubernetes_needs import require_allowed, server_purposes
from steelyard.experiment.kubernetes_site import place_in
from steelyard.experiment.packing import at_home, pack
from steelyard.experiment.session import Request
from steelyard.gateways.clock import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.model.campaign import CampaignRecord
from steelyard.model.errors import ExitCode, PreflightError
from steelyard.model.experiment import Experiment
from steelyard.model.kubernetes import CLAIM, NAMESPACE, ObjectRef
from steelyard.model.plan import Status
from steelyard.platforms.job import finding, making
from steelyard.platforms.job.finding import Stand, Standing
from steelyard.platforms.job.plan import JobPlan
from steelyard.platforms.kubernetes.naming import object_name
from steelyard.platforms.kubernetes.permissions import Permission, Purpose, needed
from steelyard.record.directory import COPY_NOTE

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
