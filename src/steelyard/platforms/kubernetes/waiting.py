"""Waiting until pods are ready, telling what is in their way, and giving up with the reason."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.gateways.clock import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.model.errors import PreflightError, SteelyardError
from steelyard.model.kubernetes import ContainerRef, Manifest, ObjectRef
from steelyard.model.units import format_duration
from steelyard.platforms.kubernetes.pod_state import Obstacle, is_ready, obstacle

_READY_S: Final = 600.0  # an image of some hundred MB may come over a slow line; a guess
_PASSES_S: Final = 120.0  # so long something may stay in the way that may pass; a guess
_PAUSES_S: Final = (0.3, 0.5, 1.0, 2.0)  # the last one again and again
_LAST_LINES: Final = 5


class UserNeededError(PreflightError):
    """The kubelet wants to be told a user, because the image names no numeric one."""


@dataclass(slots=True)
class _InTheWay:
    """What is in a pod's way, and since when."""

    since: float
    found: Obstacle | None = None


class ReadyWait:
    """Waits for pods.

    Args:
        api: The cluster.
        clock: Ours.
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
        pauses, pause_s = iter(_PAUSES_S), 0.0
        while True:
            found = [self._look(ref) for ref in pods]
            ready = [pod for pod in found if pod is not None and is_ready(pod)]
            if len(ready) == len(pods):
                return tuple(ready)
            waited_s = self._clock.monotonic() - begun
            if waited_s > _READY_S:
                names = ", ".join(ref.name for ref in pods)
                raise PreflightError(
                    f"pods {names} are not ready after {format_duration(waited_s)}",
                    hint="`kubectl describe pod` says what they wait for.",
                )
            pause_s = next(pauses, pause_s)
            self._clock.sleep(pause_s)

    def _look(self, ref: ObjectRef) -> Manifest | None:
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
        """Tell what is in a pod's way, and give up where it does not pass.

        Raises:
            PreflightError: With the reason.
        """
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
        kind = UserNeededError if found.lacks_user else PreflightError
        said = self._last_lines(ref, pod)
        return kind(
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
