"""The objects of a campaign inside a cluster, made from its plan.

The volume's claim owns all others in its namespace: when it is deleted, they go too, and as long
as it is there the campaign can be found, read and gone on with, whatever became of the Job.
"""

from typing import Any, Final

from steelyard.model.kubernetes import (
    CLAIM,
    CONFIG_MAP,
    JOB,
    NAMESPACE,
    POD,
    RUNNER,
    Kind,
    Manifest,
    campaign_labels,
    owned_by,
)
from steelyard.platforms.job.plan import JobPlan, plan_text
from steelyard.platforms.kubernetes.rbac import Grant

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
    return {
        "apiVersion": NAMESPACE.api_version,
        "kind": NAMESPACE.name,
        "metadata": {"name": plan.namespace, "labels": campaign_labels(plan.campaign_id)},
    }


def claim(plan: JobPlan) -> Manifest:
    """Return the claim of the volume that the record is written to."""
    chosen = {"storageClassName": plan.storage_class} if plan.storage_class else {}
    made = _object(CLAIM, plan.claim, plan)
    return {
        **made,
        "metadata": {**made["metadata"], "annotations": {KEPT_IN: plan.request}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": plan.storage}},
            **chosen,
        },
    }


def request(plan: JobPlan, packed: str) -> Manifest:
    """Return the ConfigMap with the plan and the experiment, packed and coded for it."""
    return {
        **_object(CONFIG_MAP, plan.request, plan),
        "data": {PLAN_KEY: plan_text(plan)},
        "binaryData": {REQUEST_KEY: packed},
    }


def grant(plan: JobPlan) -> Grant:
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
    template = {
        "metadata": {"labels": campaign_labels(plan.campaign_id, RUNNER)},
        "spec": {
            **_pod(plan, ("kubernetes", "campaign"), read_only=False),
            "serviceAccountName": plan.account or plan.name,
            "terminationGracePeriodSeconds": _ENDING_S,
        },
    }
    taken_away = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    return {
        **_object(JOB, plan.name, plan),
        "spec": {
            "backoffLimit": 0,
            "podFailurePolicy": {"rules": [taken_away]},
            "activeDeadlineSeconds": plan.deadline_s,
            "ttlSecondsAfterFinished": _KEPT_S,
            "template": template,
        },
    }


def reader(plan: JobPlan) -> Manifest:
    """Return a pod that waits, with the record before it."""
    spec = _pod(plan, (), read_only=True)
    spec["containers"][0]["command"] = ["sleep", str(_READING_S)]
    return {
        **_object(POD, plan.reader, plan, role=READER_ROLE),
        "spec": {
            **spec,
            "activeDeadlineSeconds": _READING_S,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
        },
    }


def owned(manifest: Manifest, owner: Manifest | None) -> Manifest:
    """Return an object that goes with the claim, where it can: in the claim's namespace."""
    metadata = dict(manifest["metadata"])
    if owner is not None and metadata.get("namespace") == owner["metadata"]["namespace"]:
        metadata["ownerReferences"] = owned_by(owner)
    return {**manifest, "metadata": metadata}


def _object(kind: Kind, name: str, plan: JobPlan, *, role: str = RUNNER) -> dict[str, Any]:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {
            "name": name,
            "namespace": plan.namespace,
            "labels": campaign_labels(plan.campaign_id, role),
        },
    }


def _pod(plan: JobPlan, arguments: tuple[str, ...], *, read_only: bool) -> dict[str, Any]:
    """Return the spec of a pod that the strictest Pod Security Standard lets in."""
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
    return {
        "restartPolicy": "Never",
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": CONTAINER,
                "image": plan.image,
                "imagePullPolicy": "IfNotPresent",
                "args": list(arguments),
                "env": [{"name": "STEELYARD_CACHE", "value": _CACHE}],
                "resources": _resources(small=read_only),
                "volumeMounts": mounts,
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
        "volumes": volumes,
    }


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
