"""What a pod's status says: why it does not run yet, and why it does not run any more."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from steelyard.model.errors import MeasurementError
from steelyard.model.kubernetes import Manifest

_NO_IMAGE: Final = frozenset({"ErrImageNeverPull", "ImagePullBackOff", "InvalidImageName"})
_ROOT_MARK: Final = "runAsNonRoot"  # in the kubelet's words for an image without a numeric user
_PAST_IMAGE: Final = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
)
DELETED: Final = "was deleted"
SAME_NODE_HINT: Final = (
    "Let them share the database's node with `generators: {same_node: true}` in the target, which"
    " the report then says; or add a node."
)


class PodLostError(MeasurementError):
    """A pod that a measurement needs is gone, or works no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Why a pod does not run yet.

    Attributes:
        message: A sentence without the pod's name.
        hint: The way out.
        passes: It may pass by itself: the image is being pulled, a node may come.
        lacks_user: The image says no numeric user, so the kubelet cannot know that it is not root.
    """

    message: str
    hint: str = ""
    passes: bool = False
    lacks_user: bool = False


def is_ready(pod: Manifest) -> bool:
    """Return whether a pod runs and all its containers do."""
    status = _status(pod)
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    return status.get("phase") == "Running" and conditions.get("Ready") == "True"


def obstacle(pod: Manifest) -> Obstacle | None:
    """Return why a pod does not run yet; None where nothing is known to be in its way."""
    status = _status(pod)
    if status.get("phase") == "Failed":
        return Obstacle(message=_failure(status), hint="The cluster's events say more.")
    for each in status.get("conditions") or ():
        if each["type"] == "PodScheduled" and each.get("reason") == "Unschedulable":
            return _unschedulable(str(each.get("message", "")))
    initial = {each["name"] for each in status.get("initContainerStatuses") or ()}
    for container in _containers(status):
        ended = (container.get("state") or {}).get("terminated")
        if ended is not None and container["name"] in initial and not ended.get("exitCode"):
            continue  # it did what it was there for
        if ended is not None:
            return Obstacle(message=f"its container {_ending(ended)}")
        waiting = (container.get("state") or {}).get("waiting") or {}
        found = _waiting(str(waiting.get("reason", "")), str(waiting.get("message", "")))
        if found is not None:
            return found
    return None


def _waiting(reason: str, message: str) -> Obstacle | None:
    if reason in _NO_IMAGE or reason == "ErrImagePull":
        return Obstacle(
            message=f"its image cannot be pulled: {message or reason}",
            hint="Check the image's name; a private registry needs imagePullSecrets in the"
            " namespace's default ServiceAccount.",
            passes=reason == "ErrImagePull",
        )
    if reason in _PAST_IMAGE or reason == "CrashLoopBackOff":
        return Obstacle(
            message=f"its container cannot be started: {message or reason}",
            lacks_user=_ROOT_MARK in message,
        )
    return None


def _unschedulable(message: str) -> Obstacle:
    if "anti-affinity" in message:
        hint = SAME_NODE_HINT
    elif "Insufficient" in message:
        hint = "Ask for less with `resources:`, or make room on a node."
    elif "PersistentVolumeClaim" in message or "persistentvolumeclaim" in message:
        hint = "Look at the claim with `kubectl describe pvc`; does its storage class exist?"
    else:
        hint = "Check `node_selector:` and `tolerations:` against the nodes."
    return Obstacle(message=f"no node takes it: {message}", hint=hint, passes=True)


def loss(pod: Manifest | None, *, uid: str = "") -> str:
    """Return why a pod that was ready works no more; empty where it does.

    Args:
        pod: As it is now; None where it is gone.
        uid: Of the pod that was ready; another one of its name is not that pod.
    """
    if pod is None or (uid and pod["metadata"].get("uid") != uid):
        return DELETED
    status = _status(pod)
    if status.get("reason"):
        return f"ended: {_failure(status)}"
    return _eviction(status) or (
        DELETED  # in a moment
        if pod["metadata"].get("deletionTimestamp")
        else _end(status)
    )


def _eviction(status: Mapping[str, Any]) -> str:
    for each in status.get("conditions") or ():
        if each["type"] == "DisruptionTarget" and each["status"] == "True":
            said = each.get("message") or each.get("reason") or "no reason is given"
            return f"was evicted: {said}"
    return ""


def _end(status: Mapping[str, Any]) -> str:
    if status.get("phase") in {"Failed", "Succeeded"}:
        return f"ended: {_failure(status)}"
    for container in _containers(status):
        ended = (container.get("state") or {}).get("terminated")
        if ended is not None:
            return f"ended: its container {_ending(ended)}"
    return ""


def _failure(status: Mapping[str, Any]) -> str:
    said = ": ".join(filter(None, (status.get("reason"), status.get("message"))))
    if said:
        return said
    endings = [
        _ending(ended)
        for container in _containers(status)
        if (ended := (container.get("state") or {}).get("terminated")) and ended.get("exitCode", 1)
    ]
    return f"its container {'; '.join(endings)}" if endings else "it failed"


def _ending(terminated: Mapping[str, Any]) -> str:
    if terminated.get("reason") == "OOMKilled":
        return "was killed because it needed more memory than its limit"
    said = terminated.get("message")
    return f"ended with status {terminated.get('exitCode')}" + (f": {said}" if said else "")


def _status(pod: Manifest) -> Mapping[str, Any]:
    return pod.get("status") or {}


def _containers(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()
