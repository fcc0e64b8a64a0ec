"""Why a Cluster does not become healthy: what of its claims, jobs and pods is stuck.

Looked for in the order in which a Cluster comes up. What it takes to see is listed anew each time,
so who asks does not ask often.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.model.errors import PrivilegeError, SteelyardError
from steelyard.model.kubernetes import (
    CLAIM,
    EVENT,
    JOB,
    POD,
    QUOTA,
    ContainerRef,
    Kind,
    Manifest,
    ObjectRef,
    ref_of,
)
from steelyard.platforms.cloudnative_pg.server_words import last_words
from steelyard.platforms.cloudnative_pg.state import OF_CLUSTER, ClusterState
from steelyard.platforms.kubernetes.claims import claim_obstacle
from steelyard.platforms.kubernetes.pod_state import is_ready, obstacle

# How long something is borne before waiting is given up; guesses all.
_AT_ONCE_S: Final = 0.0
_SHORTLY_S: Final = 20.0  # a class or a quota may be made by the same hand, a moment later
_WHILE_S: Final = 90.0  # a node may come, a registry answer again, a slow provisioner work
_LOG_LINES: Final = 300
_FINAL_PHASES: Final = (
    "Cluster is unrecoverable",
    "Cluster has incomplete or invalid image catalog",
    "Cluster cannot proceed to reconciliation",
    "Unable to create required cluster objects",
    "Waiting for user action",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What keeps a Cluster from becoming healthy.

    Attributes:
        message: A sentence of fact.
        borne_s: How long it may last before waiting is given up.
    """

    message: str
    hint: str = ""
    borne_s: float = _WHILE_S


def trouble_of(api: KubernetesApi, state: ClusterState) -> Trouble | None:
    """Return what is stuck, or None where nothing is known to be."""
    return next(_troubles(api, state), None)


def _troubles(api: KubernetesApi, state: ClusterState) -> Iterator[Trouble]:
    labels = {OF_CLUSTER: state.ref.name}
    claims = api.list(CLAIM, state.ref.namespace, labels)
    yield from _of_phase(api, state, claims)
    for claim in claims:
        yield from _of_claim(api, claim)
    events = seen(api, EVENT, state.ref.namespace)
    for job in seen(api, JOB, state.ref.namespace, labels):
        yield from _of_job(api, job, events)
    yield from _of_quota(state, events)
    for pod in api.list(POD, state.ref.namespace, labels):
        yield from _of_pod(api, pod)


def seen(
    api: KubernetesApi, kind: Kind, namespace: str, labels: Mapping[str, str] | None = None
) -> tuple[Manifest, ...]:
    """Return objects that only say more, nothing where this account may not see them."""
    try:
        return api.list(kind, namespace, labels)
    except PrivilegeError:
        return ()


def _of_phase(
    api: KubernetesApi, state: ClusterState, claims: tuple[Manifest, ...]
) -> Iterator[Trouble]:
    if not state.phase.startswith(_FINAL_PHASES):
        return
    quotas = [] if claims else list(_full_quotas(api, state.ref.namespace))
    if quotas:  # the operator forgets why it got no claim, and speaks of a lost one
        yield Trouble(
            message=f"a quota of the namespace leaves no room for its volumes: {'; '.join(quotas)}",
            hint="Raise the ResourceQuota, or use another namespace.",
            borne_s=_AT_ONCE_S,
        )
    reason = f": {state.reason}" if state.reason else ""
    yield Trouble(
        message=f"the operator says: {state.phase}{reason}",
        hint="The log of the operator says more: kubectl -n cnpg-system logs"
        " deployment/cnpg-controller-manager.",
        borne_s=_SHORTLY_S,
    )


def _full_quotas(api: KubernetesApi, namespace: str) -> Iterator[str]:
    """Yield what is used up of storage."""
    for quota in seen(api, QUOTA, namespace):
        status: Mapping[str, Any] = quota.get("status") or {}
        for resource, hard in (status.get("hard") or {}).items():
            used = (status.get("used") or {}).get(resource, "0")
            if "persistentvolumeclaims" in resource or resource.endswith("storage"):
                yield f"{quota['metadata']['name']} has {used} of {hard} {resource}"


def _of_claim(api: KubernetesApi, claim: Manifest) -> Iterator[Trouble]:
    ref = ref_of(claim)
    found = claim_obstacle(api, ref)
    if found is not None:
        absent = "not found" in found.message
        yield Trouble(
            message=found.message,
            hint="Name a storage class that is there; `kubectl get storageclass` lists them."
            if absent
            else found.hint,
            borne_s=_SHORTLY_S if absent else _WHILE_S,
        )
    elif (claim.get("status") or {}).get("phase") == "Pending":
        yield from _unanswered(api, ref)


