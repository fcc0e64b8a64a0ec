"""Pods of the Pod Security Standard `restricted`: written, waited for, and one that is short-lived.

Their status says why they do not run; the waiting tells what is in their way, and gives up with the
reason. Source of the standard: kubernetes.io/docs/concepts/security/pod-security-standards.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from steelyard.core.kubernetes import EVENT, PROBE, ContainerRef, Kind, Manifest, ObjectRef, ref_of
from steelyard.core.outside import Command, Completed
from steelyard.core.places import PodResources
from steelyard.core.wording import (
    PreflightError,
    PrivilegeError,
    SteelyardError,
    format_duration,
)
from steelyard.gateways.host import Clock, looks
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.places.kubernetes.belongings import Belongings
from steelyard.places.kubernetes.manifests import render_manifest

ANY_USER: Final = 26  # CloudNativePG's; any will do where the image names no numeric one
_HUGE: Final = "hugepages-"


def waiting_pod(
    container: str,
    image: str,
    *,
    lasts_s: int,
    user: int = ANY_USER,
    claim: str = "",
    read_only: bool = False,
    **more: object,
) -> dict[str, Any]:
    """Return a restricted pod that waits for commands, for so many seconds at most.

    Args:
        container: Its name.
        image: What runs in it, with `sleep`.
        lasts_s: Then it ends by itself.
        user: Numeric, and group.
        claim: Of a volume, which is at `/volume`; empty: it has none.
        read_only: The image's files cannot be written to.
        more: Further values of the template `waiting-pod`.
    """
    return render_manifest(
        __package__,
        "waiting-pod",
        container=container,
        image=image,
        lasts_s=lasts_s,
        user=user,
        claim=claim,
        read_only=read_only,
        **more,
    )


def claim_spec(size: str, storage_class: str | None) -> dict[str, Any]:
    """Return the spec of a claim of a volume that one node uses; without a class of the default."""
    chosen = {"storageClassName": storage_class} if storage_class else {}
    return {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        **chosen,
    }


def placing(node_selector: Sequence[tuple[str, str]], tolerations: str) -> dict[str, Any]:
    """Return the keys of a pod's spec that say to which nodes it goes; none where nothing does."""
    keys = {"nodeSelector": dict(node_selector), "tolerations": json.loads(tolerations)}
    return {key: value for key, value in keys.items() if value}


def resources_of(resources: PodResources) -> dict[str, dict[str, str]]:
    """Return requests and limits; where only one is given, the other is the same.

    Huge pages cannot be overcommitted: what one of the two says of them, the other says, too.
    Source: Kubernetes, 'Manage HugePages'.
    """
    requests, limits = dict(resources.requests), dict(resources.limits)
    if not requests and not limits:
        return {}
    pages = {k: v for k, v in {**requests, **limits}.items() if k.startswith(_HUGE)}
    return {
        "requests": {**(requests or limits), **pages},
        "limits": {**(limits or requests), **pages},
    }


def listed(
    api: KubernetesApi, kind: Kind, namespace: str = "", labels: Mapping[str, str] | None = None
) -> tuple[Manifest, ...]:
    """Return objects that only say more; nothing where this account may not see them."""
    try:
        return api.list(kind, namespace, labels)
    except PrivilegeError:
        return ()


def events_about(events: Iterable[Manifest], ref: ObjectRef, uid: str = "") -> list[Manifest]:
    """Return those events that are about an object, or the one of this uid, the newest first."""
    found = []
    for event in events:
        about = event.get("involvedObject") or {}
        is_named = (about.get("kind"), about.get("name")) == (ref.kind.name, ref.name)
        if is_named and (not uid or about.get("uid") == uid):
            found.append(event)
    when = ("lastTimestamp", "eventTime")
    return sorted(
        found, key=lambda event: str(next(filter(None, map(event.get, when)), "")), reverse=True
    )


def warnings_about(api: KubernetesApi, ref: ObjectRef, uid: str = "") -> list[Manifest]:
    """Return the events that warn of something about an object, the newest first."""
    events = events_about(listed(api, EVENT, ref.namespace), ref, uid)
    return [event for event in events if event.get("type") == "Warning"]


