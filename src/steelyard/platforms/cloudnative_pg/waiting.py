"""Waiting for a Cluster: progress is told, and what is stuck ends it with the reason."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from steelyard.gateways.clock import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.model.errors import TargetError
from steelyard.model.kubernetes import JOB, ObjectRef
from steelyard.model.units import format_duration
from steelyard.platforms.cloudnative_pg.diagnosis import Trouble, seen, trouble_of
from steelyard.platforms.cloudnative_pg.state import OF_CLUSTER, ClusterState, look

MADE_WITHIN_S: Final = 1800.0  # a large volume, a large image, a base backup; a guess
ROLLED_WITHIN_S: Final = 900.0  # the operator gives a smart shutdown three minutes; a guess
_PAUSES_S: Final = (0.3, 0.5, 0.5, 1.0)  # the last one again and again
_ASKED_EVERY_S: Final = 5.0  # what is stuck takes several lists to see
_SLOW_JOIN_S: Final = 60.0
QUIET_S: Final = 20.0  # a restart of a small server takes less


@dataclass(slots=True)
class _Borne:
    """A trouble, and since when it is there."""

    since: float
    trouble: Trouble | None = None
    asked_at: float | None = None


class ClusterWait:
    """Waits for Clusters.

    Args:
        told: Takes a sentence each time that something else is waited for.
    """

    def __init__(self, api: KubernetesApi, clock: Clock, told: Callable[[str], None]) -> None:
        self._api = api
        self._clock = clock
        self._told = told
        self._last = ""

    def until(
        self,
        ref: ObjectRef,
        is_over: Callable[[ClusterState], bool],
        *,
        most_s: float,
        quiet_s: float = 0.0,
    ) -> ClusterState:
        """Return the Cluster as it is once something holds of it.

        Args:
            ref: The Cluster.
            is_over: Whether it does; may raise what ends the wait.
            most_s: After so long nobody waits any more.
            quiet_s: So long nothing is told: what happens at every visit is no news.

        Raises:
            TargetError: It is gone, or something is stuck, or it took too long.
        """
        begun, borne = self._clock.monotonic(), _Borne(since=self._clock.monotonic())
        pauses, pause_s = iter(_PAUSES_S), 0.0
        while True:
            state = self._look(ref)
            if is_over(state):
                return state
            waited_s = self._clock.monotonic() - begun
            if waited_s >= quiet_s:
                self._tell(state, waited_s)
            self._judge(state, borne)
            if waited_s > most_s:
                raise self._refusal(state, borne.trouble, waited_s)
            pause_s = next(pauses, pause_s)
            self._clock.sleep(pause_s)

    def _look(self, ref: ObjectRef) -> ClusterState:
        state = look(self._api, ref)
        if state is None:
            raise TargetError(
                f"{ref.label} is not there", hint="Did somebody delete it while it was needed?"
            )
        return state

    def _tell(self, state: ClusterState, waited_s: float) -> None:
        if state.is_healthy:  # yet; the operator has not seen what is wanted
            return
        said = f"Cluster {state.ref.name}: {state.progress}"
        if "join" in state.reason and waited_s > _SLOW_JOIN_S:
            said += "; the base backup of a replica begins with a checkpoint of the primary"
        self._say(said)

    def _say(self, said: str) -> None:
        if said != self._last:
            self._told(said)
            self._last = said

    def _judge(self, state: ClusterState, borne: _Borne) -> None:
        """Look for what is stuck, now and then, and give up where it lasts.

        Raises:
            TargetError: With what it is.
        """
        now = self._clock.monotonic()
        if borne.asked_at is not None and now - borne.asked_at < _ASKED_EVERY_S:
            return
        borne.asked_at = now
        found = trouble_of(self._api, state)
        if found is None:
            borne.trouble = None
            return
        if borne.trouble is None:
            borne.since = now
        borne.trouble = found
        self._say(f"Cluster {state.ref.name}: {found.message}")
        if now - borne.since >= found.borne_s:
            raise self._refusal(state, found, None)

    def _refusal(
        self, state: ClusterState, trouble: Trouble | None, waited_s: float | None
    ) -> TargetError:
        if trouble is not None:
            return TargetError(
                f"{state.ref.label} does not become healthy: {trouble.message}", hint=trouble.hint
            )
        after = "" if waited_s is None else f" after {format_duration(waited_s)}"
        return TargetError(
            f"{state.ref.label} is not healthy{after}: {state.progress}{self._joining(state)}",
            hint=f"`kubectl -n {state.ref.namespace} describe cluster {state.ref.name}` and the log"
            " of the operator say more.",
        )

    def _joining(self, state: ClusterState) -> str:
        """Return which replica is still being made."""
        labels = {OF_CLUSTER: state.ref.name}
        jobs = [
            str(job["metadata"]["name"])
            for job in seen(self._api, JOB, state.ref.namespace, labels)
            if (job.get("status") or {}).get("active")
        ]
        return f"; its job {', '.join(jobs)} goes on" if jobs else ""
