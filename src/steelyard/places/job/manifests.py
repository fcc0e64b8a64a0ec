"""The objects of a campaign inside a cluster: planned, made, and removed.

The volume's claim owns all others in its namespace: when it is deleted, they go too, and as long
as it is there the campaign can be found, read and gone on with, whatever became of the Job.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from steelyard.core.errors import (
    LeftBehindError,
    PreflightError,
    RecordError,
    SteelyardError,
    TargetError,
)
from steelyard.core.kubernetes import (
    CAMPAIGN,
    CLAIM,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    CONFIG_MAP,
    JOB,
    NAMESPACE,
    POD,
    RUNNER,
    Kind,
    Manifest,
    ObjectRef,
    campaign_labels,
    owned_by,
    ref_of,
)
from steelyard.gateways.host import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.places.kubernetes import permissions as rbac
from steelyard.places.kubernetes.belongings import object_name
from steelyard.places.kubernetes.permissions import Grant, Permission, Purpose, needed
from steelyard.places.kubernetes.pods import claim_spec, restricted_container, restricted_pod

_RECORD: Final = "record"
RECORD_SIZE: Final = "2Gi"  # records of an hour take some ten megabytes; kept logs take more


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """A campaign as a Job; it is kept beside it, so that it is found whole by its label.

    Attributes:
        campaign_id: Known before the campaign begins, because everything carries it.
        namespace: Of the Job, of the volume, and of what the campaign makes.
        makes_namespace: It was made for this campaign and goes with it.
        image: With Steelyard in it.
        account: A ServiceAccount that is there; None: one of its own, with a role.
        purposes: What its own account is for.
        withheld: Resources that its account does without, because who starts it may not give them.
        storage: Size of the volume for the record.
        storage_class: None: the cluster's default.
        deadline_s: After this the cluster ends the Job, whatever it does.
    """

    campaign_id: str
    namespace: str
    makes_namespace: bool = False
    image: str
    account: str | None = None
    purposes: tuple[Purpose, ...] = ()
    withheld: tuple[str, ...] = ()
    storage: str = RECORD_SIZE
    storage_class: str | None = None
    deadline_s: int

    @property
    def name(self) -> str:
        """Return the name of the Job, of its account and of their roles."""
        return job_name(self.campaign_id)

    @property
    def claim(self) -> str:
        """Return the name of the volume's claim."""
        return object_name(self.campaign_id, _RECORD)

    @property
    def request(self) -> str:
        """Return the name of the ConfigMap with the experiment and this plan."""
        return object_name(self.campaign_id, "request")

    @property
    def reader(self) -> str:
        """Return the name of the pod that reads the record when the Job's is gone."""
        return object_name(self.campaign_id, "reader")

    @property
    def permissions(self) -> tuple[Permission, ...]:
        """Return what its own account may; nothing where it has none."""
        if self.account:
            return ()
        asked = needed((Purpose.INSIDE, *self.purposes))
        return tuple(each for each in asked if each.resource not in self.withheld)


def job_name(campaign_id: str) -> str:
    """Return the name of the Job that runs a campaign, if one does."""
    return object_name(campaign_id, "job")


_PLAN: Final = TypeAdapter(JobPlan)


def plan_text(plan: JobPlan) -> str:
    """Return a plan as it is kept."""
    return _PLAN.dump_json(plan, indent=1).decode()


def read_plan(text: str, name: str) -> JobPlan:
    """Return a plan as it was kept.

    Raises:
        RecordError: Another version kept it, or nobody.
    """
    try:
        return _PLAN.validate_json(text)
    except ValidationError as error:
        raise RecordError(
            f"what is kept of the campaign in ConfigMap {name} cannot be read",
            hint="Use the version of Steelyard that started it.",
        ) from error


CONTAINER: Final = "steelyard"
READER_ROLE: Final = "reader"
RECORD: Final = "/record/campaign"
REQUEST: Final = "/request"
REQUEST_KEY: Final = "request.json.gz"
PLAN_KEY: Final = "plan.json"
KEPT_IN: Final = "steelyard/request"  # annotation of the claim: the ConfigMap with the plan
_VOLUME: Final = "/record"
# Beside the record: the registry there says what a pod that died without a word had changed.
_CACHE: Final = "/record/cache"
# Transaction logs that were fetched, until they are read; containers get 64 MiB otherwise. A guess.
_LOGS: Final = "512Mi"
_USER: Final = 10001  # any but root; the image's own account has this number
_KEPT_S: Final = 7 * 24 * 3600  # how long an ended Job stays to be asked; its volume stays longer
_ENDING_S: Final = 300  # for removing Clusters and their volumes in order
_READING_S: Final = 3600


def namespace(plan: JobPlan) -> Manifest:
    """Return the namespace that is made for the campaign."""
    return NAMESPACE.manifest(plan.namespace, labels=campaign_labels(plan.campaign_id))


def claim(plan: JobPlan) -> Manifest:
    """Return the claim of the volume that the record is written to."""
    made = _object(CLAIM, plan.claim, plan, spec=claim_spec(plan.storage, plan.storage_class))
    made["metadata"]["annotations"] = {KEPT_IN: plan.request}
    return made


