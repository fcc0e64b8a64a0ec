"""Starting the pod of a StatefulSet anew, and knowing that it is the new one and serves.

The set gets what the new pod is; then the old pod is deleted, and the set makes another. What tells
the new one is an annotation that no other start has.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from steelyard.gateways.clock import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.model.errors import PreflightError, PrivilegeError, TargetError
from steelyard.model.kubernetes import EVENT, ContainerRef, Manifest
from steelyard.model.units import format_duration
from steelyard.platforms.kubernetes.belongings import Belongings
from steelyard.platforms.kubernetes.claims import claim_obstacle
from steelyard.platforms.kubernetes.waiting import ReadyWait
from steelyard.platforms.redis_kubernetes.manifest import (
    CHANGE,
    CONTAINER,
    ServerAsked,
    ServerStart,
    set_manifest,
)
from steelyard.platforms.redis_kubernetes.server_words import complaint_in

_REPLACED_WITHIN_S: Final = 180.0  # a node may take its time to end a pod; a guess
_PAUSES_S: Final = (0.2, 0.3, 0.5, 1.0)  # the last one again and again
_WARNED_S: Final = 20.0  # a pod that is refused for so long will not come; a guess
_LOOKED_EVERY_S: Final = 5.0
_AT_ONCE_S: Final = 1  # data that are brought back need no orderly end
_LOG_LINES: Final = 40


@dataclass(slots=True, kw_only=True)
class _Warned:
    """What the cluster warns of a set, and since when."""

    looked_at: float
    said: str = ""
    since: float = 0.0

    def lasts(self, now: float) -> bool:
        """Return whether it has been said for so long that it will not pass."""
        return bool(self.said) and now - self.since >= _WARNED_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """Starts the servers of one campaign.

    Attributes:
        told: Takes a sentence of progress.
    """

    api: KubernetesApi
    belongings: Belongings
    clock: Clock
    told: Callable[[str], None]

    def start(self, asked: ServerAsked, start: ServerStart) -> Manifest:
        """Make a server, or start it anew; return its pod once it serves.

        Raises:
            TargetError: It does not start, for a reason that is told.
        """
        made = self.belongings.make(set_manifest(asked, start))
        self._await_seen(asked, int(made["metadata"].get("generation") or 0))
        self._replace(asked, start)
        # Every visit starts the pod, so only what keeps it from that is news.
        wait = ReadyWait(
            self.api, self.clock, self.told, also=lambda: claim_obstacle(self.api, asked.claim)
        )
        try:
            return wait.until_ready([asked.pod])[0]
        except PreflightError as error:
            said = self._said(asked)
            message = f"{error.message}{f'; it says: {said}' if said else ''}"
            raise TargetError(message, hint=error.hint) from error

    def _await_seen(self, asked: ServerAsked, generation: int) -> None:
        """Wait until the cluster makes pods by what was written last."""

        def is_seen() -> bool:
            found = self.api.read(asked.ref) or {}
            return int((found.get("status") or {}).get("observedGeneration") or 0) >= generation

        self._until(is_seen, asked, "is not looked after by the cluster")

    def _replace(self, asked: ServerAsked, start: ServerStart) -> None:
        """Delete the pod of another start, and wait for that of this one."""
        deleted: set[str] = set()

        def is_new() -> bool:
            pod = self.api.read(asked.pod)
            if pod is None:
                return False
            metadata = pod["metadata"]
            if (metadata.get("annotations") or {}).get(CHANGE) == start.change:
                return True
            uid = str(metadata["uid"])
            if uid not in deleted and not metadata.get("deletionTimestamp"):
                self.api.delete(asked.pod, grace_s=_AT_ONCE_S if start.restore else None)
                deleted.add(uid)
            return False

        self._until(is_new, asked, "gets no new pod")

    def _until(self, holds: Callable[[], bool], asked: ServerAsked, otherwise: str) -> None:
        """Wait until something holds.

        Raises:
            TargetError: It does not in time, or the cluster says for a while why it will not.
        """
        begun = self.clock.monotonic()
        warned = _Warned(looked_at=begun)
        pauses, pause_s = iter(_PAUSES_S), 0.0
        while not holds():
            now = self.clock.monotonic()
            self._look_for_warnings(asked, warned, now)
            if now - begun > _REPLACED_WITHIN_S or warned.lasts(now):
                said = f": {warned.said}" if warned.said else ""
                raise TargetError(
                    f"{asked.ref.label} {otherwise} within {format_duration(now - begun)}{said}",
                    hint="`kubectl describe` says more of the set and its pod.",
                )
            pause_s = next(pauses, pause_s)
            self.clock.sleep(pause_s)

    def _look_for_warnings(self, asked: ServerAsked, warned: "_Warned", now: float) -> None:
        """Ask now and then what the cluster warns of the set, and tell it once."""
        if now - warned.looked_at < _LOOKED_EVERY_S:
            return
        warned.looked_at = now
        said = self._warning(asked)
        if said and not warned.said:
            warned.since = now
            self.told(f"Redis server {asked.name}: {said}")
        warned.said = said

    def _warning(self, asked: ServerAsked) -> str:
        """Return the last thing that the cluster warns of the set: a quota, a policy."""
        try:
            events = self.api.list(EVENT, asked.namespace)
        except PrivilegeError:
            return ""
        found = [event for event in events if _is_warning_of(event, asked)]
        found.sort(key=lambda e: str(e.get("lastTimestamp") or e.get("eventTime") or ""))
        return str(found[-1].get("message") or "") if found else ""

    def _said(self, asked: ServerAsked) -> str:
        where = ContainerRef(namespace=asked.namespace, pod=asked.pod.name, container=CONTAINER)
        try:
            return complaint_in(self.api.logs(where, lines=_LOG_LINES))
        except (TargetError, PrivilegeError):  # it never began, or nobody may ask
            return ""


def _is_warning_of(event: dict[str, Any] | Manifest, asked: ServerAsked) -> bool:
    about = event["involvedObject"]
    named = (about.get("kind"), about.get("name"))
    return event.get("type") == "Warning" and named == (asked.ref.kind.name, asked.ref.name)