_NO_IMAGE: Final = frozenset({"ErrImageNeverPull", "ImagePullBackOff", "InvalidImageName"})
_PAST_IMAGE: Final = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
)
SAME_NODE_HINT: Final = (
    "Let them share the database's node with `generators: {same_node: true}` in the target, which"
    " the report then says; or add a node."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Why a pod does not run yet.

    Attributes:
        message: A sentence without the pod's name.
        hint: The way out.
        passes: It may pass by itself: the image is being pulled, a node may come.
    """

    message: str
    hint: str = ""
    passes: bool = False


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


_READY_S: Final = 600.0  # an image of some hundred MB may come over a slow line; a guess
_PASSES_S: Final = 120.0  # so long something may stay in the way that may pass; a guess
_PAUSES_S: Final = (0.3, 0.5, 1.0, 2.0)  # the last one again and again
_LAST_LINES: Final = 5


@dataclass(slots=True)
class _InTheWay:
    """What is in a pod's way, and since when."""

    since: float
    found: Obstacle | None = None


class ReadyWait:
    """Waits for pods.

    Args:
        told: Is told what is waited for, each time that it is something else.
        also: What else is in the way, which the pods' own status does not say.
    """

    def __init__(
        self,
        api: KubernetesApi,
        clock: Clock,
        told: Callable[[str], None],
        *,
        also: Callable[[], Obstacle | None] = lambda: None,
    ) -> None:
        self._api = api
        self._clock = clock
        self._told = told
        self._also = also
        self._seen: dict[str, _InTheWay] = {}

    def until_ready(self, pods: Sequence[ObjectRef]) -> tuple[Manifest, ...]:
        """Return the pods as they are once all are ready.

        Raises:
            PreflightError: One cannot be, or is not after ten minutes.
        """
        begun = self._clock.monotonic()
        for _ in looks(self._clock, _READY_S, *_PAUSES_S):
            found = [self._look(ref) for ref in pods]
            if all(map(is_ready, found)):
                return tuple(found)
        names, waited_s = ", ".join(ref.name for ref in pods), self._clock.monotonic() - begun
        raise PreflightError(
            f"pods {names} are not ready after {format_duration(waited_s)}",
            hint="`kubectl describe pod` says what they wait for.",
        )

    def _look(self, ref: ObjectRef) -> Manifest:
        pod = self._api.read(ref)
        if pod is None:
            raise PreflightError(
                f"{ref.label} was deleted before it was ready",
                hint="Who else works in this namespace? Run the campaign again.",
            )
        if not is_ready(pod):
            self._judge(ref, pod)
        return pod

    def _judge(self, ref: ObjectRef, pod: Manifest) -> None:
        """Tell what is in a pod's way, and give up where it does not pass."""
        now, found = self._clock.monotonic(), self._also() or obstacle(pod)
        seen = self._seen.setdefault(ref.name, _InTheWay(since=now))
        if found is None:
            seen.found = None
            return
        if seen.found is None or seen.found.message != found.message:
            seen.since = now if seen.found is None else seen.since
            seen.found = found
            self._told(f"pod {ref.name}: {found.message}")
        if not found.passes or now - seen.since > _PASSES_S:
            raise self._refusal(ref, pod, found)

    def _refusal(self, ref: ObjectRef, pod: Manifest, found: Obstacle) -> PreflightError:
        said = self._last_lines(ref, pod)
        return PreflightError(
            f"{ref.label} does not run: {found.message}{f'; it said: {said}' if said else ''}",
            hint=found.hint,
        )

    def _last_lines(self, ref: ObjectRef, pod: Manifest) -> str:
        """Return the end of what a pod printed that has ended; empty where there is nothing."""
        if (pod.get("status") or {}).get("phase") not in {"Failed", "Succeeded"}:
            return ""
        where = ContainerRef(
            namespace=ref.namespace,
            pod=ref.name,
            container=str(pod["spec"]["containers"][0]["name"]),
        )
        try:
            return " / ".join(self._api.logs(where, lines=_LAST_LINES).strip().splitlines())
        except SteelyardError:  # an evicted pod has none any more
            return ""


_PASSWORDS: Final = frozenset({"PGPASSWORD", "REDISCLI_AUTH"})


class ShortProcesses:
    """Runs short programs in a container; they die with the connection."""

    def __init__(self, api: KubernetesApi, where: ContainerRef) -> None:
        self._api = api
        self._where = where

    def run(self, command: Command, *, timeout_s: float, stdin: str = "") -> Completed:
        """Run a command to its end and return what it printed; it gets no password."""
        variables = [
            f"{name}={value}"
            for name, value in command.environment.items()
            if name not in _PASSWORDS
        ]
        argv = ("env", *variables, *command.argv) if variables else command.argv
        return self._api.run(self._where, argv, timeout_s=timeout_s, stdin=stdin)


_IMAGE: Final = "image"
_ASKED_WITHIN_S: Final = 600
_SMALL: Final = {"cpu": "100m", "memory": "128Mi"}


@contextmanager
def image_pod(
    belongings: Belongings, image: str, clock: Clock, told: Callable[[str], None]
) -> Iterator[ShortProcesses]:
    """Yield what runs programs of an image; its pod is removed at the end.

    Raises:
        PreflightError: The image is not found, or the pod cannot run.
    """
    manifest = waiting_pod(
        _IMAGE,
        image,
        lasts_s=_ASKED_WITHIN_S,
        name=belongings.name("image"),
        requests=_SMALL,
        limits=_SMALL,
    )
    told(f"asking the image {image} what it is")
    ref = ref_of(belongings.completed(manifest))
    try:
        belongings.make(manifest, role=PROBE)
        (pod,) = ReadyWait(belongings.api, clock, told).until_ready([ref])
        metadata = pod["metadata"]
        where = ContainerRef(
            namespace=metadata["namespace"], pod=metadata["name"], container=_IMAGE
        )
        yield ShortProcesses(belongings.api, where)
    finally:
        belongings.remove(ref, grace_s=0)
