"""Finding the campaigns that run in a cluster, by their labels, and how they stand.

A container that sees the record: that of the Job while it runs, else that of a reader.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from steelyard.core.errors import InputError, PreflightError, RecordError
from steelyard.core.kubernetes import (
    CLAIM,
    CONFIG_MAP,
    EVENT,
    JOB,
    MANAGED_BY,
    MANAGER,
    POD,
    ROLE,
    RUNNER,
    ContainerRef,
    Manifest,
    ObjectRef,
    campaign_labels,
    ref_of,
)
from steelyard.gateways.clock import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.places.job import manifests
from steelyard.places.job.manifests import (
    CONTAINER,
    KEPT_IN,
    PLAN_KEY,
    JobPlan,
    read_plan,
    remove_one,
)
from steelyard.places.job.record_files import RecordFiles
from steelyard.places.kubernetes.pod_state import ReadyWait, obstacle

_DEADLINE: Final = "DeadlineExceeded"
_RUNNERS: Final = {MANAGED_BY: MANAGER, ROLE: RUNNER}


class Stand(StrEnum):
    """How the Job of a campaign stands."""

    WAITING = "waiting"  # no pod of it runs yet
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    GONE = "gone"  # there is only the volume with the record


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a campaign in the cluster stands.

    Attributes:
        pod: Its container, while it runs.
        last: Its container, also when it has ended, as long as its log is there.
        exit_code: Of Steelyard in the pod that ended; None: not known.
        reason: Why it waits or failed, in words; empty where there is nothing to tell.
    """

    stand: Stand
    pod: ContainerRef | None = None
    last: ContainerRef | None = None
    exit_code: int | None = None
    reason: str = ""

    @property
    def is_over(self) -> bool:
        """Return whether no pod of it works, or will."""
        return self.stand in {Stand.DONE, Stand.FAILED, Stand.GONE}


def find(api: KubernetesApi, namespace: str = "") -> tuple[JobPlan, ...]:
    """Return the campaigns with a record in a namespace, or in all, oldest first.

    Raises:
        RecordError: All that are there were started by another version of Steelyard.
    """
    found = api.list(CLAIM, namespace, _RUNNERS)
    ordered = sorted(found, key=lambda each: str(each["metadata"].get("creationTimestamp")))
    plans, unreadable = [], []
    for each in ordered:
        try:
            plan = _plan_of(each, api)
        except RecordError as error:
            unreadable.append(error)
        else:
            plans += [] if plan is None else [plan]
    if unreadable and not plans:
        raise unreadable[0]
    return tuple(plans)


def choose(plans: tuple[JobPlan, ...], name: str | None) -> JobPlan:
    """Return the campaign that is meant: by its id, or a part of it that no other has.

    Raises:
        InputError: There is none, or more than one.
    """
    meant = [plan for plan in plans if name is None or name == plan.campaign_id]
    if not meant and name is not None:
        meant = [plan for plan in plans if name in plan.campaign_id]
    if len(meant) == 1:
        return meant[0]
    if not meant:
        known = ", ".join(plan.campaign_id for plan in plans)
        wanted = "no campaign runs" if name is None else f"no campaign {name} runs"
        hint = f"There is {known}." if known else "Name its namespace with -n."
        raise InputError(f"{wanted} in the cluster", hint=hint)
    listed = "\n".join(f"  {plan.campaign_id} in {plan.namespace}" for plan in meant)
    raise InputError(
        f"{len(meant)} campaigns are meant:\n{listed}", hint="Name one: steelyard attach NAME"
    )


def standing(plan: JobPlan, api: KubernetesApi) -> Standing:
    """Return how a campaign stands now."""
    job = api.read(ObjectRef(kind=JOB, name=plan.name, namespace=plan.namespace))
    pod = _newest_pod(plan, api)
    last, exit_code = _container(pod), _exit_code(pod)
    if job is None:
        return Standing(stand=Stand.GONE, last=last, exit_code=exit_code)
    said = {
        each["type"]: each
        for each in (job.get("status") or {}).get("conditions") or ()
        if each["status"] == "True"
    }
    if "Complete" in said:
        return Standing(stand=Stand.DONE, last=last, exit_code=exit_code)
    if "Failed" in said:
        reason = _why(said["Failed"])
        return Standing(stand=Stand.FAILED, last=last, exit_code=exit_code, reason=reason)
    if pod is not None and not said and (pod.get("status") or {}).get("phase") == "Running":
        return Standing(stand=Stand.RUNNING, pod=last, last=last)
    # One that is about to end says so before it has.
    return Standing(stand=Stand.WAITING, reason="" if said else _waits_for(job, pod, api))