def request(plan: JobPlan, packed: str) -> Manifest:
    """Return the ConfigMap with the plan and the experiment, packed and coded for it."""
    data, packed_data = {PLAN_KEY: plan_text(plan)}, {REQUEST_KEY: packed}
    return _object(CONFIG_MAP, plan.request, plan, data=data, binaryData=packed_data)


def grant_of(plan: JobPlan) -> Grant:
    """Return what the campaign's own account may where."""
    return Grant(
        name=plan.name,
        account_namespace=plan.namespace,
        namespaces=(plan.namespace,),
        permissions=plan.permissions,
        labels=campaign_labels(plan.campaign_id, RUNNER),
    )


def job(plan: JobPlan) -> Manifest:
    """Return the Job.

    A pod that the cluster itself takes away (drain, eviction, preemption) is made again and goes on
    with the record; one that fails is not.
    """
    pod = _pod(
        plan,
        ("kubernetes", "campaign"),
        read_only=False,
        serviceAccountName=plan.account or plan.name,
        terminationGracePeriodSeconds=_ENDING_S,
    )
    taken_away = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    spec = {
        "backoffLimit": 0,
        "podFailurePolicy": {"rules": [taken_away]},
        "activeDeadlineSeconds": plan.deadline_s,
        "ttlSecondsAfterFinished": _KEPT_S,
        "template": {
            "metadata": {"labels": campaign_labels(plan.campaign_id, RUNNER)},
            "spec": pod,
        },
    }
    return _object(JOB, plan.name, plan, spec=spec)


def reader(plan: JobPlan) -> Manifest:
    """Return a pod that waits, with the record before it."""
    pod = _pod(
        plan,
        (),
        read_only=True,
        activeDeadlineSeconds=_READING_S,
        terminationGracePeriodSeconds=0,
        automountServiceAccountToken=False,
    )
    pod["containers"][0]["command"] = ["sleep", str(_READING_S)]
    return _object(POD, plan.reader, plan, role=READER_ROLE, spec=pod)


def owned(manifest: Manifest, owner: Manifest | None) -> Manifest:
    """Return an object that goes with the claim, where it can: in the claim's namespace."""
    metadata = dict(manifest["metadata"])
    if owner is not None and metadata.get("namespace") == owner["metadata"]["namespace"]:
        metadata["ownerReferences"] = owned_by(owner)
    return {**manifest, "metadata": metadata}


def _object(
    kind: Kind, name: str, plan: JobPlan, *, role: str = RUNNER, **rest: object
) -> dict[str, Any]:
    labels = campaign_labels(plan.campaign_id, role)
    return kind.manifest(name, namespace=plan.namespace, labels=labels, **rest)


def _pod(
    plan: JobPlan, arguments: tuple[str, ...], *, read_only: bool, **more: object
) -> dict[str, Any]:
    """Return the spec of a pod with the record on its volume."""
    mounts = [{"name": "record", "mountPath": _VOLUME}, {"name": "tmp", "mountPath": "/tmp"}]  # noqa: S108 - in the pod
    mounts.append({"name": "memory", "mountPath": "/dev/shm"})  # noqa: S108 - in the pod
    volumes: list[dict[str, Any]] = [
        {"name": "record", "persistentVolumeClaim": {"claimName": plan.claim}},
        {"name": "tmp", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": _LOGS}},
    ]
    if arguments:
        mounts.append({"name": "request", "mountPath": REQUEST})
        volumes.append({"name": "request", "configMap": {"name": plan.request}})
    container = restricted_container(
        CONTAINER,
        plan.image,
        args=list(arguments),
        env=[{"name": "STEELYARD_CACHE", "value": _CACHE}],
        resources=_resources(small=read_only),
        volumeMounts=mounts,
    )
    return restricted_pod(
        container,
        user=_USER,
        security={"fsGroup": _USER, "fsGroupChangePolicy": "OnRootMismatch"},
        restartPolicy="Never",
        volumes=volumes,
        **more,
    )


def _resources(*, small: bool) -> dict[str, Any]:
    """Return what the pod asks for; a guess, measured neither on large nor on long campaigns.

    Between two runs the analysis takes a CPU for a moment; during a run Steelyard only waits.
    """
    if small:
        return {
            "requests": {"cpu": "10m", "memory": "64Mi"},
            "limits": {"cpu": "1", "memory": "512Mi"},
        }
    return {
        "requests": {"cpu": "200m", "memory": "256Mi"},
        "limits": {"cpu": "1", "memory": "2Gi"},
    }


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
            made = api.apply(owned(manifest, owner))
            owner = made if ref_of(manifest).kind.name == CLAIM.name else owner
    except BaseException:
        _remove_quietly(plan, api)
        raise


def manifests_of(plan: JobPlan, packed: str) -> Iterator[Manifest]:
    """Yield everything in the order to make it; what comes after the claim goes with it."""
    if plan.makes_namespace:
        yield namespace(plan)
    yield claim(plan)
    yield request(plan, packed)
    if not plan.account:
        grant = grant_of(plan)
        yield rbac.account(grant)
        yield from rbac.grants(grant)
    yield job(plan)


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
    api.apply(owned(job(plan), owner))


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
        name = grant_of(plan).cluster_name
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
