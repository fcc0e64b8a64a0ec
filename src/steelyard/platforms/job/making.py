"""Making the objects of a campaign inside a cluster, and removing them."""

from collections.abc import Iterator, Mapping
from typing import Final

from steelyard.gateways.clock import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.model.errors import LeftBehindError, PreflightError, SteelyardError, TargetError
from steelyard.model.kubernetes import (
    CAMPAIGN,
    CLAIM,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    CONFIG_MAP,
    JOB,
    NAMESPACE,
    POD,
    RUNNER,
    Manifest,
    ObjectRef,
    campaign_labels,
    ref_of,
)
from steelyard.platforms.job import manifests
from steelyard.platforms.job.plan import JobPlan
from steelyard.platforms.kubernetes import rbac
from steelyard.platforms.kubernetes.naming import object_name

_GONE_S: Final = 600.0  # a Job's pod may need its whole time of grace to clear up
_PAUSE_S: Final = 1.0


def make(plan: JobPlan, packed: str, api: KubernetesApi) -> None:
    """Make everything, the Job last; what fails half-way is removed again.

    Raises:
        SteelyardError: Something was refused, and nothing is left.
    """
    _require_unused(plan, api)
    owner: Manifest | None = None
    try:
        for manifest in manifests_of(plan, packed):
            made = api.apply(manifests.owned(manifest, owner))
            owner = made if ref_of(manifest).kind.name == CLAIM.name else owner
    except BaseException:
        _remove_quietly(plan, api)
        raise


def manifests_of(plan: JobPlan, packed: str) -> Iterator[Manifest]:
    """Yield everything in the order to make it; what comes after the claim goes with it."""
    if plan.makes_namespace:
        yield manifests.namespace(plan)
    yield manifests.claim(plan)
    yield manifests.request(plan, packed)
    if not plan.account:
        grant = manifests.grant(plan)
        yield rbac.account(grant)
        yield from rbac.grants(grant)
    yield manifests.job(plan)


def make_again(plan: JobPlan, api: KubernetesApi, clock: Clock) -> None:
    """Make the Job anew, in place of one that ended; it goes on with the record.

    Raises:
        TargetError: The volume is gone.
    """
    claim = ObjectRef(kind=CLAIM, name=plan.claim, namespace=plan.namespace)
    owner = api.read(claim)
    if owner is None:
        raise TargetError(f"{claim.label} is not there", hint="The record is gone: start anew.")
    remove_one(ObjectRef(kind=JOB, name=plan.name, namespace=plan.namespace), plan, api, clock)
    remove_one(_anchor(plan), plan, api, clock)  # what goes with the old Job goes before the new
    api.apply(manifests.owned(manifests.job(plan), owner))


def remove(plan: JobPlan, api: KubernetesApi, clock: Clock) -> None:
    """Remove everything of the campaign, the record on its volume too, each whatever of others.

    Raises:
        LeftBehindError: Something is still there.
    """
    troubles = []
    for ref in _all(plan):
        try:
            remove_one(ref, plan, api, clock)
        except SteelyardError as error:
            troubles.append(error)
    if troubles:
        raise LeftBehindError(
            "; ".join(error.message for error in troubles),
            hint=" ".join(dict.fromkeys(error.hint for error in troubles if error.hint)),
        )


def remove_one(ref: ObjectRef, plan: JobPlan, api: KubernetesApi, clock: Clock) -> None:
    """Remove one object of the campaign, and wait until it is gone with its pods.

    Raises:
        LeftBehindError: It does not go away.
    """
    found = api.read(ref)
    if found is None or not _is_of(found["metadata"], plan):
        return
    api.delete(ref)
    deadline = clock.monotonic() + _GONE_S
    while api.read(ref) is not None or (ref.kind == JOB and _pods(plan, api)):
        if clock.monotonic() > deadline:
            raise LeftBehindError(
                f"{ref.label} does not go away",
                hint="Look at it with `kubectl describe`, then run `steelyard clean`.",
            )
        clock.sleep(_PAUSE_S)


def _require_unused(plan: JobPlan, api: KubernetesApi) -> None:
    for kind, name in ((JOB, plan.name), (CLAIM, plan.claim), (CONFIG_MAP, plan.request)):
        ref = ObjectRef(kind=kind, name=name, namespace=plan.namespace)
        if api.read(ref) is not None:
            raise PreflightError(f"{ref.label} is there already", hint="Start it again.")


def _all(plan: JobPlan) -> Iterator[ObjectRef]:
    """Yield what does not go with something before it, in the order to remove it."""
    here = plan.namespace
    yield ObjectRef(kind=JOB, name=plan.name, namespace=here)
    yield ObjectRef(kind=POD, name=plan.reader, namespace=here)
    yield _anchor(plan)
    if any(each.cluster_wide for each in plan.permissions):
        name = manifests.grant(plan).cluster_name
        yield ObjectRef(kind=CLUSTER_ROLE_BINDING, name=name)
        yield ObjectRef(kind=CLUSTER_ROLE, name=name)
    yield ObjectRef(kind=CLAIM, name=plan.claim, namespace=here)
    if plan.makes_namespace:
        yield ObjectRef(kind=NAMESPACE, name=here)


def _anchor(plan: JobPlan) -> ObjectRef:
    """Return what all that the campaign itself made goes with, if it could not clear up."""
    return ObjectRef(kind=CONFIG_MAP, name=object_name(plan.campaign_id), namespace=plan.namespace)


def _pods(plan: JobPlan, api: KubernetesApi) -> bool:
    labels = campaign_labels(plan.campaign_id, RUNNER)
    return bool(api.list(POD, plan.namespace, labels))


def _is_of(metadata: Mapping[str, Mapping[str, str]], plan: JobPlan) -> bool:
    """Return whether an object carries the campaign's label; nothing else is deleted."""
    labels = metadata.get("labels") or {}
    return labels.get(CAMPAIGN) == campaign_labels(plan.campaign_id)[CAMPAIGN]


def _remove_quietly(plan: JobPlan, api: KubernetesApi) -> None:
    """Delete what was made, without waiting; what cannot be is found by its label."""
    for ref in _all(plan):
        try:
            found = api.read(ref)
            if found is not None and _is_of(found["metadata"], plan):
                api.delete(ref)
        except SteelyardError:
            continue