def _unanswered(api: KubernetesApi, claim: ObjectRef) -> Iterator[Trouble]:
    """Yield that a provisioner was asked for a volume and nothing has come."""
    for event in _about(seen(api, EVENT, claim.namespace), CLAIM, claim.name):
        if event.get("reason") == "ExternalProvisioning":
            yield Trouble(
                message=f"{claim.label} gets no volume yet: {event.get('message')}",
                hint="Does the provisioner of the storage class run?",
            )
            return


def _of_job(api: KubernetesApi, job: Manifest, events: tuple[Manifest, ...]) -> Iterator[Trouble]:
    name, status = str(job["metadata"]["name"]), job.get("status") or {}
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    if (conditions.get("Failed") or {}).get("status") == "True" or status.get("failed"):
        said = _job_words(api, job)
        yield Trouble(
            message=f"its job {name} failed{f': {said}' if said else ''}",
            hint="Look at it with `kubectl describe job`.",
            borne_s=_SHORTLY_S,
        )
    made = status.get("active") or status.get("succeeded")
    for event in () if made else _about(events, JOB, name):
        if event.get("reason") == "FailedCreate":
            yield _refused_pod(str(event.get("message")))


def _of_quota(state: ClusterState, events: tuple[Manifest, ...]) -> Iterator[Trouble]:
    """Yield that the operator itself got no pod."""
    for event in _about(events, state.ref.kind, state.ref.name):
        if event.get("type") == "Warning" and "exceeded quota" in str(event.get("message")):
            yield _refused_pod(str(event["message"]))


def _refused_pod(message: str) -> Trouble:
    exceeded = "exceeded quota" in message
    return Trouble(
        message=f"its pod is refused: {message.removeprefix('Error creating: ')}",
        hint="Ask for less with `resources:`, raise the ResourceQuota, or use another namespace."
        if exceeded
        else "An admission rule of the cluster refuses it.",
        borne_s=_SHORTLY_S,
    )


def _of_pod(api: KubernetesApi, pod: Manifest) -> Iterator[Trouble]:
    status = pod.get("status") or {}
    gone = pod["metadata"].get("deletionTimestamp") or status.get("phase") == "Succeeded"
    if gone or is_ready(pod):
        return
    name = pod["metadata"]["name"]
    found = obstacle(pod)
    crashed = any(each.get("restartCount") for each in status.get("containerStatuses") or ())
    if crashed:
        said = f": {words}" if (words := _pod_words(api, pod)) else ""
        yield Trouble(
            message=f"the container of pod {name} ends again and again{said}",
            hint="`kubectl logs` shows the whole log.",
        )
    elif found is not None and not _ended_well(status):
        unpulled = "image cannot be pulled" in found.message
        yield Trouble(
            message=f"pod {name}: {found.message}",
            hint=found.hint,
            borne_s=_SHORTLY_S if unpulled or not found.passes else _WHILE_S,
        )


def _ended_well(status: Mapping[str, Any]) -> bool:
    """Return whether containers only ended as they were told: a restart is on its way."""
    states = [each.get("state") or {} for each in status.get("containerStatuses") or ()]
    ended = [state["terminated"] for state in states if state.get("terminated")]
    return bool(ended) and not any(each.get("exitCode") for each in ended)


def _job_words(api: KubernetesApi, job: Manifest) -> str:
    name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
    pods = api.list(POD, namespace, {"job-name": name})
    failed = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Failed"]
    return _pod_words(api, failed[-1]) if failed else ""


def _pod_words(api: KubernetesApi, pod: Manifest) -> str:
    where = ContainerRef(
        namespace=pod["metadata"]["namespace"],
        pod=pod["metadata"]["name"],
        container=pod["spec"]["containers"][0]["name"],
    )
    return words_of(api, where)


def words_of(api: KubernetesApi, where: ContainerRef) -> str:
    """Return why the server in a container ended; empty where nothing of it can be read."""
    try:
        return last_words(api.logs(where, lines=_LOG_LINES))
    except SteelyardError:
        return ""


def _about(events: tuple[Manifest, ...], kind: Kind, name: str) -> list[Manifest]:
    """Return the events of one object, newest first."""
    found = [
        event
        for event in events
        if (event.get("involvedObject") or {}).get("kind") == kind.name
        and (event.get("involvedObject") or {}).get("name") == name
    ]
    return sorted(found, key=lambda each: str(each.get("lastTimestamp") or ""), reverse=True)