def _waits_for(job: Manifest, pod: Manifest | None, api: KubernetesApi) -> str:
    """Return what keeps a Job from running; empty where the cluster does not say."""
    if pod is None:
        return _last_event(job, api)
    found = obstacle(pod)
    if found is None:
        return _last_event(pod, api)
    return f"pod {pod['metadata']['name']}: {found.message}"


def _container(pod: Manifest | None) -> ContainerRef | None:
    if pod is None:
        return None
    metadata = pod["metadata"]
    return ContainerRef(namespace=metadata["namespace"], pod=metadata["name"], container=CONTAINER)


def _plan_of(claim: Manifest, api: KubernetesApi) -> JobPlan | None:
    metadata = claim["metadata"]
    name = (metadata.get("annotations") or {}).get(KEPT_IN, "")
    place = ObjectRef(kind=CONFIG_MAP, name=name, namespace=metadata["namespace"])
    kept = api.read(place) if name else None
    return None if kept is None else read_plan(kept["data"][PLAN_KEY], name)


def _newest_pod(plan: JobPlan, api: KubernetesApi) -> Manifest | None:
    found = api.list(POD, plan.namespace, campaign_labels(plan.campaign_id, RUNNER))
    pods = sorted(found, key=lambda pod: str(pod["metadata"].get("creationTimestamp")))
    return pods[-1] if pods else None


def _exit_code(pod: Manifest | None) -> int | None:
    status: Mapping[str, Any] = (pod or {}).get("status") or {}
    for container in status.get("containerStatuses") or ():
        ended = (container.get("state") or {}).get("terminated")
        if ended:
            return int(ended["exitCode"])
    return None


def _why(condition: Mapping[str, str]) -> str:
    if condition.get("reason") == _DEADLINE:
        return "it took longer than its deadline allows"
    return condition.get("message") or condition.get("reason") or ""


def _last_event(of: Manifest, api: KubernetesApi) -> str:
    """Return the last warning about an object; empty where there is none, or it may not be seen."""
    metadata = of["metadata"]
    if not api.allowed("list", EVENT, metadata["namespace"]):
        return ""
    said = [
        event
        for event in api.list(EVENT, metadata["namespace"])
        if event.get("involvedObject", {}).get("uid") == metadata["uid"]
        and event.get("type") == "Warning"
    ]
    said.sort(key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime")))
    return str(said[-1].get("message") or "") if said else ""


@contextmanager
def record_files(
    plan: JobPlan, api: KubernetesApi, clock: Clock, told: Callable[[str], None]
) -> Iterator[RecordFiles]:
    """Give the files of a campaign's record; a pod made for that is removed afterwards.

    Raises:
        PreflightError: The volume is gone, or no pod comes up.
    """
    running = standing(plan, api).pod
    if running is not None:
        yield RecordFiles(api, running, manifests.RECORD)
        return
    place = ObjectRef(kind=POD, name=plan.reader, namespace=plan.namespace)
    remove_one(place, plan, api, clock)  # one of an attach that was killed has little time left
    try:
        yield RecordFiles(api, _reader(plan, api, clock, told), manifests.RECORD)
    finally:
        remove_one(place, plan, api, clock)


def _reader(
    plan: JobPlan, api: KubernetesApi, clock: Clock, told: Callable[[str], None]
) -> ContainerRef:
    claim = ObjectRef(kind=CLAIM, name=plan.claim, namespace=plan.namespace)
    owner = api.read(claim)
    if owner is None:
        raise PreflightError(
            f"{claim.label} is not there: the record is gone with it",
            hint="Start the campaign anew.",
        )
    place = ref_of(api.apply(manifests.owned(manifests.reader(plan), owner)))
    ReadyWait(api, clock, told).until_ready([place])
    return ContainerRef(namespace=plan.namespace, pod=plan.reader, container=manifests.CONTAINER)
